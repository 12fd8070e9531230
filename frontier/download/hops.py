"""Decides on each hop: a link, a redirect, a meta refresh, an entry of a sitemap.

What always holds:

1.  Every request passes `frontier.downloadermiddlewares.HopMiddleware` before anything
    is sent for it, whoever made it: a redirect is a request like any other, and so is
    one for robots.txt.
2.  If a spider's `scope` is a `frontier.urls.scope.Scope`, no request out of it is sent
    except its seeds, the sitemaps that they lead to, and robots.txt, whose redirects to
    other hosts are followed (RFC 9309, 2.3.1.2).
3.  A host that spells an address is checked against ``FRONTIER_ALLOW_ADDRESSES`` here;
    what a name leads to, where the connection is made (`frontier.download.addresses`).
4.  With an archive, no request is sent whose URL is longer than a record's target may
    be.
5.  Nothing that an operator has excluded is sent, whoever asked for it; a request that
    waits for its turn is checked again at its turn (`frontier.download.politeness`).
6.  Refused requests are counted by reason, and are in the crawl log; the first for each
    reason is reported.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.utils.httpobj import urlparse_cached

from frontier.download.outcomes import AddressRefused, Excluded, OutOfScope, URLTooLong
from frontier.node.host_addresses import AddressClasses
from frontier.requests.left_out import LeftOut
from frontier.requests.spider_output import filtered
from frontier.session.session import session_of
from frontier.urls.addresses import class_of_host
from frontier.urls.scope import Scope
from frontier.warc.records import MAX_URL, is_too_long

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

START = "is_start_request"
"""Key of ``meta``: true in what `Spider.start` yields, false in what errbacks yield."""
SEED = "frontier_seed"
"""Key of ``meta`` of a request of ours for robots.txt: whether it is fetched for a
seed."""
CUT = "frontier_cut"
"""Key of ``meta`` of a request whose response is cut where it is too long."""
SITEMAP = "frontier_sitemap"
"""Key of ``meta`` of a request for a sitemap that robots.txt or another one names."""
NETWORK = ("http", "https", "ftp")
"""Schemes whose hosts are on the network."""
SCOPE = "scope"
EXCLUDED = "excluded"
LENGTH = "length"
WHY = {
    LENGTH: f"its URL has more than {MAX_URL:,} characters, and other tools would not "
    "read its record",
    EXCLUDED: "an operator has excluded it",
}
ADDRESS = "address (FRONTIER_ALLOW_ADDRESSES)"


class Hops:
    """Decides which requests may be sent, and to which addresses.

    There is one per process: `Session.component` gives it.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._refused = self._session.refused
        self._left_out = self._session.component(LeftOut)

    def is_seed(self, request: Request) -> bool:
        """Whether the operator, and no page, asked for the URL of *request*.

        A seed is a request that was queued, that no response led to (its depth in
        Scrapy is 0), and that is not a redirect. A request that an errback makes has
        no depth, whichever page its URL is from: see `of_errback`.
        """
        meta = request.meta
        if meta.get(START) is False:
            return False
        if SEED in meta and request.callback is NO_CALLBACK:
            return bool(meta[SEED])
        if (
            meta.get("depth")
            or meta.get("redirect_urls")
            or request.callback is NO_CALLBACK
        ):
            return False
        if self._session.requests.reservation(request) is None:
            return False
        # Where Scrapy counts no depths, 0 means nothing.
        counts = self._crawler.get_spider_middleware(DepthMiddleware) is not None
        return counts or bool(meta.get(START))

    def of_errback(self, output: Any, request: Request) -> Any:
        """*output* of the errback of *request*, with requests marked as not seeds.

        A request that tries a seed again, with the same URL, stays a seed.
        """
        seed = request.url if self.is_seed(request) else ""

        def unseed(made: Any) -> bool:
            if isinstance(made, Request) and made.url != seed:
                made.meta[START] = False
            return True

        return filtered(output, unseed)

    async def require(self, request: Request) -> None:
        """Let *request* pass.

        Raises:
            OutOfScope: It is out of the spider's scope.
            Excluded: An operator has excluded it.
            URLTooLong: Its URL is too long for a record.
            AddressRefused: Its host is an address that is not allowed.
        """
        self.require_included(request)
        scope, shown = getattr(self._crawler.spider, "scope", None), request.url[:200]
        is_scoped = isinstance(scope, Scope) and not scope.allows(request.url)
        if is_scoped and not self._is_exempt(request):
            self._refuse(request, SCOPE)
            raise OutOfScope(f"{shown} is out of the crawl's scope")
        parts = urlparse_cached(request)
        if parts.scheme not in NETWORK:
            return
        if self._session.config.warc_enabled and is_too_long(request.url):
            self._refuse(request, LENGTH)
            raise URLTooLong(f"{shown} has more than {MAX_URL} characters")
        kind = class_of_host(parts.hostname or "")
        if kind is not None:
            await self.require_address(request, kind, spelled=True)

    def _is_exempt(self, request: Request) -> bool:
        """Whether *request* may be sent though its URL is out of scope."""
        if request.callback is NO_CALLBACK and SEED in request.meta:
            return True  # robots.txt, which has rules for pages in scope
        if request.meta.get(SITEMAP) and not request.meta.get("redirect_urls"):
            return True  # it names pages in scope, from above them or from another host
        return self.is_seed(request)

    def require_included(self, request: Request) -> None:
        """Let *request* pass if no operator has excluded it.

        A robots.txt has rules for its whole host: only excluding that excludes it.

        Raises:
            Excluded: An operator has excluded it.
        """
        exclusions = self._left_out.exclusions
        if not exclusions:
            return
        is_robots = request.callback is NO_CALLBACK and SEED in request.meta
        why = exclusions.of_host if is_robots else exclusions.why
        rule = why(request.url)
        if rule is not None:
            self._refuse(request, EXCLUDED)
            raise Excluded(f"{request.url[:200]} is excluded ({rule})")

    async def require_address(
        self, request: Request, kind: str, *, spelled: bool
    ) -> None:
        """Let *request*, which leads to an address of the class *kind*, pass.

        Raises:
            AddressRefused: Addresses of that class are not allowed for it.
        """
        if not await self.permits(request, kind, spelled=spelled):
            raise self.refusal(request, kind)

    async def permits(self, request: Request, kind: str, *, spelled: bool) -> bool:
        """Whether *request*, which leads to the class *kind*, may be sent."""
        if not self._session.opened:
            return False  # nothing is known yet, and nothing is to be sent
        classes = self._session.node.parts[AddressClasses]
        if classes.known(kind):
            return True
        is_seed = self.is_seed(request)
        return await classes.permits(kind, is_seed=is_seed, spelled=spelled)

    def allows(self, kind: str) -> bool:
        """Whether the class *kind* is allowed, as far as is known here."""
        if not self._session.opened:
            return False
        return kind in self._session.node.parts[AddressClasses].allowed

    def refusal(self, request: Request, kind: str) -> AddressRefused:
        """Count and report that *request* is refused; return its error."""
        self._refuse(request, kind)
        return AddressRefused(request.url, kind)

    def _refuse(self, request: Request, reason: str) -> None:
        self._session.count(f"frontier/refused/{reason.replace('-', '_')}")
        self._refused[reason] += 1
        if self._refused[reason] > 1:
            return
        redirected = request.meta.get("redirect_urls")
        source = redirected[-1] if redirected else None
        hop = f", to which {str(source)[:200]} redirects," if source else ""
        why = WHY.get(reason, f"it leads to a {reason} {ADDRESS}")
        if reason == SCOPE:
            if not (redirected and request.meta.get("is_start_request")):
                return  # out of scope, as most links are
            why = "it is out of scope; if it belongs to the crawl, make it a seed"
        logger.warning(
            "%s%s is not fetched: %s; further ones are only counted",
            request.url[:200],
            hop,
            why,
        )

    def tell_of(self, handler: type, scheme: str) -> None:
        """Warn once what is not checked where *handler*, not one of ours, sends."""
        self._session.warn_once(
            f"{handler.__module__}.{handler.__qualname__} sends {scheme} requests by "
            "itself: the lease on a host is checked before it is called, not when it "
            "sends; FRONTIER_ALLOW_ADDRESSES is checked then, and for addresses that "
            "its responses name"
        )
