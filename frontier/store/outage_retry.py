"""Waits for a store that does not answer, and logs that in one line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged, StoreFull, StoreUnavailable, WritesRefused
from frontier.store.client import CHANGED, Call, Store, check_server, memory_share

if TYPE_CHECKING:
    from frontier.store.address import Server

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.1
"""Seconds after which a failed call is first tried again."""
LONGEST_DELAY = 2.0
ROOMY = 5.0
"""Seconds without a refusal after which a store that refused writes counts as taking
them again, and a full one as having room again, if a look at its memory finds some."""
NEARLY_FULL = 0.95
"""Share of its memory from which a store counts as full. The rest is for requests in
flight: a page is acked only when its links are stored."""
LOOK = 2.0
"""Seconds between two looks at the store's memory."""


QUIET = 1.0
"""Seconds without a failure after which a cluster counts as answering again: while one
of its servers is away, the others answer."""


def pauses() -> Iterator[float]:
    """Seconds to wait before each further try, for as long as it takes."""
    delay = FIRST_DELAY
    while True:
        yield delay
        delay = min(2 * delay, LONGEST_DELAY)


class OutageRetry:
    """Runs calls on a store, however long it takes to answer.

    While it does not answer *revive* is called, one call at a time: it must not raise.
    """

    def __init__(
        self, store: Store, revive: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.store = store
        self._revive = revive
        self._reviving: asyncio.Task[None] | None = None
        self._since: float | None = None
        self._failed_at = 0.0
        self._refuses = False
        """Whether the store answers, but writes nothing."""
        self._write_failed = False
        """Whether a script has failed, which may write: reads may be answered."""
        self._full_since: float | None = None
        self._refused_at = 0.0
        self._start_over: Callable[[set[Server | None]], None] | None = None
        self._known = 0
        """The `Store.changes` after which this node has started over."""
        self.outages = 0
        """How often the store went away."""
        self.gives_up = False
        """Whether `retry` no longer waits for it."""
        self.on_damaged: Callable[[KeyDamaged], None] = lambda _: None
        """Told of a damaged key, whoever asked: a callback's error might be lost."""

    @property
    def available(self) -> bool:
        """Whether the store answered when it was last asked, and had free memory."""
        return self._since is None and self._full_since is None

    def waits_for(self) -> str:
        """What keeps the store from taking what is sent, for the log; or nothing."""
        if self._full_since is not None:
            return f"the store at {self.store.where} lacks memory"
        fails = "takes no writes" if self._refuses else "does not answer"
        return "" if self.available else f"the store at {self.store.where} {fails}"

    @property
    def is_full(self) -> bool:
        """Whether it lacks memory for what a page that is started now would add."""
        return self._full_since is not None

    async def retry(self, calls: Sequence[Call], *, copied: bool = False) -> list[Any]:
        """Run *calls*, repeatedly while the store does not answer.

        A call may thus happen twice: only for calls that may. With *copied* they are
        done only when there are the copies for which the store was told to wait.

        Raises:
            StoreUnavailable: It does not answer, and the node `gives_up`.
        """
        waits = pauses()
        while True:
            try:
                return await self.call(calls, copied=copied)
            except StoreUnavailable:
                if self.gives_up:
                    raise
                await asyncio.sleep(next(waits))

    async def answer(self, call: Call) -> Any:
        """The reply to *call*, which may happen twice, however long it takes."""
        return (await self.retry([call]))[0]

    async def call(self, calls: Sequence[Call], *, copied: bool = False) -> list[Any]:
        """Run *calls*, which must not happen twice.

        Raises:
            StoreUnavailable: It is not known whether they happened; or they did not, as
                another server took the place of the one that they were meant for.
        """
        if not calls:
            return []
        if self._start_over is not None and self._known != self.store.changes:
            self._known = self.store.changes
            self._start_over(self.store.lost())
            # These calls are from before the change.
            raise StoreUnavailable(self.store.where, CHANGED)
        try:
            replies = await self.store.run(calls, copied=copied)
        except KeyDamaged as error:
            self.on_damaged(error)
            raise
        except StoreFull as error:
            self._note_full(str(error))
            raise
        except StoreUnavailable as error:
            # A cluster's names the server first.
            if not error.reason.endswith(CHANGED):  # of which the node tells
                self.note_silence(error)
                self._write_failed |= _may_write(calls)
            self._try_to_revive()
            raise
        is_proof = not self._write_failed or _may_write(calls)
        if self._since is not None and is_proof:
            self._note_answer(self._since)
        return replies

    def note_silence(self, error: StoreUnavailable) -> None:
        """Log, once until it answers again, that the store, or a server, does not."""
        self._failed_at = time.monotonic()
        if self._since is None:
            self._since = self._failed_at
            self._refuses = self._write_failed = False
            self.outages += 1
            logger.warning("%s; waiting for it", error)
        # A call that then fails otherwise does not show that it takes writes again.
        self._refuses |= isinstance(error, WritesRefused)

    def _note_answer(self, since: float) -> None:
        now = time.monotonic()
        if self._refuses and now - self._failed_at <= ROOMY:
            return  # what was answered may be a read
        if not self.store.alone and now - self._failed_at < QUIET:
            return
        self._since = None
        is_exact = self.store.alone and not self._refuses
        waited = (now if is_exact else self._failed_at) - since
        logger.warning(
            "the store at %s %s again after %.1f s",
            self.store.where,
            "takes writes" if self._refuses else "answers",
            waited,
        )

    async def watch_memory(self) -> None:
        """Keep looking at how full the store is, until cancelled.

        Raises:
            StoreRefused: It has begun to evict keys.
        """
        while True:
            with contextlib.suppress(StoreUnavailable):
                (memory,) = await self.call([Call.command("INFO", "memory")])
                check_server(memory, self.store.where)
                share = memory_share(memory)
                if share >= NEARLY_FULL:
                    where = self.store.where
                    self._note_full(
                        f"the store at {where} has {share:.0%} of its memory in use "
                        "(maxmemory)"
                    )
                elif self._full_since is not None:
                    self._note_room(self._full_since)
            await asyncio.sleep(LOOK)

    def _note_full(self, why: str) -> None:
        self._refused_at = time.monotonic()
        if self._full_since is None:
            self._full_since = self._refused_at
            self.outages += 1
            logger.error(
                "%s; nothing more is started. The crawl goes on by itself once the "
                "server's maxmemory is raised (CONFIG SET maxmemory), or other keys on "
                "it are deleted; maxmemory-policy must stay noeviction",
                why,
            )

    def _note_room(self, since: float) -> None:
        if time.monotonic() - self._refused_at > ROOMY:
            waited = self._refused_at - since
            self._full_since = None
            logger.warning(
                "the store at %s has memory again after %.1f s",
                self.store.where,
                waited,
            )

    def on_change(self, start_over: Callable[[set[Server | None]], None]) -> None:
        """Have *start_over* called before anything is sent to a changed store.

        It is told which servers may lack something (`Store.lost`). The calls that were
        to be sent then fail.
        """
        self._start_over = start_over
        self._known = self.store.changes
        self.store.lost()  # before this
        self.store.watched = True

    def stop(self) -> None:
        """Stop looking for changes: nobody is left to act on them."""
        self._start_over = None

    def _try_to_revive(self) -> None:
        if self._revive is None:
            return
        if self._reviving is None or self._reviving.done():
            self._reviving = asyncio.ensure_future(self._revive())


def _may_write(calls: Sequence[Call]) -> bool:
    """Whether one of *calls* is a script: nearly all that writes is one."""
    return any(call.script is not None for call in calls)
