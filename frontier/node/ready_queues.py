"""The queues from which something may be reserved, and hints about them.

A node whose push makes a queue ready in a partition of another node leaves a *hint* for
that node: ``<partition> <queue>``. A hint may be lost or late, and anybody may have
written it; a look at all partitions finds what hints missed
(`frontier.node.heartbeat`).

What always holds:

1.  A queue is known from a hint, a look or a reply until a reply says that it is empty.
    A reply does not count against a queue that was noted after the call was sent: it
    may be older than that news.
2.  Queues take turns, higher priorities first. Only a limited number are looked at, so
    that choosing stays quick where thousands of hosts are waiting.
3.  Queues of hosts that are left alone, or wait for their next turn
    (`frontier.node.hosts`), are set apart until these may be asked. So hosts that wait
    take no room from others.
4.  Nothing is chosen from a partition that is being handed over, or whose lease is not
    current.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from frontier.errors import CodecError, KeyDamaged
from frontier.queue.due import DUE
from frontier.queue.priority import readable, split_name
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frontier.cluster.ring import Ring
    from frontier.model import Lease
    from frontier.node.node import Node
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

WANTED = "wanted"
"""What a hint says instead of a queue if another node wants the partition: its holder
is to give it up, and may not know that it has it."""
MOST_HINTS = 1000
"""Hints per call."""
MAX_QUEUES = 1000
"""The most queues of one partition that one look learns."""
MAX_CANDIDATES = 256
"""How many candidates are enough to choose from."""


class Candidate(NamedTuple):
    """A queue that may be reserved from now."""

    lease: Lease
    priority: int
    queue_key: str
    queue: str


class ReadyQueues:
    """Knows which queues have something, and whose turn it is."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._leases = node.leases
        self._hosts = node.hosts
        self._ready: dict[int, dict[str, None]] = defaultdict(dict)
        """Queues that may have something, by partition, in the order of their turns."""
        self._apart: dict[int, dict[str, float]] = defaultdict(dict)
        """Queues that are set apart, by partition, and until when."""
        self._ends: list[tuple[float, int, str]] = []
        """The same, as a heap."""
        self._news: set[tuple[int, str]] = set()
        """Queues noted since the last call whose reply may say that they are empty."""
        self._turn = 0
        self.handing_over: set[int] = set()
        """Partitions that are being handed over."""
        self.changed = asyncio.Event()
        """Set when there may be more to do for the inbox."""

    def note(self, partition: int, queues: Iterable[str]) -> None:
        """Note that *queues* of *partition* have something ready."""
        for queue in queues:
            self._ready[partition][queue] = None
            self._news.add((partition, queue))
        self.changed.set()

    def include(self, partition: int, queues: Iterable[str]) -> None:
        """Make *queues* candidates, as adopted deliveries wait there.

        This is called before each choice, so it need not set `changed`.
        """
        if self._leases.current(partition) is not None:
            apart = self._apart.get(partition, {})
            rest = (queue for queue in queues if queue not in apart)
            self._ready[partition] |= dict.fromkeys(rest)

    async def load(self, partitions: Iterable[int]) -> None:
        """Learn the queues of *partitions* from the store.

        Raises:
            KeyDamaged: An entry there is not the name of a queue.
        """
        looked = [(p, self._keys.partition(p).queues) for p in partitions]
        calls = [Call.command("ZRANGE", key, 0, MAX_QUEUES - 1) for _, key in looked]
        replies = await self._node.run(calls)
        for (partition, key), names in zip(looked, replies, strict=True):
            self.note(partition, filter(None, map(readable, names)))
            if strange := [name for name in names if not readable(name)]:
                reason = f"{strange[0][:100]!r} is not the name of a queue"
                raise KeyDamaged("", key, reason)

    def knows(self, partition: int) -> bool:
        """Whether anything is known to be ready in *partition*."""
        return bool(self._ready.get(partition) or self._apart.get(partition))

    def forget(self, partition: int) -> None:
        """Forget the queues of *partition*: another node has it, or will."""
        self._ready.pop(partition, None)
        self._apart.pop(partition, None)

    def ask(self) -> None:
        """Note that a call is sent whose reply may say that queues are empty."""
        self._news.clear()

    def empty(self, partition: int, queue: str) -> None:
        """Note that *queue* had nothing left when that call was executed."""
        if (partition, queue) not in self._news:
            self._ready[partition].pop(queue, None)

    def look_again(self) -> None:
        """Look at the queues that are set apart before their time."""
        for partition, queues in self._apart.items():
            self._ready[partition] |= dict.fromkeys(queues)
        self._apart.clear()
        self._ends.clear()
        self.changed.set()

    def candidates(self) -> list[Candidate]:
        """Some queues that may be reserved from, the highest priority first."""
        now = time.monotonic()
        while self._ends and self._ends[0][0] <= now:
            _, partition, queue = heapq.heappop(self._ends)
            if self._apart.get(partition, {}).pop(queue, None):
                self._ready[partition].setdefault(queue)
        partitions = [p for p, queues in self._ready.items() if queues]
        first = self._turn % max(1, len(partitions))
        found: list[Candidate] = []
        for partition in partitions[first:] + partitions[:first]:
            lease = self._leases.current(partition)
            self._turn += 1
            if lease is None or partition in self.handing_over:
                continue
            found += self._candidates_of(lease, now)
            if len(found) >= MAX_CANDIDATES:
                break
        found.sort(key=lambda candidate: -candidate.priority)
        return found

    def _candidates_of(self, lease: Lease, now: float) -> list[Candidate]:
        found: list[Candidate] = []
        queues = list(self._ready[lease.partition])
        first = self._turn % len(queues)
        for queue in queues[first:] + queues[:first]:
            priority, queue_key = split_name(queue)
            turn = self._hosts.turn(queue_key)
            if turn > now:
                self._set_apart(lease.partition, queue, turn)
                continue
            found.append(Candidate(lease, priority, queue_key, queue))
            if len(found) >= MAX_CANDIDATES:
                break
        return found

    def _set_apart(self, partition: int, queue: str, until: float) -> None:
        del self._ready[partition][queue]
        if queue not in self._apart[partition]:  # else it was noted while set apart
            self._apart[partition][queue] = until
            heapq.heappush(self._ends, (until, partition, queue))


def hint_calls(
    keys: CrawlKeys, hints: Mapping[str, Sequence[str]], kept_ms: int
) -> list[Call]:
    """The calls that leave *hints*, lines by node, to be kept for *kept_ms*."""
    return [
        Call.txn(
            [(("EXISTS", keys.meta), 1)],
            [
                ("RPUSH", keys.hints(node_id), *lines[i : i + MOST_HINTS]),
                ("PEXPIRE", keys.hints(node_id), kept_ms),
            ],
        )
        for node_id, lines in hints.items()
        for i in range(0, len(lines), MOST_HINTS)
    ]


def hints_of(
    became_ready: Iterable[tuple[int, str]], ring: Ring, node_id: str
) -> dict[str, list[str]]:
    """Lines about the queues that *became_ready*, by owner, without *node_id*."""
    hints: dict[str, list[str]] = {}
    for partition, queue in became_ready:
        if ring.owners and (owner := ring.owner(partition)) != node_id:
            hints.setdefault(owner, []).append(f"{partition} {queue}")
    return hints


def take_hints_call(keys: CrawlKeys, node_id: str) -> Call:
    """The call that takes the hints for *node_id*; `read_hints` reads its reply."""
    return Call.command("LPOP", keys.hints(node_id), MOST_HINTS)


def read_hints(
    reply: Iterable[bytes] | None, partitions: int
) -> Iterator[tuple[int, str]]:
    """Partition and queue (or `DUE`, or `WANTED`) of each valid hint in *reply*."""
    for hint in reply or ():
        try:
            number, _, queue = hint.decode().partition(" ")
            if queue not in {DUE, WANTED}:
                split_name(queue)
            if int(number) not in range(partitions):
                raise ValueError  # noqa: TRY301 (of the same kind as the others)
        except (CodecError, ValueError):
            logger.warning("ignored an invalid hint: %r", hint[:200])
        else:
            yield int(number), queue
