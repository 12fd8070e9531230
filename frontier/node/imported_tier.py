"""What was seen before the crawl, asked for when a URL is reserved.

What always holds:

1.  A reservation is asked for once here, many together in a round trip, and is only
    handed out when the tier has said that it has none of its fingerprints.
2.  What was seen leaves the queue by an ack, as what was fetched does: a node that dies
    in between leaves it reserved, and who has it next is told the same.
3.  A server that does not answer keeps back its own answers alone. A set that is lost
    counts as empty: its URLs may be fetched again. The first is named, the URLs are
    counted, and the node fails in the end.
4.  What is not a link is not asked for: requests that were not to be tested, and those
    that came from the old scheduler's queue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged, StoreUnavailable
from frontier.seen.imported_tier import ImportedTier, about_call, ask_calls, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.queue.reserve import Reservation
    from frontier.store.client import Call
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

logger = logging.getLogger(__name__)

MOST = 1_000
"""Questions in a round trip."""


class ImportedTest:
    """Asks the imported tier of a crawl, if it has one."""

    def __init__(
        self,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        fingerprints: Callable[[Reservation, Sequence[str]], Sequence[bytes]],
        on_seen: Callable[[Reservation], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._fingerprints = fingerprints
        self._on_seen = on_seen
        self._on_lost = on_lost
        self.tier: ImportedTier | None = None
        self.asked = 0
        """Reservations that were asked for."""
        self.round_trips = 0
        self.lost = 0
        """Reservations of which nobody knows whether they were seen."""

    async def learn(self) -> None:
        """Learn whether there is a tier.

        Raises:
            KeyDamaged: What describes it is damaged: nobody could say what was seen.
            StoreUnavailable: The store does not answer.
        """
        (found,) = await self._outage_retry.call([about_call(self._keys)])
        try:
            self.tier = ImportedTier.of(found)
        except ValueError as error:
            raise KeyDamaged("", self._keys.meta(), f"imported: {error}") from None

    async def parted(
        self, reservations: Sequence[Reservation]
    ) -> tuple[list[Reservation], list[Reservation], list[Reservation]]:
        """Which of *reservations* are new, which were seen, and which are not known.

        The last are to be asked for again: their server does not answer, or an import
        has ended meanwhile.
        """
        tier = self.tier
        if tier is None:
            return list(reservations), [], []
        marks = [self._marks(tier, each) for each in reservations]
        asked = [mark for some in marks for mark in some]
        self.asked += sum(map(bool, marks))
        answers = iter(await self._answers(ask_calls(self._keys, tier, asked)))
        new: list[Reservation] = []
        seen: list[Reservation] = []
        unknown: list[Reservation] = []
        lost: list[Reservation] = []
        where = ""
        for reservation, some in zip(reservations, marks, strict=True):
            said = [next(answers) for _ in some]
            if any(isinstance(one, list) and one[0] for one in said):
                seen.append(reservation)
            elif any(isinstance(one, StoreUnavailable) for one in said):
                unknown.append(reservation)
            else:
                bad = [m for m, one in zip(some, said, strict=True) if not _sure(one)]
                (lost if bad else new).append(reservation)
                if bad:
                    where = where or self._keys.imported_marks(tier.bucket(bad[0]))
        if not lost:
            return new, seen, unknown
        if not tier.whole:  # an import was under way, at least when that was read
            await self.learn()
            if self.tier is not None and self.tier.whole:
                return new, seen, unknown + lost
        else:
            self._tell(len(lost), where)
        return new + lost, seen, unknown

    def _tell(self, lost: int, where: str) -> None:
        if not self.lost:
            logger.error(
                "%s is lost: what was seen before the crawl may be fetched "
                "again; stop its nodes, and repeat frontier migrate scrapy-redis "
                "before you start them",
                where,
            )
            self._on_lost()
        self.lost += lost

    def drop(self, reservation: Reservation) -> None:
        """Have *reservation*, which was seen, be done."""
        self._on_seen(reservation)

    def _marks(self, tier: ImportedTier, reservation: Reservation) -> list[int]:
        found = self._fingerprints(reservation, tier.kinds)
        return [mark for each in found if (mark := mark_of(each)) is not None]

    async def _answers(self, calls: list[Call]) -> list[Any]:
        replies: list[Any] = []
        for first in range(0, len(calls), MOST):
            some = calls[first : first + MOST]
            self.round_trips += 1
            replies += await self._outage_retry.partial(some)
        return replies


def _sure(reply: Any) -> bool:
    """Whether *reply* is of a set that has its guard."""
    return isinstance(reply, list) and bool(reply[1])
