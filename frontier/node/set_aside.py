"""Damaged keys: the partition is set aside, and the others go on.

A node does so (`SettingAside`), and a command that pushes (`Holding`).

What always holds:

1.  A partition is set aside in the store before this node takes its keys for absent:
    no other node, and no scan for the end, can take it for done.
2.  What the damage has taken out of the store, and this node still has, is held in
    the partition: requests that it had reserved, and pushes that cannot be queued.
3.  A key of the crawl itself is not set aside: the error ends the node, but for a
    hint, which is thrown away.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from frontier.cluster.set_aside import ASIDE, Fault, aside_call, hold_call
from frontier.queue.damage import look
from frontier.queue.priority import split_name
from frontier.queue.push import FORCE, Push, held
from frontier.store.client import Call
from frontier.store.keys import number_in
from frontier.store.scripts import PARTITION_SCAN

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from frontier.errors import KeyDamaged
    from frontier.node.context import NodeContext
    from frontier.node.inbox import Inbox
    from frontier.seen.config import SeenConfig
    from frontier.store.client import BlockingStore, Store
    from frontier.store.keys import CrawlKeys, PartitionKeys

T = TypeVar("T")

logger = logging.getLogger(__name__)

MANY: dict[str, Callable[[], Any]] = {
    "HGETALL": dict,
    "HKEYS": list,
    "HVALS": list,
    "LRANGE": list,
    "SMEMBERS": set,
    "ZRANGE": list,
    "LLEN": int,
    "HLEN": int,
    "EXISTS": int,
    "HDEL": int,
    "ZREM": int,
}
"""What commands answer about a key that is not there, where it is not ``None``."""


def absent(call: Call) -> Any:
    """The reply to *call* if its keys were not there, or nobody's."""
    if call.script is not None:
        return [ASIDE, b""] if call.script is PARTITION_SCAN else None
    if call.name == "HMGET":
        return [None for _ in call.parts[2:]]
    return MANY.get(call.name, lambda: None)()


class SettingAside:
    """Sets partitions aside on behalf of one node."""

    def __init__(
        self,
        context: NodeContext,
        store: Store,
        inbox: Inbox,
        tiers: SeenConfig,
        *,
        on_aside: Callable[[], None],
    ) -> None:
        self._store = store
        self._keys = context.keys
        self._leases = context.leases
        self._partitions = context.partitions
        self._inbox = inbox
        self._tiers = tiers
        self._on_aside = on_aside

    async def answer(self, call: Call, error: KeyDamaged) -> Any:
        """What stands in place of the reply to *call*, which *error* has prevented.

        Raises:
            KeyDamaged: The key is the crawl's.
        """
        number = number_in(self._keys, error.key)
        if number is None or number >= self._partitions:
            if call.name == "LPOP":  # hints, which a renewal tells too
                await self._store.run([Call.command("DEL", error.key)])
                logger.warning("%s; it is removed: it had hints only", error)
                return None
            raise error
        await self.set_aside(number, error)
        return absent(call)

    async def set_aside(self, partition: int, error: KeyDamaged) -> None:
        """Set *partition* aside, and lose what this node had of it."""
        keys = self._keys.partition(partition)
        found = await self._run(look(keys, self._tiers))
        faults = _faults(keys, found, error)
        (is_new,) = await self._store.run([aside_call(keys, faults)])
        if any(fault.key == "reserved" for fault in faults):
            await self._hold_reserved(partition)
        lease = self._leases.held.get(partition)
        if lease is not None:
            self._leases.forget(lease)
            self._inbox.lose(lease)
        self._leases.aside.add(partition)
        if is_new:
            logger.error(
                "partition %d is set aside: its key %s is damaged (%s); the crawl goes "
                "on without it and ends as incomplete; frontier crawl repair --crawl "
                "%s puts it right",
                partition,
                faults[0].key,
                faults[0].reason,
                self._keys.crawl_id,
            )
        self._on_aside()

    async def hold(self, partition: int, pushes: Sequence[Push]) -> bool:
        """Hold *pushes*, which cannot be queued, until *partition* is repaired.

        Returns whether they are; not if it is repaired already.
        """
        keys = self._keys.partition(partition)
        (new,) = await self._store.run([hold_call(keys, map(held, pushes))])
        return int(new) >= 0

    async def _hold_reserved(self, partition: int) -> None:
        """Hold what this node has reserved: the store cannot say it any more."""
        found = [
            Push(FORCE, 0, one.queue, split_name(one.queue)[0], one.item)
            for one in self._inbox.open.values()
            if one.lease.partition == partition
        ]
        if found:
            await self.hold(partition, found)

    async def _run(
        self, looking: Generator[list[Call], list[Any], list[tuple[str, str]]]
    ) -> list[tuple[str, str]]:
        replies: list[Any] | None = None
        try:
            while True:
                calls = next(looking) if replies is None else looking.send(replies)
                replies = await self._store.run(calls) if calls else []
        except StopIteration as end:
            found: list[tuple[str, str]] = end.value
            return found


class Holding:
    """Sets partitions aside on behalf of a command, which owns none, and holds pushes.

    A node that owns one of them notices with its next call there.
    """

    def __init__(
        self, store: BlockingStore, keys: CrawlKeys, tiers: SeenConfig
    ) -> None:
        self._store = store
        self._keys = keys
        self._tiers = tiers
        self.faults: dict[int, Fault] = {}
        """The first fault of each partition that was found damaged."""
        self.held = 0
        """Requests that could not be queued, and are held until the repair."""

    def set_aside(self, partition: int, error: KeyDamaged) -> None:
        """Set *partition* aside, which *error* is about."""
        keys = self._keys.partition(partition)
        faults = _faults(keys, drive(self._store, look(keys, self._tiers)), error)
        self._store.call(aside_call(keys, faults))
        self.faults.setdefault(partition, faults[0])

    def hold(self, partition: int, pushes: Sequence[Push], error: KeyDamaged) -> bool:
        """Set *partition* aside and hold *pushes*, which *error* has kept out.

        Returns whether they are held; not if it is repaired meanwhile.
        """
        self.set_aside(partition, error)
        keys = self._keys.partition(partition)
        if int(self._store.call(hold_call(keys, map(held, pushes)))) < 0:
            return False
        self.held += sum(bool(push.queue) for push in pushes)
        return True

    def told(self) -> list[str]:
        """A line for each partition that was set aside, or is."""
        return [
            f"partition {partition} is set aside: its key {fault.key} is damaged "
            f"({fault.reason}); what is pushed to it is held there until frontier "
            f"crawl repair --crawl {self._keys.crawl_id} puts it right"
            for partition, fault in sorted(self.faults.items())
        ]


def drive(store: BlockingStore, looking: Generator[list[Call], list[Any], T]) -> T:
    """What *looking* returns, which yields calls and is sent their replies."""
    replies: list[Any] | None = None
    try:
        while True:
            calls = next(looking) if replies is None else looking.send(replies)
            replies = store.run(calls) if calls else []
    except StopIteration as end:
        found: T = end.value
        return found


def _faults(
    keys: PartitionKeys, found: Sequence[tuple[str, str]], error: KeyDamaged
) -> list[Fault]:
    """What was *found* to be wrong with a partition; else what *error* says."""
    if found:
        return [Fault(*one) for one in found]
    return [Fault(error.key.removeprefix(keys.tag + ":") or "counts", error.reason)]
