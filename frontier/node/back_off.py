"""Back-off on one node: which hosts it leaves alone, and what it tells the others.

What is known here is what the store has of the hosts whose partitions the node holds
(`frontier.queue.back_off`); where any node may have URLs of any host, of all.

What always holds:

1.  A host is left alone here from the moment when it says so, and in the store before
    the request that it said it to is acked: the next holder leaves it alone as well.
2.  Nothing is reserved from a partition before its back-offs are known.
3.  A host that has failed has one request on the way at a time, until it answers.
4.  An answer to what was sent before a back-off began does not end it, and a failure
    of such a request does not make the next one longer. A back-off that a server wants
    (429, 503) holds until it is over: what was sent during it came from a node that had
    not heard of it.
5.  A host is given up after so many back-offs without an answer. It is asked again when
    the last one is over; only an answer ends that.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.cluster.controls import ALL_HOSTS
from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.queue.back_off import (
    ABSENT,
    BUSY,
    JITTER,
    MEANINGS,
    Failure,
    Limits,
    answered_call,
    failed_call,
    is_changed,
    read,
    read_call,
    said,
)
from frontier.settings.values import QUEUE_KEYS
from frontier.store.outage_retry import ASK_AGAIN
from frontier.urls.partition import SPREAD, host_of_shard, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.model import Lease
    from frontier.node.context import NodeContext
    from frontier.queue.back_off import BackOff
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.store.client import Call

logger = logging.getLogger(__name__)

POLL = 0.25
"""Seconds between looks at what other nodes have heard, where hosts are shared."""
MOST_COUNTED = 10_000
"""Hosts whose failed connections are counted."""
NAMED = 5
"""Hosts that are named in the log when they are given up; the others are counted."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A back-off, on the monotonic clock."""

    until: float
    since: float
    failures: int
    reason: str

    @classmethod
    def of(cls, told: BackOff) -> _Known:
        now = time.monotonic()
        return cls(now + told.left, now - told.age, told.failures, told.reason)

    def ends_with(self, sent: float) -> bool:
        """Whether an answer to what was sent at *sent* ends it."""
        return sent >= (self.until if self.reason in BUSY else self.since)


class BackOffs(Part):
    """What one node knows of hosts that are left alone."""

    def __init__(self, context: NodeContext, config: Config) -> None:
        self._outage_retry = context.outage_retry
        self._keys = context.keys
        self._leases = context.leases
        self._config = config
        self._is_shared = config.host_shards > 1 or config.queue_key in SPREAD
        self._has_slots = config.queue_key in QUEUE_KEYS
        self._known: dict[str, _Known] = {}
        self._missed: Counter[str] = Counter()
        """Requests in a row that have not reached a host."""
        self._untold: list[tuple[str, float, Failure | None]] = []
        """What the store has to be told: a host, when its request was sent, and how
        it has failed, or ``None`` if it has answered."""
        self._some = asyncio.Event()
        self._telling = asyncio.Lock()
        self._learned: dict[int, int] = {}
        """Partition to the token under which its back-offs were read."""
        self._changes = -1
        self._mark = b""
        self._asked_at = 0.0
        self.on_retry: Callable[[], object] = lambda: None
        """Told that hosts may be asked before the time that was known."""
        self.given_up: Counter[str] = Counter()
        """URLs that this node has given up, by host."""

    def of_queue(self, queue_key: str) -> str:
        """The host that is left alone where URLs of *queue_key* are not to be sent."""
        if self._config.host_shards > 1:
            return host_of_shard(queue_key)
        # A host has a queue for each downloader slot that requests name.
        return queue_key.partition("~")[0] if self._has_slots else queue_key

    def __bool__(self) -> bool:
        """Whether any host has failed, as far as is known here."""
        return bool(self._known)

    @property
    def count(self) -> int:
        """How many hosts are left alone now, as far as is known here."""
        now = time.monotonic()
        return sum(known.until > now for known in self._known.values())

    @property
    def cares(self) -> bool:
        """Whether the next answer of a host may mean anything."""
        return bool(self._known or self._missed)

    def left(self, host: str) -> float:
        """For how many seconds *host* is left alone from now; 0 if it may be asked."""
        known = self._known.get(host)
        return 0.0 if known is None else max(0.0, known.until - time.monotonic())

    def waits(self, host: str) -> bool:
        """Whether URLs of *host* wait in the store for it to be asked again."""
        return self.left(host) > 0 and not self.gives_up(host)

    def until(self, host: str) -> float:
        """When *host* may be asked again, on the monotonic clock."""
        known = self._known.get(host)
        return 0.0 if known is None else known.until

    def failures(self, host: str) -> int:
        """How many back-offs *host* has had in a row; 0 if it answers."""
        known = self._known.get(host)
        return 0 if known is None else known.failures

    def gives_up(self, host: str) -> bool:
        """Whether URLs of *host* are given up now."""
        known = self._known.get(host)
        if known is None or known.until <= time.monotonic():
            return False
        return known.failures > Limits.of(self._config, known.reason).times

    def reason(self, host: str) -> str:
        """What *host* has done."""
        known = self._known.get(host)
        return "" if known is None else known.reason

    # What requests come to.

    def refused(self, host: str, reason: str, sent: float, asked: float) -> None:
        """Leave *host* alone: it was asked at *sent*, and wants it for *asked* seconds.

        *sent* is on the monotonic clock.
        """
        if self._config.backoff_times:
            self._missed.pop(host, None)
            self._begin(host, reason, sent, asked)

    def missed(self, host: str, reason: str, sent: float) -> None:
        """Count a request that has not reached *host*; set it aside after many."""
        most = self._config.backoff_unreachable_after
        if not most:
            return
        if host not in self._known:
            if len(self._missed) >= MOST_COUNTED:
                self._missed.clear()
            self._missed[host] += 1
            if self._missed[host] < most:
                return
            del self._missed[host]
        self._begin(host, reason, sent, 0.0)

    def answered(self, host: str, sent: float) -> None:
        """Note that *host* has answered a request that was sent at *sent*."""
        if self._missed:
            self._missed.pop(host, None)
        known = self._known.get(host)
        if known is not None and known.ends_with(sent):
            del self._known[host]
            self._untold.append((host, sent, None))
            self._some.set()
            logger.info("%s answers again", host)

    def told(self, host: str) -> str:
        """What *host* has done, and how often, for people."""
        why = MEANINGS.get(self.reason(host), self.reason(host))
        return f"{why}, after {max(0, self.failures(host) - 1):,} back-offs in a row"

    def retry(self, what: str) -> None:
        """Ask a host, or all of them, at once: an operator wants it.

        The store knows of no back-off by then.
        """
        hosts = [*self._known] if what == ALL_HOSTS else [what]
        for host in hosts:
            self._known.pop(host, None)
            self._missed.pop(host, None)
        self._untold = [one for one in self._untold if one[0] not in hosts]
        self.on_retry()

    def forgive(self, since: float) -> None:
        """Forget what hosts that cannot be reached have done since *since*.

        That is on the monotonic clock. It was not the hosts.
        """
        self._missed.clear()
        now = time.monotonic()
        for host, known in list(self._known.items()):
            if known.reason in ABSENT and known.since >= since:
                del self._known[host]
                self._untold.append((host, now, None))
                self._some.set()
        self.on_retry()

    def give_up(self, host: str) -> None:
        """Count a URL of *host* that is given up, and say so of the first."""
        self.given_up[host] += 1
        if self.given_up[host] == 1 and len(self.given_up) <= NAMED:
            logger.warning(
                "%s is given up after %d back-offs in a row (%s): its URLs are not "
                "sent for %.0f s, and become dead letters",
                host,
                self.failures(host) - 1,
                self.reason(host),
                self.left(host),
            )

    def _begin(self, host: str, reason: str, sent: float, asked: float) -> None:
        now = time.monotonic()
        jitter = random.uniform(0, JITTER)
        limits = Limits.of(self._config, reason)
        old = self._known.get(host)
        if old is not None and (old.until > now or old.since > sent):
            until = max(old.until, now + asked * (1 + jitter))
            known = _Known(until, old.since, old.failures, old.reason)
        else:
            failures = 1 if old is None else old.failures + 1
            wait = limits.wait(failures, asked, jitter)
            known = _Known(now + wait, now, failures, reason)
            logger.log(
                logging.WARNING if reason in ABSENT else logging.INFO,
                "%s is left alone for %.0f s (%s, %d in a row)",
                host,
                wait,
                reason,
                failures,
            )
        self._known[host] = known
        failure = Failure(host, reason, 0.0, asked, jitter)
        self._untold.append((host, sent, failure))
        self._some.set()

    # The store.

    @override
    async def run(self) -> None:
        """Tell the store what this node hears, and learn what others do."""
        while True:
            try:
                async with asyncio.timeout(POLL if self._is_shared else None):
                    await self._some.wait()
            except TimeoutError:
                await self._look()
                continue
            await self.flush()
            if self._untold:
                await asyncio.sleep(ASK_AGAIN)

    async def flush(self) -> None:
        """Tell the store what was heard so far; what is not answered is told again."""
        async with self._telling:
            self._some.clear()
            told, self._untold = self._untold, []
            calls = [self._call(*one) for one in told]
            replies = await self._outage_retry.partial(calls)
            untold = []
            for one, reply in zip(told, replies, strict=True):
                if isinstance(reply, StoreUnavailable):
                    untold.append(one)
                    self._some.set()
                elif one[2] is not None and reply is not None:
                    self._settle(one[0], _Known.of(said(reply)))
            self._untold = untold + self._untold

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Return when the store knows what was heard so far."""
        await self.leaving()

    @override
    def report(self) -> dict[str, Any]:
        """How many requests were given up."""
        return {"given_up": self.given_up.total()}

    @override
    def went_back(self) -> None:
        """Have the store told what it may have forgotten in a failover."""
        now = time.monotonic()
        for host, known in self._known.items():
            if (left := known.until - now) > 0:
                failure = Failure(host, known.reason, 0.0, left, 0.0)
                self._untold.append((host, now, failure))
                self._some.set()

    @override
    async def leaving(self) -> None:
        """Return when the store knows what was heard so far."""
        while self._untold or self._telling.locked():  # somebody else may be at it
            await self.flush()
            if self._untold:
                await asyncio.sleep(ASK_AGAIN)

    def _call(self, host: str, sent: float, failure: Failure | None) -> Call:
        key, ago = self._key(host), time.monotonic() - sent
        if failure is None:
            return answered_call(key, [(host, ago)])
        told = Failure(host, failure.reason, ago, failure.asked, failure.jitter)
        return failed_call(key, told, Limits.of(self._config, failure.reason))

    def _settle(self, host: str, told: _Known) -> None:
        """Believe the store, which knows what others have said; but ask no earlier."""
        known = self._known.get(host)
        if known is not None and known.failures <= told.failures:
            until = max(known.until, told.until)
            since = max(known.since, told.since)
            self._known[host] = _Known(until, since, told.failures, told.reason)

    def _key(self, host: str) -> str:
        if self._is_shared:
            return self._keys.back_off()
        number = partition_of(host, self._config.partitions)
        return self._keys.partition(number).back_off

    def learned(self, lease: Lease) -> bool:
        """Whether the back-offs of *lease*'s partition are known."""
        return self._is_shared or self._learned.get(lease.partition) == lease.token

    async def learn(self) -> None:
        """Read the back-offs of partitions that were acquired since the last look."""
        if self._changes == self._leases.changes or time.monotonic() < self._asked_at:
            return
        changes = self._leases.changes
        if self._is_shared:
            if self._changes < 0 and not await self._look():
                return
            self._changes = changes
            return
        held = dict(self._leases.held)
        gone = {p for p, t in self._learned.items() if p not in held}
        fresh = [lease for lease in held.values() if not self.learned(lease)]
        calls = [
            read_call(self._keys.partition(lease.partition).back_off) for lease in fresh
        ]
        replies = await self._outage_retry.partial(calls)
        self._forget(gone | {lease.partition for lease in fresh})
        for lease, reply in zip(fresh, replies, strict=True):
            if isinstance(reply, StoreUnavailable) or reply is None:
                self._asked_at = time.monotonic() + ASK_AGAIN
                continue
            self._take(read(reply)[1])
            self._learned[lease.partition] = lease.token
        if all(map(self.learned, held.values())):
            self._changes = changes

    async def _look(self) -> bool:
        """Learn what other nodes have heard; whether the store has answered."""
        call = read_call(self._keys.back_off(), self._mark)
        (reply,) = await self._outage_retry.partial([call])
        if isinstance(reply, StoreUnavailable) or reply is None:
            self._asked_at = time.monotonic() + ASK_AGAIN
            return False
        if is_changed(reply, self._mark):
            self._mark, found = read(reply)
            untold = {host for host, *_ in self._untold}
            for host in self._known.keys() - found.keys() - untold:
                del self._known[host]
            self._take(found)
        return True

    def _take(self, found: dict[str, BackOff]) -> None:
        untold = {host for host, *_ in self._untold}
        for host, told in found.items():
            if host in untold:
                self._settle(host, _Known.of(told))
            else:
                self._known[host] = _Known.of(told)

    def _forget(self, partitions: set[int]) -> None:
        """Know nothing more of *partitions*, but what the store is still to be told."""
        if not partitions:
            return
        untold = {host for host, *_ in self._untold}
        whole = self._config.partitions
        for host in [
            host
            for host in self._known
            if partition_of(host, whole) in partitions and host not in untold
        ]:
            del self._known[host]
        for partition in partitions:
            self._learned.pop(partition, None)

    @override
    def tell(self) -> None:
        """Say what this node has given up."""
        if self.given_up:
            most = self.given_up.most_common(NAMED)
            logger.error(
                "%d requests to %d hosts were given up, as the hosts were left alone "
                "too often without an answer (%s%s); those of the queue are dead "
                "letters, which frontier crawl requeue puts back",
                self.given_up.total(),
                len(self.given_up),
                ", ".join(f"{host} {count:,}" for host, count in most),
                ", ..." if len(self.given_up) > NAMED else "",
            )
