"""CDXJ lines as cdxj-indexer and pywb write them.

``<SURT key> <14 digits> <JSON>``, in the order of their bytes. Numbers in the
JSON are strings, and a revisit has the mime ``warc/revisit``. The answer to another
request than a GET says which (`frontier.cdx.methods`). Lines that are beside our WARC
files have notes after all else, see `frontier.cdx.cdxj_fields`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.cdx import cdxj_fields as notes
from frontier.cdx.cdxj_fields import NONE, Notes
from frontier.cdx.keys import sort_key
from frontier.cdx.methods import GET, Asked
from frontier.errors import BadWarc
from frontier.warc.reader import http

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.warc.reader import Found

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
"""RFC 3339, section 5.6: what a list of pages may have, and a WARC-Date has to be."""


@dataclass(frozen=True, slots=True)
class Line:
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
        facts: dict[str, str | None] = {"url": self.url, "mime": self.mime}
        if self.status:
            facts["status"] = self.status
        if self.digest:
            facts["digest"] = self.digest
        facts |= {
            "length": str(self.length),
            "offset": str(self.offset),
            "filename": self.filename,
        }
        if self.asked.method:
            facts["requestBody"], facts["method"] = self.asked.body, self.asked.method
        text = json.dumps(facts).removesuffix("}") + self.notes.encode()
        return f"{self.key} {self.timestamp} {text}}}\n".encode()


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
    if not MOMENT.fullmatch(date):
        raise BadWarc(filename, found.offset, f"WARC-Date {date[:40]!r} is no date")
    status, mime = "", found.headers.get("content-type", "")
    if found.kind != "resource":
        status, headers, _ = http(found.block)
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
