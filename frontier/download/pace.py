"""The delay and concurrency of each host, as they change during the crawl.

What always holds:

1.  A value that an operator has set for one host comes before ``DOWNLOAD_SLOTS``, that
    before the value set for all hosts, and that before the node's own settings.
2.  No delay is below the Crawl-delay of the host's robots.txt, and AutoThrottle lowers
    none below what was set.
3.  As long as nothing is set, Scrapy's slots are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request, signals

from frontier.scrapy_internals import Slots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

ALL = ""
"""Stands for all hosts that have no own value."""


class Pace:
    """Gives Scrapy's slots their delays and concurrency; one per process."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._delays: Mapping[str, float] = {}
        self._counts: Mapping[str, int] = {}
        self._is_set = False
        """Whether an operator has ever set any value."""
        self._watches = False
        self._floors: dict[str, float] = {}
        """Least delay of each host whose robots.txt has one."""

    def change(self, delays: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Use *delays*, in seconds, and *counts*, of requests at once, by host."""
        if (delays, counts) == (self._delays, self._counts):
            return
        self._delays, self._counts, self._is_set = dict(delays), dict(counts), True
        self._watch()
        for key in Slots(self._crawler).every():
            self._give(key)

    def keep_floor(self, key: str, delay: float) -> bool:
        """Never let the delay of *key* be below *delay*, which robots.txt asks for.

        Whether this is new and longer than the delay that was set. There is no jitter,
        which could make the delay shorter.
        """
        if key in self._floors:
            return False
        self._floors[key] = delay
        if delay <= self._chosen(key):
            return False
        self._watch()
        Slots(self._crawler).leave_out_jitter(key)
        self._raise(key)
        return True

    def most(self) -> int:
        """How many requests at a time a host without an own value may have."""
        return self._counts.get(ALL, Slots(self._crawler).usual_concurrency())

    def delay(self) -> float:
        """The delay of hosts without an own value, in seconds."""
        return self._delays.get(ALL, Slots(self._crawler).usual_delay())

    def _chosen(self, key: str) -> float:
        """The delay set for the slot *key*, in seconds, ignoring robots.txt."""
        own = Slots(self._crawler).given(key, "delay")
        return self._delays.get(key, self.delay() if own is None else own)

    def _least(self, key: str) -> float:
        """The least delay of the slot *key*, in seconds; AutoThrottle may raise it."""
        floor = self._floors.get(key, 0.0)
        return max(self._chosen(key), floor) if self._is_set else floor

    def _give(self, key: str) -> None:
        """Give the slot *key* the values that are set, in place of earlier ones."""
        slots = Slots(self._crawler)
        if self._is_set:
            own = slots.given(key, "concurrency")
            count = self._counts.get(key, self.most() if own is None else int(own))
            slots.pace(key, self._least(key), count)
        else:
            self._raise(key)

    def _raise(self, key: str) -> None:
        """Raise the delay of the slot *key* to its least, if something lowered it."""
        slots, least = Slots(self._crawler), self._least(key)
        now = slots.delay(key)
        if now is not None and now < least:
            slots.pace(key, least)

    def _watch(self) -> None:
        if not self._watches:  # now, so that it comes after AutoThrottle's
            self._watches = True
            Slots(self._crawler).on_new(self._give)
            self._crawler.signals.connect(self._hear, signals.response_downloaded)

    def _hear(self, request: Request) -> None:
        self._raise(Slots(self._crawler).key(request))
