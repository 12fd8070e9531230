"""The inbox: URLs that this node has reserved and will start soon.

What always holds:

1.  Only partitions whose lease is current are reserved from, and only a
    reservation whose lease is current is handed out.
2.  No host has more reservations in flight here than the cap, whatever its
    shards, so that a slow one cannot fill the node; queue keys take turns, higher
    priorities first. Of a host that waits for its turn (`frontier.node.hosts`) one
    request waits here at the most.
3.  What is adopted here (`frontier.node.delivery`) waits beside what is in the store,
    in the same queues, and is handed out as a reservation that no store has.
4.  A reservation is known here from the reply that made it until `forget`. If
    a reply was lost, what it reserved is found and put back before anything else is
    reserved. So is what somebody kept who is gone.
5.  Queues of hosts that are left alone, or wait for their next turn, are set apart
    until they may be asked again, and what was reserved of them goes back. So hosts
    that wait take no room from others. Of a host over its quota nothing is reserved.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
import time
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

from frontier.cluster.lease import NOBODY
from frontier.errors import CodecError, KeyDamaged, LeaseLost, StoreUnavailable
from frontier.node.acks import forget_call, started_call
from frontier.node.delivery import Delivery
from frontier.node.host_politeness import LONG
from frontier.node.outbox import WANTED
from frontier.queue.due import DUE
from frontier.queue.priority import readable, split_name
from frontier.queue.reserve import (
    HostsUnread,
    Reservation,
    entries_in,
    list_reserved,
    notes_call,
    ran_of,
    requeue_calls,
    requeued,
    reserve_call,
    reserved,
    weighed,
)
from frontier.store.client import Call
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from frontier.cluster.lease import Seen
    from frontier.model import Lease
    from frontier.node.context import Kernel
    from frontier.node.hosts import Hosts
    from frontier.queue.reserve import Ran, Reserved

logger = logging.getLogger(__name__)

POLL = 0.05
"""Seconds between looks at the hints while there is room."""
MAX_QUEUES = 1000
"""Queues of one partition that are learned in one look."""
MAX_CANDIDATES = 256
"""Queues among which those to take from are chosen."""
MAX_PARTITIONS = 32
"""Partitions reserved from in one round trip."""
NAMED = 5
"""Partitions that one line of the log names."""


class Inbox:
    """Reserves URLs ahead of the engine's need."""

    def __init__(self, node: Kernel) -> None:
        self._node = node
        self._outage_retry = node.outage_retry
        self._keys = node.keys
        self._leases = node.leases
        self._hosts: Hosts = node.hosts
        self._order = node.config.order
        self._concurrency = node.host_concurrency
        self._size = self._concurrency.waiting
        self._left_alone: dict[int, dict[str, int]] = defaultdict(dict)
        """Queues that are set apart, by partition: not among those that are known."""
        self._ends: list[tuple[float, int, str]] = []
        """When each of these may be asked again, a heap."""
        self._over: list[tuple[Lease, str]] = []
        """Queues of hosts that are over their quotas."""
        self._withdrawn: list[Reservation] = []
        """Reservations that go back: their hosts are left alone."""
        self._waiting: deque[Reservation] = deque()
        self._known: dict[int, dict[str, int]] = defaultdict(dict)
        self._local: dict[int, dict[str, deque[Delivery]]] = {}
        """What is adopted and waits here, by partition and queue."""
        self._last_local = 0
        self.kept: dict[tuple[int, int], Delivery] = {}
        """What this node keeps, by the partitions and ids of the reservations."""
        self._became_ready: set[tuple[int, str]] = set()
        """Partitions and queues that were learned since what is being asked was sent:
        its reply may be older, and says nothing of them."""
        self._turn = 0
        self._in_flight: dict[str, int] = defaultdict(int)
        self._sent: dict[str, set[tuple[int, int, int]]] = defaultdict(set)
        """What is in flight of hosts with a long delay, and was sent."""
        self.open: dict[tuple[int, int, int], Reservation] = {}
        """Reservations that are neither acked nor given back, by their keys."""
        self._wake = asyncio.Event()
        self.handing_over: set[int] = set()
        """Partitions that are being handed over: nothing more is reserved."""
        self._asking = asyncio.Lock()
        """Held by who reserves, and by who looks for what nobody here has reserved."""
        self.reclaimed = 0
        """Reservations of others that were put back, as these are gone."""
        self._unsure: dict[int, Lease] = {}
        """Partitions of which a reply may have been lost, and their leases then."""
        self._wanted: set[int] = set()
        """Partitions that this node has, as others see it, and should not."""
        self.stopped = False
        self.paused = False
        """Whether nothing is reserved for now."""

    @property
    def idle(self) -> bool:
        """Whether nothing is reserved here and nothing is known to be ready."""
        held = self._leases.held  # a late hint may be about what another one has
        has_local = self._local or self.kept
        return not (self.open or has_local or any(map(self.knows, held)))

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Reservation | None:
        """Hand out the next reservation, or ``None`` if none may be started."""
        kept: list[Reservation] = []  # the lease is held, and not to be relied on now
        found = None
        while self._waiting and found is None:
            reservation = self._waiting.popleft()
            if self._leases.covers(reservation.lease):
                if self._is_left_alone(reservation.queue):
                    self._withdrawn.append(reservation)
                else:
                    found = reservation
            elif self._is_held(reservation.lease):
                kept.append(reservation)
            else:
                self._drop(reservation)
        self._waiting.extendleft(reversed(kept))
        if found is not None:
            found.delivery = found.delivery or Delivery()
            found.delivery.reservation = found
        if len(self._waiting) - len(kept) <= self._size // 2 or self._withdrawn:
            self._wake.set()
        return found

    def sent(self, reservation: Reservation, delay: float, turn: float) -> None:
        """Note that its request was sent; see `Hosts.sent`."""
        self._hosts.sent(reservation, delay, turn)
        if turn >= LONG:
            self._sent[self._host_of(reservation.queue)].add(reservation.key)

    def _host_of(self, queue: str) -> str:
        return self._hosts.named(split_name(queue)[1])

    def _is_left_alone(self, queue: str) -> bool:
        """Whether the URLs of *queue* wait for their host to be asked again."""
        return self._hosts.turn(split_name(queue)[1]) > time.monotonic()

    def _may_wait(self, queue_key: str, host: str) -> float:
        """How many more URLs of *queue_key* may wait here for their turn."""
        if not self._hosts.is_slow(queue_key) and not self._concurrency.is_slow:
            return math.inf
        sent = len(self._sent[host]) if host in self._sent else 0
        return 1 - (self._in_flight.get(host, 0) - sent)

    def _usable(self) -> int:
        """How many wait that may be started now."""
        return sum(self._leases.covers(r.lease) for r in self._waiting)

    def finish(self, reservation: Reservation) -> None:
        """Count *reservation* as no longer in flight; it is not acked yet."""
        host = self._host_of(reservation.queue)
        self._in_flight[host] -= 1
        if self._in_flight[host] <= 0:
            del self._in_flight[host]
        if host in self._sent:
            self._sent[host].discard(reservation.key)
            if not self._sent[host]:
                del self._sent[host]
        self._wake.set()

    def forget(self, reservation: Reservation) -> None:
        """Forget *reservation*: it is acked, buried or given back."""
        self.open.pop(reservation.key, None)

    def note_ready(self, partition: int, queues: Iterable[str]) -> None:
        """Note that *queues* of *partition* have something ready; or `DUE`."""
        known = self._known[partition]
        for queue in queues:
            if queue == DUE:
                self._node.due_times.note(partition)
            else:
                known.setdefault(queue, 1)
                self._became_ready.add((partition, queue))
        self._wake.set()

    def busy_partitions(self) -> set[int]:
        """Those with a reservation that is neither acked nor given back."""
        return {reservation.lease.partition for reservation in self.open.values()}

    def open_by_partition(self) -> Counter[int]:
        """How many reservations of the store this node has, or keeps, by partition."""
        stored = {key[::2] for key in self.open if key[2] > 0}
        return Counter(partition for partition, _ in stored | self.kept.keys())

    @property
    def is_asked(self) -> bool:
        """Whether others have asked for partitions, which nobody has taken note of."""
        return bool(self._wanted)

    def take_wanted(self) -> set[int]:
        """Partitions that others have asked for since this was called last."""
        wanted, self._wanted = self._wanted, set()
        return wanted

    def knows(self, partition: int) -> bool:
        """Whether anything is known to be ready in *partition*."""
        return bool(self._known.get(partition) or self._left_alone.get(partition))

    async def load_queues(self, partitions: Iterable[int]) -> None:
        """Learn the queues of *partitions* from the store."""
        looked = list(partitions)
        calls = [
            Call.command("ZRANGE", self._keys.partition(p).queues, 0, MAX_QUEUES - 1)
            for p in looked
        ]
        replies = await self._outage_retry.retry(calls)
        for partition, names in zip(looked, replies, strict=True):
            self.note_ready(partition, filter(None, map(readable, names)))
            if strange := [name for name in names if not readable(name)]:
                queues = self._keys.partition(partition).queues
                reason = f"{strange[0][:100]!r} is not the name of a queue"
                raise KeyDamaged("", queues, reason)

    def lose(self, leases: Iterable[Lease]) -> int:
        """Forget *leases*, and what is reserved under them; how much was started."""
        which = set()
        for lease in leases:
            self._leases.forget(lease)
            for known in (self._known, self._left_alone, self._unsure):
                known.pop(lease.partition, None)
            which.add((lease.partition, lease.token))  # partitions may have equal ones
        here = (*self._waiting, *self._withdrawn)
        waiting = {id(r) for r in here if r.key[:2] in which}
        self._withdrawn = [r for r in self._withdrawn if id(r) not in waiting]
        self._waiting = deque(r for r in self._waiting if id(r) not in waiting)
        lost = [r for r in self.open.values() if r.key[:2] in which]
        for reservation in lost:
            if id(reservation) in waiting:
                self._drop(reservation)
            else:
                self.forget(reservation)
        return len(lost) - len(waiting)

    def lose_all(self, leases: Sequence[Lease]) -> None:
        """Do so, and say it, where others have the partitions of *leases*."""
        if not leases:
            return
        logger.warning(
            "the leases on %d partitions are lost (%s%s); %d requests that were "
            "under way will be fetched again by their new holders",
            len(leases),
            ", ".join(str(lease.partition) for lease in leases[:NAMED]),
            ", ..." if len(leases) > NAMED else "",
            self.lose(leases),
        )

    async def give_back(self, partitions: Iterable[int]) -> None:
        """Requeue what is reserved in *partitions* and was not handed out."""
        chosen = set(partitions)
        back = [r for r in self._waiting if r.lease.partition in chosen]
        kept = (r for r in self._waiting if r.lease.partition not in chosen)
        self._waiting = deque(kept)
        await self.put_back(back)
        for partition in chosen:
            self._known.pop(partition, None)
            self._left_alone.pop(partition, None)

    async def put_back(self, back: Sequence[Reservation]) -> None:
        """Requeue *back*, none of which counts as delivered by that."""
        await self.requeue([reservation for reservation in back if reservation.id > 0])
        for reservation in back:
            self._drop(reservation)

    async def requeue(self, back: Sequence[Reservation]) -> None:
        """Have the store requeue *back*, which are in it."""
        by_lease: dict[tuple[int, int], list[Reservation]] = defaultdict(list)
        for reservation in back:
            lease = reservation.lease
            by_lease[lease.partition, lease.token].append(reservation)
        calls: list[tuple[Lease, Call]] = []
        for (partition, _), group in by_lease.items():
            entries = [(r.id, r.queue) for r in group]
            keys, lease = self._keys.partition(partition), group[0].lease
            calls += (
                (lease, call)
                for call in requeue_calls(keys, lease, self._order, entries)
            )
        await self.send_fenced(calls, requeued)

    def wait(self, delivery: Delivery) -> None:
        """Have *delivery*, which is adopted, wait here for its turn."""
        delivery.reservation = None
        if self._node.deliveries.has_lost(delivery):
            self._node.deliveries.end(delivery)
            return
        queues = self._local.setdefault(delivery.partition, {})
        queues.setdefault(delivery.queue, deque()).append(delivery)
        self._wake.set()

    @property
    def local_partitions(self) -> set[int]:
        """Those of what is adopted and waits here."""
        return set(self._local)

    def drop_lost(self) -> None:
        """Forget what waits here and is for others to make again."""
        for partition, queues in list(self._local.items()):
            for queue, waiting in list(queues.items()):
                lost = [one for one in waiting if self._node.deliveries.has_lost(one)]
                rest = (
                    one for one in waiting if not self._node.deliveries.has_lost(one)
                )
                self._set_local(partition, queue, deque(rest))
                for one in lost:
                    self._node.deliveries.end(one)

    def _set_local(self, partition: int, queue: str, waiting: deque[Delivery]) -> None:
        queues = self._local[partition]
        queues[queue] = waiting
        if not waiting:
            del queues[queue]
        if not queues:
            del self._local[partition]

    def _take_local(
        self, lease: Lease, wanted: dict[str, int], left: dict[str, int]
    ) -> list[Reservation]:
        """Up to as many as *wanted* of what waits here; adds to what is *left*."""
        made: list[Reservation] = []
        local = self._local.get(lease.partition, {})
        for queue in local.keys() & wanted.keys():
            waiting = local[queue]
            for _ in range(min(wanted[queue], len(waiting))):
                self._last_local -= 1
                one = waiting.popleft()
                made.append(Reservation(lease, self._last_local, queue, b"0", one))
            left[queue] += len(waiting)
            self._set_local(lease.partition, queue, waiting)
        return made

    async def send_fenced(
        self,
        asked: Sequence[tuple[Lease, Call]],
        on_reply: Callable[[Any, Lease], object],
    ) -> set[tuple[int, int]]:
        """Send calls that the store refuses without a lease.

        Those whose lease is forgotten meanwhile are not sent: a store that went back
        may know it still. *on_reply* raises `LeaseLost` for a refusal. Returns the
        partitions and tokens of leases that are lost.
        """
        waits = pauses()
        while True:
            unsent = [one for one in asked if not self._is_held(one[0])]
            sent = [one for one in asked if self._is_held(one[0])]
            try:
                replies = await self._outage_retry.call([call for _, call in sent])
                break
            except StoreUnavailable:
                await asyncio.sleep(next(waits))
        refused = [lease for lease, _ in unsent]
        for (lease, _), reply in zip(sent, replies, strict=True):
            try:
                on_reply(reply, lease)
            except LeaseLost:
                refused.append(lease)
        self.lose_all([one for one in dict.fromkeys(refused) if self._is_held(one)])
        return {(lease.partition, lease.token) for lease in refused}

    def _is_held(self, lease: Lease) -> bool:
        held = self._leases.held.get(lease.partition)
        return held is not None and held.token == lease.token

    async def run(self) -> None:
        """Reserve whenever there is room, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._wake.wait()
            self._wake.clear()
            if self.stopped:
                continue
            if self._withdrawn:
                await self._put_back_withdrawn()
            if self._unsure:
                unsure, self._unsure = self._unsure, {}
                await self.reclaim(dict.fromkeys(unsure.values()))
            if self.paused or self._usable() > self._size // 2:
                continue
            await self._read_hints()
            while not (self.stopped or self.paused):
                wanted = self._choose()
                is_less = bool(self._over) and await self._skip()
                async with self._asking:
                    is_more = await self._reserve(wanted) if wanted else is_less
                if not is_more:
                    break

    async def _put_back_withdrawn(self) -> None:
        """Have URLs of hosts that are left alone wait in the store."""
        back, self._withdrawn = self._withdrawn, []
        await self.put_back(back)
        for reservation in back:
            self.note_ready(reservation.lease.partition, [reservation.queue])

    async def _skip(self) -> bool:
        """Take what is over a quota out of its queues; whether there was anything."""
        over, self._over = self._over, []
        self._became_ready.clear()
        counts = await self._hosts.skip(over)
        for (lease, queue), count in zip(over, counts, strict=True):
            if local := self._local.get(lease.partition, {}).get(queue):
                self._set_local(lease.partition, queue, deque())
                for one in local:
                    self._node.deliveries.end(one)
            if not count and (lease.partition, queue) not in self._became_ready:
                self._known[lease.partition].pop(queue, None)
        return any(counts)

    async def _read_hints(self) -> None:
        key = self._keys.hints(self._node.config.node_id)
        call = Call.command("LPOP", key, MAX_QUEUES)
        (hints,) = await self._outage_retry.retry([call])
        for hint in hints or ():
            try:
                partition, _, queue = hint.decode().partition(" ")
                if queue not in {DUE, WANTED}:
                    split_name(queue)
                if int(partition) not in range(self._node.config.partitions):
                    raise ValueError  # noqa: TRY301 (of the same kind as the others)
                if queue == WANTED:
                    self._wanted.add(int(partition))
                else:
                    self.note_ready(int(partition), [queue])
            except (CodecError, ValueError):
                logger.warning("ignored an invalid hint: %r", hint[:200])

    def _choose(self) -> dict[int, dict[str, int]]:
        """How many to reserve from which queues, by partition."""
        room = self._size - self._usable()
        if room <= 0:
            return {}
        candidates = self._askable()
        if not candidates:
            return {}
        wanted: dict[int, dict[str, int]] = defaultdict(dict)
        planned: dict[str, int] = defaultdict(int)
        share, cap = max(1, room // len(candidates)), self._concurrency.reserved()
        for partition, _, queue_key, queue in candidates:
            if partition not in wanted and len(wanted) >= MAX_PARTITIONS:
                continue
            host, most = self._hosts.named(queue_key), self._hosts.most(queue_key)
            lease = self._leases.current(partition)
            if not most and lease is not None:
                self._over.append((lease, queue))
            free = min(cap, most) - self._in_flight.get(host, 0)
            free = min(free, self._may_wait(queue_key, host)) - planned[host]
            count = int(min(share, free, room))
            if count > 0:
                wanted[partition][queue] = count
                planned[host] += count
                room -= count
            if room <= 0:
                break
        return dict(wanted)

    def _askable(self) -> list[tuple[int, int, str, str]]:
        """The candidates whose hosts may be asked now; the others are set apart."""
        now = time.monotonic()
        while self._ends and self._ends[0][0] <= now:
            _, partition, queue = heapq.heappop(self._ends)
            if queue in self._left_alone.get(partition, ()):
                count = self._left_alone[partition].pop(queue)
                self._known[partition].setdefault(queue, count)
        while True:
            candidates = self._candidates()
            apart = [c for c in candidates if self._is_left_alone(c[3])]
            if not apart:
                return candidates
            for partition, _, queue_key, queue in apart:
                count = self._known[partition].pop(queue)
                if queue not in self._left_alone[partition]:
                    end = (self._hosts.turn(queue_key), partition, queue)
                    heapq.heappush(self._ends, end)
                self._left_alone[partition][queue] = count

    def look_again(self) -> None:
        """Have queues that are set apart be looked at before their time."""
        for partition, queues in self._left_alone.items():
            for queue in queues:
                self._known[partition].setdefault(queue, 1)
        self._left_alone.clear()
        self._ends.clear()
        self._wake.set()

    def _know_local(self) -> None:
        """Have queues in which something waits here be among those that are known."""
        for partition, queues in self._local.items():
            if self._leases.current(partition) is not None:
                apart = self._left_alone.get(partition, {})
                for queue in queues.keys() - apart.keys():
                    self._known[partition].setdefault(queue, 1)

    def _candidates(self) -> list[tuple[int, int, str, str]]:
        """Partition, priority, queue key and queue of some that may be taken.

        Partitions take turns, and only so many queues are looked at that
        choosing stays quick where thousands of hosts are waiting.
        """
        self._know_local()
        partitions = [p for p, queues in self._known.items() if queues]
        if not partitions:
            return []
        first = self._turn % len(partitions)
        found: list[tuple[int, int, str, str]] = []
        for partition in partitions[first:] + partitions[:first]:
            self._turn += 1
            if partition in self.handing_over:
                continue
            lease = self._leases.current(partition)
            if lease is None:
                continue
            queues = list(self._known[partition])
            start = self._turn % len(queues)
            found += [
                (partition, *split_name(queue), queue)
                for queue in (queues[start:] + queues[:start])[:MAX_CANDIDATES]
            ]
            if len(found) >= MAX_CANDIDATES:
                break
        found.sort(key=lambda candidate: -candidate[1])
        return found

    async def _reserve(self, wanted: dict[int, dict[str, int]]) -> int:
        """Reserve what is *wanted*; how much it was, or that hosts were learned of."""
        leases, unread, local = {}, {}, {}
        calls = []
        for partition in list(wanted):
            lease = self._leases.current(partition)
            if lease is None:
                del wanted[partition]
                continue
            leases[partition] = lease
            keys, queues = self._keys.partition(partition), wanted[partition]
            names = unread[partition] = self._hosts.unread(queues)
            if here := self._local.get(partition):
                local[partition] = {
                    queue: min(count, len(here.get(queue, ())))
                    for queue, count in queues.items()
                }
                queues = {q: n - local[partition][q] for q, n in queues.items()}
            calls.append(reserve_call(keys, lease, self._order, queues, names))
        self._became_ready.clear()
        try:
            replies = await self._outage_retry.call(calls)
        except StoreUnavailable:  # what a second call would reserve, too
            self._unsure |= leases
            self._wake.set()
            return 0
        found, learned, refused = 0, 0, []
        for (partition, queues), reply in zip(wanted.items(), replies, strict=True):
            try:
                made, left = reserved(reply, leases[partition], queues)
                if partition in local:
                    made += self._take_local(leases[partition], local[partition], left)
            except LeaseLost:
                refused.append(leases[partition])
                continue
            except HostsUnread as told:
                self._hosts.read(leases[partition], unread[partition], told)
                learned += 1
                continue
            found += len(made)
            self._note(partition, made, left)
        self.lose_all(refused)
        if found:
            self._node.owner.on_ready()
        return found + learned

    def _note(
        self, partition: int, made: list[Reservation], left: dict[str, int]
    ) -> None:
        known = self._known[partition]
        for queue, count in left.items():
            if count:
                known[queue] = count
            elif (partition, queue) not in self._became_ready:
                known.pop(queue, None)
        self.adopt(made)
        self._waiting.extend(made)

    def adopt(self, made: Iterable[Reservation]) -> None:
        """Count *made* as in flight here, until `finish`, and open, until `forget`."""
        for reservation in made:
            self.open[reservation.key] = reservation
            self._in_flight[self._host_of(reservation.queue)] += 1

    def doubt(self, partitions: Iterable[int]) -> None:
        """Have what may be reserved in *partitions*, and is not known here, put back.

        A call that made it may have been executed after its reply was given up. Only
        `run` does it: beside a call that reserves, that would be unknown as well.
        """
        found = {p: lease for p in partitions if (lease := self._leases.current(p))}
        if found:
            self._unsure |= found
            self._wake.set()

    async def reclaim(self, leases: Mapping[Lease, Seen | None]) -> None:
        """Put back what nobody has any more in the partitions of *leases*.

        That is what lost replies have reserved, what was kept by somebody who is gone
        and, where a lease was just taken, what whoever had it before had reserved.
        """
        async with self._asking:
            calls: list[tuple[Lease, Call]] = []
            queues: dict[int, set[str]] = {}
            for lease, entries, marks in await self._abandoned(leases):
                former = leases[lease] or NOBODY
                names = {former.holder, *(entry.keeper for entry in entries)}
                notes = await self._notes(names - {""})
                own = set()  # of which nobody has died: the store went back
                if self._leases.life.is_own(former.holder):
                    own = {b"%d" % e.id for e in entries if e.token == former.token}
                which = lease.partition, entries, {*marks} - own, former, notes
                keys = self._keys.partition(lease.partition)
                for blame, why, back in weighed(*which):
                    ask = requeue_calls(keys, lease, self._order, back, blame, why)
                    calls += ((lease, call) for call in ask)
                self.reclaimed += len(entries) - len(own) if leases[lease] else 0
                queues[lease.partition] = {entry.queue for entry in entries}
            await self.send_fenced(calls, requeued)
            fresh = [one for one, former in leases.items() if former is not None]
            await self._outage_retry.retry(
                [forget_call(self._keys.partition(one.partition)) for one in fresh]
            )
            for partition, ready in queues.items():
                if partition in self._leases.held:
                    self.note_ready(partition, ready)

    async def _abandoned(
        self, leases: Iterable[Lease]
    ) -> list[tuple[Lease, list[Reserved], list[bytes]]]:
        """What nobody has under *leases*, and what was started there."""
        asked = [(one, self._keys.partition(one.partition)) for one in leases]
        replies = await self._outage_retry.retry(
            [ask(keys) for _, keys in asked for ask in (list_reserved, started_call)]
        )
        found = []
        for (lease, keys), reply, started in zip(
            asked, replies[::2], replies[1::2], strict=True
        ):
            try:
                entries = entries_in(reply)
            except CodecError as error:
                raise KeyDamaged("", keys.reserved, str(error)) from None
            gone = [one for one in entries if self._is_abandoned(one, lease)]
            found.append((lease, gone, started))
        return found

    def _is_abandoned(self, entry: Reserved, lease: Lease) -> bool:
        """Whether nobody has *entry*, or keeps it, any more."""
        if entry.keeper not in {"", self._leases.name}:
            return self._leases.is_gone(entry.keeper)
        if (lease.partition, entry.id) in self.kept:  # since the reply was made, too
            return False
        key = (lease.partition, lease.token, entry.id)
        return bool(entry.keeper) or (
            entry.token <= lease.token and key not in self.open
        )

    async def _notes(self, holders: Iterable[str]) -> dict[str, Ran]:
        """What ran in those of *holders* whose watchdogs have noted that."""
        names = sorted(holders)
        if not names:
            return {}
        (notes,) = await self._outage_retry.retry([notes_call(self._keys, names)])
        found = zip(names, map(ran_of, notes), strict=True)
        return {name: ran for name, ran in found if ran}

    def _drop(self, reservation: Reservation) -> None:
        """Forget *reservation*, which was not handed out; what is adopted waits on."""
        self.finish(reservation)
        self.forget(reservation)
        if reservation.id < 0:
            self.wait(reservation.delivery)
