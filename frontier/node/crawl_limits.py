"""The limits of a whole crawl: what its nodes did is counted in the store.

`Spending` counts against the crawl's limits, `Portions` counts what nodes find of
groups of URLs (see `frontier.urls.traps`).

What always holds:

1.  What a node did is in the store before the request that led to it is acked: a kill
    takes from the count only what is fetched again.
2.  A report that is repeated, because its reply was lost, is counted once.
3.  With a limit of pages, a node begins a request only on an *allowance*, and the store
    gives no more allowances than pages are left. So pages exceed the limit only by
    requests that need none: robots.txt files, and requests that cannot be stored.
    Items, errors and bytes exceed theirs by what is under way when the limit is
    reached. A node that dies loses its allowances when it is taken off the map.
4.  Without a limit, nothing is counted for it.
5.  For each group of URLs, the store has the sum of what nodes have reported of it. A
    node reports in portions, so that the store has only groups with many URLs, however
    many groups there are.
6.  Nothing waits for a portion: one that is on its way is missing from the sum. One
    whose reply was lost is sent again and may count twice: a limit may be reached
    sooner by that much. The portion of a node that is killed is missing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from dataclasses import astuple
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.cluster.crawls import LIMIT
from frontier.model import frozen
from frontier.node.context import Part, happens
from frontier.store.client import Argument, Call
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.node.node import Node
    from frontier.queue.reserve import Reservation
    from frontier.urls.traps import Group

DELAY = 0.05
"""Seconds that a portion waits for others."""


class Portions(Part):
    """Reports portions to the store, and tells `on_total` a group's sum after each."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: Counter[Group] = Counter()
        self._some = asyncio.Event()
        self.on_total: Callable[[Group, int], None] = lambda _, __: None

    def add(self, group: Group, count: int) -> None:
        """Report *count* more URLs of *group*."""
        self._waiting[group] += count
        self._some.set()

    @override
    async def run(self) -> None:
        """Report portions, until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(DELAY)
            await self.flush()

    async def flush(self) -> None:
        """Report all that waits."""
        self._some.clear()
        told, self._waiting = self._waiting, Counter()
        calls = [self._call(group, count) for group, count in told.items()]
        totals = await self._node.run(calls)
        for group, total in zip(told, totals, strict=True):
            self.on_total(group, int(total))

    def _call(self, group: Group, count: int) -> Call:
        partition = partition_of(group.host, self._node.config.partitions)
        name = self._node.keys.partition(partition).groups
        field = str(seen_hash(f"{group.kind} {group.name}".encode("utf-8", "replace")))
        return Call.command("HINCRBY", name, field, count)


INTERVAL = 1.0
"""Seconds between reports, to learn when others, or the time, have reached a limit."""
AGAIN = 0.1
"""Seconds after which a node that could begin a request, but may not, asks again."""
COUNTED = ("pages", "items", "errors", "bytes")


@frozen
class Limits:
    """The limits of a whole crawl; 0 is none."""

    pages: int = 0
    items: int = 0
    errors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """The limit on the time during which a node of the crawl was alive."""

    def __bool__(self) -> bool:
        return any(astuple(self))


NO_LIMITS = Limits()


class Spending(Part):
    """Counts what one node does, and learns when the crawl has reached a limit."""

    def __init__(
        self,
        node: Node,
        limits: Limits,
    ) -> None:
        self._node, keys = node, node.keys
        self._names = [keys.meta, keys.spent, keys.allowances, keys.nodes]
        self._born = keys.born
        self.limits = limits
        self.is_counting = bool(limits)
        """Whether there is a limit, or was one."""
        self._node_id = node.config.node_id
        self._ttl_ms = int(node.config.lease_ttl * 1000)
        self._process = secrets.token_hex(8)
        self._number = 0
        self._counts: Counter[str] = Counter()
        self._reached = ""
        self._allowed = 0
        self._under_way = 0
        self._starved = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self.ended_at = ""
        """The limit that the crawl has ended at, and its value; empty before."""

    def change(self, limits: Limits) -> None:
        """Keep to *limits* from now on; if there were none so far, begin to count."""
        self.limits = limits
        self.is_counting = self.is_counting or bool(limits)
        self._starved.set()  # it may begin something now

    def add(self, name: str, count: int = 1) -> None:
        """Count *count* more of *name*, one of `COUNTED`."""
        self._counts[name] += count

    def reach(self, name: str) -> None:
        """Note that the limit of *name* is reached, as this node's Scrapy has found."""
        self._reached = self._reached or name

    @override
    def room(self) -> bool:
        """Whether a request may be begun; if not, the owner is told when one may."""
        if self._allowed or not self.limits.pages:
            return not self.ended_at
        self._starved.set()
        return False

    @override
    def begin(self, reservation: Reservation) -> None:
        """Count a request as begun."""
        self._under_way += 1
        self._allowed = max(0, self._allowed - 1)

    @override
    def ended(self, reservations: Sequence[Reservation]) -> None:
        """Count the requests of *reservations* as over."""
        self._under_way = max(0, self._under_way - len(reservations))

    @override
    async def run(self) -> None:
        """Report, until cancelled."""
        while True:
            await happens(self._starved, INTERVAL)
            await self.before_ack()
            if self._starved.is_set() and not self._allowed:
                await asyncio.sleep(AGAIN)
            self._starved.clear()

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Have the store count what is not counted yet, and ask for allowances."""
        if not self.is_counting:
            return
        async with self._one_at_a_time:
            counts, self._counts = self._counts, Counter()
            self._number += 1
            inbox = self._node.inbox
            waiting = 0 if inbox.stopped else len(inbox)
            self._allowed = min(self._allowed, waiting)
            call = self._call(counts, waiting - self._allowed)
            reply = await self._node.answer(call)
            state, limit, granted = reply
            self._allowed += int(granted)
            if granted:
                self._node.owner.on_ready()
            if state == b"limit" and not self.ended_at:
                self.ended_at = limit.decode("utf-8", "replace")
                self._node.tell_end(LIMIT)

    def _call(self, counts: Counter[str], wanted: int) -> Call:
        limits = self.limits
        args: list[Argument] = [self._node_id, self._process, self._number]
        args += [self._under_way + self._allowed, wanted, self._ttl_ms, self._reached]
        # Time in which no host answers this node does not count for the crawl.
        paused = self._node.uplink.since is not None
        span = 0 if paused else int(limits.seconds * 1000)
        args += [span, self._born]
        for name in COUNTED:
            args += [counts[name], getattr(limits, name)]
        return Call.to("crawl_spend", self._names, args)
