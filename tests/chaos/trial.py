"""One crawl to which a plan happens.

1.  Everything is real: processes are killed, the store is killed, connections
    are cut. Each node speaks to the store through a `Wire`, this module directly.
2.  What an injected fault may cost is read from the store when it happens: URLs that
    were reserved by the node that was hit, or by all if the store was.
3.  Nothing outlives a trial but its directory, and that only if it failed.
"""

import itertools
import json
import math
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from frontier.errors import NotFound
from frontier.store.keys import CrawlKeys
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.chaos.durable import Witness
from tests.chaos.nodes import Process, prepare
from tests.chaos.oracle import Facts, extra_fetches, judge
from tests.chaos.plan import StoreKind
from tests.chaos.records import Records, read_archive
from tests.chaos.several import DurableCluster
from tests.chaos.stage import LEASE, NO_ANSWER, PARTITIONS
from tests.chaos.starving import Starving, own_threads, refetched_for_lost_leases
from tests.chaos.store_faults import EXTRA_DELAY, StoreFaults

CRAWL = "chaos"
URLS = 240
HOSTS = 5
MONTHS = 18
"""Pages in a chain: nothing but the one before leads to each of them."""
DELAY = 0.1
"""Seconds between two requests to one host."""
SLACK = 0.05
RESPONSE = 0.03
HOST_DELAYS = {1: 0.05, 2: 0.15}
PATIENCE = 4.0
"""Seconds without progress after which the next event happens all the same."""
DEADLINE = 90.0
"""Seconds for which a trial may take; up to thrice as long if it is starved."""
PACE = 0.02
STRAIN = 0.5
"""Seconds for which a node has a slow wire before it is killed, if it has."""


class Trial(StoreFaults):
    """Makes *plan* happen to a crawl, once."""

    def __init__(self, plan):
        super().__init__(plan)
        self._names = itertools.count(1)
        self._starving = Starving(LEASE)
        self._epoch = time.time()

    def run(self):
        """Crawl, and judge."""
        home = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
        with ExitStack() as stack:
            stack.callback(self._end_nodes)
            facts = self._crawl(home, stack)
        self._conclude(facts)
        if self._outcome.faults:
            self._outcome.directory = str(home)
        else:
            shutil.rmtree(home)
        return self._outcome

    def _crawl(self, home, stack):
        self._home = home
        prepare()
        site = Site(urls=URLS, hosts=HOSTS, slow_seconds=0.5, calendar_months=MONTHS)
        self._requests = home / "requests.jsonl"
        server = SiteServer(
            site, log=self._requests, delay=RESPONSE, host_delays=HOST_DELAYS
        )
        stack.enter_context(server)
        self._seeds = ",".join(server.seeds)
        self._expected = frozenset(expected_urls(server.site))
        self._store = self._make_store(home)
        stack.callback(self._store.close)
        self._store.start()
        keys = CrawlKeys("frontier", CRAWL)
        self._witness = Witness(self._store, keys, PARTITIONS)
        self._begin, self._epoch = time.monotonic(), time.time()
        for _ in range(self._plan.nodes):
            self._start()
        self._watch()
        self._outcome.seconds = time.monotonic() - self._begin
        return self._facts()

    # What happens while it crawls.

    def _watch(self):
        events = list(self._plan.events)
        served, moved = 0, time.monotonic()
        begin = time.monotonic()
        deadline = begin + DEADLINE
        while time.monotonic() < deadline:
            self._sample()
            if self._is_starved():
                deadline = min(deadline + LEASE, begin + 3 * DEADLINE)
            while self._is_due:
                self._do_next()
            self._start_again()
            if not self._is_awaited and not any(node.runs for node in self._nodes):
                return
            count = self._served()
            if count != served:
                served, moved = count, time.monotonic()
            due = events and served >= events[0].at * len(self._expected)
            stuck = events and served and time.monotonic() - moved > PATIENCE
            if due or stuck:
                event = events.pop(0)
                moved = time.monotonic()
                happened = self._outcome.events
                happened[event.kind] = happened.get(event.kind, 0) + 1
                getattr(self, f"_{event.kind}")(event)
            time.sleep(PACE)
        self._note("the trial's time is over")

    def _sample(self):
        """Have the witness see who holds what."""
        if self._away:
            return
        try:
            super()._sample()
            self._witness.look()
        except NO_ANSWER as error:
            self._note(f"the store does not answer: {error}")

    def _is_starved(self):
        """Whether the machine has no time for a node or a server; excuses for it."""
        pids = [node.pid for node in self._nodes if node.runs and not node.frozen]
        if not self._starving.look([*pids, *self._store.pids, *own_threads()]):
            return False
        self._outcome.starved += 1
        now = time.time()
        self._forgotten.append((now - 2 * LEASE, now + LEASE, frozenset()))
        return True

    def _start(self, node_id=None):
        number = next(self._names)
        name, node_id = f"process-{number}", node_id or f"node-{number}"
        named = {"client_name": name}
        if self._plan.store is StoreKind.SENTINEL:
            named = {**named, "sentinel_kwargs": dict(named)}
        settings = {
            "REDIS_URL": self._store.url,
            "REDIS_PARAMS": json.dumps(named),
            "DOWNLOAD_DELAY": DELAY,
            "DOWNLOAD_DELAY_JITTER": 0,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
            "ROBOTSTXT_OBEY": True,
            "FRONTIER_CRAWL_ID": CRAWL,
            "FRONTIER_NODE_ID": node_id,
            "FRONTIER_LEASE_TTL": LEASE,
            "FRONTIER_PARTITIONS": PARTITIONS,
            "FRONTIER_WARC_DIR": self._home / "warcs",
            "FRONTIER_COMMIT_EVERY": self._plan.every,
        }
        command = ["crawl", "site", "-a", f"seeds={self._seeds}"]
        node = Process(name, node_id, command, settings, self._home)
        self._nodes.append(node)
        self._note(f"{name} starts as {node_id}")

    def _pick(self, event, least=1):
        """A node that lives and was not touched, if there are *least*."""
        there = [n for n in self._nodes if n.runs and not n.touched and not n.frozen]
        if len(there) < least:
            self._note(f"no node for: {event}")
            return None
        return there[event.pick % len(there)]

    def _kill(self, event):
        node = self._pick(event)
        if node is None:
            return
        successor = node.node_id if event.same_id else None
        if not event.strained:
            self._kill_now(node, successor)
            return
        node.touched = True
        for wire in self._store.wires:
            wire.delays[node.name] = EXTRA_DELAY
        self._in(STRAIN, lambda: self._kill_now(node, successor))

    def _kill_now(self, node, successor):
        node.kill()
        self._cut_wires(node.name)
        self._outcome.kills += 1
        self._note(f"kill {node.name}")
        self._excuse(node.node_id)
        self._when_the_store_is_back(lambda: self._start(successor))

    def _freeze(self, event):
        node = self._pick(event)
        if node is None:
            return
        node.freeze()
        seconds = event.seconds * LEASE
        self._note(f"freeze {node.name} for {seconds:.2f} s")
        self._excuse(node.node_id)

        def thaw():
            self._note(f"thaw {node.name}")
            node.thaw()

        self._in(seconds, thaw)

    def _join(self, _):
        self._when_the_store_is_back(self._start)

    def _leave(self, event):
        node = self._pick(event, least=2)
        if node is not None:
            self._note(f"SIGTERM to {node.name}")
            node.leave()

    def _drain(self, event):
        if self._away:
            self._note("nobody can be told while the store is away")
            return
        node = self._pick(event, least=2)
        if node is not None:
            try:
                self._witness.drain(node.node_id)
            except (NotFound, *NO_ANSWER) as error:  # it is just starting
                self._note(f"{node.name} is not drained: {error}")
                return
            self._note(f"drain {node.name}")
            node.touched = True

    def _start_again(self):
        """Start what found no store when it started, as who supervises nodes does."""
        if self._away:
            return
        for node in self._nodes:
            if node.crashed and node.came_too_early:
                node.touched = True
                self._note(f"{node.name} found no store when it started")
                self._start(node.node_id)
                return

    def _end_nodes(self):
        for node in self._nodes:
            if node.runs:
                node.kill()

    # What is to be judged.

    def _facts(self):
        crashed = tuple(node.name for node in self._nodes if node.crashed)
        self._end_nodes()
        while self._is_awaited:  # the store may be away still
            self._do_next()
            time.sleep(PACE)
        try:
            finished, dead = self._witness.finished(), tuple(self._witness.dead())
            indexed, rounds = self._witness.index(), self._witness.rounds()
        except NO_ANSWER as error:
            self._note(f"the store does not answer at the end: {error}")
            finished, dead, indexed, rounds = None, (), (), 0
        if self._plan.every:
            self._note(f"{rounds} rounds were committed")
        warcs = self._home / "warcs"
        log = RequestLog.read(self._requests)
        self._excuse_forgotten(log)
        if self._outcome.starved:
            texts = {node.name: node.text for node in self._nodes}
            again = refetched_for_lost_leases(texts, log, self._in_flight)
            self._in_flight.update(again)
        if isinstance(self._store, DurableCluster):
            self._outcome.slots_moved = self._store.moved
            longest = self._store.longest
            self._note(f"no slot was between two servers for over {longest:.2f} s")
        return Facts(
            expected=self._expected,
            log=log,
            in_flight=self._in_flight,
            records=read_archive(warcs) if warcs.is_dir() else Records(),
            indexed=indexed,
            finished=finished,
            delay=DELAY,
            slack=SLACK,
            # A node that is starved loses leases, and thrice is enough.
            dead=() if self._outcome.starved else dead,
            crashed=crashed,
            errors=tuple(n.name for n in self._nodes if "\nTraceback" in n.text),
        )

    def _conclude(self, facts):
        outcome = self._outcome
        outcome.faults = [(str(wrong), what) for wrong, what in judge(facts)]
        outcome.pages = len(facts.expected)
        outcome.refetched = facts.log.repeated().total() - len(facts.log.repeated())
        if facts.finished is not None:
            last = max((entry.end for entry in facts.log.entries), default=math.inf)
            outcome.ending = max(0.0, facts.finished - last)
            seconds = facts.finished - self._epoch
            outcome.happened.append(f"{seconds:6.2f} s: the crawl is finished")
        outcome.extra = extra_fetches(facts).total()
