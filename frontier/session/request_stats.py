"""What the scheduler counts: collected here, as Scrapy's stats are slow to count in."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger("frontier.scheduler")


class RequestStats:
    """Counts, for the stats of *crawler*."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = crawler.settings
        self._stats = crawler.stats
        self._logs_dropped = logger.isEnabledFor(logging.DEBUG)
        self.counts: Counter[str] = Counter()
        """What was counted since it was last published, by the name of the stat."""

    def filtered(self, request: Request) -> None:
        """Count *request* as one that was seen before."""
        self.counts["dupefilter/filtered"] += 1
        if self._logs_dropped:
            self._log_dropped(request)

    def _log_dropped(self, request: Request) -> None:
        """Log as Scrapy does: the first, or all if ``DUPEFILTER_DEBUG`` is set."""
        more = ""
        if not self._settings.getbool("DUPEFILTER_DEBUG"):
            more = " (no more will be shown; DUPEFILTER_DEBUG shows all)"
            self._logs_dropped = False
        logger.debug("Filtered a request that was seen: %s%s", request, more)

    def publish(self, refused: int) -> None:
        """Add what was counted to the stats; *refused* are the rules' refusals."""
        for name, count in self.counts.items():
            if count:
                self._stats.inc_value(name, count)
        self.counts.clear()
        if refused:
            self._stats.set_value("frontier/canon/refused", refused)
