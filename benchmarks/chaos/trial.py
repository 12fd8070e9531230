"""One crawl to which a plan happens.

1.  Everything is real: processes are killed, the store is killed, connections
    are cut. Nodes speak to the store through a `Wire`, this module directly.
2.  What a blow may cost is read from the store at the blow: URLs that were
    reserved by the node that was hit, or by all if the store was.
3.  Nothing outlives a trial but its directory, and that only if it failed.
"""

from __future__ import annotations

import heapq
import itertools
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.chaos.durable import DurableStore, Lease, Witness
from benchmarks.chaos.nodes import Process
from benchmarks.chaos.oracle import Facts, Wrong, extra_fetches, judge
from benchmarks.chaos.records import Records, read_archive
from benchmarks.chaos.wire import Wire
from frontier.errors import UnknownNode
from frontier.store.keys import CrawlKeys
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.chaos.plan import Event, Plan

LEASE = 2.0
PARTITIONS = 64
CRAWL = "chaos"
URLS = 220
HOSTS = 5
DELAY = 0.1
"""Seconds between two requests to one host."""
SLACK = 0.05
RESPONSE = 0.03
HOST_DELAYS = {1: 0.05, 2: 0.15}
PATIENCE = 4.0
"""Seconds without progress after which the next event happens all the same."""
DEADLINE = 60.0
"""Seconds for which a trial may take."""
PACE = 0.02
EXTRA_DELAY = 0.1
"""Seconds by which a slow wire makes bytes late, in each direction."""


@dataclass(slots=True)
class Outcome:
    """What came of a trial."""

    seed: int
    plan: list[str]
    happened: list[str] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    pages: int = 0
    kills: int = 0
    refetched: int = 0
    """Fetches beyond the first of each page; all of them, excused or not."""
    extra: int = 0
    recovery: float = 0.0
    """Longest time from a kill until the last of its partitions was held again."""
    ending: float = 0.0
    """Time from the end of the last request until the crawl was finished."""
    directory: str = ""
    """Logs of a trial that failed."""

    def count(self, *wrongs: Wrong) -> int:
        """How many faults there are of these kinds."""
        return sum(1 for wrong, _ in self.faults if wrong in wrongs)

    def lines(self) -> list[str]:
        """All of it, for people."""
        verdict = f"{len(self.faults)} faults" if self.faults else "no fault"
        summary = (
            f"seed {self.seed}: {verdict} in {self.seconds:.1f} s; {self.pages} pages, "
            f"{self.refetched} fetched again, recovery {self.recovery:.1f} s, "
            f"end {self.ending:.1f} s after the last"
        )
        lines = [summary]
        if self.faults:
            lines += [f"  plan: {line}" for line in self.plan]
            lines += [f"  {line}" for line in self.happened]
            lines += [f"  FAULT {wrong}: {what}" for wrong, what in self.faults]
            lines.append(f"  logs: {self.directory}")
            lines.append(f"  replay: python -m benchmarks chaos --seed {self.seed}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Grave:
    """A node that was killed, and what it held then."""

    name: str
    since: float
    held: list[Lease]


class Trial:
    """Makes *plan* happen to a crawl, once."""

    _command: Sequence[str] = ("crawl", "site")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._outcome = Outcome(plan.seed, plan.lines())
        self._names = itertools.count(1)
        self._nodes: list[Process] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self._in_flight: Counter[str] = Counter()
        self._graves: list[_Grave] = []
        self._away = 0
        """How many reasons there are for the store not to answer."""
        self._reserved_before: Mapping[str, list[str]] = {}
        """What was reserved when the store went away."""

    def run(self) -> Outcome:
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

    def _crawl(self, home: Path, stack: ExitStack) -> Facts:
        self._home = home
        site = Site(urls=URLS, hosts=HOSTS, slow_seconds=0.5, calendar_months=6)
        self._requests = home / "requests.jsonl"
        server = SiteServer(
            site, log=self._requests, delay=RESPONSE, host_delays=HOST_DELAYS
        )
        stack.enter_context(server)
        self._seeds = ",".join(server.seeds)
        self._expected = frozenset(expected_urls(server.site))
        self._store = DurableStore(home)
        stack.callback(self._store.close)
        self._store.start()
        self._wire = Wire(self._store.socket)
        stack.callback(self._wire.stop)
        self._wire.start()
        keys = CrawlKeys("frontier", CRAWL)
        self._witness = Witness(self._store, keys, PARTITIONS)
        self._begin, self._epoch = time.monotonic(), time.time()
        for _ in range(self._plan.nodes):
            self._start()
        self._watch()
        self._outcome.seconds = time.monotonic() - self._begin
        return self._facts()

    # What happens while it crawls.

    def _watch(self) -> None:
        events = list(self._plan.events)
        served, moved = 0, time.monotonic()
        deadline = self._begin + DEADLINE
        while time.monotonic() < deadline:
            self._sample()
            while self._later and self._later[0][0] <= time.monotonic():
                heapq.heappop(self._later)[2]()
            if not self._later and not any(node.runs for node in self._nodes):
                return
            count = self._served()
            if count != served:
                served, moved = count, time.monotonic()
            due = events and served >= events[0].at * len(self._expected)
            stuck = events and served and time.monotonic() - moved > PATIENCE
            if due or stuck:
                event = events.pop(0)
                moved = time.monotonic()
                getattr(self, f"_{event.kind}")(event)
            time.sleep(PACE)
        self._note("the trial's time is over")

    def _served(self) -> int:
        if not self._requests.exists():
            return 0
        with self._requests.open("rb") as lines:
            return sum(1 for _ in lines)

    def _sample(self) -> None:
        """See who holds what, and whether the dead are replaced."""
        if self._away:
            return
        now = time.monotonic()
        current = {(lease.partition, lease.token) for lease in self._witness.leases()}
        taken = {partition for partition, _ in current}
        for grave in list(self._graves):
            waiting = [
                lease
                for lease in grave.held
                if lease.partition not in taken
                or (lease.partition, lease.token) in current
            ]
            if not waiting:
                seconds = now - grave.since
                self._note(f"{grave.name}'s partitions are held again: {seconds:.2f} s")
                self._outcome.recovery = max(self._outcome.recovery, seconds)
                self._graves.remove(grave)

    def _start(self, node_id: str | None = None) -> None:
        number = next(self._names)
        name, node_id = f"process-{number}", node_id or f"node-{number}"
        settings = {
            "REDIS_URL": self._wire.url,
            "DOWNLOAD_DELAY": DELAY,
            "DOWNLOAD_DELAY_JITTER": 0,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
            "ROBOTSTXT_OBEY": True,
            **self._settings(node_id),
        }
        command = [*self._command, "-a", f"seeds={self._seeds}"]
        node = Process(name, node_id, command, settings, self._home)
        self._nodes.append(node)
        self._note(f"{name} starts as {node_id}")

    def _settings(self, node_id: str) -> dict[str, object]:
        """What is special about a node of this crawler."""
        return {
            "FRONTIER_CRAWL_ID": CRAWL,
            "FRONTIER_NODE_ID": node_id,
            "FRONTIER_LEASE_TTL": LEASE,
            "FRONTIER_PARTITIONS": PARTITIONS,
            "FRONTIER_WARC_DIR": self._home / "warcs",
        }

    def _pick(self, event: Event, least: int = 1) -> Process | None:
        """A node that lives and was not touched, if there are *least*."""
        there = [n for n in self._nodes if n.runs and not n.touched and not n.frozen]
        if len(there) < least:
            self._note(f"no node for: {event}")
            return None
        return there[event.pick % len(there)]

    def _kill(self, event: Event) -> None:
        node = self._pick(event)
        if node is None:
            return
        held = self._held_by(node.node_id)
        since = time.monotonic()
        node.kill()
        self._outcome.kills += 1
        self._note(f"kill {node.name}")
        self._excuse(node.node_id)
        if held:
            self._graves.append(_Grave(node.name, since, held))
        successor = node.node_id if event.same_id else None
        self._when_the_store_is_back(lambda: self._start(successor))

    def _held_by(self, node_id: str) -> list[Lease]:
        if self._away:
            return []
        return [held for held in self._witness.leases() if held.holder == node_id]

    def _freeze(self, event: Event) -> None:
        node = self._pick(event)
        if node is None:
            return
        node.freeze()
        seconds = event.seconds * LEASE
        self._note(f"freeze {node.name} for {seconds:.2f} s")
        self._excuse(node.node_id)

        def thaw() -> None:
            self._note(f"thaw {node.name}")
            node.thaw()

        self._in(seconds, thaw)

    def _join(self, _: Event) -> None:
        self._when_the_store_is_back(self._start)

    def _leave(self, event: Event) -> None:
        node = self._pick(event, least=2)
        if node is not None:
            self._note(f"SIGTERM to {node.name}")
            node.leave()

    def _drain(self, event: Event) -> None:
        if self._away:
            self._note("nobody can be told while the store is away")
            return
        node = self._pick(event, least=2)
        if node is not None:
            try:
                self._witness.drain(node.node_id)
            except UnknownNode as error:  # it is just starting
                self._note(f"{node.name} is not drained: {error}")
                return
            self._note(f"drain {node.name}")
            node.touched = True

    def _restart(self, event: Event) -> None:
        if not self._lose_the_store():
            return
        self._note(f"kill the store for {event.seconds:.2f} s")
        self._store.kill()

        def start() -> None:
            self._store.start()
            self._regain_the_store()

        self._in(event.seconds, start)

    def _pause(self, event: Event) -> None:
        if not self._lose_the_store():
            return
        self._note(f"pause the store for {event.seconds:.2f} s")
        self._store.signal(signal.SIGSTOP)

        def resume() -> None:
            self._store.signal(signal.SIGCONT)
            self._regain_the_store()

        self._in(event.seconds, resume)

    def _slow(self, event: Event) -> None:
        self._note(f"slow wire for {event.seconds:.2f} s")
        self._wire.delay = EXTRA_DELAY

        def restore() -> None:
            self._note("the wire is quick again")
            self._wire.delay = 0.0

        self._in(event.seconds, restore)

    def _cut(self, _: Event) -> None:
        self._note("cut all connections")
        self._wire.cut()

    # What they have in common.

    def _lose_the_store(self) -> bool:
        """Remember what is reserved; whether the store was there."""
        if self._away:
            self._note("the store is away already")
            return False
        self._reserved_before = self._witness.reserved()
        self._in_flight.update(itertools.chain(*self._reserved_before.values()))
        self._away += 1
        self._graves.clear()  # an outage prolongs a recovery, and rightly
        return True

    def _regain_the_store(self) -> None:
        self._away -= 1
        self._note("the store is back")

    def _excuse(self, node_id: str) -> None:
        """What *node_id* has reserved now may be fetched once more."""
        reserved = self._reserved_before if self._away else self._witness.reserved()
        urls = reserved.get(node_id, [])
        self._note(f"{len(urls)} URLs are reserved by {node_id}")
        self._in_flight.update(urls)

    def _when_the_store_is_back(self, action: Callable[[], None]) -> None:
        if not self._away:
            action()
            return
        self._in(0.1, lambda: self._when_the_store_is_back(action))

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        due = time.monotonic() + seconds
        heapq.heappush(self._later, (due, next(self._serial), action))

    def _note(self, text: str) -> None:
        seconds = time.monotonic() - self._begin
        at = f"{seconds:6.2f} s, {self._served()} served"
        self._outcome.happened.append(f"{at}: {text}")

    def _end_nodes(self) -> None:
        for node in self._nodes:
            if node.runs:
                node.kill()

    # What is to be judged.

    def _facts(self) -> Facts:
        crashed = tuple(node.name for node in self._nodes if node.crashed)
        self._end_nodes()
        while self._later:  # the store may be away still
            heapq.heappop(self._later)[2]()
        try:
            finished, dead = self._witness.finished(), tuple(self._witness.dead())
        except redis.RedisError as error:
            self._note(f"the store does not answer at the end: {error}")
            finished, dead = None, ()
        warcs = self._home / "warcs"
        return Facts(
            expected=self._expected,
            log=RequestLog.read(self._requests),
            in_flight=self._in_flight,
            records=read_archive(warcs) if warcs.is_dir() else Records(),
            finished=finished,
            delay=DELAY,
            slack=SLACK,
            dead=dead,
            crashed=crashed,
        )

    def _conclude(self, facts: Facts) -> None:
        outcome = self._outcome
        outcome.faults = [(str(wrong), what) for wrong, what in judge(facts)]
        outcome.pages = len(facts.expected)
        outcome.refetched = facts.log.repeated().total() - len(facts.log.repeated())
        if facts.finished is not None:
            last = max(entry.end for entry in facts.log.entries)
            outcome.ending = max(0.0, facts.finished - last)
            seconds = facts.finished - self._epoch
            outcome.happened.append(f"{seconds:6.2f} s: the crawl is finished")
        outcome.extra = extra_fetches(facts).total()
