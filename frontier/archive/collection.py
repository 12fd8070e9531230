"""A collection's digest index in Redis, laid out as Browsertrix does.

What always holds:

1.  A crawl sees its own digests and those of committed crawls, no others.
2.  The first capture of a digest stays its original: entries are never
    replaced.
3.  `commit` may be cut off anywhere and repeated; the end is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.archive.index import Entry, decode, encode
from frontier.store.client import Call
from frontier.store.keys import CollectionKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Original
    from frontier.store.client import BlockingStore

BATCH = 500
"""Digests per round trip of a commit."""


class Collection:
    """The index as one crawl sees it; see `frontier.archive.index.Index`."""

    def __init__(
        self, store: BlockingStore, name: str, crawl_id: str, *, revisits: bool
    ) -> None:
        self._store = store
        self._keys = CollectionKeys(name)
        self._crawl_id = crawl_id
        self._revisits = revisits

    def begin(self) -> None:
        """Register the crawl as uncommitted."""
        self._store.call(Call.command("SADD", self._keys.uncommitted(), self._crawl_id))

    def uncommitted(self) -> list[str]:
        """The ids of the other crawls that are not committed."""
        ids = self._store.call(Call.command("SMEMBERS", self._keys.uncommitted()))
        found = (crawl_id.decode("utf-8", "replace") for crawl_id in ids)
        return sorted(crawl_id for crawl_id in found if crawl_id != self._crawl_id)

    def lookup(self, digests: Sequence[str]) -> dict[str, Original]:
        """Return the originals of those of *digests* that are known.

        A committed crawl's capture is preferred; an entry of ``alldupes`` that
        leads nowhere falls back to the crawl's own.
        """
        if not digests or not self._revisits:
            return {}
        own_key = self._keys.crawl(self._crawl_id)
        owners, own = self._store.run(
            [
                Call.command("HMGET", self._keys.alldupes(), *digests),
                Call.command("HMGET", own_key, *digests),
            ]
        )
        found: dict[str, Original] = {}
        for digest, value in zip(digests, own, strict=True):
            self._note(found, digest, value, self._crawl_id)
        others = [
            (digest, owner.decode("utf-8", "replace"))
            for digest, owner in zip(digests, owners, strict=True)
            if owner is not None
        ]
        values = self._store.run(
            [Call.command("HGET", self._keys.crawl(c), d) for d, c in others]
        )
        for (digest, crawl_id), value in zip(others, values, strict=True):
            self._note(found, digest, value, crawl_id)
        return found

    def add(self, entries: Sequence[Entry]) -> None:
        """Add *entries*, whose records are on disk, as the crawl's own."""
        key = self._keys.crawl(self._crawl_id)
        self._store.run(
            [
                Call.command(
                    "HSETNX",
                    key,
                    entry.digest_hex,
                    encode(entry.date, entry.url, entry.length),
                )
                for entry in entries
            ]
        )

    def commit(self) -> int:
        """Offer the crawl's digests to all crawls; return how many it has."""
        key, count, cursor = self._keys.crawl(self._crawl_id), 0, 0
        while True:
            cursor, chunk = self._store.call(
                Call.command("HSCAN", key, cursor, "COUNT", BATCH)
            )
            self._store.run(
                [
                    Call.command(
                        "HSETNX", self._keys.alldupes(), digest, self._crawl_id
                    )
                    for digest in chunk
                ]
            )
            count += len(chunk)
            if not int(cursor):
                break
        # On a cluster the calls of one run have no order.
        committed, uncommitted = self._keys.committed(), self._keys.uncommitted()
        self._store.call(Call.command("SADD", committed, self._crawl_id))
        self._store.call(Call.command("SREM", uncommitted, self._crawl_id))
        return count

    def _note(
        self, found: dict[str, Original], digest: str, value: bytes | None, crawl: str
    ) -> None:
        if value is None:
            return
        decoded = decode(value.decode("utf-8", "replace"))
        if decoded is not None:
            found[digest] = decoded.original(crawl)
