"""Links: what a page leads to, and what it needs to be shown.

What always holds:

1.  lxml makes a tree of a page. In the reactor's thread the tree is at most as deep as
    libxml2 allows, 256 elements, which bounds what `frontier.download.pages.INLINE`
    bytes can cost. Any other page is read in a worker process, whose limits of CPU time
    and memory stop a page that is made to exhaust them.
2.  No regular expression here tries a character twice, except from the start of a
    repetition that has no other way to match.
3.  Links that are left out are counted by kind, with an example.

It imports nothing of Scrapy, so that a worker process starts fast.
"""

from __future__ import annotations

import contextlib
import re
import resource
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urldefrag, urljoin

from lxml import etree

from frontier.urls.split import WEB

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
    "image": ("href", "xlink:href"),  # of an SVG, like the next
    "use": ("href", "xlink:href"),
}
"""Attributes that hold a URL, by element; so does ``src`` of ``<input type=image>``."""
ELEMENTS = (*ATTRIBUTES, "input", "style")
"""Elements that are searched for links."""
STYLED = etree.XPath("//*[@style]/@style", smart_strings=False)
NAVIGATION = frozenset({"a", "area"})
"""Elements that lead to other pages, and show nothing of them."""
EMBEDDED_RELS = frozenset(
    {
        *("apple-touch-icon", "apple-touch-icon-precomposed", "icon", "mask-icon"),
        *("manifest", "modulepreload", "preload", "shortcut", "stylesheet"),
    }
)
"""Values of ``rel`` of a ``<link>`` to something that a page needs to be shown."""
SETS = {"img": "srcset", "source": "srcset", "link": "imagesrcset"}
"""Attributes that hold several URLs, by element."""
LONGEST = 65_536
"""Characters above which a link is left out."""
LONGEST_BASE = 8_192
MANY = 2_000
"""Links that are yielded at a time."""
TREE_FACTOR = 50
"""A page of nothing but short links takes this many times its size in memory: its tree,
and the links that are remembered."""
TITLE = 2_000
"""Characters of a title that are kept."""
ENDING = (
    etree.ErrorTypes.ERR_INTERNAL_ERROR,
    etree.ErrorTypes.ERR_USER_STOP,
    etree.ErrorTypes.ERR_RESOURCE_LIMIT,
)
"""Errors of libxml2 after which it reads no more."""
LINKS, LENGTH = "links", "length"
"""Why links are left out: there are too many of them, or they are too long."""

_SPACES = " \t\n\r\f"
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
_CSS = re.compile(
    r"""(?:url\(|@import)[ \t\n\r\f]*+(?:"((?:[^"\\\n\r\f]|\\\r\n|\\.)*+)"|"""
    r"""'((?:[^'\\\n\r\f]|\\\r\n|\\.)*+)'|"""
    r"""((?:[^ \t\n\r\f()"'\\]|\\[^\n\r\f])++)[ \t\n\r\f]*+(?:\)|\Z))""",
    re.IGNORECASE | re.DOTALL,
)
"""A string ends at the end of the line at the latest."""
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
"""What joining does not change: no dot segments, no empty ones, no fragment."""
_EASY_BASE = re.compile(rf"({_HOST})({_SEGMENTS}*+/?)(?:[?#].*)?", re.DOTALL)
_CANDIDATE = re.compile(r"([^\s,]\S*+)(?:(?<!,)[^,(]*+(?:\([^)]*+\)?[^,(]*+)*+)?+")
"""A URL and its descriptors up to a comma, unless the URL itself ends with one."""


def links_of_css(text: str) -> Iterator[str]:
    """The URLs that a style sheet imports and shows, as they are written there."""
    for found in _CSS.finditer(text):
        link = found[found.lastindex or 0]
        yield _CSS_ESCAPE.sub(_character, link) if "\\" in link else link


def _character(escape: re.Match[str]) -> str:
    if escape[1]:
        number = int(escape[1], 16)
        return chr(number) if 0 < number < 0x110000 else "\ufffd"
    return escape[2] or ""


def links_of_srcset(text: str) -> Iterator[str]:
    """The URLs of a ``srcset``, as HTML's rules split it."""
    return (found[1].rstrip(",") for found in _CANDIDATE.finditer(text))


class _Links:
    """Makes links of a document absolute, each once, without fragment.

    They are relative to *base*. It takes at most *most* links of at most *longest*
    characters, and counts the others; with 0 there is no such limit, but for `LONGEST`.
    """

    def __init__(self, base: str, most: int, longest: int) -> None:
        self.left_out: dict[str, list[Any]] = {}
        """Why links were left out, `LINKS` or `LENGTH`: how many, and the first."""
        self._base = base
        self._most = most
        self._longest = longest or LONGEST
        root, directory = "", ""
        if (easy := _EASY_BASE.fullmatch(base)) is not None:
            root, directory = easy[1], easy[1] + easy[2].rpartition("/")[0] + "/"
        self._root, self._directory = root, directory

    def new(self, links: Iterable[str]) -> Iterator[str]:
        """Yield, in order, the URLs of those *links* that lead out of the document."""
        taken = set[str]()
        for link in links:
            text = link.strip(_SPACES)
            if not text or text[0] == "#" or _OTHER_SCHEME.match(text):
                continue
            url = self._absolute(text) if len(text) <= self._longest else text
            if not url or url in taken:
                continue
            if len(url) > self._longest:
                self._leave_out(LENGTH, url)
            elif self._most and len(taken) >= self._most:
                self._leave_out(LINKS, url)
            else:
                taken.add(url)
                yield url

    def _absolute(self, text: str) -> str:
        if (easy := _EASY.fullmatch(text)) is not None:
            if easy[1]:
                return text
            if self._root:
                return (self._directory if easy[2] else self._root) + text
        if "\\" in text:  # browsers take it for a slash
            path, mark, query = text.partition("?")
            text = path.replace("\\", "/") + mark + query
        try:
            url = urldefrag(urljoin(self._base, text)).url
        except ValueError:
            return ""
        scheme, _, rest = url.partition(":")
        scheme = scheme.lower()
        return f"{scheme}:{rest}" if scheme in WEB and rest.startswith("//") else ""

    def _leave_out(self, kind: str, url: str) -> None:
        self.left_out.setdefault(kind, [0, url[:200]])[0] += 1


class PageCut(ValueError):
    """The parser stopped before the end of a page."""


def tree_of(text: str, *, huge: bool) -> tuple[Any, PageCut | None]:
    """The root of the HTML page *text*, and why it is cut, if it is.

    With *huge* libxml2's limits are wider, for a process that may be killed.

    Raises:
        MemoryError: It does not fit into memory.
    """
    content = text.replace("\0", "").encode("utf-8", "replace")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=huge, remove_comments=True)
    root = None
    with contextlib.suppress(etree.XMLSyntaxError):  # it is empty
        root = etree.fromstring(content, parser)
    if root is None:
        root = etree.Element("html")
    for error in parser.error_log.filter_from_fatals():
        if error.type == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError
        if error.type in ENDING:
            return root, PageCut(f"too much for libxml2: {error.message}"[:300])
    return root, None


def _links_in(root: Any, *, embeds: bool) -> Iterator[str]:
    """The links of the page *root*, as they are written there."""
    for element in root.iter(*ELEMENTS):
        tag = element.tag
        if not (embeds and _leads_away(tag, element)):
            for name in ATTRIBUTES.get(tag, ()):
                yield element.get(name, "")
        if tag in SETS:
            yield from links_of_srcset(element.get(SETS[tag], ""))
        elif tag == "style":
            yield from links_of_css("".join(element.itertext()))
        elif tag == "input" and element.get("type", "")[:9].lower() == "image":
            yield element.get("src", "")
    for style in STYLED(root):
        yield from links_of_css(style)


def _leads_away(tag: str, element: Any) -> bool:
    """Whether the URLs of an element are of other pages, not of what it shows."""
    if tag == "link":
        rels = element.get("rel", "")[:LONGEST].lower().split()
        return EMBEDDED_RELS.isdisjoint(rels)
    return tag in NAVIGATION


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
    """Yield lists of the links in *text*, a document at *url*, and then a summary.

    With *embeds*, only links to what the page needs to be shown. The summary is of what
    was read: its ``title``, and by reason how many links were ``left_out``, with the
    first of them. *huge* is for a process that may be killed.

    Raises:
        MemoryError: The document does not fit into memory.
        PageCut: The parser stopped, and what follows may have more links.
    """
    title, base, cut, found = None, url, None, links_of_css(text)
    if is_html:
        root, cut = tree_of(text, huge=huge)
        first, given = root.find(".//title"), root.find(".//base[@href]")
        title = "" if first is None else "".join(first.itertext())
        title = _TITLE_SPACE.sub(" ", title).strip(" ")[:TITLE]
        if given is not None and len(given.get("href")) <= LONGEST_BASE:
            with contextlib.suppress(ValueError):
                base = urljoin(url, given.get("href").strip(_SPACES))
        found = _links_in(root, embeds=embeds)
    links = _Links(base, most, longest)
    new = links.new(found)
    while part := list(islice(new, MANY)):
        yield part
    yield {"title": title, "left_out": links.left_out}
    if cut is not None:
        raise cut


def links_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Run `read_links` in a worker, with its *arguments* and the content's encoding.

    If the tree of a page might not fit into the worker's memory, only the first part of
    the page is read.

    Raises:
        MemoryError: The document does not fit into memory.
        PageCut: Only a part was read, and the rest may have more links.
    """
    given = dict(arguments)
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = memory // TREE_FACTOR if memory > 0 else len(content)
    text = content[:most].decode(given.pop("encoding"), "replace")
    yield from read_links(text, **given, huge=True)
    if most < len(content):
        raise PageCut(f"only its first {most:,} bytes are read for links")
