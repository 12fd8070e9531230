"""Pushing: one script call per partition tests, marks and queues its URLs.

A store can go back in time, by a failover or a restart, and others push to it at
once: no count that is shared tells what is missing then. So each push of a process
has a number, which the script keeps in the partition (`PartitionKeys.pushers`) in the
same step. What a server does is lost from the end, so where the last number of this
process is, there is all that it had pushed before, and all that it was told was seen.

What always holds:

1.  A URL is never marked as seen without being queued: both are one script.
    Only a push that names no queue is marked alone, for callers that have a
    queue of their own.
2.  A push is planned with the `SeenLayout` of the partition (`frontier.seen.config`).
    It does nothing if that is not the current one, or if others have pushed so much
    since that there is no room for it: the caller tries again with the layout that it
    returned. Where there is no room at all, the plan is one of growth.
3.  Any node may push to any partition; no lease is needed.
4.  A push that has a `Turn` is done once, however often it is sent, and not at all
    where the store has forgotten an earlier one of the same process.
5.  A number is given to one push only, and is greater than those given before; the
    same push that is sent again has the same. One push of a partition is under way at
    a time.
6.  A push that was confirmed longer than `CONFIRMED_FOR` seconds ago is not asked for:
    the store keeps the numbers of processes that are silent for an hour at least.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import KeyDamaged, PushForgotten
from frontier.queue.damage import is_number
from frontier.queue.due import DUE, waiting_element, wall_ms
from frontier.seen import intset
from frontier.seen.config import (
    LayoutStale,
    Plan,
    PlanKeys,
    SeenLayout,
    grow_plan,
    joined,
    layout_of,
    pack,
)
from frontier.store.client import Call
from frontier.store.scripts import QUEUE_PUSH
from frontier.urls.fingerprint import seen_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys, PartitionKeys

TEST, MARK, FORCE, CLAIM = "t", "m", "f", "l"
"""How a URL is pushed: if it is new; always, and it counts as seen from then
on; always, and nothing is remembered; if it is new, and only one process has its
request (see `frontier.queue.item`)."""
GONE = "0123456789"
"""The mode of a mark that was claimed by a process that is gone, by the number of
times that it was delivered: the next push of it finds it new."""

NEW, SEEN, SEEN_BY_BLOOM, CLAIMED, NOTED = "n", "s", "b", "c", "o"
"""What the script says of a URL."""
ARE_SEEN = SEEN + SEEN_BY_BLOOM + CLAIMED


class Push(NamedTuple):
    """One URL to be pushed."""

    mode: str
    mark: int
    queue: str
    """``<priority>:<queue key>``; empty if the URL is to be marked only."""
    priority: int
    item: bytes
    tag: Any = None
    """Whatever the caller wants back with the verdict."""
    due: int = 0
    """When it is to be ready, in ms of the server's clock; 0 for at once."""
    forced: int = 0
    """Its id of `Forced`; 0 if it has no parent, or is tested."""


class Forced:
    """What one *parent* pushes untested, with an id each.

    The ids are the same if it is delivered again, so that each is queued once.
    *parent* is what tells it from all that was ever queued: its item, or the id of its
    own push if it was not tested either, as equal requests have equal items.
    """

    def __init__(self, parent: bytes) -> None:
        self._parent = parent
        self._equal: Counter[bytes] = Counter()
        self.partitions: dict[int, int] = {}
        """By the ids of what is pushed."""

    def next_id(self, fingerprint: bytes) -> int:
        """The id of one more push of what has *fingerprint*."""
        self._equal[fingerprint] += 1
        ordinal = self._equal[fingerprint]
        return seen_hash(b"%d %b %b" % (ordinal, fingerprint, self._parent))


class Turn(NamedTuple):
    """Which push of which process to a partition it is."""

    process: str
    number: int
    """Greater than that of each earlier push of the process."""
    before: int
    """The last that the store has confirmed there; 0 if it need not have it."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    layout: SeenLayout
    verdicts: str
    """A letter per URL, in the order of the pushes."""
    became_ready: tuple[str, ...]
    """Queues that were empty before: their owner may not know of them. And `DUE` if
    something is due before all else that waits."""


def push_call(
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    turn: Turn | None = None,
) -> Call:
    """The call that pushes *pushes*, at most `MAX_URLS`, to one partition.

    Or that makes room for them, where there is none: see `push_plan`. Without a *turn*
    it may be done twice if it is sent twice.
    """
    (call,) = joined([push_plan(keys, tiers, layout, pushes, turn)], alone=False)
    return call


def _element(queue: str, item: bytes, due: int) -> bytes:
    return waiting_element(queue, item) if due and queue else item


def push_plan(
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    turn: Turn | None = None,
    clock: Callable[[], float] = wall_ms,
) -> Plan:
    """What `joined` needs to push *pushes*, at most `MAX_URLS`, to one partition.

    Where a seen-set of *layout* has no room for them, it is what `joined` needs to make
    it grow. Its reply has the layout that the push is then to be planned with, as that
    of a push that was planned with another than the current one. *clock* is the
    server's, as far as the caller knows it, in milliseconds.
    """
    modes, marks, queues, priorities, items, _, dues, ids = zip(*pushes, strict=True)
    urls = len(marks)
    wanted = intset.wanted(layout.count + urls) if tiers.has_set else 0
    begins = tiers.is_full(layout, urls)
    if wanted > layout.buckets or begins:
        return grow_plan(keys, tiers, layout, wanted, urls, begins=begins)
    made = PlanKeys(keys, layout.era)
    filters = [(each.bits, each.hashes) for each in tiers.generations(layout)]
    made.names += [keys.counts, keys.queues, keys.seen, keys.pushers, keys.claimed]
    made.names += [keys.bloom(number) for number in range(len(filters))]
    is_tested = tiers.has_set or tiers.has_bloom
    texts = [str(mark) for mark in marks] if is_tested else []
    places: list[int] = []
    if tiers.has_set:
        places = made.buckets(intset.buckets_of(marks, layout.buckets))
    lists, targets = made.lists(queues, priorities, dues, clock)
    if any(dues):
        items = tuple(map(_element, queues, items, dues))
    forced: Sequence[Any] = ()
    if any(ids):
        made.names.append(keys.forced)
        forced = (len(made.names), [str(one) if one else "" for one in ids])
    known = (layout.buckets, layout.blooms, layout.era)
    head = (len(made.names), keys.born, turn or (), known, tiers.room(layout))
    columns = ("".join(modes), texts, places, targets)
    packed = pack((*head, filters, lists, *columns, items if targets else (), forced))
    return Plan(QUEUE_PUSH, made.names, packed, urls)


def push_to(
    store: BlockingStore,
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
) -> Pushed:
    """Push *pushes*, at most `MAX_URLS`, to one partition, whatever layout it has.

    For callers that may wait, and whose pushes may be done twice.

    Raises:
        CrawlLost: The store has lost what was in the partition.
        KeyDamaged: A value in the partition cannot be.
        StoreError: The store does not answer, or refuses.
    """
    while True:
        reply = store.call(push_call(keys, tiers, layout, pushes))
        try:
            return pushed(reply, pushes)
        except LayoutStale as stale:
            layout = stale.layout


def pushed(reply: list[Any], pushes: Sequence[Push]) -> Pushed:
    """What *reply* to the call that pushed *pushes*, and nothing else, says.

    Raises:
        LayoutStale: Nothing was done; the error has the current layout.
        CrawlLost: Nothing was done; the store has lost what was in the partition.
        PushForgotten: Nothing was done.
    """
    return pushed_one(reply[0], pushes)


def pushed_one(reply: list[Any], pushes: Sequence[Push]) -> Pushed:
    """What the reply to one of several plans says; raises as `pushed` does."""
    layout = layout_of(reply)
    if reply[0] == 0:
        raise LayoutStale(layout)
    if reply[0] == 2:
        raise PushForgotten
    became_ready: tuple[str, ...] = ()
    if reply[7]:
        now = (push.queue for push in pushes if push.queue and not push.due)
        queues = list(dict.fromkeys(now))
        ready = [n - 1 for n in reply[7] if n <= len(queues)]
        became_ready = tuple(queues[number] for number in ready)
        if len(ready) < len(reply[7]):
            became_ready += (DUE,)
    return Pushed(layout, reply[6].decode("ascii"), became_ready)


CONFIRMED_FOR = 600.0
"""Seconds; a replica that is so far behind is not promoted."""
EMPTY = SeenLayout()


def new_pusher() -> str:
    """A name for the pushes of one process, which no other has."""
    return secrets.token_urlsafe(6)


class Pusher:
    """Numbers the pushes of one process to the partitions of one crawl."""

    def __init__(
        self,
        keys: CrawlKeys,
        tiers: SeenConfig,
        clock: Callable[[], float] = time.monotonic,
        process: str = "",
        server_ms: Callable[[], float] = wall_ms,
    ) -> None:
        self._keys = keys
        self._tiers = tiers
        self._clock = clock
        self._server_ms = server_ms
        self._layouts: dict[int, SeenLayout] = {}
        self._last = 0
        self._sent: dict[int, Turn] = {}
        self._confirmed: dict[int, tuple[int, float]] = {}
        self.process = process or new_pusher()
        """What the store knows this process by."""

    def plan(self, partition: int, pushes: Sequence[Push]) -> Plan:
        """What pushes *pushes*, with the next number; or makes room for them."""
        before = self.confirmed(partition)
        turn = Turn(self.process, self._last + 1, before)
        layout = self._layouts.get(partition, EMPTY)
        keys = self._keys.partition(partition)
        plan = push_plan(keys, self._tiers, layout, pushes, turn, self._server_ms)
        if plan.script is QUEUE_PUSH:
            self._sent[partition], self._last = turn, turn.number
        return plan

    def pushed(
        self, partition: int, reply: list[Any], pushes: Sequence[Push]
    ) -> Pushed | None:
        """What became of the last plan; ``None`` if it is to be made again.

        Raises:
            PushForgotten: Nothing was done, as an earlier push is missing.
            KeyDamaged: Nothing was done; a value in the partition cannot be.
        """
        try:
            done = pushed_one(reply, pushes)
        except LayoutStale as stale:
            if not self._tiers.allows(stale.layout):
                reason = "its numbers do not fit each other"
                key = self._keys.partition(partition).seen
                raise KeyDamaged("", key, reason) from None
            self._layouts[partition] = stale.layout
            return None
        self._layouts[partition] = done.layout
        self._confirmed[partition] = (self.number(partition), self._clock())
        return done

    def key(self, partition: int) -> str:
        """The key of *partition* that has the numbers."""
        return self._keys.partition(partition).pushers

    def number(self, partition: int) -> int:
        """The number of the last push to *partition* that was planned."""
        return self._sent[partition].number

    def confirmed(self, partition: int) -> int:
        """The number of the last push that *partition* must have; 0 if of none."""
        number, when = self._confirmed.get(partition, (0, 0.0))
        return number if when > self._clock() - CONFIRMED_FOR else 0

    def is_outdated(self, partition: int) -> bool:
        """Whether the last plan asks for a push that is known to be forgotten."""
        return self._sent[partition].before > self.confirmed(partition)

    def ask(self) -> dict[int, Call]:
        """The calls that ask partitions for the last number that they have."""
        return {
            partition: last_push(self._keys, partition, self.process)
            for partition in self._confirmed
            if self.confirmed(partition)
        }

    def forgotten(self, replies: Mapping[int, bytes | None]) -> dict[int, int]:
        """Partitions that lack pushes, with the last number that they have.

        *replies* are those to the calls of `ask`.
        """
        has = {partition: number_of(reply) for partition, reply in replies.items()}
        return {p: number for p, number in has.items() if number < self.confirmed(p)}

    def went_back(self, forgotten: Mapping[int, int]) -> None:
        """Count on no more than what partitions have, and on no layout."""
        self._layouts.clear()
        for partition, number in forgotten.items():
            self._confirmed[partition] = (number, self._clock())

    def end(self, run: Callable[[Sequence[Call]], list[Any]]) -> None:
        """Ask whether all that was confirmed is there, and `leave`; waits for *run*.

        Raises:
            PushForgotten: It is not.
        """
        calls = self.ask()
        if self.forgotten(dict(zip(calls, run(list(calls.values())), strict=True))):
            raise PushForgotten
        run(self.leave())

    def leave(self) -> list[Call]:
        """The calls that take this process out of the partitions.

        Only when nothing of it is under way, and it will not compare any more.
        """
        names = [self._keys.partition(partition).pushers for partition in self._sent]
        return [Call.command("HDEL", name, self.process) for name in names]


def last_push(keys: CrawlKeys, partition: int, process: str) -> Call:
    """The call that asks *partition* for the last push of *process*."""
    return Call.command("HGET", keys.partition(partition).pushers, process)


def number_of(reply: bytes | None) -> int:
    """The number in the *reply* to `last_push`; 0 if there is none."""
    number = (reply or b"0").split(b" ", 1)[0]
    return int(number) if is_number(number) else 0
