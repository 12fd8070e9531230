r"""A partition's queues: reserve, ack, requeue, reclaim, bury.

What always holds:

1.  What leaves a queue is reserved, and its reservation ends only by an ack, by a
    requeue, or in the dead letters.
2.  Each of these carries the fencing token; with a stale one nothing happens
    and `LeaseLost` is raised.
3.  Reservations belong to a token. Whoever acquires a partition requeues what was
    reserved under older tokens before it reserves anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import CodecError, LeaseLost
from frontier.model import Lease, Order, frozen
from frontier.queue.priority import split_name
from frontier.store.client import Argument, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frontier.store.keys import CrawlKeys, PartitionKeys

MAX_IDS = 200
"""Reservations per script call."""
MAX_REQUEUED = 100
"""Reservations per script call that requeues them: each takes 8 microseconds."""
MAX_TRIES = 3
"""Deliveries without an ack after which an item goes to the dead letters."""
KEPT = 86_400
"""Seconds after which marks of what was started expire, if nobody removes them."""


class Blame(IntEnum):
    """How much it counts against an item that its node ended, or lost its lease.

    The value is the ``tries`` that `queue_requeue` is given.
    """

    NONE = 0
    """The item only waited there, or was given back."""
    BESIDE = -MAX_TRIES
    """The item was started, but another's callback ran: a third of a delivery. Not
    nothing, as what ends nodes may be a request whose callback has not run."""
    FULL = MAX_TRIES
    """The item was started, and its own callback ran, or nothing more is known."""


@dataclass(slots=True)
class Reservation:
    """An item that a node holds under a lease."""

    lease: Lease
    id: int
    """Unique in its partition only."""
    queue: str
    item: bytes
    delivery: Any = None
    """What stands on it once it is taken (`frontier.node.delivery`). If that is adopted
    there is nothing else: then *id* is less than 0, and no store has it."""

    @property
    def key(self) -> tuple[int, int, int]:
        """The partition, the token and the id, which are unique in the crawl."""
        return (self.lease.partition, self.lease.token, self.id)


@frozen
class Scan:
    """What a partition had to do when it was looked at."""

    ready: int = 0
    reserved: int = 0
    pushed: int = 0
    """URLs ever queued; only grows."""
    acked: int = 0
    dead: int = 0
    seen: int = 0
    """URLs in the set tier."""
    skipped: int = 0
    """URLs that were not fetched because their host had used up its quota."""
    queues: int = 0
    """Queues that have something ready."""
    waiting: int = 0
    """URLs that are not ready yet, but will be; see `frontier.queue.due`."""
    due: int = 0
    """When the next of them is due, in ms of the server's clock; 0 if none waits."""


def reserve_call(
    keys: PartitionKeys,
    lease: Lease,
    order: Order,
    wanted: Mapping[str, int],
) -> Call:
    """The call that takes up to *wanted* items from each queue."""
    names = [keys.lease, keys.counts, keys.queues, keys.reserved]
    args: list[Argument] = [lease.token, "LPOP" if order is Order.BFS else "RPOP"]
    for queue, count in wanted.items():
        names.append(keys.ready(queue))
        args += (queue, count)
    return Call.to("queue_reserve", names, args)


def fenced(reply: Any, lease: Lease) -> Any:
    """The *reply* to a call that carries the token of *lease*.

    Raises:
        LeaseLost: The token is stale.
    """
    if reply is None:
        raise LeaseLost(lease.partition, lease.token)
    return reply


def reserved(
    reply: list[Any] | None, lease: Lease, wanted: Mapping[str, int]
) -> tuple[list[Reservation], dict[str, int]]:
    """The reservations in *reply*, and how many items each queue has left.

    Raises:
        LeaseLost: The token is stale.
    """
    parts = fenced(reply, lease)
    found, left = [], {}
    for queue, (remaining, *rest) in zip(wanted, parts, strict=True):
        left[queue] = int(remaining)
        first, items = int(rest[0]) if rest else 0, rest[1:]
        found += [
            Reservation(lease, number, queue, item)
            for number, item in enumerate(items, first)
        ]
    return found, left


def start_call(keys: PartitionKeys, ids: Iterable[int]) -> Call:
    """The call that marks the reservations *ids* as started.

    Where there is no lease the partition was lost, and nothing is noted.
    """
    mark: tuple[Argument, ...] = ("SADD", keys.started, *ids)
    then = [mark, ("EXPIRE", keys.started, KEPT)]
    return Call.txn([(("EXISTS", keys.lease), 1)], then)


def ack_calls(keys: PartitionKeys, lease: Lease, ids: Sequence[int]) -> list[Call]:
    """The calls that end the reservations *ids*."""
    names = [keys.lease, keys.counts, keys.reserved, keys.started]
    return [
        Call.to("queue_ack", names, [lease.token, *ids[i : i + MAX_IDS]])
        for i in range(0, len(ids), MAX_IDS)
    ]


def list_reserved(keys: PartitionKeys) -> Call:
    """The command whose reply `entries_in` reads."""
    return Call.command("HGETALL", keys.reserved)


class Reserved(NamedTuple):
    """An entry of `PartitionKeys.reserved`."""

    id: int
    token: int
    queue: str
    item: bytes
    keeper: str
    """Who keeps it, whoever holds the partition; empty if nobody. See `keep_call`."""


def read_reserved(key: bytes, value: bytes) -> Reserved:
    """Parse the entry *value* of the id *key*.

    Raises:
        CodecError: It is not a reservation.
    """
    try:
        head, name, item = value.split(b"\n", 2)
        token, _, keeper = head.partition(b" ")
        queue, kept_by = name.decode(), keeper.decode()
        split_name(queue)
    except (CodecError, ValueError):
        token, queue, item, kept_by = b"", "", b"", ""
    if not (key.isdigit() and token.isdigit()) or max(len(key), len(token)) > 15:
        raise CodecError(f"its entry {key[:40]!r} is not a reservation")
    return Reserved(int(key), int(token), queue, item, kept_by)


def entries_in(reply: Mapping[bytes, bytes]) -> list[Reserved]:
    """What is reserved in a partition, the lowest id first.

    Raises:
        CodecError: One of the entries is invalid.
    """
    return sorted(read_reserved(key, value) for key, value in reply.items())


def keep_call(keys: PartitionKeys, reservation: Reservation, keeper: str) -> Call:
    """The call that has *keeper* keep *reservation*, whoever holds the partition next.

    It no longer counts as started, as its own request is done. The call does nothing if
    the lease is lost; `is_kept` tells.
    """
    number, token = reservation.id, reservation.lease.token
    return Call.txn(
        [
            (("HGET", keys.lease, "token"), token),
            (("HEXISTS", keys.reserved, number), 1),
        ],
        [
            ("HSET", keys.reserved, number, _kept(reservation, keeper)),
            ("SREM", keys.started, number),
        ],
    )


def _kept(reservation: Reservation, keeper: str) -> bytes:
    head = f"{reservation.lease.token} {keeper}\n{reservation.queue}\n"
    return head.encode() + reservation.item


def is_kept(entry: bytes | None, reservation: Reservation, keeper: str) -> bool:
    """Whether the *entry* of its id says that *keeper* keeps *reservation*."""
    return entry == _kept(reservation, keeper)


def requeue_calls(
    keys: PartitionKeys,
    lease: Lease,
    order: Order,
    entries: Iterable[tuple[int, str]],
    blame: Blame = Blame.NONE,
    why: str = "",
) -> list[Call]:
    """The calls that put reservations, each an id and a queue, back in front.

    With *blame* items come nearer to the dead letters; for those that get there, *why*
    is added to the reason.
    """
    push = "LPUSH" if order is Order.BFS else "RPUSH"
    ordered = sorted(entries, reverse=True)
    calls = []
    for i in range(0, len(ordered), MAX_REQUEUED):
        names, index = _requeue_keys(keys), {}
        args: list[Argument] = [lease.token, push, int(blame), why]
        for number, queue in ordered[i : i + MAX_REQUEUED]:
            if queue not in index:
                names.append(keys.ready(queue))
                index[queue] = len(names)
            args += (number, index[queue], queue, split_name(queue)[0])
        calls.append(Call.to("queue_requeue", names, args))
    return calls


def _requeue_keys(keys: PartitionKeys) -> list[str]:
    first = [keys.lease, keys.counts, keys.queues, keys.reserved, keys.started]
    return [*first, keys.dead]


def deliveries(item: bytes) -> int:
    """How often *item* was delivered without an ack; thirds do not count."""
    return int(item[:1]) % MAX_TRIES if item[:1].isdigit() else 0


class Ran(NamedTuple):
    """The request whose callback ran as its process ended, or as it was given up."""

    partition: int
    token: int
    """0 for a request that has no reservation in the store."""
    id: int
    """Its reservation's id; without one, the same each time the request is made."""


def ended_call(keys: CrawlKeys, process: str, ran: Ran) -> Call:
    """The call that notes what ran when *process*, ``<node id>/<process>``, ended."""
    note = f"{ran.partition} {ran.token} {ran.id}"
    name = keys.ended  # a process has one: it may have given up a page before
    noted = [("HSET", name, process, note), ("EXPIRE", name, KEPT)]
    return Call.txn([(("EXISTS", keys.meta), 1)], noted)


def notes_call(keys: CrawlKeys, holders: Iterable[str]) -> Call:
    """The call whose reply has the note of `ended_call`, or `None`, for each holder."""
    names = [holder.rpartition("/")[0] for holder in holders]
    return Call.command("HMGET", keys.ended, *names)


def deadly_in(notes: Iterable[bytes]) -> frozenset[int]:
    """The ids of requests without a reservation in the store that are to be given up.

    They are those in whose callbacks, by *notes*, `MAX_TRIES` processes have ended.
    """
    counts = Counter(map(ran_of, notes))
    return frozenset(
        ran.id
        for ran, count in counts.items()
        if ran is not None and not ran.token and count >= MAX_TRIES
    )


def ran_of(note: bytes | None) -> Ran | None:
    """Parse the *note* of `ended_call`; `None` if there is none."""
    return Ran(*map(int, note.split(b" "))) if note else None


def weighed(
    partition: int,
    entries: Iterable[Reserved],
    started: Iterable[bytes],
    former: tuple[str, int],
    notes: Mapping[str, Ran],
) -> list[tuple[Blame, str, list[tuple[int, str]]]]:
    """The *entries* of *partition* to put back, by how their delivery counts, and why.

    *former* is who held the partition, and under which token; *notes* say what ran when
    holders ended. They are in the order in which they are to be put back: what was
    *started* is last, so that it comes first in its queue again.
    """
    ids = {member.decode("utf-8", "replace") for member in started}
    found: dict[tuple[Blame, str], list[tuple[int, str]]] = defaultdict(list)
    for entry in entries:
        holder = entry.keeper or (former[0] if entry.token == former[1] else "")
        ran, kind, why = notes.get(holder), Blame.NONE, ""
        if ran == (partition, entry.token, entry.id):
            node_id = holder.partition("/")[0]
            kind, why = Blame.FULL, f"; node {node_id} ended while its callback ran"
        elif not entry.keeper and str(entry.id) in ids:
            kind = Blame.FULL if ran is None else Blame.BESIDE
        found[kind, why].append((entry.id, entry.queue))
    order = (Blame.NONE, Blame.BESIDE, Blame.FULL)
    return [
        (kind, why, found[kind, why])
        for kind, why in sorted(found, key=lambda one: (order.index(one[0]), one[1]))
    ]


def bury_call(keys: PartitionKeys, reservation: Reservation, reason: str) -> Call:
    """The call that gives an item up for *reason*, which is made one line."""
    line = " ".join(reason.split())[:500]
    args = (reservation.lease.token, "", "", line, reservation.id, 0, "", 0)
    return Call.to("queue_requeue", _requeue_keys(keys), args)


def scan_call(keys: PartitionKeys) -> Call:
    """The call whose reply is the mark of the crawl, the holder, and a `Scan`'s fields.

    There are no fields if nothing but the mark was ever in the partition.
    """
    names = [keys.counts, keys.reserved, keys.seen, keys.queues, keys.due, keys.hosts]
    return Call.to("partition_scan", [*names, keys.lease])
