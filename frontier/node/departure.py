"""How a node leaves its crawl, and what the last one does.

What always holds:

1.  What is done is acked, then what is not done is given back: as much of both as the
    store allows. Others take over the rest.
2.  Only a node that has left in order, as the last of a crawl that has ended, does the
    work of the end: payloads, packages, the frontier. What cannot be done is logged,
    and the process exits with an error.
3.  Nothing waits for ever: at most `CLOSE_TIMEOUT` for a silent store or a full disk,
    and for other nodes until they are heard of, or taken off the map as dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from frontier.cluster import crawls
from frontier.cluster.crawls import LIMIT
from frontier.errors import (
    CrawlLost,
    FrontierError,
    KeyDamaged,
    NodeReplaced,
    StoreRefused,
    StoreUnavailable,
)
from frontier.node.context import Part, answer_time, before
from frontier.node.ends import UNDONE
from frontier.node.remove_crawl import remove_frontier
from frontier.status.reports import stats_of_all
from frontier.store.client import BlockingStore, Call
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from frontier.cluster.membership import Departure
    from frontier.node.node import Node

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT = 30.0
"""Seconds that a closing node waits for a store, or a disk, that takes nothing."""
REACH_PAUSE = 0.5
"""Seconds between two attempts to reach a store that does not answer."""
LEAVE_TIMEOUT = 3.0
"""Seconds for which a node that has waited `CLOSE_TIMEOUT` still tries to leave."""
HEARD = 3.0
"""Seconds within which others should have heard that the crawl has ended."""


class Leaving:
    """Takes one node out of its crawl."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._config, self._keys = node.config, node.keys
        self._departure: Departure | None = None
        """What the node learned as it left the map."""
        self.given_up = asyncio.Event()
        """Set when the node no longer waits for what is done to be stored."""
        self._reason = ""
        """Why it gave up, for the log."""
        self._began = math.inf
        """When it began to leave; infinity before."""
        self._watching: asyncio.Task[None] | None = None

    @property
    def _is_outside(self) -> bool:
        """Whether the crawl is lost, or another process has this node's place."""
        return self._node.has_failed(CrawlLost, NodeReplaced)

    def watch(self) -> None:
        """From now on wait for disk and store, but not for ever."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Give up when one of them has failed for `CLOSE_TIMEOUT`.

        Once the node leaves, that time begins, whatever it waits for. After it nothing
        is acked any more. Items of pages in flight, which wait for a record, are told
        that it will not be written.
        """
        clock, since, waited = asyncio.get_running_loop().time, math.inf, ""
        while clock() - since < CLOSE_TIMEOUT:
            await asyncio.sleep(REACH_PAUSE)
            what = self._node.waits_for()
            since = min(since, clock()) if what else self._began
            if what and not waited:
                logger.warning(
                    "%s: this node waits for that for %g s, and then leaves",
                    what,
                    CLOSE_TIMEOUT,
                )
            waited = what
        self._reason = self._node.waits_for() or "what it has done is not stored yet"
        self._node.outage_retry.gives_up = True
        self.given_up.set()
        await self._node.tasks.stop()
        await self._node.parts.wait(Part.finish)

    async def leave(self) -> None:
        """Store what is done, give back what is not, leave the crawl."""
        self._node.inbox.stopped = True
        self._began = asyncio.get_running_loop().time()
        self.watch()
        is_stored = await self._store_in_time()
        if self._watching is not None:
            self._watching.cancel()
        self._node.outage_retry.gives_up = False
        reason = self._reason
        if not (reason or is_stored) or self._node.has_failed(KeyDamaged):
            reason = "its frontier has failed"
        if reason and not self._is_outside:
            self._undone(
                "%s; what this node had in flight will be fetched again by another "
                "one after %g s",
                reason,
                self._config.lease_ttl,
            )
        await self._node.tasks.stop()
        seconds = LEAVE_TIMEOUT if self._reason else CLOSE_TIMEOUT
        await self._depart_in_time(seconds, reason)
        self._node.parts.call(Part.tell)
        if not self._is_outside:
            await self._add_up()
            await self._conclude()

    async def _store_in_time(self) -> bool:
        """Store what is done, unless the node gives up; return whether that is done."""
        storing = self._node.tasks.unless_broken(self._store_all())
        try:
            stored = await before(self.given_up, storing)
            return stored is not None and stored.result()
        except StoreUnavailable:  # as the node no longer waits for it
            pass
        except FrontierError as error:
            self._node.fail(error)
        return False

    async def _add_up(self) -> None:
        """Learn what all nodes have counted, if this is the last of them."""
        if self._departure is None or self._departure.left:
            return
        try:
            ask = Call.command("HGETALL", self._keys.reports)
            (reports,) = await self._node.outage_retry.call([ask])
        except FrontierError as error:
            logger.warning("the counts of all nodes are unknown: %s", error)
        else:
            self._node.stats_of_all = stats_of_all(reports)

    async def _depart_in_time(self, seconds: float, reason: str) -> None:
        """Leave; *reason* says why not all was stored, and is empty if it was.

        The store may be silent for *seconds*.
        """
        try:
            async with asyncio.timeout(seconds) as limit:
                try:
                    report = await self._depart(graceful=not reason)
                    if not self._is_outside:
                        self._departure = await self._leave(
                            report, limit, seconds, graceful=not reason
                        )
                except (CrawlLost, KeyDamaged) as error:
                    self._node.fail(error)
                except StoreRefused as error:
                    if not reason:  # else a loop has reported it
                        self._node.fail(error)
        except (TimeoutError, StoreUnavailable):
            if not reason:
                self._undone(
                    "the store does not answer; other nodes take over this node's "
                    "hosts after %g s",
                    self._config.lease_ttl,
                )

    async def _store_all(self) -> None:
        if self._node.telling is not None:
            await self._node.telling
        await self._node.acks.drain()
        await self._node.acks.settle(())
        await self._node.parts.wait(Part.leaving)
        await self._node.heartbeat.stop()

    async def _depart(self, *, graceful: bool) -> dict[str, Any]:
        """Give back what it has; return its last report."""
        report = self._node.report()  # while there is an archive, and leases
        leases, inbox = self._node.leases, self._node.inbox
        await self._despite(inbox.give_back(list(leases.held)))
        # No page is to blame for a damaged key: this does not count as a delivery.
        if graceful or self._node.has_failed(KeyDamaged):
            await self._despite(inbox.put_back(list(inbox.open.values())))
        await self._despite(self._node.deliveries.give_back())
        if (lock := self._node.start_lock) is not None:
            await self._despite(self._node.run([lock.release_call()]))
        held = list(leases.held)
        # Other nodes take what a node that is off the map has not given back.
        with contextlib.suppress(StoreUnavailable):
            await self._despite(leases.release(held))
        await self._node.parts.wait(Part.finish)
        # Whether the store answers is told by the last step, which needs it.
        if graceful and (what := self._node.parts_wait_for()):
            self._undone("%s", what)
        return report

    async def _despite(self, step: Awaitable[Any]) -> None:
        """Do *step*; a damaged key does not keep the node from the next one.

        What it has not given back stays reserved, for the partition's next holder.
        """
        try:
            await step
        except KeyDamaged as error:
            self._node.fail(error)

    async def _leave(
        self,
        report: Mapping[str, Any],
        limit: asyncio.Timeout,
        seconds: float,
        *,
        graceful: bool,
    ) -> Departure:
        """Leave the map; if the crawl has ended, wait first while others are silent.

        They may be dead, and leave the work of the last node to this one. Each answer
        of the store moves *limit* to *seconds* from then. If it is *graceful*, the last
        node ends a crawl in which nothing is left.
        """
        began, told = time.monotonic(), False
        leave = partial(self._node.membership.leave, report)
        waits = pauses()  # the others hear of the end with their next beat
        most = min(REACH_PAUSE, self._config.lease_ttl / 10)  # sweeps go on
        clock = asyncio.get_running_loop().time
        while True:
            gone: Departure = await self._answered(leave)
            limit.reschedule(clock() + seconds)
            if not gone.silent:
                break
            if time.monotonic() - began > HEARD and not told:
                told = True
                logger.info(
                    "the crawl %s has ended; nothing was heard of %s since: this "
                    "node waits for %g s to see if it is dead, and then does the "
                    "work of the last node (frontier node remove ends the wait)",
                    self._keys.crawl_id,
                    ", ".join(gone.silent),
                    self._config.lease_ttl,
                )
            await asyncio.sleep(min(next(waits), most))
        if not gone.left and gone.state == crawls.OPEN and graceful:
            gone = await self._finish_empty(gone)
        return gone

    async def _finish_empty(self, gone: Departure) -> Departure:
        """End the crawl that this node was the last to leave, if nothing is left in it.

        No other node is there to find its end; the next run would, and fetch nothing.
        """
        node = self._node
        if self._config.keep_alive or node.stays_open or not node.has_seeds:
            return gone
        ended = await self._answered(self._node.end_of_crawl.finish_empty)
        if not ended:
            return gone
        logger.info("the crawl %s has ended; nothing is queued", self._keys.crawl_id)
        ask = Call.command("HLEN", self._keys.nodes)
        left = await self._node.outage_retry.answer(ask)
        return replace(gone, state=crawls.FINISHED, left=left)

    async def _conclude(self) -> None:
        """Do the work of the last node of a crawl that has ended.

        It takes as long as the disk, or the server, takes. What cannot be done is
        logged.
        """
        gone, crawl_id = self._departure, self._keys.crawl_id
        if gone is None:
            if self._node.ended:
                self._undone(
                    "this node could not leave the crawl %s in order: whether its "
                    "payloads are committed is not known; frontier collection list "
                    "tells it",
                    crawl_id,
                )
            return
        if gone.left or gone.state not in crawls.ENDED:
            return
        if gone.state == LIMIT:
            await self._tell_unfetched()
        for conclude in self._node.parts.each(Part.conclude):
            if not await conclude(gone.state):
                self._node.end(UNDONE)
        if not self._config.keep_frontier:
            await self._remove_frontier()

    async def _tell_unfetched(self) -> None:
        """Say how much was queued when the crawl ended before its queue did."""
        try:
            left = await self._node.end_of_crawl.left()
        except FrontierError as error:
            logger.warning("how much was left in the queue is unknown: %s", error)
            return
        if left:
            logger.info(
                "%d queued requests of %s are not fetched, as the crawl has ended",
                left,
                self._keys.crawl_id,
            )

    def _undone(self, message: str, *arguments: object) -> None:
        """Log what of the crawl's end is not done, and have the exit code say so."""
        logger.error(message, *arguments)
        self._node.end(UNDONE)

    async def _answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What *ask*, which may be done twice, returns once the store answers."""
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await asyncio.sleep(REACH_PAUSE)

    async def _remove_frontier(self) -> None:
        keys = self._keys
        try:
            await asyncio.to_thread(self._remove_frontier_here)
        except FrontierError as error:
            self._undone(
                "the frontier of %s is not removed: %s; frontier crawl end "
                "--remove-frontier does it",
                keys.crawl_id,
                error,
            )
            return
        logger.info("removed the frontier of %s", keys.crawl_id)

    def _remove_frontier_here(self) -> None:
        timeout = answer_time(self._config.lease_ttl)
        store = BlockingStore.from_settings(self._node.settings, timeout)
        with contextlib.closing(store):
            remove_frontier(store, self._keys)
