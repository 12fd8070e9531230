"""Polls crawls for all viewers at once, in one thread.

What always holds:

1.  Only this thread speaks to the store, and it only reads.
2.  A crawl is looked at once in `EVERY` seconds, however many ask for it, once in
    `SELDOM` seconds when nobody has for `FRESH` seconds, and not any more after `KEPT`
    seconds. At most `MOST` are; the one that was asked for longest ago makes room.
3.  What was seen last stays until something newer is seen. Nothing is queued: who
    is slow gets the newest result, and never hears of those between.
4.  The event loop never waits for the store: it is told when something is seen.
5.  The thread goes on whatever it meets: a fault of ours is an error of that look.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frontier.errors import FrontierError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks at a crawl."""
FRESH = 5.0
"""Seconds after which somebody who asks no more has gone."""
SELDOM = 10.0
"""Seconds between two looks then, so that trends go on."""
KEPT = 600.0
"""Seconds after which nobody is taken to come back."""
MOST = 16
"""Crawls that are looked at at a time."""
PATIENCE = 15.0
"""Seconds for which somebody who asks waits for the first look."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page, or some data of it."""

    content: Any
    """HTML, or what becomes JSON."""
    since: int
    """The first result in a row that has it as it is."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """What was seen of something at one look."""

    number: int
    """Those of all results count up; 0 if nothing was seen yet."""
    view: Any = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    error: FrontierError | None = None
    """Why this look failed; the rest is then of the last that did not."""

    def newer_than(self, number: int) -> dict[str, Any]:
        """The parts that have changed after result *number*."""
        return {n: p.content for n, p in self.parts.items() if p.since > number}


@dataclass(slots=True)
class _Polled:
    """Something that is polled."""

    look: Callable[[], Any]
    render: Callable[[Any, FrontierError | None], Mapping[str, Any]]
    asked: float
    due: float = 0.0
    result: PollResult = field(default_factory=lambda: PollResult(0))
    newer: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and then replaced, when there is a newer result; of the event loop."""


class Poller:
    """Polls what viewers ask for; made in the event loop that it tells.

    *watch* gives for a name what looks at it, and what makes parts of a page of that.
    """

    def __init__(
        self,
        watch: Callable[
            [str],
            tuple[
                Callable[[], Any],
                Callable[[Any, FrontierError | None], Mapping[str, Any]],
            ],
        ],
    ) -> None:
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._polled: dict[str, _Polled] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._numbers = itertools.count(1)
        self._thread = threading.Thread(
            target=self._run, name="frontier-dashboard-poller", daemon=True
        )
        self.instance = secrets.token_hex(4)
        """Whose numbers the results have."""

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    async def stop(self, seconds: float = 2.0) -> None:
        """Look no more; do not wait for longer for a store that does not answer."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        for polled in self._polled.values():
            polled.newer.set()
        await asyncio.to_thread(self._thread.join, seconds)

    @property
    def stopped(self) -> bool:
        """Whether nothing new will be seen."""
        return self._stopped

    async def newest(self, name: str, after: int = 0) -> PollResult:
        """The newest result of *name*, once it is newer than *after*.

        Or, if there is none in `PATIENCE` seconds, what there is.
        """
        polled, is_back = self._ask_for(name)
        if is_back:  # what was seen for nobody may be `SELDOM` seconds old
            after = max(after, polled.result.number)
        try:
            async with asyncio.timeout(PATIENCE):
                while polled.result.number <= after and not self._stopped:
                    await polled.newer.wait()
        except TimeoutError:
            pass
        polled.asked = time.monotonic()
        return polled.result

    def _ask_for(self, name: str) -> tuple[_Polled, bool]:
        """What is looked at as *name*, and whether nobody had asked for a while."""
        now = time.monotonic()
        with self._changed:
            polled = self._polled.get(name)
            if polled is None:
                if len(self._polled) >= MOST:
                    del self._polled[min(self._polled, key=self._asked)]
                look, render = self._watch(name)
                polled = self._polled[name] = _Polled(look, render, asked=now)
                self._changed.notify()
            is_back = polled.asked <= now - FRESH
            if is_back:
                polled.due = now
                self._changed.notify()
            polled.asked = now
        return polled, is_back

    def _asked(self, name: str) -> float:
        return self._polled[name].asked

    def _run(self) -> None:
        while (name := self._next()) is not None:
            polled = self._polled.get(name)
            if polled is not None:
                now = time.monotonic()
                is_asked = polled.asked > now - FRESH
                polled.due = now + (EVERY if is_asked else SELDOM)
                self._look(polled)

    def _next(self) -> str | None:
        """What is to be looked at now; wait until something is. ``None``: stop."""
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                for name in [
                    n for n, w in self._polled.items() if w.asked < now - KEPT
                ]:
                    del self._polled[name]
                first = min(
                    self._polled, key=lambda n: self._polled[n].due, default=None
                )
                if first is not None and self._polled[first].due <= now:
                    return first
                self._changed.wait(
                    None if first is None else self._polled[first].due - now
                )
        return None

    def _look(self, polled: _Polled) -> None:
        before: PollResult = polled.result
        error: FrontierError | None = None
        try:
            view = polled.look()
            contents = polled.render(view, None)
        except FrontierError as failed:
            error = failed
        except Exception as failed:  # else nothing would be looked at any more
            error = FrontierError(f"the page has a fault ({failed!r}), see its log")
            if str(error) != str(before.error):
                logger.exception("the status page cannot show what the store has")
        if error is not None:
            view = before.view
            contents = {} if view is None else polled.render(view, error)
        number = next(self._numbers)
        parts = {
            name: part
            if (part := before.parts.get(name)) and part.content == content
            else Part(content, number)
            for name, content in contents.items()
        }
        result = replace(before, number=number, view=view, parts=parts, error=error)
        try:
            self._loop.call_soon_threadsafe(_publish, polled, result)
        except RuntimeError:  # the loop is closed
            self._stopped = True


def _publish(polled: _Polled, result: PollResult) -> None:
    polled.result = result
    newer, polled.newer = polled.newer, asyncio.Event()
    newer.set()
