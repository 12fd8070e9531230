"""Claims of processes that are gone: what led to them is queued once more.

What always holds:

1.  A claim leaves its queue after its marks are new again and after what leads to it
    is queued: whoever dies in between leaves it to the next holder.
2.  A mark is new before what leads to it is, or can be fetched.
3.  What was delivered three times and killed its process each time is given up,
    also if each process made it again: the count goes with the mark.
4.  A claim to which nothing leads any more goes to the dead letter.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from frontier.errors import CodecError, LeaseLost, StoreUnavailable
from frontier.queue.item import Claim, Origin, claim_of, decode
from frontier.queue.priority import split_name
from frontier.queue.push import FORCE, GONE, Push
from frontier.queue.reserve import MAX_TRIES, deliveries, reserve_call, reserved
from frontier.urls.fingerprint import seen_hash

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from frontier.node.acks import Acks
    from frontier.node.context import NodeContext
    from frontier.node.inbox import Inbox
    from frontier.node.outbox import Outbox
    from frontier.queue.reserve import Reservation

logger = logging.getLogger(__name__)

AT_ONCE = 200
"""Claims that are taken from a queue in one call."""
MOST = 5_000
"""Claims that are resolved together: what led to several is queued once for them."""


class Recovery:
    """Resolves claims whose processes are gone."""

    def __init__(
        self,
        context: NodeContext,
        inbox: Inbox,
        outbox: Outbox,
        acks: Acks,
        *,
        start_again: Callable[[set[str]], Awaitable[set[str]]],
    ) -> None:
        self._outage_retry = context.outage_retry
        self._keys = context.keys
        self._leases = context.leases
        self._inbox = inbox
        self._outbox = outbox
        self._acks = acks
        self._partitions = context.partitions
        self._order = context.order
        self._start_again = start_again
        self._stuck: set[tuple[int, str]] = set()
        """Queues with start requests that this node cannot make."""

    async def take(self, queues: dict[int, list[str]]) -> None:
        """Resolve what is in *queues*, by partition, under this node's leases."""
        found: list[Reservation] = []
        for partition, names in queues.items():
            chosen = [name for name in names if (partition, name) not in self._stuck]
            while chosen and len(found) < MOST:
                made = await self._reserve(partition, chosen)
                found += made
                if not made:
                    break
        if found:
            await self.resolve(found)

    async def _reserve(self, partition: int, queues: list[str]) -> list[Reservation]:
        lease = self._leases.current(partition)
        if lease is None or partition in self._inbox.handing_over:
            return []
        wanted = dict.fromkeys(queues, AT_ONCE)
        call = reserve_call(self._keys.partition(partition), lease, self._order, wanted)
        try:
            (reply,) = await self._outage_retry.call([call])
        except StoreUnavailable:
            await self._inbox.recover([lease])
            return []
        try:
            made, _ = reserved(reply, lease, wanted)
        except LeaseLost:
            self._inbox.lose_lease(lease)
            return []
        self._inbox.adopt(made)
        return made

    async def resolve(self, reservations: Iterable[Reservation]) -> None:
        """Have what led to the claims of *reservations* made once more."""
        found: list[tuple[Reservation, Claim]] = []
        for reservation in reservations:
            try:
                claim = self._claim_of(reservation)
            except CodecError as error:
                logger.error("a request goes to the dead letter: %s", error)  # noqa: TRY400
                await self._acks.bury(reservation, str(error))
            else:
                found.append((reservation, claim))
        await self._renew(found)
        for origin in {o for r, claim in found for o in _origins(r, claim)}:
            self._again(origin)
        starts = {claim.start_id for _, claim in found if claim.start_id}
        made = await self._start_again(starts) if starts else set()
        await self._outbox.flush()
        await self._leave_stuck([r for r, c in found if c.start_id not in made | {""}])
        done = [r for r, c in found if c.start_id in made | {""}]
        for reservation in done:
            self._acks.complete(reservation, is_done=False)
        if done:
            logger.info(
                "%d requests could only be made by a process that is gone: the "
                "pages that led to them are queued again",
                len(done),
            )

    def _claim_of(self, reservation: Reservation) -> Claim:
        """The claim of *reservation*.

        Raises:
            CodecError: It is none, or is to be given up.
        """
        record = decode(reservation.item, reservation.queue)
        claim = claim_of(record, self._partitions)
        if claim is None:
            raise CodecError("a request in the queue of a process")
        if not claim.can_be_made:
            raise CodecError("its process is gone, and no page leads to it")
        own = 0 if claim.marks else deliveries(reservation.item)
        tries = [own + deliveries(origin.item) for origin in claim.origins]
        if max(tries, default=0) >= MAX_TRIES:
            raise CodecError(f"delivered {MAX_TRIES} times")
        return claim

    async def _renew(self, found: list[tuple[Reservation, Claim]]) -> None:
        """Have the marks of claims be new again, their own with their deliveries.

        Their own first, and each before the one that leads to it: what leads there
        may be made again by others as soon as it is new.
        """
        for level in range(max((len(claim.marks) for _, claim in found), default=0)):
            marks: dict[tuple[int, int], str] = {}
            for reservation, claim in found:
                if level < len(claim.marks):
                    tries = reservation.item[:1].decode("ascii", "replace")
                    is_own = level == 0 and tries in GONE
                    place = claim.marks[-1 - level]
                    marks[place] = tries if is_own else marks.get(place, GONE[0])
            for (partition, number), mode in marks.items():
                self._outbox.put(partition, Push(mode, number, "", 0, b""))
            await self._outbox.flush()

    def _again(self, origin: Origin) -> None:
        number = seen_hash(origin.item)
        priority = split_name(origin.queue)[0]
        push = Push(FORCE, number, origin.queue, priority, origin.item)
        self._outbox.put(origin.partition, push)

    async def _leave_stuck(self, reservations: list[Reservation]) -> None:
        if not reservations:
            return
        await self._inbox.put_back(reservations)
        places = {(r.lease.partition, r.queue) for r in reservations}
        if places - self._stuck:
            logger.warning(
                "%d start requests that cannot be stored were lost with a node that "
                "had other arguments or start URLs than this one; they wait for a "
                "node that is started like that one",
                len(reservations),
            )
        self._stuck |= places


def _origins(reservation: Reservation, claim: Claim) -> list[Origin]:
    """What leads to *claim*; where no mark can have its deliveries, with these."""
    tries = deliveries(reservation.item)
    if claim.marks or not tries:
        return list(claim.origins)
    return [
        origin._replace(item=b"%d" % (int(origin.item[:1]) + tries) + origin.item[1:])
        for origin in claim.origins
    ]
