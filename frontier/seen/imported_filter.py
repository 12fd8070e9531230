"""The imported filter: what another scheduler had seen, known by its fingerprints.

Others' fingerprints are not our hashes, and do not tell the URL, nor therefore its
partition. So they are in one set for the whole crawl, as in the other scheduler. A URL
that its partition calls new is queued like any other; before its request is sent,
`frontier.downloadermiddlewares.ImportedFilterMiddleware` asks the set whether it was
seen under one of the fingerprints that others make. So each URL is looked up once,
however many links lead to it.

What always holds:

1.  Only an import writes the set.
2.  The set has `GUARD` before the crawl is noted to have a set. A set without it was
    lost, and ends the node that asks.
"""

from __future__ import annotations

import binascii
import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any

from frontier.errors import InvalidURL, KeyDamaged
from frontier.store.calls import batches
from frontier.store.client import Call
from frontier.urls.canon.rulesets import SCRAPY, named
from frontier.urls.fingerprint import canonical, seen_hash

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from frontier.store.keys import CrawlKeys

MAX_ADDED = 500
"""Marks per call."""
GUARD = -1
"""A member of the set that is not a mark."""
SHA1 = 20
"""Bytes of a fingerprint."""
FIELD = "imported"
"""A field of `CrawlKeys.meta`, which exists if the crawl has the set."""


def begin_calls(keys: CrawlKeys) -> list[Call]:
    """The calls that give the crawl a set, if it has none."""
    return [
        Call.command("SADD", keys.imported, GUARD),
        Call.command("HSET", keys.meta, FIELD, "yes"),
    ]


def about_call(keys: CrawlKeys) -> Call:
    """The call whose reply is not ``None`` if the crawl has a set."""
    return Call.command("HGET", keys.meta, FIELD)


def add_calls(keys: CrawlKeys, marks: Sequence[int]) -> Iterator[Call]:
    """The calls that add *marks*; their replies say how many were new to the set."""
    for some in batches(marks, MAX_ADDED):
        yield Call.command("SADD", keys.imported, *some)


async def has_any(
    run: Callable[[list[Call]], Awaitable[list[Any]]],
    keys: CrawlKeys,
    marks: Iterable[int],
) -> bool:
    """Whether the set of the crawl has any of *marks*.

    Raises:
        KeyDamaged: It was lost.
    """
    call = Call.command("SMISMEMBER", keys.imported, GUARD, *marks)
    ((guard, *found),) = await run([call])
    if not guard:
        reason = "is lost; repeat frontier migrate scrapy-redis before nodes go on"
        raise KeyDamaged(
            "", keys.imported, f"the URLs seen before the crawl: the filter {reason}"
        )
    return any(found)


def marks_of(fingerprints: Iterable[bytes]) -> list[int]:
    """The marks of others' *fingerprints*, but for those that are no SHA-1 in hex."""
    marks = []
    for fingerprint in fingerprints:
        with contextlib.suppress(ValueError):
            made = binascii.unhexlify(fingerprint)
            marks += [seen_hash(made)] if len(made) == SHA1 else []
    return marks


def others_fingerprints(
    url: str, method: str = "GET", body: bytes = b""
) -> list[bytes]:
    """The fingerprints by which others would know a request, in hexadecimal.

    That of scrapy-redis from 0.7.3; that of Scrapy up to 2.6, and of earlier
    scrapy-redis; and that of Scrapy from 2.7. There are none for a URL that Scrapy
    cannot canonicalize, as others cannot have seen it either.
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
