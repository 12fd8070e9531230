"""The components of a node, which knows which other, and the server it is on.

What always holds:

1.  A part is handed those that it needs when it is built, so the order in which
    they are built here is the order in which they may know each other.
2.  Nothing runs before one of `Composition.loops` does.
3.  The server is the one that the settings name, or the embedded one. An embedded
    server that a node has joined is left exactly once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from frontier.cluster.lease import Leases
from frontier.cluster.membership import Membership
from frontier.errors import StoreUnavailable
from frontier.model import Member
from frontier.node.acks import Acks, DeliveryMarks
from frontier.node.back_off import BackOffs
from frontier.node.context import NodeContext, Part, Reporting
from frontier.node.controls import Controlling
from frontier.node.cookies import Cookies
from frontier.node.crawl_limits import Portions, Spending
from frontier.node.due_times import DueTimes
from frontier.node.end_of_crawl import EndOfCrawl, Fetched
from frontier.node.failover import Failover
from frontier.node.heartbeat import Heartbeat
from frontier.node.host_addresses import AddressClasses, Addresses
from frontier.node.host_politeness import HostDelays, SingleHostWarning
from frontier.node.host_quotas import Quotas
from frontier.node.inbox import Inbox
from frontier.node.lending import Claims, Lending
from frontier.node.outbox import Outbox
from frontier.node.recovery import Recovery
from frontier.node.uplink import Uplink
from frontier.queue.push import Pusher
from frontier.seen.config import seen_config
from frontier.seen.memory_limit import SeenMemoryLimit
from frontier.settings.values import SEEDS
from frontier.status.reports import GoneNodes
from frontier.store.client import given
from frontier.store.embedded import EmbeddedStore
from frontier.watchdog.child import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from frontier.model import Attempt
    from frontier.node.archiving import Archive
    from frontier.node.context import Owner, Parts
    from frontier.node.crawl_limits import Limits
    from frontier.node.host_politeness import HostConcurrency
    from frontier.node.journal.writer import Journaling
    from frontier.queue.push import Push
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


class Whole(Reporting, Protocol):
    """What the parts ask of the node, or tell it."""

    config: Config
    keys: CrawlKeys
    limits: Limits
    host_concurrency: HostConcurrency

    archive: Archive | None

    parts: Parts

    def is_idle(self) -> bool:
        """Whether nothing is left to do here."""

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """See `Part.stored`."""

    def on_became_ready(self, became_ready: list[tuple[int, str]]) -> list[Call]:
        """Calls that announce queues that have just become non-empty."""

    def on_limit(self, limit: str) -> None:
        """The crawl has ended at *limit*, a name and its value; empty: at another's."""

    def on_uplink(self) -> None:
        """What the node thinks of its uplink has changed."""

    def note(self, attempt: Attempt) -> None:
        """Have *attempt* in the crawl log, if there is one."""


def answer_time(lease_ttl: float) -> float:
    """Seconds that a server has to answer: another heartbeat is due after that.

    More than it may wait for copies of a write, see `frontier.store.calls`.
    """
    return min(5.0, max(2.5, lease_ttl / 3))


class Composition:
    """Everything of a node that works by itself."""

    def __init__(
        self,
        node: Whole,
        owner: Owner,
        store: Store,
        outage_retry: OutageRetry,
        journal: Journaling,
    ) -> None:
        config, keys, ttl = node.config, node.keys, node.config.lease_ttl
        self._config, self._keys, self._node = config, keys, node
        self._owner, self._store, self._outage_retry = owner, store, outage_retry
        self._seen = seen_config(config)
        member = Member(config.node_id, config.node_weight)
        self.membership = Membership(
            outage_retry.call, keys, member, config.partitions, ttl=ttl
        )
        self.leases = Leases(outage_retry.some, keys, self.membership)
        self.context = NodeContext(
            outage_retry,
            keys,
            self.leases,
            node_id=config.node_id,
            partitions=config.partitions,
            order=config.order,
            ttl=ttl,
            parts=node.parts,
        )
        self._make_outbox(journal)
        self._make_shared()
        self._make_inbox()
        self._make_limits()
        self._make_acks(journal)
        self._make_heartbeat()
        self._make_watchdog()
        self._make_end_of_crawl()
        self._order_parts(journal)

    def _make_outbox(self, journal: Journaling) -> None:
        """What sends requests to the store, and those again that it has lost."""
        self.outbox = Outbox(
            self._outage_retry,
            Pusher(
                self._keys,
                self._seen,
                server_ms=self.context.clock,
            ),
            on_verdicts=self._node.on_verdicts,
            on_became_ready=self._node.on_became_ready,
            journal=journal.pushed,
        )

    def _make_shared(self) -> None:
        """What the nodes of a crawl tell each other beside its queues."""
        config, outage_retry, keys = self._config, self._outage_retry, self._keys
        self.delivery_marks = DeliveryMarks(outage_retry, keys)
        self.host_delays = HostDelays(outage_retry, keys)
        self.back_offs = BackOffs(self.context, config)
        self.fetched = Fetched(outage_retry.retry, keys, config.partitions)
        self.uplink = Uplink(
            config.uplink_probe,
            probe=self._owner.probe,
            known_good=self.fetched.origins,
            on_change=self._node.on_uplink,
            on_pause=self.back_offs.forgive,
        )
        self.portions = Portions(outage_retry, keys, partitions=config.partitions)
        self.controls = Controlling(
            outage_retry, keys, note=self._node.note, retry=self.back_offs.retry
        )
        self.addresses = Addresses(outage_retry, keys)
        allowed = frozenset(config.allow_addresses)
        given = None if SEEDS in allowed else allowed
        self.address_classes = AddressClasses(outage_retry, keys, given)
        self.cookies = Cookies(outage_retry, keys)
        self.claims = Claims(
            outage_retry, keys, node_id=config.node_id, ttl=config.lease_ttl
        )

    def _make_inbox(self) -> None:
        """What has requests from the store, and what happens to its queues."""
        self.inbox = Inbox(
            self.context,
            process=self.claims.process,
            host_concurrency=self._node.host_concurrency,
            on_ready=self._owner.on_ready,
        )
        self.due_times = DueTimes(self.context, self.inbox)
        self.inbox.back_offs = self.back_offs
        self.back_offs.on_retry = self.inbox.look_again

    def _make_limits(self) -> None:
        """What the crawl, its hosts and its sets may take."""
        config = self._config
        self.quotas: Quotas | None = None
        """What each host may have, if there is a limit."""
        if config.host_max_pages or config.host_max_bytes:
            self._make_quotas(config.host_max_pages, config.host_max_bytes)
        self.spending = Spending(
            self.context,
            self._node.limits,
            waiting=lambda: 0 if self.inbox.stopped else len(self.inbox),
            on_allowed=self._owner.on_ready,
            on_limit=self._node.on_limit,
            stands_still=lambda: self.uplink.since is not None,
        )
        self.memory_limit: SeenMemoryLimit | None = None
        """Who looks after the memory of the sets, if there is a limit."""
        if config.seen_set_max_bytes:
            self.memory_limit = SeenMemoryLimit(
                self._outage_retry,
                self._keys,
                self.leases,
                self._seen,
                partitions=config.partitions,
                max_bytes=config.seen_set_max_bytes,
            )

    def _make_quotas(self, max_pages: int, max_bytes: int) -> None:
        self.quotas = self.inbox.quotas = Quotas(
            self._outage_retry,
            self._keys,
            order=self._config.order,
            max_pages=max_pages,
            max_bytes=max_bytes,
        )
        self.context.parts.add(self.quotas)

    def change_quotas(self, max_pages: int, max_bytes: int) -> None:
        """Have hosts keep to these; without quotas so far, they count from now on."""
        if self.quotas is not None:
            self.quotas.change(max_pages, max_bytes)
        else:
            self._make_quotas(max_pages, max_bytes)

    def _make_acks(self, journal: Journaling) -> None:
        """What ends reservations, and what is done with those of the dead."""
        self.acks = Acks(
            self.context,
            self.inbox,
            self.outbox,
            on_acked=self.claims.ended,
            journal=journal.acked,
        )
        self.recovery = Recovery(
            self.context,
            self.inbox,
            self.outbox,
            self.acks,
            start_again=self._owner.start_again,
        )
        self.lending = Lending(
            self.context,
            self.inbox,
            self.claims,
            self.membership,
            resolve=self.recovery.take,
        )

    def _make_heartbeat(self) -> None:
        """What keeps the node's place and its leases, also after a failover."""
        self._failover = Failover(
            self.context,
            self._store,
            self.inbox,
            self.outbox,
            on_forgotten=self._note_loss,
        )
        self._outage_retry.on_change(self._examine)
        self.heartbeat = Heartbeat(
            self.context,
            self.membership,
            self.inbox,
            self._node,
            lending=self.lending,
        )
        self.heartbeat.on_leases = self.due_times.note_waiting
        self.lending.on_change = self.heartbeat.hurry

    def _make_watchdog(self) -> None:
        config = self._config
        self.watchdog: Watchdog | None = None
        """Who keeps the leases while a callback keeps this process busy."""
        if config.busy_max:
            self.watchdog = Watchdog(
                config,
                self._keys,
                self.membership,
                address=self._store.address,
                timeout=answer_time(config.lease_ttl),
                process=self.claims.key,
            )

    def _make_end_of_crawl(self) -> None:
        self.end_of_crawl = EndOfCrawl(
            self.context,
            self.inbox,
            idle=self._node.is_idle,
            on_end=self._node.on_finished,
            rank=lambda: self.membership.rank,
            say_idle=self.heartbeat.say_idle,
        )

    async def _examine(self) -> None:
        await self._failover.examine()
        self.back_offs.went_back()
        self.fetched.went_back()

    def _note_loss(self) -> None:
        for went_back in self.context.parts.each(Part.went_back):
            went_back()

    def _order_parts(self, journal: Journaling) -> None:
        """Have the kernel know the parts, each in its place."""
        parts = self.context.parts
        if self._config.queue_key != "url":  # else there is no host to spare
            parts.add(self.host_delays)
            if self._config.host_shards == 1:
                ready = self.inbox.ready_by_key
                parts.add(SingleHostWarning(lambda: self.membership.nodes, ready))
        parts.add(self.controls, self.uplink, self.delivery_marks, self.portions)
        # What was fetched is on disk first: what follows says that it was fetched.
        if self._node.archive is not None:
            parts.add(self._node.archive)
        parts.add(journal, self.back_offs, self.fetched)
        # Last asked for room, as one that is asked in vain asks the store for more.
        parts.add(self.spending)
        run = self._outage_retry.call
        parts.add(GoneNodes(run, self._keys, lambda: self.membership.rank))

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What has to run for as long as the node is open."""
        loops = [self.outbox.run, self.inbox.run, self.acks.run]
        loops += [self.heartbeat.run, self.heartbeat.look]
        loops += [self.claims.run, self.lending.run]
        loops += [self.due_times.run, self._outage_retry.watch_memory]
        loops += self.context.parts.each(Part.run)
        if self.watchdog is not None:
            loops.append(self.watchdog.run)
        if self.memory_limit is not None:
            loops.append(self.memory_limit.run)
        if not self._config.keep_alive:
            loops.append(self.end_of_crawl.run)
        return loops
