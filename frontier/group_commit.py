"""A thread that makes jobs durable, a group at a time, in the order in which they came.

Databases call it a group commit: what comes while one group is forced to disk becomes
the next group, so that many jobs wait for one sync.

What always holds:

1.  Adding a job, or asking when it is durable, never waits for the disk: the lock is
    held only while lists are changed.
2.  Jobs have the numbers 1, 2, 3 ... and are taken in this order. A number is durable
    only if all before it are.
3.  Every future of `durable` completes: when its number is durable, or with
    `WriterStopped` if the thread ends before that. Nobody can cancel it.
4.  A job that comes when the thread has ended is given up, and its number is never
    durable: whoever adds it need not know. Whoever waits for it learns why.

A future completes in the thread, so its callbacks run there: they must be quick, must
not wait for the thread, and must go through ``reactor.callFromThread`` to touch
anything of Scrapy's.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from frontier.errors import StoreRefused, WriterStopped

logger = logging.getLogger(__name__)

Job = TypeVar("Job")


class GroupCommit(Generic[Job]):
    """A thread and its queue; subclasses say in `_work` what is done with the jobs.

    The thread does not keep the process alive: without `close`, what waits is lost.
    """

    def __init__(self, name: str, closed: str) -> None:
        """*name* is the thread's; *closed* is what the error says once it has ended."""
        self._name = name
        self._closed = closed
        self.failure: BaseException | None = None
        """What ended the thread before `close` did, if anything."""
        self.pending_bytes = 0
        """The size in memory of the jobs that are not durable."""
        self._stopping = threading.Event()
        self._changed = threading.Condition()  # guards all that follows
        self._waiting: deque[tuple[Job, int]] = deque()
        self._taken: list[tuple[Job, int]] = []
        self._barriers: list[tuple[int, Future[None]]] = []
        self._added = 0
        self._durable = 0
        self._ended = False
        self._thread = threading.Thread(
            target=self._run, name=f"frontier-{name}", daemon=True
        )

    @property
    def pending(self) -> int:
        """How many jobs are not durable."""
        with self._changed:
            return len(self._taken) + len(self._waiting)

    def durable(self, number: int | None = None) -> Future[None]:
        """A future that completes when all jobs up to *number*, or all, are durable."""
        future: Future[None] = promise()
        with self._changed:
            wanted = self._added if number is None else number
            reached = wanted <= self._durable
            if not (reached or self._ended):
                self._barriers.append((wanted, future))
                self._changed.notify()
                return future
        if reached:
            future.set_result(None)
        else:
            future.set_exception(self._stopped())
        return future

    def close(self) -> None:
        """Have the thread write what waits, and wait for its end."""
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _add(self, job: Job, size: int = 0) -> int:
        """Add *job*, of *size* bytes in memory; return its number."""
        with self._changed:
            self._added += 1
            number = self._added
            if not self._ended:
                self._waiting.append((job, size))
                self.pending_bytes += size
                if len(self._waiting) == 1:
                    self._changed.notify()
                return number
        self._give_up(job)
        return number

    def _take(
        self, most: int, *, idle: float | None = None, linger: float = 0.0
    ) -> list[Job] | None:
        """The next jobs: none after *idle* seconds without any, ``None`` at the end.

        Unless somebody waits for them, they are collected for *linger* seconds.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._stopping.is_set(), idle
            )
            if self._waiting and linger:
                self._changed.wait_for(
                    lambda: self._barriers or self._stopping.is_set(), linger
                )
            count = min(len(self._waiting), most)
            self._taken = [self._waiting.popleft() for _ in range(count)]
            if not count and self._stopping.is_set():
                return None
            return [job for job, _ in self._taken]

    def _committed(self, told: Callable[[], object] | None = None) -> None:
        """Note that the taken jobs are durable; call *told*, then complete futures."""
        with self._changed:
            self._durable += len(self._taken)
            self.pending_bytes -= sum(size for _, size in self._taken)
            self._taken = []
            due = [future for at, future in self._barriers if at <= self._durable]
            self._barriers = [b for b in self._barriers if b[0] > self._durable]
        if told is not None:
            told()
        for future in due:
            future.set_result(None)

    def _work(self) -> None:
        """Take jobs until there are no more."""
        raise NotImplementedError

    def _give_up(self, job: Job) -> None:
        """Handle a *job* that will not be durable: the thread has ended."""

    def _run(self) -> None:
        try:
            self._work()
        except (WriterStopped, StoreRefused) as error:  # told by whoever waits
            self.failure = error
        except BaseException as error:
            logger.exception("the %s thread failed", self._name)
            self.failure = error
        finally:
            with self._changed:
                self._ended = True
                left, barriers = [*self._taken, *self._waiting], self._barriers
                self._taken, self._barriers = [], []
                self._waiting.clear()
                self.pending_bytes = 0
            for job, _ in left:
                self._give_up(job)
            for _, future in barriers:
                future.set_exception(self._stopped())

    def _stopped(self) -> WriterStopped:
        """Return a new error: one that is raised twice collects tracebacks."""
        error = WriterStopped(f"{self._closed}: {self.failure or 'as asked'}")
        error.__cause__ = self.failure
        return error


def promise() -> Future[Any]:
    """Return a future that can no longer be cancelled."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
