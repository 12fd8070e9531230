"""One node of a crawl: everything between Scrapy and the store.

What always holds:

1.  After `open` the node is a member of exactly one crawl; after `close`, or
    after its death, nothing shared is deleted by that.
2.  A task of the node that fails for good stops the node, loudly: a frontier
    that cannot write must not go on.
3.  Nothing here waits for Redis or disk in the reactor's thread.
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

from typing_extensions import override

from frontier.cluster import crawls
from frontier.cluster.crawls import LIMIT
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import (
    CrawlLost,
    FrontierError,
    KeyDamaged,
    NoCrawlYet,
    NodeReplaced,
    NodeStopped,
    StoreRefused,
    StoreUnavailable,
)
from frontier.node.context import Loops, Part, before
from frontier.node.ends import (
    AT_LIMIT,
    DAMAGED,
    EMPTY,
    FAILED,
    FINISHED,
    NOTHING_FETCHED,
    ORDERS,
    UNDONE,
    described,
    reason_of,
)
from frontier.node.heartbeat import CANCEL
from frontier.node.host_politeness import Concurrency
from frontier.node.kernel import NOTHING, Kernel, NodeServer, answer_time
from frontier.node.process_stats import ProcessStats
from frontier.node.remove_crawl import remove_frontier
from frontier.settings.values import end_ms
from frontier.status.figures import PACES
from frontier.status.reports import stats_of_all
from frontier.store.calls import Copies
from frontier.store.client import BlockingStore, Call, Store, check_server
from frontier.store.damage import is_number
from frontier.store.outage_retry import OutageRetry, pauses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from frontier.cluster.membership import Departure
    from frontier.node.context import Owner
    from frontier.node.kernel import Features
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT = 30.0
"""Seconds that a closing node waits for a store that does not answer."""
WATCH = 1.0
"""Seconds between questions to Sentinel for the primary, if there is one."""
PROGRESS = 5.0
"""Seconds between two lines of a node that waits for the store to begin."""
JOIN_PAUSE = 1.0
"""Seconds between looks for a crawl to join."""
REACH_PAUSE = 0.5
"""Seconds between its questions."""
SILENCE = 1.0
"""Seconds without an answer after which a server is said to be silent; a third of a
lease, if that is less."""
LEAVE_TIMEOUT = 3.0
"""Seconds for which it then tries to leave the crawl all the same."""
SILENT_LEASES = 3
"""Leases for which a node that leaves waits at most for others that are silent. One is
enough, unless the store is unreachable meanwhile, or its clock is set."""
HEARD = 3.0
"""Seconds in which others should have heard of the end of the crawl."""


class Node(Kernel):
    """Builds the services of a node from its configuration and runs them."""

    finished = False
    has_seeds = False
    """Whether the crawl has all start requests of this node's spider."""
    stays_open = False
    """Whether URLs may come from elsewhere when nothing is queued."""
    stats_of_all: Mapping[str, int] = {}
    """What all nodes have counted, once this one has left as the last."""
    _closed = False
    _canceled = False
    _is_open = False
    _at_limit = False
    _departure: Departure | None = None
    """What it has learned as it left the crawl."""
    _start_lock: crawls.StartLock | None = None
    _telling: asyncio.Task[None] | None = None
    _ending: asyncio.Task[None] | None = None
    """Asks whether anything was fetched, as the crawl is over."""
    _outside = False
    """Whether the crawl is lost, or another process has this node's place."""
    _told: BaseException | None = None
    """The last error that the owner has heard of."""

    def __init__(
        self,
        config: Config,
        settings: Mapping[str, Any],
        owner: Owner,
        *,
        spider: str,
        concurrency: Concurrency | None = None,
        launch: crawls.Launch = crawls.NOBODY,
        features: Features = NOTHING,
        stopping: asyncio.Event | None = None,
    ) -> None:
        """*stopping* is set when the process is to end."""
        super().__init__(config, owner, concurrency or Concurrency())
        self.launch, self.spider, self.settings = launch, spider, settings
        self._features = features
        self._stopping = stopping or asyncio.Event()
        self.process_stats = ProcessStats(
            settings, config.warc_dir if config.warc_enabled else None
        )
        """How its process is; who serves a port notes it there."""
        self._loops = Loops(self.fail)
        self._server = NodeServer(config.store_dir)
        self.opened = contextlib.AsyncExitStack()
        self._orders: set[str] = set()
        """Those of operators that its owner has heard of."""
        self._damaged: set[str] = set()
        """Keys of the crawl that have ended this node, each told once."""
        self.opened_at = time.time()

    async def open(self) -> None:
        """Connect, enter the crawl, take a place in the ring, start.

        Raises:
            ConfigurationError: The settings do not fit the crawl's.
            RunOver: The crawl that it came for has ended.
            NodeStopped: The process is to end, and there is no store or crawl yet.
            StoreError: The store does not answer, or may forget keys.
            ArchiveError: The archive cannot be written.
        """
        self.opened.push_async_callback(self._server.leave)
        self.settings = await self._server.join(self.settings)
        try:
            await self._enter()
        except BaseException:
            await self.opened.aclose()
            raise
        self._is_open = True

    async def _enter(self) -> None:
        await self._connect()
        config = self.config
        self.shape = crawl_settings(config, self.settings)
        enter = partial(
            crawls.enter,
            self.store.run,
            config.namespace,
            self.spider,
            config.crawl_id,
            self.shape,
            self.launch,
            partial(self._features.may_begin, self),
        )
        self.keys = await self._await_crawl(enter)
        await self._start()
        logger.info(
            "node %s is in crawl %s on %s",
            config.node_id,
            self.keys.crawl_id,
            self.store.where,
        )

    async def _connect(self) -> None:
        """Connect to the store, which must be one that keeps what it is given."""
        self.store = Store.from_settings(
            self.settings, answer_time(self.config.lease_ttl)
        )
        self.opened.push_async_callback(self.store.close)
        memory = await self.reach(
            lambda: self.store.call(Call.command("INFO", "memory"))
        )
        check_server(memory, self.store.where)
        await self.reach(self._require_copies)
        revive = self._server.revive if self._server.embedded else None
        self.outage_retry = OutageRetry(self.store, revive)
        self.opened.callback(self.outage_retry.stop)
        self.run = self.outage_retry.retry

    async def _start(self) -> None:
        """Put the node together, take a place in the ring, run what has to."""
        self.build()
        self.parts.add(*await self._features.open(self))
        if self.watchdog is not None:
            self.opened.callback(self.watchdog.close)
        await self.reach(self._keep_to_the_end)
        await self.reach(self.heartbeat.beat)
        if self.watchdog is not None:
            await self.watchdog.start()
        for loop in (*self.loops(), self._watch, self._pulse, self.process_stats.run):
            self._loops.start(loop())
        self.outage_retry.on_damaged = self.fail

    async def _keep_to_the_end(self) -> None:
        """Have nothing be fetched that is due after the end that the settings name."""
        if not self.config.recrawl_until:
            return
        ask = Call.command("HGET", self.keys.meta(), "created_ms")
        (found,) = await self.outage_retry.call([ask])
        began = int(found) if found and is_number(found) else time.time() * 1000
        until = end_ms(self.config.recrawl_until, began)
        self.end_of_crawl.until = self.due_times.until = until

    @override
    async def reach(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What *ask* returns, once the store answers.

        Raises:
            StoreUnavailable: It has not for as long as the settings say.
            NodeStopped: The process is to end.
        """
        began, told = time.monotonic(), -math.inf
        while True:
            try:
                return await self._unless_stopped(ask())
            except StoreUnavailable as error:
                now = time.monotonic()
                left = began + self.config.store_wait - now
                if left <= 0:
                    raise
                if now - told >= PROGRESS:
                    told = now
                    logger.warning(
                        "%s; this node waits for it for %.0f s (FRONTIER_STORE_WAIT)",
                        error,
                        left,
                    )
                await self._unless_stopped(asyncio.sleep(min(REACH_PAUSE, left)))

    async def _unless_stopped(self, work: Coroutine[Any, Any, Any]) -> Any:
        done = await before(self._stopping, work)
        if done is None:
            raise NodeStopped(self.config.node_id)
        return done.result()

    async def _await_crawl(
        self, enter: Callable[[], Coroutine[Any, Any, CrawlKeys]]
    ) -> CrawlKeys:
        """The crawl that *enter* leads to, once it exists."""
        told = False
        while True:
            try:
                keys: CrawlKeys = await self.reach(enter)
            except NoCrawlYet as error:
                if not told:
                    logger.info(
                        "%s: this node waits for one (FRONTIER_JOIN_ONLY)", error
                    )
                told = True
                await self._unless_stopped(asyncio.sleep(JOIN_PAUSE))
            else:
                return keys

    async def _watch(self) -> None:
        """Leave a primary that was replaced soon."""
        interval = min(WATCH, self.config.lease_ttl / 5)
        await self.store.watch(interval, partial(self.parts.call, Part.replaced))

    async def _pulse(self) -> None:
        """Say so soon if a server hangs, and have nobody wait for one of several."""
        silence = min(SILENCE, self.config.lease_ttl / 3)
        await self.store.pulse(silence, self.outage_retry.note_silence)

    async def _require_copies(self) -> None:
        """Have pushes wait for copies, if they are to.

        Raises:
            ConfigurationError: A server cannot wait for them.
        """
        config, where = self.config, self.store.where
        copies = Copies(config.store_wait_replicas, config.store_wait_aof)
        if copies:
            try:
                await self.store.call(copies.probe())
            except StoreRefused as error:
                raise copies.refused(where, str(error)) from None
        self.store.copies = copies

    def take(self) -> Reservation | None:
        """The next URL to start, or ``None`` if there is none at the moment."""
        if self.outage_retry.is_full:
            return None
        if len(self.inbox) and not all(room() for room in self.parts.each(Part.room)):
            return None
        reservation = self.inbox.take()
        if reservation is not None:
            self.parts.call(Part.begin, reservation)
        return reservation

    def has_lost(self, reservation: Reservation) -> bool:
        """Whether the lease that *reservation* stands on does not come back."""
        held = self.leases.held.get(reservation.lease.partition)
        is_held = held is not None and held.token == reservation.lease.token
        if not is_held or reservation.key not in self.inbox.open:
            return True
        return self.deliveries.has_lost(reservation.delivery)

    def covers(self, reservation: Reservation) -> bool:
        """Whether a request may be sent that stands on *reservation*."""
        is_there = not self.deliveries.has_lost(reservation.delivery)
        return is_there and self.leases.covers(reservation.lease)

    def sent(self, reservation: Reservation, delay: float, turn: float) -> None:
        """Note that a request was sent, and for how long to leave its host alone.

        Other nodes for *delay* seconds, this one for *turn*.
        """
        self.inbox.sent(reservation, delay, turn)

    def start_lock(self, start_id: str) -> crawls.StartLock:
        """The lock on a seed list, which this node gives back when it leaves."""
        self._start_lock = crawls.StartLock(
            self.outage_retry.retry,
            self.keys,
            start_id,
            self.config.node_id,
            ttl=self.config.lease_ttl,
        )
        return self._start_lock

    @override
    def report(self) -> dict[str, Any]:
        """Figures of this node, for the crawl's report."""
        figures = {
            "opened": self.opened_at,
            "seconds": round(time.time() - self.opened_at, 1),
            "reclaimed": self.heartbeat.reclaimed,
            "partitions": len(self.leases.held),
            "done": self.acks.acked,
            "inbox": len(self.inbox),
            **self.process_stats.report(self.leases.held),
        }
        for report in self.parts.each(Part.report):
            figures |= report()
        figures |= self.process_stats.pace({n: figures.get(n, 0) for n in PACES})
        if limit := self.config.seen_set_max_bytes:
            figures["set_limit_bytes"] = limit
        return figures

    def moment(self) -> dict[str, float]:
        """How the node is now, beside what its report says; see docs/figures.md."""
        return {
            "lease_seconds": max(0.0, self.membership.deadline - time.monotonic()),
            "epoch": self.membership.epoch,
            "nodes": self.membership.nodes,
            "paused": float(self.paused),
            "outages": self.outage_retry.outages,
            "available": float(self.outage_retry.available),
            "outbox": self.outbox.pending,
            "left_alone": self.hosts.count,
            "uplink_pause": self.uplink.seconds,
        }

    def leave(self) -> None:
        """Give back what is not started, and each partition when it is done.

        The node is a member until it is closed, but owns nothing any more.
        """
        self.inbox.stopped = True
        if not self.finished:
            self.heartbeat.leave()

    async def close(self) -> None:
        """Store what is done, give back what is not, leave; once."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._end()
        finally:
            await self.opened.aclose()

    async def _end(self) -> None:
        self.inbox.stopped = True
        silent = False
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                stored = await self._loops.unless_broken(self._store_all())
            reason = "" if stored and not self._damaged else "its frontier has failed"
        except TimeoutError:
            reason, silent = "the store does not answer", True
        except KeyDamaged as error:
            self.fail(error)
            reason = "its frontier has failed"
        if reason and not self._outside:
            logger.error(
                "%s; what this node had in flight will be fetched again by another "
                "one after %g s",
                reason,
                self.config.lease_ttl,
            )
        await self._loops.stop()
        await self._depart_in_time(LEAVE_TIMEOUT if silent else CLOSE_TIMEOUT, reason)
        self.parts.call(Part.tell)
        if not self._outside:
            await self._add_up()
            await self._conclude()

    async def _add_up(self) -> None:
        """Learn what all nodes have counted, if this is the last of them."""
        if self._departure is None or self._departure.left:
            return
        try:
            ask = Call.command("HGETALL", self.keys.reports())
            (reports,) = await self.outage_retry.call([ask])
        except FrontierError as error:
            logger.warning("the counts of all nodes are unknown: %s", error)
        else:
            self.stats_of_all = stats_of_all(reports)

    async def _depart_in_time(self, seconds: float, reason: str) -> None:
        """Leave; *reason* says what kept all from being stored.

        The store may be silent for *seconds*.
        """
        try:
            async with asyncio.timeout(seconds) as limit:
                try:
                    report = await self._depart(graceful=not reason)
                    if not self._outside:
                        self._departure = await self._leave(
                            report, limit, seconds, graceful=not reason
                        )
                except (CrawlLost, KeyDamaged) as error:
                    self.fail(error)
                except StoreRefused as error:
                    if not reason:  # else a loop has told it
                        self.fail(error)
        except (TimeoutError, StoreUnavailable):
            if not reason:
                logger.error(  # noqa: TRY400 (all is said)
                    "the store does not answer; other nodes take over this node's "
                    "hosts after %g s",
                    self.config.lease_ttl,
                )

    async def _store_all(self) -> None:
        for told in (self._ending, self._telling):
            if told is not None:
                await told
        await self.acks.drain()
        await self.acks.settle(())
        await self.parts.wait(Part.leaving)
        await self.heartbeat.stop()

    async def _depart(self, *, graceful: bool) -> dict[str, Any]:
        """Give back what it has; return its last report."""
        report = self.report()  # while there is an archive, and leases
        leases = self.leases
        await self._despite(self.inbox.give_back(list(leases.held)))
        if graceful or self._damaged:  # which no page is to blame for: no delivery
            await self._despite(self.inbox.put_back(list(self.inbox.open.values())))
        await self._despite(self.deliveries.give_back())
        if self._start_lock is not None:
            await self._despite(self._start_lock.release())
        held = list(leases.held)
        # Others take what is not given back from who is off the map.
        with contextlib.suppress(StoreUnavailable):
            await self._despite(leases.release(held))
        await self.parts.wait(Part.finish)
        return report

    async def _despite(self, step: Awaitable[Any]) -> None:
        """Do *step*; a damaged key does not keep the node from the next one.

        What it has not given back stays reserved, for who takes the partition next.
        """
        try:
            await step
        except KeyDamaged as error:
            self.fail(error)

    async def _leave(
        self,
        report: Mapping[str, Any],
        limit: asyncio.Timeout,
        seconds: float,
        *,
        graceful: bool,
    ) -> Departure:
        """Leave the map, where the crawl has ended as the last one if nobody else may.

        Each answer of the store moves *limit*, by *seconds*. If it is *graceful*, the
        last node ends a crawl in which nothing is left.
        """
        began, told = time.monotonic(), False
        waits = pauses()  # the others hear of the end with their next beat
        most = SILENT_LEASES * self.config.lease_ttl
        clock = asyncio.get_running_loop().time
        while True:
            waited = time.monotonic() - began
            leave = partial(self.membership.leave, report, stay=waited < most)
            gone: Departure = await self._answered(leave)
            limit.reschedule(clock() + seconds)
            if not gone.silent:
                break
            if waited > HEARD and not told:
                told = True
                logger.info(
                    "the crawl %s has ended; nothing was heard of %s since: this "
                    "node waits for %g s to see if it is dead, and then does the "
                    "work of the last node (frontier node remove ends the wait)",
                    self.keys.crawl_id,
                    ", ".join(gone.silent),
                    self.config.lease_ttl,
                )
            await asyncio.sleep(min(next(waits), REACH_PAUSE))
        if not gone.left and gone.state == crawls.OPEN and graceful:
            gone = await self._finish_empty(gone)
        if gone.state.encode() in crawls.ENDED and waited >= most:
            gone = replace(gone, left=0)  # who is left there is silent for that long
        return gone

    async def _finish_empty(self, gone: Departure) -> Departure:
        """End the crawl that this node was the last to leave, if nothing is left in it.

        Nobody would find its end: the next run would, and fetch nothing.
        """
        if self.config.keep_alive or self.stays_open or not self.has_seeds:
            return gone
        ended = await self._answered(self.end_of_crawl.finish_empty)
        if not ended:
            return gone
        logger.info("the crawl %s has ended; nothing is queued", self.keys.crawl_id)
        ask = Call.command("HLEN", self.keys.nodes())
        (left,) = await self.outage_retry.retry([ask])
        return replace(gone, state=crawls.FINISHED, left=left)

    async def _conclude(self) -> None:
        """Do what the last node of a crawl that has ended does.

        It takes as long as the disk does, or the server. What cannot be done is said.
        """
        gone, crawl_id = self._departure, self.keys.crawl_id
        if gone is None:
            if self.finished or self._canceled or self._at_limit:
                self._undone(
                    "this node could not leave the crawl %s in order: whether its "
                    "payloads are committed is not known; frontier collection list "
                    "tells it",
                    crawl_id,
                )
            return
        if gone.left or gone.state.encode() not in crawls.ENDED:
            return
        if gone.state == LIMIT:
            await self._tell_unfetched()
        for conclude in self.parts.each(Part.conclude):
            if not await conclude(gone.state):
                self.owner.on_end(UNDONE)
        if not self.config.keep_frontier:
            await self._remove_frontier()

    async def _tell_unfetched(self) -> None:
        """Say how much was queued when the crawl ended before its queue did."""
        try:
            left = await self.end_of_crawl.left()
        except FrontierError as error:
            logger.warning("how much was left in the queue is unknown: %s", error)
            return
        if left:
            logger.info(
                "%d queued requests of %s are not fetched, as the crawl has ended",
                left,
                self.keys.crawl_id,
            )

    def _undone(self, message: str, *arguments: object) -> None:
        """Say what of the crawl's end is not done, also by the exit code."""
        logger.error(message, *arguments)
        self.owner.on_end(UNDONE)

    async def _answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What *ask*, which may be done twice, returns once the store answers."""
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                await asyncio.sleep(REACH_PAUSE)

    async def _remove_frontier(self) -> None:
        keys = self.keys
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
        timeout = answer_time(self.config.lease_ttl)
        store = BlockingStore.from_settings(self.settings, timeout)
        with contextlib.closing(store):
            remove_frontier(store, self.keys, ttl=self.config.lease_ttl)

    def fail(self, error: BaseException) -> None:
        """Tell the owner that the node cannot go on; what has ended stays ended."""
        if error is self._told:
            return  # a loop has raised it, and a push that was waited for
        self._told = error
        if isinstance(error, CrawlLost | NodeReplaced):
            if self._outside:
                return
            self._outside = True
        if isinstance(error, KeyDamaged):
            if error.key in self._damaged:
                return
            self._damaged.add(error.key)
            self.acks.fault = error
        if isinstance(error, CrawlLost) and not error.crawl_id:
            error = CrawlLost(self.keys.crawl_id)
        end = DAMAGED if isinstance(error, KeyDamaged) else FAILED
        self.owner.on_end(end.of(error))
        of_crawl = self.keys.meta().removesuffix("}:meta")
        if isinstance(error, KeyDamaged) and error.key.startswith(of_crawl):
            logger.critical(
                "nothing is lost: stop the other nodes, run frontier crawl repair "
                "--crawl %s, and start them again",
                self.keys.crawl_id,
            )

    # What its parts ask of the node, or tell it.

    async def tell_if_empty(self) -> None:
        """Warn that nothing is left in the crawl that this node has come to."""
        is_empty = False
        if not (self.config.keep_alive or self.stays_open):
            with contextlib.suppress(StoreUnavailable):
                is_empty = await self.end_of_crawl.nothing_left()
        if is_empty:
            logger.warning(
                "the crawl %s, which this node has joined, has nothing left to do: "
                "its start requests were made before, and its queue is empty; the "
                "next start begins a new crawl",
                self.keys.crawl_id,
            )

    @override
    def on_finished(self) -> None:
        """Pass it on, once, that the crawl is over."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._tell_finished())

    def end_crawl(self, limit: str) -> None:
        """End the crawl on all nodes, at *limit*; what is queued is not fetched."""
        if self._ending is None and not (self._at_limit or self._canceled):
            self._ending = asyncio.create_task(self._end_crawl(limit))

    async def _end_crawl(self, limit: str) -> None:
        try:
            reached = await crawls.end(self.outage_retry.retry, self.keys, limit)
        except FrontierError as error:
            self.fail(error)
            return
        if reached:
            self.on_limit(reached)

    async def _tell_limit(self) -> None:
        """Others have found that the crawl has ended; this node counts no limit."""
        ask = Call.command("HGET", self.keys.meta(), "limit")
        try:
            (limit,) = await self.outage_retry.retry([ask])
        except FrontierError as error:
            self.fail(error)
            return
        self.on_limit((limit or b"").decode("utf-8", "replace"))

    async def _tell_finished(self) -> None:
        try:
            counts = await self.fetched.without()
        except FrontierError as error:
            self.fail(error)
            return
        self.finished = True  # from now on the owner may close by itself
        end = FINISHED
        if counts is not None:
            queued, dead = counts
            end = NOTHING_FETCHED if queued else EMPTY
            end = end.of(crawl=self.keys.crawl_id, queued=queued, dead=dead)
        self.owner.on_end(end)

    @override
    def on_order(self, order: str) -> None:
        """Pass on what an operator wants, or that others have reached a limit."""
        if order == LIMIT:
            if not self._telling:
                self._telling = asyncio.create_task(self._tell_limit())
            return
        self._canceled = self._canceled or order == CANCEL
        if self._is_open and order not in self._orders:
            self._orders.add(order)
            self.owner.on_end(ORDERS[order])

    @override
    async def on_controls(self, version: str) -> None:
        """Put into force what an operator wants, and pass it on."""
        await self.controls.heed(version)
        await self.parts.wait(Part.learn)
        self.steer()

    @override
    def on_limit(self, limit: str) -> None:
        """Pass on, once, that the crawl has ended at a limit."""
        if not self._at_limit:
            self._at_limit = True
            self.inbox.stopped = True
            self.heartbeat.leave()
            reason, text = reason_of(limit), described(limit)
            end = AT_LIMIT.of(crawl=self.keys.crawl_id, reason=reason, described=text)
            self.owner.on_end(end)
