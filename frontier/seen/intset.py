"""The arithmetic of the set tier: linear hashing of URLs over buckets. No I/O.

The members of the set are marks: integers of 62 bits plus 2^62, which all have the same
number of decimal digits, so that their texts compare as the numbers do. Sets of such
integers are *intsets* in Redis, 8 bytes a member, as long as none has more than 512
members.

A set begins with one bucket. A bucket covers a range of marks. With ``n`` buckets,
``2**level <= n``, the next to be split is number ``n - 2**level``, and the upper half
of its range becomes number ``n`` (Litwin, "Linear hashing", 1980, on the reversed bits
of the mark). So a split always moves members to a bucket with a greater number.
"""

from __future__ import annotations

from collections.abc import Iterable

from frontier.urls.fingerprint import LEAST_MARK, MARK_BITS

FILL = 200
"""URLs per bucket on average: an unsplit one has up to twice that, and stays
five standard deviations below the server's limit of 512."""
LEVELS = 24
MOST_BUCKETS = 1 << LEVELS
MEMBER_BYTES = 8
BUCKET_BYTES = 130
"""Memory of a bucket besides its URLs: 0.65 bytes a URL at 200 URLs a bucket."""
_REVERSED = tuple(int(f"{i:012b}"[::-1], 2) for i in range(4096))


def bucket_of(mark: int, buckets: int) -> int:
    """The bucket of *mark* in a set with *buckets*."""
    high, low = mark >> MARK_BITS - 12 & 4095, mark >> MARK_BITS - 24 & 4095
    level = buckets.bit_length() - 1
    number = (_REVERSED[high] | _REVERSED[low] << 12) & ((2 << level) - 1)
    return number if number < buckets else number - (1 << level)


def buckets_of(marks: Iterable[int], buckets: int) -> list[int]:
    """The bucket of each of *marks* in a set with *buckets*."""
    if buckets == 1:
        return [0 for _ in marks]
    return [bucket_of(mark, buckets) for mark in marks]


def wanted(urls: int) -> int:
    """How many buckets a set of *urls* should have."""
    return min(max(1, -(-urls // FILL)), MOST_BUCKETS)


def room(buckets: int) -> int:
    """For how many URLs *buckets* are enough; see `wanted`."""
    return buckets * FILL if buckets < MOST_BUCKETS else LEAST_MARK


def splits(buckets: int, target: int) -> list[tuple[int, int, int]]:
    """The splits, in order, that turn *buckets* into *target* buckets.

    Each moves the members of one bucket, from a threshold upwards, to another.
    """
    steps = []
    for number in range(buckets, target):
        level = number.bit_length() - 1
        prefix = int(f"{number:b}"[::-1], 2)
        threshold = LEAST_MARK + (prefix << (MARK_BITS - level - 1))
        steps.append((number - (1 << level), number, threshold))
    return steps


def set_bytes(urls: float, buckets: int) -> int:
    """Memory of a set of *urls* in *buckets*."""
    return round(MEMBER_BYTES * urls + BUCKET_BYTES * buckets) if urls > 0 else 0
