"""Take captures out of a collection's index, so that no crawl refers to them any more.

What always holds:

1.  Nothing is changed while a crawl runs or a source is imported: a revisit of what is
    to go may be under way.
2.  Other crawls' captures of the same payloads stay, and are found: a digest leads to
    the first of them by name, or to none.
3.  A run that was killed is run again, and ends the same: an entry goes last, after
    what leads to it.

Captures are found by what the entries say, so that all are looked at. The counts of a
crawl stay: they say what it has fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frontier.collection.purge import require_idle
from frontier.collection.summary import pairs
from frontier.dedupe.digest_index import decode
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

CHUNK = 1_000
"""Entries per round trip."""


@dataclass(frozen=True, slots=True)
class Captures:
    """Which captures: all of some URLs, and single ones."""

    urls: frozenset[str]
    single: frozenset[tuple[str, str]]
    """URL, and date to the second, as ``2026-01-02T03:04:05Z``."""

    def has(self, url: str, date: str) -> bool:
        """Whether the capture of *url* at the WARC-Date *date* is one."""
        return url in self.urls or (url, f"{date[:19]}Z") in self.single


def remove_captures(
    store: BlockingStore,
    keys: CollectionKeys,
    captures: Captures,
    *,
    dry: bool = False,
) -> int:
    """Take *captures* out of the index; return how many entries these were.

    With *dry* they are only counted.

    Raises:
        CollectionInUse: A crawl runs, or a source is imported.
        StoreUnavailable: Nothing is known about the effect; repeat it.
    """
    if not dry:
        require_idle(store, keys)
    members = store.call(Call.command("SMEMBERS", keys.committed()))
    crawls = sorted(member.decode("utf-8", "replace") for member in members)
    count = 0
    for crawl_id in crawls:
        for digest in _digests(store, keys.crawl(crawl_id), captures):
            count += 1
            if not dry:
                _lead_elsewhere(store, keys, crawl_id, digest, crawls)
                store.call(Call.command("HDEL", keys.crawl(crawl_id), digest))
    for key, is_one in ((keys.urls(), _by_url), (keys.history(), _last)):
        for found in _scan(store, key):
            gone = [field for field, value in found if is_one(value, captures)]
            count += len(gone)
            if gone and not dry:
                store.call(Call.command("HDEL", key, *gone))
    if count and not dry:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        store.call(Call.command("SET", keys.updated(), now.replace("+00:00", "Z")))
    return count


def _digests(store: BlockingStore, key: str, captures: Captures) -> Iterator[bytes]:
    for found in _scan(store, key):
        for digest, raw in found:
            value = decode(raw)
            if value is not None and captures.has(value.url, value.date):
                yield digest


def _lead_elsewhere(
    store: BlockingStore,
    keys: CollectionKeys,
    crawl_id: str,
    digest: bytes,
    crawls: list[str],
) -> None:
    """Have *digest* lead to another crawl that has it, if it leads to *crawl_id*."""
    owner = store.call(Call.command("HGET", keys.alldupes(), digest))
    if owner is None or owner.decode("utf-8", "replace") != crawl_id:
        return
    others = [each for each in crawls if each != crawl_id]
    there = store.run([Call.command("HEXISTS", keys.crawl(c), digest) for c in others])
    heir = next((c for c, known in zip(others, there, strict=True) if known), None)
    if heir is None:
        store.call(Call.command("HDEL", keys.alldupes(), digest))
    else:
        store.call(Call.command("HSET", keys.alldupes(), digest, heir))


def _by_url(value: bytes, captures: Captures) -> bool:
    """Whether *value*, of the index by URL, is one of *captures*."""
    rest = value.decode("utf-8", "replace").partition(" ")[2]
    known = decode(f"0 {rest}")
    return known is not None and captures.has(known.url, known.date)


def _last(value: bytes, captures: Captures) -> bool:
    """Whether *value*, a last capture of a URL, is of one of *captures*."""
    try:
        facts = json.loads(value)
        url, known = str(facts["url"]), decode(str(facts["original"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    is_one = known is not None and captures.has(known.url, known.date)
    return is_one or url in captures.urls


def _scan(store: BlockingStore, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
    cursor = b"0"
    while True:
        cursor, found = store.call(Call.command("HSCAN", key, cursor, "COUNT", CHUNK))
        yield pairs(found)
        if int(cursor) == 0:
            return
