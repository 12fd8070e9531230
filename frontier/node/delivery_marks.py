"""Which reservations were started, so that only these count as delivered.

A node that is killed leaves what waited in its inbox reserved, too. That has
not been tried, and comes no nearer to the dead letter for it.

What always holds:

1.  A mark never stands for another reservation: an id is used once.
2.  Nothing waits for a mark. It is sent as soon as the request is started, with
    those of others, and has arrived long before a page could do any harm.
3.  Whoever takes a partition over removes the marks, after what they are about.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import StoreUnavailable
from frontier.queue.reserve import KEPT
from frontier.store.client import Argument, Call
from frontier.store.scripts import QUEUE_STARTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys, PartitionKeys
    from frontier.store.outage_retry import Patience

PAUSE = 0.2
"""Seconds before what was not answered is sent again."""
MOST = 5000
"""Marks of one partition per call, and while its server does not answer."""


class Starts:
    """Marks what one node has started."""

    def __init__(self, patience: Patience, keys: CrawlKeys) -> None:
        self._patience = patience
        self._keys = keys
        self._begun: dict[int, list[int]] = defaultdict(list)
        self._ended: dict[int, list[int]] = defaultdict(list)
        self._some = asyncio.Event()
        self._unsent = False

    def begin(self, reservation: Reservation) -> None:
        """Mark *reservation* as started."""
        self._begun[reservation.lease.partition].append(reservation.id)
        self._some.set()

    def end(self, reservations: Iterable[Reservation]) -> None:
        """Remove the marks of *reservations*, which are acked."""
        for reservation in reservations:
            self._ended[reservation.lease.partition].append(reservation.id)
        self._some.set()

    async def run(self) -> None:
        """Send marks, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            begun, self._begun = self._begun, defaultdict(list)
            ended, self._ended = self._ended, defaultdict(list)
            marks = [(p, ids, True) for p, ids in begun.items()]
            marks += [(p, ids, False) for p, ids in ended.items()]
            calls = [self._call(*one) for one in marks]
            for one, reply in zip(
                marks, await self._patience.parts(calls), strict=True
            ):
                if isinstance(reply, StoreUnavailable):
                    self._put_back(*one)
            if self._unsent:
                self._unsent = False
                await asyncio.sleep(PAUSE)

    def _put_back(self, partition: int, ids: list[int], begun: bool) -> None:
        where = self._begun if begun else self._ended
        where[partition] = (ids + where[partition])[-MOST:]
        self._unsent = True
        self._some.set()

    def _call(self, partition: int, ids: list[int], begun: bool) -> Call:
        keys = self._keys.partition(partition)
        args: list[Argument] = [KEPT, len(ids) if begun else 0, *ids[-MOST:]]
        return Call.to(QUEUE_STARTED, [keys.started, keys.fence], args)


def started_call(keys: PartitionKeys) -> Call:
    """The call whose reply has the ids of what was started, and what nodes ended in."""
    return Call.command("SMEMBERS", keys.started)


def forget_call(keys: PartitionKeys) -> Call:
    """The call that removes all marks of a partition."""
    return Call.command("UNLINK", keys.started)
