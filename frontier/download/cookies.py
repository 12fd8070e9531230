"""Cookies of the whole crawl: Scrapy's middleware, with jars that all nodes share.

A login on one node is a login on all. Scrapy's jar for each ``cookiejar`` is divided by
registered domain: cookies of accounts.x.org go to www.x.org, and to no other domain.
So a *jar* here is one of a value of ``cookiejar`` and a registered domain. An index in
the store has the version of each, which grows with each change.

What always holds:

1.  A request is sent with all cookies that were set, for its jar and domain, by a
    response that is acked, or that led to it, on whichever node.
2.  A response that changed a jar reaches the spider only when the store has the
    change: one write per response, merged cookie by cookie.
3.  What the store has is data of unknown origin: an invalid cookie, or one of
    another domain, is left out.
4.  A cookie that is not shared, because it is too large or one too many, is kept by the
    node that received it, and a log line says so.
5.  A node uses a jar only if its last look at the index is less than `FRESH` seconds
    old, or began after the jar was wanted, and had no newer version of that jar than
    the node has. One look serves all jars. The first look has to succeed.
6.  A node that has changed a jar goes on `FRESH` seconds after the store has the
    change. So whatever comes of a response, its links and its ack, comes after the
    moment from which every node sends the cookies that the response has set.
7.  While the index does not answer, a node that has looked before goes on with what
    it has: what other nodes are given meanwhile is neither stored nor acked.
8.  When the store was replaced, or started again, it may have forgotten cookies: all
    are read again, and what a node has and the store has not is written again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from http.cookiejar import Cookie
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached
from typing_extensions import override

from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.scrapy_internals import BaseCookies, cookies_by_domain
from frontier.session.session import Session, session_of
from frontier.store.client import Call
from frontier.urls.scope import domain_of, is_public_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.node.node import Node


logger = logging.getLogger(__name__)

MAX_KEY = 200
"""The most characters of a ``cookiejar`` key that is shared."""
MAX_KNOWN = 10_000
"""Jars above which a node forgets those without cookies."""
FRESH = 0.1
"""Seconds for which a look at the index is relied on."""
MAX_COOKIES = 300
"""The most cookies of one jar."""
MAX_BYTES = 5_000
"""The most bytes of a cookie, its name and its domain; browsers keep 4,096 of name and
value."""
MAX_JARS = 100_000
"""The most jars of one crawl."""
PAGE = 1_000
"""Jars whose versions are read at once."""
LOCAL = "frontier/cookies/local"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters, which could end a header."""


class Jar:
    """What this node knows of one jar: a part of one of Scrapy's."""

    def __init__(self, name: str, key: Any = None, domain: str = "") -> None:
        self.name = name
        self.key = key
        self.domain = domain
        self.domains: dict[str, None] = {}
        """Domains of cookies that were set: host names, some with a dot before them."""
        self.version = 0
        """The version that the node has; 0 if it has none."""
        self.stored: dict[str, str] = {}
        """Its cookies by their fields, as the store had them."""
        self.era = -1
        """The era of the store when it had them; -1 before; see `Cookies.era`."""
        self.lock = asyncio.Lock()
        """Held while it is read or changed."""


class Cookies(Part):
    """Reads and changes the jars of a crawl."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._versions: dict[str, int] = {}
        self._last = 0
        self._looked_at: float | None = None
        self._looking: asyncio.Task[None] | None = None
        self.era = 0
        """Grows when the store may have forgotten cookies."""

    @override
    def went_back(self) -> None:
        """Read everything again."""
        self._versions.clear()
        self._last, self._looked_at, self.era = 0, None, self.era + 1

    def is_current(self, jar: Jar) -> bool:
        """Whether *jar* may be used without asking the store."""
        if not self._is_fresh() or self._is_stale(jar):
            return False
        if self._looked_at is None or time.monotonic() - self._looked_at > FRESH / 2:
            self._begin_look()  # so that the next ones need not wait for it
        return True

    async def refresh(self, jar: Jar) -> dict[str, str] | None:
        """Read *jar* if the store has another version; the caller holds its lock.

        Returns its cookies, or `None` if the node has them already.
        """
        await self._look()
        if not self._is_stale(jar):
            return None
        era, version = self.era, self._versions.get(jar.name, 0)
        read = Call.command("HGETALL", self._keys.jar(jar.name))
        reply = await self._node.answer(read)
        jar.version, jar.era = version, era
        return {_text(field): _text(value) for field, value in reply.items()}

    async def write(self, jar: Jar, changes: Mapping[str, str]) -> tuple[bool, int]:
        """Put *changes* of *jar* into the store; the caller holds its lock.

        A value is empty where the cookie is gone. Returns whether anything in the store
        has changed, and how many cookies had no room.
        """
        era = self.era
        arguments = [part for change in changes.items() for part in change]
        keys = self._keys
        merge = Call.to(
            "cookies_merge",
            [keys.jar(jar.name), keys.cookies, keys.meta],
            [jar.name, keys.born, MAX_COOKIES, MAX_JARS, *arguments],
        )
        ((version, before, refused),) = await self._node.run([merge], copied=True)
        jar.era = era
        if version > 0 and before == jar.version:  # no other node's change is missing
            jar.version = version
        return 0 < version != before, int(refused)

    def _is_fresh(self) -> bool:
        looked = self._looked_at
        return looked is not None and time.monotonic() - looked < FRESH

    def _is_stale(self, jar: Jar) -> bool:
        known = self._versions.get(jar.name, 0)
        return known > jar.version or (jar.era != self.era and jar.era >= 0)

    async def _look(self) -> None:
        """Return after a look that is fresh, or that began after this was called."""
        called = time.monotonic()
        while not self._is_fresh():
            await asyncio.shield(self._begin_look())
            if self._looked_at is not None and self._looked_at >= called:
                return

    def _begin_look(self) -> asyncio.Task[None]:
        """The look that is under way, or a new one."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._do_look())
        return self._looking

    async def _do_look(self) -> None:
        has_looked = self._looked_at is not None
        run = self._node.outage_retry.call if has_looked else self._node.run
        while True:
            began = time.monotonic()
            call = Call.command(
                "ZRANGEBYSCORE", self._keys.cookies, f"({self._last}", "+inf",
                "WITHSCORES", "LIMIT", 0, PAGE,
            )  # fmt: skip
            try:
                (reply,) = await run([call])
            except StoreUnavailable:
                self._looked_at = time.monotonic()
                return
            for name, score in reply:
                self._versions[_text(name)] = self._last = int(score)
            if len(reply) < PAGE:
                self._looked_at = began
                return


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
        self._shared: dict[tuple[Any, str], Jar] = {}
        self._most = MAX_KNOWN

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
        is_current = self._session.node.parts[Cookies].is_current
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
            await asyncio.sleep(FRESH)

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
            await asyncio.sleep(FRESH)
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

    def _jar_of(self, request: Request) -> Jar | None:
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
            name = json.dumps([key, domain], separators=(",", ":"))
            jar = self._shared[key, domain] = Jar(name, key, domain)
        return jar

    def _forget_unused(self) -> None:
        """Keep the jars that have cookies, as Scrapy does, and those in use."""
        self._shared = {
            name: jar
            for name, jar in self._shared.items()
            if jar.domains or jar.lock.locked()
        }
        self._most = max(MAX_KNOWN, 2 * len(self._shared))

    async def _refresh(self, jar: Jar) -> None:
        """Put into Scrapy's jar what other nodes have changed; *jar* is locked."""
        era = jar.era
        fresh = await self._session.node.parts[Cookies].refresh(jar)
        if fresh is None:
            return
        self.crawler.stats.inc_value("frontier/cookies/read")
        ours = self.jars[jar.key]
        may_have_forgotten = jar.era != era
        if not may_have_forgotten:
            for field in jar.stored.keys() - fresh.keys():
                _remove(ours, field)
        jar.stored = {}
        for field, value in islice(fresh.items(), MAX_COOKIES):
            cookie = _cookie(field, value)
            if cookie is None or not _belongs(cookie.domain, jar):
                self._keep_local("what the store has is not a cookie of its jar")
                continue
            ours.set_cookie(cookie)
            jar.domains[cookie.domain] = None
            jar.stored[field] = value
        if may_have_forgotten:
            await self._store(jar)

    async def _store(self, jar: Jar) -> bool:
        """Write what changed in *jar*, which is locked; whether the store changed."""
        ours = self.jars[jar.key]
        changes: dict[str, str] = {}
        for number, cookie in enumerate(_cookies(ours, jar)):
            if number == MAX_COOKIES:
                self._tell_of_room()
                break
            field, value = _entry(cookie)
            if len(field) + len(value) > MAX_BYTES:
                self._keep_local(f"a cookie of over {MAX_BYTES} bytes")
            elif jar.stored.get(field) != value:
                changes[field] = value
        changes |= {field: "" for field in jar.stored if not _has(ours, field)}
        if not changes:
            return False
        cookies = self._session.node.parts[Cookies]
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
            f"what is over {MAX_COOKIES} of one domain, or over {MAX_JARS} domains",
        )

    def _tell_of_key(self, request: Request) -> None:
        """Warn if the cookies of *request* are not shared because of its key."""
        key = request.meta.get("cookiejar")
        if not _is_plain(key) and not request.meta.get("dont_merge_cookies", False):
            self._keep_local(
                f"a cookiejar that is {type(key).__name__}; one that is shared is an "
                f"int, or a str of at most {MAX_KEY} characters",
            )

    def _keep_local(self, what: str) -> None:
        """Count a cookie that is not shared, and warn once of each kind, *what*."""
        self._session.count(LOCAL)
        self._session.warn_once(
            f"cookies that are not shared with other nodes: {what}; only the first is "
            f"reported, the stat {LOCAL} counts all"
        )


def _is_plain(key: Any) -> bool:
    """Whether *key*, a ``cookiejar``, means the same on every node."""
    return (
        key is None
        or isinstance(key, int)
        or (isinstance(key, str) and len(key) <= MAX_KEY)
    )


def _belongs(domain: str, jar: Jar) -> bool:
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


def _cookies(ours: CookieJar, jar: Jar) -> Iterator[Cookie]:
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
    if len(field) + len(value) > MAX_BYTES:
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


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
