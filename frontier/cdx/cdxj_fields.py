"""Notes on a capture in its line of an index, so that its record is not read.

A WACZ needs the title and the whole date of a page, and where the payload of a revisit
is. Records have these; if the index has them, too, a WACZ is made from indexes alone.
`frontier.warc.cdxj_sidecar` writes the notes, and `frontier.wacz.indexing` reads them.
If they are missing or odd, it reads the WARC file.
"""

from __future__ import annotations

import html
import re
import zlib
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, NamedTuple

from frontier.warc.reader import Head, http

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.warc.reader import Found

TITLE_LIMIT = 300
"""Longest title, in characters."""
TITLE_REACH = 1 << 17
"""Bytes of a body, as it was received, in which a title is looked for."""
HTML = ("text/html", "application/xhtml+xml")
URL_LIMIT = 1 << 14
"""Longest URL that is noted, in characters."""

_NEAR, _FAR = 1 << 12, 1 << 18
"""Bytes that are inflated of a body at first, and at most."""
# Letter by letter: to ignore case costs the search for "<" its speed. In two steps:
# in one, a page of nothing but "<title>" takes time with the square of its size.
_TITLE = re.compile(rb"<[Tt][Ii][Tt][Ll][Ee][^>]{0,200}>")
_TITLE_END = re.compile(rb"</[Tt][Ii][Tt][Ll][Ee]")
_INSIDE = 4_000
"""Most bytes between the two."""
_PLAIN = re.compile(rb"[\t\n\r -%'-*,-}]*")
"""The same in all charsets, but UTF-16: no entity, no shift of UTF-7 or HZ."""
_CHARSET = re.compile(rb"charset=[\"']?([A-Za-z0-9_-]{1,40})")
PRECISE = (
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]{1,9})?Z"
)
"""A WARC-Date (WARC 1.1, section 5.4) to the second or better; a pattern."""
_DATE = re.compile(PRECISE)
_URL = re.compile(r"[!#-\[\]-~]*")


class Notes(NamedTuple):
    """What is noted of one capture; what is empty was not."""

    date: str = ""
    """WARC-Date of a page, in full; of what is not a page it is not noted."""
    title: str = ""
    """Of a page; many have none."""
    original: str = ""
    """WARC-Refers-To-Target-URI of a revisit."""
    original_date: str = ""
    """WARC-Refers-To-Date of a revisit."""

    def encode(self) -> str:
        """The members of a JSON object, each after a comma; the last of a line."""
        text = ""
        if self.original:
            text = f', "refers-to": {_json(self.original)}'
            text += f', "refers-to-date": {_json(self.original_date)}'
        if self.date:
            text += f', "date": {_json(self.date)}, "title": {_json(self.title)}'
        return text


NONE = Notes()


def notes_of(found: Found) -> Notes:
    """What is to be noted of a record that an index lists."""
    headers = found.headers
    refers = ("", "")
    if found.kind == "revisit":
        refers = (
            headers.get("warc-refers-to-target-uri").strip("<>"),
            headers.get("warc-refers-to-date"),
        )
    elif found.kind == "resource":
        title = title_of_resource(headers.get("content-type"), found.block)
        return make(headers.get("warc-date"), title)
    elif found.kind != "response":
        return NONE
    return make(headers.get("warc-date"), title_in(found.block), *refers)


def make(
    date: str, title: str | None, original: str = "", original_date: str = ""
) -> Notes:
    """The notes of a capture, which is a page unless *title* is ``None``.

    What cannot be noted unchanged is left out: the record has it.
    """
    known = len(original) <= URL_LIMIT and _URL.fullmatch(original)
    if not known or not _DATE.fullmatch(original_date):
        original = original_date = ""
    if title is None or not _DATE.fullmatch(date):
        date = title = ""
    return Notes(date, title, original, original_date)


def read(facts: Mapping[str, object], timestamp: str) -> Notes:
    """What an index notes of a capture at *timestamp*, 14 digits, in *facts*.

    If some are of another time, or not as `Notes.encode` writes them, there are none.
    """
    said = [
        facts.get(name) for name in ("date", "title", "refers-to", "refers-to-date")
    ]
    date, title, original, original_date = said
    if date is None:
        date = title = None
    elif not isinstance(date, str) or not isinstance(title, str):
        return NONE
    else:
        title = title.encode("utf-8", "replace").decode()[:TITLE_LIMIT]
        if digits(date) != timestamp or not _DATE.fullmatch(date):
            return NONE
    if original is None:
        return make(date or "", title)
    if not isinstance(original, str) or not isinstance(original_date, str):
        return NONE
    made = make(date or "", title, original, original_date)
    return made if made.original else NONE


def digits(date: str) -> str:
    """The first 14 digits of a date."""
    usual = date[:4] + date[5:7] + date[8:10] + date[11:13] + date[14:16] + date[17:19]
    if len(usual) == 14 and usual.isdecimal():
        return usual
    return "".join(filter(str.isdigit, date))[:14]


def title_in(block: bytes) -> str | None:
    """The title of the page whose HTTP response begins with *block*.

    ``None`` if the response is not a page: those are HTML with status 200.
    """
    status, headers, body = http(block)
    mime = headers.get("content-type").partition(";")[0].strip().lower()
    return title_of(headers, body) if status == "200" and mime in HTML else None


def title_of_resource(kind: str, block: bytes) -> str | None:
    """The title of the document *block* of type *kind*; ``None`` if it is not a page.

    What is stored without its response has no status, and is served with 200.
    """
    if kind.partition(";")[0].strip().lower() not in HTML:
        return None
    return title_of(Head(f"\r\ncontent-type: {kind}".encode()), block)


def title_of(headers: Head, body: bytes) -> str:
    """Return the title in the begin of an HTML body, or the empty string."""
    body = body[:TITLE_REACH]
    coding = headers.get("content-encoding").lower()
    if coding in {"", "identity"}:
        found = _inside(body)
    elif coding in {"gzip", "x-gzip", "deflate"}:
        inflate = zlib.decompressobj(47 if "gzip" in coding else 15)
        try:
            body = inflate.decompress(body, _NEAR)
            found = _inside(body)
            if found is None and len(body) == _NEAR:
                body += inflate.decompress(inflate.unconsumed_tail, _FAR - _NEAR)
                found = _inside(body)
        except zlib.error:
            return ""
    else:
        return ""
    if found is None:
        return ""
    if _PLAIN.fullmatch(found):
        return " ".join(found.decode("ascii").split())[:TITLE_LIMIT]
    sources = (headers.get("content-type").encode(), body[:4096])
    named = next(filter(None, map(_CHARSET.search, sources)), None)
    charset = named[1].decode() if named else "utf-8"
    try:
        text = found.decode(charset, "replace")
    except (LookupError, ValueError, Warning):  # Python knows strange ones: "idna"
        text = found.decode("utf-8", "replace")
    return " ".join(html.unescape(text).split())[:TITLE_LIMIT]


def _inside(body: bytes) -> bytes | None:
    """What the first title element of *body* holds, if it ends."""
    begin = _TITLE.search(body)
    if begin is None:
        return None
    end = _TITLE_END.search(body, begin.end(), begin.end() + _INSIDE + len("</title"))
    return body[begin.end() : end.start()] if end is not None else None
