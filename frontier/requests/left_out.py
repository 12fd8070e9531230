"""What a node leaves out: what an operator has excluded, and crawler traps.

Links are checked before they are queued, and queued requests again at their turn: a
request that is left out then is done, and nothing is sent for it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.download.outcomes import OUT_OF_SCOPE
from frontier.model import Attempt
from frontier.node.context import Part
from frontier.node.crawl_limits import Portions
from frontier.queue.push import NEW, TEST, Push
from frontier.requests.discovery import found_of, hops_of
from frontier.session.session import URL_SHOWN, session_of
from frontier.urls.traps import SETTINGS, STATS, Traps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

    from frontier.node.delivery import Delivery, Link
    from frontier.urls.exclusions import Exclusions, Rule

logger = logging.getLogger(__name__)


class LeftOut(Part):
    """Decides what one node leaves out. Get it from `Session.component`."""

    exclusions: Exclusions | None = None
    """What an operator has excluded; `None` if nothing."""

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._settings = crawler.settings
        self._config = self._session.config
        self._traps = Traps(self._config)
        self._trapped: Counter[str] = Counter()
        """Links that were left out, by kind of trap."""
        self._excluded: Counter[Rule] = Counter()
        """Links and queued requests that were left out, by rule."""

    def open(self) -> None:
        """Begin, on a node that is in its crawl."""
        parts = self._session.node.parts
        self._portions = parts[Portions]
        self._portions.on_total = self._traps.learn
        self.steered()
        parts.add(self)

    @override
    def steered(self) -> None:
        """Apply what an operator has excluded, and changed limits."""
        self.exclusions = self._session.node.controls.wanted.exclusions or None
        if self._config is not self._session.config:
            self._config = self._session.config
            self._traps.change(self._config)

    @override
    def link(self, link: Link) -> bool:
        """Whether *link* is neither excluded nor in a trap.

        A link without a seen test never is in a trap.
        """
        request: Request = link.request
        if self.exclusions and self._is_excluded(request.url):
            return False
        if not self._traps.are_set or link.mode != TEST:
            return True
        if self._session.requests.known(request).is_start:
            return True
        trap = self._traps.catches(request.url, hops_of(request))
        if trap is not None:
            self.leave_out(trap, request.url)
        return trap is None

    @override
    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Count new URLs, for traps that limit their number."""
        if not self._traps.counts_urls:
            return
        for push, verdict in zip(pushes, verdicts, strict=True):
            if verdict == NEW and push.tag is not None:
                for group, count in self._traps.note(push.tag.url):
                    self._portions.add(group, count)

    @override
    def start(
        self, request: Request, delivery: Delivery, extra: Mapping[str, Any]
    ) -> bool:
        """Whether *request* is not excluded; if it is, the crawl log says so."""
        if not (self.exclusions and self._is_excluded(request.url)):
            return True
        facts = (request.url, OUT_OF_SCOPE, 0.0, time.time(), found_of(request))
        attempt = Attempt(*facts, notes=("excluded",))
        self._session.node.parts.call(Part.note, attempt)
        return False

    def _is_excluded(self, url: str) -> bool:
        rule = None if self.exclusions is None else self.exclusions.why(url)
        if rule is None:
            return False
        if rule not in self._excluded:
            logger.info(
                "left out, first %s: an operator excluded %s", _shown(url), rule
            )
        self._excluded[rule] += 1
        self._session.count("frontier/queue/excluded")
        return True

    def leave_out(self, trap: str, url: str, count: int = 1, page: str = "") -> None:
        """Count links of *page* in a *trap*, such as *url*; log the first."""
        if trap not in self._trapped:
            name = SETTINGS[trap]
            logger.warning(
                "links over %s = %s are left out, first %s%s; the report counts them",
                name,
                self._settings.get(name),
                _shown(url),
                f" of {_shown(page)}" if page else "",
            )
        self._trapped[trap] += count
        self._session.count(STATS[trap], count)

    @override
    def report(self) -> dict[str, Any]:
        """How many links were left out, and of which traps."""
        return {
            "excluded": self._excluded.total(),
            "trapped": self._trapped.total(),
            "traps": dict(self._trapped),
        }


def _shown(url: str) -> str:
    return url[:URL_SHOWN] + ("..." if len(url) > URL_SHOWN else "")
