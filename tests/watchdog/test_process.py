"""What a watchdog does for a node that has ended: real processes, really killed."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frontier.watchdog.child import import_path
from tests.harness.commands import output_of

ROOT = Path(__file__).parents[2]
URL = "http://a.example/deadly"
NODE = """
import asyncio
import os
import signal
import sys

from frontier.cluster.membership import Membership
from frontier.model import Member
from frontier.settings.config import Config
from frontier.queue.reserve import Ran
from frontier.store.address import address_of
from frontier.store.client import Store
from frontier.store.keys import CrawlKeys
from frontier.watchdog.child import Watchdog

settings = {"REDIS_URL": sys.argv[1]}
namespace, crawl = sys.argv[2:4]


async def main():
    store = Store.from_settings(settings)
    keys = CrawlKeys(namespace, crawl)
    member = Member("node-1", 1)
    watchdog = Watchdog(
        Config(node_id="node-1", lease_ttl=60.0),
        keys,
        place := Membership(store.run, keys, member, 8, ttl=60.0),
        address=address_of(settings),
        timeout=10.0,
    )
    await watchdog.start()
    turns = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0)
    print(place.process, flush=True)
    sys.stdin.readline()
    watchdog.enter(watchdog.record(Ran(3, 5, 1), "http://a.example/deadly"))
    os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main())
"""


@pytest.fixture
def server(servers):
    return servers("any")


class Node:
    """A process that is killed in its first callback."""

    def __init__(self, server, crawl):
        names = [server.url, crawl.namespace, crawl.crawl_id]
        self._process = subprocess.Popen(
            [sys.executable, "-c", NODE, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.name = self._process.stdout.readline().strip()

    def die(self):
        """Have it enter the callback, and wait for its end."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.wait() == -signal.SIGKILL

    def said(self):
        """What it and its watchdog have written, once both have ended."""
        return self._process.communicate()[1]

    def close(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def start(server, crawl):
    """Start a `Node`."""
    with contextlib.ExitStack() as stack:

        def start():
            node = Node(server, crawl)
            stack.callback(node.close)
            return node

        yield start


def test_running_callback_is_noted_once_per_ended_process(start, db, crawl):
    for count in (1, 2):
        node = start()
        assert node.name.startswith("node-1/")
        node.die()

        said = node.said()
        assert said.endswith(f"node node-1 has ended in the callback of {URL}\n")
        assert db("HGET", crawl.ended, node.name) == b"3 5 1"
        assert db("HLEN", crawl.ended) == count
    assert db("TTL", crawl.ended) > 80_000


def test_deleted_crawl_gets_no_note_of_an_ended_node(start, db, crawl):
    node = start()
    db("DEL", crawl.meta)
    node.die()
    assert node.said()
    assert not db("EXISTS", crawl.ended)


def test_a_key_that_cannot_be_written_is_named_in_place_of_the_note(start, db, crawl):
    node = start()
    db("SET", crawl.ended, "not a hash")

    node.die()

    said = node.said()
    assert f"has ended in the callback of {URL}; " in said
    assert crawl.ended in said


BESIDE = """
import json, subprocess, sys
from pathlib import Path

site = sys.argv[1]
sys.path[:] = [p for p in sys.path if p and not Path(p, "frontier").is_dir()]
sys.path.append(site)
from frontier.watchdog import child

assert child.__file__.startswith(site), child.__file__
start = child.START.replace("main()", "print(main.__module__)")
words = [sys.executable, "-ISc", start, json.dumps(child.import_path())]
sys.exit(subprocess.run(words).returncode)
"""


def test_module_beside_the_package_hides_no_standard_module(tmp_path):
    """As the `typing` of 2017 does, which old plug-ins of Scrapy bring along."""
    (tmp_path / "typing.py").write_text("raise ImportError('of another Python')")
    (tmp_path / "frontier").symlink_to(ROOT / "frontier")
    words = [sys.executable, "-c", BESIDE, str(tmp_path)]

    assert output_of(words) == "frontier.watchdog.process\n"


def test_a_checkout_is_where_its_watchdog_is_from_without_a_path_to_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    assert import_path() == [str(ROOT), "/elsewhere"]

    monkeypatch.chdir("/")
    assert import_path() == ["/elsewhere", str(ROOT)]
