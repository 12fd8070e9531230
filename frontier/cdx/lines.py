"""CDXJ lines as cdxj-indexer and pywb write them.

``<SURT key> <14 digits> <JSON>``, sorted by bytes. Numbers in the JSON are strings, and
a revisit has the mime ``warc/revisit``. A line for a method other than GET names it.
Lines in the indexes beside our WARC files end with notes.

Only this module makes the key under which an index files a URL. pywb takes its keys
from a Python package that was modelled on webarchive-commons' rules and differs from
them: in how it parses a URL, in ``www`` before the host, which it removes once, and in
dots of host names. The differences are here, the rules in `frontier.urls.canon`.

**Methods.** ``cdxj-indexer -p``, pywb and wabac file the response to a request other
than GET under the URL with the method and the request's body as a query. So a replay
tool that gets the same form again finds its response, and a GET of the page does not::

    com,example)/form?__wb_method=post&a=1 20260102030405 {"url": ..., ...,
        "requestBody": "a=1", "method": "POST"}

For POST and PUT this matches cdxj-indexer 1.5, byte for byte (`tests/warc/
test_methods.py` compares the two). Other methods have no query; cdxj-indexer files
them as if they were GET; pywb and wabac file them by method, and so does this module:
the empty response to a HEAD is not the page.

**Notes** at the end of a line save reading the record. A WACZ needs the title and the
full date of a page, and where the payload of a revisit is. Records have these; if the
index has them, too, a WACZ is made from indexes alone. `frontier.warc.cdxj_sidecar`
writes the notes, and `frontier.wacz.indexing` reads them. If they are missing or odd,
it reads the WARC file.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from contextlib import suppress
from io import BytesIO
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus, unquote_to_bytes, urlencode

from multipart import MultipartParser

from frontier.errors import BadWarc, InvalidURL
from frontier.urls.canon.hosts import NO_PORT
from frontier.urls.canon.surt import (
    HandyURL,
    archive,
    escape_once,
    ip_of,
    key_of,
    normal_path,
    unescape_repeatedly,
)
from frontier.warc.reader import Found, Head, Source, http_head, unchunked
from frontier.warc.records import (
    digits,
    escaped,
    is_resource,
    resource_type,
    target_uri,
)
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from frontier.model import Body, Exchange, Stored
    from frontier.urls.canon.rulesets import RuleSet

QUERY_LIMIT = 4096
"""The most characters of a body's query that an index has."""
_UNSAID = 8192
"""Bytes that are taken of a body without a Content-Length."""
_WITH_BODY = frozenset({"POST", "PUT"})
_ANSWERS = frozenset({"response", "revisit", "resource"})


class Asked(NamedTuple):
    """How a resource was asked for, if not with GET."""

    method: str = ""
    """Upper case; empty for GET."""
    body: str | None = ""
    """The request's body as a query; ``None`` if its Content-Length is invalid."""

    def filed(self, url: str) -> str:
        """The URL that the response is filed under, not yet a key."""
        if not self.method:
            return url
        query = f"&{self.body}" if self.body else ""
        return f"{url}{'&' if '?' in url else '?'}__wb_method={self.method}{query}"


GET = Asked()


def asked(head: bytes, body: bytes) -> Asked:
    """How the request with *head* and *body* asked; an empty *head* counts as a GET."""
    method = head.split(b" ", 1)[0].decode("latin-1").upper()
    if method in {"", "GET"} or "/" in method:  # HTTP/1.1: an answer, by mistake
        return GET
    if method not in _WITH_BODY:
        return Asked(method)
    headers = Head(head)
    if "chunked" in headers.get("transfer-encoding").lower():
        with suppress(ValueError):
            body = b"".join(unchunked(Source("", [body])))
    said = headers.get("content-length", "")
    try:
        size = int(said) if said else _UNSAID
    except ValueError:
        return Asked(method, None)
    return Asked(method, _query(headers.get("content-type"), body[: max(size, 0)]))


def paired(records: Iterable[Found]) -> Iterator[tuple[Found, Asked]]:
    """Yield *records*, each response with how it was asked for.

    Request and response are adjacent, have the same URL, and one names the other in
    WARC-Concurrent-To. A response without a request counts as one to a GET.

    Raises:
        BadWarc: From *records*; all records before the error are yielded.
    """
    last: Found | None = None
    try:
        for found in records:
            if last is not None and _belong(last, found):
                is_first = last.kind == "request"
                request, answer = (last, found) if is_first else (found, last)
                head, gap, body = request.block.partition(b"\r\n\r\n")
                how = asked(head + gap, body)
                yield last, how if last is answer else GET
                yield found, how if found is answer else GET
                last = None
                continue
            if last is not None:
                yield last, GET
            last = found
    except BadWarc:
        if last is not None:
            yield last, GET
        raise
    if last is not None:
        yield last, GET


def _belong(one: Found, other: Found) -> bool:
    kinds = one.kind, other.kind
    if "request" not in kinds or _ANSWERS.isdisjoint(kinds):
        return False
    a, b = one.headers, other.headers
    named, names = "warc-record-id", "warc-concurrent-to"
    return a.get("warc-target-uri") == b.get("warc-target-uri") and (
        b.get(names) == a.get(named) or a.get(names) == b.get(named)
    )


def _query(mime: str, body: bytes) -> str:
    """The *body* of type *mime* as a query, at most `QUERY_LIMIT` characters."""
    if mime.startswith("application/x-www-form-urlencoded"):
        try:
            query = unquote_plus(body.decode("utf-8"))
        except UnicodeDecodeError:
            query = _binary(body)
    elif mime.startswith("multipart/"):
        query = _multipart(mime, body)
    elif mime.startswith("application/json"):
        query = _query_of_json(body) or ""
    elif mime.startswith("text/plain"):
        found = _query_of_json(body)
        query = _binary(body) if found is None else found
    else:
        query = _binary(body)
    return query[:QUERY_LIMIT]


def _binary(body: bytes) -> str:
    return "__wb_post_data=" + base64.b64encode(body[:QUERY_LIMIT]).decode("ascii")


def _multipart(mime: str, body: bytes) -> str:
    _, marked, boundary = mime.partition("boundary=")
    if not marked:
        return _binary(body)
    boundary = boundary.partition("boundary=")[0]
    try:
        parser = MultipartParser(BytesIO(body), boundary, charset="utf8")
        values = [
            (part.name, part.raw if part.filename else part.value) for part in parser
        ]
    except Exception:  # noqa: BLE001 - whatever is wrong with it, use its bytes
        return _binary(body)
    return urlencode(values, doseq=True)


def _query_of_json(body: bytes) -> str | None:
    """The values in *body*, which is JSON, or has JSON in each line; else ``None``."""
    values: dict[str, str] = {}
    again: dict[str, int] = {}

    def take(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                take(each, key)
        elif isinstance(value, list):
            for each in value:
                take(each, name)
        elif name:
            if name in values:
                again[name] = again.get(name, 1) + 1
                name = f"{name}.{again[name]}_"
            values[name] = str(value)

    try:
        try:
            take(json.loads(body))
        except json.JSONDecodeError:
            if b"\n" not in body:
                return None
            for line in body.split(b"\n"):
                take(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return urlencode(values, errors="replace")  # JSON may have half a character


TITLE_LIMIT = 300
"""The longest title, in characters."""
TITLE_REACH = 1 << 17
"""Bytes of a body, as received, in which a title is looked for."""
HTML = ("text/html", "application/xhtml+xml")
URL_LIMIT = 1 << 14
"""The longest URL that is noted, in characters."""

_NEAR, _FAR = 1 << 12, 1 << 18
"""Bytes of a body that are inflated at first, and at most."""
# Letter by letter: IGNORECASE would make the search for "<" slow. In two steps: in one,
# a page of nothing but "<title>" would take quadratic time.
_TITLE = re.compile(rb"<[Tt][Ii][Tt][Ll][Ee][^>]{0,200}>")
_TITLE_END = re.compile(rb"</[Tt][Ii][Tt][Ll][Ee]")
_INSIDE = 4_000
"""The most bytes between the two."""
_PLAIN = re.compile(rb"[\t\n\r -%'-*,-}]*")
"""Text that is the same in all charsets but UTF-16: no entity, no UTF-7 or HZ shift."""
_CHARSET = re.compile(rb"charset=[\"']?([A-Za-z0-9_-]{1,40})")
_PRECISE_DATE = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]{1,9})?Z"
)
"""A WARC-Date (WARC 1.1, section 5.4) to the second or better."""
_URL = re.compile(r"[!#-\[\]-~]*")


def title_of(headers: Head, body: bytes) -> str:
    """The title in the first part of a page's *body*, or the empty string."""
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
    except (LookupError, ValueError, Warning):  # Python has odd codecs, as "idna"
        text = found.decode("utf-8", "replace")
    return " ".join(html.unescape(text).split())[:TITLE_LIMIT]


def _inside(body: bytes) -> bytes | None:
    """The content of the first title element of *body*, if it ends."""
    begin = _TITLE.search(body)
    if begin is None:
        return None
    end = _TITLE_END.search(body, begin.end(), begin.end() + _INSIDE + len("</title"))
    return body[begin.end() : end.start()] if end is not None else None


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
"""URLs for which `key_of` gives pywb's key, unless ``www`` comes twice: most URLs."""
_LARGEST_PORT = 65535


def sort_key(url: str) -> str:
    """The SURT key of *url*: ``com,example)/path``, without whitespace.

    It is pywb's key. As in pywb, a URL that cannot be canonicalized is its own key.
    Only hosts that may be numbers differ: pywb asks the name server about them.
    """
    try:
        key = _key(url)
    except InvalidURL:
        key = url
    return _SPACES.sub("%20", key) or "-"


def key_under(rules: RuleSet, url: str) -> str:
    """The key of *url* in an index under *rules*: URLs that they merge share a key.

    It is the canonical form itself if *rules* make keys, else the form's SURT key,
    which is pywb's unless the rules do more than SURT does. For a URL that they refuse
    it is `sort_key`.
    """
    try:
        form = rules.apply(url)
    except InvalidURL:
        return sort_key(url)
    return _SPACES.sub("%20", form) or "-" if rules.makes_keys else sort_key(form)


META = b"!meta 0 "
"""The start of the line in which an index names its rules; it sorts first."""


def meta_line(rules: RuleSet) -> bytes:
    """The line in which an index says that *rules* made its keys."""
    return META + json.dumps({"canonicalization": rules.statement}).encode() + b"\n"


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
    archive(url, massages=False)
    port = "" if url.port == NO_PORT else f":{url.port}"
    before = f"{','.join(reversed(host.split('.')))}{port})" if host else f"{scheme}:"
    if url.query is None:
        return before + url.path
    return f"{before}{url.path or '/'}?{url.query}"


def _parsed(text: str) -> HandyURL:
    """*text* in parts, without user and fragment.

    Raises:
        InvalidURL: Its port is invalid, or it does not have the parts of a URL.
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
    if not host and path and scheme.startswith("http"):  # too many or too few slashes
        host, _, path = path.lstrip("/").partition("/")
        path = f"/{path}"
    return HandyURL(scheme, host, port, path, query or None)


def _place(text: str, authority: str) -> tuple[str, int]:
    """Host and port of *authority*, ignoring any user before them."""
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
    data = unquote_to_bytes(host.encode("utf-8", "surrogatepass"))
    if not data.isascii():
        with suppress(UnicodeError):  # then it stays as it is, escaped
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
"""The longest line that is read, in bytes."""

_NUMBER = re.compile(r"[0-9]{1,15}")
_DATE = re.compile(
    r"[0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9]|60)(?:[0-9]{3}(?:[0-9]{3})?)?"
)
MOMENT = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[Tt ]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-][0-2][0-9]:[0-5][0-9])"
)
"""RFC 3339, section 5.6: what a list of pages may have."""
_WARC_DATE = re.compile(
    r"[0-9]{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01])(?:[Tt ]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?"
    r"(?:[Zz]|[+-]00:00))?)?)?"
)
"""WARC 1.1, section 5.4: UTC, as precise as the tool knew it, from the year on."""
_COLUMNS = {
    6: "key timestamp url mime status digest",
    7: "key timestamp url mime status digest length",
    9: "key timestamp url mime status digest - offset filename",
    11: "key timestamp url mime status digest - - length offset filename",
}
"""The columns of a line of CDX, by their number."""


class Capture(NamedTuple):
    """A capture, as a record, an exchange or an index describes it."""

    url: str
    date: str
    """WARC-Date, or an index's digits of it."""
    kind: str = "response"
    """WARC-Type."""
    mime: str = ""
    """The server's type, or the record's; an index has none for a revisit."""
    status: str = ""
    """HTTP's; empty if there was no HTTP."""
    digest: str = ""
    """The payload digest, as it is spelled in the source."""
    length: int = 0
    """The size of the record in the file, in bytes."""
    offset: int = 0
    filename: str = ""
    title: str | None = None
    """The title of a page, which may be empty; ``None`` if it is not a page."""
    refers_to: str = ""
    """WARC-Refers-To-Target-URI of a revisit."""
    refers_date: str = ""
    """WARC-Refers-To-Date of a revisit."""
    asked: Asked = GET
    """How it was asked for."""
    key: str = ""
    """The key under which an index files it; empty for pywb's."""
    record_id: str = ""

    @property
    def timestamp(self) -> str:
        """Its date in 14 digits."""
        return digits(self.date)[:14]

    @property
    def surt(self) -> str:
        """Its own key if it has one, else pywb's."""
        return self.key or sort_key(self.asked.filed(self.url))

    def encode(self) -> bytes:
        """Its line, with the line feed; notes that would be changed are left out."""
        is_revisit = self.kind == "revisit"
        mime = media_type(self.mime) or "unk"
        text = f'"url": {_json(self.url)}, '
        text += f'"mime": {_json(REVISIT if is_revisit else mime)}'
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
        if _is_noted(self.refers_to, self.refers_date):
            text += f', "refers-to": {_json(self.refers_to)}'
            text += f', "refers-to-date": "{self.refers_date}"'
        if self.title is not None and _PRECISE_DATE.fullmatch(self.date):
            text += f', "date": "{self.date}", "title": {_json(self.title)}'
        return f"{self.surt} {self.timestamp} {{{text}}}\n".encode()


def media_type(mime: str) -> str:
    """*mime* without its parameters, before which some servers put no semicolon."""
    return (mime.partition(";")[0].split() or [""])[0]


def _is_noted(original: str, date: str) -> bool:
    """Whether a line may note what its revisit refers to, as its record does."""
    is_url = 0 < len(original) <= URL_LIMIT and _URL.fullmatch(original)
    return bool(is_url and _PRECISE_DATE.fullmatch(date))


def capture_of(found: Found, filename: str = "", asked: Asked = GET) -> Capture:
    """The capture in the record *found*, which was *asked* for that way."""
    get, kind = found.headers.get, found.kind
    mime, status, refers = get("content-type"), "", ("", "")
    head, start = Head(), 0
    if kind == "resource":
        head = _typed(mime)
    elif kind in INDEXED:
        status, head, start = http_head(found.block)
        if start or found.is_http:
            mime = head.get("content-type")
    if kind == "revisit":
        original = get("warc-refers-to-target-uri").strip("<>")
        refers = original, get("warc-refers-to-date")
    is_page = asked is GET  # the response to a form is none
    title = _title(kind, status, head, mime, found.block, start) if is_page else None
    return Capture(
        get("warc-target-uri").strip("<>"),
        get("warc-date"),
        kind,
        mime,
        status,
        get("warc-payload-digest"),
        found.length,
        found.offset,
        filename,
        title,
        *refers,
        asked,
        "",
        get("warc-record-id"),
    )


def listed(found: Found, filename: str, asked: Asked = GET) -> Capture | None:
    """`capture_of` the record *found*; ``None`` if its kind is not in an index.

    Raises:
        BadWarc: It has no URL, or its WARC-Date is not a date of UTC.
    """
    if found.kind not in INDEXED:
        return None
    capture = capture_of(found, filename, asked)
    if not capture.url:
        raise BadWarc(filename, found.offset, f"a {found.kind} without a URL")
    if not (_WARC_DATE.fullmatch(capture.date) or _DATE.fullmatch(capture.date)):
        reason = f"WARC-Date {capture.date[:40]!r} is not a date of UTC"
        raise BadWarc(filename, found.offset, reason)
    return capture


def captures_in(
    records: Iterable[Found],
    filename: str,
    unlisted: Callable[[BadWarc], object] | None = None,
) -> Iterator[Capture]:
    """The captures of *records* that an index lists, as they were asked for.

    *unlisted* is told of each record that no line can be made of; else that is raised.

    Raises:
        BadWarc: From *records*; or see `listed`, and there is no *unlisted*.
    """
    for found, how in paired(records):
        try:
            capture = listed(found, filename, how)
        except BadWarc as error:
            if unlisted is None:
                raise
            unlisted(error)
            continue
        if capture is not None:
            yield capture


def capture_from(exchange: Exchange, stored: Stored) -> Capture:
    """The capture of *exchange*, which was *stored*; the same as its record's."""
    how, original = GET, stored.original
    if exchange.made is None:
        how = asked(exchange.request_head, exchange.request_body)
    kind, top, body = "response", exchange.response_head, exchange.response_body
    mime, status, head = mime_of(top), str(exchange.status or ""), Head(top)
    if is_resource(exchange):
        kind, mime, status = "resource", resource_type(exchange), ""
        head = _typed(mime)
    elif original is not None:
        kind, body = "revisit", b""
    title = _title(kind, status, head, mime, body) if how is GET else None
    return Capture(
        target_uri(exchange.url),
        stored.date,
        kind,
        mime,
        status,
        stored.payload_digest,
        stored.length,
        stored.offset,
        stored.file,
        title,
        "" if original is None else escaped(original.url),
        "" if original is None else original.date,
        how,
    )


def _typed(mime: str) -> Head:
    """An HTTP head with nothing but the type *mime*."""
    return Head(f"\r\ncontent-type: {mime}".encode())


def _title(
    kind: str, status: str, head: Head, mime: str, block: Body, start: int = 0
) -> str | None:
    """The title of the page in *block* from *start* on; ``None`` if it is no page."""
    if kind != "resource" and status != "200":
        return None
    if media_type(mime).lower() not in HTML:
        return None
    return title_of(head, block[start : start + TITLE_REACH])


def read_line(raw: bytes) -> Capture | None:
    """The capture in a line of CDXJ, of CDX, or of a CDX server's JSON.

    CDX has 6, 7, 9 or 11 columns. ``None`` for a line about the index itself. Nothing
    in it is trusted.

    Raises:
        ValueError: It is in none of these forms.
    """
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if text.startswith("!"):  # of pywb, of ipwb, of a ZipNum cluster, and ours
        return None
    at = 0 if text.startswith("{") else text.find(" {") + 1  # a key may have one
    if at or text.startswith("{"):
        facts, key = _object(text[at:]), ""
        if words := text[:at].split():
            if len(words) != 2:
                raise ValueError("not '<key> <date> {...}'")
            key = words[0]
            facts["timestamp"] = words[1]
        return read_facts(facts, key)
    fields = text.split(" ")
    if fields[0] in {"", "CDX"} or fields[0].startswith("#"):
        return None  # its header
    return read_row(fields)


def read_row(row: object) -> Capture | None:
    """The capture in *row* of an answer: a line, a JSON object, or columns of CDX.

    Raises:
        ValueError: It is in none of these forms.
    """
    if isinstance(row, bytes):
        return read_line(row)
    if isinstance(row, dict):
        return read_facts(row)
    if not isinstance(row, list):
        raise ValueError("a row that is neither an array nor an object")  # noqa: TRY004
    names = _COLUMNS.get(min(len(row), 11))
    if names is None:
        raise ValueError("neither CDXJ nor CDX with 7, 9 or 11 columns")
    facts = dict(zip(names.split(), row, strict=False))
    return read_facts({k: v for k, v in facts.items() if v != "-"}, str(row[0]))


class NoCapture(ValueError):
    """Something has the form of a capture but cannot be one."""


def read_facts(facts: Mapping[str, Any], key: str = "") -> Capture:
    """The capture that *facts* describe, by the names of CDXJ or of a CDX server.

    Raises:
        NoCapture: They do not describe a capture.
    """

    def of(name: str, other: str = "") -> str:
        value = facts.get(name, facts.get(other))
        return "" if value is None else str(value)

    url, date = of("url", "original"), of("timestamp")
    if not url:
        raise NoCapture("it has no url")
    if not _DATE.fullmatch(date):
        raise NoCapture(f"{date[:20]!r} is not a date of 14 or 17 digits")
    mime, status = of("mime", "mimetype"), of("status", "statuscode")
    kind = "revisit" if mime == REVISIT else "response" if status else "resource"
    title, precise = facts.get("title"), of("date")
    is_same = digits(precise)[:14] == date[:14] and _PRECISE_DATE.fullmatch(precise)
    if isinstance(title, str) and is_same:
        date = precise
        title = title.encode("utf-8", "replace").decode()[:TITLE_LIMIT]
    else:
        title = None
    refers = of("refers-to"), of("refers-to-date")
    method, body = of("method").upper(), facts.get("requestBody", "")
    how = GET
    if method not in {"", "GET"}:
        how = Asked(method, body if isinstance(body, str) else None)
    return Capture(
        url,
        date,
        kind,
        "" if kind == "revisit" else mime,
        status,
        of("digest").strip("-"),
        _number("length", of("length")),
        _number("offset", of("offset")),
        of("filename"),
        title,
        *(refers if _is_noted(*refers) else ("", "")),
        how,
        key,
    )


def _number(name: str, value: str) -> int:
    if value in {"", "-"}:
        return 0
    if not _NUMBER.fullmatch(value):
        raise NoCapture(f"its {name} {value[:20]!r} is invalid")
    return int(value)


def _object(text: str) -> dict[str, Any]:
    """The JSON object in *text*.

    Raises:
        ValueError: It is not a JSON object.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("a line that is not a JSON object")  # noqa: TRY004
    return found


def parse(raw: bytes) -> Capture:
    """The capture in a line of CDXJ, which has to say where its record is.

    Raises:
        ValueError: It is not CDXJ, or has no file or length.
    """
    capture = read_line(raw)
    if capture is None or not (capture.key and capture.filename and capture.length):
        raise ValueError("a CDXJ line without url, length or offset")
    return capture
