"""What the components of a node have in common, and what they ask of the node.

The parts are put together in `frontier.node.composition`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.cluster.lease import Leases
    from frontier.model import Order
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


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
    """Of a lease, in seconds."""


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
