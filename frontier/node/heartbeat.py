"""The heartbeat of a node, the partitions that it takes, and how it hands them over.

What always holds:

1.  A partition that this node should have according to the ring, or borrows
    (`frontier.node.borrow`), and that no live node holds, is acquired with the next
    beat.
2.  What its former holders left reserved in a partition is put back into its queues as
    soon as it is acquired, except for what a live node keeps.
3.  A partition that another node should have is released once everything that was
    started in it is acked, and the times when its hosts were asked are noted. If
    another node waits for a partition that this node has without knowing it, this node
    takes it once more and gives it back.
4.  The node beats whatever the rest of it waits for: a store whose memory is full takes
    nothing back, but it takes heartbeats.
5.  What an operator wants of the crawl is in force at the end of the round that heard
    of it, and the next report, which follows at once, says so.
6.  After `stop` no call is under way that would bring the node back onto the map, or
    take a partition for it.
7.  A look at all held partitions finds what a lost hint or reply should have told: that
    something is ready, that something is reserved which this node does not have, or
    that a lease is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from frontier.cluster.crawls import CANCELED, ENDED, LIMIT
from frontier.errors import StoreUnavailable
from frontier.node.borrow import ASK
from frontier.node.context import Part, happens
from frontier.node.ends import ORDERS
from frontier.node.ready_queues import WANTED, hint_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.cluster.lease import Acquired
    from frontier.cluster.membership import View
    from frontier.node.node import Node

logger = logging.getLogger(__name__)

BEAT = 1.0
"""Seconds between heartbeats."""
REMOVE = "remove"
"""The order to a node that is off the map, and whose leases are ended."""
QUICK_BEAT = 0.2
"""Seconds between heartbeats while partitions are changing hands."""
LOOK = 10.0
"""Seconds between looks at what is held; two thirds of a lease, if that is less."""
PATIENCE = 2.0
"""Seconds after which the holder of a partition is told that it should give it up."""


class Heartbeat:
    """Keeps this node's place in the ring and the leases that come with it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._outage_retry = node.outage_retry
        self._keys = node.keys
        self._membership = node.membership
        self._leases = node.leases
        self._ready = node.ready
        self._inbox = node.inbox
        self._borrow = node.borrow
        self._ttl = node.config.lease_ttl
        self._told = -1
        self._hurried = asyncio.Event()
        self._beating = asyncio.Lock()
        self._took = asyncio.Event()
        self._stopped = False
        self._following: asyncio.Task[bool] | None = None
        self._beat = min(BEAT, self._ttl / 10)
        self._wanted: dict[int, float] = {}
        """Partitions that others have but should not, and since when."""

    async def run(self) -> None:
        """Beat until stopped, or cancelled."""
        try:
            while not self._stopped:
                try:
                    async with self._beating:
                        settled = await self.beat()
                except StoreUnavailable:
                    settled = False
                pause = self._beat if settled else min(QUICK_BEAT, self._beat)
                await happens(self._hurried, pause)
                self._hurried.clear()
        except BaseException:
            if self._following is not None:  # else `stop` waits for it
                self._following.cancel()
            raise

    async def look(self) -> None:
        """Look at all that is held, again and again until cancelled."""
        pause = min(LOOK, self._ttl * 2 / 3)
        due = time.monotonic() + pause
        while True:
            await self._wait_until(due)
            began = time.monotonic()
            try:
                await self._look()
            except StoreUnavailable:
                due = time.monotonic() + min(QUICK_BEAT, self._beat)
            else:
                due = began + pause

    async def _wait_until(self, due: float) -> None:
        """Wait until *due*, or for a moment after partitions were taken.

        By then all nodes know that they are here, and send their hints here. Hints of
        earlier pushes went elsewhere.
        """
        while (now := time.monotonic()) < due:
            await happens(self._took, due - now)
            if self._took.is_set():
                self._took.clear()
                due = min(due, time.monotonic() + 2 * self._beat)

    async def _look(self) -> None:
        found, lost = await self._leases.look()
        self._inbox.lose_all(lost)
        self._node.due_times.note_waiting()
        ready = {p for p, it in found.items() if it.ready}
        await self._ready.load(p for p in ready if not self._ready.knows(p))
        self._node.reclaim.compare({p: it.reserved for p, it in found.items()})

    def leave(self) -> None:
        """Hand everything over, and take nothing more, from the next beat on."""
        self._membership.leaving = True
        self.hurry()

    async def stop(self) -> None:
        """Take nothing more, and return once no round is under way."""
        self._stopped = True
        self.hurry()
        async with self._beating:
            following = self._following
        if following is not None:
            try:
                await asyncio.wait({following})
            finally:
                following.cancel()  # does nothing to one that is done
            with contextlib.suppress(StoreUnavailable):
                self._followed()

    async def say_idle(self) -> None:
        """Beat at once if the last beat said that this node is busy.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        if self._membership.said_busy:
            async with self._beating:
                if not self._stopped:
                    await self.beat()

    def hurry(self) -> None:
        """Do the next round at once."""
        self._hurried.set()

    async def beat(self) -> bool:
        """Do one round; return whether this node has exactly what it should."""
        asked_at = time.monotonic()
        view = await self._membership.beat(
            busy=self._node.is_busy(), report=self._node.report()
        )
        self._node.clock.note(view.now_ms, asked_at)
        if view.went_back:
            self._outage_retry.store.doubt()
            self.hurry()  # the next call starts over
        if view.controls != self._node.controls.version:
            await self._node.controls.heed(view.controls)
            self.hurry()
        if view.state in ENDED:
            self._node.tell_end(view.state)
        if view.state in {CANCELED, LIMIT}:
            self._membership.leaving = True
        elif view.order:
            self._obey(view.order)
        # `_follow` may wait for a server that hangs; the next beat is due all the same.
        self._followed()
        if self._following is None:
            self._following = asyncio.create_task(self._follow(view))
        await asyncio.wait({self._following}, timeout=self._beat)
        return self._followed()

    def _followed(self) -> bool:
        """What `_follow` returned, if it has ended since the last call; else false.

        Raises:
            FrontierError: It has failed.
        """
        if self._following is None or not self._following.done():
            return False
        ended, self._following = self._following, None
        return ended.result()

    def _obey(self, order: str) -> None:
        self._membership.leaving = True
        if order == REMOVE:  # others have the partitions already
            self._inbox.lose(list(self._leases.held.values()))
        self._node.end(ORDERS[order])

    async def _follow(self, view: View) -> bool:
        ring = self._membership.ring
        wanted = owned = set(ring.owned_by(self._node.config.node_id))
        asked, self._borrow.wanted = self._borrow.wanted, set()
        if not (self._membership.leaving or self._membership.hands_over):
            self._borrow.ask(asked & set(self._leases.held))
            wanted = self._borrow.chosen(owned)
        self._inbox.lose_all(await self._leases.rename())
        self._leases.doubtful |= asked - set(self._leases.held)
        surplus = set(self._leases.held) - wanted
        fresh = surplus - self._ready.handing_over
        await self._hand_over(surplus)
        # What stays after all was given back already: its queues are to be learned.
        staying = (self._ready.handing_over - surplus) & set(self._leases.held)
        self._ready.handing_over &= surplus
        missing = (wanted | self._leases.doubtful) - set(self._leases.held)
        acquired = await self._leases.acquire([] if self._stopped else sorted(missing))
        await self._ask_holders(wanted - owned, wanted & owned)
        changed = {taken.lease.partition for taken in acquired}
        if self._is_news(view.epoch, changed | fresh):
            logger.info(
                "epoch %d, %d nodes: took %d partitions, gives up %d, holds %d",
                view.epoch,
                len(view.members),
                len(acquired),
                len(surplus),
                len(self._leases.held),
            )
        if acquired:
            self._took.set()
        await self._take_over(acquired, staying)
        return wanted == set(self._leases.held)

    async def _ask_holders(self, borrowed: set[int], owned: set[int]) -> None:
        """Tell the holders of partitions that are to be *borrowed*, or are *owned*.

        Holders of owned ones are told late: if they know that they have them, they hand
        them over anyway. They may not know: the reply that gave them the lease may be
        lost, or the store may have forgotten that it was given back.
        """
        now, hints = time.monotonic(), dict[str, list[str]]()
        wanted = borrowed | owned
        refused = {p: h for p, h in self._leases.refused.items() if p in wanted}
        self._wanted = {
            p: self._wanted.get(p, now - PATIENCE * (p in borrowed)) for p in refused
        }
        for partition, since in self._wanted.items():
            if now - since > (ASK if partition in borrowed else PATIENCE):
                self._wanted[partition] = now
                holder = refused[partition].split("/")[0]
                hints.setdefault(holder, []).append(f"{partition} {WANTED}")
        await self._outage_retry.call(
            hint_calls(self._keys, hints, int(self._ttl * 2000))
        )

    def _is_news(self, epoch: int, changed: set[int]) -> bool:
        """Whether *changed* is worth a line: lending and borrowing are too frequent."""
        if epoch == self._told:
            changed = changed - self._borrow.moved
        if changed:
            self._told = epoch
        return bool(changed)

    async def _hand_over(self, partitions: set[int]) -> None:
        fresh = partitions - self._ready.handing_over
        self._ready.handing_over |= partitions
        if fresh:
            await self._inbox.give_back(fresh)
        done = partitions - self._inbox.busy_partitions()
        if done:
            await self._node.parts.wait(Part.leaving)
        # Replies to earlier calls may have come meanwhile, and been started.
        await self._leases.release(done - self._inbox.busy_partitions())

    async def _take_over(
        self, acquired: Iterable[Acquired], staying: Iterable[int] = ()
    ) -> None:
        fresh = list(acquired)
        left = {taken.lease: taken.former for taken in fresh if taken.reserved}
        if left:
            await self._node.reclaim.put_back(left)
        filled = [a.lease.partition for a in fresh if a.ready or a.reserved]
        filled += staying
        self._node.due_times.note_waiting()
        if filled:
            await self._ready.load(filled)
