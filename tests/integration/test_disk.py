"""A disk that is full while nodes crawl: a real file system of 60 kB."""

import gzip
import json
import random
import resource
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import until

from tests.rawsite import RawSite, answer
from tests.warc.judges import read_fastwarc, read_warcio

SIZE = "60k"


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", disk]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def remount(disk, options):
    command = ["mount", "-o", f"remount,{options}", disk]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    "trouble",
    [
        "full",
        "full to its end",
        "read-only",
        "what is to stay free",
        "items",
        "items to their end",
        "gzip",
    ],
)
def test_a_crawl_waits_for_its_disk_and_loses_nothing(
    small_disk, tmp_path, cluster, trouble
):
    noise = random.Random(0)
    bodies = {f"/{n}": b"<title>" + noise.randbytes(4000) for n in range(80)}
    ends = trouble == "full" or " end" in trouble
    of_feed = "items" in trouble or trouble == "gzip"
    kinds = ["Content-Type: text/html"] if ends or of_feed else []
    pages = {path: answer(body, *kinds) for path, body in bodies.items()}
    site = RawSite(pages)
    items = small_disk / "items.jsonl" if of_feed else tmp_path / "items"
    if not of_feed:
        cluster.warc_dir = small_disk
    if trouble == "read-only":
        remount(small_disk, "ro,size=10M")
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"{site.url(path)}\n" for path in pages))
    least = "30000" if "free" in trouble else "0"
    settings = {"ROBOTSTXT_OBEY": "0", "CONCURRENT_REQUESTS": "4"}
    settings["FRONTIER_WARC_MIN_FREE_BYTES"] = least
    feed, read = {"format": "jsonlines"}, open
    if trouble == "gzip":
        feed["postprocessing"] = ["scrapy.extensions.postprocessing.GzipPlugin"]
        read = gzip.open
    settings["FEEDS"] = json.dumps({str(items): feed})
    words = ("n1", "-a", f"seeds={seeds}")
    cluster.start(*words, **settings)
    try:
        complaint = f"files in {small_disk} cannot be written"
        if of_feed:
            complaint = "of a feed cannot be written: [Errno"
        until(lambda: complaint in cluster.text_of("n1"), "the complaint")
        settled = until_quiet(site)
        assert settled <= 60  # what it holds, what was in flight, and no more
        waits = "n1 waits: its archive, "
        until(lambda: waits in cluster.ask("crawl", "status").stdout, "its report")
        if ends:
            cluster.nodes["n1"].send_signal(signal.SIGTERM)
            until(lambda: "waits for that for 30 s" in cluster.text_of("n1"), "its end")
        if " end" in trouble:
            assert cluster.wait("n1") == [1]
        if trouble == "items":  # it has one socket for four requests, too
            process = cluster.nodes["n1"].pid
            files = len([*Path(f"/proc/{process}/fd").iterdir()]) + 1
            resource.prlimit(process, resource.RLIMIT_NOFILE, (files, files))
        remount(small_disk, "rw,size=10M")
        if ends:
            cluster.wait("n1")
            cluster.start(*words, **settings)
        cluster.finish("n1")
    finally:
        cluster.close()
        site.close()
    log = cluster.text_of("n1")
    assert log.count(complaint) == 1
    assert log.count("no connection can be") == (trouble == "items")
    assert log.count("can be written again") == (" end" not in trouble)
    stored = {}
    for path in cluster.warc_dir.glob("*.warc.gz*"):
        assert path.suffix == ".gz"
        read_fastwarc(path)
        for kind, headers, _, payload in read_warcio(path):
            if kind == "response":
                stored[headers["WARC-Target-URI"]] = payload
    assert stored == {site.url(path): body for path, body in bodies.items()}
    with read(items) as file:
        lines = [json.loads(line) for line in file]
    assert {line["url"] for line in lines} == (set(stored) if kinds else set())


def until_quiet(site):
    """Wait until no request came for a second; return how many there were."""
    import time

    seen = -1
    while seen != len(site.requests):
        seen = len(site.requests)
        time.sleep(1.0)  # that nothing happens has no event
    return seen
