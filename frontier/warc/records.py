"""WARC/1.1 records, as bytes.

An exchange becomes a ``response`` or ``revisit`` record and a ``request`` record,
in this order: pywb and cdxj-indexer join them only if the second names the first
in WARC-Concurrent-To. Heads and bodies go into the block byte for byte; only the
values of WARC headers are escaped, because they must stay on their line. Section
numbers are those of WARC 1.1 (ISO 28500:2017).
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote
from uuid import UUID

from frontier.dedupe.digest import digest_of_block, labelled
from frontier.warc.reader import Head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.model import Body, Exchange, Original, Outlinks, Stored

PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
CONFORMS_TO = (
    "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
)
_NAMESPACE = UUID("ef4bcf6a-c7c2-52a9-8cc6-b22fb1322f16").bytes
"""The UUID namespace of all record ids. Changing it breaks every WARC-Refers-To."""

RULES_URN = "urn:frontier:canonicalization"
"""WARC-Target-URI of the record of the canonicalization rules."""

FRAMING = "X-Frontier-Framing"
"""The header that says what about a response is not as its HTTP head says."""
MADE_BY = "X-Frontier-Made-By"
"""The header that says what made a document that no server sent."""
OCTETS = "application/octet-stream"
"""The Content-Type of a block whose type is not known."""
MAX_HEAD = 32_000
"""Most bytes of a WARC or HTTP head: at one over 32,768, FastWARC 2.0 stops reading."""
MAX_URL = 15_000
"""Most characters of a target URI: a record's headers may name two."""
_MAX_VALUE = 500
"""Most characters of a header's value that a server, or another tool, wrote."""

_SURROGATES = "surrogatepass"  # a URL that is not Unicode is escaped, not refused
_URI_SAFE = "".join(map(chr, range(0x21, 0x7F)))
_NO_PATH = re.compile(r"\A(https?://[^/?]+)(?=\?|\Z)", re.IGNORECASE)
_FIELD_NAME = re.compile(r"[^A-Za-z0-9_-]")
_CONTEXTS = {"L": "=NAVLINK_MISC", "M": "=MANIFEST_MISC"}
"""Heritrix's name for a link context that is not known, by hop letter."""
_NO_DIGIT = re.compile(r"[^0-9]")
_LESS_PRECISE = frozenset({4, 6, 8, 12})
_BEGINNING = "yyyy0101000000"
_LINE_BREAKS = str.maketrans({"\r": "\\r", "\n": "\\n"})


_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_ASKED_AGAIN = 256
"""Results of `target_uri` and of the functions for dates that are cached: writer,
index, log and listing ask for those of each exchange, and a batch has 64 exchanges."""
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The digit with the variant of a UUID, by the digit that the hash has there."""


class Record(NamedTuple):
    """One WARC record, ready to be compressed."""

    record_id: str
    """``<urn:uuid:...>``."""
    parts: tuple[Body, ...]
    """Joined, they are the record with the two CRLFs that end it."""


def record_id(url: str, date: str, digest_hex: str) -> str:
    """Return the id of the response captured from *url* at *date*.

    It follows from what the index knows about an original, so that a revisit
    can name the record it refers to. Two responses share an id only if they have
    the same URL, microsecond and payload.
    """
    return identify("response", escaped(url), date, digest_hex)


@lru_cache(_ASKED_AGAIN)
def target_uri(url: str) -> str:
    """Return *url* as records and indexes have it: escaped, without a fragment.

    A URL without a path gets the slash that its request has (RFC 9110, section
    4.2.3): pywb does not find a bare ``http://host``.

    A fragment is not sent to the server: two URLs that differ only in it are one
    resource (RFC 9110, section 4.2.5), and replay tools look it up without.
    Heritrix, warcprox and Browsertrix record none. The result does not change if
    it is passed in again.
    """
    url = url.partition("#")[0]
    host = _NO_PATH.match(url)
    return escaped(url if host is None else f"{host[1]}/{url[host.end() :]}")


def escaped(url: str) -> str:
    """Return *url* with all but printable ASCII percent-encoded.

    A URI in a header has no whitespace (section 5.14), and the fields of an
    index value end at a space. The URL of an original is only escaped: other
    tools, and this one before 0.6, have recorded fragments, and a revisit must name
    its original by the URL in the original's record.
    """
    if url.isascii() and url.isprintable() and " " not in url:
        return url
    return quote(url, _URI_SAFE, "utf-8", _SURROGATES)


def is_too_long(url: str) -> bool:
    """Whether *url* is too long to be the target of a record; see `MAX_URL`."""
    # A character takes up to twelve when escaped: a short URL need not be escaped here.
    return len(url) * 12 > MAX_URL and len(target_uri(url)) > MAX_URL


@lru_cache(_ASKED_AGAIN)
def warc_date(seconds: float) -> str:
    """Return *seconds* since the Unix epoch as a WARC-Date in microseconds.

    WARC 1.1 (section 5.4) allows one to nine digits of a fraction.
    """
    moment = _EPOCH + timedelta(microseconds=round(seconds * 1_000_000))
    return f"{moment.isoformat(timespec='microseconds')}Z"


def dated(date: str) -> str:
    """Return *date* as a WARC-Date, if it is the 14, 17 or 20 digits of one.

    It gets no more precise than it is: zeros that a source did not have would make the
    date differ from the original's.
    """
    d = date
    if len(d) not in {14, 17, 20} or not d.isdecimal():
        return date
    date = f"{d[:4]}-{d[4:6]}-{d[6:8]}T{d[8:10]}:{d[10:12]}:{d[12:14]}"
    return f"{date}.{d[14:]}Z" if d[14:] else f"{date}Z"


@lru_cache(_ASKED_AGAIN)
def digits(date: str) -> str:
    """Return the digits of a date: 14, or 17 or 20 if it is as precise as that.

    A date to the minute, the day, the month or the year stands for its beginning.
    """
    whole, _, fraction = date.rstrip("Z").partition(".")
    usual = whole[:4] + whole[5:7] + whole[8:10] + whole[11:13] + whole[14:16]
    usual += whole[17:19]
    if len(whole) != len("2026-01-02T03:04:05") or not usual.isdecimal():
        usual = _NO_DIGIT.sub("", whole)
        if not whole.isdecimal():
            usual = usual[:14]
        if len(usual) in _LESS_PRECISE:
            usual += _BEGINNING[len(usual) :]
    return usual + fraction if len(fraction) in {3, 6} else usual


def warcinfo(file_name: str, date: str, fields: Mapping[str, str]) -> Record:
    r"""Return the record that opens the file *file_name* (section 6.2).

    *fields* come after ``software``, ``format`` and ``conformsTo``, or in place
    of them. A line break in a value is written as ``\r`` or ``\n``.
    """
    lines = {
        "software": software(),
        "format": "WARC File Format 1.1",
        "conformsTo": CONFORMS_TO,
        **{_FIELD_NAME.sub("_", name): text for name, text in fields.items()},
    }
    block = "".join(
        f"{name}: {text.translate(_LINE_BREAKS)}\r\n" for name, text in lines.items()
    ).encode("utf-8", "backslashreplace")
    identifier = identify("warcinfo", file_name, date)
    headers = _fields(
        ("WARC-Date", date),
        ("WARC-Filename", file_name),
        ("Content-Type", "application/warc-fields"),
    )
    return _record("warcinfo", identifier, headers, block)


def rules(warcinfo_id: str, date: str, text: str) -> Record:
    """Return the record of the canonicalization rules in effect, JSON *text*.

    A metadata record (section 6.6) about the file's warcinfo record. Its target is
    a URN, which indexers skip. Of a metadata record without a target, cdxj-indexer
    1.5 and tools built on it make a line with the key ``-``, and fail on it.
    """
    identifier = identify("rules", warcinfo_id)
    headers = _fields(
        ("WARC-Date", date),
        ("WARC-Target-URI", RULES_URN),
        ("WARC-Refers-To", warcinfo_id),
        ("WARC-Warcinfo-ID", warcinfo_id),
        ("Content-Type", "application/json"),
    )
    return _record("metadata", identifier, headers, text.encode("utf-8"))


def capture(
    exchange: Exchange,
    digest_hex: str,
    warcinfo_id: str,
    crawl_id: str,
    original: Original | None = None,
    *,
    block_digest: bool = True,
    metadata: bool = False,
) -> tuple[Record, ...]:
    """Return the records of *exchange*, its response first, then its request.

    With *metadata*, one of how it came to be follows, if anything is known.

    An exchange without an HTTP head becomes a resource record (section 6.4) with the
    bytes that were received. So does a document that no server sent; it has no request
    record, since it is not known what was sent for it, if anything. The first record
    is a revisit of *original* if there is one. *digest_hex* is the body's digest, as
    the index spells it; for a 304 that we asked for, it is the original's, and the
    block is empty: a replay tool that finds the 304's head there serves the 304 (pywb
    2.10), and one that finds nothing serves the original. Without *block_digest* the
    records have none; it is optional (section 5.8), and takes as long as the payload's.

    A block whose HTTP head is longer than `MAX_HEAD` has the type `OCTETS`, so that
    readers that go by the type, as FastWARC does, do not stop at that record.

    Raises:
        ValueError: *original* is given and the payload is empty.
    """
    date = warc_date(exchange.started)
    url = target_uri(exchange.url)
    kind = "response" if original is None else "revisit"
    of = _http("response", exchange.response_head)
    if is_resource(exchange):
        kind, of = "resource", resource_type(exchange)
    identifier = identify(kind, url, date, digest_hex)
    common = _connection(exchange, date, url, warcinfo_id)
    further = _completeness(exchange, digest_hex, crawl_id, original)
    if exchange.framing:
        further.append((FRAMING, exchange.framing))
    if exchange.made is not None:
        further.append((MADE_BY, exchange.made.by))
    headers = (
        f"{common}WARC-Payload-Digest: {_one_line(labelled(digest_hex))}\r\n"
        f"{_fields(*further) if further else ''}Content-Type: {of}\r\n"
    )
    has_head = exchange.unmodified is None and exchange.made is None
    block: list[Body] = [exchange.response_head] if has_head else []
    block.append(exchange.response_body if original is None else b"")
    made = [_record(kind, identifier, headers, *block, digested=block_digest)]
    if exchange.made is None:
        of = _http("request", exchange.request_head)
        headers = f"{common}WARC-Concurrent-To: {identifier}\r\nContent-Type: {of}\r\n"
        asked = (exchange.request_head, exchange.request_body)
        request_id = identify("request", url, date, digest_hex)
        made.append(
            _record("request", request_id, headers, *asked, digested=block_digest)
        )
    if metadata and (lines := _provenance(exchange)):
        page = date, url, identifier, warcinfo_id
        of = identify("metadata", url, date, digest_hex)
        made.append(_metadata(of, lines, *page, digested=block_digest))
    return tuple(made)


def _connection(exchange: Exchange, date: str, url: str, warcinfo_id: str) -> str:
    """The headers that request and response share: when, what, from whom and how."""
    headers = f"WARC-Date: {date}\r\nWARC-Target-URI: {url}\r\n"
    if exchange.ip:
        headers += f"WARC-IP-Address: {_one_line(exchange.ip)}\r\n"
    for protocol in exchange.protocols:
        headers += f"WARC-Protocol: {_one_line(protocol)}\r\n"
    if exchange.cipher_suite:
        headers += f"WARC-Cipher-Suite: {_one_line(exchange.cipher_suite)}\r\n"
    return f"{headers}WARC-Warcinfo-ID: {warcinfo_id}\r\n"


def is_resource(exchange: Exchange) -> bool:
    """Whether *exchange* becomes a resource record."""
    if exchange.made is not None:
        return True
    return not (exchange.response_head or exchange.unmodified)


def resource_type(exchange: Exchange) -> str:
    """The Content-Type of *exchange*'s resource record.

    It is the document's, unless the body has a coding that was not undone: a
    resource record has no place to say so.
    """
    head = Head(exchange.response_head)
    coded = head.get("content-encoding").lower() not in {"", "identity"}
    value = "" if coded else _one_line(head.get("content-type"))
    return value if 0 < len(value) <= _MAX_VALUE else OCTETS


def _metadata(
    identifier: str,
    lines: list[str],
    date: str,
    url: str,
    page: str,
    warcinfo_id: str,
    *,
    digested: bool,
) -> Record:
    """The metadata record with *lines* about the record *page*."""
    headers = _fields(
        ("WARC-Date", date),
        ("WARC-Target-URI", url),
        ("WARC-Concurrent-To", page),
        ("WARC-Warcinfo-ID", warcinfo_id),
        ("Content-Type", "application/warc-fields"),
    )
    block = "".join(f"{line}\r\n" for line in lines).encode("ascii", "replace")
    return _record("metadata", identifier, headers, block, digested=digested)


def _provenance(exchange: Exchange) -> list[str]:
    """The lines of the metadata record of *exchange*; none if nothing is known.

    Type and fields are those of Heritrix 3's ``MetadataRecordBuilder``: ``seed``, or
    ``via``, ``hopsFromSeed`` and ``sourceTag``; then ``fetchTimeMs``. For a document
    that no server sent, the ``status`` that its maker gave, and the URL that was
    ``requested`` if it is not the document's, come before that. Indexers skip records
    of this type (pywb 2.10, cdxj-indexer 1.5).
    """
    lines = []
    found = exchange.found
    if found is not None and found.is_seed:
        lines.append("seed: ")
    elif found is not None:
        facts = {
            "via": escaped(found.via),
            "hopsFromSeed": found.hops or "",
            "sourceTag": escaped(found.seed),
        }
        lines += [f"{name}: {value}" for name, value in facts.items() if value]
    if exchange.made is not None:
        lines.append(f"status: {exchange.status}")
        if target_uri(exchange.made.requested) != target_uri(exchange.url):
            lines.append(f"requested: {escaped(exchange.made.requested)}")
    if exchange.fetch_ms >= 0:
        lines.append(f"fetchTimeMs: {exchange.fetch_ms}")
    return lines


def outlinks(
    found: Outlinks, page: Stored, warcinfo_id: str, *, block_digest: bool = True
) -> Record:
    """Return the record of the links of *page*, its second metadata record.

    Lines are those of Heritrix 3's ``MetadataRecordBuilder`` with
    ``writeMetadataOutlinks``: URL, hop letter, and the context of the link. A spider
    does not tell that, so it is what Heritrix's ``LinkContext`` has for none. Heritrix
    counts left-out links in its crawl log, as ``dol:N``; here ``outlinksLeftOut`` does.
    """
    lines = [
        f"outlink: {url} {letter} {_CONTEXTS.get(letter, _CONTEXTS['L'])}"
        for url, letter in dict.fromkeys(
            (target_uri(url), letter) for url, letter in found.links
        )
    ]
    if found.left_out:
        lines.append(f"outlinksLeftOut: {found.left_out}")
    about = page.date, page.url, page.record_id, warcinfo_id
    identifier = identify("outlinks", page.record_id)
    return _metadata(identifier, lines, *about, digested=block_digest)


@cache
def software() -> str:
    """Return this package's name, and its version where it is installed."""
    try:
        return f"frontier-crawl/{version('frontier-crawl')}"
    except PackageNotFoundError:
        return "frontier-crawl"


def _completeness(
    exchange: Exchange, digest_hex: str, crawl_id: str, original: Original | None
) -> list[tuple[str, str]]:
    """Return the headers that say what the block lacks, and where it is.

    A revisit that leaves the payload out shall say ``WARC-Truncated: length``
    (section 6.7.2). WARC-Refers-To is written for originals that we wrote: an id
    can be computed for any capture, but other tools choose theirs at random.
    """
    if original is None:
        reason = exchange.truncated
        return [("WARC-Truncated", reason)] if reason else []
    if exchange.unmodified is not None:
        headers = [("WARC-Profile", NOT_MODIFIED)]
    elif exchange.response_body:
        headers = [("WARC-Profile", PROFILE), ("WARC-Truncated", "length")]
    else:
        raise ValueError(f"an empty payload cannot be a revisit: {exchange.url}")
    headers += [
        ("WARC-Refers-To-Target-URI", escaped(original.url)),
        ("WARC-Refers-To-Date", original.date),
    ]
    if original.minted or original.crawl_id == crawl_id:
        refers_to = record_id(original.url, original.date, digest_hex)
        headers.append(("WARC-Refers-To", refers_to))
    if original.crawl_id != crawl_id:
        crawl = quote(original.crawl_id, safe="", errors=_SURROGATES)
        container = original.source or f"urn:crawl:{crawl}"
        if len(container) <= _MAX_VALUE:
            headers.append(("WARC-Refers-To-Container", container))
    return headers


def _http(kind: str, head: bytes) -> str:
    return OCTETS if len(head) > MAX_HEAD else f"application/http; msgtype={kind}"


def _fields(*named: tuple[str, str]) -> str:
    """The header lines of *named*, whose values may be anything."""
    return "".join([f"{name}: {_one_line(value)}\r\n" for name, value in named])


def _record(
    kind: str, identifier: str, headers: str, *block: Body, digested: bool = True
) -> Record:
    if digested:
        headers += f"WARC-Block-Digest: {digest_of_block(*block)}\r\n"
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {identifier}\r\n{headers}"
        f"Content-Length: {sum(map(len, block))}\r\n\r\n"
    )
    parts = (head.encode(), *(part for part in block if part), b"\r\n\r\n")
    return Record(identifier, parts)


def _one_line(value: str) -> str:
    return value if value.isprintable() else escaped(value)


def identify(*facts: str) -> str:
    """The id of a record, from *facts*: a record that is made again has the same id.

    A UUID of version 5 (RFC 9562, section 5.5), made without Python's UUID objects.
    """
    name = _NAMESPACE + " ".join(facts).encode("utf-8")
    x = hashlib.sha1(name, usedforsecurity=False).hexdigest()
    clock = f"{_VARIANT[x[16]]}{x[17:20]}"
    return f"<urn:uuid:{x[:8]}-{x[8:12]}-5{x[13:16]}-{clock}-{x[20:32]}>"
