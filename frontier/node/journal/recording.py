"""The journal of one node, if it has one: what a node's parts tell it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from frontier.files.output_files import mode_of
from frontier.node.journal.entries import Header, Pushed
from frontier.node.journal.writer import Journal
from frontier.queue.push import CLAIM, GONE, TEST
from frontier.queue.pusher import new_pusher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from frontier.queue.push import Push
    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys


class Journaling:
    """Does nothing without ``FRONTIER_JOURNAL_DIR``."""

    def __init__(self, journal: Journal | None = None, process: str = "") -> None:
        self._journal = journal
        self.process = process or new_pusher()
        """What the store is to know the process by, whose pushes are noted."""

    @classmethod
    async def begin(
        cls, config: Config, keys: CrawlKeys, spider: str, shape: Mapping[str, Any]
    ) -> Self:
        """Open the journal of this node in the crawl of *keys*, created as *shape*.

        Raises:
            ArchiveError: It cannot be written.
        """
        directory = config.journal_dir
        if directory is None:
            return cls()
        names = (keys.namespace, keys.crawl_id, spider, config.node_id)
        process = new_pusher()
        header = Header(*names, shape, process)
        mode = mode_of(config.file_mode)
        journal = await asyncio.to_thread(Journal, directory, header, mode=mode)
        return cls(journal, process)

    def pushed(self, partition: int, number: int, pushes: Sequence[Push]) -> None:
        """Note that the store has *pushes*, since the one of *number*."""
        if self._journal is not None:
            for push in pushes:
                if push.mode in GONE:  # a rebuild finds out by itself
                    continue
                mode = TEST if push.mode == CLAIM else push.mode
                self._journal.pushed(
                    Pushed(partition, mode, push.mark, push.queue, push.item, number)
                )

    def acked(self, partition: int, queue: str, item: bytes) -> None:
        """Note that a request is done."""
        if self._journal is not None:
            self._journal.acked(partition, queue, item)

    async def durable(self) -> None:
        """Return when all that was noted is on disk."""
        if self._journal is not None:
            await asyncio.wrap_future(self._journal.durable())

    async def close(self) -> None:
        """Write what is left and close the file."""
        if self._journal is not None:
            await asyncio.to_thread(self._journal.close)
