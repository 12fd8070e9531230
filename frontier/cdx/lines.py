"""CDXJ lines as cdxj-indexer and pywb write them.

``<SURT key> <14 digits> <JSON>``, in the order of their bytes. Numbers in the
JSON are strings, and a revisit has the mime ``warc/revisit``. A line for another method
than GET names it (`frontier.cdx.methods`). Lines beside our WARC files end with notes
(`frontier.cdx.cdxj_fields`).

Only this module makes the key under which an index files a URL. pywb takes its keys
from a Python package that was made after webarchive-commons' rules and differs from
them: in how a URL is parsed, in ``www`` before the host, which it removes once, and in
dots of host names. The differences are here, the rules in `frontier.urls.canon`.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from frontier.cdx import cdxj_fields as notes
from frontier.cdx.cdxj_fields import NONE, Notes
from frontier.cdx.methods import GET, Asked
from frontier.errors import BadWarc, InvalidURL
from frontier.urls.canon.surt import (
    NO_PORT,
    NON_MASSAGING,
    HandyURL,
    archive,
    escape_once,
    ip_of,
    key_of,
    normal_path,
    unescape_repeatedly,
)
from frontier.warc.reader import http_head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.urls.canon.rulesets import RuleSet
    from frontier.warc.reader import Found


_SPACES = re.compile(r"\s+")
_AROUND = " \t\n\r\x0b\x0c"
_STRAY = str.maketrans("", "", "\n\r\t")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_DOUBLED = re.compile(r"(https?://)+")
_PARTS = re.compile(
    r"([^:]+):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL
)
_WWW = re.compile(r"www[0-9]*\.", re.ASCII)
_EASY = re.compile(r"https?://[a-z][a-z0-9-]*+(?:\.[a-z0-9-]++)*+/[!-\"$&->@-~]*")
"""What `key_of` files as pywb does, unless ``www`` comes twice: most URLs."""
_LARGEST_PORT = 65535


def sort_key(url: str) -> str:
    """Return the SURT key of *url*: ``com,example)/path``, without whitespace.

    It is pywb's. A URL that cannot be canonicalized is its own key, as there. Only
    hosts that may be numbers differ: pywb asks the name server about them.
    """
    try:
        key = _key(url)
    except InvalidURL:
        key = url
    return _SPACES.sub("%20", key) or "-"


def key_under(rules: RuleSet, url: str) -> str:
    """The key of *url* in an index under *rules*: what they merge has one key.

    The form itself where it is a key, else the SURT of the form, which is pywb's
    unless the rules do more than SURT does. Of a URL that they refuse, `sort_key`.
    """
    try:
        form = rules.apply(url)
    except InvalidURL:
        return sort_key(url)
    return _SPACES.sub("%20", form) or "-" if rules.makes_keys else sort_key(form)


def _key(text: str) -> str:
    if not text or text.startswith("filedesc"):
        return text
    if _EASY.fullmatch(text) and ".www" not in text:
        return key_of(text)
    url = _parsed(text)
    scheme, host = url.scheme, _host(url.host)
    path = unescape_repeatedly(url.path)
    url.path = _escaped(normal_path(path) if host else path)
    if url.query is not None:
        url.query = _escaped(unescape_repeatedly(url.query))
    archive(url, NON_MASSAGING)
    port = "" if url.port == NO_PORT else f":{url.port}"
    before = f"{','.join(reversed(host.split('.')))}{port})" if host else f"{scheme}:"
    if url.query is None:
        return before + url.path
    return f"{before}{url.path or '/'}?{url.query}"


def _parsed(text: str) -> HandyURL:
    """*text* in parts, without user and fragment.

    Raises:
        InvalidURL: Its port is invalid.
    """
    url = text.strip(_AROUND).translate(_STRAY)
    if not _SCHEME.match(url):
        url = f"http://{url}"
    url = _DOUBLED.sub(r"\1", url, count=1) if url.startswith("http") else url
    found = _PARTS.fullmatch(url)
    if found is None:
        raise InvalidURL(text, "it has no parts of a URL")
    scheme, authority, path, query = found.groups()
    host, port = _place(text, (authority or "").rstrip(":"))
    if not host and path and scheme.startswith("http"):  # too many slashes, or few
        host, _, path = path.lstrip("/").partition("/")
        path = f"/{path}"
    return HandyURL(scheme, host=host, port=port, path=path, query=query or None)


def _place(text: str, authority: str) -> tuple[str, int]:
    """Host and port of *authority*, whatever user is before it."""
    place = authority.rpartition("@")[2]
    before, bracket, rest = place.partition("[")
    if bracket and not before:
        host, _, rest = rest.partition("]")
        port = rest.partition(":")[2]
    else:
        host, _, port = place.partition(":")
    if not port:
        return host, NO_PORT
    if not (port.isascii() and port.isdigit()) or int(port) > _LARGEST_PORT:
        raise InvalidURL(text, "its port is not a number")
    return host, int(port) or NO_PORT


def _host(name: str) -> str:
    host = unescape_repeatedly(name)
    data = unquote_to_bytes(host)
    if not data.isascii():
        with suppress(UnicodeError):  # else it stays as it is, escaped
            host = data.decode("utf-8", "ignore").encode("idna").decode("ascii")
    host = host.replace("..", ".").strip(".")
    host = ip_of(host) or _escaped(host).lower()
    found = _WWW.match(host)
    return host[found.end() :] if found else host


def _escaped(text: str) -> str:
    return escape_once(text).replace("\x7f", "%7F")


REVISIT = "warc/revisit"
INDEXED = frozenset({"response", "revisit", "resource"})
"""Kinds of record that an index lists."""
LINE_LIMIT = 1 << 20
"""Longest line that is read, in bytes."""

_USUAL = 7
"""Members of a line without notes."""
_DIGITS = re.compile(r"[0-9]+")
_DATE = re.compile(r"[0-9]{14}")
MOMENT = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[Tt ]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-][0-2][0-9]:[0-5][0-9])"
)
DIGITS = re.compile(
    r"[0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9]|60)"
)
"""A date as indexes and ARC have it: some tools write it as WARC-Date, too."""
"""RFC 3339, section 5.6: what a list of pages may have, and a WARC-Date has to be."""


class Line(NamedTuple):
    """One capture, as an index lists it."""

    key: str
    timestamp: str
    url: str
    mime: str
    status: str
    digest: str
    length: int
    offset: int
    filename: str
    notes: Notes = NONE
    asked: Asked = GET

    def encode(self) -> bytes:
        """The line with its line feed."""
        text = f'"url": {_json(self.url)}, "mime": {_json(self.mime)}'
        if self.status:
            text += f', "status": {_json(self.status)}'
        if self.digest:
            text += f', "digest": {_json(self.digest)}'
        text += f', "length": "{self.length}", "offset": "{self.offset}"'
        text += f', "filename": {_json(self.filename)}'
        if self.asked.method:
            body = self.asked.body
            said = "null" if body is None else _json(body)
            text += f', "requestBody": {said}, "method": {_json(self.asked.method)}'
        return f"{self.key} {self.timestamp} {{{text}{self.notes.encode()}}}\n".encode()


def line_of(found: Found, filename: str, asked: Asked = GET) -> Line | None:
    """Return the line of a record; ``None`` if an index does not list it.

    *asked* is how the record's resource was asked for.

    Raises:
        BadWarc: Its WARC-Date is none: ``99999-01-01T00:00:00Z``, or the 13th month.
    """
    url = found.headers.get("warc-target-uri", "").strip("<>")
    date = found.headers.get("warc-date", "")
    timestamp = re.sub(r"[^0-9]", "", date)[:14]
    if found.kind not in INDEXED or not url or len(timestamp) != 14:
        return None
    if not (MOMENT.fullmatch(date) or DIGITS.fullmatch(date)):
        raise BadWarc(filename, found.offset, f"WARC-Date {date[:40]!r} is not a date")
    status, mime = "", found.headers.get("content-type", "")
    if found.kind != "resource":
        status, headers, _ = http_head(found.block)
        mime = headers.get("content-type", "")
    if found.kind == "revisit":
        mime = REVISIT
    return Line(
        sort_key(asked.filed(url)),
        timestamp,
        url,
        mime.partition(";")[0].strip() or "unk",
        status,
        found.headers.get("warc-payload-digest", ""),
        found.length,
        found.offset,
        filename,
        asked=asked,
    )


def parse(raw: bytes) -> Line:
    """Return what a line says.

    Raises:
        ValueError: It is not in the form above.
    """
    key, _, rest = raw.decode("utf-8").rstrip("\n").partition(" ")
    timestamp, _, text = rest.partition(" ")
    try:
        facts = json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not key or not _DATE.fullmatch(timestamp) or not isinstance(facts, dict):
        raise ValueError("not a CDXJ line")
    numbers = [str(facts.get(name, "")) for name in ("length", "offset")]
    words = [
        str(facts.get(n, "")) for n in ("url", "mime", "status", "digest", "filename")
    ]
    if not all(_DIGITS.fullmatch(n) and len(n) < 16 for n in numbers) or not words[0]:
        raise ValueError("a CDXJ line without url, length or offset")
    length, offset = map(int, numbers)
    url, mime, status, digest, filename = words
    noted = notes.read(facts, timestamp) if len(facts) > _USUAL else NONE
    return Line(
        key,
        timestamp,
        url,
        mime,
        status,
        digest,
        length,
        offset,
        filename,
        noted,
        asked_of(facts),
    )


def asked_of(facts: Mapping[str, object]) -> Asked:
    """How the resource of a line with *facts* was asked for."""
    method, body = facts.get("method", ""), facts.get("requestBody", "")
    if not isinstance(method, str) or method.upper() in {"", "GET"}:
        return GET
    return Asked(method.upper(), body if isinstance(body, str) else None)
