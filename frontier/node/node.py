"""One node of a crawl: everything between Scrapy and the store.

What always holds:

1.  After `open` the node is a member of exactly one crawl. Neither `close` nor its
    death deletes anything shared.
2.  A task of the node that fails for good stops the node, loudly: a frontier
    that cannot write must not go on.
3.  Nothing here waits for Redis or disk in the reactor's thread.
4.  Each component of the kernel is an attribute of the node, and calls the others
    through the node; component modules import this one only for its type. Features are
    not components; they hang on the hooks of `Part`.
5.  The owner is told once of each `End`, and once that the crawl is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from frontier.cluster import crawls, endings
from frontier.cluster.crawls import LIMIT
from frontier.cluster.lease import Leases
from frontier.cluster.membership import Membership
from frontier.cluster.seed_lock import SeedLock
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import (
    CrawlLost,
    FrontierError,
    KeyDamaged,
    NoCrawlYet,
    NodeStopped,
    StoreRefused,
    StoreUnavailable,
    WriterStopped,
)
from frontier.model import Member
from frontier.node.acks import Acks, DeliveryMarks
from frontier.node.borrow import Borrow
from frontier.node.context import (
    NOTHING,
    Features,
    Loops,
    Owner,
    Part,
    Parts,
    answer_time,
    before,
)
from frontier.node.controls import Controlling
from frontier.node.deliveries import Deliveries
from frontier.node.departure import REACH_PAUSE, Leaving
from frontier.node.due_times import DueTimes
from frontier.node.end_of_crawl import EndOfCrawl, Fetched
from frontier.node.ends import (
    AT_LIMIT,
    DAMAGED,
    EMPTY,
    FAILED,
    FINISHED,
    NOTHING_FETCHED,
    ORDERS,
    UNDONE,
    End,
    described,
    reason_of,
)
from frontier.node.heartbeat import Heartbeat
from frontier.node.hosts import Concurrency, HostConcurrency, Hosts
from frontier.node.inbox import Inbox
from frontier.node.outbox import Outbox
from frontier.node.process_stats import ProcessStats
from frontier.node.ready_queues import ReadyQueues
from frontier.node.reclaim import Reclaim
from frontier.node.uplink import Uplink
from frontier.queue.due import ServerClock
from frontier.seen.config import seen_config
from frontier.settings.values import end_ms
from frontier.status.figures import PACES
from frontier.store.calls import Copies
from frontier.store.client import Call, Store, check_server
from frontier.store.damage import is_number
from frontier.store.embedded import NodeServer
from frontier.store.outage_retry import OutageRetry
from frontier.watchdog.child import Watchdog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping

    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.store.address import Server
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

WATCH = 1.0
"""Seconds between two times that Sentinel, if any, is asked for the primary."""
CLOCKS_APART = 60.0
"""Seconds by which the clocks of node and store may differ without a word."""
PROGRESS = 5.0
"""Seconds between two log lines of a node that cannot start without the store."""
JOIN_PAUSE = 1.0
"""Seconds between looks for a crawl to join."""
SILENCE = 1.0
"""Seconds without an answer after which a server counts as silent; a third of a lease,
if that is less."""


class Node:
    """Builds the services of a node from its configuration and runs them.

    Its components and its parts reach each other through its attributes; `open` makes
    those that have no value here.
    """

    keys: CrawlKeys
    store: Store
    outage_retry: OutageRetry
    run: Callable[..., Awaitable[list[Any]]]
    """Runs calls that may be executed twice, however long the store is silent."""
    answer: Callable[[Call], Awaitable[Any]]
    """The same for a single call, whose reply it returns."""
    shape: Mapping[str, Any]
    """The settings with which the crawl was created, or has to agree."""
    membership: Membership
    leases: Leases
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    watchdog: Watchdog | None = None
    """Keeps the leases while a callback keeps this process busy."""
    ended = ""
    """The state of the crawl once it has ended, as the owner was told."""
    has_seeds = False
    """Whether the crawl has all start requests of this node's spider."""
    stays_open = False
    """Whether URLs may come from elsewhere when nothing is queued."""
    stats_of_all: Mapping[str, int] = {}
    """The counts of all nodes, once this one has left as the last."""
    start_lock: SeedLock | None = None
    """The lock on the seed list that this node loads, or has loaded."""
    telling: asyncio.Task[None] | None = None
    """Finds out how the crawl has ended, and tells the owner."""
    _closed = False
    _is_open = False

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
    ) -> None:
        self.config, self.owner = config, owner
        self.parts = Parts()
        self.parts.add(owner)
        whole = concurrency or Concurrency()
        self.host_concurrency = HostConcurrency(config, whole, lambda: self.share)
        """How many requests it may have at once."""
        self.clock = ServerClock()
        """The server's clock, as far as this node knows it."""
        self.ends: list[End] = []
        """The ends that the owner was told of."""
        self.launch, self.spider = launch, spider
        self.settings = settings
        """Scrapy's settings, with the URL of the store."""
        self._features = features
        self.stopping = asyncio.Event()
        """Set when the process is to end."""
        self.process_stats = ProcessStats(
            settings, config.warc_dir if config.warc_enabled else None
        )
        """Figures of its process; a component that serves a port notes it there."""
        self.tasks = Loops(self.fail)
        self._server = NodeServer(config.store_dir)
        self.opened = contextlib.AsyncExitStack()
        """Closes what was opened, in reverse order."""
        self._opened_at = time.monotonic()

    async def open(self) -> None:
        """Connect, enter the crawl, take a place in the ring, start.

        Raises:
            ConfigurationError: The settings do not fit the crawl's.
            RunOver: The crawl that it came for has ended.
            NodeStopped: The process is to end before it has reached a store or crawl.
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
        """Connect to the store, which must be one that never drops keys by itself."""
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

    async def _start(self) -> None:
        """Build the node, take a place in the ring, and start the loops."""
        self.build()
        self.parts.add(*await self._features.open(self))
        if self.config.busy_max:
            self.watchdog = Watchdog(
                self.config,
                self.keys,
                self.membership,
                address=self.store.address,
                timeout=answer_time(self.config.lease_ttl),
            )
            self.opened.push_async_callback(self.watchdog.close)
        await self.reach(self._keep_to_the_end)
        await self.reach(self.heartbeat.beat)
        self._compare_clocks()
        if self.watchdog is not None:
            await self.watchdog.start()
        for loop in (*self.loops(), self._watch, self._pulse, self.process_stats.run):
            self.tasks.start(loop())
        self.outage_retry.on_damaged = self.fail

    def _compare_clocks(self) -> None:
        """Warn if the clock that dates this node's archive is far from the store's."""
        ahead = time.time() - self.clock() / 1000
        if abs(ahead) > CLOCKS_APART:
            logger.warning(
                "this machine's clock is %.0f s %s the store's: if it is the wrong "
                "one, so are the dates in this node's WARC files and logs",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )

    async def _keep_to_the_end(self) -> None:
        """Let nothing be fetched that is due after the end that the settings name."""
        if not self.config.recrawl_until:
            return
        ask = Call.command("HGET", self.keys.meta, "created_ms")
        (found,) = await self.outage_retry.call([ask])
        began = int(found) if found and is_number(found) else time.time() * 1000
        until = end_ms(self.config.recrawl_until, began)
        self.end_of_crawl.until = self.due_times.until = until

    def build(self) -> None:
        """Make the components, for the crawl of `keys` on `store`.

        They are made in the order in which they use each other. One that is made later
        is reached through the node's attributes; nothing runs before the `loops` do.
        """
        config, keys, outage_retry = self.config, self.keys, self.outage_retry
        self.run, self.answer = outage_retry.retry, outage_retry.answer
        ttl, partitions = config.lease_ttl, config.partitions
        member = Member(config.node_id, config.node_weight)
        of_ring = (outage_retry.call, keys, member, partitions)
        self.membership = Membership(*of_ring, ttl=ttl, clock=self.monotonic)
        self.leases = Leases(outage_retry.call, keys, self.membership)
        self.fetched = Fetched(self)
        self.hosts = Hosts(self)
        self.uplink = Uplink(self)
        self.controls = Controlling(self)
        self.delivery_marks = DeliveryMarks(self)
        self.seen = seen_config(config)
        self.outbox = Outbox(self)
        self.ready = ReadyQueues(self)
        self.inbox = Inbox(self)
        self.due_times = DueTimes(self)
        self.acks = Acks(self)
        self.deliveries = Deliveries(self)
        self.reclaim = Reclaim(self)
        self.borrow = Borrow(self)
        self.heartbeat = Heartbeat(self)
        self.end_of_crawl = EndOfCrawl(self)
        self.leaving = Leaving(self)
        outage_retry.on_change(self.start_over)
        self.parts.add(self.controls, self.uplink, self.delivery_marks)
        self.parts.add(self.hosts, self.fetched, self.deliveries)

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """The loops that run for as long as the node is open."""
        loops = [self.outbox.run, self.inbox.run, self.acks.run]
        loops += [self.heartbeat.run, self.heartbeat.look]
        loops += [self.borrow.run, self.due_times.run, self.outage_retry.watch_memory]
        loops += self.parts.each(Part.run)
        if self.watchdog is not None:
            loops.append(self.watchdog.run)
        if not self.config.keep_alive:
            loops.append(self.end_of_crawl.run)
        return loops

    async def reach(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What *ask* returns, once the store answers.

        Raises:
            StoreUnavailable: It has not answered for as long as the settings say.
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
        done = await before(self.stopping, work)
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
        """Leave a primary soon after it was replaced."""
        interval = min(WATCH, self.config.lease_ttl / 5)
        await self.store.watch(interval, partial(self.parts.call, Part.replaced))

    async def _pulse(self) -> None:
        """Tell soon if a server hangs; if it is one of several, nobody waits for it."""
        silence = min(SILENCE, self.config.lease_ttl / 3)
        await self.store.pulse(silence, self.outage_retry.note_silence)

    async def _require_copies(self) -> None:
        """Make pushes wait for copies, if the settings say so.

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
        """Whether *reservation* is lost for good, with the lease that it stands on."""
        is_held = self.leases.holds(reservation.lease)
        if not is_held or reservation.key not in self.inbox.open:
            return True
        return self.deliveries.has_lost(reservation.delivery)

    def covers(self, reservation: Reservation) -> bool:
        """Whether a request that stands on *reservation* may be sent."""
        is_there = not self.deliveries.has_lost(reservation.delivery)
        return is_there and self.leases.covers(reservation.lease)

    def lock_start(self, start_id: str) -> SeedLock:
        """The lock on a seed list, which this node gives back when it leaves."""
        ttl_ms, me = int(self.config.lease_ttl * 1000), self.config.node_id
        self.start_lock = SeedLock(self.keys, start_id, me, ttl_ms=ttl_ms)
        return self.start_lock

    def report(self) -> dict[str, Any]:
        """Figures of this node, for the crawl's report."""
        seconds = time.monotonic() - self._opened_at
        figures = {
            "opened": round(self.clock() / 1000 - seconds, 3),
            "seconds": round(seconds, 1),
            "reclaimed": self.reclaim.count,
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
        """Current figures that are not in the node's report; see docs/figures.md."""
        return {
            "lease_seconds": max(0.0, self.membership.deadline - time.monotonic()),
            "epoch": self.membership.epoch,
            "nodes": self.membership.nodes,
            "paused": float(self.controls.paused),
            "outages": self.outage_retry.outages,
            "available": float(self.outage_retry.available),
            "outbox": self.outbox.pending,
            "left_alone": self.hosts.count,
            "uplink_pause": self.uplink.seconds,
        }

    def leave(self) -> None:
        """Give back what is not started, and each partition once it is done.

        The node is a member until it is closed, but no longer owns anything.
        """
        self.inbox.stopped = True
        if not self.ended:
            self.heartbeat.leave()
        self.leaving.watch()

    async def close(self) -> None:
        """Store what is done, give back what is not, and leave; once."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.leaving.leave()
        finally:
            try:
                await self.opened.aclose()
            except StoreUnavailable as error:
                logger.error("%s", error)  # noqa: TRY400 (it says all)
                self.end(UNDONE)

    # What its parts ask of the node, or tell it.

    def end(self, end: End) -> None:
        """Tell the owner of *end*, once."""
        if (self._is_open or end.error) and end not in self.ends:
            self.ends.append(end)
            self.owner.on_end(end)

    def fail(self, error: BaseException) -> None:
        """Tell the owner that the node cannot go on; what has ended stays ended."""
        if isinstance(error, WriterStopped) and error.__cause__ is not None:
            error = error.__cause__
        if type(error) is StoreRefused and self.has_failed(StoreRefused):
            return  # the store refuses each command in words of its own
        if isinstance(error, KeyDamaged):
            self.acks.fault = self.acks.fault or error
        if isinstance(error, CrawlLost) and not error.crawl_id:
            error = CrawlLost(self.keys.crawl_id)
        known, is_damaged = len(self.ends), isinstance(error, KeyDamaged)
        self.end((DAMAGED if is_damaged else FAILED).of(error))
        of_crawl = self.keys.meta.removesuffix("}:meta")
        is_new = len(self.ends) > known
        if is_new and isinstance(error, KeyDamaged) and error.key.startswith(of_crawl):
            logger.critical(
                "nothing is lost: stop the other nodes, run frontier crawl repair "
                "--crawl %s, and start them again",
                self.keys.crawl_id,
            )

    def has_failed(self, *kinds: type[BaseException]) -> bool:
        """Whether the owner was told of an error that is one of *kinds*."""
        return any(isinstance(end.error, kinds) for end in self.ends)

    async def tell_if_empty(self) -> None:
        """Warn if nothing is left in the crawl that this node has joined."""
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

    def tell_end(self, state: str) -> None:
        """Tell the owner, once, that the crawl has ended as *state*."""
        if self._is_open and self.telling is None:
            self.telling = asyncio.create_task(self._tell_end(state))

    def end_crawl(self, limit: str) -> None:
        """End the crawl on all nodes, at *limit*; what is queued is not fetched."""
        if self.telling is None:
            self.telling = asyncio.create_task(self._end_crawl(limit))

    async def _end_crawl(self, limit: str) -> None:
        try:
            is_at_limit = await endings.end(self.run, self.keys, limit)
        except FrontierError as error:
            self.fail(error)
            return
        if is_at_limit:
            await self._tell_end(LIMIT)
        else:
            self.telling = None  # it has ended otherwise, as the next heartbeat tells

    async def _tell_end(self, state: str) -> None:
        try:
            end = await self._end_of(state)
        except FrontierError as error:
            self.fail(error)
            return
        self.ended = state  # from now on the owner may close by itself
        if state == LIMIT:
            self.inbox.stopped = True
            self.heartbeat.leave()
        self.end(end)

    async def _end_of(self, state: str) -> End:
        """The end of this node, whose crawl has ended as *state*."""
        crawl_id = self.keys.crawl_id
        if state == crawls.CANCELED:
            return ORDERS["cancel"]
        if state == LIMIT:
            ask = Call.command("HGET", self.keys.meta, "limit")
            limit = (await self.answer(ask) or b"").decode("utf-8", "replace")
            reason, text = reason_of(limit), described(limit)
            return AT_LIMIT.of(crawl=crawl_id, reason=reason, described=text)
        counts = await self.fetched.without()
        if counts is None:
            return FINISHED
        queued, dead = counts
        end = NOTHING_FETCHED if queued else EMPTY
        return end.of(crawl=crawl_id, queued=queued, dead=dead)

    def start_over(self, servers: Collection[Server | None] | None = None) -> None:
        """Rely on nothing in the store, or on *servers* of it: they may lack writes.

        Leases are taken again under higher tokens, and what was under way is then put
        back, as after any holder (`frontier.node.reclaim`). What was pushed lately is
        pushed again before that: the page that led to it may be acked.
        """
        held = [
            lease
            for number, lease in self.leases.held.items()
            if servers is None
            or self.store.server_of(self.keys.partition(number).counts) in servers
        ]
        self.leases.doubtful.update(lease.partition for lease in held)
        count = self.inbox.lose(held)
        again = self.outbox.resend()
        self.parts.call(Part.went_back)
        self.heartbeat.hurry()
        if not held and not again:  # as while a replica refuses each write
            return
        logger.warning(
            "the store at %s may have lost its last writes: another server took its "
            "place, or it was restarted; %d requests that were under way here "
            "will be fetched again, and %d URLs are pushed again",
            self.store.where,
            count,
            again,
        )

    @property
    def share(self) -> float:
        """The share of the partitions that it holds, from 0 to 1."""
        return len(self.leases.held) / self.config.partitions

    def waits_for(self) -> str:
        """What keeps this node from storing what is done; empty if nothing does."""
        waits = self.outage_retry.waits_for(), self.parts_wait_for()
        return " and ".join(filter(None, waits))

    def parts_wait_for(self) -> str:
        """What keeps its parts from it, as a full disk does; empty if nothing does."""
        waits = [each() for each in self.parts.each(Part.waits_for)]
        return " and ".join(filter(None, waits))

    def is_idle(self) -> bool:
        """Whether nothing is left to do here."""
        if self.outbox.pending or self.deliveries.kept or self.is_busy():
            return False
        return self.inbox.idle

    def is_busy(self) -> bool:
        """Whether there is work that is not in the store."""
        return self.outbox.is_resending or any(
            busy() for busy in self.parts.each(Part.busy)
        )
