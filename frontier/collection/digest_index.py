"""A collection's digest index in Redis, laid out as Browsertrix does.

What always holds:

1.  A crawl sees its own digests and those of committed crawls, no others.
2.  The first capture of a digest stays its original: entries are never
    replaced.
3.  `commit` may be cut off anywhere and repeated; the end is the same.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from frontier.collection.commit import cancel, commit
from frontier.dedupe.committed_filter import Committed
from frontier.dedupe.digest_index import Entry, decode, encode
from frontier.errors import CommitBegun, CrawlCanceled, NotUncommitted
from frontier.store.client import Call
from frontier.store.keys import collection_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Original
    from frontier.store.client import BlockingStore


class Collection:
    """The index as one crawl sees it; see `frontier.dedupe.digest_index.Index`."""

    def __init__(
        self,
        store: BlockingStore,
        name: str,
        crawl_id: str,
        *,
        revisits: bool,
        filter_bytes: int = 0,
    ) -> None:
        self._store = store
        self._keys = collection_keys(store, name)
        self._crawl_id = crawl_id
        self._revisits = revisits
        self.committed: Committed | None = None
        """What is not looked up, because no committed crawl has it."""
        if revisits and filter_bytes:
            self.committed = Committed(store, self._keys, filter_bytes)
            self.committed.renew()

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
        owners, own = self._owners(digests)
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

    def _owners(
        self, digests: Sequence[str]
    ) -> tuple[list[bytes | None], list[bytes | None]]:
        """The committed crawls that have *digests*, and this crawl's own values."""
        own = Call.command("HMGET", self._keys.crawl(self._crawl_id), *digests)
        known = self.committed.now if self.committed is not None else None
        if self.committed is None or known is None:
            if self.committed is not None:
                self.committed.renew()
            owners, values = self._store.run([self._owners_of(digests), own])
            return owners, values
        suspects = [digest for digest in digests if digest in known]
        calls = [*self.committed.stamp_calls(), own]
        if suspects:
            calls.append(self._owners_of(suspects))
        *stamp, values = (replies := self._store.run(calls))[:4]
        found = dict(zip(suspects, replies[4] if suspects else [], strict=True))
        if self.committed.stamp(stamp) != known.stamp:
            self.committed.renew()
            rest = [digest for digest in digests if digest not in found]
            if rest:
                found |= zip(rest, self._store.call(self._owners_of(rest)), strict=True)
        return [found.get(digest) for digest in digests], values

    def _owners_of(self, digests: Sequence[str]) -> Call:
        return Call.command("HMGET", self._keys.alldupes(), *digests)

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

    def count(self, captures: int, revisits: int, conserved_bytes: int) -> None:
        """Add to the crawl's counts. To repeat it would count twice."""
        counts = {
            "totalUrls": captures,
            "dupeUrls": revisits,
            "conservedSize": conserved_bytes,
        }
        key = self._keys.counts(self._crawl_id)
        self._store.run(
            [
                Call.command("HINCRBY", key, name, value)
                for name, value in counts.items()
                if value
            ]
        )

    def commit(self) -> int | None:
        """Offer the crawl's digests to all crawls; return how many it has.

        ``None`` if it was canceled: nothing is left of it in the index then.
        """
        try:
            return commit(self._store, self._keys, self._crawl_id).digests
        except CrawlCanceled:
            self.cancel()
            return None

    def cancel(self) -> None:
        """Forget the crawl's digests, unless others may refer to them already."""
        with contextlib.suppress(NotUncommitted, CommitBegun):
            cancel(self._store, self._keys, self._crawl_id, running=False)

    def _note(
        self, found: dict[str, Original], digest: str, value: bytes | None, crawl: str
    ) -> None:
        if value is None:
            return
        decoded = decode(value.decode("utf-8", "replace"))
        if decoded is not None:
            found[digest] = decoded.original(crawl)
