"""The user of docs/security.md has the rights for all that frontier does."""

import json
import re
from pathlib import Path

import pytest
from conftest import Cluster, until

from tests.topologies import Process, free_ports

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
pytestmark = pytest.mark.one_server("the user is made on a server of the test's own")


def rights():
    """The words of the page's commands after the user's name, each line a command."""
    lines = re.findall(
        r"^ACL SETUSER crawler (.+)$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert all(line[-1] != "\\" for line in lines)  # redis-cli takes no such thing
    return " ".join(lines).split()


@pytest.fixture
def limited(binary, tmp_path):
    """The address of a server, as that user."""
    (port,) = free_ports(1)
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "")
    server = Process(binary("redis-7"), tmp_path / "server", port, port, *options)
    server.launch()
    server.wait()
    server.ask("ACL", "SETUSER", "crawler", *rights())
    yield f"redis://crawler:PASSWORD@127.0.0.1:{port}/0"
    server.kill()


@pytest.fixture
def limited_cluster(limited, tmp_path):
    made = Cluster(tmp_path, url=limited)
    yield made
    made.close()


def test_documented_store_user_has_every_right_frontier_needs(
    limited_cluster, serve, tmp_path
):
    cluster, server = limited_cluster, serve(urls=130, hosts=4, calendar_months=2)
    journal, export = tmp_path / "j", tmp_path / "seen.export"
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"resources": []}))
    settings = {
        "FRONTIER_LEASE_TTL": "6",
        "FRONTIER_STORE_WAIT": "30",
        "FRONTIER_JOURNAL_DIR": journal,
        "FRONTIER_HOST_MAX_PAGES": "1000",
        "FRONTIER_SEEN_SET_MAX_BYTES": "2000",
        "FRONTIER_STORE_WAIT_REPLICAS": "0",
        "FRONTIER_WACZ_DIR": tmp_path / "wacz",
        "FRONTIER_RUN_ID": "run",
        "CLOSESPIDER_PAGECOUNT": "100000",
        "FRONTIER_KEEP_ALIVE": "True",
    }

    def do(*words, code=0):
        done = cluster.ask(*words)
        assert "may not do" not in done.stdout + done.stderr, words
        assert done.returncode == code, (words, done.stderr)

    def start(node, **more):
        seeds = ",".join(server.seeds)
        cluster.start(node, "-a", f"seeds={seeds}", **{**settings, **more})
        cluster.join(node)

    start("node-1")
    start("node-2")
    until(lambda: sum(log_of(server).values()) > 30, "pages")
    cluster.kill("node-2")
    do("crawl", "seed", server.seeds[0] + "nothing")
    until(lambda: not server.expected - set(log_of(server)), "all pages")
    start("node-3")
    for words in (
        ("crawl", "status", "--json"),
        ("crawl", "status", "--nodes"),
        ("crawl", "dead"),
        ("crawl", "requeue", "--all"),
        ("node", "drain", "node-1"),
    ):
        do(*words)
    cluster.finish("node-1")
    do("seen", "export", str(export), "--crawl", "site-1")
    do("seen", "forget", server.seeds[0], "--crawl", "site-1", "--yes")
    do("crawl", "end", "--discard", "--crawl", "site-1", "--yes")
    cluster.finish("node-3")
    do("crawl", "end", "--crawl", "site-1", "--remove-frontier", "--yes")
    start("node-4", FRONTIER_KEEP_ALIVE="False", FRONTIER_RUN_ID="next")
    cluster.finish("node-4")
    do("seen", "import", str(export), "--new", "again")
    for words in (
        ("crawl", "end", "--crawl", "again", "--remove-frontier", "--yes"),
        ("crawl", "list"),
        ("collection", "list"),
        ("collection", "status"),
        ("collection", "check"),
        ("collection", "import", str(cluster.warc_dir), "--crawl", "old"),
        ("collection", "commit", "--crawl", "site-2"),
        ("collection", "purge", str(manifest), "--yes", "--force"),
    ):
        do(*words)
    for node in cluster.nodes:
        assert "may not do" not in cluster.text_of(node)
    assert "new URLs" in cluster.ask("crawl", "status", "--crawl", "site-2").stdout


def log_of(server):
    log = server.requests()
    return log.fetched() if log else {}
