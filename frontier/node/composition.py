"""The parts of a node, and which of them knows which other.

What always holds:

1.  A part is handed those that it needs when it is built, so the order in which
    they are built here is the order in which they may know each other.
2.  Nothing runs before one of `Composition.loops` does.

The server of a node: the one that its settings name, or the embedded one.

What always holds:

1.  An embedded server that a node has joined is left exactly once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from frontier.cluster.lease import Leases
from frontier.cluster.membership import Membership
from frontier.cluster.shared_settings import seen_config
from frontier.errors import StoreUnavailable
from frontier.files import mode_of
from frontier.model import Member
from frontier.node.acks import Acks, DeliveryMarks
from frontier.node.address_classes import AddressClasses
from frontier.node.cookies import Cookies
from frontier.node.crawl_limits import Portions, Spending
from frontier.node.end_of_crawl import EndOfCrawl
from frontier.node.failover import Failover
from frontier.node.heartbeat import Heartbeat
from frontier.node.host_delays import HostDelays
from frontier.node.host_ips import Addresses
from frontier.node.host_quotas import Quotas
from frontier.node.inbox import Inbox
from frontier.node.journal.restoring import Restoring
from frontier.node.lending import Claims, Lending
from frontier.node.outbox import Outbox
from frontier.node.recovery import Recovery
from frontier.node.set_aside import SettingAside
from frontier.node.single_host_warning import SingleHostWarning
from frontier.queue.spill import Spilling
from frontier.queue.spill_files import spill_files_of
from frontier.seen.memory_limit import SeenMemoryLimit
from frontier.settings.values import SEEDS
from frontier.store.client import given
from frontier.store.embedded import EmbeddedStore
from frontier.watchdog.child import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from frontier.node.crawl_limits import Limits
    from frontier.node.host_concurrency import HostConcurrency
    from frontier.node.journal.writer import Journaling
    from frontier.node.loops import Owner
    from frontier.queue.push import Push
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.store.client import Call, Store
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


class NodeServer:
    """Joins the embedded store in *directory* where no server is given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._embedded: EmbeddedStore | None = None

    @property
    def embedded(self) -> bool:
        """Whether the server is one that nodes start again."""
        return self._embedded is not None

    async def join(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return *settings* with the URL of the server.

        Raises:
            StoreUnavailable: The embedded server does not start.
        """
        settings = dict(settings)
        if not given(settings):
            self._embedded = await asyncio.to_thread(
                EmbeddedStore.join, self._directory
            )
            settings["REDIS_URL"] = self._embedded.url
        return settings

    async def revive(self) -> None:
        """Start the embedded store again, should its process have died."""
        try:
            fresh = await asyncio.to_thread(EmbeddedStore.join, self._directory)
        except StoreUnavailable:
            return  # the next call that fails asks again
        old, self._embedded = self._embedded, fresh
        if old is not None:
            await asyncio.to_thread(old.leave)

    async def leave(self) -> None:
        """Leave the embedded store, if this is one."""
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.leave)


class Whole(Protocol):
    """What the parts ask of the node, or tell it."""

    async def archived(self) -> None:
        """Return when what was handed over is on disk, and in the journal."""

    def is_idle(self) -> bool:
        """Whether nothing is left to do here."""

    def report(self) -> Mapping[str, Any]:
        """Figures of the node, for the crawl's report."""

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """The store has decided about *pushes*: a letter for each."""

    def on_risen(self, risen: list[tuple[int, str]]) -> list[Call]:
        """Calls that tell of queues that have just become non-empty."""

    def on_finished(self) -> None:
        """The crawl is over on every node."""

    def on_aside(self) -> None:
        """A partition was set aside, so the crawl is not going to be whole."""

    def on_incomplete(self, found: dict[int, bytes]) -> None:
        """The crawl is over but for partitions that are set aside, and why."""

    def on_order(self, order: str) -> None:
        """What an operator wants; see `Owner.on_order`."""

    def on_limit(self, limit: str) -> None:
        """The crawl has ended at a limit; see `Owner.on_limit`."""


class Composition:
    """Everything of a node that works by itself."""

    def __init__(
        self,
        config: Config,
        store: Store,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        journal: Journaling,
        *,
        node: Whole,
        owner: Owner,
        allowance: HostConcurrency,
        limits: Limits,
        answer_time: float,
    ) -> None:
        self._config = config
        ttl = config.lease_ttl
        self.leases = Leases(
            outage_retry.once, keys, config.node_id, ttl=ttl, some=outage_retry.some
        )
        self.membership = Membership(
            outage_retry.once,
            keys,
            Member(config.node_id, config.node_weight),
            config.partitions,
            ttl=ttl,
        )
        self.outbox = Outbox(
            outage_retry,
            keys,
            seen_config(config),
            on_verdicts=node.on_verdicts,
            on_risen=node.on_risen,
            journal=journal.pushed,
            process=journal.process,
        )
        self.restoring = Restoring(
            outage_retry,
            keys,
            self.outbox,
            directory=config.journal_dir,
            partitions=config.partitions,
            journaled=journal.durable,
        )
        self.starts = DeliveryMarks(outage_retry, keys)
        self.host_delays = HostDelays(outage_retry, keys)
        self.portions = Portions(outage_retry, keys, partitions=config.partitions)
        self.addresses = Addresses(outage_retry, keys)
        allowed = frozenset(config.allow_addresses)
        given = None if SEEDS in allowed else allowed
        self.address_classes = AddressClasses(outage_retry, keys, given)
        self.cookies = Cookies(outage_retry, keys)
        self.claims = Claims(outage_retry, keys, node_id=config.node_id, ttl=ttl)
        self.inbox = Inbox(
            outage_retry,
            keys,
            self.leases,
            node_id=config.node_id,
            process=self.claims.process,
            order=config.order,
            size=allowance.waiting,
            cap=allowance.reserved,
            host_of=allowance.host_of,
            on_ready=owner.on_ready,
            partitions=config.partitions,
        )
        self.aside = outage_retry.aside = SettingAside(
            store,
            keys,
            self.leases,
            self.inbox,
            seen_config(config),
            partitions=config.partitions,
            on_aside=node.on_aside,
        )
        store.on_damaged = self.aside.answer
        self.spilling = Spilling(
            outage_retry,
            keys,
            self.leases,
            self.inbox,
            order=config.order,
            partitions=config.partitions,
            max_bytes=config.queue_max_bytes,
            spill_files=spill_files_of(
                config.queue_spill_dir, keys, mode_of(config.file_mode)
            ),
        )
        self.quotas: Quotas | None = None
        """What each host may have, if there is a limit."""
        if config.host_max_pages or config.host_max_bytes:
            self.quotas = self.inbox.quotas = Quotas(
                outage_retry,
                keys,
                order=config.order,
                max_pages=config.host_max_pages,
                max_bytes=config.host_max_bytes,
            )
        self.acks = Acks(
            outage_retry,
            keys,
            self.leases,
            self.inbox,
            self.outbox,
            archived=node.archived,
            on_acked=self._on_acked,
            on_ended=self.claims.ended,
            journal=journal.acked,
            charge=self.quotas.charge if self.quotas is not None else None,
        )
        self.recovery = Recovery(
            outage_retry,
            keys,
            self.leases,
            self.inbox,
            self.outbox,
            self.acks,
            partitions=config.partitions,
            order=config.order,
            start_again=owner.start_again,
        )
        self.lending = Lending(
            outage_retry,
            keys,
            self.leases,
            self.inbox,
            self.claims,
            self.membership,
            node_id=config.node_id,
            resolve=self.recovery.take,
        )
        self.spending: Spending | None = None
        """Who counts what the node does, if the crawl has a limit."""
        if limits:
            self.spending = Spending(
                outage_retry,
                keys,
                limits,
                node_id=config.node_id,
                ttl=ttl,
                waiting=lambda: len(self.inbox),
                on_allowed=owner.on_ready,
                on_limit=node.on_limit,
            )
        self._setback = Failover(
            store,
            keys,
            self.leases,
            self.inbox,
            self.outbox,
            order=config.order,
            on_forgotten=owner.on_forgotten,
        )
        outage_retry.on_change(self._examine)
        self.heartbeat = Heartbeat(
            outage_retry,
            keys,
            self.membership,
            self.leases,
            self.inbox,
            node_id=config.node_id,
            order=config.order,
            ttl=ttl,
            report=node.report,
            busy=lambda: owner.is_busy() or self.restoring.busy,
            on_finished=node.on_finished,
            on_order=node.on_order,
            on_death=self.restoring.look,
            before_release=self.host_delays.flush,
            lending=self.lending,
        )
        self.lending.on_change = self.heartbeat.hurry
        self.watchdog: Watchdog | None = None
        """Who keeps the leases while a callback keeps this process busy."""
        if config.busy_max:
            self.watchdog = Watchdog(
                config,
                keys,
                self.leases,
                self.membership,
                address=store.address,
                timeout=answer_time,
                process=self.claims.key,
            )
        self.ending = EndOfCrawl(
            outage_retry,
            keys,
            self.leases,
            self.inbox,
            partitions=config.partitions,
            ttl=ttl,
            idle=node.is_idle,
            on_finished=node.on_finished,
            on_incomplete=node.on_incomplete,
            rank=lambda: self.membership.rank,
            last_look=self.restoring.look_now,
        )
        self.budget: SeenMemoryLimit | None = None
        """Who looks after the memory of the sets, if there is a limit."""
        if config.seen_set_max_bytes:
            self.budget = SeenMemoryLimit(
                outage_retry,
                keys,
                self.leases,
                seen_config(config),
                partitions=config.partitions,
                max_bytes=config.seen_set_max_bytes,
            )

    async def _examine(self) -> None:
        await self._setback.examine()
        self.restoring.look(closed=True)

    def _on_acked(self, done: list[Reservation]) -> None:
        self.starts.end(done)
        if self.quotas is not None:
            self.quotas.settle(done)
        if self.spending is not None:
            self.spending.end(len(done))

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What has to run for as long as the node is open."""
        loops = [self.outbox.run, self.inbox.run, self.acks.run]
        loops += [self.heartbeat.run, self.heartbeat.renew, self.starts.run]
        loops += [self.spilling.run, self.claims.run, self.lending.run]
        loops += [self.restoring.run, self.portions.run]
        if self.watchdog is not None:
            loops.append(self.watchdog.run)
        if self._config.queue_max_bytes:
            loops.append(self.spilling.watch)
        if self._config.queue_key != "url":  # else there is no host to spare
            loops.append(self.host_delays.run)
            if self._config.host_shards == 1:
                loops.append(SingleHostWarning(self.membership, self.inbox).run)
        if self.spending is not None:
            loops.append(self.spending.run)
        if self.budget is not None:
            loops.append(self.budget.run)
        if not self._config.keep_alive:
            loops.append(self.ending.run)
        return loops
