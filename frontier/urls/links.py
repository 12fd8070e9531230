"""Links: what a page leads to, and what it needs to be shown.

What always holds:

1.  The work grows with the size of what is read and no faster, whatever it is made
    of. lxml's parser goes through the elements that are open at each end tag, so it
    is begun again, at the next tag, where more than `DEPTH` are open. No expression
    here is tried twice at a character, but from the start of a repetition that has
    no other way to match.
2.  Memory is that of one piece of the page, of its longest element, and of so many
    links as are asked for.
3.  What is not read is counted by kind, with an example.

It needs nothing of Scrapy's, so that a worker process starts soon.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
DEPTH = 512
"""Open elements above which the parser is begun again; what comes after is read as if
they were closed. Chromium's trees are no deeper (``kMaximumHTMLParserDOMTreeDepth``).
"""
STEP = 16_384
"""Characters that the parser is given at a time, so that it is not much deeper."""
PIECE = 131_072
"""Bytes of a page in a worker at a time. What ``<base>`` says counts from the piece
on that it is in."""
LONGEST = 65_536
"""Characters of a link, or of a ``<base>``, above which it is not looked at."""
LONGEST_BASE = 8_192
MANY = 2_000
"""Links that are handed on at a time."""
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


class Page:
    """Reads an HTML page, piece by piece, into *links*.

    `start`, `data`, `end` and `close` are what lxml's parser calls.
    """

    def __init__(self, links: Links, *, embeds: bool = False) -> None:
        self.title: str | None = None
        """The first ``<title>``, white space made one space."""
        self._links = links
        self._embeds_only = embeds
        self._has_base = False
        self._depth = 0
        self._text: list[str] | None = None
        self._in = ""
        self._parser = self._new()

    def read(self, text: str) -> None:
        """Read *text*, the next piece of the page."""
        at = 0
        while at < len(text):
            end = at + STEP
            if end < len(text):
                tag = text.rfind("<", at + 1, end)
                end = tag if tag > 0 else end
            if self._depth > DEPTH and text[at] == "<":
                self._look_for_an_end()
                self._parser = self._new()
                self._depth, self._text = 0, None
            piece = text[at:end].replace("\0", "")
            self._parser.feed(piece.encode("utf-8", "replace"))
            at = end

    def finish(self) -> None:
        """Note that the page has ended.

        Raises:
            MemoryError: There was not enough for all of it.
            ValueError: The parser went no further for another reason.
        """
        with contextlib.suppress(etree.XMLSyntaxError):  # there was nothing in it
            self._parser.close()
        self._look_for_an_end()

    def _look_for_an_end(self) -> None:
        """Raise if the parser has gone no further, which it tells in its log alone."""
        for error in self._parser.feed_error_log:
            if error.type == etree.ErrorTypes.ERR_NO_MEMORY:
                raise MemoryError
            if error.type in ENDING:
                raise ValueError(f"the parser has stopped: {error.message}"[:300])

    def _new(self) -> Any:
        return etree.HTMLParser(target=self, encoding="utf-8", huge_tree=True)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._depth += 1
        if attributes:
            self._look_at(tag, attributes)
        if tag == "style" or (tag == "title" and self.title is None):
            self._text, self._in = [], tag

    def data(self, text: str) -> None:
        """Text comes."""
        if self._text is not None:
            self._text.append(text)

    def end(self, tag: str) -> None:
        """An element ends, because of its end tag or of another's."""
        self._depth -= 1
        if self._text is not None and tag == self._in:
            text, self._text = "".join(self._text), None
            if tag == "title":
                self.title = _TITLE_SPACE.sub(" ", text).strip(" ")[:TITLE]
            else:
                self._add_all(links_of_css(text))

    def close(self) -> None:
        """The page ends."""

    def _look_at(self, tag: str, attributes: Mapping[str, str]) -> None:
        is_followed = not self._embeds_only or _is_embed(tag, attributes)
        for name in ATTRIBUTES.get(tag, ()):
            if name in attributes and is_followed:
                self._links.add(attributes[name])
        if SETS.get(tag) in attributes:
            self._add_all(links_of_srcset(attributes[SETS[tag]]))
        if "style" in attributes:
            self._add_all(links_of_css(attributes["style"]))
        if tag == "input" and attributes.get("type") == "image":
            self._links.add(attributes.get("src", ""))
        elif tag == "base" and not self._has_base and "href" in attributes:
            self._has_base = True
            self._links.rebase(attributes["href"])

    def _add_all(self, links: Iterator[str]) -> None:
        for link in links:
            self._links.add(link)


def _is_embed(tag: str, attributes: Mapping[str, str]) -> bool:
    """Whether the URLs of an element are part of what the page shows."""
    if tag == "link":
        rels = attributes.get("rel", "")[:LONGEST].lower().split()
        return not EMBEDDED_RELS.isdisjoint(rels)
    return tag not in NAVIGATION


def read_links(
    pieces: Iterable[str],
    url: str,
    *,
    is_html: bool,
    most: int = 0,
    longest: int = 0,
    embeds: bool = False,
) -> Iterator[list[str] | dict[str, Any]]:
    """Lists of the links in *pieces* of a document at *url*; at its end, a summary.

    With *embeds* only of what the page needs to be shown. The summary has its
    ``title``, how many links were ``left_out``, and ``examples``.

    Raises:
        MemoryError: There was not enough for all of it.
        ValueError: The parser went no further for another reason.
    """
    links = Links(url, most=most, longest=longest)
    page = Page(links, embeds=embeds) if is_html else None
    for piece in pieces:
        if page is not None:
            page.read(piece)
        else:
            for link in links_of_css(piece):
                links.add(link)
        yield from _in_lists(links.taken())
    if page is not None:
        page.finish()
        yield from _in_lists(links.taken())
    yield {
        "title": None if page is None else page.title or "",
        "left_out": links.left_out,
        "examples": links.examples,
    }


def links_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """`read_links` in a worker: *arguments* are its, and the content's encoding."""
    given = dict(arguments)
    decoder = codecs.getincrementaldecoder(given.pop("encoding"))("replace")
    return read_links(_decoded(content, decoder, given["is_html"]), **given)


def _decoded(content: bytes, decoder: Any, is_html: bool) -> Iterator[str]:
    step = PIECE if is_html else max(len(content), 1)  # a sheet has no seams
    for at in range(0, len(content), step):
        yield decoder.decode(content[at : at + step], at + step >= len(content))


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
