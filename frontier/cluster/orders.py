"""Orders: what an operator wants of a node, from outside of the crawl.

What always holds:

1.  A node reads its order with a heartbeat. The first heartbeat of a process
    forgets what was ordered of an earlier one of the same name.
2.  The leases of a node that was removed are ended with their fencing tokens:
    it cannot renew them, and what it writes is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.errors import NodeLives, UnknownNode
from frontier.store.client import Call
from frontier.store.scripts import LEASE_BREAK, NODE_ORDER, NODE_REMOVE

if TYPE_CHECKING:
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys

DRAIN_S = 3600
"""Seconds after which a node that has not read its order need not any more."""
REMOVE_S = 60
"""Seconds for which a node that wakes up is told that it was removed."""
BATCH = 128
"""Partitions per round trip."""


def drain(store: BlockingStore, keys: CrawlKeys, node_id: str) -> None:
    """Have *node_id* finish what it has started, hand everything over, and exit.

    Raises:
        UnknownNode: It is no member of the crawl.
    """
    names = [keys.nodes(), keys.order(node_id)]
    if not store.call(Call.to(NODE_ORDER, names, [node_id, "drain", DRAIN_S])):
        raise UnknownNode(keys.crawl_id, node_id)


def remove(
    store: BlockingStore,
    keys: CrawlKeys,
    node_id: str,
    *,
    partitions: int,
    ttl: float,
    force: bool,
) -> int:
    """Take *node_id* off the map and end its leases; return how many it had.

    A live one only with *force*: it stops when its next heartbeat tells it, and
    until then a host of its may be fetched by two nodes. What it had in flight is
    fetched again.

    Raises:
        UnknownNode: It is no member of the crawl.
        NodeLives: It was heard of in the last *ttl* seconds.
    """
    names = [keys.nodes(), keys.epoch(), keys.hints(node_id), keys.order(node_id)]
    found = store.call(
        Call.to(NODE_REMOVE, names, [node_id, int(ttl * 1000), int(force), REMOVE_S])
    )
    if found == 0:
        raise UnknownNode(keys.crawl_id, node_id)
    if found == -1:
        raise NodeLives(keys.crawl_id, node_id)
    ended = 0
    for first in range(0, partitions, BATCH):
        batch = [
            keys.partition(p) for p in range(first, min(first + BATCH, partitions))
        ]
        ended += sum(
            store.run(
                [Call.to(LEASE_BREAK, [p.lease, p.fence], [node_id]) for p in batch]
            )
        )
    return ended
