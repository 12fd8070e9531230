"""Hosts on one node: when each may be asked, how often at once, and what it has had.

A host is left alone for the delay between two requests, after a failure, and for good
once it has had its quota. What is known of a host is its record, which is kept in the
partition of its queue, so that the next holder leaves it alone as well. Where a host is
divided into shards, each node that has some of them keeps a record of its own, in all
their partitions; where URLs are spread over the partitions, each node keeps to itself
what hosts have done.

What always holds:

1.  A host is left alone here from the moment it fails, and its record in the store says
    so before the request that it failed is acked; by then it also says what the host
    has had. Delays are noted soon after a request was sent: a note that a kill cuts off
    is missing for less than a lease lasts after it.
2.  All records of a partition are read with its lease. A record counts only under the
    lease under which it was read or begun. With the lease it is forgotten, and no
    longer written.
3.  A host that has failed has one request on the way at a time, until it answers.
4.  An answer to a request that was sent before a back-off began does not end it, and a
    failure of such a request does not make the next one longer. A back-off that a
    server asks for (429, 503) holds until it is over.
5.  A host is given up after a certain number of back-offs without an answer. It is
    asked again when the last one is over; only an answer brings it back.
6.  No more URLs of a queue key are reserved than its quota of pages leaves. So pages
    never exceed the quota, except by what was in flight at a kill; bytes exceed theirs
    by what is reserved. URLs over a quota leave the queue, are counted, and are logged.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.cluster.controls import ALL_HOSTS
from frontier.errors import KeyDamaged
from frontier.model import frozen
from frontier.node.context import Part, happens
from frontier.queue.hosts import (
    ABSENT,
    BUSY,
    JITTER,
    MEANINGS,
    Limits,
    Record,
    note_call,
    partitions_of,
    read,
)
from frontier.queue.priority import split_name
from frontier.queue.purge import skip_call
from frontier.settings.values import QUEUE_KEYS
from frontier.urls.partition import host_of_shard, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from frontier.cluster.lease import Acquired
    from frontier.model import Lease
    from frontier.node.node import Node
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config

logger = logging.getLogger(__name__)

LONG = 1.0
"""Seconds between two requests to a host from which on its URLs wait for their turn in
the store, and not in the downloader, where they would take room from others."""
SLACK = 0.1
"""By how much a share may fall short of a whole number of requests: the ring is
balanced to a twentieth, and of four nodes that share eight none should lose one."""
NOTE_INTERVAL = 0.2
"""Seconds between two rounds of notes."""
AT_ONCE = 500
"""Records that one call writes."""
PRUNE = 10.0
"""Seconds between two looks for records that no longer say anything."""
PRUNED = 20_000
"""Records that one look covers: with quotas a node may have very many."""
LATELY = 60.0
"""Seconds for which a record that has only a delay is kept after that is over."""
AHEAD = 0.5
"""How many seconds before its turn a URL of a host with a long delay is reserved, to be
in its slot in time, and to wait there no longer than need be."""
MOST_COUNTED = 10_000
"""Hosts whose failed connections are counted."""
NAMED = 5
"""Hosts that one line of the log names; the others are counted."""


@frozen
class Concurrency:
    """What the settings of one Scrapy process allow it."""

    requests: int = 16
    """``CONCURRENT_REQUESTS``."""
    per_host: int = 8
    """``CONCURRENT_REQUESTS_PER_DOMAIN``."""
    delay: float = 0.0
    """``DOWNLOAD_DELAY``, in seconds."""


class HostConcurrency:
    """How many requests a node may have at once, in all and to one host.

    A host that is divided into shards has several nodes. Each has a share of what the
    host may have, equal to its share of the partitions, at present *share*. The shares
    of all nodes add up to one, so together they have no more than one node would.
    Within a node Scrapy's own slots keep the delay (`frontier.download.politeness`).
    """

    def __init__(
        self, config: Config, whole: Concurrency, share: Callable[[], float]
    ) -> None:
        self.whole = whole
        """What the process may have; replaced when an operator changes it."""
        self._share = share
        self.is_divided = config.host_shards > 1
        """Whether hosts have shards."""

    def sent(self) -> int:
        """How many requests to one host may be on the way."""
        if not self.is_divided:
            return self.whole.per_host
        return max(1, int(self.whole.per_host * self._share() + SLACK))

    def reserved(self) -> int:
        """How many URLs of one host may be reserved, those on the way included."""
        return 2 if self.whole.delay > 0 else 2 * self.sent()

    @property
    def is_slow(self) -> bool:
        """Whether all hosts have a long delay."""
        return self.whole.delay >= LONG

    @property
    def waiting(self) -> int:
        """How many URLs may be reserved in all."""
        return 2 * self.whole.requests


@dataclass(slots=True)
class _Host(Record):
    """A record on the monotonic clock."""

    partition: int = -1
    """The one partition that has it; -1 if there is no such one."""
    token: int = 0
    """The token of the lease under which it was read or begun; 0 for none."""
    turn: float = 0.0
    """When the next URL may be reserved, if the delay is a long one."""


_OF_RECORD = fields(Record)


class Hosts(Part):
    """What one node knows of hosts."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._leases = node.leases
        self._config = config = node.config
        self._is_divided = config.host_shards > 1
        self._has_slots = config.queue_key in QUEUE_KEYS
        self._most = (config.host_max_pages, config.host_max_bytes)
        """Pages and bytes of each queue key; 0 for no limit."""
        self._known: dict[str, _Host] = {}
        self._to_prune: Iterator[str] = iter(())
        node.leases.on_taken = self._taken
        self._failing: set[str] = set()
        """Hosts of these that have failed."""
        self._missed: Counter[str] = Counter()
        """How many requests in a row have not reached a host, by host."""
        self._unwritten: set[tuple[int, int, str]] = set()
        """Partition, token and name of records that the store has to be told."""
        self._is_urgent = False
        """Whether one of them is to be in the store before the next ack."""
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self.given_up: Counter[str] = Counter()
        """URLs that this node has given up, by host."""
        self.skipped: Counter[str] = Counter()
        """URLs that this node has skipped, by queue key."""

    # Names, and where their records are.

    def of_queue(self, queue_key: str) -> str:
        """The host whose failures keep URLs of *queue_key* from being sent."""
        if self._is_divided:
            return host_of_shard(queue_key)
        # A host has a queue for each downloader slot that requests name.
        return queue_key.partition("~")[0] if self._has_slots else queue_key

    def named(self, queue_key: str) -> str:
        """The name of the record with the delay and the quota of *queue_key*."""
        return host_of_shard(queue_key) if self._is_divided else queue_key

    def _of(self, name: str) -> _Host | None:
        known = self._known.get(name)
        if known is None or known.token == self._token(known.partition):
            return known
        self._drop(name)
        return None

    def _token(self, partition: int) -> int:
        held = self._leases.held.get(partition)
        return 0 if held is None else held.token

    def _begun(self, name: str) -> _Host:
        """The record of *name*, which is begun if there is none."""
        known = self._of(name)
        if known is None:
            partition = -1
            if not self._is_divided:
                partition = partition_of(self.of_queue(name), self._config.partitions)
            known = _Host(partition=partition, token=self._token(partition))
            self._known[name] = known
        return known

    def _drop(self, name: str) -> None:
        del self._known[name]
        self._failing.discard(name)

    def _taken(self, taken: Acquired) -> None:
        """Learn what the store knows of the hosts of a partition that was just taken.

        Raises:
            KeyDamaged: An entry there is not the record of a host.
        """
        now, lease = time.monotonic(), taken.lease
        ahead = taken.now_ms / 1000 - now  # that is the server's clock, of ours
        for host, value in zip(taken.hosts[::2], taken.hosts[1::2], strict=True):
            name, record = host.decode("utf-8", "replace"), read(value)
            if record is None:
                key = self._keys.partition(lease.partition).hosts
                reason = f"its entry {name[:100]!r} is not the record of a host"
                raise KeyDamaged("", key, reason)
            if self._of(name) is not None:
                continue  # of another shard, and this node keeps to that
            moved = record.moved(-ahead)
            # There may be very many of them: `asdict` would take four times as long.
            told = {each.name: getattr(moved, each.name) for each in _OF_RECORD}
            self._known[name] = known = _Host(**told)
            if not self._is_divided:
                known.partition, known.token = lease.partition, lease.token
            # No longer than its delay, even if the server's clock was set back.
            known.turn = min(known.next, now + known.delay)
            if known.failures:
                self._failing.add(name)

    # When hosts may be asked.

    def __bool__(self) -> bool:
        """Whether any host has failed, as far as is known here."""
        return bool(self._failing)

    @property
    def count(self) -> int:
        """How many hosts are left alone now, as they have failed."""
        return sum(self.left(host) > 0 for host in [*self._failing])

    @property
    def cares(self) -> bool:
        """Whether an answer of a host may change anything."""
        return bool(self._failing or self._missed)

    def _failed(self, host: str) -> _Host | None:
        return self._of(host) if host in self._failing else None

    def left(self, host: str) -> float:
        """For how many seconds *host* is left alone from now; 0 if it may be asked."""
        known = self._failed(host)
        return 0.0 if known is None else max(0.0, known.until - time.monotonic())

    def failures(self, host: str) -> int:
        """How many back-offs *host* has had in a row; 0 if it answers."""
        known = self._failed(host)
        return 0 if known is None else known.failures

    def gives_up(self, host: str) -> bool:
        """Whether URLs of *host* are given up now."""
        known = self._failed(host)
        if known is None or known.until <= time.monotonic():
            return False
        return known.failures > Limits.of(self._config, known.reason).times

    def waits(self, host: str) -> bool:
        """Whether URLs of *host* wait in the store for it to be asked again."""
        return self.left(host) > 0 and not self.gives_up(host)

    def told(self, host: str) -> str:
        """What *host* has done, and how often, for people."""
        known = self._failed(host)
        why = MEANINGS.get(known.reason, "") if known is not None else ""
        return f"{why}, after {max(0, self.failures(host) - 1):,} back-offs in a row"

    def turn(self, queue_key: str) -> float:
        """When URLs of *queue_key* may be reserved, on the monotonic clock."""
        if not self._known:  # as in many crawls
            return 0.0
        known = self._of(self.named(queue_key))
        turn = 0.0 if known is None else known.turn
        host = self.of_queue(queue_key)
        failed = self._failed(host)
        if failed is None or not self.waits(host):
            return turn
        return max(turn, failed.until)

    def is_slow(self, queue_key: str) -> bool:
        """Whether requests of *queue_key* wait in the store for their turns."""
        known = self._of(self.named(queue_key))
        return known is not None and known.turn > 0

    def most(self, queue_key: str) -> float:
        """How many URLs of *queue_key* may be reserved, those on the way included."""
        has_failed = self._failing and self.failures(self.of_queue(queue_key))
        most = 1.0 if has_failed else math.inf
        pages, size = self._most
        if pages or size:
            known = self._of(queue_key) or Record()
            left = pages - known.pages if pages else math.inf
            most = min(most, left if not size or known.size < size else 0)
        return max(0, most)

    # What requests come to.

    def sent(self, reservation: Reservation, delay: float) -> None:
        """Note that the request of *reservation* was sent.

        Its host is left alone for *delay* seconds: by the slot, if that is short.
        """
        name = self.named(split_name(reservation.queue)[1])
        known = self._begun(name) if delay > 0 else self._of(name)
        if known is None:
            return
        now = time.monotonic()
        known.next, known.delay = now + delay, delay
        known.turn = known.next - AHEAD if delay >= LONG else 0.0
        if delay > 0:
            lease = reservation.lease
            self._unwritten.add((lease.partition, lease.token, name))
            self._some.set()

    def wait_for_turn(self, queue_key: str, seconds: float) -> None:
        """Set *queue_key* apart until shortly before its next turn, in *seconds*."""
        known = self._begun(self.named(queue_key))
        known.turn = time.monotonic() + seconds - AHEAD

    def forget_turns(self) -> None:
        """Let no host wait for its turn any more: delays have changed."""
        for known in self._known.values():
            known.turn = 0.0
        self._node.ready.look_again()

    def refused(self, host: str, reason: str, sent: float, asked: float) -> None:
        """Leave *host* alone, which refused a request and asked for *asked* seconds.

        The request was sent at *sent*, on the monotonic clock.
        """
        if self._config.backoff_times:
            self._missed.pop(host, None)
            self._leave_alone(host, reason, sent, asked)

    def missed(self, host: str, reason: str, sent: float) -> None:
        """Count a request that has not reached *host*; set it aside after many."""
        most = self._config.backoff_unreachable_after
        if not most:
            return
        if self._failed(host) is None:
            if len(self._missed) >= MOST_COUNTED:
                self._missed.clear()
            self._missed[host] += 1
            if self._missed[host] < most:
                return
            del self._missed[host]
        self._leave_alone(host, reason, sent, 0.0)

    def answered(self, host: str, sent: float) -> None:
        """Note that *host* has answered a request that was sent at *sent*."""
        if self._missed:
            self._missed.pop(host, None)
        known = self._failed(host)
        if known is None:
            return
        if sent >= (known.until if known.reason in BUSY else known.since):
            self._forgive([host])
            logger.info("%s answers again", host)

    def _leave_alone(self, host: str, reason: str, sent: float, asked: float) -> None:
        now = time.monotonic()
        jitter = random.uniform(0, JITTER)
        known = self._begun(host)
        if known.failures and (known.until > now or known.since > sent):
            known.until = max(known.until, now + asked * (1 + jitter))
        else:
            limits = Limits.of(self._config, reason)
            known.failures += 1
            wait = limits.wait(known.failures, asked, jitter)
            known.until, known.since, known.reason = now + wait, now, reason
            logger.log(
                logging.WARNING if reason in ABSENT else logging.INFO,
                "%s is left alone for %.0f s (%s, %d in a row)",
                host,
                wait,
                reason,
                known.failures,
            )
        self._failing.add(host)
        self._note(host)

    def _forgive(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            self._missed.pop(host, None)
            if (known := self._failed(host)) is not None:
                known.forgive()
                self._failing.discard(host)
                self._note(host)

    def retry(self, what: str) -> None:
        """Ask a host, or all of them, at once, as an operator wants."""
        self._forgive([*self._failing] if what == ALL_HOSTS else [what])
        self._node.ready.look_again()

    def forgive(self, since: float) -> None:
        """Forget that hosts could not be reached since *since*: it was not their fault.

        *since* is on the monotonic clock.
        """
        self._missed.clear()
        for host in [*self._failing]:
            known = self._failed(host)
            if known and known.reason in ABSENT and known.since >= since:
                self._forgive([host])
        self._node.ready.look_again()

    def give_up(self, host: str) -> None:
        """Count a URL of *host* that is given up, and log it if it is the first."""
        self.given_up[host] += 1
        known = self._failed(host)
        if known and self.given_up[host] == 1 and len(self.given_up) <= NAMED:
            logger.warning(
                "%s is given up after %d back-offs in a row (%s): its URLs are not "
                "sent for %.0f s, and become dead letters",
                host,
                known.failures - 1,
                known.reason,
                self.left(host),
            )

    # Quotas.

    @property
    def has_quotas(self) -> bool:
        """Whether hosts have quotas."""
        return any(self._most)

    def change_quotas(self, max_pages: int, max_bytes: int) -> None:
        """Change the quotas; what hosts had before counts if there were quotas then."""
        self._most = (max_pages, max_bytes)

    def add(self, reservation: Reservation, pages: int, size: int) -> None:
        """Note that *reservation* has brought *pages*, and *size* bytes."""
        lease, queue_key = reservation.lease, split_name(reservation.queue)[1]
        if self.has_quotas and self._token(lease.partition) == lease.token:
            known = self._begun(queue_key)
            known.pages += pages
            known.size += size
            self._note(queue_key)

    async def skip(self, over: Sequence[tuple[Lease, str]]) -> list[int]:
        """Take URLs over a quota out of queues; how many of each, 0 if it is empty."""
        replies = await self._node.run(
            [
                skip_call(self._keys.partition(one.partition), queue)
                for one, queue in over
            ]
        )
        counts = [max(0, int(count)) for count, _ in replies]
        for (_, queue), count in zip(over, counts, strict=True):
            queue_key = split_name(queue)[1]
            known = self._of(queue_key)
            if count and known is not None:
                if queue_key not in self.skipped:
                    logger.info("%s has used up its quota", queue_key)
                self.skipped[queue_key] += count
                known.skipped += count
                self._note(queue_key)
        return counts

    # The store.

    def _note(self, name: str) -> None:
        """Have the record of *name* written before the next ack."""
        places = {self._known[name].partition}
        if self._is_divided:
            places = partitions_of(self._config, name)
        self._unwritten |= {(p, self._token(p), name) for p in places}
        self._is_urgent = True
        self._some.set()

    @override
    async def run(self) -> None:
        """Tell the store what is known here, and forget records that say nothing."""
        pruned = time.monotonic()
        while True:
            await happens(self._some, PRUNE)
            if time.monotonic() >= pruned + PRUNE:
                pruned = time.monotonic()
                self._prune(pruned)
            await self.flush()
            await asyncio.sleep(NOTE_INTERVAL)

    def _prune(self, now: float) -> None:
        names = [*islice(self._to_prune, PRUNED)]
        if len(names) < PRUNED:
            self._to_prune = iter([*self._known])
        for name in names:
            known = self._known.get(name)
            if known is None:
                continue
            is_over = max(known.next + LATELY, known.turn) < now
            if self._of(name) and is_over and not known.is_counted:
                self._note(name)
                self._drop(name)

    async def flush(self) -> None:
        """Tell the store what it does not know yet."""
        async with self._writing:
            self._some.clear()
            unwritten, self._unwritten = self._unwritten, set()
            self._is_urgent = False
            by_lease: dict[Lease, list[str]] = defaultdict(list)
            for partition, token, name in unwritten:
                lease = self._leases.held.get(partition)
                if lease is not None and lease.token == token:
                    by_lease[lease].append(name)
            ahead = self._node.clock() / 1000 - time.monotonic()
            await self._node.run(
                [
                    note_call(
                        self._keys.partition(lease.partition),
                        lease,
                        {n: self._stored(n, ahead) for n in names[i : i + AT_ONCE]},
                        for_ever=self.has_quotas,
                    )
                    for lease, names in by_lease.items()
                    for i in range(0, len(names), AT_ONCE)
                ]
            )

    def _stored(self, name: str, ahead: float) -> Record | None:
        """The record of *name* on the server's clock; `None` if it says nothing."""
        known = self._of(name)
        is_known = known is not None and (known.is_counted or known.delay)
        return known.moved(ahead) if known is not None and is_known else None

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Return when the store knows which hosts have failed and had what so far."""
        if self._is_urgent or self._writing.locked():
            await self.flush()

    @override
    async def leaving(self) -> None:
        """Return when the store knows what was noted so far."""
        await self.flush()

    @override
    def went_back(self) -> None:
        """Tell the store again what it may have forgotten in a failover."""
        for name in [*self._known]:
            if self._of(name) is not None:
                self._note(name)

    @override
    def report(self) -> dict[str, Any]:
        """How many requests were given up."""
        return {"given_up": self.given_up.total()}

    @override
    def tell(self) -> None:
        """Log what this node has given up, and skipped."""
        if self.given_up:
            logger.error(
                "%d requests to %d hosts were given up, as these hosts kept "
                "failing to answer (%s); those of the queue are dead letters: "
                "frontier crawl requeue queues them again",
                self.given_up.total(),
                len(self.given_up),
                most_common(self.given_up),
            )
        if self.skipped:
            logger.warning(
                "%d requests of %d hosts were not sent: over FRONTIER_HOST_MAX_PAGES "
                "or FRONTIER_HOST_MAX_BYTES (%s)",
                self.skipped.total(),
                len(self.skipped),
                most_common(self.skipped),
            )


def most_common(counts: Counter[str]) -> str:
    """The hosts with the highest *counts*, for people."""
    named = [f"{host[:200]} {count:,}" for host, count in counts.most_common(NAMED)]
    return ", ".join([*named, *(["..."] if len(counts) > NAMED else [])])
