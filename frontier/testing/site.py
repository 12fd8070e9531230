"""The web site, as a function from (host, method, target, body) to a resource.

1. Equal sites answer with equal bytes; nothing here reads a clock or keeps state.
2. A crawl from all home pages that obeys robots.txt and follows links,
   requisites and redirects meets exactly ``urls`` URLs.
3. No two URLs of the site differ merely in the order or the escaping of their
   parts, so Scrapy tells them apart as well.

What there is, on every host unless said otherwise:

=============================  ==============================================
``/``                          links to everything below that is linked at all
``/hub``                       up to ``HUB_LINKS`` links to articles and posts
``/article/N?sid=...``         ``VARIANTS`` session ids per article, one body
``/post/N``                    plain, gzip, chunked, or both
``/about``, ``/static/*``      the same bytes on all hosts
``/img/*``, ``/files/*``       each twice: two URLs, one body
``/old``                       301 to ``/about``
``/away``                      302 to ``/landing`` of the next host
``/loop/a``, ``/loop/b``       302 to each other
``/missing``                   404
``/empty``                     200 without a body
``/latin1``                    a header with the byte 0xE9
``/cookies``                   two ``Set-Cookie`` headers
``/gzip``, ``/chunked``        a content coding; a transfer coding
``/private/*``                 linked, but disallowed by ``/robots.txt``
``/slow``                      on the first host: waits ``slow_seconds``
``/calendar?month=N``          on the last host: links to month N + 1
``/form``, ``/error``          not linked: echoes a POST; 500
``/feed/*``, ``/news``         not linked: see `frontier.testing.news`
=============================  ==============================================

A page's text is drawn from its subject: pages with the same subject and links
are the same bytes, others are not.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from html import escape
from urllib.parse import parse_qsl, urlencode

from frontier.errors import ConfigurationError
from frontier.model import frozen
from frontier.testing import news

LAST_MODIFIED = b"Mon, 01 Jan 2024 00:00:00 GMT"
CHUNK_BYTES = 256

Headers = tuple[tuple[bytes, bytes], ...]


@frozen
class Resource:
    """One answer: the same for the same site, host, method and target."""

    status: int
    headers: Headers
    """Without those that frame the message (such as ``Content-Length``)."""
    body: bytes
    """The entity body with its content coding."""
    chunked: bool = False
    """Whether it is sent in chunks of ``CHUNK_BYTES`` instead of with a length."""
    wait: float = 0.0
    """Seconds that the server holds it back."""

    def header(self, name: bytes) -> bytes | None:
        """The value of the first header called *name* in this spelling."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def is_html(self) -> bool:
        """Whether the body is HTML, under whatever content coding."""
        return (self.header(b"Content-Type") or b"").startswith(b"text/html")

    @property
    def decoded(self) -> bytes:
        """The body without its content coding."""
        if self.header(b"Content-Encoding") == b"gzip":
            return gzip.decompress(self.body)
        return self.body

    def with_headers(self, *headers: tuple[bytes, bytes]) -> Resource:
        """This resource with *headers* after its own."""
        return replace(self, headers=(*self.headers, *headers))

    def gzipped(self) -> Resource:
        """This resource with a gzip body; equal bytes for equal bodies and zlibs."""
        body = gzip.compress(self.body, mtime=0)
        return replace(self, body=body).with_headers((b"Content-Encoding", b"gzip"))


def ok(content_type: str, body: bytes) -> Resource:
    """A 200 of *content_type*."""
    headers = (
        (b"Content-Type", content_type.encode("ascii")),
        (b"Last-Modified", LAST_MODIFIED),
    )
    return Resource(200, headers, body)


def html(text: str) -> Resource:
    """A 200 with a page."""
    return ok("text/html; charset=utf-8", text.encode())


def redirect(status: int, location: str) -> Resource:
    """A 301 or 302; *location* may be relative."""
    headers = (
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Location", location.encode("ascii")),
    )
    return Resource(status, headers, b"The page is elsewhere.\n")


def failure(status: int, text: str) -> Resource:
    """An error page, without links."""
    headers = ((b"Content-Type", b"text/html; charset=utf-8"),)
    body = f"<!doctype html>\n<title>{status}</title>\n<p>{text}</p>\n"
    return Resource(status, headers, body.encode())


PNG_SIDE = 16
"""Width and height of a picture, in pixels."""

STYLE = b"body { margin: 2em; font-family: serif; }\nnav a { margin-right: 1em; }\n"
SCRIPT = b'"use strict";\ndocument.documentElement.dataset.ready = "yes";\n'


def png(red: int, green: int, blue: int) -> bytes:
    """A picture of one colour; uncompressed, so its bytes depend on no zlib."""
    header = struct.pack(">IIBBBBB", PNG_SIDE, PNG_SIDE, 8, 2, 0, 0, 0)
    row = b"\0" + bytes((red, green, blue)) * PNG_SIDE
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _png_chunk(b"IHDR", header),
            _png_chunk(b"IDAT", zlib.compress(row * PNG_SIDE, 0)),
            _png_chunk(b"IEND", b""),
        )
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def pdf(text: str) -> bytes:
    """Bytes that begin and end like a PDF that says *text*; viewers show nothing."""
    return f"%PDF-1.4\n% {text}\n%%EOF\n".encode()


PARAGRAPHS = 3
PARAGRAPH_WORDS = 60

_TEXT = (
    "archive basin canal delta ember fjord garden harbour island jetty kiln lantern "
    "meadow north orchard paper quarry river stone tower upland valley willow yard"
)
_WORDS = _TEXT.split()


def page(
    subject: str,
    links: Iterable[str],
    *,
    homes: Sequence[str],
    images: Iterable[str] = (),
) -> str:
    """A page about *subject* with navigation, *images*, text and *links*.

    The navigation leads to the home page, the hub and the about page of the
    page's own host and to *homes*. Style sheet, script and logo are requisites
    of every page.
    """
    nav = ("/", "/hub", "/about#top", *homes)
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        f'<head><meta charset="utf-8"><title>{escape(subject)}</title>',
        '<link rel="stylesheet" href="/static/style.css">',
        '<script src="/static/app.js"></script></head>',
        "<body>",
        f"<nav>{' '.join(map(_anchor, nav))}</nav>",
        f'<h1 id="top">{escape(subject)}</h1>',
        *(f'<img alt="" src="{escape(src)}">' for src in ("/static/logo.png", *images)),
        *(f"<p>{text}</p>" for text in _paragraphs(subject)),
        '<p><a href="mailto:editor@example.org">Write to us</a></p>',
        "<ul>",
        *(f"<li>{_anchor(link)}</li>" for link in links),
        "</ul>",
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def echo(body: bytes) -> str:
    """A page that shows *body*; what is not UTF-8 in it is replaced."""
    text = escape(body.decode("utf-8", "replace"))
    return f"<!doctype html>\n<title>Echo</title>\n<pre>{text}</pre>\n"


def _anchor(href: str) -> str:
    return f'<a href="{escape(href)}">{escape(href)}</a>'


def _paragraphs(subject: str) -> Iterable[str]:
    chance = random.Random(subject)
    for _ in range(PARAGRAPHS):
        yield " ".join(chance.choices(_WORDS, k=PARAGRAPH_WORDS)).capitalize() + "."


VARIANTS = 4
"""URLs per article, each with a session id of its own."""
HUB_LINKS = 500
"""The hub has no more links than this, navigation excluded."""
SHARE_OF_ARTICLES = 2 / 3
"""The share of articles among the URLs that are not fixed pages."""
MAX_HOSTS = 200
MAX_DIGITS = 9
"""Digits of a number in a URL."""


@dataclass(frozen=True)
class Site:
    """A site of *urls* URLs on *hosts* hosts.

    Raises:
        ConfigurationError: The parameters contradict each other, or *urls* is
            less than the number of fixed pages.
    """

    urls: int = 400
    hosts: int = 5
    slow_seconds: float = 1.0
    calendar_months: int = 18
    published: int = 0
    """Items of its feeds; a server's `publish` makes more of them."""
    bases: tuple[str, ...] = ()
    """Scheme and authority of each host; names that do not resolve until
    ``served_at`` sets better ones."""

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= MAX_HOSTS:
            raise ConfigurationError(
                f"a site has 1 to {MAX_HOSTS} hosts, not {self.hosts}"
            )
        if self._scalable < 0:
            least = self.urls - self._scalable
            raise ConfigurationError(
                f"{self.urls} URLs are too few for {self.hosts} hosts and "
                f"{self.calendar_months} months; the least is {least}"
            )
        if not self.bases:
            names = tuple(f"http://host-{n}.invalid" for n in range(self.hosts))
            object.__setattr__(self, "bases", names)

    def served_at(self, bases: Iterable[str]) -> Site:
        """This site, with links that lead to *bases* (``http://host:port``)."""
        return replace(self, bases=tuple(bases))

    @property
    def seeds(self) -> list[str]:
        """The home page of each host."""
        return [f"{base}/" for base in self.bases]

    @property
    def _scalable(self) -> int:
        fixed = len(_LINKED) * self.hosts + 1 + self.calendar_months
        return self.urls - fixed

    def articles(self, host: int) -> int:
        """How many articles *host* has; ``VARIANTS`` times as many URLs."""
        total = int(self._scalable * SHARE_OF_ARTICLES) // VARIANTS
        return _share(total, self.hosts, host)

    def posts(self, host: int) -> int:
        """How many posts *host* has."""
        articles = int(self._scalable * SHARE_OF_ARTICLES) // VARIANTS
        return _share(self._scalable - articles * VARIANTS, self.hosts, host)

    def article_path(self, host: int, number: int, variant: int) -> str:
        """Path and query of one of an article's URLs."""
        return f"/article/{number}?sid={session_id(host, number, variant)}"

    def resource(
        self, host: int, target: str, method: str = "GET", body: bytes = b""
    ) -> Resource:
        """What *host* answers; *target* is the path with its query."""
        if target == "/form":
            if method != "POST":
                return failure(405, "POST only.").with_headers((b"Allow", b"POST"))
            return html(echo(body))
        if method not in {"GET", "HEAD"}:
            return failure(405, "GET only.").with_headers((b"Allow", b"GET, HEAD"))
        make = _LINKED.get(target) or _UNLINKED.get(target)
        if make:
            return make(self, host)
        path, _, query = target.partition("?")
        found: Resource | None = None
        match path.split("/")[1:]:
            case ["article", number]:
                found = self._article(host, _natural(number), query)
            case ["post", number] if not query:
                found = self._post(host, _natural(number))
            case ["calendar"] if host == self.hosts - 1:
                found = self._calendar(query)
            case ["slow"] if host == 0 and not query:
                found = replace(self._plain(0, "Slow"), wait=self.slow_seconds)
            case ["private", _] if not query:
                found = self._plain(host, "Private")
            case ["feed" | "news" | "img", *_] if not query:
                found = self._news(host, path)
        return found or failure(404, "There is no such page.")

    def _page(
        self, subject: str, links: Iterable[str], images: Iterable[str] = ()
    ) -> Resource:
        return html(page(subject, links, homes=self.seeds, images=images))

    def _plain(self, host: int, what: str) -> Resource:
        return self._page(f"{what} of host {host}", ["/about"])

    def _next(self, host: int) -> int:
        return (host + 1) % self.hosts

    def _article(self, host: int, number: int | None, query: str) -> Resource | None:
        count = self.articles(host)
        sids = [session_id(host, number or 0, variant) for variant in range(VARIANTS)]
        if number is None or number >= count or query not in {f"sid={s}" for s in sids}:
            return None
        # Two variants are linked by the parent in a binary tree, whose root the
        # home page links; each other variant by one of the articles before.
        links = [
            self.article_path(host, child, variant).removeprefix("/article/")
            for child in _children(number, count)
            for variant in (0, 1)
        ]
        for variant in range(2, VARIANTS):
            path = self.article_path(host, (number + variant - 1) % count, variant)
            links.append(path if variant % 2 else self.bases[host] + path)
        other = self._next(host)
        if number < self.articles(other):
            links.append(self.bases[other] + self.article_path(other, number, 0))
        if posts := self.posts(host):
            links.append(f"../post/{number % posts}")
        return self._page(f"Article {number} of host {host}", links)

    def _post(self, host: int, number: int | None) -> Resource | None:
        count = self.posts(host)
        if number is None or number >= count:
            return None
        links = [str(child) for child in _children(number, count)]
        other = self._next(host)
        if number < self.posts(other):
            scheme_relative = self.bases[other].partition(":")[2]
            links.append(f"{scheme_relative}/post/{number}")
        links += [f"/private/{number}", f"../about#note-{number}"]
        found = self._page(f"Post {number} of host {host}", links, ["../img/photo.png"])
        if number % 3 == 1:
            found = found.gzipped()
        return replace(found, chunked=number % 5 == 1)

    def _news(self, host: int, path: str) -> Resource | None:
        """What is published, and the feeds of it; see `frontier.testing.news`."""
        base, published = self.bases[host], self.published
        if path in news.ODD:
            return redirect(301, news.ODD[path])
        match path:
            case "/feed/rss.xml":
                return ok("application/rss+xml", news.rss(base, published))
            case "/feed/atom.xml":
                return ok("application/atom+xml", news.atom(base, published))
            case "/feed/page.xml":
                return self._plain(host, "No feed")
            case "/feed/broken.xml":
                return failure(500, "The feed is tired.")
            case news.IMPLIED:
                links = [f"/news/{n}" for n in news.shown(0, published)]
                return self._page(f"News of host {host}", links)
        number = _natural(path.removeprefix("/news/"))
        if number is not None and number < published:
            picture = news.image_path(number)
            return self._page(f"Item {number} of host {host}", [], [picture])
        number = _natural(path.removeprefix("/img/news-").removesuffix(".png"))
        if number is not None and number < published:
            return ok("image/png", png(number % 256, number // 256 % 256, host))
        return None

    def _calendar(self, query: str) -> Resource | None:
        month = _natural(dict(parse_qsl(query)).get("month", ""))
        if month is None or query != urlencode({"month": month}):
            return None
        if month >= self.calendar_months:
            return None
        last = month + 1 == self.calendar_months
        links = [] if last else [f"?month={month + 1}"]
        return self._page(f"Calendar, month {month}", links)

    def _home(self, host: int) -> Resource:
        # Not linked from here: what only a redirect leads to, and what the
        # navigation and the requisites of all pages name.
        elsewhere = {"/", "/landing", "/loop/b"}
        links = [path for path in _LINKED if path not in elsewhere]
        images = [path for path in links if path.startswith("/img/")]
        links = [p for p in links if not p.startswith(("/img/", "/static/"))]
        links.append("/private/index")
        if self.articles(host):
            links += [self.article_path(host, 0, variant) for variant in (0, 1)]
        if self.posts(host):
            links.append("post/0")
        if host == 0:
            links.append("/slow")
        if host == self.hosts - 1 and self.calendar_months:
            links.append("/calendar?month=0")
        return self._page(f"Home of host {host}", links, images)

    def _hub(self, host: int) -> Resource:
        links: list[str] = []
        for step in range(self.hosts):
            other = (host + step) % self.hosts
            base = self.bases[other] if step else ""
            for path in self._scaled_paths(other):
                if len(links) == HUB_LINKS:
                    break
                links.append(base + path)
        return self._page(f"Hub of host {host}", links)

    def _scaled_paths(self, host: int) -> Iterator[str]:
        for number in range(self.articles(host)):
            for variant in range(VARIANTS):
                yield self.article_path(host, number, variant)
        for number in range(self.posts(host)):
            yield f"/post/{number}"


def session_id(host: int, number: int, variant: int) -> str:
    """The session id in one of an article's URLs: 32 hexadecimal digits."""
    text = f"{host}/{number}/{variant}"
    return blake2s(text.encode("ascii"), digest_size=16).hexdigest()


def _share(total: int, hosts: int, host: int) -> int:
    """What *host* gets of *total* things that are dealt to *hosts* in turn."""
    return total // hosts + (host < total % hosts)


def _children(number: int, count: int) -> range:
    """The children of *number* in the binary heap of *count* numbers."""
    return range(2 * number + 1, min(2 * number + 3, count))


def _natural(text: str) -> int | None:
    """The number whose shortest decimal form is *text*, else ``None``."""
    if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS:
        number = int(text)
        return number if str(number) == text else None
    return None


def _photo(_: Site, host: int) -> Resource:
    return ok("image/png", png(40, 200 - host % 100, host))


def _report(_: Site, host: int) -> Resource:
    return ok("application/pdf", pdf(f"Report of host {host}"))


_Make = Callable[[Site, int], Resource]

# Each host's fixed pages: a crawl meets all of them, and only by these URLs.
_LINKED: Mapping[str, _Make] = {
    "/": Site._home,
    "/hub": Site._hub,
    "/about": lambda site, _: site._page("About us", ["/"]),
    "/landing": lambda site, host: site._plain(host, "Landing page"),
    "/static/style.css": lambda *_: ok("text/css", STYLE),
    "/static/app.js": lambda *_: ok("text/javascript", SCRIPT),
    "/static/logo.png": lambda *_: ok("image/png", png(180, 20, 20)),
    "/img/photo.png": _photo,
    "/img/copy/photo.png": _photo,
    "/files/report.pdf": _report,
    "/files/2024/report-final.pdf": _report,
    "/old": lambda *_: redirect(301, "/about"),
    "/away": lambda site, host: redirect(
        302, f"{site.bases[site._next(host)]}/landing"
    ),
    "/loop/a": lambda *_: redirect(302, "b"),
    "/loop/b": lambda *_: redirect(302, "/loop/a"),
    "/missing": lambda *_: failure(404, "This page is gone."),
    "/empty": lambda *_: ok("text/html; charset=utf-8", b""),
    "/latin1": lambda site, host: site._plain(host, "Latin-1").with_headers(
        (b"X-Author", b"Ren\xe9")
    ),
    "/cookies": lambda site, host: site._plain(host, "Cookies").with_headers(
        (b"Set-Cookie", b"session=1; Path=/"),
        (b"Set-Cookie", b"theme=dark; Path=/; HttpOnly"),
    ),
    "/gzip": lambda site, host: site._plain(host, "Gzip").gzipped(),
    "/chunked": lambda site, host: replace(site._plain(host, "Chunks"), chunked=True),
}

_UNLINKED: Mapping[str, _Make] = {
    "/robots.txt": lambda *_: ok(
        "text/plain; charset=utf-8", b"User-agent: *\nDisallow: /private/\n"
    ),
    "/error": lambda *_: failure(500, "The server is tired."),
}
