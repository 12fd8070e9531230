"""A store that has gone back in time: what a node makes of it.

After a failover the new primary may not have the last writes of the old one,
which are copied to it only after they were confirmed; after a loss of power
neither may an append-only file. What is missing is the end of what one server did,
and nobody can tell what that was.

What always holds:

1.  Nothing is sent to a server that took another's place, or was started again,
    before this node has started over: no ack counts on a push that is forgotten.
2.  What this node had under way goes back to its queues: it is fetched again, and
    leads again to what may be forgotten. The new leases have higher tokens, so that
    ids that are given twice are apart.
3.  What it pushed last it pushes again then, for the page that led to it may be acked:
    on a cluster, at another server. See `frontier.node.outbox`.
4.  A reservation that the store has, but the node does not know, goes back with the
    lease: its ack is forgotten, or its reply never came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.queue.reserve import requeue_calls
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from frontier.model import Lease
    from frontier.node.context import NodeContext
    from frontier.node.inbox import Inbox
    from frontier.node.outbox import Outbox
    from frontier.store.calls import Call
    from frontier.store.client import Store

logger = logging.getLogger(__name__)

BATCH = 256
"""Calls per round trip."""


class Failover:
    """Has one node start over on a store that may have forgotten its last writes."""

    def __init__(
        self, context: NodeContext, store: Store, inbox: Inbox, outbox: Outbox
    ) -> None:
        self._context = context
        self._store = store
        self._inbox = inbox
        self._outbox = outbox

    async def start_over(self) -> None:
        """Give back all that is under way, and push again what was pushed last."""
        calls, count = self._give_up()
        again = self._outbox.resend()
        self._context.parts.call(Part.went_back)
        logger.warning(
            "the store at %s may have lost its last writes: another server took its "
            "place, or it was restarted; %d requests that were under way here "
            "will be fetched again, and %d URLs are pushed again",
            self._store.where,
            count,
            again,
        )
        waits = pauses()
        while calls:
            try:
                await self._store.run(calls[:BATCH])
            except StoreUnavailable:
                await asyncio.sleep(next(waits))
            else:
                del calls[:BATCH]

    def _give_up(self) -> tuple[list[Call], int]:
        """Forget all leases; return what gives them back, and how much was started."""
        leases = self._context.leases
        known: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for one in self._inbox.open.values():
            known[one.lease.partition].append((one.id, one.queue))
        calls, count = [], 0
        for lease in list(leases.held.values()):
            calls += self._ending(lease, known[lease.partition])
            count += len(self._inbox.lose(lease))
            leases.forget(lease)
        return calls, count

    def _ending(self, lease: Lease, entries: list[tuple[int, str]]) -> list[Call]:
        """The calls that requeue *entries*, and give *lease* back."""
        context = self._context
        keys = context.keys.partition(lease.partition)
        back = requeue_calls(keys, lease, context.order, entries, delivered=False)
        return [*back, context.leases.release_call(lease)]
