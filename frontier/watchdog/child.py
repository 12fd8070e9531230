"""The node's end of its watchdog: starts the process, and tells it what it has to know.

What always holds:

1.  Nothing waits for the watchdog. Once the node has another name, heartbeats from the
    watchdog under the old one are refused.
2.  The process gets the address of the store and its password by a pipe, never as
    arguments.
3.  If a watchdog ends, that is logged once, and it is started again.
4.  Nothing is reserved before the process exists, so that it can note what ran, however
    soon that ends the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from frontier.watchdog.memory import EMPTY, Memory, Running, packed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator

    from frontier.cluster.membership import Membership
    from frontier.queue.reserve import Ran
    from frontier.settings.config import Config
    from frontier.store.address import Address
    from frontier.store.keys import CrawlKeys

    R = TypeVar("R")

logger = logging.getLogger(__name__)

LONGEST_TURN = 0.25
"""Seconds between two signs of life, at most; a sixteenth of a lease, if less."""
AGAIN = 10.0
"""Seconds after which a watchdog that has ended is started again."""
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from frontier.watchdog.process import main; main()"
)


def import_path() -> list[str]:
    """Where the watchdog imports from: as this process does, so the same `frontier`.

    The directory of `frontier` is not put first: if that is installed, a module next to
    it could hide one of Python's own, as the package index's `typing` would.
    """
    root = str(Path(__file__).parents[2])
    found = [each or root for each in sys.path if each or _is_here(root)]
    return list(dict.fromkeys([*found, root]))


def _is_here(root: str) -> bool:
    try:
        return Path.cwd() == Path(root)
    except FileNotFoundError:  # it was removed
        return False


class Watchdog:
    """Starts the watchdog of one node, and tells it what to do."""

    def __init__(
        self,
        config: Config,
        keys: CrawlKeys,
        membership: Membership,
        *,
        address: Address,
        timeout: float,
    ) -> None:
        self._ttl = config.lease_ttl
        self._keys = keys
        self._membership = membership
        self._memory = Memory.make()
        self._settings = {
            **self._facts(config),
            "address": asdict(address),
            "timeout": timeout,
        }
        self._given = b""
        self._child: Process | None = None
        self._said: Any = None
        self._now = EMPTY
        self.slow = 0
        """How often a callback kept the node busy for longer than a lease."""
        self.longest = 0.0
        """Seconds that the longest such callback took."""
        membership.stand_in = lambda: self._memory.stood_in

    def _facts(self, config: Config) -> dict[str, Any]:
        """What the watchdog's process has to know about this one."""
        keys = self._keys
        return {
            "file": self._memory.file,
            "node_id": config.node_id,
            "name": self._membership.process,
            "process": os.getpid(),
            "keys": [keys.namespace, keys.crawl_id, keys.born],
            "ttl": config.lease_ttl,
            "life": self._membership.life,
            "busy_max": config.busy_max,
            "log_format": config.log_format,
            "crawl": keys.crawl_id,
        }

    async def start(self) -> None:
        """Start the process, if it can be told what it has to know."""
        try:
            self._given = json.dumps(self._settings).encode() + b"\n"
        except TypeError:
            logger.warning(
                "REDIS_PARAMS has values that cannot be passed to another process: "
                "this node runs without a watchdog, and loses its hosts if a "
                "callback blocks it for longer than a lease"
            )
            return
        await self._start()

    async def run(self) -> None:
        """Show the process that the loop turns, and restart it if it ends.

        Until cancelled.
        """
        if not self._given:
            return
        turn, again = min(LONGEST_TURN, self._ttl / 16), 0.0
        try:
            while True:
                code = None if self._child is None else self._child.returncode
                if code is not None and not again:
                    again = time.monotonic() + AGAIN
                    logger.warning(
                        "the watchdog of this node has ended with exit code %d; "
                        "another one starts in %g s",
                        code,
                        AGAIN,
                    )
                elif again and time.monotonic() >= again:
                    again = 0.0
                    await self._start()
                self._memory.turn()
                self._tell()
                await asyncio.sleep(turn)
        finally:
            await self._end()

    async def _end(self) -> None:
        """End the process, which is no longer needed, and wait for its end."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def close(self) -> None:
        """Release the shared memory, once `run` has ended or if it never began."""
        await self._end()
        self._memory.close()

    async def _start(self) -> None:
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-ISc", START, json.dumps(import_path())),
            stdin=PIPE,
            stdout=DEVNULL,
            pass_fds=[self._memory.file],
            start_new_session=True,  # a terminal's signals are for the node
        )
        if self._child.stdin is not None:
            self._child.stdin.write(self._given)

    def _tell(self) -> None:
        """Give the process the last heartbeat, if it does not have that yet."""
        said = self._membership.said
        if said is not self._said and said is not None:
            self._said = said
            sent, names, args = said
            told = {"sent": sent, "names": names, "args": args}
            self._memory.beat(json.dumps(told).encode())

    # Which request's code is running.

    def record(self, ran: Ran, url: str) -> bytes:
        """The record that `enter` and the others show while code of a request runs."""
        return packed(Running(*ran, url))

    def enter(self, record: bytes) -> tuple[bytes, float]:
        """Show that code of *record*'s request runs; return what ran, for `leave`."""
        self._tell()  # what it has may be under a name that this node has dropped
        before, self._now = self._now, record
        self._memory.run(record)
        return before, time.monotonic()

    def leave(self, before: tuple[bytes, float]) -> None:
        """Show that what ran before `enter` runs again."""
        took = time.monotonic() - before[1]
        if took > self._ttl:
            self._note(took)
        self._now = before[0]
        self._memory.run(before[0])

    def _note(self, took: float) -> None:
        running = self._memory.running
        self.slow += 1
        self.longest = max(self.longest, took)
        logger.warning(
            "the callback of %s kept this node busy for %.1f s, longer than a node may "
            "be silent; see FRONTIER_BUSY_MAX",
            running.url if running is not None else "a request",
            took,
        )

    def awaited(self, record: bytes, what: Coroutine[Any, Any, R]) -> Awaitable[R]:
        """*what*, with each of its steps shown as running."""
        return _Awaited(self, record, what)


class _Awaited:
    """Awaits *what*, and shows each of its steps as running."""

    __slots__ = ("_record", "_watchdog", "_what")

    def __init__(self, watchdog: Watchdog, record: bytes, what: Awaitable[Any]) -> None:
        self._watchdog = watchdog
        self._record = record
        self._what = what

    def __await__(self) -> Generator[Any, Any, Any]:
        watchdog, record = self._watchdog, self._record
        steps: Any = self._what.__await__()
        step = steps.__next__
        while True:
            before = watchdog.enter(record)
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            finally:
                watchdog.leave(before)
            try:
                sent = yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 (it is passed on)
                step = partial(steps.throw, error)
            else:
                step = steps.__next__ if sent is None else partial(steps.send, sent)
