"""The delay and the number of requests at a time of each host, as they are by now.

What always holds:

1.  What an operator has set for one host comes before ``DOWNLOAD_SLOTS``, that before
    what is set for all, that before the node's own settings.
2.  No delay is below the Crawl-delay of the host's robots.txt, and AutoThrottle makes
    none that is below what was set.
3.  As long as nothing is set, Scrapy's slots are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

from frontier.scrapy_internals import Slots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

ALL = ""
"""Stands for all hosts, beside the names of some."""


class Pace:
    """Gives Scrapy's slots their delays; one for each process."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._delays: Mapping[str, float] = {}
        self._counts: Mapping[str, int] = {}
        self._is_set = False
        self._watches = False
        self.floors: dict[str, float] = {}
        """Least delay of hosts whose robots.txt has one."""

    def change(self, delays: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Have hosts keep *delays*, in seconds, and get *counts* requests at once."""
        if (delays, counts) == (self._delays, self._counts):
            return
        self._delays, self._counts = dict(delays), dict(counts)
        slots = Slots(self._crawler)
        if not self._is_set:
            self._is_set = True
            slots.on_new(self._give)
            self._watch()
        for key in slots.every():
            self._give(key)

    def keep_floor(self, key: str, delay: float) -> bool:
        """Have *key* never keep less than *delay*; whether that is news, and longer.

        Without jitter: it is what robots.txt asks for.
        """
        if key in self.floors:
            return False
        self.floors[key] = delay
        if delay <= self.chosen_delay(key):
            return False
        self._watch()
        Slots(self._crawler).slow_down(key, delay)
        return True

    def delay_of(self, key: str) -> float:
        """What the slot *key* is to keep, in seconds, as long as nothing raises it."""
        return max(self.chosen_delay(key), self.floors.get(key, 0.0))

    def chosen_delay(self, key: str) -> float:
        """The same, whatever robots.txt asks for."""
        slots = Slots(self._crawler)
        own = slots.given(key, "delay")
        if key in self._delays:
            return self._delays[key]
        if own is not None:
            return own
        return self._delays.get(ALL, slots.usual_delay())

    def count_of(self, key: str) -> int:
        """How many requests at a time the slot *key* may have."""
        slots = Slots(self._crawler)
        own = slots.given(key, "concurrency")
        if key in self._counts:
            return self._counts[key]
        if own is not None:
            return int(own)
        return self._counts.get(ALL, slots.usual_concurrency())

    def most(self) -> int:
        """How many requests at a time a host may have, of those without own values."""
        return self._counts.get(ALL, Slots(self._crawler).usual_concurrency())

    def delay(self) -> float:
        """The delay of hosts without own values, in seconds."""
        return self._delays.get(ALL, Slots(self._crawler).usual_delay())

    def _give(self, key: str) -> None:
        Slots(self._crawler).pace(key, self.delay_of(key), self.count_of(key))

    def _watch(self) -> None:
        if not self._watches:  # now, so that it comes after AutoThrottle's
            self._watches = True
            self._crawler.signals.connect(self._raise, signals.response_downloaded)

    def _raise(self, request: Request) -> None:
        """Have the slot of *request* keep its delay, whatever lowered it."""
        slots = Slots(self._crawler)
        key = slots.key(request)
        now, floor = slots.delay(key), self.floors.get(key, 0.0)
        if now is not None and self._is_set and now < self.delay_of(key):
            slots.pace(key, self.delay_of(key), self.count_of(key))
        elif now is not None and now < floor:
            slots.slow_down(key, floor)
