"""Seeds on their way into a crawl, from outside its nodes.

What always holds:

1.  A seed is tested and queued in one step, so a list that is loaded again, in
    whole or in part, queues nothing twice.
2.  A push that is sent again because its reply was lost is done once. If a server was
    restarted or replaced while seeds were loaded, it may have forgotten some, and the
    command says that it has to be run again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import PushForgotten
from frontier.node.ready_queues import hint_calls
from frontier.queue.push import ARE_SEEN, NEW, Push, Pusher
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, node_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.seen.config import SeenConfig

HINT_MS = 30_000
"""How long a hint is kept for a node that does not read it."""


class Seeder:
    """Stores seeds, and tells the nodes of the crawl."""

    def __init__(
        self, store: BlockingStore, keys: CrawlKeys, tiers: SeenConfig
    ) -> None:
        self._store = store
        self._keys = keys
        self._pusher = Pusher(keys, tiers)
        self._servers = store.runs()
        """The servers that were there at the start; later ones may lack something."""
        self.new = 0
        """Pushes with a tag that were new to the crawl."""
        self.seen = 0
        """Pushes with a tag that the crawl had seen."""

    def push(self, pushes: Iterable[tuple[int, Push]]) -> None:
        """Store *pushes*, each with its partition, and tell the partitions' holders.

        Raises:
            StoreError: The store does not answer, or refuses. Some may be stored.
        """
        became_ready: list[tuple[int, str]] = []
        for partition, some, done in self._pusher.push(self._store, pushes):
            self._count(some, done.verdicts)
            became_ready += [(partition, queue) for queue in done.became_ready]
        tell_holders(self._store, self._keys, became_ready)

    def _count(self, pushes: Sequence[Push], verdicts: str) -> None:
        for push, verdict in zip(pushes, verdicts, strict=True):
            if push.tag is not None:
                self.new += verdict == NEW
                self.seen += verdict in ARE_SEEN

    def leave(self) -> None:
        """Finish; nothing is pushed any more.

        Raises:
            PushForgotten: The store may not have all that was pushed.
        """
        if self._store.runs() != self._servers:
            raise PushForgotten


def tell_holders(
    store: BlockingStore, keys: CrawlKeys, became_ready: list[tuple[int, str]]
) -> None:
    """Tell the holders of queues, each with its partition, that these became ready.

    Who holds a partition is read from its lease, so no ring is needed. If nobody does,
    whoever acquires it learns that something is ready there.
    """
    leases = {
        partition: Call.command("HGET", keys.partition(partition).lease, "holder")
        for partition, _ in became_ready
    }
    holders = dict(zip(leases, store.run(list(leases.values())), strict=True))
    hints: dict[str, list[str]] = defaultdict(list)
    for partition, queue in became_ready:
        if holder := holders[partition]:
            hints[node_of(holder).decode()].append(f"{partition} {queue}")
    # A node that gets no hint finds what is ready by itself.
    store.run(hint_calls(keys, hints, HINT_MS))
