"""A site, a store and nodes that are real processes."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest
import warm

from frontier.cluster.ring import Ring
from frontier.errors import UnknownCrawl
from frontier.model import Member
from frontier.queue.item import decode
from frontier.status.snapshot import snapshot
from frontier.store.client import BlockingStore, Call
from frontier.store.embedded import EmbeddedStore
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from frontier.urls.partition import partition_of, queue_key
from tests.embedded_store import server_in
from tests.harness import commands
from tests.topologies import DEADLINE, until

ROOT = Path(__file__).parents[2]
SHORT = {"FRONTIER_LEASE_TTL": "4"}
"""For tests that wait until a killed node is taken for dead.

On a busy machine a living node may be, too; other tests may not see that.
"""
LAST_LINES = 60
"""Of each node's log, in the report of a test that failed."""
HELD = 3600.0
"""The delay of a site that answers nothing before a test sets another.

Nodes that are to share a crawl have joined it then: one that comes when the others
have done everything begins the next. How to hold a crawl at its middle says `Held`.
"""
LOOK = 0.02
"""Seconds between a site's looks at how late it is."""
PARTITIONS = 256
"""Of a crawl. Each node looks at all of them, when it begins and at the end: with the
default a node of a short crawl does little else."""
HOSTS = 24
"""As many as a site of a test has, at most."""
FAST = {"DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "8"}


def owned(partitions, nodes):
    """How many of *partitions* each of *nodes* will have, when all are there."""
    ring = Ring([Member(node, 1) for node in nodes], PARTITIONS)
    return Counter(map(ring.owner, partitions))


def has_shares(held, nodes):
    """Whether *nodes* hold as many partitions as they will, but for those of hosts."""
    shares = owned(range(PARTITIONS), nodes)
    return held.keys() == shares.keys() and all(
        abs(held[node] - share) <= HOSTS for node, share in shares.items()
    )


def home_of(url):
    """The partition of the host of *url*."""
    return partition_of(queue_key(url, "host"), PARTITIONS)


def after(count):
    """For `Held.until`: so many requests were answered."""

    def is_reached(answered, _):
        return len(answered) >= count

    return is_reached


def says(cluster, line, node="node-1"):
    """Return when *node* has logged *line*."""
    until(lambda: line in cluster.text_of(node), line)


class Held(SiteServer):
    """A site that stops by itself, at a moment that a test chooses, until `go_on`.

    A crawl is then at its middle for as long as the test needs, however slow the
    test is and however quick the nodes are. What is asked from then on waits; what
    was about to be answered may still be.
    """

    def __init__(self, *args, until=None, spared=(), **options):
        super().__init__(*args, **options)
        self.spared = spared
        """Targets that are answered all the same."""
        self.until = until
        """Whether it answers no more, by the nodes and targets that were answered, and
        by the node that asks; `None` is never."""
        self.answered = []
        self.holds = set()
        """Nodes of which it has a request that it does not answer until `go_on`."""
        self.late = 0.0
        """Seconds by which its times may be wrong: for so long it stood still at most,
        as the machine was busy."""
        self._asking = ContextVar("asking", default=(None, None))

    @property
    def delay(self):
        node, target = self._asking.get()
        until = self.until
        if target in self.spared or not until or not until(self.answered, node):
            return self._delay
        self.holds.add(node)
        return HELD

    @delay.setter
    def delay(self, seconds):
        self._delay = seconds

    def start(self):
        super().start()
        asyncio.run_coroutine_threadsafe(self._see_how_late(), self._loop)

    async def _see_how_late(self):
        while True:
            due = time.monotonic() + LOOK
            await asyncio.sleep(LOOK)
            self.late = max(self.late, time.monotonic() - due)

    def go_on(self):
        """Answer what waits, and all that comes."""
        self.until = None

    async def _answer(self, host, request, reader, writer):
        node = request.headers.get("x-frontier-node")
        self._asking.set((node, request.target))
        whole = await super()._answer(host, request, reader, writer)
        self.answered.append((node, request.target))
        return whole

    def requests(self):
        """The log, with all that was answered; `None` if nothing is logged."""
        if self._thread.is_alive():  # it may yet have to log what it has just sent
            logged = threading.Event()
            self._loop.call_soon_threadsafe(logged.set)
            assert logged.wait(DEADLINE)
        return RequestLog.read(self.log) if self.log.exists() else None


class Cluster:
    """Nodes of one crawl on this machine, sharing an embedded store, or another."""

    def __init__(self, directory, servers=None, url=""):
        self.directory = directory
        self.url = servers.url if servers else url
        self.servers = servers
        self.store_dir = directory / "f"
        self.warc_dir = directory / "w"
        self.nodes = {}
        self._joined = None
        self._client = None

    def start(self, node_id, *args, spider="site", cwd=ROOT, **settings):
        """Start a node; *args* go to ``scrapy crawl``, *settings* become ``-s``."""
        chosen = {
            **FAST,
            "FRONTIER_STORE_DIR": self.store_dir,
            "FRONTIER_WARC_DIR": self.warc_dir,
            "FRONTIER_NODE_ID": node_id,
            "FRONTIER_LEASE_TTL": "60",  # no living node is to lose one
            "FRONTIER_STORE_WAIT": "0",
            "FRONTIER_PARTITIONS": PARTITIONS,
            # Needed where a lease is short, or where it is the subject.
            **({} if "FRONTIER_LEASE_TTL" in settings else {"FRONTIER_BUSY_MAX": "0"}),
            "DEFAULT_REQUEST_HEADERS": json.dumps({"X-Frontier-Node": node_id}),
            **({"REDIS_URL": self.url} if self.url else {}),
            **settings,
        }
        options = [f"-s{name}={value}" for name, value in chosen.items()]
        log = self.log_of(node_id).open("ab")
        self.nodes[node_id] = warm.Popen(
            [sys.executable, "-m", "scrapy", "crawl", spider, *args, *options],
            cwd=cwd,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{cwd}:{os.environ.get('EXTRA', '')}"},
        )
        log.close()
        return self.nodes[node_id]

    def join(self, *node_ids):
        """Return when these nodes, or all, take part in their crawl."""
        for node_id in node_ids or list(self.nodes):
            until(partial(self._takes_part, node_id), f"{node_id} takes part")

    def _takes_part(self, node_id):
        text = self.text_of(node_id)
        assert self.nodes[node_id].poll() is None, text[-2000:]
        return " is in crawl " in text

    def held(self, crawl_id):
        """How many partitions each live node of a crawl holds."""
        if not self.has_store:
            return {}
        with contextlib.suppress(UnknownCrawl):
            seen = snapshot(self.store, "frontier", crawl_id)
            return {n.node_id: n.held for n in seen.nodes if n.state == "live"}
        return {}

    def share(self, crawl_id):
        """Return when all nodes that were started hold what they are to hold.

        But for the partitions of a few hosts, of which something may be under way.
        """
        until(lambda: has_shares(self.held(crawl_id), self.nodes), "a share for each")

    @property
    def where(self):
        """The options of ``frontier`` that lead to the store."""
        if self.url:
            return ["--redis-url", self.url]
        return ["--store-dir", str(self.store_dir)]

    def command(self, *words, cwd=ROOT, **options):
        """Start ``frontier`` with *words* on the store."""
        return warm.Popen(
            [sys.executable, "-m", "frontier", *words, *self.where],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def ask(self, *words, **options):
        """Run ``frontier`` on the store to its end, in this process."""
        return commands.run(*words, *self.where, **{"cwd": ROOT, **options})

    def do(self, *words, **options):
        """The same, of what has to succeed.

        On a busy machine a node may be silent for so long that nobody waits for it.
        """

        def told():
            done = self.ask(*words, **options)
            return "no word from" not in done.stderr and done

        done = until(told, "each node's word")
        assert done.returncode == 0, done.stderr
        return done

    def shown(self, *words):
        """What a command shows as JSON."""
        return json.loads(self.ask(*words, "--json").stdout)

    def crawl(self, *words, **options):
        """Run ``frontier crawl run`` to its end; its process starts others."""
        process = self.command("crawl", "run", *words, **options)
        out, err = process.communicate(timeout=DEADLINE)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def log_of(self, node_id):
        return self.directory / f"{node_id}.log"

    def text_of(self, node_id):
        return self.log_of(node_id).read_text("utf-8", "replace")

    def kill(self, node_id):
        self.nodes[node_id].send_signal(signal.SIGKILL)
        self.nodes[node_id].wait()

    def wait(self, *node_ids):
        """Wait for nodes to end by themselves; return their exit codes."""
        chosen = node_ids or list(self.nodes)
        return [self.nodes[node_id].wait(DEADLINE) for node_id in chosen]

    def finish(self, *node_ids):
        """Wait for nodes that have to end well."""
        for node_id in node_ids or list(self.nodes):
            code = self.nodes[node_id].wait(DEADLINE)
            assert code == 0, self.text_of(node_id)[-3000:]

    @property
    def has_store(self):
        """Whether there is one; an embedded one may yet be started."""
        return bool(self.url) or self.store_dir.exists()

    def configure(self, name, value):
        """Set a parameter of the store's servers."""
        if self.servers:
            self.servers.configure(name, value)
        else:
            self.db("CONFIG", "SET", name, value)

    def lose_store(self):
        """Have it lose everything."""
        if self.servers:
            self.servers.clear()
        else:
            self.let_go()
            os.kill(server_in(self.store_dir).pid, signal.SIGKILL)
            shutil.rmtree(self.store_dir)

    @property
    def store(self):
        """A client of the store; an embedded one then stays until the end."""
        if self._client is None and self.url:
            self._client = BlockingStore.from_settings({"REDIS_URL": self.url})
        elif self._client is None:
            self._joined = EmbeddedStore.join(self.store_dir)
            url = {"REDIS_URL": self._joined.url}
            self._client = BlockingStore.from_settings(url)
        return self._client

    def db(self, *parts):
        """Ask the store one command."""
        return self.store.call(Call.command(*parts))

    def reserved(self, crawl_id):
        """URLs that are reserved in the crawl now."""
        urls = []
        pattern = f"{{frontier:{crawl_id}:*:reserved"
        for key in set(self.store.scan(pattern)):
            for value in self.db("HVALS", key):
                _, queue, item = value.split(b"\n", 2)
                urls.append(decode(item, queue.decode())["url"])
        return urls

    def close(self):
        for process in self.nodes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        if self.has_store and self._client is None:
            assert self.store  # an embedded one ends with the last that leaves it
        self.let_go()

    def let_go(self):
        """Leave the store, should it have been looked at."""
        if self._client is not None:
            self._client.close()
        if self._joined is not None:
            self._joined.leave()
        self._client = self._joined = None


CHOSEN = os.environ.get("TEST_STORE")
"""``cluster``, ``sentinel`` or a URL: what nodes share, not a server of the worker."""


@pytest.fixture(scope="session")
def chosen(servers):
    """Make the store of crawls forget all, and return it.

    It is what ``TEST_STORE`` names, else one server for all crawls of this process.
    """

    def chosen():
        # An option makes it another server than that of tests which share one.
        store = servers(CHOSEN) if CHOSEN else servers("valkey-9", "--databases", "1")
        store.clear()
        return store

    return chosen


@pytest.fixture
def cluster(request, tmp_path, chosen):
    """Nodes that share the store of crawls.

    It is an embedded one where a test with the mark ``one_server`` may need that.
    """
    is_embedded = request.node.get_closest_marker("one_server")
    made = Cluster(tmp_path, None if is_embedded else chosen())
    yield made
    made.close()


@pytest.fixture
def serve(tmp_path):
    """Serve a site, *until* that is reached, if it is given; see `Held`.

    With *nodes* its ports are such that each of them will have *least* hosts.
    """
    with contextlib.ExitStack() as stack:

        def start(log="requests.jsonl", port=0, nodes=(), least=2, **options):
            delays = {
                name: options.pop(name)
                for name in ("delay", "host_delays", "until", "spared")
                if name in options
            }
            options.setdefault("slow_seconds", 0.2)
            site = Site(**options)
            path = tmp_path / log
            while True:
                server = Held(site, log=path, port=port, **delays)
                stack.enter_context(server)
                hosts = owned(map(home_of, server.seeds), nodes) if nodes else {}
                if all(hosts[node] >= least for node in nodes):
                    break
            server.expected = expected_urls(server.site)
            return server

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the nodes of a test that failed have logged last."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and call.when == "call" and cluster is not None:
        for node_id in cluster.nodes:
            lines = cluster.text_of(node_id).splitlines()[-LAST_LINES:]
            report.sections.append((f"last lines of {node_id}", "\n".join(lines)))
    return report
