"""A store that has gone back in time: what a node makes of it.

After a failover the new primary may not have the last writes of the old one,
which are copied to it only after they were confirmed; after a loss of power
neither may an append-only file. What is missing is the end of what one server did.

What always holds:

1.  Nothing is sent to a server that took another's place, or was started again,
    before it was compared with what this node knows: no ack counts on a push
    that is forgotten.
2.  If something is missing, what this node had under way is dropped, under the
    old token: it is fetched again, and leads again to what was forgotten. The
    new leases have higher tokens, so that ids that are given twice are apart.
3.  What is forgotten is found by marks of this process alone: the number of its last
    push in each partition, and the last id that it was given under its token. What
    other nodes have done since hides nothing (docs/decisions/store.md).
4.  What this node pushed last, and is missing, it pushes again then, for the page that
    led to it may be acked: on a cluster, at another server.
5.  A reservation that the store has in a partition of this node, but the node does
    not know, is put back: its ack is forgotten, or its reply never came, or a
    requeue of what a former holder had.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from frontier.errors import StoreUnavailable
from frontier.node.outbox import KEPT_BY_CLUSTER
from frontier.queue.reserve import list_reserved, requeue_calls, unknown_of
from frontier.store.calls import Call
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from frontier.model import Lease
    from frontier.node.context import NodeContext
    from frontier.node.inbox import Inbox
    from frontier.node.outbox import Outbox
    from frontier.store.client import Store

logger = logging.getLogger(__name__)

BATCH = 256
"""Partitions per round trip."""


class Failover:
    """Compares a store that was away with what one node knows of it."""

    def __init__(
        self,
        context: NodeContext,
        store: Store,
        inbox: Inbox,
        outbox: Outbox,
        *,
        on_forgotten: Callable[[], None],
    ) -> None:
        self._store = store
        self._keys = context.keys
        self._leases = context.leases
        self._order = context.order
        self._inbox = inbox
        self._outbox = outbox
        self._on_forgotten = on_forgotten

    async def examine(self) -> None:
        """Compare, and give up or put back; as often as it takes."""
        waits = pauses()
        while True:
            try:
                held = list(self._leases.held.values())
                missing = await self._missing(held)
                forgotten = await self._forgotten()
                if missing or forgotten:
                    await self._give_up(held, missing, forgotten)
                else:
                    await self._put_back(held)
            except StoreUnavailable:
                await asyncio.sleep(next(waits))
            else:
                return

    async def _missing(self, held: list[Lease]) -> set[int]:
        """Partitions that have given this node more ids than they know of."""
        missing = set()
        highest = self._inbox.highest
        counts = [self._keys.partition(lease.partition).counts for lease in held]
        found = await self._ask([Call.command("HGET", key, "seq") for key in counts])
        for lease, seq in zip(held, found, strict=True):
            if int(seq or 0) < highest.get((lease.partition, lease.token), 0):
                missing.add(lease.partition)
        return missing | await self._unheld(held)

    async def _unheld(self, held: list[Lease]) -> set[int]:
        """Partitions whose lease the store has forgotten, or given to others since."""
        leases = [self._keys.partition(lease.partition).lease for lease in held]
        found = await self._ask([Call.command("HGET", key, "token") for key in leases])
        return {
            lease.partition
            for lease, token in zip(held, found, strict=True)
            if token != b"%d" % lease.token
        }

    async def _forgotten(self) -> dict[int, int]:
        """Partitions that lack pushes of this node, and the last that each has."""
        pusher = self._outbox.pusher
        calls = pusher.ask()
        replies = await self._ask(list(calls.values()))
        return pusher.forgotten(dict(zip(calls, replies, strict=True)))

    async def _give_up(
        self, held: list[Lease], missing: set[int], forgotten: dict[int, int]
    ) -> None:
        started = [len(self._inbox.lose(lease)) for lease in held]
        for lease in held:
            self._leases.forget(lease)
        again, gone = self._outbox.resend(forgotten)
        self._on_forgotten()
        logger.warning(
            "the store at %s has lost its last writes in %d partitions of this node; "
            "%d requests that were under way here will be fetched again, and %d URLs "
            "are pushed again",
            self._store.where,
            len(missing | forgotten.keys()),
            sum(started),
            again,
        )
        if gone and not self._store.alone:  # one server has forgotten the acks, too
            logger.error(
                "in %d partitions it has also lost what this node pushed more than "
                "%g s earlier and keeps no more: URLs may be lost whose parent pages "
                "are acked on other servers",
                gone,
                KEPT_BY_CLUSTER,
            )
        calls = [self._leases.release_call(lease) for lease in held]
        waits = pauses()
        while True:
            try:
                await self._ask(calls)
            except StoreUnavailable:
                await asyncio.sleep(next(waits))
            else:
                return

    async def _put_back(self, held: list[Lease]) -> None:
        """Put back what the store says is reserved, and is not in this node.

        Under an older token it is what this node has put back already.
        """
        partitions = [self._keys.partition(lease.partition) for lease in held]
        replies = await self._ask([list_reserved(keys) for keys in partitions])
        for keys, lease, reply in zip(partitions, held, replies, strict=True):
            unknown = unknown_of(reply, lease, self._inbox.open)
            await self._ask(
                requeue_calls(keys, lease, self._order, unknown, delivered=False)
            )
            self._inbox.note_ready(lease.partition, {queue for _, queue in unknown})

    async def _ask(self, calls: Sequence[Call]) -> list[Any]:
        replies: list[Any] = []
        for first in range(0, len(calls), BATCH):
            replies += await self._store.run(calls[first : first + BATCH])
        return replies
