"""Cookies of the whole crawl: Scrapy's middleware, with jars that all nodes share.

A login on one node is a login on all. Scrapy's jar for each ``cookiejar`` is divided by
registered domain: cookies of accounts.x.org go to www.x.org, and to no other domain.
`frontier.node.cookies` says when a node reads what others have.

What always holds:

1.  A request is sent with all cookies that were set, for its jar and domain, by a
    response that is acked, or that led to it, on whichever node.
2.  A response that changed a jar reaches the spider only when the store has the
    change: one write per response, merged cookie by cookie.
3.  What the store has is data of unknown origin: an invalid cookie, or one of
    another domain, is left out.
4.  A cookie that is not shared, because it is too large or one too many, is kept by the
    node that received it, and a log line says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import defaultdict
from http.cookiejar import Cookie
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached
from typing_extensions import override

from frontier.node import cookies as shared
from frontier.scrapy_internals import BaseCookies, cookies_by_domain
from frontier.session.session import Session, session_of
from frontier.urls.scope import domain_of, is_public_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


logger = logging.getLogger(__name__)

MAX_KEY = 200
"""The most characters of a ``cookiejar`` key that is shared."""
MAX_JARS = 10_000
"""Jars above which a node forgets those without cookies."""
LOCAL = "frontier/cookies/local"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters, which could end a header."""


class _Jar(shared.Jar):
    """The part of one of Scrapy's jars that belongs to one registered domain."""

    def __init__(self, key: Any, domain: str) -> None:
        super().__init__(json.dumps([key, domain], separators=(",", ":")))
        self.key = key
        self.domain = domain
        self.domains: dict[str, None] = {}
        """Domains of cookies that were set: host names, some with a dot before them."""


class _ScrapysJar(CookieJar):
    """Scrapy's jar, but it sends cookies as UTF-8, just as it read them.

    Scrapy writes the header in the charset of the page that had the link: where that
    lacks a letter of a cookie, requests to that site fail.
    """

    @override
    def add_cookie_header(self, request: Request) -> None:
        """Add to *request* the cookies that are for it."""
        headers = request.headers
        encoding, headers.encoding = headers.encoding, "utf-8"
        try:
            super().add_cookie_header(request)
        finally:
            headers.encoding = encoding


class CookiesMiddleware(BaseCookies):
    """Replaces Scrapy's middleware, and shares cookies among all nodes of the crawl."""

    _session: Session

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self.jars = defaultdict(_ScrapysJar)
        self._shared: dict[tuple[Any, str], _Jar] = {}
        self._most = MAX_JARS
        self._said: set[str] = set()

    @classmethod
    @override
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node.

        Raises:
            NotConfigured: ``COOKIES_ENABLED`` is false.
        """
        made = super().from_crawler(crawler)
        made._session = session_of(crawler)
        return made

    @override
    async def process_request(  # type: ignore[override]
        self, request: Request
    ) -> None:
        """Send *request* with the cookies that the crawl has for it."""
        jar = self._jar_of(request)
        if jar is None:
            self._tell_of_key(request)
            super().process_request(request)
            return
        is_current = self._session.node.parts[shared.Cookies].is_current
        if is_current(jar) and not request.cookies:
            super().process_request(request)
            return
        # Held to the end, as the next requests are to have this one's own cookies.
        async with jar.lock:
            if not is_current(jar):
                await self._refresh(jar)
            super().process_request(request)  # puts those into Scrapy's jar
            changed = bool(request.cookies) and await self._store(jar)
        if changed:
            await asyncio.sleep(shared.FRESH)

    @override
    async def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Response:
        """Store the cookies that *response* sets, before anybody relies on them."""
        jar = self._jar_of(request)
        if jar is None or "Set-Cookie" not in response.headers:
            super().process_response(request, response)
            return response
        async with jar.lock:
            super().process_response(request, response)
            changed = await self._store(jar)
        if changed:
            await asyncio.sleep(shared.FRESH)
        return response

    @override
    def put_into(self, jar: CookieJar, cookies: list[Cookie], request: Request) -> None:
        """Put *cookies* into *jar*, and remember their domains."""
        cookies = [each for each in cookies if _may_be_set(each, request)]
        super().put_into(jar, cookies, request)
        part = self._jar_of(request)
        if part is not None:
            known = cookies_by_domain(jar)
            part.domains |= {
                cookie.domain: None
                for cookie in cookies
                if cookie.domain in known and _belongs(cookie.domain, part)
            }

    def _jar_of(self, request: Request) -> _Jar | None:
        """The shared jar for *request*, if it has one."""
        host = urlparse_cached(request).hostname
        key = request.meta.get("cookiejar")
        if isinstance(key, int):
            key = int(key)
        elif isinstance(key, str):
            key = str(key)
        if (
            not host
            or not _is_plain(key)
            or request.meta.get("dont_merge_cookies", False)
            or not self._session.opened
        ):
            return None
        domain = domain_of(host, private=True)
        jar = self._shared.get((key, domain))
        if jar is None:
            if len(self._shared) >= self._most:
                self._forget_unused()
            jar = self._shared[key, domain] = _Jar(key, domain)
        return jar

    def _forget_unused(self) -> None:
        """Keep the jars that have cookies, as Scrapy does, and those in use."""
        self._shared = {
            name: jar
            for name, jar in self._shared.items()
            if jar.domains or jar.lock.locked()
        }
        self._most = max(MAX_JARS, 2 * len(self._shared))

    async def _refresh(self, jar: _Jar) -> None:
        """Put into Scrapy's jar what other nodes have changed; *jar* is locked."""
        era = jar.era
        fresh = await self._session.node.parts[shared.Cookies].refresh(jar)
        if fresh is None:
            return
        self.crawler.stats.inc_value("frontier/cookies/read")
        ours = self.jars[jar.key]
        may_have_forgotten = jar.era != era
        if not may_have_forgotten:
            for field in jar.stored.keys() - fresh.keys():
                _remove(ours, field)
        jar.stored = {}
        for field, value in islice(fresh.items(), shared.MAX_COOKIES):
            cookie = _cookie(field, value)
            if cookie is None or not _belongs(cookie.domain, jar):
                self._keep_local(
                    "read", "what the store has is not a cookie of its jar"
                )
                continue
            ours.set_cookie(cookie)
            jar.domains[cookie.domain] = None
            jar.stored[field] = value
        if may_have_forgotten:
            await self._store(jar)

    async def _store(self, jar: _Jar) -> bool:
        """Write what changed in *jar*, which is locked; whether the store changed."""
        ours = self.jars[jar.key]
        changes: dict[str, str] = {}
        for number, cookie in enumerate(_cookies(ours, jar)):
            if number == shared.MAX_COOKIES:
                self._tell_of_room()
                break
            field, value = _entry(cookie)
            if len(field) + len(value) > shared.MAX_BYTES:
                self._keep_local("size", f"a cookie of over {shared.MAX_BYTES} bytes")
            elif jar.stored.get(field) != value:
                changes[field] = value
        changes |= {field: "" for field in jar.stored if not _has(ours, field)}
        if not changes:
            return False
        cookies: shared.Cookies = self._session.node.parts[shared.Cookies]
        changed, refused = await cookies.write(jar, changes)
        self.crawler.stats.inc_value("frontier/cookies/written")
        if refused:
            self._tell_of_room()
            changes = {field: "" for field, value in changes.items() if not value}
        for field, value in changes.items():
            if value:
                jar.stored[field] = value
            else:
                del jar.stored[field]
        return changed

    def _tell_of_room(self) -> None:
        self._keep_local(
            "room",
            f"what is over {shared.MAX_COOKIES} of one domain, or over "
            f"{shared.MAX_JARS} domains",
        )

    def _tell_of_key(self, request: Request) -> None:
        """Warn if the cookies of *request* are not shared because of its key."""
        key = request.meta.get("cookiejar")
        if not _is_plain(key) and not request.meta.get("dont_merge_cookies", False):
            self._keep_local(
                "key",
                f"a cookiejar that is {type(key).__name__}; one that is shared is an "
                f"int, or a str of at most {MAX_KEY} characters",
            )

    def _keep_local(self, kind: str, what: str) -> None:
        """Count a cookie that is not shared, and warn once for each *kind*."""
        self.crawler.stats.inc_value(LOCAL)
        if kind not in self._said:
            self._said.add(kind)
            logger.warning(
                "cookies that are not shared with other nodes: %s; only the first is "
                "reported, the stat %s counts all",
                what,
                LOCAL,
            )


def _is_plain(key: Any) -> bool:
    """Whether *key*, a ``cookiejar``, means the same on every node."""
    return (
        key is None
        or isinstance(key, int)
        or (isinstance(key, str) and len(key) <= MAX_KEY)
    )


def _belongs(domain: str, jar: _Jar) -> bool:
    """Whether *domain*, of a cookie, is that of *jar* or below it."""
    name = domain.removeprefix(".")
    return any(
        name == own or name.endswith(f".{own}")
        for own in (jar.domain, f"{jar.domain}.local")  # `http.cookiejar` adds ".local"
    )


def _may_be_set(cookie: Cookie, request: Request) -> bool:
    """Whether *cookie* may be set; for a public suffix, only by a host of that name.

    Such a cookie is then for that host alone. That is Scrapy's rule, but with the list
    in the package: Scrapy's own rule fetches it from publicsuffix.org when the first
    cookie with a domain comes.
    """
    host = (urlparse_cached(request).hostname or "").lower()
    domain = cookie.domain.removeprefix(".")
    if domain and is_public_suffix(domain):
        if domain != host:
            return False
        cookie.domain = host
    return bool(host)


def _cookies(ours: CookieJar, jar: _Jar) -> Iterator[Cookie]:
    """The cookies of *ours* that belong to *jar* and have not expired."""
    for domain in jar.domains:
        for named in cookies_by_domain(ours).get(domain, {}).values():
            yield from (each for each in named.values() if not each.is_expired())


def _entry(cookie: Cookie) -> tuple[str, str]:
    """*cookie* as it is stored: the field of a hash, and its value."""
    field = json.dumps([cookie.domain, cookie.path, cookie.name])
    plain: list[Any] = [
        cookie.value,
        bool(cookie.secure),
        bool(cookie.domain_specified),
        bool(cookie.path_specified),
        bool(cookie.discard),
        cookie.port,
        cookie.has_nonstandard_attr("HttpOnly"),
    ]
    return field, f"{cookie.expires or 0} {json.dumps(plain)}"


def _cookie(field: str, value: str) -> Cookie | None:
    """The cookie stored as *value* in *field*; ``None`` if that is not a cookie."""
    if len(field) + len(value) > shared.MAX_BYTES:
        return None
    try:
        domain, path, name = json.loads(field)
        expires, _, rest = value.partition(" ")
        content, secure, has_domain, has_path, discard, port, http_only = json.loads(
            rest
        )
        until = int(expires)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (domain, path, name, *(n for n in (content, port) if n is not None))
    if not all(isinstance(text, str) and not _CONTROLS.search(text) for text in texts):
        return None
    return Cookie(
        0, name, content, port, port is not None, domain, bool(has_domain),
        domain.startswith("."), path, bool(has_path), bool(secure), until or None,
        bool(discard), None, None, {"HttpOnly": ""} if http_only else {},
    )  # fmt: skip


def _has(ours: CookieJar, field: str) -> bool:
    domain, path, name = json.loads(field)
    found = cookies_by_domain(ours).get(domain, {}).get(path, {}).get(name)
    return found is not None and not found.is_expired()


def _remove(ours: CookieJar, field: str) -> None:
    domain, path, name = json.loads(field)
    if name in cookies_by_domain(ours).get(domain, {}).get(path, {}):
        ours.clear(domain, path, name)
