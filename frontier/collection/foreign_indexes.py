"""Lines of other tools' indexes, as captures. Nothing is trusted.

Lines that are not captures (comments, ``urn:`` records, fetches that failed) are
skipped. Lines that are wrong are counted, named and skipped.

The bytes that a revisit leaves out are known if its original is in the index. Those of
an original that is imported later are not counted: what is counted is "at least".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from frontier.cdx.lines import read_line
from frontier.dedupe.digest import spelled
from frontier.store.client import Call
from frontier.warc.records import MAX_URL, digits, target_uri

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


def cdx(line: bytes) -> Capture | None:
    """Return the capture of a line of CDXJ, or of CDX with 6, 7, 9 or 11 columns.

    The answer to another request than a GET is not one: nothing could refer to it, for
    replay tools do not find it under its URL.

    Raises:
        ValueError: The line is wrong.
    """
    found = read_line(line)
    if found is None or found.url.startswith("urn:") or found.asked.method:
        return None
    if not found.digest and found.key:  # of CDX, some captures have none
        if b" {" in line:
            raise ValueError("it has no digest")
        return None
    revisit = found.kind == "revisit"
    date = digits(found.date)
    return _capture(found.digest, date, found.url, found.length, revisit=revisit)


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
    return _capture(digest, date, url, int(size.strip("-") or 0), revisit=revisit)


def _capture(digest: str, date: str, url: str, size: int, *, revisit: bool) -> Capture:
    if not _DATE.fullmatch(date):
        raise ValueError(f"{date[:20]!r} is not a date of 14 or 17 digits")
    if not (url.isascii() and url.isprintable()) or " " in url:
        url = target_uri(url)
    if len(url) > MAX_URL:
        raise ValueError(f"its URL has more than {MAX_URL:,} characters")
    if size >= MAX_SIZE:
        raise ValueError(f"its length {size} cannot be right")
    return Capture(spelled(digest), date, url, size, revisit)
