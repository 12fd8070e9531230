"""The digest index by all keys of a match, and over further collections.

What always holds:

1.  An entry by URL counts only while its crawl is this one or a committed one;
    any other is as absent, and may be replaced. So nothing has to be done to the
    entries when a crawl is committed or canceled.
2.  Collections that are only read are never written to. The own collection's
    answer is preferred to theirs, and theirs in the order in which they are named.
3.  An original is *minted* only if a crawl of ours wrote it and its date is whole:
    then its record id can be computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from frontier.dedupe.digest_index import decode, encode
from frontier.dedupe.match_keys import URL_KEY
from frontier.store.client import Call
from frontier.store.keys import collection_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.dedupe.digest_index import Entry, Index
    from frontier.model import Original
    from frontier.store.client import BlockingStore


class Visibility:
    """Whose captures one crawl may refer to."""

    def __init__(self, store: BlockingStore, name: str, crawl_id: str) -> None:
        self._store = store
        self._keys = collection_keys(store, name)
        self._known = {crawl_id}

    def of(self, crawl_ids: Iterable[str]) -> set[str]:
        """Those of *crawl_ids* that are this crawl's or committed.

        A committed crawl stays so while another runs, so it is asked for once.
        """
        asked = list(dict.fromkeys(crawl_ids))
        new = [each for each in asked if each not in self._known]
        key = self._keys.committed()
        answers = self._store.run([Call.command("SISMEMBER", key, i) for i in new])
        self._known.update(i for i, yes in zip(new, answers, strict=True) if yes)
        return self._known.intersection(asked)


class Minters:
    """Which crawls of a collection had their records written by us."""

    def __init__(self, store: BlockingStore, name: str) -> None:
        self._store = store
        self._key = collection_keys(store, name).minted()
        self._known: dict[str, bool] = {}

    def begin(self, crawl_id: str) -> None:
        """Say it of *crawl_id*, before its first digest is in the index."""
        self._store.call(Call.command("SADD", self._key, crawl_id))

    def mark(self, found: dict[str, Original]) -> dict[str, Original]:
        """*found*, with the originals that we wrote marked as such.

        Asked once for each crawl: it was said before the crawl had any originals.
        """
        owners = {original.crawl_id for original in found.values()}
        new = sorted(owners - self._known.keys())
        calls = [Call.command("SISMEMBER", self._key, each) for each in new]
        for crawl_id, answer in zip(new, self._store.run(calls), strict=True):
            self._known[crawl_id] = bool(answer)
        return {
            key: replace(original, minted=True)
            if self._known[original.crawl_id] and "." in original.date
            else original
            for key, original in found.items()
        }


class MatchedIndex:
    """An `Index` that knows originals by digest, and by URL and digest.

    *index* answers for the digests of the own collection; *further* are indexes
    that are only read, each with its own `Minters`.
    """

    def __init__(
        self,
        store: BlockingStore,
        name: str,
        crawl_id: str,
        index: Index,
        further: Sequence[tuple[Index, Minters]] = (),
    ) -> None:
        self._store = store
        self._key = collection_keys(store, name).urls()
        self._crawl_id = crawl_id
        self._visibility = Visibility(store, name, crawl_id)
        self._minters = Minters(store, name)
        self._index = index
        self._further = further

    def begin(self) -> None:
        """Say that this crawl's records are ours."""
        self._minters.begin(self._crawl_id)

    def lookup(self, digests: Sequence[str]) -> dict[str, Original]:
        """Return the originals of those of *digests*, or URL keys, that are known."""
        by_url = [key for key in digests if key.startswith(URL_KEY)]
        plain = [key for key in digests if not key.startswith(URL_KEY)]
        found = self._minters.mark(self._index.lookup(plain) | self._by_url(by_url))
        for index, minters in self._further:
            missing = [key for key in plain if key not in found]
            if missing:
                found |= minters.mark(index.lookup(missing))
        return found

    def add(self, entries: Sequence[Entry]) -> None:
        """Add *entries*, whose records are on disk, under all their keys."""
        self._index.add(entries)
        by_key = {entry.url_key: entry for entry in entries if entry.url_key}
        taken = self._by_url(list(by_key))
        self._store.run(
            [
                Call.command("HSET", self._key, key, self._value(entry))
                for key, entry in by_key.items()
                if key not in taken
            ]
        )

    def _value(self, entry: Entry) -> str:
        value = encode(entry.date, entry.url, entry.length)
        return f"{self._crawl_id} {value.partition(' ')[2]}"

    def _by_url(self, keys: Sequence[str]) -> dict[str, Original]:
        if not keys:
            return {}
        values = self._store.call(Call.command("HMGET", self._key, *keys))
        read = {}
        for key, value in zip(keys, values, strict=True):
            owner, _, rest = (value or b"").decode("utf-8", "replace").partition(" ")
            decoded = decode(f"0 {rest}")
            if decoded is not None:
                read[key] = decoded.original(owner)
        seen = self._visibility.of(original.crawl_id for original in read.values())
        return {key: each for key, each in read.items() if each.crawl_id in seen}
