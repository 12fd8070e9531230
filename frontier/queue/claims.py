"""Claims: the items of requests that only one process can make.

A request whose callback is a lambda, or whose ``meta`` holds an object, exists in
the memory of the process that made it and nowhere else. What is queued for it is a
claim: it names the process, and what makes the request once more should the process
be gone. So such a URL is marked and queued in one step, as any other is.

What always holds:

1.  A claim is in a queue of its process, ``<priority>@<process>:<queue key>``, which
    others do not reserve from while the process lives.
2.  A claim names the requests in whose callbacks it began, as they were queued, or
    the start requests: made again, they lead to it.
3.  It names the marks on the way from there to it, its own last: they have to be new
    again first, or what is made again would count as seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import CodecError
from frontier.queue.item import MAX_BYTES, decode, encode
from frontier.queue.priority import is_process, split_name
from frontier.urls.fingerprint import LEAST_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "_claim"
"""Under which a claim is in the record of its item."""
MAX_MARKS = 10_000
"""Marks of a claim: as many local requests led to it, one after the other."""
MAX_ORIGINS = 1_000
MOST = 16 * MAX_BYTES
"""Bytes of a claim, which has its origins in it."""


class Origin(NamedTuple):
    """A request that can be queued again, as it was queued."""

    partition: int
    queue: str
    item: bytes


@dataclass(frozen=True, slots=True)
class Lineage:
    """What leads to a request that only one process can make."""

    origins: tuple[Origin, ...]
    marks: tuple[tuple[int, int], ...]
    """As those of a `Claim`."""
    start_id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What is queued for a request that only one process can make."""

    process: str
    number: int
    """Unique in its process."""
    url: str
    origins: tuple[Origin, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    """Partition and mark, of each local request on the way that was tested."""
    start_id: str = ""
    """Of the start requests that lead to it; empty if none do."""

    @property
    def can_be_made(self) -> bool:
        """Whether anything leads to it once more."""
        return bool(self.origins or self.start_id)

    def item(self) -> bytes:
        """The claim as an item of a queue.

        Raises:
            NotSerializable: It is too large, because its origins are.
        """
        parts = [self.process, self.number, self.origins, self.marks, self.start_id]
        parts[2:4] = [list(map(list, self.origins)), list(map(list, self.marks))]
        return encode({"url": self.url, NAME: parts}, most=MOST)


def claim_of(record: Mapping[str, Any], partitions: int) -> Claim | None:
    """The claim that *record*, a decoded item, is; ``None`` if it is a request.

    Raises:
        CodecError: It is meant to be one, and is none.
    """
    if NAME not in record:
        return None
    try:
        process, number, origins, marks, start_id = record[NAME]
        claim = Claim(
            process,
            number,
            record["url"],
            tuple(Origin(*origin) for origin in origins),
            tuple((partition, mark) for partition, mark in marks),
            start_id,
        )
        _check(claim, partitions)
    except (TypeError, ValueError) as error:
        raise CodecError(f"an invalid claim: {error}") from None
    return claim


def _check(claim: Claim, partitions: int) -> None:
    if not (isinstance(claim.process, str) and is_process(claim.process)):
        raise ValueError("its process is invalid")
    if type(claim.number) is not int or not isinstance(claim.start_id, str):
        raise ValueError("its number or its start requests are invalid")
    if len(claim.origins) > MAX_ORIGINS or len(claim.marks) > MAX_MARKS:
        raise ValueError("it has too many origins or marks")
    numbers = [origin.partition for origin in claim.origins]
    numbers += [partition for partition, _ in claim.marks]
    if not all(type(n) is int and 0 <= n < partitions for n in numbers):
        raise ValueError("a partition is invalid")
    for _, mark in claim.marks:
        if type(mark) is not int or not LEAST_MARK <= mark < 2 * LEAST_MARK:
            raise ValueError("a hash is invalid")
    for _, queue, item in claim.origins:
        if not isinstance(queue, str) or not isinstance(item, bytes):
            raise TypeError("an origin is invalid")
        split_name(queue)
        if not item[:1].isdigit() or NAME in decode(item, queue):
            raise ValueError("an origin is not a request")
