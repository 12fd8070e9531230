"""The loops of a node, which run until it stops or one of them fails for good.

What always holds:

1.  A loop that fails for good is told to the owner, once, and makes `unless_broken`
    return: nobody waits for what only that loop would have done.
2.  After `stop` no loop runs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from frontier.errors import FrontierError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)


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
