"""What a URL's identity becomes: its hash in the seen-set, its partition."""

from __future__ import annotations

from functools import lru_cache

import mmh3

MARK_BITS = 62
LEAST_MARK = 1 << MARK_BITS
"""The least of all marks; they are below twice this."""


def seen_hash(fingerprint: bytes) -> int:
    """The mark of *fingerprint*: 62 bits of MurmurHash3 plus 2**62.

    So it has 19 decimal digits whatever the bits are: texts of marks compare as
    their numbers do, and Redis keeps them as 64-bit integers.
    """
    high = mmh3.hash64(fingerprint, signed=False)[1]
    return int(high & (LEAST_MARK - 1) | LEAST_MARK)


@lru_cache(maxsize=10_000)
def partition_of(queue_key: str, partitions: int) -> int:
    """The partition that owns *queue_key*."""
    return int(mmh3.hash(queue_key, seed=0x5EED, signed=False)) % partitions
