"""The imported filter: what another scheduler had seen, known by its fingerprints.

Others' fingerprints are no hashes of ours, and do not tell the URL, nor therefore its
partition. So they are one set of the whole crawl, as they were one of the other
scheduler's. A URL that its partition calls new is queued as any other; before its
request is sent, `frontier.downloadermiddlewares.ImportedFilterMiddleware` asks the set
whether it was seen under one of the fingerprints that others make. So a URL is asked
for once, however many links lead to it.

What always holds:

1.  Nothing but an import writes the set.
2.  It has `GUARD` before the crawl is said to have it. A set without it was lost, and
    ends the node that asks.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from typing import TYPE_CHECKING, Any

from frontier.errors import InvalidURL, KeyDamaged
from frontier.store.client import Call
from frontier.urls.canon.rulesets import SCRAPY, named
from frontier.urls.fingerprint import canonical, seen_hash

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from frontier.store.keys import CrawlKeys

MAX_ADDED = 500
"""Marks per call."""
GUARD = -1
"""A member of the set, and no mark."""
FIELD = "imported"
"""Of `CrawlKeys.meta`: there if the crawl has the set."""


def begin_calls(keys: CrawlKeys) -> list[Call]:
    """The calls that give the crawl a set, if it has none."""
    return [
        Call.command("SADD", keys.imported(), GUARD),
        Call.command("HSET", keys.meta(), FIELD, "yes"),
    ]


def about_call(keys: CrawlKeys) -> Call:
    """The call whose reply is not ``None`` if the crawl has a set."""
    return Call.command("HGET", keys.meta(), FIELD)


def add_calls(keys: CrawlKeys, marks: Sequence[int]) -> Iterator[Call]:
    """The calls that add *marks*; their replies are how many were not there."""
    for first in range(0, len(marks), MAX_ADDED):
        some = marks[first : first + MAX_ADDED]
        yield Call.command("SADD", keys.imported(), *some)


async def has_any(
    run: Callable[[list[Call]], Awaitable[list[Any]]],
    keys: CrawlKeys,
    marks: Iterable[int],
) -> bool:
    """Whether the set of the crawl has any of *marks*.

    Raises:
        KeyDamaged: It was lost.
    """
    call = Call.command("SMISMEMBER", keys.imported(), GUARD, *marks)
    ((guard, *found),) = await run([call])
    if not guard:
        reason = "is lost; repeat frontier migrate scrapy-redis before nodes go on"
        raise KeyDamaged(
            "", keys.imported(), f"the URLs seen before the crawl: the filter {reason}"
        )
    return any(found)


def mark_of(fingerprint: bytes) -> int | None:
    """The mark of another's *fingerprint*, SHA-1 in hexadecimal; ``None`` if not."""
    if len(fingerprint) != 40:
        return None
    try:
        return seen_hash(binascii.unhexlify(fingerprint))
    except ValueError:
        return None


def others_fingerprints(
    url: str, method: str = "GET", body: bytes = b""
) -> list[bytes]:
    """What others would know a request by, in hexadecimal.

    That of scrapy-redis from 0.7.3 on; that of Scrapy up to 2.6, and of scrapy-redis
    before; and that of Scrapy from 2.7 on. None of a URL that Scrapy cannot make
    canonical, which they had not seen either.
    """
    plain = canonical(url)
    if plain is None:
        try:
            plain = named(SCRAPY).apply(url)
        except InvalidURL:
            return []
    facts: dict[str, Any] = {"method": method, "url": plain, "body": body.hex()}
    made = (
        json.dumps(facts, sort_keys=True).encode(),
        method.encode() + plain.encode() + body,
        json.dumps({**facts, "headers": {}}, sort_keys=True).encode(),
    )
    digests = (hashlib.sha1(data, usedforsecurity=False) for data in made)
    return [digest.hexdigest().encode() for digest in digests]
