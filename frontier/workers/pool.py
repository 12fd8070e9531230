"""Worker processes of a node, as its reactor uses them.

What always holds:

1.  Nothing here blocks: the reactor waits for a worker as it waits for a server.
2.  At most so many processes run as were allowed; each is started when there is a
    job and none is free. What waits for one waits in order.
3.  A worker that has reached a limit, has died, or whose job nobody waits for any
    more, is killed, and the next job gets another. What it has not said is not made
    up: whoever asked gets `WorkerFailed` with the reason.
4.  A worker that died of what was not its job's doing, so far as anybody can tell,
    has its job done once more by another.
5.  What a worker says is not trusted: a message is no longer than `MOST`, and data.
6.  After `close` no worker is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import WorkerFailed
from frontier.workers.process import JOBS, LENGTH, MOST, NO_MEMORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

PROGRAM = Path(__file__).with_name("process.py")
ROOT = Path(__file__).parents[2]
"""Where the workers find this package."""
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHOME", "PYTHONPATH", "TZ")
"""Of the node's environment. What else is there may be secret, and a parser's fault
may let a page read it."""
PATIENCE = 6.0
"""Limits of CPU time after which a worker that says nothing is given up, by
the clock: it is stopped, or the machine has little to spare."""
GRACE = 2.0
"""Seconds for what it said while this node was stopped itself."""
PIECE = 256 * 1024
"""Bytes that are handed to a worker at a time."""
ATTEMPTS = 2
PACE = 0.005
"""Seconds between looks at a process that is about to be gone."""


class WorkerPool:
    """At most *processes* workers, each with *max_bytes* of memory.

    *seconds* is the limit of CPU time of a job.
    """

    def __init__(self, processes: int, seconds: float, max_bytes: int) -> None:
        self._room = asyncio.Semaphore(processes)
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._killed: list[_Worker] = []
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The processes that run, at work or not."""
        return sorted(worker.pid for worker in self._all)

    async def run(
        self, job: str, content: bytes, arguments: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        """What *job*, one of `JOBS`, makes of *content*, part by part.

        While a part is not asked for, the worker waits, and its time does not run.

        Raises:
            WorkerFailed: It reached a limit, or failed; there may have been parts.
        """
        if job not in JOBS:
            raise ValueError(f"no job is called {job!r}")
        async with self._room:
            for attempt in range(ATTEMPTS):
                has_part = False
                worker = await self._worker(job)
                try:
                    await worker.begin(job, content, arguments)
                    while (part := await worker.part()) is not None:
                        has_part = True
                        yield part[0]
                except _Ended as ended:
                    if ended.is_its_own or has_part or attempt + 1 == ATTEMPTS:
                        raise WorkerFailed(job, str(ended)) from None
                else:
                    self._idle.append(worker)
                    return
                finally:
                    if worker not in self._idle:
                        self._drop(worker)

    async def close(self) -> None:
        """Kill all workers; jobs under way fail."""
        self._closed = True
        self._idle.clear()
        for worker in list(self._all):
            self._drop(worker)
        while self._is_any_left():  # noqa: ASYNC110 (the kernel sets no event)
            await asyncio.sleep(PACE)

    async def _worker(self, job: str) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._drop(worker)
        if self._closed:
            raise WorkerFailed(job, "the node is closing")
        self._is_any_left()
        worker = _Worker(self._seconds, self._max_bytes)
        self._all.add(worker)
        await worker.connect()
        return worker

    def _drop(self, worker: _Worker) -> None:
        self._all.discard(worker)
        worker.kill()
        self._killed.append(worker)

    def _is_any_left(self) -> bool:
        """Whether a process that was killed is not gone yet; it takes its time."""
        self._killed = [one for one in self._killed if not one.gone]
        return bool(self._killed)


class _Ended(Exception):
    """A job came to nothing; *is_its_own* if it did so by its own doing."""

    def __init__(self, reason: str, *, is_its_own: bool) -> None:
        super().__init__(reason)
        self.is_its_own = is_its_own


class _Worker:
    """One process and the socket to it."""

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._ours, theirs = socket.socketpair()
        parent = str(os.getpid())
        command = [sys.executable, "-P", str(PROGRAM)]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 (our own program)
                [*command, str(theirs.fileno()), str(ROOT), str(max_bytes), parent],
                pass_fds=[theirs.fileno()],
                env={name: os.environ[name] for name in KEPT if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self.pid = self._process.pid

    @property
    def _limit(self) -> float:
        return self._seconds * PATIENCE

    @property
    def alive(self) -> bool:
        """Whether it can be given a job."""
        return self._process.poll() is None and not self._reader.at_eof()

    async def connect(self) -> None:
        """Have the reactor look after the socket."""
        self._ours.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    async def begin(
        self, job: str, content: bytes, arguments: Mapping[str, Any]
    ) -> None:
        """Hand a job over.

        Raises:
            _Ended: The worker does not take it.
        """
        head = {"job": job, "seconds": self._seconds, "size": len(content)}
        text = json.dumps({**head, "arguments": dict(arguments)}).encode()
        try:
            async with asyncio.timeout(self._limit):
                self._writer.write(LENGTH.pack(len(text)) + text)
                for at in range(0, len(content), PIECE):
                    self._writer.write(content[at : at + PIECE])
                    await self._writer.drain()
        except TimeoutError:
            raise self._silent() from None
        except ConnectionError:
            raise await self._end() from None

    async def part(self) -> tuple[Any] | None:
        """The next part of the result, or ``None`` at its end.

        Raises:
            _Ended: The job has failed or its worker ended, or says nothing.
        """
        try:
            (size,) = LENGTH.unpack(await self._read(LENGTH.size))
            if size > MOST:
                raise _Ended(f"a part of it has {size:,} bytes", is_its_own=True)
            message = json.loads(await self._read(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._end() from None
        except (ValueError, RecursionError) as error:
            raise _Ended(
                f"a part of it is not data: {error}", is_its_own=True
            ) from None
        if "part" in message:
            return (message["part"],)
        if "failed" in message:
            raise _Ended(str(message["failed"])[:500], is_its_own=True)
        return None

    async def _read(self, size: int) -> bytes:
        for limit in (self._limit, GRACE):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    return await self._reader.readexactly(size)
        raise self._silent()

    def _silent(self) -> _Ended:
        return _Ended(f"it was not done after {self._limit:g} s", is_its_own=True)

    async def _end(self) -> _Ended:
        """How the process ended, which it has, or is about to."""
        self._writer.close()
        while (code := self._process.poll()) is None:  # noqa: ASYNC110
            await asyncio.sleep(PACE)
        if code == -signal.SIGPROF:
            text = f"it takes more than {self._seconds:g} s of CPU time"
            return _Ended(text, is_its_own=True)
        if code == NO_MEMORY:
            return _Ended("it needs more memory than a worker has", is_its_own=True)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return _Ended(f"its worker ended with {how}", is_its_own=False)

    def kill(self) -> None:
        """Have it end now."""
        if hasattr(self, "_writer"):
            self._writer.close()
        else:
            self._ours.close()
        self._process.kill()
