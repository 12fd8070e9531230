"""What one host may have of a crawl: pages and bytes, over all nodes.

What always holds:

1.  All URLs of a queue key are in one partition, which one node holds at a time.
    So its holder alone decides, and what was had is stored with the acks of those
    who held it before.
2.  Of a queue key no more URLs are reserved than its quota of pages leaves: pages
    never exceed it, but by what was in flight at a kill, and is fetched again. Bytes
    exceed theirs by what is reserved.
3.  What is over a quota leaves the queue, is counted, and is said; the crawl ends.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import KeyDamaged
from frontier.node.context import Part
from frontier.queue.damage import is_number
from frontier.queue.priority import split_name
from frontier.queue.reserve import skip_call
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Lease, Order
    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

logger = logging.getLogger(__name__)

PLENTY = 1 << 30
"""What is left where there is no limit."""
NAMED = 5
"""Hosts that the line at a node's end names."""


class Quotas(Part):
    """Counts what the queue keys of one node's partitions have had."""

    def __init__(
        self,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        *,
        order: Order,
        max_pages: int,
        max_bytes: int,
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._order = order
        self._max = (max_pages, max_bytes)
        self._spent: dict[tuple[int, int], dict[str, list[int]]] = defaultdict(dict)
        self._costs: dict[tuple[int, int, int], list[int]] = {}
        self._unknown: dict[tuple[int, int], set[str]] = defaultdict(set)
        self._over: list[tuple[Lease, str]] = []
        self.skipped: Counter[str] = Counter()
        """URLs that this node has skipped, by queue key."""

    def change(self, max_pages: int, max_bytes: int) -> None:
        """Keep to these from now on; what was had so far counts."""
        self._max = (max_pages, max_bytes)

    def add(self, reservation: Reservation, pages: int, size: int) -> None:
        """Note that *reservation* has brought *pages*, and *size* bytes."""
        cost = self._costs.setdefault(reservation.key, [0, 0])
        under_lease = self._spent.get(reservation.key[:2], {})
        spent = under_lease.get(split_name(reservation.queue)[1])
        for counts in (cost, spent):
            if counts is not None:
                counts[0] += pages
                counts[1] += size

    def charge(self, reservation: Reservation) -> str:
        """The argument with which *reservation* is acked."""
        pages, size = self._costs.get(reservation.key, (0, 0))
        return f"{reservation.id} {pages} {size} {split_name(reservation.queue)[1]}"

    @override
    def ended(self, reservations: Sequence[Reservation]) -> None:
        """Forget what *reservations*, which are acked or lost, have brought."""
        for reservation in reservations:
            self._costs.pop(reservation.key, None)

    def left(self, lease: Lease, queue: str) -> int:
        """How many pages the queue key of *queue* may have, those in flight included.

        0 also if that is not known yet; `heed` sees to it.
        """
        which, queue_key = (lease.partition, lease.token), split_name(queue)[1]
        spent = self._spent[which].get(queue_key)
        if spent is None:
            self._unknown[which].add(queue_key)
            return 0
        pages, size = (most - had for most, had in zip(self._max, spent, strict=True))
        if (self._max[0] and pages <= 0) or (self._max[1] and size <= 0):
            self._over.append((lease, queue))
            return 0
        return pages if self._max[0] else PLENTY

    async def heed(self, most: int) -> tuple[bool, list[tuple[Lease, str, int, int]]]:
        """Learn what `left` did not know, and skip what it has found to be over.

        Whether something was learned; and the lease, the queue, how many URLs it has
        left and how many were skipped, at most *most* of each. A number of -1 says
        that the lease is lost.
        """
        unknown, self._unknown = self._unknown, defaultdict(set)
        for which, queue_keys in unknown.items():
            await self._learn(which, sorted(queue_keys))
        over, self._over = self._over, []
        calls = [
            skip_call(
                self._keys.partition(lease.partition), lease, self._order, queue, most
            )
            for lease, queue in over
        ]
        found = []
        for (lease, queue), reply in zip(
            over, await self._outage_retry.retry(calls), strict=True
        ):
            left, skipped = (-1, 0) if reply is None else map(int, reply)
            found.append((lease, queue, left, skipped))
            self._note(split_name(queue)[1], skipped)
        return bool(unknown), found

    def forget(self, lease: Lease) -> None:
        """Know nothing more of what is held under *lease*, which has ended."""
        self._spent.pop((lease.partition, lease.token), None)
        self._unknown.pop((lease.partition, lease.token), None)

    @override
    def tell(self) -> None:
        """Say what this node has skipped."""
        if not self.skipped:
            return
        hosts = [f"{key} {count:,}" for key, count in self.skipped.most_common(NAMED)]
        logger.warning(
            "%d requests of %d hosts were not sent: over FRONTIER_HOST_MAX_PAGES or "
            "FRONTIER_HOST_MAX_BYTES (%s%s)",
            self.skipped.total(),
            len(self.skipped),
            ", ".join(hosts),
            ", ..." if len(self.skipped) > NAMED else "",
        )

    async def _learn(self, which: tuple[int, int], queue_keys: list[str]) -> None:
        name = self._keys.partition(which[0]).spent
        fields = [f"{what}:{key}" for key in queue_keys for what in ("pages", "bytes")]
        (counts,) = await self._outage_retry.retry(
            [Call.command("HMGET", name, *fields)]
        )
        if bad := [n for n in counts if n is not None and not is_number(n)]:
            reason = f"{bad[0][:40]!r} is not a number"
            raise KeyDamaged("", name, reason)
        numbers = [int(count or 0) for count in counts]
        for place, queue_key in enumerate(queue_keys):
            self._spent[which][queue_key] = numbers[2 * place : 2 * place + 2]

    def _note(self, queue_key: str, skipped: int) -> None:
        if skipped and queue_key not in self.skipped:
            logger.info("%s has used up its quota", queue_key)
        if skipped:
            self.skipped[queue_key] += skipped
