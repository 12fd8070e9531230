"""Pushing: one script call per partition tests, marks and queues its URLs.

What always holds:

1.  A URL is never marked as seen without being queued: both are one script.
    Only a push that names no queue is marked alone, for callers that have a
    queue of their own.
2.  A push is planned with the `SeenLayout` of the partition (`frontier.seen.config`).
    It does nothing if that is not the current one, or if others have pushed so much
    since that there is no room for it: the caller tries again with the layout that it
    returned. If that layout has no room either, the plan makes the seen-set grow.
3.  Any node may push to any partition; no lease is needed.
4.  What a `Pusher` sends again because no reply came is queued once: a tested push by
    its mark, which is seen by then, an untested one by its id.
"""

from __future__ import annotations

import itertools
import secrets
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import KeyDamaged
from frontier.model import frozen
from frontier.queue.due import DUE, waiting_element, wall_ms
from frontier.seen import intset
from frontier.seen.config import (
    MAX_URLS,
    LayoutStale,
    Plan,
    PlanKeys,
    SeenConfig,
    SeenLayout,
    grow_plan,
    grown,
    joined,
    pack,
)
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontier.store.keys import CrawlKeys, PartitionKeys

TEST, MARK, FORCE, CLAIM = "t", "m", "f", "l"
"""How a URL is pushed: if it is new; always, and it counts as seen from then on;
always, and nothing is remembered; if it is new, or claimed by the same owner: its
request stays in this process (see `frontier.node.delivery`)."""
UNTESTED = MARK + FORCE

NEW, SEEN, SEEN_BY_BLOOM, CLAIMED, FORCED = "n", "s", "b", "c", "f"
"""The script's verdicts on a URL."""
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
    """Its id among what its parent pushes untested (`Delivery.next_id`); 0 if it has no
    parent, or is tested. For a claim, its owner; 0 if it has none."""
    claimer: Any = None
    """The `Delivery` that it is for, if its request stays in this process."""


@frozen
class Pushed:
    """What a push did."""

    layout: SeenLayout
    verdicts: str
    """A letter per URL, in the order of the pushes."""
    became_ready: tuple[str, ...]
    """Queues that were empty before: their owner may not know of them. And `DUE` if
    something is due before all else that waits."""


def _element(queue: str, item: bytes, due: int) -> bytes:
    return waiting_element(queue, item) if due and queue else item


def push_plan(
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    clock: Callable[[], float] = wall_ms,
) -> Plan:
    """What `joined` needs to push *pushes*, at most `MAX_URLS`, to one partition.

    Where a seen-set of *layout* has no room for them, the plan makes it grow instead.
    Like the reply to a push that was planned with a stale layout, its reply then has
    the layout to plan the push with. *clock* is the server's, as far as the caller
    knows it, in milliseconds.
    """
    modes, marks, queues, priorities, items, _, dues, ids, _ = zip(*pushes, strict=True)
    urls = len(marks)
    wanted = intset.wanted(layout.count + urls)  # 1, where there is no set
    begins = tiers.is_full(layout, urls)
    if wanted > layout.buckets or begins:
        return grow_plan(keys, tiers, layout, wanted, urls, begins=begins)
    made = PlanKeys(keys, layout.era)
    filters = [(each.bits, each.hashes) for each in tiers.generations(layout)]
    made.names += [keys.counts, keys.queues, keys.seen, keys.claimed]
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
    head = (len(made.names), keys.born, known, tiers.room(layout))
    columns = ("".join(modes), texts, places, targets)
    packed = pack((*head, filters, lists, *columns, items if targets else (), forced))
    return Plan("queue_push", made.names, packed, urls)


def pushed(reply: list[Any], pushes: Sequence[Push]) -> Pushed:
    """Read the *reply* to the plan that pushed *pushes*.

    Raises:
        LayoutStale: Nothing was done; the error has the current layout.
        CrawlLost: Nothing was done; the store has lost what was in the partition.
    """
    layout = grown(reply)
    if reply[0] == 0:
        raise LayoutStale(layout)
    became_ready: tuple[str, ...] = ()
    if reply[7]:
        now = (push.queue for push in pushes if push.queue and not push.due)
        queues = list(dict.fromkeys(now))
        ready = [n - 1 for n in reply[7] if n <= len(queues)]
        became_ready = tuple(queues[number] for number in ready)
        if len(ready) < len(reply[7]):
            became_ready += (DUE,)
    return Pushed(layout, reply[6].decode("ascii"), became_ready)


EMPTY = SeenLayout()
AT_ONCE = 150
"""Partitions to which a caller that blocks pushes in one round trip."""


class Pusher:
    """Pushes of one process to the partitions of one crawl, one at a time to each."""

    def __init__(
        self,
        keys: CrawlKeys,
        tiers: SeenConfig,
        server_ms: Callable[[], float] = wall_ms,
    ) -> None:
        self.keys = keys
        self._tiers = tiers
        self._server_ms = server_ms
        self._layouts: dict[int, SeenLayout] = {}
        self._drawn: dict[int, list[int]] = {}
        """Ids of untested pushes without parents that are under way, by partition."""
        self._done: list[tuple[int, list[int]]] = []

    def push(
        self, store: BlockingStore, pushes: Iterable[tuple[int, Push]]
    ) -> list[tuple[int, Sequence[Push], Pushed]]:
        """Push *pushes*, each to its partition, for a caller that may block.

        Return what became of them, in portions, each of one partition. The store may
        repeat a call whose reply is lost, and its pushes are done once all the same.

        Raises:
            CrawlLost: The store has lost what was in a partition.
            KeyDamaged: A value in a partition is invalid.
            StoreError: The store does not answer, or refuses. Some may be stored.
        """
        waiting: dict[int, list[Push]] = defaultdict(list)
        for partition, push in pushes:
            waiting[partition].append(push)
        stored: list[tuple[int, Sequence[Push], Pushed]] = []
        while waiting:
            turn = list(itertools.islice(waiting.items(), AT_ONCE))
            batches = [(partition, of_it[:MAX_URLS]) for partition, of_it in turn]
            plans = [self.plan(*batch) for batch in batches]
            replies = store.run(joined(plans, alone=store.alone))
            every = itertools.chain.from_iterable(replies)
            for (partition, some), reply in zip(batches, every, strict=True):
                if (done := self.pushed(partition, reply, some)) is None:
                    continue
                stored.append((partition, some, done))
                del waiting[partition][: len(some)]
                if not waiting[partition]:
                    del waiting[partition]
        if forgotten := self.forget_calls():
            store.run(forgotten)
        return stored

    def plan(self, partition: int, pushes: Sequence[Push]) -> Plan:
        """The plan that pushes *pushes*, or makes room for them."""
        layout = self._layouts.get(partition, EMPTY)
        keys = self.keys.partition(partition)
        lacking = [
            n for n, p in enumerate(pushes) if p.mode in UNTESTED and not p.forced
        ]
        if lacking:
            drawn = [secrets.randbits(62) + 1 for _ in lacking]
            drawn = self._drawn.setdefault(partition, drawn)
            pushes = list(pushes)
            for place, one in zip(lacking, drawn, strict=True):
                pushes[place] = pushes[place]._replace(forced=one)
        return push_plan(keys, self._tiers, layout, pushes, self._server_ms)

    def pushed(
        self, partition: int, reply: list[Any], pushes: Sequence[Push]
    ) -> Pushed | None:
        """What became of the last plan; ``None`` if it is to be made again.

        Raises:
            KeyDamaged: Nothing was done; a value in the partition is invalid.
        """
        try:
            done = pushed(reply, pushes)
        except LayoutStale as stale:
            if not self._tiers.allows(stale.layout):
                reason = "its numbers do not fit each other"
                key = self.keys.partition(partition).seen
                raise KeyDamaged("", key, reason) from None
            self._layouts[partition] = stale.layout
            return None
        self._layouts[partition] = done.layout
        if partition in self._drawn:
            self._done.append((partition, self._drawn.pop(partition)))
        return done

    def forget_calls(self) -> list[Call]:
        """The calls that remove the ids that were drawn for pushes that are done.

        The calls may be dropped: an id that nobody removes only takes some bytes.
        """
        done, self._done = self._done, []
        return [
            Call.command("SREM", self.keys.partition(partition).forced, *ids)
            for partition, ids in done
        ]

    def went_back(self) -> None:
        """Rely on no layout any more."""
        self._layouts.clear()
