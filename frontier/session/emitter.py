"""Hands requests to Scrapy's engine unasked: start URLs that others push, rounds."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import FrontierError, StoreUnavailable
from frontier.node.context import Part, happens

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from frontier.node.node import Node

logger = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds between two looks for something to do, unless a look says otherwise."""
CLOSE_TIMEOUT = 10.0
"""Seconds that a closing node waits for what is being emitted."""


class Emitter(Part):
    """Looks again and again for what is to be emitted, on one node, until stopped."""

    def start_looking(self, crawler: Crawler, node: Node) -> None:
        """Begin to look, as the last of the parts of *node*."""
        self._crawler, self._node = crawler, node
        node.stays_open = True
        node.parts.add(self)
        self._stopped = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def look(self) -> float:
        """Emit what is due; return the seconds until the next look."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether it has stopped looking."""
        return self._stopped.is_set() or self._task.done()

    def stop(self) -> None:
        """Emit nothing more."""
        self._stopped.set()

    @override
    async def quit(self) -> None:
        """Stop, and wait for what is being emitted."""
        self.stop()
        await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT)
        self._task.cancel()

    async def _run(self) -> None:
        while not self._stopped.is_set():
            pause = PAUSE
            try:
                if self._crawler.engine.running:  # else pipelines may not be open
                    pause = await self.look()
            except StoreUnavailable:
                pass  # the node reports it
            except Exception as error:
                if not isinstance(error, FrontierError):
                    logger.exception("%s cannot go on", type(self).__name__)
                self._node.fail(error)
                return
            await happens(self._stopped, pause)
