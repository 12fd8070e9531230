r"""Due times: URLs that wait in a partition until they may be reserved.

A waiting URL is in the list of a *bucket*, which is a time; a sorted set has the
buckets. So it takes the memory that it takes in a ready list, plus its queue's name.
The holder of the partition has what is due moved to the ready lists (`due_call`).

What always holds:

1.  Nothing is ready before its time by the clock of the server that has it. A bucket's
    time is never earlier than that of a URL put into it, and the script that puts it
    there counts the delay by the server's clock. Nodes' clocks only choose buckets.
2.  It is late by at most a thirty-second of its wait, or by `LEAST` ms.
3.  What waits is moved, never copied: each script that moves it is atomic, and may be
    sent again.
4.  A request that is fetched again later (`again_calls`) is reserved before the script,
    and waits after it: a kill at any moment neither loses nor duplicates it.
5.  Nothing waits longer than `LONGEST` ms, plus any time by which the server's clock is
    set back meanwhile.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import CodecError, KeyDamaged
from frontier.model import Lease, frozen
from frontier.queue.priority import readable, split_name
from frontier.queue.reserve import fenced
from frontier.store.calls import Argument, Call, batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.store.keys import CrawlKeys, PartitionKeys

META = "frontier_due"
"""Key in a request's ``meta`` that says when it is due."""
DUE = "due"
"""In place of a queue's name: something is due before all else that waits."""
LEAST = 64
"""Milliseconds of the shortest bucket; a power of two, like all others."""
PART = 32
"""A URL shares its bucket with others that are due within this fraction of its wait."""
LONGEST = 2 * 366 * 86_400_000
"""The longest wait, in milliseconds."""
MOST = 500
"""URLs that one call moves, or puts back."""
MOST_BUCKETS = 10_000
"""Buckets of a partition that are read: twice as many as times up to `LONGEST` need."""
BATCH = 64
"""Partitions whose buckets are read in one round trip."""


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def wall_ms() -> float:
    """This machine's clock, in milliseconds."""
    return time.time() * 1000


class ServerClock:
    """The server's clock as this process knows it, from replies and monotonic time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._ahead = wall_ms() - monotonic() * 1000

    def note(self, now_ms: float, asked_at: float) -> None:
        """Note that the server, asked at *asked_at*, monotonic seconds, said *now_ms*.

        Counting from when it was asked, this clock is never behind the server's.
        """
        self._ahead = now_ms - asked_at * 1000

    def __call__(self) -> float:
        """The server's time, in milliseconds."""
        return self._monotonic() * 1000 + self._ahead


def bucket_of(due: float, now: float) -> tuple[str, int]:
    """The bucket, at *now*, of what is due at *due*, and in how many ms that is."""
    delay = min(max(math.ceil(due - now), 0), LONGEST)
    width = 1 << max(delay // PART, LEAST).bit_length() - 1
    return str(-(-math.ceil(now + delay) // width) * width), delay


def read_due(value: Any, now_ms: float) -> int:
    """When a request with *value* in its ``meta`` is due, in ms of the server's clock.

    0 means at once: what is due already has nothing to wait for.

    Raises:
        ValueError: It is neither a number of seconds nor a datetime with a time zone.
    """
    is_seconds = isinstance(value, int | float) and not isinstance(value, bool)
    if is_seconds and not math.isnan(value):
        due = now_ms + min(max(value, 0), LONGEST / 1000) * 1000
    elif isinstance(value, dt.datetime):
        if value.utcoffset() is None:
            raise ValueError("is a datetime without a time zone")
        due = (value - _EPOCH) / _MILLISECOND
    else:
        kind = "nan" if is_seconds else f"a {type(value).__name__}"
        raise ValueError(f"is {kind}, and neither seconds nor a datetime")
    return math.ceil(min(due, now_ms + LONGEST)) if due > now_ms else 0


def waiting_element(queue: str, item: bytes) -> bytes:
    """The element for *item* of *queue* in the list of a bucket."""
    return queue.encode() + b"\n" + item


def read_waiting(element: bytes) -> tuple[str, bytes]:
    """The queue and the item of *element*, of unknown origin, of a bucket's list.

    Raises:
        CodecError: It is not such an element.
    """
    queue, newline, item = element.partition(b"\n")
    name = readable(queue)
    if not (newline and item and name):
        raise CodecError("it names no queue, or has no item")
    return name, item


class Buckets(NamedTuple):
    """The buckets in which URLs of a partition wait."""

    number: int
    """The partition's number."""
    keys: PartitionKeys
    scores: list[tuple[str, float]]
    """The buckets and when each is due, in ms, the earliest first."""
    damage: KeyDamaged | None
    """Why they cannot be read; *scores* is empty then."""


def buckets_in(
    run: Callable[[Sequence[Call]], list[Any]],
    keys: CrawlKeys,
    numbers: Sequence[int],
) -> Iterator[Buckets]:
    """The buckets of the partitions *numbers*, read in batches as the caller goes on.

    *run* makes calls, and returns damage as a reply.
    """
    for batch in batches(numbers, BATCH):
        parts = [keys.partition(number) for number in batch]
        last = MOST_BUCKETS - 1
        calls = [Call.command("ZRANGE", p.due, 0, last, "WITHSCORES") for p in parts]
        replies = run(calls)
        for number, part, reply in zip(batch, parts, replies, strict=True):
            if isinstance(reply, KeyDamaged):
                yield Buckets(number, part, [], reply)
            else:
                yield Buckets(number, part, with_scores(reply), None)


def with_scores(reply: Sequence[Any]) -> list[tuple[str, float]]:
    """Members and scores, in whichever of two forms a client returns them."""
    pairs = reply
    if reply and not isinstance(reply[0], list | tuple):
        pairs = list(zip(reply[::2], reply[1::2], strict=True))
    return [(name.decode("utf-8", "replace"), float(at)) for name, at in pairs]


@frozen
class Again:
    """An item that is to wait in place of a reservation that ends."""

    queue: str
    """A queue of the same partition."""
    item: bytes
    due: int
    """When it is due, in ms of the server's clock."""


def again_calls(
    keys: PartitionKeys,
    lease: Lease,
    entries: Sequence[tuple[int, Again]],
    clock: Callable[[], float] = wall_ms,
) -> list[Call]:
    """The calls that end reservations and have other items wait in their place.

    Each of *entries* is the id of a reservation and what is to wait.
    """
    by_bucket: dict[tuple[str, int], list[Argument]] = {}
    now = clock()
    for ended, again in entries:
        element = waiting_element(again.queue, again.item)
        bucket, delay = bucket_of(again.due, now)
        by_bucket.setdefault((bucket, delay), []).extend((ended, element))
    first = [keys.lease, keys.counts, keys.reserved, keys.due]
    return [
        Call.to(
            "queue_again",
            [*first, keys.waiting(bucket), keys.started],
            [lease.token, bucket, delay, *args[i : i + 2 * MOST]],
        )
        for (bucket, delay), args in by_bucket.items()
        for i in range(0, len(args), 2 * MOST)
    ]


def due_call(
    keys: PartitionKeys, lease: Lease, bucket: str = "", queues: Sequence[str] = ()
) -> Call:
    """The call that moves what is due of *queues* in *bucket*, the next to be due."""
    names = [keys.lease, keys.counts, keys.queues, keys.due, keys.waiting(bucket)]
    args: list[Argument] = [lease.token, bucket, MOST]
    for queue in queues:
        names.append(keys.ready(queue))
        args += (queue, split_name(queue)[0])
    return Call.to("queue_due", names, args)


class Moved(NamedTuple):
    """What was moved to the ready lists, and what is due next."""

    now: int
    """By the server's clock, in ms."""
    moved: int
    bucket: bytes
    """The bucket that is due next; empty if nothing waits."""
    due: float
    became_ready: Sequence[bytes]
    """Queues that were empty before."""
    lacking: Sequence[bytes]
    """Queues that the next call has to name to move more; at most `MOST`."""


def moved(reply: list[Any] | None, lease: Lease) -> Moved:
    """Read the *reply* to `due_call`.

    Raises:
        LeaseLost: The token is stale.
    """
    now, count, bucket, due, became, lacking = fenced(reply, lease)
    return Moved(now, count, bucket, float(due), became, lacking)
