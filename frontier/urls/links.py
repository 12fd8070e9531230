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


class Links:
    """Makes the links of one document at *url* absolute, each once, without fragment.

    It takes at most *most* links of at most *longest* characters, and counts the
    others; with 0 there is no such limit, but for `LONGEST`.
    """

    def __init__(self, url: str, *, most: int, longest: int) -> None:
        self.left_out: dict[str, int] = {}
        """How many links were left out, by reason: `LINKS` or `LENGTH`."""
        self.examples: dict[str, str] = {}
        """The first link of each, cut at 200 characters."""
        self._most = most
        self._longest = longest or LONGEST
        self._set_base(url)

    def rebase(self, given: str) -> None:
        """Resolve links against *given*, which is relative to the document itself."""
        if len(given) > LONGEST_BASE:
            return
        with contextlib.suppress(ValueError):
            self._set_base(urljoin(self._base, given.strip(_SPACES)))

    def _set_base(self, url: str) -> None:
        self._base = url
        easy = _EASY_BASE.fullmatch(url)
        self._root = easy[1] if easy else ""
        self._directory = easy[1] + (easy[2].rpartition("/")[0] + "/") if easy else ""

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
        if scheme not in ("http", "https") or not rest.startswith("//"):
            return ""
        return f"{scheme}:{rest}"

    def _leave_out(self, kind: str, url: str) -> None:
        self.left_out[kind] = self.left_out.get(kind, 0) + 1
        self.examples.setdefault(kind, url[:200])


class PageCut(ValueError):
    """The parser stopped before the end of a page."""


def tree_of(text: str, *, huge: bool) -> tuple[Any, PageCut | None]:
    """The root of the HTML page *text*, ``None`` if empty, and why it is cut, if it is.

    With *huge* libxml2's limits are wider, for a process that may be killed.

    Raises:
        MemoryError: It does not fit into memory.
    """
    content = text.replace("\0", "").encode("utf-8", "replace")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=huge, remove_comments=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError:  # it is empty
        root = None
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
        if not embeds or _is_embed(tag, element):
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
    """Yield lists of the links in *text*, a document at *url*, and then a summary.

    With *embeds*, only links to what the page needs to be shown. The summary is of what
    was read: its ``title``, how many links were ``left_out``, and ``examples`` of them.
    *huge* is for a process that may be killed.

    Raises:
        MemoryError: The document does not fit into memory.
        PageCut: The parser stopped, and what follows may have more links.
    """
    links = Links(url, most=most, longest=longest)
    title, root, cut = None, None, None
    found: Iterable[str] = ()
    if is_html:
        title = ""
        root, cut = tree_of(text, huge=huge)
    else:
        found = links_of_css(text)
    if root is not None:
        if (first := root.find(".//title")) is not None:
            title = _TITLE_SPACE.sub(" ", "".join(first.itertext())).strip(" ")[:TITLE]
        if (base := root.find(".//base[@href]")) is not None:
            links.rebase(base.get("href"))
        found = _links_in(root, embeds=embeds)
    new = links.new(found)
    while part := list(islice(new, MANY)):
        yield part
    yield {"title": title, "left_out": links.left_out, "examples": links.examples}
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
