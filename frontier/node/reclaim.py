"""Reclaiming: reservations in the store that no node has any more are put back.

These are reservations whose reply was lost, those kept by a node that is gone and,
where a lease was just taken, those of its former holder.

What always holds:

1.  A reservation that a node makes is open there (`frontier.node.inbox`), or kept
    (`frontier.node.deliveries`), from the reply on. Nothing is reclaimed while a call
    that reserves is under way, and no such call is sent while something is reclaimed.
2.  After a call that was given up, which may be executed all the same, its partitions
    are looked at before anything else is reserved. If it is executed even later, the
    look at all partitions finds what it reserved (`frontier.node.heartbeat`).
3.  Whether what goes back counts as a delivery, or as part of one, depends on what is
    known of how its holder ended (`frontier.queue.reserve.weighed`). If no holder has
    ended, it does not count.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from frontier.cluster.lease import NOBODY, Seen
from frontier.errors import CodecError, KeyDamaged
from frontier.queue.reserve import (
    Ran,
    Reserved,
    entries_in,
    list_reserved,
    notes_call,
    ran_of,
    requeue_calls,
    weighed,
)
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frontier.model import Lease
    from frontier.node.node import Node


class Reclaim:
    """Finds and puts back reservations that no node has."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._leases = node.leases
        self._order = node.config.order
        self._ready = node.ready
        self._inbox = node.inbox
        self._deliveries = node.deliveries
        self.lock = asyncio.Lock()
        """Held while something is reserved, and while something is put back."""
        self.count = 0
        """Reservations that were put back because their holders are gone."""
        self._doubted: dict[int, Lease] = {}
        """Partitions where a reply may have been lost, and their leases at the time."""
        self._odd: set[int] = set()
        """Partitions that had more reserved at the last look than is known here."""

    def doubt(self, leases: Iterable[Lease]) -> None:
        """Have what is reserved under *leases*, and not known here, put back.

        The inbox does so between its calls, as what a call has just reserved is not
        known here either.
        """
        self._doubted |= {lease.partition: lease for lease in leases}
        self._ready.changed.set()

    def compare(self, reserved: Mapping[int, int]) -> None:
        """Doubt partitions where more is *reserved* than is known, twice in a row.

        Once may be due to what is under way between here and the store.
        """
        here = {key[::2] for key in self._inbox.open if key[2] > 0}
        known = Counter(p for p, _ in here | self._deliveries.kept.keys())
        odd = {p for p, count in reserved.items() if count > known[p]}
        current = map(self._leases.current, self._odd & odd)
        self.doubt(lease for lease in current if lease is not None)
        self._odd = odd - self._odd

    async def settle(self) -> None:
        """Put back what was doubted."""
        doubted, self._doubted = self._doubted, {}
        if held := list(filter(self._leases.holds, doubted.values())):
            await self.put_back(dict.fromkeys(held))

    async def put_back(self, leases: Mapping[Lease, Seen | None]) -> None:
        """Put back what no node has any more in the partitions of *leases*.

        A lease that was just taken comes with its former holder, if any; one that was
        held already comes with ``None``.
        """
        async with self.lock:
            calls: list[tuple[Lease, Call]] = []
            queues: dict[int, set[str]] = {}
            for lease, entries, marks in await self._abandoned(leases):
                former = leases[lease] or NOBODY
                names = {former.holder, *(entry.keeper for entry in entries)}
                notes = await self._notes(names - {""})
                own = set()  # this process had these: the store went back, nobody died
                if self._leases.membership.is_own(former.holder):
                    own = {b"%d" % e.id for e in entries if e.token == former.token}
                which = lease.partition, entries, {*marks} - own, former, notes
                keys = self._keys.partition(lease.partition)
                for blame, why, back in weighed(*which):
                    ask = requeue_calls(keys, lease, self._order, back, blame, why)
                    calls += ((lease, call) for call in ask)
                self.count += len(entries) - len(own) if leases[lease] else 0
                queues[lease.partition] = {entry.queue for entry in entries}
            await self._inbox.send_fenced(calls)
            fresh = [one for one, former in leases.items() if former is not None]
            await self._node.run(
                [
                    Call.command("UNLINK", self._keys.partition(one.partition).started)
                    for one in fresh
                ]
            )
            for partition, ready in queues.items():
                if partition in self._leases.held:
                    self._ready.note(partition, ready)

    async def _abandoned(
        self, leases: Iterable[Lease]
    ) -> list[tuple[Lease, list[Reserved], list[bytes]]]:
        """For each of *leases*, what no node has any more, and what was started."""
        asked = [(one, self._keys.partition(one.partition)) for one in leases]
        calls = [
            call
            for _, keys in asked
            for call in (list_reserved(keys), Call.command("SMEMBERS", keys.started))
        ]
        replies = await self._node.run(calls)
        found = []
        for (lease, keys), reply, started in zip(
            asked, replies[::2], replies[1::2], strict=True
        ):
            try:
                entries = entries_in(reply)
            except CodecError as error:
                raise KeyDamaged("", keys.reserved, str(error)) from None
            gone = [one for one in entries if self._is_abandoned(one, lease)]
            found.append((lease, gone, started))
        return found

    def _is_abandoned(self, entry: Reserved, lease: Lease) -> bool:
        """Whether no node has *entry*, or keeps it, any more."""
        if entry.keeper not in {"", self._leases.name}:
            return self._leases.is_gone(entry.keeper)
        if (lease.partition, entry.id) in self._deliveries.kept:
            return False  # perhaps since the reply was made
        key = (lease.partition, lease.token, entry.id)
        return bool(entry.keeper) or (
            entry.token <= lease.token and key not in self._inbox.open
        )

    async def _notes(self, holders: Iterable[str]) -> dict[str, Ran]:
        """What ran in those of *holders* whose watchdogs have noted it."""
        names = sorted(holders)
        if not names:
            return {}
        notes = await self._node.answer(notes_call(self._keys, names))
        found = zip(names, map(ran_of, notes), strict=True)
        return {name: ran for name, ran in found if ran}
