"""The pushes of one process: what it knows of partitions, and which push comes next.

A store can go back in time, by a failover or a restart, and others push to it at
once: no count that is shared tells what is missing then. So each push of a process
has a number, which the script keeps in the partition (`PartitionKeys.pushers`) in the
same step. What a server does is lost from the end, so where the last number of this
process is, there is all that it had pushed before, and all that it was told was seen.

What always holds:

1.  A number is given to one push only, and is greater than those given before; the
    same push that is sent again has the same.
2.  One push of a partition is under way at a time.
3.  A push that was confirmed longer than `KNOWN` seconds ago is not asked for: the
    store keeps the numbers of processes that are silent for an hour at least.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged, PushForgotten
from frontier.queue.damage import is_number
from frontier.queue.push import Turn, push_plan, pushed_one
from frontier.seen.config import LayoutStale, SeenLayout
from frontier.store.client import Call
from frontier.store.scripts import QUEUE_PUSH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from frontier.queue.push import Plan, Push, Pushed
    from frontier.seen.config import SeenConfig
    from frontier.store.keys import CrawlKeys

KNOWN = 600.0
"""Seconds; a replica that is so far behind is not promoted."""
EMPTY = SeenLayout()


def new_pusher() -> str:
    """A name for the pushes of one process, which no other has."""
    return secrets.token_urlsafe(6)


class Pusher:
    """Numbers the pushes of one process to the partitions of one crawl."""

    def __init__(
        self,
        keys: CrawlKeys,
        tiers: SeenConfig,
        clock: Callable[[], float] = time.monotonic,
        process: str = "",
    ) -> None:
        self._keys = keys
        self._tiers = tiers
        self._clock = clock
        self._layouts: dict[int, SeenLayout] = {}
        self._last = 0
        self._sent: dict[int, Turn] = {}
        self._confirmed: dict[int, tuple[int, float]] = {}
        self.process = process or new_pusher()
        """What the store knows this process by."""

    def plan(self, partition: int, pushes: Sequence[Push]) -> Plan:
        """What pushes *pushes*, with the next number; or makes room for them."""
        before = self.confirmed(partition)
        turn = Turn(self.process, self._last + 1, before)
        layout = self._layouts.get(partition, EMPTY)
        keys = self._keys.partition(partition)
        plan = push_plan(keys, self._tiers, layout, pushes, turn)
        if plan.script is QUEUE_PUSH:
            self._sent[partition], self._last = turn, turn.number
        return plan

    def pushed(
        self, partition: int, reply: list[Any], pushes: Sequence[Push]
    ) -> Pushed | None:
        """What became of the last plan; ``None`` if it is to be made again.

        Raises:
            PushForgotten: Nothing was done, as an earlier push is missing.
            KeyDamaged: Nothing was done; a value in the partition cannot be.
        """
        try:
            done = pushed_one(reply, pushes)
        except LayoutStale as stale:
            if not self._tiers.allows(stale.layout):
                reason = "its numbers do not fit each other"
                key = self._keys.partition(partition).seen
                raise KeyDamaged("", key, reason) from None
            self._layouts[partition] = stale.layout
            return None
        self._layouts[partition] = done.layout
        self._confirmed[partition] = (self.number(partition), self._clock())
        return done

    def number(self, partition: int) -> int:
        """The number of the last push to *partition* that was planned."""
        return self._sent[partition].number

    def confirmed(self, partition: int) -> int:
        """The number of the last push that *partition* must have; 0 if of none."""
        number, when = self._confirmed.get(partition, (0, 0.0))
        return number if when > self._clock() - KNOWN else 0

    def is_outdated(self, partition: int) -> bool:
        """Whether the last plan asks for a push that is known to be forgotten."""
        return self._sent[partition].before > self.confirmed(partition)

    def ask(self) -> dict[int, Call]:
        """The calls that ask partitions for the last number that they have."""
        return {
            partition: last_push(self._keys, partition, self.process)
            for partition in self._confirmed
            if self.confirmed(partition)
        }

    def forgotten(self, replies: Mapping[int, bytes | None]) -> dict[int, int]:
        """Partitions that lack pushes, with the last number that they have.

        *replies* are those to the calls of `ask`.
        """
        has = {partition: number_of(reply) for partition, reply in replies.items()}
        return {p: number for p, number in has.items() if number < self.confirmed(p)}

    def went_back(self, forgotten: Mapping[int, int]) -> None:
        """Count on no more than what partitions have, and on no layout."""
        self._layouts.clear()
        for partition, number in forgotten.items():
            self._confirmed[partition] = (number, self._clock())

    def end(self, run: Callable[[Sequence[Call]], list[Any]]) -> dict[int, KeyDamaged]:
        """Ask whether all that was confirmed is there, and `leave`; waits for *run*.

        Returns the partitions that cannot say so, as *run* has put errors about
        damaged keys in the place of replies.

        Raises:
            PushForgotten: It is not.
        """
        calls = self.ask()
        replies = dict(zip(calls, run(list(calls.values())), strict=True))
        damaged = {p: one for p, one in replies.items() if isinstance(one, KeyDamaged)}
        if self.forgotten({p: replies[p] for p in replies if p not in damaged}):
            raise PushForgotten
        run(self.leave())
        return damaged

    def leave(self) -> list[Call]:
        """The calls that take this process out of the partitions.

        Only when nothing of it is under way, and it will not compare any more.
        """
        names = [self._keys.partition(partition).pushers for partition in self._sent]
        return [Call.command("HDEL", name, self.process) for name in names]


def last_push(keys: CrawlKeys, partition: int, process: str) -> Call:
    """The call that asks *partition* for the last push of *process*."""
    return Call.command("HGET", keys.partition(partition).pushers, process)


def number_of(reply: bytes | None) -> int:
    """The number in the *reply* to `last_push`; 0 if there is none."""
    number = (reply or b"0").split(b" ", 1)[0]
    return int(number) if is_number(number) else 0
