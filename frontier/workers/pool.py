"""Worker processes of a node, as its reactor uses them.

What always holds:

1.  Nothing here blocks: the reactor waits for a worker as it waits for a server.
2.  At most the allowed number of processes run; one is started when there is a job and
    no process is free. Jobs wait for a process in order.
3.  A worker that has reached a limit or has died, or whose job nobody waits for any
    more, is killed, and the next job gets another. Missing results are not made up: the
    caller gets `WorkerFailed` with the URL and the reason.
4.  If a worker died, and its job is not known to be the cause, another one does the job
    once more.
5.  What a worker sends is not trusted: a message is no longer than `MOST`, and is only
    data.
6.  After `close` no worker is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from frontier.errors import WorkerFailed
from frontier.workers.process import JOBS, LENGTH, MOST, NO_MEMORY

PROGRAM = Path(__file__).with_name("process.py")
ROOT = Path(__file__).parents[2]
"""Where the workers find this package."""
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHOME", "PYTHONPATH", "TZ")
"""Variables of the node's environment that workers get. Others may be secret, and a bug
in a parser may let a page read them."""
PATIENCE = 6.0
"""Limits of CPU time after which, on the wall clock, a silent worker is given up: it is
stopped, or the machine has little to spare."""
LEAST_WAIT = 15.0
"""Seconds to wait at least: on a busy machine a worker may wait that long to run."""
GRACE = 2.0
"""Seconds to read what a worker sent while this node itself was stopped."""
PIECE = 256 * 1024
"""Bytes that are handed to a worker at a time."""
ATTEMPTS = 2


class _Ended(Exception):
    """A job failed; *is_its_own* says whether the job itself was the cause."""

    def __init__(self, reason: str, *, is_its_own: bool = True) -> None:
        super().__init__(reason)
        self.is_its_own = is_its_own


class WorkerPool:
    """At most *processes* workers, each with *max_bytes* of memory.

    *seconds* is the limit of CPU time of a job.
    """

    def __init__(self, processes: int, seconds: float, max_bytes: int) -> None:
        self._room = asyncio.Semaphore(processes)
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(
        self, job: str, content: bytes, arguments: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield the parts that *job*, one of `JOBS`, makes of *content*.

        Until the next part is asked for, the worker waits and its time does not run.
        ``url`` among the *arguments* says where the content is from.

        Raises:
            WorkerFailed: It reached a limit, or failed, perhaps after some parts.
        """
        if job not in JOBS:
            raise ValueError(f"no job is called {job!r}")
        url = str(arguments.get("url", ""))
        head = {"job": job, "seconds": self._seconds, "size": len(content)}
        text = json.dumps({**head, "arguments": dict(arguments)}).encode()
        request = LENGTH.pack(len(text)) + text
        async with self._room:
            for attempt in range(ATTEMPTS):
                has_part = False
                if self._closed:
                    raise WorkerFailed(job, url, "the node is closing")
                worker = await self._worker()
                try:
                    await self._hand_over(worker, request, content)
                    while (message := await self._answer(worker)).get("done") is None:
                        has_part = True
                        yield message["part"]
                except _Ended as ended:
                    if ended.is_its_own or has_part or attempt + 1 == ATTEMPTS:
                        raise WorkerFailed(job, url, str(ended)) from None
                else:
                    self._idle.append(worker)
                    return
                finally:
                    if worker not in self._idle:
                        self._kill(worker)

    async def close(self) -> None:
        """Kill all workers; jobs under way fail."""
        self._closed = True
        self._idle.clear()
        for worker in list(self._all):
            self._kill(worker)
        await asyncio.gather(*self._ending)

    async def _worker(self) -> Process:
        while self._idle:
            worker = self._idle.pop()
            if worker.returncode is None and not _pipe(worker.stdout).at_eof():
                return worker
            self._kill(worker)
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(PROGRAM)),
            *(str(ROOT), str(self._max_bytes), str(os.getpid())),
            stdin=PIPE,
            stdout=PIPE,
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            start_new_session=True,  # a terminal's signals are for the node
        )
        self._all.add(worker)
        return worker

    def _kill(self, worker: Process) -> None:
        if worker in self._all:
            self._all.remove(worker)
            task = asyncio.ensure_future(_end(worker))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    @property
    def _limit(self) -> float:
        return max(self._seconds * PATIENCE, LEAST_WAIT)

    async def _hand_over(self, worker: Process, head: bytes, content: bytes) -> None:
        pipe = _pipe(worker.stdin)
        try:
            async with asyncio.timeout(self._limit):
                pipe.write(head)
                for at in range(0, len(content), PIECE):
                    pipe.write(content[at : at + PIECE])
                    await pipe.drain()
        except TimeoutError:
            raise self._silent() from None
        except ConnectionError:
            raise await self._end_of(worker) from None

    async def _answer(self, worker: Process) -> dict[str, Any]:
        """The next message: a part, or that the job is done."""
        try:
            (size,) = LENGTH.unpack(await self._read(worker, LENGTH.size))
            if size > MOST:
                raise _Ended(f"a part of it has {size:,} bytes")
            message: dict[str, Any] = json.loads(await self._read(worker, size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._end_of(worker) from None
        except (ValueError, RecursionError) as error:
            raise _Ended(f"a part of it is not data: {error}") from None
        if "failed" in message:
            raise _Ended(str(message["failed"])[:500])
        return message

    async def _read(self, worker: Process, size: int) -> bytes:
        for limit in (self._limit, GRACE):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    found: bytes = await _pipe(worker.stdout).readexactly(size)
                    return found
        raise self._silent()

    def _silent(self) -> _Ended:
        return _Ended(f"it was not done after {self._limit:g} s")

    async def _end_of(self, worker: Process) -> _Ended:
        """The error for a process that has ended, or is about to."""
        code = await worker.wait()
        if code == -signal.SIGPROF:
            return _Ended(f"it takes more than {self._seconds:g} s of CPU time")
        if code == NO_MEMORY:
            return _Ended("it needs more memory than a worker has")
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return _Ended(f"its worker ended with {how}", is_its_own=False)


def _pipe(pipe: Any) -> Any:
    """*pipe*, which is not ``None`` for these processes."""
    return pipe


async def _end(worker: Process) -> None:
    """Kill the process, and wait for it and its pipes to end."""
    with contextlib.suppress(ProcessLookupError):
        worker.kill()
    with contextlib.suppress(ConnectionError):
        await worker.communicate()
