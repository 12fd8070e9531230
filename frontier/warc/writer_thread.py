"""The thread that writes the archive, so that the reactor need not wait.

What always holds:

1.  Every future that was handed out ends: with its result once the bytes are on
    disk and the index knows them, or with `WriterStopped`.
2.  Exchanges are written in the order of their sequence numbers, and a sequence
    is durable only if all before it are.
3.  An exchange whose future fails with `WriterStopped` may be on disk or not. One
    whose future succeeds is.

The result of a future is set by the writer thread, and its callbacks run there:
they must be quick, must not wait for the archive, and must go through
``reactor.callFromThread`` to touch anything of Scrapy's.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged, WriterStopped
from frontier.model import Attempt, Exchange, Outlinks
from frontier.warc.batch import LONGEST_DELAY, ArchiveConfig, BatchWriter, Counters
from frontier.warc.crawl_log import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.dedupe.digest_index import Index
    from frontier.model import Stored
    from frontier.warc.file_rotation import WarcWriter

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Most exchanges that are written between two syncs."""
OBJECTS = 2048
"""Bytes that an exchange takes beside its own: of many small ones they are most."""
LINK = 150
"""Bytes that an outlink takes beside its characters."""


@dataclass(frozen=True, slots=True)
class _Job:
    sequence: int
    exchange: Exchange | Attempt | Outlinks
    future: Future[Any]

    @property
    def size(self) -> int:
        """Bytes that the exchange holds in memory, near enough."""
        x = self.exchange
        if isinstance(x, Attempt):
            return OBJECTS
        if isinstance(x, Outlinks):
            return OBJECTS + sum(LINK + len(url) for url, _ in x.links)
        parts = (x.request_head, x.request_body, x.response_head, x.response_body)
        return OBJECTS + sum(len(part) for part in parts if isinstance(part, bytes))


class ArchiveThread:
    """Writes exchanges to WARC files in a thread of its own, started at once.

    *writer*, *index* and what *config* names belong to that thread from now on.
    The thread does not keep the process alive: without `close`, what is pending
    is lost, and the open file is left to `repair`.
    """

    def __init__(
        self, writer: WarcWriter, index: Index, config: ArchiveConfig | None = None
    ) -> None:
        config = config or ArchiveConfig()
        self._log = config.log
        self.pending = 0
        """Exchanges submitted and not yet durable."""
        self.pending_bytes = 0
        """Their size in memory."""
        self._stopping = threading.Event()
        self._writer = writer
        self._servers = config.servers
        self._batches = BatchWriter(writer, index, self._stopping, config)
        self._changed = threading.Condition()  # guards all that follows
        self._queue: deque[_Job] = deque()
        self._batch: list[_Job] = []
        self._barriers: list[tuple[int, Future[None]]] = []
        self._submitted = 0
        self._durable = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, name="frontier-archive", daemon=True
        )
        self._thread.start()

    def heed(self, is_silent: Callable[[], bool]) -> None:
        """Ask the index nothing while *is_silent* says that it would not answer."""
        self._batches.is_silent = is_silent

    @property
    def counters(self) -> Counters:
        """What was written so far; up to date after each batch."""
        return self._batches.counters

    @property
    def blocked(self) -> bool:
        """Whether the disk takes nothing at the moment."""
        return self._batches.blocked

    @property
    def failure(self) -> BaseException | None:
        """What ended the thread before `close` did, if anything."""
        return self._failure

    def submit(self, exchange: Exchange) -> tuple[int, Future[Stored]]:
        """Queue *exchange*; return its sequence number and where it will be.

        Never blocks, and the queue has no limit: watch `pending_bytes`. The
        future cannot be cancelled.

        Raises:
            WriterStopped: `close` was called, or the thread has failed.
        """
        return self._queue_up(exchange)

    def _queue_up(
        self, given: Exchange | Attempt | Outlinks
    ) -> tuple[int, Future[Any]]:
        future: Future[Any] = _promise()
        with self._changed:
            if self._ended or self._stopping.is_set():
                raise self._stopped()
            self._submitted += 1
            job = _Job(self._submitted, given, future)
            self._queue.append(job)
            self.pending += 1
            self.pending_bytes += job.size
            self._changed.notify()
        return job.sequence, future

    def note(self, attempt: Attempt) -> int:
        """Queue *attempt* for the crawl log; return its sequence number.

        Raises:
            WriterStopped: `close` was called, or the thread has failed.
        """
        return self._queue_up(attempt)[0]

    def note_outlinks(self, found: Outlinks) -> int:
        """Queue the links of a page that was submitted; return its sequence number.

        Raises:
            WriterStopped: `close` was called, or the thread has failed.
        """
        return self._queue_up(found)[0]

    def durable(self, sequence: int) -> Future[None]:
        """Return a future that completes when all up to *sequence* is durable.

        That is: on disk as *fsync* has it, and known to the index. If `close`
        has to give up an index that does not answer, it completes all the same:
        the records are there, later captures will just be stored in full.
        """
        future: Future[None] = _promise()
        with self._changed:
            if sequence > self._durable and not self._ended:
                self._barriers.append((sequence, future))
                return future
            reached = sequence <= self._durable
        if reached:
            future.set_result(None)
        else:
            future.set_exception(self._stopped())
        return future

    def close(self) -> None:
        """Write what is queued, close the file and end the thread.

        An index or a disk that fails now is not waited for: payloads stay out
        of the index, or futures fail with `WriterStopped`.
        """
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._take():
                if self._batch:
                    self._write(self._batch)
                else:
                    self._batches.tell()
            self._batches.end()
        except (WriterStopped, KeyDamaged) as error:
            logger.error("%s", error)  # noqa: TRY400 - told by its reason alone
            self._failure = error
        except BaseException as error:
            logger.exception("the archive thread failed")
            self._failure = error
        finally:
            if self._servers is not None:
                self._servers.close()
            self._close_file()
            if self._log is not None:
                self._log.close()
            self._end()

    def _write(self, batch: list[_Job]) -> None:
        given = [job.exchange for job in batch]
        exchanges = [x for x in given if isinstance(x, Exchange)]
        written = iter(self._batches.write(exchanges) if exchanges else [])
        stored = [next(written) if isinstance(x, Exchange) else None for x in given]
        here = {id(j.future): at for j, at in zip(batch, stored, strict=True)}
        found = [
            (x, here.get(id(x.page)) or x.page.result())
            for x in given
            if isinstance(x, Outlinks)
        ]
        found = [(links, page) for links, page in found if page.file]
        if found:
            self._batches.write_outlinks(found)
        if self._log is not None:
            pairs = zip(given, stored, strict=True)
            self._log.write(
                [entry_of(x, at) for x, at in pairs if not isinstance(x, Outlinks)]
            )
        self._complete(stored)

    def _take(self) -> bool:
        """Move queued jobs to the batch; return whether there is something to do.

        Without jobs that is to tell the index what it has missed.
        """
        with self._changed:
            while not (self._queue or self._stopping.is_set()):
                left = self._writer.seconds_left()
                if left == 0:
                    self._rotate()
                    left = self._writer.seconds_left() and LONGEST_DELAY
                if self._batches.owes:
                    left = LONGEST_DELAY if left is None else min(left, LONGEST_DELAY)
                    if not self._changed.wait(left):
                        return True
                else:
                    self._changed.wait(left)
            count = min(len(self._queue), BATCH_SIZE)
            self._batch = [self._queue.popleft() for _ in range(count)]
        return bool(self._batch)

    def _rotate(self) -> None:
        """Close the file, which is old enough; nothing is waiting to be written."""
        try:
            self._writer.close()
        except OSError as error:
            logger.warning("a WARC file cannot be closed yet: %s", error)

    def _complete(self, stored: list[Stored | None]) -> None:
        with self._changed:
            jobs, self._batch = self._batch, []
            self._durable = jobs[-1].sequence
            self.pending -= len(jobs)
            self.pending_bytes -= sum(job.size for job in jobs)
            due = [future for at, future in self._barriers if at <= self._durable]
            self._barriers = [b for b in self._barriers if b[0] > self._durable]
        for job, where in zip(jobs, stored, strict=True):
            job.future.set_result(where)
        for future in due:
            future.set_result(None)

    def _close_file(self) -> None:
        """Close the file, without what a failure left behind the last sync."""
        try:
            if self._failure is not None:
                self._writer.rollback()
            self._writer.close()
        except OSError as error:
            self._failure = self._failure or error
            logger.error(  # noqa: TRY400 - the operator acts on the reason alone
                "a WARC file in %s is left open, for the next start to repair: %s",
                self._writer.config.directory,
                error,
            )
            self._writer.abandon()
        if self._batches.unindexed:
            logger.warning(
                "%d stored payloads are not in the index, which did not answer",
                self._batches.unindexed,
            )

    def _end(self) -> None:
        """Fail every future that is left."""
        with self._changed:
            self._ended = True
            jobs = [*self._batch, *self._queue]
            barriers, self._barriers, self._batch = self._barriers, [], []
            self._queue.clear()
            self.pending = self.pending_bytes = 0
        for job in jobs:
            job.future.set_exception(self._stopped())
        for _, future in barriers:
            future.set_exception(self._stopped())

    def _stopped(self) -> WriterStopped:
        """Return a new error: one that is raised twice collects tracebacks."""
        error = WriterStopped(f"the archive is closed: {self._failure or 'as asked'}")
        error.__cause__ = self._failure
        return error


def _promise() -> Future[Any]:
    """Return a future that can no longer be cancelled."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
