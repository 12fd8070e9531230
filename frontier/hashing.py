"""What a URL's identity becomes: its marks in the seen-set, its partition."""

from __future__ import annotations

from typing import NamedTuple

import mmh3

from frontier.buckets import MEMBER_BITS


class Mark(NamedTuple):
    """A fingerprint as the shared tiers know it."""

    h1: int
    """32 bits; the first Bloom position."""
    h2: int
    """32 bits, odd; the distance of the next ones."""
    member: int
    """The entry in the set tier, 19 decimal digits."""


def mark(fingerprint: bytes) -> Mark:
    """The mark of *fingerprint*, by 128 bits of MurmurHash3."""
    low, high = mmh3.hash64(fingerprint, signed=False)
    member = (high & ((1 << MEMBER_BITS) - 1)) | (1 << MEMBER_BITS)
    return Mark(low & 0xFFFFFFFF, (low >> 32) | 1, member)


def partition_of(queue_key: str, partitions: int) -> int:
    """The partition that owns *queue_key*."""
    return int(mmh3.hash(queue_key, seed=0x5EED, signed=False)) % partitions
