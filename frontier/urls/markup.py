"""XML as servers send it: feeds and sitemaps, well-formed or not.

libxml2 ends a document at an end tag too many, and loses the ``&b`` of a URL with a
bare ``&b=2``; expat ends at the first fault; feedparser's loose parser takes quadratic
time. So tags are read here, and every document is read in the same way.

What always holds:

1.  The work grows with the size of the document and no faster, whatever it is made of.
    Each character is looked at a fixed number of times; at most `DEPTH` elements are
    open, `PREFIXES` namespaces known and `ATTRIBUTES` attributes of an element read.
2.  A DOCTYPE declares nothing: one without a body is skipped, and one with a body, in
    which entities could stand, is refused. It is looked for after decoding, so that no
    encoding hides it. Nothing is ever loaded that a document names.
3.  A fault costs what stands beside it and no more: what can be read is, and the first
    fault is told.
"""

from __future__ import annotations

import codecs
import html
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.entities import html5
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEPTH = 256
"""Open elements; those below are skipped. libxml2 has the same limit."""
PREFIXES = 100
"""Declarations of namespaces that hold at one place."""
ATTRIBUTES = 100
"""Of one element; more are left out."""
LONGEST_VALUE = 65_536
"""Characters of an attribute's value; a longer one is left out."""
LONGEST_DATE = 100
XML = "http://www.w3.org/XML/1998/namespace"
TEXT_ENCODINGS = re.compile(
    r"utf-?(?:8|16|32)(?:-[bl]e|-sig)?|ascii|iso8859-\d\d?|cp\d{3,4}|koi8-[rut]|big5\w*"
    r"|gbk|gb18030|euc_\w{2}|shift_jis\w*|tis-620|hz|iso2022_\w+|johab|mac-\w+"
)
"""Names of Python's codecs that are used: of the others one takes quadratic time
(punycode), and some are no character sets (``unicode_escape``)."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins as the one of UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
"""How a document without a mark begins in them (XML 1.0, appendix F)."""
_EBCDIC = b"\x4c\x6f\xa7\x94"
"""``<?xm`` in the IBM code pages, which have letters at the same places."""
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)
_DECLARED = re.compile(
    rb"<\?xml[^>]{1,200}?encoding[ \t\r\n]{0,9}=[ \t\r\n]{0,9}[\"']([\w.:-]{1,40})"
)
_SPACE = " \t\r\n"
_NAME = re.compile(r"[^\W\d][\w.-]*+(?::[\w.-]++)?+")
_ATTRIBUTE = re.compile(
    r"([^\s<>=\"'/]++)(?:\s*+=\s*+(?:\"([^\"<]*+)\"|'([^'<]*+)'|([^\s<>\"']++)))?+"
)
_TAG_REST = re.compile(r"[^<>]*+")
_DOCTYPE_PLAIN = re.compile(r"[^>\[\"']*+")
_BETWEEN = re.compile(r"[^\w:<>]*+")
_REFERENCE = re.compile(
    r"&(?:#[xX]([0-9a-fA-F]{1,6});|#([0-9]{1,7});|([A-Za-z][A-Za-z0-9]{1,31});)?+"
)
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class NotXML(ValueError):
    """A document has no element, or a DOCTYPE with a body."""


class Start(NamedTuple):
    """An element begins; names are in lower case, as feeds of old spell them."""

    space: str
    """The namespace. Of a prefix that nobody declared, the prefix and a colon."""
    name: str
    attributes: Mapping[str, str]
    """By name; ``xml:`` and other prefixes as they are written."""


class End(NamedTuple):
    """The element that was begun last ends."""


END = End()
Event = Start | End | str
"""Text comes as ``str``, in pieces, without references."""


@dataclass(slots=True)
class Markup:
    """The events of *text*, and what is wrong with it."""

    text: str
    fault: str = ""
    """The first fault; empty while there is none."""
    is_cut: bool = False
    """Whether the text ended in an element; the ends that come then are not in it."""
    _stack: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Names of the open elements, as they are written, and namespaces by prefix."""
    _open: dict[str, int] = field(default_factory=dict)
    _too_deep: int = 0

    def events(self) -> Iterator[Event]:
        """The root and what is in it; each start has its end.

        Raises:
            NotXML: There is no element, or the DOCTYPE is refused.
        """
        at = self._root()
        while True:
            tag = self.text.find("<", at)
            if at < (end := tag if tag >= 0 else len(self.text)):
                yield self._plain(self.text[at:end])
            if tag < 0:
                break
            following = self.text[tag + 1 : tag + 2]
            if following == "/":
                at, count = self._end_tag(tag)
                for _ in range(count):
                    yield END
            elif following in ("!", "?"):
                at, text = self._aside(tag)
                if text:
                    yield text
            elif (name := _NAME.match(self.text, tag + 1)) is None:
                self._note("a < is not of a tag")
                at = tag + 1
                yield "<"
            else:
                start, empty, at = self._start_tag(name)
                if start is not None:
                    yield start
                    if empty:
                        self._pop()
                        yield END
            if not self._stack and not self._too_deep:
                break
        if self._stack:
            self._note(f"<{self._stack[-1][0][:50]}> is not closed")
            self.is_cut = True
        for _ in self._stack:
            yield END

    def _note(self, fault: str) -> None:
        self.fault = self.fault or fault

    def _root(self) -> int:
        """Where the first element begins."""
        at = 0
        while (at := self.text.find("<", at)) >= 0:
            if self.text.startswith("<!--", at) or self.text.startswith("<?", at):
                at = self._aside(at)[0]
            elif self.text[at : at + 9].lower() == "<!doctype":
                at = self._doctype(at + 9)
            elif _NAME.match(self.text, at + 1):
                return at
            else:
                at += 1
        raise NotXML("there is no element in it" if self.text.strip() else "is empty")

    def _doctype(self, at: int) -> int:
        """Where the one ends that has nothing in brackets."""
        while (at := _end(_DOCTYPE_PLAIN, self.text, at)) < len(self.text):
            character = self.text[at]
            if character == ">":
                return at + 1
            if character == "[":
                raise NotXML("has a DOCTYPE with a body, where entities could stand")
            at = self.text.find(character, at + 1) + 1
            if not at:
                break
        raise NotXML("has a DOCTYPE that does not end")

    def _aside(self, at: int) -> tuple[int, str]:
        """Where a comment, an instruction or a CDATA section ends, and its text."""
        for opening, closing in _ASIDES:
            if self.text.startswith(opening, at):
                if opening == "<!":
                    self._note("a declaration is not at the beginning")
                begin = at + len(opening)
                end = self.text.find(closing, begin)
                if end < 0:
                    self._note(f"a {opening} is not closed")
                    end = len(self.text)
                text = self.text[begin:end] if opening == "<![CDATA[" else ""
                return end + len(closing), _UNFIT.sub("", text)
        raise AssertionError(at)

    def _end_tag(self, at: int) -> tuple[int, int]:
        """Where the tag ends, and how many elements end with it."""
        name = _NAME.match(self.text, at + 2)
        after = _end(_TAG_REST, self.text, at + 2)
        if self.text[after : after + 1] == ">":
            after += 1
        else:
            self._note("an end tag is not closed")
        if self._too_deep:
            self._too_deep -= 1
            return after, 0
        if name is None or name[0] not in self._open:
            self._note(f"</{name[0][:50] if name else ''}> ends nothing")
            return after, 0
        count = 1
        while self._pop() != name[0]:
            count += 1
        if count > 1:
            self._note(f"</{name[0][:50]}> ends what others are open in")
        return after, count

    def _pop(self) -> str:
        name = self._stack.pop()[0]
        if (left := self._open[name] - 1) > 0:
            self._open[name] = left
        else:
            del self._open[name]
        return name

    def _start_tag(self, found: re.Match[str]) -> tuple[Start | None, bool, int]:
        """The element, whether it is empty, and where its tag ends."""
        if self.text[found.end() : found.end() + 1] == ">" and len(self._stack) < DEPTH:
            return self._begun(found[0], {}), False, found.end() + 1
        written: dict[str, str] = {}
        at = _end(_BETWEEN, self.text, found.end())
        while (attribute := _ATTRIBUTE.match(self.text, at)) is not None:
            values = attribute.group(2, 3, 4)
            value = next((one for one in values if one is not None), "")
            if values[0] is values[1] is None:
                self._note(f"the attribute {attribute[1][:50]!r} has no quotes")
            if len(written) < ATTRIBUTES and len(value) <= LONGEST_VALUE:
                written.setdefault(attribute[1], self._plain(value))
            else:
                self._note("an element has too many attributes, or too long ones")
            at = _end(_BETWEEN, self.text, attribute.end())
        empty = self.text[at - 1] == "/"
        if self.text[at : at + 1] == ">":
            at += 1
        else:
            self._note(f"the tag <{found[0][:50]}> is not closed")
        if len(self._stack) >= DEPTH:
            self._note(f"more than {DEPTH} elements are open")
            self._too_deep += not empty
            return None, empty, at
        return self._begun(found[0], written), empty, at

    def _begun(self, written: str, attributes: dict[str, str]) -> Start:
        spaces = self._stack[-1][1] if self._stack else {"xml": XML}
        declared = attributes and {
            name[6:]: value
            for name, value in attributes.items()
            if name == "xmlns" or name.startswith("xmlns:")
        }
        if declared:
            spaces = dict(list((spaces | declared).items())[:PREFIXES])
        self._stack.append((written, spaces))
        self._open[written] = self._open.get(written, 0) + 1
        prefix, colon, name = written.rpartition(":")
        space = spaces.get(prefix)
        if space is None:
            space = prefix + colon
            if prefix:
                self._note(f"the prefix {prefix[:50]!r} is not declared")
        if attributes:
            attributes = {key.lower(): value for key, value in attributes.items()}
        return Start(space, name.lower(), attributes)

    def _plain(self, text: str) -> str:
        if "&" in text:
            text = _REFERENCE.sub(self._referred, text)
        return text if text.isprintable() else _UNFIT.sub("", text)

    def _referred(self, found: re.Match[str]) -> str:
        if name := found[3]:
            if name in _PREDEFINED:
                return _PREDEFINED[name]
            self._note(f"the entity &{name}; is not declared")
            return html5.get(f"{name};", found[0])
        if found[1] or found[2]:
            return html.unescape(found[0])
        self._note("a & begins no reference")
        return "&"


def iso_date(text: str) -> datetime:
    """A date of ISO 8601, as of XML Schema or W3C's note, in UTC; without a zone it is.

    Raises:
        OverflowError: It is outside of the years 1 to 9999.
        ValueError: It is none.
    """
    date = datetime.fromisoformat(text[:LONGEST_DATE].strip())
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.replace(microsecond=0).astimezone(UTC)


_ASIDES = (
    ("<!--", "-->"),
    ("<![CDATA[", "]]>"),
    ("<?", "?>"),
    ("<!", ">"),
)


def _end(expression: re.Pattern[str], text: str, at: int) -> int:
    found = expression.match(text, at)
    return found.end() if found else at


def decoded(body: bytes, content_type: str | None = None) -> tuple[str, str]:
    """*body* as text, and what is wrong with that; empty if nothing is.

    The encoding is that of the byte order mark, of *content_type*, the declared one or
    UTF-8, in this order (RFC 7303, 3). If none fits, what does not fit is replaced.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return _fitting(body[len(mark) :], [encoding])
    for begin, encoding in _WIDE:
        if body.startswith(begin):
            return _fitting(body, [encoding])
    sent = _CHARSET.search((content_type or "")[:1000])
    head = body[:300].lstrip()
    if head.startswith(_EBCDIC):
        head = head.decode("cp037").encode("ascii", "replace")
    written = _DECLARED.match(head)
    names = [sent[1]] if sent else []
    names += [written[1].decode("ascii")] if written else []
    return _fitting(body, [*names, "utf-8"])


def _fitting(body: bytes, names: list[str]) -> tuple[str, str]:
    for name in names:
        try:
            known = codecs.lookup(name).name
            if TEXT_ENCODINGS.fullmatch(known):
                return body.decode("gb18030" if known == "gb2312" else known), ""
        except (LookupError, UnicodeError, ValueError):
            continue
    last = names[-1] if names != ["utf-8"] else "cp1252"
    return body.decode(last, "replace"), f"not all of it is text in {names[0]}"
