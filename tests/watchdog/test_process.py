"""What a watchdog does for a node that has ended: real processes, really killed."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from frontier.cluster.lease import Leases
from frontier.settings.config import Config
from frontier.watchdog.child import Watchdog, import_path
from frontier.watchdog.memory import leases_of

ROOT = Path(__file__).parents[2]
URL = "http://a.example/deadly"
NODE = """
import asyncio
import os
import signal
import sys
from types import SimpleNamespace

from frontier.settings.config import Config
from frontier.cluster.lease import Leases
from frontier.queue.reserve import Reservation
from frontier.store.address import address_of
from frontier.store.client import Store
from frontier.store.keys import CrawlKeys
from frontier.watchdog.child import Watchdog

settings = {"REDIS_URL": sys.argv[1]}
namespace, crawl = sys.argv[2:4]
partitions = [int(number) for number in sys.argv[4:]]


async def main():
    store = Store.from_settings(settings)
    keys = CrawlKeys(namespace, crawl)
    leases = Leases(store.run, keys, "node-1", ttl=60.0)
    watchdog = Watchdog(
        Config(node_id="node-1", lease_ttl=60.0),
        keys,
        leases,
        SimpleNamespace(said=None),
        address=address_of(settings),
        timeout=10.0,
        process=str,
    )
    await watchdog.start()
    turns = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0)
    taken = await leases.acquire(partitions)
    print("ready", flush=True)
    sys.stdin.readline()
    one = Reservation(taken[0].lease, 1, "0:a.example", b"0")
    watchdog.enter(watchdog.record(one, "http://a.example/deadly"))
    os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main())
"""


@pytest.fixture
def server(servers):
    return servers("any")


class Node:
    """A process that takes partitions, and is killed in its first callback."""

    def __init__(self, server, crawl, *partitions):
        names = [server.url, crawl.namespace, crawl.crawl_id, *map(str, partitions)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", NODE, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"

    @property
    def watchdog(self):
        """The id of its watchdog, which is its only child."""
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        found = " ".join((thread / "children").read_text() for thread in threads)
        (child,) = map(int, found.split())
        return child

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
    """Start a `Node` that takes these partitions."""
    with contextlib.ExitStack() as stack:

        def start(*partitions):
            node = Node(server, crawl, *partitions)
            stack.callback(node.close)
            return node

        yield start


def notes(db, crawl, partition):
    """What is noted in that partition, without the token."""
    found = [
        member.split() for member in db("SMEMBERS", crawl.partition(partition).started)
    ]
    return [(words[2], words[3]) for words in found if words[0] == b"ended"]


def test_what_ran_is_noted_though_its_partition_was_taken_a_moment_ago(
    start, db, crawl
):
    db("SADD", crawl.partition(5).started, 9)
    node = start(3, 5, 6)

    node.die()

    assert node.said().endswith(f"node node-1 has ended in the callback of {URL}\n")
    assert notes(db, crawl, 3) == [(b"1", b"node-1")]
    assert notes(db, crawl, 5) == [(b"0", b"node-1")], "beside it something was started"
    assert notes(db, crawl, 6) == [], "nothing was"


async def test_a_note_that_comes_too_late_is_said_to(start, db, crawl, store):
    node = start(3)
    watchdog = node.watchdog
    os.kill(watchdog, signal.SIGSTOP)
    node.die()
    db("DEL", crawl.partition(3).lease)  # as if it had ended
    assert await Leases(store.run, crawl, "node-2", ttl=60.0).acquire([3])
    os.kill(watchdog, signal.SIGCONT)

    assert node.said().endswith(
        f"node node-1 has ended in the callback of {URL}; another node had its lease "
        "before it was noted: all that it had started counts as delivered\n"
    )
    assert notes(db, crawl, 3) == []


def test_a_key_that_is_no_set_is_named_in_place_of_the_note(start, db, crawl):
    node = start(3)
    db("SET", crawl.partition(3).started, "not a set")

    node.die()

    said = node.said()
    assert f"has ended in the callback of {URL}; " in said
    assert crawl.partition(3).started in said


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


async def test_leases_are_told_once_until_others_are_held(store, crawl, monkeypatch):
    leases = Leases(store.run, crawl, "node-1", ttl=60.0)
    watchdog = Watchdog(
        Config(node_id="node-1", lease_ttl=60.0),
        crawl,
        leases,
        SimpleNamespace(said=None),
        address=store.address,
        timeout=10.0,
        process=str,
    )
    packed = []

    def counted(held):
        packed.append(list(held))
        return leases_of(packed[-1])

    monkeypatch.setattr("frontier.watchdog.child.leases_of", counted)
    with contextlib.closing(watchdog):
        await leases.acquire([3, 4])
        await leases.renew()
        for _ in range(3):
            watchdog.hold()
        await leases.release([3])
        watchdog.hold()

    assert [[number for number, _ in one] for one in packed] == [[3, 4], [4]]


def test_what_is_installed_beside_the_package_hides_nothing_of_python(tmp_path):
    """As the `typing` of 2017 does, which old plug-ins of Scrapy bring along."""
    (tmp_path / "typing.py").write_text("raise ImportError('of another Python')")
    (tmp_path / "frontier").symlink_to(ROOT / "frontier")
    words = [sys.executable, "-c", BESIDE, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "frontier.watchdog.process\n")


def test_a_checkout_is_where_its_watchdog_is_from_without_a_path_to_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    assert import_path() == [str(ROOT), "/elsewhere"]

    monkeypatch.chdir("/")
    assert import_path() == ["/elsewhere", str(ROOT)]
