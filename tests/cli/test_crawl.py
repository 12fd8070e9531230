import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm

from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.harness.commands import one_line
from tests.topologies import until

pytestmark = pytest.mark.one_server("these commands start the embedded store")
HELD = 600.0
"""Seconds that a host would take to answer, so that a crawl cannot end meanwhile."""


def recrawled_by(rules):
    return ["-s", "FRONTIER_RECRAWL=fixed", "-s", f"FRONTIER_RECRAWL_RULES={rules}"]


@pytest.fixture
def site(tmp_path):
    with SiteServer(Site(urls=100, hosts=2, slow_seconds=0.0)) as server:
        yield server


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--seeds", "no-such-file.txt"], "no-such-file.txt"),
        (["--spider", "walk"], "no Scrapy project here"),
        (["--seeds", "http://"], "'http://' is not an http or https URL"),
        (["--seeds", "http://h/", "--warc-dir", "/dev/null/x"], "not a directory"),
        (["--seeds", "http://h/", "--store-dir", "/dev/null"], "not a directory"),
        (["--seeds", "http://h/", "--scope", "galaxy"], "galaxy"),
        (["--seeds", "http://h/", "-s", "FRONTIER_PARTITION=1"], "FRONTIER_PARTITIONS"),
        (["--seeds", "http://h/", "-s", "FRONTIER_BLOOM_CAPACITY=0"], "CAPACITY"),
        (["--seeds", "http://h/", "-s", "FRONTIER_NODE_ID=x"], "FRONTIER_NODE_ID"),
        (["--seeds", "http://h/", "-s", "DEPTH_LIMIT=x"], "DEPTH_LIMIT = 'x': "),
        (["--seeds", "http://h/", "-s", "nonsense"], "NAME=VALUE"),
        (
            ["--limit-pages=9", "-sCLOSESPIDER_PAGECOUNT=9", "--seeds", "http://h/"],
            "-s CLOSESPIDER_PAGECOUNT and --limit-pages are the same",
        ),
        (
            ["--seeds", "http://h/", *recrawled_by("no-such.toml")],
            "no-such.toml: cannot be read: No such file or directory",
        ),
    ],
)
def test_a_wrong_argument_is_named_before_anything_starts(
    frontier, tmp_path, arguments, named
):
    done = frontier("crawl", "run", *arguments)

    assert done.returncode == 2
    assert named in one_line(done)
    assert list(tmp_path.iterdir()) == []


def test_files_that_settings_name_are_where_the_user_is(frontier, tmp_path, site):
    rules = tmp_path / "recrawl.toml"
    rules.write_text('[[rule]]\nschedule = "off"\n')
    (tmp_path / "seeds.txt").write_text(f"{site.seeds[0]}\nnot a URL\nnone\n")
    done = frontier(
        "crawl", "run", "--nodes", "1", "--seeds", "seeds.txt",
        *recrawled_by("recrawl.toml"), "-s", "FRONTIER_JOURNAL_DIR=journals",
        "-s", "DOWNLOAD_DELAY=0", "--limit-pages", "1",
    )  # fmt: skip

    assert done.returncode == 6, done.stdout + done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("frontier: 2 lines of seeds.txt left out as no seed: ")
    assert (
        "site-1 has ended at its limit: 1 pages (CLOSESPIDER_PAGECOUNT)" in done.stderr
    )
    assert list((tmp_path / "journals").iterdir())

    rules.write_text('[[rule]]\nschedul = "off"\n')
    done = frontier(
        "crawl", "run", "--seeds", site.seeds[0], *recrawled_by("recrawl.toml")
    )
    assert done.returncode == 2
    assert "recrawl.toml:2: a rule has no 'schedul'; did you" in one_line(done)


def test_an_interrupted_crawl_goes_on_when_it_is_run_again(
    frontier, shown, tmp_path, site
):
    """By a node that takes over the work of one that is killed."""
    (tmp_path / "seeds.txt").write_text("\n".join([*site.seeds, "not a URL"]))
    site.delay, site.host_delays[1] = 0.2, HELD
    command = [sys.executable, "-m", "frontier", "crawl", "run", "--seeds", "seeds.txt"]
    command += ["-s", "DOWNLOAD_DELAY=0.02", "-s", "FRONTIER_LEASE_TTL=6"]
    streams = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with warm.Popen(command, cwd=tmp_path, **streams) as process:
        wait_until(frontier, lambda seen: seen["totals"]["pages"] > 5)
        process.send_signal(signal.SIGTERM)
        err = said_until("the nodes finish what is in flight", process)
        site.host_delays.clear()
        out, err = process.stdout.read(), err + process.stderr.read()
    assert process.returncode == 130, out + err
    assert "seeds.txt:3" in err
    assert "crawl site-1, spider site, 2 nodes; their logs are in " in err
    assert "interrupted" in err
    assert shown("crawl", "status")["state"] == "open"

    site.host_delays[1] = HELD
    with subprocess.Popen(command, cwd=tmp_path, **streams) as process:
        said_until("crawl site-1 goes on with ", process)
        wait_until(frontier, lambda seen: live_nodes(seen) == ["node-3", "node-4"])
        os.kill(child_of(process, b"node-4"), signal.SIGKILL)
        err = said_until("node-4 failed with signal 9; its log is ", process)
        assert process.poll() is None
        site.delay = 0.0
        site.host_delays.clear()
        out, err = process.stdout.read(), err + process.stderr.read()
    assert process.returncode == 1, out + err
    assert "\n  20" not in err  # no last line of the log of a node that was killed
    assert "is complete: other nodes took over the work of node-4" in err
    assert "Crawl site-1, spider site: finished" in out
    seen = shown("crawl", "status")
    names = ["node-1", "node-2", "node-3", "node-4"]
    assert [node["node_id"] for node in seen["nodes"]] == names
    assert seen["queue"]["acked"] == seen["queue"]["pushed"]
    logs = tmp_path / ".frontier" / "logs"
    assert len(list(logs.glob("*-node-*.log"))) == 4

    refused = frontier("crawl", "end", "--crawl", "site-1", "--remove-frontier")
    assert refused.returncode == 2
    assert "seen urls forgotten" in refused.stdout
    done = frontier("crawl", "end", "--crawl", "site-1", "--remove-frontier", "--yes")
    assert done.returncode == 0, done.stderr
    assert "had ended before" in done.stdout
    removed = shown("crawl", "status")
    assert removed["removed_ms"]
    assert removed["queue"]["acked"] == seen["queue"]["acked"]
    assert removed["queue"]["seen"] == 0


def test_a_run_says_at_once_that_its_nodes_wait_for_the_store_and_once_why(
    frontier, terminal
):
    server = ("--redis-url", "redis://127.0.0.1:1", "-s", "FRONTIER_STORE_WAIT=6")
    words = ("crawl", "run", "--seeds", "http://h/", *server, "--nodes")
    done = frontier(*words, "2")

    assert done.returncode == 3
    assert done.stderr.startswith("the nodes wait for the store at 127.0.0.1:1\n")
    assert done.stderr.count("does not answer") == 1
    assert done.stderr.count("failed with exit code 1; its log is") == 2
    _, said = terminal(*words, "1", columns="40")
    waits = "the nodes wait for the store at 127.0.0.1:1"
    assert waits in " ".join(re.sub(r"\x1b\[[^a-zA-Z]*.", "", said).split())


def test_a_node_that_fails_is_reported_with_its_log(frontier, tmp_path, site):
    done = frontier(
        "crawl", "run", "--nodes", "1", "--seeds", site.seeds[0],
        "-s", "DOWNLOAD_TIMEOUT=many",
    )  # fmt: skip

    assert done.returncode == 1
    (log,) = (tmp_path / ".frontier" / "logs").glob("*-node-1.log")
    assert f"node-1 failed with exit code 1; its log is {log}" in done.stderr
    assert "many" in done.stderr


def test_a_run_that_is_interrupted_before_there_is_a_crawl_says_so(tmp_path):
    words = ["crawl", "run", "--join", "--seeds", "http://h/", "--nodes", "1"]
    command = [sys.executable, "-m", "frontier", *words]
    with warm.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        until(lambda: list(tmp_path.rglob("*-node-1.log")), "that a node starts")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err.endswith(b"frontier: interrupted before a node entered a crawl\n")


def test_nodes_of_a_closed_terminal_finish_what_is_in_flight(
    frontier, shown, tmp_path, site
):
    site.delay, site.host_delays[1] = 0.2, HELD
    (tmp_path / "seeds.txt").write_text("\n".join(site.seeds))
    # Else what nohup ignores would be ignored here, too.
    command = ["env", "--default-signal=HUP", sys.executable, "-m", "frontier"]
    command += ["crawl", "run", "--seeds", "seeds.txt"]

    def states():
        seen = shown("crawl", "status")
        return {node["state"] for node in seen["nodes"]}

    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with subprocess.Popen(command, cwd=tmp_path, **streams) as process:
        os.close(theirs)
        wait_until(frontier, lambda seen: seen["totals"]["pages"] > 5)
        process.send_signal(signal.SIGSTOP)  # the kernel does both at once
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGCONT)
        until(lambda: "live" not in states(), "that they close")
        site.host_delays.clear()

    assert process.returncode == 130
    assert states() == {"left"}
    assert not list(tmp_path.rglob("*.open"))


def said_until(text, process):
    """What *process* says on stderr, until it has said *text*."""
    said = ""
    while text not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def live_nodes(seen):
    return [node["node_id"] for node in seen["nodes"] if node["state"] == "live"]


def child_of(process, node_id):
    """The process of a node that *process* has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    for child in map(int, children.split()):
        if node_id in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    pytest.fail(f"no child has {node_id}")


def wait_until(frontier, condition):
    """Return when *condition* holds of what ``crawl status`` says."""

    def holds():
        done = frontier("crawl", "status", "--json")
        return done.returncode == 0 and condition(json.loads(done.stdout))

    until(holds, "what is waited for")
