"""The index of payload digests: its interface, and the layout of its values.

A digest leads to the first capture of its payload, the original. The value has
Browsertrix's layout, so that both tools can share one index::

    <WACZ index> <date, digits only> <URL without spaces> <record size>

The WACZ index is the place of the file in the crawl's list of files, and 0 while the
crawl runs. The date has 20 digits (microseconds) from a crawl, 17 (milliseconds) from
an older one or from Browsertrix, and 14 from an imported CDX.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from frontier.model import Original, frozen
from frontier.warc.records import MAX_URL, dated, digits, escaped

_DATE = re.compile(r"[0-9]{14}(?:[0-9]{3}){0,2}")
_NUMBER = re.compile(r"[0-9]{1,15}")
_VALUE_LIMIT = 65_536
"""The longest value that is decoded, in characters."""


@frozen
class Entry:
    """An original that is on disk, so that revisits may refer to it from now on."""

    digest_hex: str
    """The payload digest, in the spelling of `frontier.dedupe.digest.spelled`."""
    date: str
    """WARC-Date of the response record."""
    url: str
    length: int
    """Compressed length of the response record, in bytes."""
    url_key: str = ""
    """A second key to find it by; see `frontier.dedupe.revisit_policy`."""


class Index(Protocol):
    """Payload digests, shared by the nodes of a collection."""

    def lookup(self, digests: Sequence[str]) -> dict[str, Original]:
        """Return the known originals, by digest or other key in *digests*.

        Raises:
            StoreUnavailable: Ask again later.
        """

    def add(self, entries: Sequence[Entry]) -> None:
        """Add *entries*; a digest that is known keeps its original.

        Adding the same entries again changes nothing, because the caller repeats a call
        that may or may not have worked.

        Raises:
            StoreUnavailable: Its effect is not known; repeat it.
        """


def encode(date: str, url: str, length: int) -> str:
    """The value for an original of a running crawl; *date* is its WARC-Date."""
    return f"0 {digits(date)} {escaped(url)} {length}"


def decode(
    value: str | bytes, crawl_id: str = "", *, minted: bool = False
) -> Original | None:
    """The original in *value*, or ``None`` if *value* is not in the layout.

    *crawl_id* is the crawl whose key had it, and *minted* says whether we wrote that
    crawl's records: then the id of a record with a full date can be computed.

    Other tools write to the index too: a value that cannot be right is treated as
    absent, which only costs one more copy of a payload.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    fields = value.split(" ")
    if len(value) > _VALUE_LIMIT or len(fields) != 4:
        return None
    number, date, url, length = fields
    if not (_NUMBER.fullmatch(number) and _NUMBER.fullmatch(length)):
        return None
    if len(url) > MAX_URL:  # a revisit would have to name it
        return None
    if not url or url != escaped(url) or not is_date(date):
        return None
    whole = dated(date)
    return Original(url, whole, crawl_id, int(length), minted and "." in whole)


def is_date(date: str) -> bool:
    """Whether *date* is the digits of a real date, as values have them."""
    if not _DATE.fullmatch(date):
        return False
    try:
        datetime.fromisoformat(f"{date[:8]}T{date[8:14]}")
    except ValueError:
        return False
    return True
