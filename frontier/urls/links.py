"""Links: what a page leads to, and what it needs to be shown.

What always holds:

1.  lxml makes a tree of a page. In the reactor's thread it is not deeper than libxml2
    lets it be, 256 elements, which bounds what `frontier.download.pages.INLINE` bytes
    may take. Any other page is read in a worker process, whose limits of CPU time and
    memory end what it is made for.
2.  No expression here is tried twice at a character, but from the start of a repetition
    that has no other way to match.
3.  What is not read is counted by kind, with an example.

It needs nothing of Scrapy's, so that a worker process starts soon.
"""

from __future__ import annotations

import contextlib
import re
import resource
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ATTRIBUTES = {
    "a": ("href",),
    "area": ("href",),
    "link": ("href",),
    "img": ("src",),
    "script": ("src",),
    "iframe": ("src",),
    "frame": ("src",),
    "embed": ("src",),
    "source": ("src",),
    "audio": ("src",),
    "video": ("src", "poster"),
    "track": ("src",),
    "object": ("data",),
    "body": ("background",),
}
"""Those that hold a URL, by element; and ``src`` of ``<input type=image>``."""
ELEMENTS = (*ATTRIBUTES, "input", "style")
"""Those that are looked at."""
STYLED = etree.XPath("//*[@style]/@style", smart_strings=False)
NAVIGATION = frozenset({"a", "area"})
"""Elements that lead to other pages, and show nothing of these."""
EMBEDDED_RELS = frozenset(
    {
        *("apple-touch-icon", "apple-touch-icon-precomposed", "icon", "mask-icon"),
        *("manifest", "modulepreload", "preload", "shortcut", "stylesheet"),
    }
)
"""What a ``<link>`` is for that a page needs to be shown."""
SETS = {"img": "srcset", "source": "srcset", "link": "imagesrcset"}
"""Those that hold several."""
LONGEST = 65_536
"""Characters of a link, or of a ``<base>``, above which it is not looked at."""
LONGEST_BASE = 8_192
MANY = 2_000
"""Links that are handed on at a time."""
TREE_FACTOR = 40
"""A page of nothing but short links needs so many times its size as a tree."""
REMEMBERED = 100_000
"""Links of one page of which each is told once; of more some may come again."""
TITLE = 2_000
"""Characters of a title that are kept."""
ENDING = (
    etree.ErrorTypes.ERR_INTERNAL_ERROR,
    etree.ErrorTypes.ERR_USER_STOP,
    etree.ErrorTypes.ERR_RESOURCE_LIMIT,
)
"""Errors of libxml2 after which it reads no more."""
LINKS, LENGTH = "links", "length"
"""What links are left out for: too many of them, and too long."""

_SPACES = " \t\n\r\f"
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
_CSS = re.compile(r"url\(|@import", re.IGNORECASE)
_CSS_SPACE = re.compile(r"[ \t\n\r\f]*+")
_CSS_PLAIN = re.compile(
    r"""[^ \t\n\r\f()"'\\]*+(?:\\[^\n\r\f][^ \t\n\r\f()"'\\]*+)*+"""
)
_CSS_QUOTED = {
    '"': re.compile(r'[^"\\\n\r\f]*+(?:\\(?:\r\n|[\s\S])[^"\\\n\r\f]*+)*+'),
    "'": re.compile(r"[^'\\\n\r\f]*+(?:\\(?:\r\n|[\s\S])[^'\\\n\r\f]*+)*+"),
}
_CSS_ESCAPE = re.compile(
    r"\\(?:([0-9a-f]{1,6})(?:\r\n|[ \t\n\r\f])?|\r\n|[\n\r\f]|(.))", re.IGNORECASE
)
_TITLE_SPACE = re.compile(r"[ \t\r\n]++")
_FIRST = r"[A-Za-z0-9_~%=&,+@!$*()-][A-Za-z0-9_~%=&,+@!$*().-]*+"
_SEGMENTS = r"(?:/[A-Za-z0-9_~%=&,+@!$*()-][A-Za-z0-9_~%=&,+@!$*().:-]*+)"
_HOST = r"https?://[a-z0-9.-]++(?::[0-9]++)?"
_EASY = re.compile(
    rf"(?:({_HOST})?{_SEGMENTS}++|({_FIRST}){_SEGMENTS}*+)/?"
    r"(?:\?[A-Za-z0-9_~%=&,+@!$*().:;/?-]++)?"
)
"""What joining does not change: no dots alone, nothing empty, no fragment."""
_EASY_BASE = re.compile(rf"({_HOST})({_SEGMENTS}*+/?)(?:[?#].*)?", re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*+")
_CANDIDATE = re.compile(r"\S*+")
_DESCRIPTORS = re.compile(r"[^,(]*+(?:\([^)]*+\)?[^,(]*+)*+")


def links_of_css(text: str) -> Iterator[str]:
    """What a style sheet imports and shows, as it is written there.

    Strings end where CSS says, at the end of the line at the latest.
    """
    at = 0
    while (found := _CSS.search(text, at)) is not None:
        is_import = text[found.start()] == "@"
        at = _end(_CSS_SPACE, text, found.end())
        begin = at
        if (quoted := _CSS_QUOTED.get(text[at : at + 1])) is not None:
            quote, begin = text[at], at + 1
            end = at = _end(quoted, text, begin)
            if text[end : end + 1] != quote:
                continue
            at += 1
        elif is_import:
            continue  # a url( may come
        else:
            end = at = _end(_CSS_PLAIN, text, begin)
            after = _end(_CSS_SPACE, text, end)
            if text[after : after + 1] not in (")", ""):
                continue
        yield _unescaped(text[begin:end])


def links_of_srcset(text: str) -> Iterator[str]:
    """The URLs of a ``srcset``, as HTML's rules split it."""
    at = _end(_BETWEEN, text, 0)
    while at < len(text):
        end = _end(_CANDIDATE, text, at)
        url = text[at:end]
        if url[-1] == ",":
            url = url.rstrip(",")
        else:
            end = _end(_DESCRIPTORS, text, end)
        yield url
        at = _end(_BETWEEN, text, end)


class Links:
    """Collects the links of one document at *url*, each once and without fragment.

    After *most* it counts those that come, and *longest* is that of a link; 0 is no
    limit of ours.
    """

    def __init__(self, url: str, *, most: int = 0, longest: int = 0) -> None:
        self.left_out: dict[str, int] = {}
        """How many links were not taken, by `LINKS` or `LENGTH`."""
        self.examples: dict[str, str] = {}
        """The first of each, cut at 200 characters."""
        self._set_base(url)
        self._most = most
        self._longest = longest or LONGEST
        self._raw: dict[str, None] = {}
        self._taken: set[str] = set()
        self._count = self._looked_at = 0

    def rebase(self, given: str) -> None:
        """Have links be relative to *given*, itself relative to the document."""
        if len(given) > LONGEST_BASE:
            return
        with contextlib.suppress(ValueError):
            self._set_base(urljoin(self._base, given.strip(_SPACES)))

    def _set_base(self, url: str) -> None:
        self._base = url
        easy = _EASY_BASE.fullmatch(url)
        self._root = easy[1] if easy else ""
        self._directory = easy[1] + easy[2][: easy[2].rfind("/") + 1] if easy else ""
        if easy and not easy[2]:
            self._directory += "/"

    def add(self, link: str) -> None:
        """Note *link* as it is written in the document."""
        self._raw[link] = None

    def add_all(self, links: Iterator[str]) -> None:
        """The same of several."""
        for link in links:
            self._raw[link] = None

    @property
    def waiting(self) -> int:
        """How many are noted, and not taken."""
        return len(self._raw)

    def taken(self) -> list[str]:
        """Those that are new since it was asked last, absolute, in order."""
        raw, self._raw = self._raw, {}
        if self._looked_at > REMEMBERED and self._is_full:
            if raw:
                self._leave_out(LINKS, next(iter(raw)), len(raw))
            return []
        self._looked_at += len(raw)
        new: list[str] = []
        for link in raw:
            text = link.strip(_SPACES)
            if not text or text[0] == "#" or _OTHER_SCHEME.match(text):
                continue
            if len(text) > self._longest:
                self._leave_out(LENGTH, text)
                continue
            url = self._absolute(text)
            if not url or url in self._taken:
                continue
            if len(url) > self._longest:
                self._leave_out(LENGTH, url)
            elif self._is_full:
                self._leave_out(LINKS, url)
            else:
                self._count += 1
                if len(self._taken) >= REMEMBERED:
                    self._taken.clear()
                self._taken.add(url)
                new.append(url)
        return new

    @property
    def _is_full(self) -> bool:
        return bool(self._most) and self._count >= self._most

    def _absolute(self, text: str) -> str:
        if (easy := _EASY.fullmatch(text)) is not None:
            if easy[1]:
                return text
            if self._root:
                return (self._directory if easy[2] else self._root) + text
        try:
            url = urldefrag(urljoin(self._base, text)).url
        except ValueError:
            return ""
        scheme, _, rest = url.partition(":")
        scheme = scheme.lower()
        if scheme not in ("http", "https") or not rest.startswith("//"):
            return ""
        return f"{scheme}:{rest}"

    def _leave_out(self, kind: str, url: str, count: int = 1) -> None:
        self.left_out[kind] = self.left_out.get(kind, 0) + count
        self.examples.setdefault(kind, url[:200])


class PageCut(ValueError):
    """The parser went no further than into a part of a page."""


def tree_of(text: str, *, huge: bool = False) -> tuple[Any, PageCut | None]:
    """The root of the HTML page *text*, ``None`` if it is empty, and where it ends.

    With *huge* libxml2's limits are wider, for a process that may be killed.

    Raises:
        MemoryError: There was not enough for all of it.
    """
    content = text.replace("\0", "").encode("utf-8", "replace")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=huge, remove_comments=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError:  # there is nothing in it
        root = None
    for error in parser.error_log.filter_from_fatals():
        if error.type == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError
        if error.type in ENDING:
            return root, PageCut(f"too much for libxml2: {error.message}"[:300])
    return root, None


def base_of(root: Any, links: Links) -> None:
    """Have *links* be relative to what the page *root* says they are."""
    base = root.find(".//base[@href]")
    if base is not None:
        links.rebase(base.get("href"))


def _links_of_page(root: Any, links: Links, *, embeds: bool) -> Iterator[list[str]]:
    """Add to *links* those of the page *root*, and take them now and then."""
    base_of(root, links)
    for element in root.iter(*ELEMENTS):
        tag = element.tag
        if not embeds or _is_embed(tag, element):
            for name in ATTRIBUTES.get(tag, ()):
                if (value := element.get(name)) is not None:
                    links.add(value)
        if tag in SETS and (value := element.get(SETS[tag])) is not None:
            links.add_all(links_of_srcset(value))
        if tag == "style":
            links.add_all(links_of_css("".join(element.itertext())))
        elif tag == "input" and element.get("type", "")[:9].lower() == "image":
            links.add(element.get("src", ""))
        if links.waiting >= MANY:
            yield from _in_lists(links.taken())
    for style in STYLED(root):
        links.add_all(links_of_css(style))
    yield from _in_lists(links.taken())


def _is_embed(tag: str, attributes: Any) -> bool:
    """Whether the URLs of an element are part of what the page shows."""
    if tag == "link":
        rels = attributes.get("rel", "")[:LONGEST].lower().split()
        return not EMBEDDED_RELS.isdisjoint(rels)
    return tag not in NAVIGATION


def read_links(
    text: str,
    url: str,
    *,
    is_html: bool,
    most: int = 0,
    longest: int = 0,
    embeds: bool = False,
    huge: bool = False,
) -> Iterator[list[str] | dict[str, Any]]:
    """Lists of the links in *text*, a document at *url*; at its end, a summary.

    With *embeds* only of what the page needs to be shown. The summary has its
    ``title``, how many links were ``left_out``, and ``examples``, of what was read.
    *huge* is for a process that may be killed.

    Raises:
        MemoryError: There was not enough for all of it.
        PageCut: There were more, behind what the parser stopped at.
    """
    links = Links(url, most=most, longest=longest)
    title, cut = None, None
    if is_html:
        title = ""
        root, cut = tree_of(text, huge=huge)
        if root is not None:
            first = root.find(".//title")
            if first is not None:
                title = _TITLE_SPACE.sub(" ", "".join(first.itertext()))
                title = title.strip(" ")[:TITLE]
            yield from _links_of_page(root, links, embeds=embeds)
    else:
        links.add_all(links_of_css(text))
        yield from _in_lists(links.taken())
    yield {"title": title, "left_out": links.left_out, "examples": links.examples}
    if cut is not None:
        raise cut


def links_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """`read_links` in a worker: *arguments* are its, and the content's encoding.

    Of a page of which the tree might not fit into the worker's memory the first part
    is read.

    Raises:
        MemoryError: There was not enough for all of it.
        PageCut: There were more links, behind what was read.
    """
    given = dict(arguments)
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = memory // TREE_FACTOR if memory > 0 else len(content)
    text = content[:most].decode(given.pop("encoding"), "replace")
    yield from read_links(text, **given, huge=True)
    if most < len(content):
        raise PageCut(f"only its first {most:,} bytes are read for links")


def _in_lists(links: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(links), MANY):
        yield links[at : at + MANY]


def _end(expression: re.Pattern[str], text: str, at: int) -> int:
    """Where a match of *expression*, which matches anything, ends."""
    found = expression.match(text, at)
    return found.end() if found else at


def _unescaped(text: str) -> str:
    return _CSS_ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    if escape[1]:
        number = int(escape[1], 16)
        return chr(number) if 0 < number < 0x110000 else "\ufffd"
    return escape[2] or ""
