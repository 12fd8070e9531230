"""The arithmetic of the set tier: linear hashing of URLs over buckets. No I/O.

A `Space` says what the set keeps of a mark: its *entry*, an integer. The high
part of it is the entry's group, the low part plus ``2**bits`` its *member* in a
bucket. A member has the same number of decimal digits whatever it is, so texts
of members compare as their numbers do; and sets of such integers are *intsets*
in Redis, 8 or 4 bytes a member, as long as none has more than 512.

Each group begins with one bucket. A bucket covers a range of its group's members.
With ``n`` buckets, ``base * 2**level <= n``, the next to be split is number
``n - base * 2**level``, and the upper half of its range becomes number ``n``
(Litwin, "Linear hashing", 1980, on the reversed bits of the member).

A space of 62 bits has one group and keeps marks whole. One of 30 bits keeps 30
bits of a mark and its group, which takes the place of bits (a quotient filter):
a new URL is called seen with the chance ``URLs of its group / 2**30``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.urls.fingerprint import LEAST_MARK, MARK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

FILL = 200
"""URLs per bucket on average: an unsplit one has up to twice that, and stays
five standard deviations below the server's limit of 512."""
LEVELS = 24
SHORT_BITS = 30
_HIGH_BITS = MARK_BITS - SHORT_BITS
_REVERSED = tuple(int(f"{i:012b}"[::-1], 2) for i in range(4096))


@dataclass(frozen=True, slots=True)
class Split:
    """The members of bucket *source* from *threshold* on move to *target*."""

    source: int
    target: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Space:
    """Entries of *groups* times ``2**bits``, and the buckets they fall into."""

    bits: int = MARK_BITS
    groups: int = 1

    @property
    def end(self) -> int:
        """The least integer above all entries; the least entry is 0."""
        return self.groups << self.bits

    @property
    def member_bytes(self) -> int:
        """What a member takes in an intset."""
        return 8 if self.bits == MARK_BITS else 4

    def entry(self, mark: int) -> int:
        """What is kept of *mark*."""
        if self.bits == MARK_BITS:
            return mark - LEAST_MARK
        high = (mark >> SHORT_BITS) & ((1 << _HIGH_BITS) - 1)
        group = high * self.groups >> _HIGH_BITS
        return group << SHORT_BITS | mark & ((1 << SHORT_BITS) - 1)

    def mark(self, entry: int) -> int:
        """A mark of which *entry* is kept; with 62 bits, the only one."""
        if self.bits == MARK_BITS:
            return entry + LEAST_MARK
        group, low = divmod(entry, 1 << SHORT_BITS)
        high = -(-(group << _HIGH_BITS) // self.groups)
        return LEAST_MARK | high << SHORT_BITS | low

    def member(self, entry: int) -> int:
        """What a bucket has of *entry*."""
        least = 1 << self.bits
        return entry & (least - 1) | least

    def entry_of(self, member: int, bucket: int) -> int:
        """The entry that *bucket* has as *member*."""
        return (bucket % self.groups) << self.bits | member & ((1 << self.bits) - 1)

    def bucket_of(self, entry: int, buckets: int) -> int:
        """The bucket of *entry* in a set of *buckets*."""
        bits, base = self.bits, self.groups
        low = _REVERSED[(entry >> bits - 12) & 4095]
        address = low | _REVERSED[(entry >> bits - 24) & 4095] << 12
        level = (buckets // base).bit_length() - 1
        number = (address & ((2 << level) - 1)) * base + (entry >> bits)
        return number if number < buckets else number - (base << level)

    def numbers(self, marks: Iterable[int], buckets: int) -> list[int]:
        """The bucket of each of *marks* in a set of *buckets*."""
        if buckets == 1:
            return [0 for _ in marks]
        bucket_of = self.bucket_of
        if self.bits == MARK_BITS:
            return [bucket_of(mark - LEAST_MARK, buckets) for mark in marks]
        return [bucket_of(self.entry(mark), buckets) for mark in marks]

    def range_of(self, entry: int, buckets: int) -> range:
        """The entries of *entry*'s bucket in a set of *buckets*."""
        level = (buckets // self.groups).bit_length() - 1
        number = self.bucket_of(entry, buckets)
        upper = self.groups << level
        is_split = number >= upper or number + upper < buckets
        size = 1 << self.bits - level - is_split
        first = entry - entry % size
        return range(first, first + size)

    def wanted(self, urls: int) -> int:
        """How many buckets a set of *urls* should have."""
        most = self.groups << LEVELS
        return min(max(self.groups, -(-urls // FILL)), most)

    def room(self, buckets: int) -> int:
        """How many URLs *buckets* are enough for; see `wanted`."""
        return buckets * FILL if buckets < self.groups << LEVELS else LEAST_MARK

    def splits(self, buckets: int, target: int) -> list[Split]:
        """The splits, in order, that make *target* buckets of *buckets*."""
        steps = []
        for number in range(buckets, target):
            level = (number // self.groups).bit_length() - 1
            prefix = int(f"{number // self.groups:0{level + 1}b}"[::-1], 2)
            threshold = (1 << self.bits) + (prefix << (self.bits - level - 1))
            source = number - (self.groups << level)
            steps.append(Split(source, number, threshold))
        return steps


def space(bits: int, urls: int) -> Space:
    """The space of a set of *bits*, 64 or 32, that is to hold *urls*."""
    if bits == 64:
        return Space()
    return Space(SHORT_BITS, min(max(1, -(-urls // FILL)), 1 << LEVELS))
