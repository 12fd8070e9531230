"""The last captures of URLs, and the digest index by URL.

`History` has the last capture of a URL, so that the server can be asked whether it has
changed since. What always holds:

1.  An entry refers to an original that is on disk, and counts only while the
    original's crawl, or its round, is the reader's or is committed.
2.  Nothing in an entry is trusted: sizes are capped, validators are one printable
    line, and the file is a plain name.

`MatchedIndex` is the digest index by all keys of a match, and over further collections.
What always holds:

1.  An entry by URL counts only while its crawl is this one or is committed; any other
    counts as absent, and may be replaced. So a commit or a cancel need not touch the
    entries.
2.  Collections that are only read are never written to. The crawl's own collection
    comes first, then the others in the order in which they are named.
3.  An original is *minted* only if a crawl of ours wrote it and its date is full: then
    its record id can be computed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from frontier.dedupe.digest import spelled
from frontier.dedupe.digest_index import Entry, Index, decode, encode
from frontier.dedupe.revisit_policy import URL_KEY, url_key
from frontier.model import Exchange, Original, Stored, frozen
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import collection_keys, round_of
from frontier.warc.file_rotation import UNSAFE
from frontier.warc.reader import Head


class _OfCrawl:
    """What one crawl adds to a collection besides digests, and what it may refer to.

    A crawl that commits in rounds notes in each entry which round it belongs to, so
    that it counts as soon as that round is committed, and never if it was canceled.
    """

    def __init__(
        self,
        store: BlockingStore,
        name: str,
        crawl_id: str,
        round_id: Callable[[], str],
    ) -> None:
        """*round_id* gives the round that the crawl's entries belong to."""
        self._store = store
        self._keys = collection_keys(store, name)
        self._crawl_id = crawl_id
        self._round_id = round_id

    def _visible(self, ids: Iterable[str]) -> dict[str, bool]:
        """Those of *ids*, crawls or rounds, that are this crawl's or committed.

        The value says whether it is another crawl whose records we wrote.
        """
        asked = {each: round_of(each) for each in ids}
        others = sorted({crawl for crawl, _ in asked.values()} - {self._crawl_id})
        keys, last, is_ours = self._keys, {self._crawl_id: 0}, {self._crawl_id: False}
        calls = [
            call
            for crawl in others
            for call in (
                Call.command("SISMEMBER", keys.committed, crawl),
                Call.command("HGET", keys.commit_rounds(crawl), "committed"),
                Call.command("SISMEMBER", keys.minted, crawl),
            )
        ]
        replies = iter(self._store.run(calls)) if calls else iter(())
        for crawl, is_committed, number, minted in zip(
            others, replies, replies, replies, strict=True
        ):
            is_number = number is None or (number.isdigit() and len(number) < 16)
            if is_committed and is_number:
                last[crawl], is_ours[crawl] = int(number or 0), bool(minted)
        return {
            each: is_ours[crawl]
            for each, (crawl, number) in asked.items()
            if crawl == self._crawl_id
            or (crawl in last and _is_committed(number, last[crawl]))
        }


def _is_committed(number: int | None, last: int) -> bool:
    """Whether the round *number* of a crawl is committed; *last* is the last that is.

    Entries that a crawl added before it had rounds belong to its first one.
    """
    return (number or 1) <= last if last else number is None


class MatchedIndex(_OfCrawl):
    """An `Index` that knows originals by digest, and by URL and digest.

    *index* has the digests of the crawl's own collection; *further* are indexes that
    are only read.
    """

    def __init__(
        self,
        store: BlockingStore,
        name: str,
        crawl_id: str,
        index: Index,
        further: Sequence[Index],
        round_id: Callable[[], str],
    ) -> None:
        super().__init__(store, name, crawl_id, round_id)
        self._index = index
        self._further = further

    def begin(self) -> None:
        """Note that we write this crawl's records, before the index has any of them."""
        self._store.command("SADD", self._keys.minted, self._crawl_id)

    def lookup(self, digests: Sequence[str]) -> dict[str, Original]:
        """Return the known originals, by digest or URL key in *digests*."""
        by_url = [key for key in digests if key.startswith(URL_KEY)]
        plain = [key for key in digests if not key.startswith(URL_KEY)]
        found = self._index.lookup(plain) | self._by_url(by_url)
        for index in self._further:
            found |= index.lookup([key for key in plain if key not in found])
        return found

    def add(self, entries: Sequence[Entry]) -> None:
        """Add *entries*, whose records are on disk, under all their keys."""
        self._index.add(entries)
        by_key = {entry.url_key: entry for entry in entries if entry.url_key}
        taken = self._by_url(list(by_key))
        flat = [
            text
            for key, entry in by_key.items()
            if key not in taken
            for text in (key, self._value(entry))
        ]
        if flat:
            self._store.command("HSET", self._keys.urls, *flat)

    def _value(self, entry: Entry) -> str:
        value = encode(entry.date, entry.url, entry.length)
        return f"{self._round_id()} {value.partition(' ')[2]}"

    def _by_url(self, keys: Sequence[str]) -> dict[str, Original]:
        if not keys:
            return {}
        values = self._store.command("HMGET", self._keys.urls, *keys)
        read = {
            key: (value or b"").decode("utf-8", "replace").partition(" ")
            for key, value in zip(keys, values, strict=True)
        }
        seen = self._visible(owner for owner, _, rest in read.values() if rest)
        found = {
            key: decode(f"0 {rest}", round_of(owner)[0], minted=seen[owner])
            for key, (owner, _, rest) in read.items()
            if owner in seen
        }
        return {key: each for key, each in found.items() if each is not None}


_LIMIT = 16_384
"""The longest entry that is read, in bytes."""
_VALIDATOR = re.compile(r"[\x20-\x7e]{1,1000}")


@frozen
class LastCapture:
    """The last capture of a URL that had a validator, and its original."""

    url: str
    original: Original
    digest: str
    etag: str
    modified: str
    """The value of Last-Modified; this or the ETag may be empty, but not both."""
    file: str
    """The name of the WARC file with the original's record."""
    offset: int


class History(_OfCrawl):
    """The last captures of the URLs of a collection, as one crawl sees them."""

    def lookup(self, url: str) -> LastCapture | None:
        """The last capture of *url*, if the reader may refer to it.

        Raises:
            StoreUnavailable: Ask again later.
        """
        value = self._store.command("HGET", self._keys.history, url_key(url, ""))
        past = _read(value, url) if value and len(value) <= _LIMIT else None
        if past is None or not self._visible([past.original.crawl_id]):
            return None
        crawl_id = round_of(past.original.crawl_id)[0]
        return replace(past, original=replace(past.original, crawl_id=crawl_id))

    def add(self, captures: Sequence[LastCapture]) -> None:
        """Remember *captures*, in place of what was known about their URLs.

        Raises:
            StoreUnavailable: Its effect is not known; repeat it.
        """
        flat = [
            text
            for past in captures
            for text in (url_key(past.url, ""), self._value(past))
        ]
        self._store.command("HSET", self._keys.history, *flat)

    def _value(self, past: LastCapture) -> str:
        """*past* as it is stored: with the round if its original is this crawl's."""
        owner = past.original.crawl_id
        return _write(past, self._round_id() if owner == self._crawl_id else owner)


def last_capture_of(
    exchange: Exchange, digest: str, stored: Stored, original: Original
) -> LastCapture | None:
    """What to remember of *exchange*, which was stored as *original*.

    Of a revisit nothing is remembered: it is not known which file has its body.
    ``None`` if it has no validator, or is not a response to a GET.
    """
    if not exchange.request_head.startswith(b"GET "):
        return None
    head = Head(exchange.response_head)
    etag, modified = (
        value if _VALIDATOR.fullmatch(value := head.get(name)) else ""
        for name in ("etag", "last-modified")
    )
    if not (etag or modified):
        return None
    file, offset = stored.file, stored.offset
    return LastCapture(exchange.url, original, digest, etag, modified, file, offset)


def _write(past: LastCapture, owner: str) -> str:
    o = past.original
    facts = {each.name: getattr(past, each.name) for each in fields(past)}
    facts |= {"crawl": owner, "minted": o.minted}
    facts["original"] = encode(o.date, o.url, o.length)
    return json.dumps(facts, separators=(",", ":"))


def _read(value: bytes, url: str) -> LastCapture | None:
    try:
        facts: dict[str, Any] = json.loads(value)
        owner, minted = str(facts["crawl"]), facts["minted"] is True
        original = decode(str(facts["original"]), owner, minted=minted)
        digest = spelled(str(facts["digest"]))
        file, offset = str(facts["file"]), int(facts["offset"])
        etag, modified = str(facts["etag"]), str(facts["modified"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    safe = file.endswith(".warc.gz") and not UNSAFE.search(file)
    valid = all(not each or _VALIDATOR.fullmatch(each) for each in (etag, modified))
    if original is None or facts.get("url") != url or not (safe and valid):
        return None
    return LastCapture(url, original, digest, etag, modified, file, max(offset, 0))
