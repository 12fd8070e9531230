"""The kernel of a node: what it is made of, without its features, and its server.

What always holds:

1.  Each is handed those that it needs when it is built, so the order in which they
    are built here is the order in which they may know each other.
2.  Nothing runs before one of `Kernel.loops` does.
3.  No feature is named here: what the kernel asks of them are the hooks of `Part`.
4.  The server is the one that the settings name, or the embedded one. An embedded
    server that a node has joined is left exactly once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.cluster.lease import Leases
from frontier.cluster.membership import Membership
from frontier.errors import StoreUnavailable
from frontier.model import Member
from frontier.node.acks import Acks, DeliveryMarks
from frontier.node.borrow import Borrow
from frontier.node.context import NodeContext, Part, Parts, Reporting
from frontier.node.controls import Controlling
from frontier.node.deliveries import Deliveries
from frontier.node.due_times import DueTimes
from frontier.node.end_of_crawl import EndOfCrawl, Fetched
from frontier.node.failover import Failover
from frontier.node.heartbeat import Heartbeat
from frontier.node.host_politeness import HostConcurrency
from frontier.node.hosts import Hosts
from frontier.node.inbox import Inbox
from frontier.node.outbox import Outbox, hint_calls, hints_of
from frontier.node.uplink import Uplink
from frontier.queue.push import Pusher
from frontier.seen.config import seen_config
from frontier.seen.memory_limit import SeenMemoryLimit
from frontier.store.client import given
from frontier.store.embedded import EmbeddedStore
from frontier.watchdog.child import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from contextlib import AsyncExitStack
    from pathlib import Path

    from frontier.cluster.crawls import Launch
    from frontier.node.context import Owner
    from frontier.node.host_politeness import Concurrency
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


def answer_time(lease_ttl: float) -> float:
    """Seconds that a server has to answer: another heartbeat is due after that.

    More than it may wait for copies of a write, see `frontier.store.calls`.
    """
    return min(5.0, max(2.5, lease_ttl / 3))


class Features:
    """What a node has beside its kernel: here nothing. See `frontier.node.parts`."""

    async def may_begin(self, node: Kernel, keys: CrawlKeys) -> bool:  # noqa: ARG002
        """Whether *node* may begin the crawl of *keys*, or is to look for another.

        Raises:
            ConfigurationError: It may not.
        """
        return True

    async def open(self, node: Kernel) -> Sequence[Part]:  # noqa: ARG002
        """Make the parts of *node*, which is built; `Kernel.opened` closes them."""
        return ()


NOTHING = Features()


class Kernel(Reporting):
    """Everything of a node that works by itself."""

    keys: CrawlKeys
    spider: str
    launch: Launch
    shape: Mapping[str, Any]
    """The settings with which the crawl was created, or has to agree."""
    settings: Mapping[str, Any]
    """Of Scrapy, with the URL of the store."""
    opened: AsyncExitStack
    """Closes what was opened, the last first."""
    store: Store
    outage_retry: OutageRetry
    watchdog: Watchdog | None = None
    """Who keeps the leases while a callback keeps this process busy."""
    memory_limit: SeenMemoryLimit | None = None
    """Who looks after the memory of the sets, if there is a limit."""

    def __init__(
        self,
        config: Config,
        owner: Owner,
        concurrency: Concurrency,
    ) -> None:
        self.config = config
        self.owner = owner
        self.parts = Parts()
        self.parts.add(owner)
        self.host_concurrency = HostConcurrency(config, concurrency, lambda: self.share)
        """How many requests it may have at once."""
        self.verdicts: Counter[str] = Counter()
        """How many pushes got which verdict."""

    def build(self) -> None:
        """Make all of it, of the crawl of `keys` on `store`."""
        config, keys, outage_retry = self.config, self.keys, self.outage_retry
        ttl = config.lease_ttl
        member = Member(config.node_id, config.node_weight)
        self.membership = Membership(
            outage_retry.call, keys, member, config.partitions, ttl=ttl
        )
        self.leases = Leases(outage_retry.call, keys, self.membership)
        self.context = NodeContext(
            outage_retry,
            keys,
            self.leases,
            node_id=config.node_id,
            partitions=config.partitions,
            order=config.order,
            ttl=ttl,
            parts=self.parts,
        )
        self._make_hosts()
        self._make_queues()
        self._make_heartbeat()
        self._make_guards()
        self.parts.add(self.controls, self.uplink, self.delivery_marks)
        self.parts.add(self.hosts, self.fetched, self.deliveries)

    def _make_hosts(self) -> None:
        """What nodes tell each other of hosts, and of what operators want."""
        config, outage_retry, keys = self.config, self.outage_retry, self.keys
        self.delivery_marks = DeliveryMarks(outage_retry, keys)
        self.hosts = Hosts(self.context, config)
        self.fetched = Fetched(outage_retry.retry, keys, config.partitions)
        self.uplink = Uplink(
            config.uplink_probe,
            probe=self.owner.probe,
            known_good=self.fetched.origins,
            on_change=self.on_uplink,
            on_pause=self.hosts.forgive,
        )
        self.controls = Controlling(
            outage_retry,
            keys,
            note=lambda attempt: self.parts.call(Part.note, attempt),
            retry=self.hosts.retry,
        )

    def _make_queues(self) -> None:
        """What has requests from the store, and what brings them there."""
        config, outage_retry, keys = self.config, self.outage_retry, self.keys
        self.seen = seen_config(config)
        self.outbox = Outbox(
            outage_retry,
            keys,
            Pusher(keys, self.seen, server_ms=self.context.clock),
            on_verdicts=self.on_verdicts,
            on_became_ready=self._on_became_ready,
            journal=lambda *done: self.parts.call(Part.pushed, *done),
        )
        self.inbox = Inbox(
            self.context,
            self.hosts,
            host_concurrency=self.host_concurrency,
            on_ready=self.owner.on_ready,
        )
        self.due_times = DueTimes(self.context, self.inbox)
        self.acks = Acks(self.context, self.inbox, self.outbox)
        self.deliveries = Deliveries(
            self.context, self.inbox, self.acks, self.membership
        )

    def _make_heartbeat(self) -> None:
        """What keeps the node's place and its leases, also after a failover."""
        self.borrow = Borrow(self.context, self.inbox, self.deliveries, self.membership)
        self.heartbeat = Heartbeat(
            self.context, self.membership, self.inbox, self, borrow=self.borrow
        )
        self.heartbeat.on_leases = self.due_times.note_waiting
        self.borrow.on_change = self.heartbeat.hurry
        failover = Failover(self.context, self.store, self.inbox, self.outbox)
        self.outage_retry.on_change(failover.start_over)

    def _make_guards(self) -> None:
        """What looks after all of it."""
        config = self.config
        if config.busy_max:
            self.watchdog = Watchdog(
                config,
                self.keys,
                self.membership,
                address=self.store.address,
                timeout=answer_time(config.lease_ttl),
            )
        self.end_of_crawl = EndOfCrawl(
            self.context,
            self.inbox,
            idle=self.is_idle,
            on_end=self.on_finished,
            rank=lambda: self.membership.rank,
            say_idle=self.heartbeat.say_idle,
        )
        if config.seen_set_max_bytes:
            self.memory_limit = SeenMemoryLimit(
                self.outage_retry,
                self.keys,
                self.leases,
                self.seen,
                partitions=config.partitions,
                max_bytes=config.seen_set_max_bytes,
            )

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What has to run for as long as the node is open."""
        loops = [self.outbox.run, self.inbox.run, self.acks.run]
        loops += [self.heartbeat.run, self.heartbeat.look]
        loops += [self.borrow.run, self.due_times.run, self.outage_retry.watch_memory]
        loops += self.parts.each(Part.run)
        if self.watchdog is not None:
            loops.append(self.watchdog.run)
        if self.memory_limit is not None:
            loops.append(self.memory_limit.run)
        if not self.config.keep_alive:
            loops.append(self.end_of_crawl.run)
        return loops

    # What they ask of the whole, or tell it.

    async def reach(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What *ask* returns, once the store answers; see `Node.reach`."""
        return await ask()

    @property
    def share(self) -> float:
        """Which part of the partitions it has."""
        return len(self.leases.held) / self.config.partitions

    @property
    def paused(self) -> bool:
        """Whether an operator has paused the crawl."""
        return self.controls.paused

    def is_idle(self) -> bool:
        """Whether nothing is left to do here."""
        return self.inbox.idle and not self.outbox.pending and not self.is_busy()

    @override
    def is_busy(self) -> bool:
        """Whether there is work that is not in the store."""
        return any(busy() for busy in self.parts.each(Part.busy))

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Count what the store has decided, and pass it on."""
        self.verdicts.update(verdicts)
        self.parts.call(Part.stored, pushes, verdicts)

    def _on_became_ready(self, became_ready: list[tuple[int, str]]) -> list[Call]:
        """Tell the owners of queues that have just become non-empty."""
        for partition, queue in became_ready:
            if partition in self.leases.held:
                self.inbox.note_ready(partition, [queue])
        hints = hints_of(became_ready, self.membership.ring, self.config.node_id)
        return hint_calls(self.keys, hints, int(self.config.lease_ttl * 2000))

    def on_uplink(self) -> None:
        """Start nothing while no host answers, and leave the crawl to other nodes."""
        self.membership.away = self.uplink.since is not None
        self.heartbeat.hurry()
        self.steer()

    def steer(self) -> None:
        """Have what an operator wants, or the uplink allows, be in force."""
        self.inbox.paused = self.paused or self.uplink.waits
        self.parts.call(Part.steered)
