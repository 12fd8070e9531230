"""The inbox: URLs that this node has reserved and will start soon.

What always holds:

1.  Only partitions whose lease is current are reserved from, and only a
    reservation whose lease is current is handed out.
2.  No host has more reservations in flight here than the cap, whatever its shards, so
    that a slow one cannot fill the node. A host that waits for its turn
    (`frontier.node.hosts`) has at most one request waiting here, and a host that is
    left alone has none: what was reserved of it goes back.
3.  A reservation is open here from the reply that made it until `forget`, and in
    flight until `finish`.
4.  Adopted deliveries (`frontier.node.deliveries`) come before what the store has in
    the same queue, and the two are counted together.
5.  Nothing is reserved of a host over its quota: its URLs leave the queue.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

from frontier.errors import LeaseLost, StoreUnavailable
from frontier.node.context import happens
from frontier.node.delivery import Delivery
from frontier.node.hosts import LONG
from frontier.node.ready_queues import WANTED, read_hints, take_hints_call
from frontier.queue.due import DUE
from frontier.queue.priority import split_name
from frontier.queue.reserve import (
    Reservation,
    requeue_calls,
    reserve_call,
    reserved,
)
from frontier.status.text import counted
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontier.model import Lease
    from frontier.node.node import Node
    from frontier.store.client import Call

logger = logging.getLogger(__name__)

POLL = 0.05
"""Seconds between looks at the hints while there is room."""
MAX_PARTITIONS = 32
"""Partitions reserved from in one round trip."""
NAMED = 5
"""Partitions that one line of the log names."""


class Inbox:
    """Reserves URLs ahead of the engine's need."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._outage_retry = node.outage_retry
        self._keys = node.keys
        self._leases = node.leases
        self._hosts = node.hosts
        self._ready = node.ready
        self._order = node.config.order
        self._concurrency = node.host_concurrency
        self._size = self._concurrency.waiting
        self._waiting: deque[Reservation] = deque()
        self._withdrawn: list[Reservation] = []
        """Reservations that go back to the store: their hosts may not be asked yet."""
        self._last_local = 0
        """The id of the last reservation that no store has."""
        self._in_flight: Counter[str] = Counter()
        """Reservations in flight, by host."""
        self._sent: dict[str, set[tuple[int, int, int]]] = defaultdict(set)
        """Those in flight whose requests were sent, by host; of long delays only."""
        self.open: dict[tuple[int, int, int], Reservation] = {}
        """Reservations that are neither acked nor given back, by their keys."""
        self.stopped = False

    @property
    def _rests(self) -> bool:
        """Whether nothing is reserved for now."""
        return self.stopped or self._node.controls.paused or self._node.uplink.waits

    @property
    def idle(self) -> bool:
        """Whether nothing is reserved here and nothing is known to be ready."""
        held = self._leases.held  # a late hint may be about what another node has
        waits = self.open or self._node.deliveries.waiting
        return not (waits or any(map(self._ready.knows, held)))

    def __len__(self) -> int:
        return len(self._waiting)

    # What is handed out, and what became of it.

    def take(self) -> Reservation | None:
        """Hand out the next reservation, or ``None`` if none may be started."""
        kept: list[Reservation] = []  # the lease is held, but not reliable just now
        found = None
        while self._waiting and found is None:
            reservation = self._waiting.popleft()
            if self._leases.covers(reservation.lease):
                turn = self._hosts.turn(split_name(reservation.queue)[1])
                if turn > time.monotonic():
                    self._withdrawn.append(reservation)
                else:
                    found = reservation
            elif self._leases.holds(reservation.lease):
                kept.append(reservation)
            else:
                self._drop(reservation)
        self._waiting.extendleft(reversed(kept))
        if found is not None:
            found.delivery = found.delivery or Delivery()
            found.delivery.reservation = found
        if len(self._waiting) - len(kept) <= self._size // 2 or self._withdrawn:
            self._ready.changed.set()
        return found

    def sent(self, reservation: Reservation, delay: float) -> None:
        """Note that the request of *reservation* was sent; see `Hosts.sent`."""
        self._hosts.sent(reservation, delay)
        if delay >= LONG:
            self._sent[self._host_of(reservation)].add(reservation.key)

    def register(self, made: Iterable[Reservation]) -> None:
        """Count *made* as in flight here, until `finish`, and open, until `forget`."""
        for reservation in made:
            self.open[reservation.key] = reservation
            self._in_flight[self._host_of(reservation)] += 1

    def finish(self, reservation: Reservation) -> None:
        """Count *reservation* as no longer in flight; it is not acked yet."""
        host = self._host_of(reservation)
        self._in_flight[host] -= 1
        if self._in_flight[host] <= 0:
            del self._in_flight[host]
        if host in self._sent:
            self._sent[host].discard(reservation.key)
            if not self._sent[host]:
                del self._sent[host]
        self._ready.changed.set()

    def _host_of(self, reservation: Reservation) -> str:
        return self._hosts.named(split_name(reservation.queue)[1])

    def forget(self, reservation: Reservation) -> None:
        """Forget *reservation*: it is acked, buried or given back."""
        self.open.pop(reservation.key, None)

    def _drop(self, reservation: Reservation) -> None:
        """Forget *reservation*, which was not handed out; if adopted, it waits on."""
        self.finish(reservation)
        self.forget(reservation)
        if reservation.id < 0:
            self._node.deliveries.wait(reservation.delivery)

    def busy_partitions(self) -> set[int]:
        """Partitions with a reservation that is neither acked nor given back."""
        return {reservation.lease.partition for reservation in self.open.values()}

    # What is lost, or goes back.

    def lose(self, leases: Iterable[Lease]) -> int:
        """Forget *leases*, and what is reserved under them; return how many started."""
        which = set()
        for lease in leases:
            self._leases.forget(lease)
            self._ready.forget(lease.partition)
            which.add((lease.partition, lease.token))  # tokens recur across partitions
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
        """Forget *leases*, whose partitions others have now, and log it; see `lose`."""
        if not leases:
            return
        logger.warning(
            "the leases on %s are lost (%s%s); %s that were under way will be fetched "
            "again by their new holders",
            counted(len(leases), "partition"),
            ", ".join(str(lease.partition) for lease in leases[:NAMED]),
            ", ..." if len(leases) > NAMED else "",
            counted(self.lose(leases), "request"),
        )

    async def give_back(self, partitions: Iterable[int]) -> None:
        """Requeue what is reserved in *partitions* and was not handed out."""
        chosen = set(partitions)
        back = [r for r in self._waiting if r.lease.partition in chosen]
        kept = (r for r in self._waiting if r.lease.partition not in chosen)
        self._waiting = deque(kept)
        await self.put_back(back)
        for partition in chosen:
            self._ready.forget(partition)

    async def put_back(self, back: Sequence[Reservation]) -> None:
        """Requeue *back*, without counting this as a delivery."""
        await self.requeue([reservation for reservation in back if reservation.id > 0])
        for reservation in back:
            self._drop(reservation)
            self._ready.note(reservation.lease.partition, [reservation.queue])

    async def requeue(self, back: Sequence[Reservation]) -> None:
        """Have the store requeue *back*, all of which it has."""
        by_lease: dict[tuple[int, int], list[Reservation]] = defaultdict(list)
        for reservation in back:
            by_lease[reservation.key[:2]].append(reservation)
        calls: list[tuple[Lease, Call]] = []
        for (partition, _), group in by_lease.items():
            entries = [(r.id, r.queue) for r in group]
            keys, lease = self._keys.partition(partition), group[0].lease
            calls += (
                (lease, call)
                for call in requeue_calls(keys, lease, self._order, entries)
            )
        await self.send_fenced(calls)

    async def send_fenced(
        self,
        asked: Sequence[tuple[Lease, Call]],
        on_reply: Callable[[Any, Lease], object] = lambda _, __: None,
    ) -> set[tuple[int, int]]:
        """Send calls that the store refuses without a lease.

        A call whose lease was forgotten meanwhile is not sent: a store that went back
        may still accept it. *on_reply* is given the replies of those that were not
        refused. Returns the partitions and tokens of leases that are lost.
        """
        waits = pauses()
        while True:
            unsent = [one for one in asked if not self._leases.holds(one[0])]
            sent = [one for one in asked if self._leases.holds(one[0])]
            try:
                replies = await self._outage_retry.call([call for _, call in sent])
                break
            except StoreUnavailable:
                await asyncio.sleep(next(waits))
        refused = [lease for lease, _ in unsent]
        for (lease, _), reply in zip(sent, replies, strict=True):
            if reply is None:
                refused.append(lease)
            else:
                on_reply(reply, lease)
        self.lose_all(
            [one for one in dict.fromkeys(refused) if self._leases.holds(one)]
        )
        return {(lease.partition, lease.token) for lease in refused}

    # What is reserved.

    async def run(self) -> None:
        """Reserve whenever there is room, until cancelled."""
        while True:
            await happens(self._ready.changed, POLL)
            self._ready.changed.clear()
            if self.stopped:
                continue
            if self._withdrawn:
                back, self._withdrawn = self._withdrawn, []
                await self.put_back(back)
            await self._node.reclaim.settle()
            if self._rests or self._usable() > self._size // 2:
                continue
            await self._heed_hints()
            while not self._rests and await self.fill():
                pass

    async def _heed_hints(self) -> None:
        call = take_hints_call(self._keys, self._node.config.node_id)
        reply = await self._node.answer(call)
        for partition, queue in read_hints(reply, self._node.config.partitions):
            self.heed(partition, queue)

    def heed(self, partition: int, queue: str) -> None:
        """Note what a hint says of *partition*: a queue, `DUE` or `WANTED`."""
        if queue == WANTED:
            self._node.borrow.wanted.add(partition)
        elif queue == DUE:
            self._node.due_times.note(partition)
        else:
            self._ready.note(partition, [queue])

    async def fill(self) -> bool:
        """Reserve what there is room for; return whether there may be more."""
        wanted, over = self._choose()
        is_more = bool(over) and await self._skip(over)
        if wanted:
            async with self._node.reclaim.lock:
                is_more = await self._reserve(wanted)
        return is_more

    def _usable(self) -> int:
        """How many of those that wait may be started now."""
        return sum(self._leases.covers(r.lease) for r in self._waiting)

    def _choose(self) -> tuple[dict[int, dict[str, int]], list[tuple[Lease, str]]]:
        """How many to reserve of each queue, by partition; and queues over a quota."""
        wanted: dict[int, dict[str, int]] = {}
        over: list[tuple[Lease, str]] = []
        room = self._size - self._usable()
        if room <= 0:
            return wanted, over
        for partition, queues in self._node.deliveries.waiting.items():
            self._ready.include(partition, queues)
        candidates = self._ready.candidates()
        share = max(1, room // max(1, len(candidates)))
        planned: Counter[str] = Counter()
        for lease, _, queue_key, queue in candidates:
            if lease.partition not in wanted and len(wanted) >= MAX_PARTITIONS:
                continue
            most, host = self._hosts.most(queue_key), self._hosts.named(queue_key)
            if not most:
                over.append((lease, queue))
            free = min(most, self._concurrency.reserved()) - self._in_flight[host]
            free = min(free, self._may_wait(queue_key, host)) - planned[host]
            count = int(min(share, free, room))
            if count > 0:
                wanted.setdefault(lease.partition, {})[queue] = count
                planned[host] += count
                room -= count
            if room <= 0:
                break
        return wanted, over

    def _may_wait(self, queue_key: str, host: str) -> float:
        """How many more URLs of *queue_key* may wait here for their turn."""
        if not self._hosts.is_slow(queue_key) and not self._concurrency.is_slow:
            return math.inf
        sent = len(self._sent[host]) if host in self._sent else 0
        return 1 - (self._in_flight[host] - sent)

    async def _skip(self, over: Sequence[tuple[Lease, str]]) -> bool:
        """Take URLs from the queues *over* a quota; return whether there were any."""
        self._ready.ask()
        counts = await self._hosts.skip(over)
        for (lease, queue), count in zip(over, counts, strict=True):
            for one in self._node.deliveries.take(lease.partition, queue):
                self._node.deliveries.end(one)
            if not count:
                self._ready.empty(lease.partition, queue)
        return any(counts)

    async def _reserve(self, wanted: dict[int, dict[str, int]]) -> bool:
        """Reserve what is *wanted*; return whether any was."""
        asked, calls = [], []
        for lease in filter(None, map(self._leases.current, wanted)):
            queues = wanted[lease.partition]
            here = self._node.deliveries.counts(lease.partition)
            of_store = {q: max(0, n - here.get(q, 0)) for q, n in queues.items()}
            keys = self._keys.partition(lease.partition)
            calls.append(reserve_call(keys, lease, self._order, of_store))
            asked.append((lease, of_store))
        self._ready.ask()
        try:
            replies = await self._outage_retry.call(calls)
        except StoreUnavailable:  # a second call might reserve twice as much
            self._node.reclaim.doubt(lease for lease, _ in asked)
            return False
        count, refused = 0, []
        for (lease, of_store), reply in zip(asked, replies, strict=True):
            try:
                made, left = reserved(reply, lease, of_store)
            except LeaseLost:
                refused.append(lease)
                continue
            for queue, most in wanted[lease.partition].items():
                made += self._take_adopted(lease, queue, most - of_store[queue])
                if not left[queue]:
                    self._ready.empty(lease.partition, queue)
            self.register(made)
            self._waiting.extend(made)
            count += len(made)
        self.lose_all(refused)
        if count:
            self._node.owner.on_ready()
        return count > 0

    def _take_adopted(self, lease: Lease, queue: str, most: int) -> list[Reservation]:
        taken = self._node.deliveries.take(lease.partition, queue, most)
        first, self._last_local = self._last_local, self._last_local - len(taken)
        return [
            Reservation(lease, first - number, queue, b"0", one)
            for number, one in enumerate(taken, 1)
        ]
