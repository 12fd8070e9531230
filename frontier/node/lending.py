"""Lending partitions: how a node comes to send requests that only it can make.

A request of a host that another node holds waits in a queue of its process, in the
host's partition. Whoever holds that sees the queue, gives the partition up, and the
node that asks acquires it: lease, gate, delays and fencing are those of any holder.

What always holds:

1.  A partition has one holder, by its lease. To lend one is to release it once what
    was started there is done, and to leave it alone for `GRACE` seconds.
2.  Nobody waits for anybody while holding: what a holder finishes before it gives
    up a partition depends on no other partition, so two nodes that want each
    other's both get them.
3.  Who has claims of its own in a partition keeps it for `SLICE` seconds before it
    gives it up to another, and who has none gives it up at once. One that was
    borrowed is given back as soon as nothing of the borrower's is left there.
4.  The claims of a process that is gone are resolved by the holder; see
    `frontier.node.recovery`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.node.ready_hints import hint_calls, hints_of
from frontier.queue.reserve import process_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from frontier.cluster.lease import Leases
    from frontier.cluster.membership import Membership
    from frontier.node.claims import Claims
    from frontier.node.inbox import Inbox
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import Patience

logger = logging.getLogger(__name__)

INTERVAL = 0.2
"""Seconds between looks at what others want, and at what was borrowed."""
GRACE = 1.0
"""Seconds for which a partition that was given up is left to those who asked."""
SLICE = 3.0
"""Seconds that a node with claims in a partition has it before others get it."""
ASK = 1.0
"""Seconds between hints to the owners of partitions that are wanted."""
MAX_ASKED = 64
"""Partitions that a node asks for at once."""


class Lending:
    """Decides which partitions a node has besides, and without, those of the ring."""

    def __init__(
        self,
        patience: Patience,
        keys: CrawlKeys,
        leases: Leases,
        inbox: Inbox,
        claims: Claims,
        membership: Membership,
        *,
        node_id: str,
        resolve: Callable[[dict[int, list[str]]], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience = patience
        self._keys = keys
        self._leases = leases
        self._inbox = inbox
        self._claims = claims
        self._membership = membership
        self._node_id = node_id
        self._resolve = resolve
        self._clock = clock
        self._lent: dict[int, float] = {}
        """Partitions that others shall have, and until when; see `chosen`."""
        self._since: dict[int, tuple[int, float]] = {}
        """Token of the lease on a partition, and since when it is held."""
        self._wanting: set[int] = set()
        self.moved: set[int] = set()
        """Partitions that were lent or borrowed."""
        self._missed: set[int] = set()
        """Claims that were not where they should be at the last look."""
        self._asked = 0.0
        self._turn = 0
        self.lent = 0
        """How often a partition was given up to another node."""
        self.on_change: Callable[[], None] = lambda: None
        """Told when this node is to have other partitions than before."""

    def chosen(self, owned: set[int]) -> set[int]:
        """What this node is to hold, given what it *owned* by the ring."""
        now = self._clock()
        for partition in list(self._lent):
            if partition in self._leases.held:  # what is under way there is not done
                self._lent[partition] = now + GRACE
            elif self._lent[partition] <= now:
                del self._lent[partition]
        return (owned | self._wanted(owned)) - set(self._lent)

    def _wanted(self, owned: set[int]) -> set[int]:
        """Partitions of others in which this process has claims: some of them."""
        wanted = self._claims.partitions() - owned
        held = wanted & set(self._leases.held)
        asked = sorted(wanted - held)
        if len(asked) > MAX_ASKED:
            self._turn = (self._turn + MAX_ASKED) % len(asked)
            asked = (asked[self._turn :] + asked[: self._turn])[:MAX_ASKED]
        self.moved |= wanted
        return held | set(asked)

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            if self._inbox.others or self._claims.partitions() or self._since:
                await self.look()

    async def look(self) -> None:
        """See what others want and what the dead have left; ask for what is wanted."""
        now = self._clock()
        held = self._leases.held
        self._since = {
            partition: kept
            if (kept := self._since.get(partition)) and kept[0] == lease.token
            else (lease.token, now)
            for partition, lease in held.items()
            if partition in self._inbox.others
            or partition in self._claims.partitions()
            or partition in self._since
        }
        for partition in [p for p in self._inbox.others if p not in held]:
            self._inbox.others.pop(partition, None)
        await self._see_others(now)
        wanting = self._claims.partitions() - set(held)
        if wanting - self._wanting:
            self.on_change()
        self._wanting = wanting
        if now - self._asked >= ASK:
            self._asked = now
            await self._find_missing()
            await self._ask()

    async def _see_others(self, now: float) -> None:
        asked = [(p, q) for p, queues in self._inbox.others.items() for q in queues]
        if not asked:
            return
        processes = sorted({process_of(queue) for _, queue in asked})
        calls = [Call.command("EXISTS", self._keys.process(p)) for p in processes]
        calls += [
            Call.command("ZSCORE", self._keys.partition(partition).queues, queue)
            for partition, queue in asked
        ]
        replies = await self._patience.run(calls)
        alive = {p for p, lives in zip(processes, replies, strict=False) if lives}
        gone: dict[int, list[str]] = defaultdict(list)
        for (partition, queue), score in zip(
            asked, replies[len(processes) :], strict=True
        ):
            if score is None:
                self._inbox.others.get(partition, set()).discard(queue)
            elif process_of(queue) not in alive:
                gone[partition].append(queue)
            elif partition not in self._lent and self._may_lend(partition, now):
                self._lent[partition] = now + GRACE
                self.moved.add(partition)
                self.lent += 1
                self.on_change()
        if gone:
            await self._resolve(dict(gone))
        for partition in [p for p, q in self._inbox.others.items() if not q]:
            self._inbox.others.pop(partition, None)

    def _may_lend(self, partition: int, now: float) -> bool:
        if not self._claims.of(partition):
            return True
        since = self._since.get(partition)
        return since is not None and now - since[1] >= SLICE

    async def _find_missing(self) -> None:
        """Forget requests whose claims others have resolved, taking us for gone."""
        kept = [
            (p, one) for p in self._claims.partitions() for one in self._claims.of(p)
        ]
        queues = sorted({(p, one.queue) for p, one in kept})
        calls = [
            Call.command("LLEN", self._keys.partition(p).ready(queue))
            for p, queue in queues
        ]
        replies = await self._patience.run(calls)
        empty = {place for place, n in zip(queues, replies, strict=True) if not n}
        missing = {
            one.claim.number
            for p, one in kept
            if (p, one.queue) in empty and one.reserved not in self._inbox.open
        }
        # Not at the first look: a reservation may be on its way. If one comes after
        # all, its claim is resolved, as that of any process that is gone.
        for number in missing & self._missed:
            self._claims.forget(number)
        self._missed = missing

    async def _ask(self) -> None:
        """Tell the owners what is wanted of them; look at what was borrowed."""
        ring, wanted = self._membership.ring, self._claims.partitions()
        asked = wanted - set(self._leases.held)
        lines = [(p, one.queue) for p in asked for one in self._claims.of(p)[:1]]
        hints = hints_of(lines, ring, self._node_id)
        kept_ms = int(ASK * 5000)
        await self._patience.run(hint_calls(self._keys, hints, kept_ms))
        owned = set(ring.owned_by(self._node_id))
        # Hints about these go to their owners.
        if borrowed := set(self._leases.held) - owned:
            await self._inbox.look(borrowed)
