"""The arithmetic of the set tier: linear hashing of URLs over buckets. No I/O.

A *member* is an integer of 62 hash bits plus 2**62, so that it has 19 decimal
digits whatever it is: sets of such integers are *intsets* in Redis, 8 bytes an
entry, as long as none has more than 512. A bucket covers a range of members.
A set of ``n`` buckets has ``n - 2**level`` of them split once more than the
rest (``2**level <= n``); bucket ``n - 2**level`` is the next to be split, and
the upper half of its range becomes bucket ``n`` (Litwin, "Linear hashing",
1980, on the reversed bits of the member).
"""

from __future__ import annotations

from dataclasses import dataclass

MEMBER_BITS = 62
FILL = 200
"""URLs per bucket on average: an unsplit one has up to twice that, and stays
five standard deviations below the server's limit of 512."""
LEVELS = 24
_REVERSED = tuple(int(f"{i:012b}"[::-1], 2) for i in range(4096))


@dataclass(frozen=True, slots=True)
class Split:
    """The members of bucket *source* from *threshold* on move to *target*."""

    source: int
    target: int
    threshold: int


def bucket_of(member: int, buckets: int) -> int:
    """The bucket of *member* in a set of *buckets*."""
    address = _REVERSED[(member >> 50) & 4095] | _REVERSED[(member >> 38) & 4095] << 12
    level = buckets.bit_length() - 1
    number = address & ((2 << level) - 1)
    return number if number < buckets else number - (1 << level)


def wanted(urls: int) -> int:
    """How many buckets a set of *urls* should have."""
    return min(max(1, -(-urls // FILL)), 1 << LEVELS)


def room(buckets: int) -> int:
    """How many URLs *buckets* are enough for; see `wanted`."""
    return buckets * FILL if buckets < 1 << LEVELS else 1 << MEMBER_BITS


def splits(buckets: int, target: int) -> list[Split]:
    """The splits, in order, that make *target* buckets of *buckets*."""
    steps = []
    for number in range(buckets, target):
        level = number.bit_length() - 1
        source = number - (1 << level)
        prefix = int(f"{number:0{level + 1}b}"[::-1], 2)
        threshold = (1 << MEMBER_BITS) + (prefix << (MEMBER_BITS - level - 1))
        steps.append(Split(source, number, threshold))
    return steps
