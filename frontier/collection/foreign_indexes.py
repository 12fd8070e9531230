"""Lines of other tools' indexes, as captures. Nothing is trusted.

Lines that are not captures (comments, ``urn:`` records, fetches that failed) are
skipped. Lines that are wrong are counted, named and skipped.

The bytes that a revisit leaves out are known if its original is in the index. Those of
an original that is imported later are not counted: what is counted is "at least".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from frontier.cdx.lines import REVISIT
from frontier.dedupe import digest as digests
from frontier.store.client import Call
from frontier.warc.records import MAX_URL, target_uri

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys


def conserved(
    store: BlockingStore, keys: CollectionKeys, revisits: Sequence[Capture]
) -> tuple[int, int]:
    """Bytes that *revisits* leave out, and of how many of them that is not known.

    It is known of those whose original is in the index.
    """
    if not revisits:
        return 0, 0
    sizes = _sizes(store, keys, {revisit.digest for revisit in revisits})
    known = [each for each in revisits if sizes.get(each.digest)]
    left_out = sum(max(0, sizes[each.digest] - each.size) for each in known)
    return left_out, len(revisits) - len(known)


def _sizes(
    store: BlockingStore, keys: CollectionKeys, digests: Iterable[str]
) -> dict[str, int]:
    """The sizes of the committed originals of *digests*."""
    wanted = sorted(digests)
    owners = store.call(Call.command("HMGET", keys.alldupes(), *wanted))
    owned = [
        (digest, owner.decode("utf-8", "replace"))
        for digest, owner in zip(wanted, owners, strict=True)
        if owner is not None
    ]
    values = store.run([Call.command("HGET", keys.crawl(c), d) for d, c in owned])
    found = {}
    for (digest, _), value in zip(owned, values, strict=True):
        size = (value or b"").rpartition(b" ")[2]
        if size.isdigit() and 0 < len(size) < 16:
            found[digest] = int(size)
    return found


MAX_LINE = 1 << 20
"""Bytes of a line that is read; a URL of 64 kB fits in easily."""
MAX_SIZE = 10**12
"""Bytes of a record; a larger one is a lie. WARC files are some GB, and counts of
what is conserved are sums of these."""
_SIZE = re.compile(r"[0-9]{1,15}")
_SIZE_COLUMN = {7: 6, 9: 0, 11: 8}
"""By how many columns a line has; 0 for none."""
_DATE = re.compile(
    r"[0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9]|60)(?:[0-9]{3}(?:[0-9]{3})?)?"
)
_NOT_STORED = re.compile(r"(?:^|,)(?:warcRevisit:|Revisit:|duplicate(?![A-Za-z]))")
"""Notes of a crawl.log on revisits: Heritrix's own, and those of its DeDuplicator,
``Revisit:IdenticalPayloadDigest`` in 3.1 and ``duplicate``, alone or with a colon
and its origin, before."""
_UNWRITTEN = re.compile(r"(?:^|,)unwritten(?![A-Za-z])")
"""The note on what is in no WARC file at all."""
_decode = json.JSONDecoder().raw_decode
_USUAL = re.compile(r"(?:sha-?256:)?([0-9a-f]{64})|(?:sha-?1:)?([A-Z2-7]{32})")


class Capture(NamedTuple):
    """A capture, as a line of an index has it."""

    digest: str
    """As the index spells it; see `spelled`."""
    date: str
    """14, 17 or 20 digits."""
    url: str
    size: int
    """Compressed length of its record in bytes, if the line has it."""
    revisit: bool


def spelled(text: str) -> str:
    """Return a digest as the index spells it, without a label.

    SHA-1 is in base32 and upper case, all others are in hex and lower case:
    that is what Heritrix, pywb and Browsertrix write. Those that could be taken
    for another algorithm keep their label.

    Raises:
        ValueError: It is not a digest of an algorithm that is known.
    """
    if found := _USUAL.fullmatch(text):
        return found[1] or found[2]
    return digests.spelled(digests.parse(text))


def cdx(line: bytes) -> Capture | None:
    """Return the capture of a line of CDXJ, or of CDX with 7, 9 or 11 columns.

    The answer to another request than a GET is not one: nothing could refer to it, for
    replay tools do not find it under its URL.

    Raises:
        ValueError: The line is wrong.
    """
    at = line.find(b" {")
    if at < 0:
        return _columns(line)
    head = line[:at].split(b" ")
    if len(head) != 2:
        raise ValueError("not '<key> <date> {...}'")
    text = line[at + 1 :].decode("utf-8", "replace")
    found, end = _decode(text)
    if end != len(text) and not text[end:].isspace():
        raise ValueError("there is something behind its JSON")
    url, digest = found.get("url"), found.get("digest")
    if not isinstance(url, str) or not url:
        raise ValueError("it has no url")
    if url.startswith("urn:") or found.get("method", "GET") != "GET":
        return None
    if not isinstance(digest, str) or digest in {"", "-"}:
        raise ValueError("it has no digest")
    return _capture(
        digest,
        head[1].decode("ascii", "replace"),
        url,
        found.get("length"),
        revisit=found.get("mime") == REVISIT,
    )


def crawl_log(line: bytes) -> Capture | None:
    """Return the capture of a line of Heritrix's ``crawl.log``.

    Its size is that of the response, uncompressed: the log has no other.

    Raises:
        ValueError: The line is wrong.
    """
    # Of 12 columns, the last is free text that may have spaces.
    fields = line.decode("utf-8", "replace").split(None, 11)
    if len(fields) < 10:
        raise ValueError("a line of a crawl.log has at least 10 columns")
    status, size, url, digest = fields[1], fields[2], fields[3], fields[9]
    if not re.fullmatch(r"-?[0-9]{1,6}", status):
        raise ValueError(f"{status[:20]!r} is not a status")
    # Negative: Heritrix's own codes for what was not fetched. 1: a DNS look-up.
    if status.startswith("-") or len(status) < 3 or digest == "-":
        return None
    started = fields[8].partition("+")[0]
    date = started if _DATE.fullmatch(started) else re.sub(r"[-T:.Z]", "", fields[0])
    date = date[:14]  # Heritrix's WARC-Date has whole seconds, its log has more
    notes = fields[11] if len(fields) > 11 else ""
    if _UNWRITTEN.search(notes):
        return None
    revisit = _NOT_STORED.search(notes) is not None
    return _capture(digest, date, url, "0" if size == "-" else size, revisit=revisit)


def _columns(line: bytes) -> Capture | None:
    """A line of CDX: ``N b a m s k r V g``, or ``N b a m s k r M S V g``.

    Or ``N b a m s k S``, as the Wayback Machine's CDX server answers.
    """
    fields = line.decode("utf-8", "replace").split(" ")
    if fields[0] in {"", "CDX"} or fields[0].startswith(("#", "!")):
        return None  # its header, or a line of the index of a ZipNum cluster
    if len(fields) not in _SIZE_COLUMN:
        raise ValueError("neither CDXJ nor CDX with 7, 9 or 11 columns")
    if fields[2].startswith("urn:") or fields[5] == "-":
        return None
    column = _SIZE_COLUMN[len(fields)]
    size = fields[column] if column else "0"
    mime = fields[3]
    return _capture(fields[5], fields[1], fields[2], size, revisit=mime == REVISIT)


def _capture(
    digest: str, date: str, url: str, size: object, *, revisit: bool
) -> Capture:
    if not _DATE.fullmatch(date):
        raise ValueError(f"{date[:20]!r} is not a date of 14 or 17 digits")
    if not (url.isascii() and url.isprintable()) or " " in url:
        url = target_uri(url)
    if len(url) > MAX_URL:
        raise ValueError(f"its URL has more than {MAX_URL:,} characters")
    return Capture(spelled(digest), date, url, _size(size), revisit)


def _size(value: object) -> int:
    if isinstance(value, str) and _SIZE.fullmatch(value):
        value = int(value)
    if value is None or value == "-":
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_SIZE:
        return value
    raise ValueError(f"its length {str(value)[:20]!r} cannot be right")
