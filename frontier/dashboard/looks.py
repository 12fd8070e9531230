"""Looks at the store for all who ask, and only while somebody does.

What always holds:

1.  One thread at a time speaks to the store, and it only reads.
2.  A crawl is looked at only once in `EVERY` seconds, however many ask for it. What
    was seen of the `MOST` that were asked for last is kept.
3.  What was seen last stays until something newer is seen. Nothing is queued: a slow
    viewer gets the newest result, and never hears of those between.
4.  The event loop never waits for the store, nor does the end of the process.
5.  A fault of ours fails that look; the next one is as any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from frontier.errors import FrontierError
from frontier.model import frozen

logger = logging.getLogger(__name__)

Render = Callable[[Any, FrontierError | None], Mapping[str, Any]]
"""Makes the parts of a page from what was seen, and from why the last look failed."""
EVERY = 1.0
"""Seconds between two looks at a crawl."""
MOST = 32
"""Crawls, and other things, of which something is kept: eleven of a scrape, and a crawl
for each of twenty viewers. Of one that is not kept, all is read each time."""
PATIENCE = 15.0
"""Seconds for which a request waits for a look."""


@frozen
class Part:
    """A part of a page, or some data of it."""

    content: Any
    """HTML, or what becomes JSON."""
    since: int
    """The number of the first result that had it as it is now."""


@frozen
class Result:
    """What was seen of something at one look."""

    number: int
    """Counts up over all results; 0 if nothing was seen yet."""
    view: Any = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    error: FrontierError | None = None
    """Why this look failed; the rest is then of the last one that did not."""

    @property
    def is_current(self) -> bool:
        """Whether this look has seen something."""
        return self.view is not None and self.error is None

    def newer_than(self, number: int) -> dict[str, Any]:
        """The parts that have changed after result *number*."""
        return {n: p.content for n, p in self.parts.items() if p.since > number}


@dataclass(slots=True)
class _Sight:
    """Something that is looked at."""

    look: Callable[[], Any]
    render: Render
    result: Result = field(default_factory=lambda: Result(0))
    due: float = 0.0
    """When it may be looked at again, on the monotonic clock."""
    looking: asyncio.Task[None] | None = None


class Looks:
    """What viewers ask for, by name; made in the event loop that gets the results.

    *watch* returns, for a name, a function that looks, and one that makes the parts of
    a page from what that has seen.
    """

    def __init__(
        self,
        watch: Callable[[str], tuple[Callable[[], Any], Render]],
    ) -> None:
        self._watch = watch
        self._sights: dict[str, _Sight] = {}
        """In the order in which they were last asked for."""
        self._numbers = itertools.count(1)
        self._one_at_a_time = threading.Lock()
        self._end = asyncio.get_running_loop().create_future()

    @property
    def stopped(self) -> bool:
        """Whether nothing new will be seen."""
        return self._end.done()

    def stop(self) -> None:
        """Look no more; a look that waits for the store is not waited for."""
        if not self.stopped:
            self._end.set_result(None)
        for sight in self._sights.values():
            if sight.looking is not None:
                sight.looking.cancel()

    async def newest(self, name: str, after: int = 0) -> Result:
        """What *name* is like now, once that is newer than the result *after*.

        If nothing newer is seen in `PATIENCE` seconds, what was seen last.
        """
        sight = self._sights.pop(name, None)
        if sight is None:
            sight = _Sight(*self._watch(name))
        self._sights[name] = sight
        while len(self._sights) > MOST:
            del self._sights[next(iter(self._sights))]
        until = time.monotonic() + PATIENCE
        while self._is_old(sight, after) and not self.stopped:
            if (left := until - time.monotonic()) <= 0:
                break
            if sight.looking is None or sight.looking.done():
                sight.looking = asyncio.create_task(self._look(sight))
            first = {sight.looking, self._end}
            await asyncio.wait(first, timeout=left, return_when="FIRST_COMPLETED")
        return sight.result

    @staticmethod
    def _is_old(sight: _Sight, after: int) -> bool:
        return sight.result.number <= after or sight.due <= time.monotonic()

    async def _look(self, sight: _Sight) -> None:
        await asyncio.sleep(sight.due - time.monotonic())
        seen: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        # Not from a pool: the end of the process would wait for its threads.
        threading.Thread(target=self._see, args=(sight, seen), daemon=True).start()
        sight.result = await seen
        sight.due = time.monotonic() + EVERY

    def _see(self, sight: _Sight, seen: asyncio.Future[Result]) -> None:
        """Look, in a thread, and tell the event loop, if that still runs."""
        with self._one_at_a_time:
            result = self._result(sight)
        with contextlib.suppress(RuntimeError):
            seen.get_loop().call_soon_threadsafe(_tell, seen, result)

    def _result(self, sight: _Sight) -> Result:
        before, error = sight.result, None
        try:
            view = sight.look()
            contents = sight.render(view, None)
        except FrontierError as failed:
            error = failed
        except Exception as failed:  # whatever it is, others are still looked at
            error = FrontierError(f"the page has a fault ({failed!r}), see its log")
            if str(error) != str(before.error):
                logger.exception("the status page cannot show what is in the store")
        if error is not None:
            view = before.view
            contents = {} if view is None else sight.render(view, error)
        number = next(self._numbers)
        parts = {
            name: part
            if (part := before.parts.get(name)) and part.content == content
            else Part(content, number)
            for name, content in contents.items()
        }
        return replace(before, number=number, view=view, parts=parts, error=error)


def _tell(seen: asyncio.Future[Result], result: Result) -> None:
    if not seen.done():
        seen.set_result(result)
