"""The imported tier: what another scheduler had seen, known by its fingerprints.

Others' fingerprints are no hashes of ours, and do not tell the URL, nor therefore its
partition. So they are a tier of the whole crawl: sets of integers, `PER_BUCKET` in
each, spread over the slots of a cluster. A URL that its partition calls new is queued
as any other; when a node has reserved it, and before it is started, the tier is asked
whether it was seen under one of the fingerprints that its old scheduler may have made.
So a URL is asked for once, however many links lead to it.

What always holds:

1.  Nothing but an import writes the tier, and it only grows: who asks twice has the
    same answer, or learns that the URL was seen.
2.  How many buckets there are is decided when it is made, and never changes.
3.  What the store says of it is not trusted: numbers are checked, kinds are known.
4.  Once an import is through, each set has `GUARD`: one without it was lost. That there
    is a tier stands with the settings of the crawl, without which there is no crawl.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import InvalidURL
from frontier.store.client import Call
from frontier.urls.canon.rulesets import SCRAPY, named
from frontier.urls.fingerprint import canonical, seen_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from frontier.store.keys import CrawlKeys

PER_BUCKET = 200
"""Marks in a set, on average: Redis keeps up to 512 integers in 8 bytes each."""
MAX_BUCKETS = 50_000_000
MAX_ADDED = 500
"""Marks per call."""
GUARD = -1
"""A member of each set, and no mark: where it is not, the set was lost."""
FIELDS = ("imported_buckets", "imported_kinds", "imported_whole")
"""Of `CrawlKeys.meta`."""
SCRAPY_REDIS, SCRAPY_26, SCRAPY_27 = "scrapy-redis", "scrapy-2.6", "scrapy-2.7"
KINDS = (SCRAPY_REDIS, SCRAPY_26, SCRAPY_27)
"""Who makes fingerprints: scrapy-redis from 0.7.3 on; Scrapy up to 2.6, and
scrapy-redis before; Scrapy from 2.7 on."""


@dataclass(frozen=True, slots=True)
class ImportedTier:
    """What is known of the tier of a crawl."""

    buckets: int
    kinds: tuple[str, ...]
    """Who made the fingerprints that are in it, some of `KINDS`."""
    whole: bool = False
    """Whether an import is through, so that each set has `GUARD`."""

    @classmethod
    def of(cls, found: Sequence[bytes | None]) -> Self | None:
        """The tier that *found*, the values of `FIELDS`, describes; ``None`` if none.

        Raises:
            ValueError: It describes none.
        """
        if not any(found):
            return None
        text, names, whole = (each or b"" for each in found)
        if not (text.isdigit() and len(text) < 10 and 0 < int(text) <= MAX_BUCKETS):
            raise ValueError(f"its buckets are {text[:40]!r}")
        kinds = tuple(names[:200].decode("utf-8", "replace").split())
        if not kinds or not set(kinds) <= set(KINDS):
            raise ValueError(f"its kinds are {names[:40]!r}")
        return cls(int(text), kinds, bool(whole))

    @classmethod
    def planned(cls, marks: int, kinds: Iterable[str]) -> Self:
        """That of a crawl that is to take *marks* marks."""
        wanted = min(MAX_BUCKETS, max(1, -(-marks // PER_BUCKET)))
        return cls(wanted, tuple(kinds))

    def bucket(self, mark: int) -> int:
        """The number of the set that has *mark*, if any has."""
        return mark % self.buckets


def about_call(keys: CrawlKeys) -> Call:
    """The call whose reply `ImportedTier.of` reads."""
    return Call.command("HMGET", keys.meta(), *FIELDS)


def note_calls(keys: CrawlKeys, tier: ImportedTier) -> list[Call]:
    """The calls that make *tier* that of the crawl, unless it has one of its own."""
    buckets, kinds, _ = FIELDS
    return [
        Call.command("HSETNX", keys.meta(), buckets, tier.buckets),
        Call.command("HSET", keys.meta(), kinds, " ".join(tier.kinds)),
    ]


def guard_calls(keys: CrawlKeys, numbers: Iterable[int]) -> list[Call]:
    """The calls that have the sets *numbers* be known from sets that were lost."""
    return [Call.command("SADD", keys.imported_marks(n), GUARD) for n in numbers]


def whole_call(keys: CrawlKeys) -> Call:
    """The call that says that an import is through, when all sets have `GUARD`."""
    return Call.command("HSET", keys.meta(), FIELDS[2], "yes")


def forget_call(keys: CrawlKeys) -> Call:
    """The call that has the crawl have no tier; its sets stay."""
    return Call.command("HDEL", keys.meta(), *FIELDS)


def add_calls(
    keys: CrawlKeys, tier: ImportedTier, marks: Iterable[int]
) -> Iterator[Call]:
    """The calls that add *marks*; their replies are how many were not there."""
    found: dict[int, list[int]] = {}
    for mark in marks:
        found.setdefault(tier.bucket(mark), []).append(mark)
    for number, chosen in found.items():
        for first in range(0, len(chosen), MAX_ADDED):
            some = chosen[first : first + MAX_ADDED]
            yield Call.command("SADD", keys.imported_marks(number), *some)


def ask_calls(keys: CrawlKeys, tier: ImportedTier, marks: Sequence[int]) -> list[Call]:
    """The calls that ask for each of *marks* whether it is there, and `GUARD`."""
    return [
        Call.command("SMISMEMBER", keys.imported_marks(tier.bucket(mark)), mark, GUARD)
        for mark in marks
    ]


def mark_of(fingerprint: bytes) -> int | None:
    """The mark of another's *fingerprint*, SHA-1 in hexadecimal; ``None`` if not."""
    if len(fingerprint) != 40:
        return None
    try:
        return seen_hash(binascii.unhexlify(fingerprint))
    except ValueError:
        return None


def others_fingerprints(
    kinds: Iterable[str], url: str, method: str = "GET", body: bytes = b""
) -> list[bytes]:
    """What others would know a request by, in hexadecimal, one of each of *kinds*.

    None of a URL that Scrapy cannot make canonical, which they had not seen either.
    """
    plain = canonical(url)
    if plain is None:
        try:
            plain = named(SCRAPY).apply(url)
        except InvalidURL:
            return []
    return [_made(kind, plain, method, body) for kind in kinds]


def _made(kind: str, url: str, method: str, body: bytes) -> bytes:
    if kind == SCRAPY_26:
        data = method.encode() + url.encode() + body
    else:
        facts: dict[str, Any] = {"method": method, "url": url, "body": body.hex()}
        if kind == SCRAPY_27:
            facts["headers"] = {}
        data = json.dumps(facts, sort_keys=True).encode()
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()
