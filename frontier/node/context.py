"""What the components of a node share: where the node is, its loops, whom they tell.

The components are put together in `frontier.node.composition`. What always holds:

1.  A loop that fails for good is told to the owner, once, and makes `unless_broken`
    return: nobody waits for what only that loop would have done.
2.  After `stop` no loop runs.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from frontier.errors import FrontierError
from frontier.queue.due import ServerClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from frontier.cluster.controls import Controls
    from frontier.cluster.lease import Leases
    from frontier.model import Order
    from frontier.node.uplink import Target
    from frontier.queue.push import Push
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Which node of which crawl this is, on which store."""

    outage_retry: OutageRetry
    keys: CrawlKeys
    leases: Leases
    node_id: str
    partitions: int
    order: Order
    ttl: float
    """Seconds of silence after which a node is dead."""
    clock: ServerClock = field(default_factory=ServerClock)
    """The server's, as far as this node knows it."""


class Reporting(Protocol):
    """What the heartbeat reports of a node, and brings to it."""

    def report(self) -> Mapping[str, Any]:
        """Figures of the node, for the crawl's report."""

    def is_busy(self) -> bool:
        """Whether there is work that is not in the store."""

    def on_finished(self) -> None:
        """The crawl is over on every node."""

    def on_order(self, order: str) -> None:
        """What an operator wants; see `Owner.on_order`."""

    async def on_controls(self, version: str) -> None:
        """An operator wants something else of the crawl than before.

        Raises:
            StoreUnavailable: The store does not say what.
        """


class Owner(Protocol):
    """What a node tells the one that runs it."""

    def on_ready(self) -> None:
        """Something can be taken."""

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """The store has decided about *pushes*: a letter for each."""

    def on_finished(self) -> None:
        """The crawl is over on every node."""

    def on_nothing_fetched(self, queued: int, dead: int) -> None:
        """The crawl is over on every node, and has no page.

        *queued* requests were in it, of which *dead* were given up.
        """

    def on_undone(self) -> None:
        """Something that the last node does is not done, as the log tells."""

    def on_forgotten(self) -> None:
        """The store has gone back: what was seen here may not be seen there."""

    def on_failure(self, error: BaseException) -> None:
        """The node cannot go on."""

    def on_order(self, order: str) -> None:
        """An operator wants it to ``drain``, or says ``remove``, or ``cancel`` to all.

        Told again with each heartbeat.
        """

    def on_controls(self, controls: Controls) -> None:
        """An operator wants this of the crawl, on all its nodes."""

    async def start_again(self, start_ids: set[str]) -> set[str]:
        """Push the start requests of *start_ids* again; return those that were."""

    def on_limit(self, limit: str) -> None:
        """The crawl has ended at *limit*, a name and its value; empty: at another's."""

    def on_uplink(self) -> None:
        """What the node thinks of its uplink has changed; see `Uplink.waits`."""

    async def probe(self, target: Target) -> bool:
        """Whether a host answers anything at all."""

    def is_busy(self) -> bool:
        """Whether there is work that is not in the store."""

    def figures(self) -> Mapping[str, Any]:
        """What it has counted that the node does not know, for the crawl's report."""


class Loops:
    """Runs loops as tasks, and tells *on_failure* what ended one of them."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._broken = asyncio.Event()
        """Set when a loop has failed for good, which others may wait for."""

    def start(self, loop: Coroutine[Any, Any, None]) -> None:
        """Run *loop*."""
        self._tasks.append(asyncio.create_task(self._guard(loop)))

    async def _guard(self, loop: Coroutine[Any, Any, None]) -> None:
        try:
            await loop
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not isinstance(error, FrontierError):  # else the owner says all
                logger.exception("the frontier of this node cannot go on")
            self._broken.set()
            self._on_failure(error)

    async def unless_broken(self, work: Coroutine[Any, Any, None]) -> bool:
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

    async def stop(self) -> None:
        """End the loops; again and again, as redis-py may swallow a cancellation."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)
