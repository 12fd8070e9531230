"""A hint for the operator of a crawl whose hosts do not keep its nodes busy."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frontier.cluster.membership import Membership
    from frontier.node.inbox import Inbox

logger = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two looks."""
SHARDS = 256
"""Enough for an even share of them to fall to each of some ten nodes."""
MANY = 1_000
"""URLs of one host that make it worth to divide it."""


class SingleHostWarning:
    """Says once that one big host is crawled by one node of several."""

    def __init__(self, membership: Membership, inbox: Inbox) -> None:
        self._membership = membership
        self._inbox = inbox

    async def run(self) -> None:
        """Look until there is something to say, and say it."""
        while not self.look():  # noqa: ASYNC110 (it is a look at the store's figures)
            await asyncio.sleep(INTERVAL)

    def look(self) -> bool:
        """Whether it is said now."""
        nodes = self._membership.nodes
        ready = self._inbox.ready_by_key()
        if nodes < 2 or len(ready) != 1:
            return False
        ((queue_key, count),) = ready.items()
        if count < MANY:
            return False
        logger.warning(
            "this node has nothing to crawl but %s, with %d URLs queued, and no other "
            "of the %d nodes may: FRONTIER_HOST_SHARDS = %d in a new crawl would let "
            "them",
            queue_key,
            count,
            nodes,
            SHARDS,
        )
        return True
