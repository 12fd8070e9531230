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
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from frontier.coordination import crawls
from frontier.coordination.lease import Leases
from frontier.coordination.membership import Membership
from frontier.errors import StoreRefused, StoreUnavailable
from frontier.hashing import mark
from frontier.model import Member
from frontier.queues.push import Push
from frontier.runtime.acks import Acks
from frontier.runtime.addresses import Addresses
from frontier.runtime.advice import Advice
from frontier.runtime.archiving import Archive
from frontier.runtime.budget import Budget
from frontier.runtime.ending import Ending
from frontier.runtime.hints import hint_calls
from frontier.runtime.inbox import Inbox
from frontier.runtime.journaling import Journaling
from frontier.runtime.keeper import Keeper
from frontier.runtime.manners import Manners
from frontier.runtime.outbox import Outbox
from frontier.runtime.patience import Patience
from frontier.runtime.setback import Setback
from frontier.runtime.shape import FILTER_PROBE, crawl_shape, seen_shape, settled
from frontier.runtime.shelf import shelf_of
from frontier.runtime.spilling import Spilling
from frontier.runtime.starts import Starts
from frontier.store.client import BlockingStore, Call, Store, check_server, given
from frontier.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from frontier.conf import Config
    from frontier.queues.partition import Reservation
    from frontier.seen.state import SeenState

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT = 30.0
"""Seconds that a closing node waits for a store that does not answer."""
LEAVE_TIMEOUT = 3.0
"""Seconds for which it then tries to leave the crawl all the same."""


class Owner(Protocol):
    """What a node tells the one that runs it."""

    def on_ready(self) -> None:
        """Something can be taken."""

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """The store has decided about *pushes*: a letter for each."""

    def on_finished(self) -> None:
        """The crawl is over on every node."""

    def on_forgotten(self) -> None:
        """The store has gone back: what was seen here may not be seen there."""

    def on_failure(self, error: BaseException) -> None:
        """The node cannot go on."""

    def on_order(self, order: str) -> None:
        """An operator wants it to ``drain``, or says ``remove``."""

    def is_busy(self) -> bool:
        """Whether there is work that is not in the store."""

    def report(self) -> Mapping[str, Any]:
        """Figures of this node, for the crawl's report."""


class Node:
    """Builds the services of a node from its configuration and runs them."""

    def __init__(
        self,
        config: Config,
        settings: Mapping[str, Any],
        owner: Owner,
        *,
        spider: str,
        inbox_size: int,
        cap: int,
    ) -> None:
        self.config = config
        self._settings = settings
        self._owner = owner
        self._spider = spider
        self._inbox_size = inbox_size
        self._cap = cap
        self._tasks: list[asyncio.Task[None]] = []
        self._broken = asyncio.Event()
        """Set when a loop has failed for good, which others may wait for."""
        self._embedded: EmbeddedStore | None = None
        self.archive: Archive | None = None
        self._journal = Journaling()
        self._budget: Budget | None = None
        self.spilling: Spilling | None = None
        self.finished = False
        self._was_last = False
        self.opened_at = time.time()
        self.verdicts: Counter[str] = Counter()
        """How many pushes got which verdict."""

    async def open(self) -> None:
        """Connect, enter the crawl, take a place in the ring, start.

        Raises:
            ConfigurationError: The settings do not fit the crawl's.
            StoreError: The store does not answer, or may forget keys.
            ArchiveError: The archive cannot be written.
        """
        settings = dict(self._settings)
        if not given(settings):
            directory = self.config.store_dir
            self._embedded = await asyncio.to_thread(EmbeddedStore.join, directory)
            settings["REDIS_URL"] = self._embedded.url
        try:
            await self._enter(settings)
        except BaseException:
            await self._abandon()
            raise

    async def _enter(self, settings: Mapping[str, Any]) -> None:
        self._store = Store.from_settings(settings)
        memory = await self._store.call(Call.command("INFO", "memory"))
        check_server(memory, self._store.where)
        config = self.config = settled(
            self.config, server_has_filters=await self._has_filters()
        )
        revive = self._revive if self._embedded is not None else None
        self._patience = Patience(self._store, revive)
        self.run = self._patience.run
        once = self._patience.once
        shape = crawl_shape(config, settings)
        self.keys = await crawls.enter(
            once, config.namespace, self._spider, config.crawl_id, shape
        )
        member = Member(config.node_id, config.node_weight)
        ttl = config.lease_ttl
        self._leases = Leases(once, self.keys, config.node_id, ttl=ttl)
        self._membership = Membership(
            once, self.keys, member, config.partitions, ttl=ttl
        )
        if config.warc_enabled:
            blocking = BlockingStore.from_settings(settings)
            crawl_id = self.keys.crawl_id
            self.archive = await asyncio.to_thread(Archive, config, blocking, crawl_id)
        self._journal = await Journaling.begin(config, self.keys, self._spider, shape)
        self._build()
        await self._keeper.beat()
        self._start()
        logger.info(
            "node %s is in crawl %s on %s",
            config.node_id,
            self.keys.crawl_id,
            self._store.where,
        )

    async def _has_filters(self) -> bool:
        try:
            await self._store.call(FILTER_PROBE)
        except StoreRefused:
            return False
        return True

    def _build(self) -> None:
        config, keys, patience = self.config, self.keys, self._patience
        self.outbox = Outbox(
            patience,
            keys,
            seen_shape(config),
            on_verdicts=self._on_verdicts,
            on_risen=self._on_risen,
            journal=self._journal.pushed,
        )
        self._starts = Starts(patience, keys)
        self._manners = Manners(patience, keys)
        self.addresses = Addresses(patience, keys)
        self.inbox = Inbox(
            patience,
            keys,
            self._leases,
            node_id=config.node_id,
            order=config.order,
            size=self._inbox_size,
            cap=self._cap,
            on_ready=self._owner.on_ready,
        )
        self.acks = Acks(
            patience,
            keys,
            self._leases,
            self.inbox,
            self.outbox,
            archived=self._archived,
            on_acked=self._starts.end,
            journal=self._journal.acked,
        )
        setback = Setback(
            self._store,
            keys,
            self._leases,
            self.inbox,
            self.outbox,
            order=config.order,
            on_forgotten=self._owner.on_forgotten,
        )
        patience.on_change(setback.examine)
        self._keeper = Keeper(
            patience,
            keys,
            self._membership,
            self._leases,
            self.inbox,
            node_id=config.node_id,
            order=config.order,
            ttl=config.lease_ttl,
            report=self._owner.report,
            busy=self._owner.is_busy,
            on_finished=self._on_finished,
            on_order=self._owner.on_order,
            before_release=self._manners.flush,
        )
        self._ending = Ending(
            patience,
            keys,
            self._leases,
            self.inbox,
            partitions=config.partitions,
            ttl=config.lease_ttl,
            idle=self._is_idle,
            on_finished=self._on_finished,
        )

    def _start(self) -> None:
        loops = [self.outbox.run, self.inbox.run, self.acks.run, self._keeper.run]
        spilling = self.spilling = Spilling(
            self._patience,
            self.keys,
            self._leases,
            self.inbox,
            order=self.config.order,
            partitions=self.config.partitions,
            max_bytes=self.config.queue_max_bytes,
            shelf=shelf_of(self.config.queue_spill_dir, self.keys),
        )
        loops += [self._starts.run, spilling.run]
        if self.config.queue_max_bytes:
            loops.append(spilling.watch)
        if self.config.queue_key != "url":  # else there is no host to spare
            loops.append(self._manners.run)
            if self.config.host_shards == 1:
                loops.append(Advice(self._membership, self.inbox).run)
        if self.config.seen_set_max_bytes:
            self._budget = Budget(
                self._patience,
                self.keys,
                self._leases,
                seen_shape(self.config),
                partitions=self.config.partitions,
                max_bytes=self.config.seen_set_max_bytes,
            )
            loops.append(self._budget.run)
        if not self.config.keep_alive:
            loops.append(self._ending.run)
        for loop in loops:
            self._tasks.append(asyncio.create_task(self._guard(loop())))

    async def _guard(self, loop: Coroutine[Any, Any, None]) -> None:
        try:
            await loop
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            logger.exception("the frontier of this node cannot go on")
            self._broken.set()
            self._owner.on_failure(error)

    def push(
        self,
        *,
        fingerprint: bytes,
        queue_key: str,
        partition: int,
        priority: int,
        item: bytes,
        mode: str,
        tag: Any,
    ) -> None:
        """Have a URL tested and queued; never waits."""
        queue = f"{priority}:{queue_key}"
        push = Push(mode, mark(fingerprint), queue, priority, item, tag)
        self.outbox.put(partition, push)

    def take(self) -> Reservation | None:
        """The next URL to start, or ``None`` if there is none at the moment."""
        reservation = self.inbox.take()
        if reservation is not None:
            self._starts.begin(reservation)
        return reservation

    def may_send(self, reservation: Reservation) -> bool:
        """Whether the lease that *reservation* stands on is still to be relied on."""
        return self._leases.covers(reservation.lease)

    def sent(self, reservation: Reservation, delay: float) -> None:
        """Note that a request was sent, and for how long to leave its host alone."""
        if self.config.queue_key != "url":
            self._manners.sent(reservation, delay)

    def holds(self, partition: int) -> bool:
        """Whether this node has a current lease on *partition*."""
        return self._leases.current(partition) is not None

    def start_lock(self, start_id: str) -> crawls.StartLock:
        """The lock on a seed list."""
        return crawls.StartLock(
            self._patience.run,
            self.keys,
            start_id,
            self.config.node_id,
            ttl=self.config.lease_ttl,
        )

    @property
    def partitions_held(self) -> int:
        """How many partitions this node has the lease of."""
        return len(self._leases.held)

    @property
    def tiers(self) -> SeenState | None:
        """The shared tiers, if this node looks after the memory of the sets."""
        return self._budget.state if self._budget is not None else None

    @property
    def reclaimed(self) -> int:
        """How many reservations of dead nodes this one put back."""
        return self._keeper.reclaimed

    def leave(self) -> None:
        """Give back what is not started, and each partition when it is done.

        The node is a member until it is closed, but owns nothing any more.
        """
        self.inbox.stopped = True
        if not self.finished:
            self._keeper.leave()

    async def close(self) -> None:
        """Store what is done, give back what is not, leave."""
        self.inbox.stopped = True
        silent = False
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                stored = await self._unless_broken(self._store_all())
            reason = "" if stored else "its frontier has failed"
        except TimeoutError:
            reason, silent = "the store does not answer", True
        if reason:
            logger.error(
                "%s; what this node had in flight will be fetched again by another "
                "one after %g s",
                reason,
                self.config.lease_ttl,
            )
        await self._stop()
        with contextlib.suppress(TimeoutError, StoreUnavailable):
            async with asyncio.timeout(LEAVE_TIMEOUT if silent else CLOSE_TIMEOUT):
                await self._depart()
        if self._was_last and self.archive is not None:
            await self.archive.package()  # takes as long as the disk does
        await self._abandon()

    async def _store_all(self) -> None:
        await self.acks.drain()
        await self.outbox.flush()
        await self._archived()
        await self._manners.flush()

    async def _unless_broken(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do *work*, but stop waiting for it if a loop that it needs has failed."""
        doing = asyncio.create_task(work)
        broken = asyncio.create_task(self._broken.wait())
        try:
            await asyncio.wait([doing, broken], return_when="FIRST_COMPLETED")
            if doing.done():
                doing.result()
                return True
            return False
        finally:
            for task in (doing, broken):
                task.cancel()

    async def _stop(self) -> None:
        """End the loops; again and again, as redis-py may swallow a cancellation."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)

    async def _depart(self) -> None:
        report = self._owner.report()  # while there is an archive, and leases
        await self.inbox.give_back(list(self._leases.held))
        await self._leases.release(list(self._leases.held))
        if self.archive is not None:
            await self.archive.finish()
        left = await self._membership.leave(report)
        if self.finished:
            namespace, crawl_id = self.config.namespace, self.keys.crawl_id
            await crawls.retire(self._patience.run, namespace, self._spider, crawl_id)
            if left == 0 and self.archive is not None:
                await self.archive.commit()
                self._was_last = True

    async def _abandon(self) -> None:
        if self.archive is not None:
            await self.archive.close()
            self.archive = None
        await self._journal.close()
        if hasattr(self, "_patience"):
            self._patience.stop()
        if hasattr(self, "_store"):
            await self._store.close()
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.leave)

    async def _archived(self) -> None:
        if self.archive is not None:
            await self.archive.durable()
        await self.journaled()

    async def journaled(self) -> None:
        """Return when what the store has of this node is in its journal too."""
        await self._journal.durable()

    async def _revive(self) -> None:
        """Start the embedded store again, should its process have died."""
        try:
            fresh = await asyncio.to_thread(EmbeddedStore.join, self.config.store_dir)
        except StoreUnavailable:
            return  # the next call that fails asks again
        old, self._embedded = self._embedded, fresh
        if old is not None:
            await asyncio.to_thread(old.leave)

    def _is_idle(self) -> bool:
        return self.inbox.idle and not self.outbox.pending and not self._owner.is_busy()

    def _on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        self.verdicts.update(verdicts)
        self._owner.on_verdicts(pushes, verdicts)

    def _on_finished(self) -> None:
        if not self.finished:
            self.finished = True
            self._owner.on_finished()

    def _on_risen(self, risen: list[tuple[int, str]]) -> list[Call]:
        """Tell the owners of queues that have just become non-empty."""
        ring = self._membership.ring
        hints: dict[str, list[str]] = {}
        for partition, queue in risen:
            if partition in self._leases.held:
                self.inbox.learn(partition, [queue])
            if ring.owners and (owner := ring.owner(partition)) != self.config.node_id:
                hints.setdefault(owner, []).append(f"{partition} {queue}")
        return hint_calls(self.keys, hints, int(self.config.lease_ttl * 2000))
