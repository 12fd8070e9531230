"""The thread that writes the archive, so that the reactor need not wait.

What always holds:

1.  Every future that was handed out completes: with its result once the bytes are
    on disk and the index knows them, or with `WriterStopped`.
2.  Exchanges are written in the order of their sequence numbers, and a sequence
    is durable only if all before it are.
3.  An exchange whose future fails with `WriterStopped` may be on disk or not. One
    whose future succeeds is.

`GroupCommit` keeps the queue, and says when something in it is durable.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.group_commit import GroupCommit, promise
from frontier.model import Attempt, Body, Exchange, Outlinks
from frontier.warc.batch import ArchiveConfig, BatchWriter
from frontier.warc.crawl_log import line_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from frontier.dedupe.digest_index import Index
    from frontier.warc.file_rotation import WarcWriter

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Most exchanges that are written between two syncs."""
OBJECTS = 2048
"""Bytes that an exchange takes besides its content; most of it, for many small ones."""
LINK = 150
"""Bytes that an outlink takes besides its characters."""


_Given = Exchange | Attempt | Outlinks
_Job = tuple[_Given, "Future[Any]"]


def _size(given: _Given) -> int:
    """Bytes that *given* holds in memory, near enough."""
    if isinstance(given, Outlinks):
        return OBJECTS + sum(LINK + len(url) for url, _ in given.links)
    parts: tuple[Body, ...] = ()
    if isinstance(given, Exchange):
        parts = (given.request_head, given.request_body, given.response_head)
        parts += (given.response_body,)
    return OBJECTS + sum(len(part) for part in parts if isinstance(part, bytes))


class ArchiveThread(GroupCommit[_Job]):
    """Writes exchanges to WARC files in a thread of its own, started at once.

    *writer*, *index* and what *config* names belong to that thread from now on.
    Without `close`, the open file is left to `repair`.

    A sequence is durable once it is on disk, in the sense of the *fsync* setting, and
    the index knows it.
    """

    def __init__(
        self, writer: WarcWriter, index: Index, config: ArchiveConfig | None = None
    ) -> None:
        super().__init__("archive", "the archive is closed")
        config = config or ArchiveConfig()
        self._log = config.log
        self._writer = writer
        self._servers = config.servers
        self.batches = BatchWriter(writer, index, self._stopping, config)
        """What writes; its counters are up to date after each batch."""
        self._thread.start()

    def submit(self, given: _Given) -> tuple[int, Future[Any]]:
        """Queue *given*; return its sequence number, and a future of where it will be.

        An attempt becomes a line of the crawl log; submit a page before its outlinks.
        Never blocks, and the queue has no limit: watch `pending_bytes`. The
        future cannot be cancelled; only that of an exchange has a result.
        """
        future = promise()
        return self._add((given, future), _size(given)), future

    @override
    def _work(self) -> None:
        try:
            while True:
                batch = self._take(BATCH_SIZE, idle=self._writer.seconds_left())
                if batch is None:
                    break
                if batch:
                    self._write(batch)
                elif self._writer.seconds_left() == 0:
                    self.batches.close_file()
        finally:
            if self._servers is not None:
                self._servers.close()
            self._close_files()

    def _write(self, batch: list[_Job]) -> None:
        written = iter(
            self.batches.write([x for x, _ in batch if isinstance(x, Exchange)])
        )
        stored = {id(f): next(written) for x, f in batch if isinstance(x, Exchange)}
        links = [
            (x, stored.get(id(x.page)) or x.page.result())
            for x, _ in batch
            if isinstance(x, Outlinks)
        ]
        if links:
            self.batches.write_outlinks(links)
        if self._log is not None:
            self.batches.write_log(
                [
                    line_of(x, stored.get(id(future)))
                    for x, future in batch
                    if not isinstance(x, Outlinks)
                ]
            )

        def tell() -> None:
            for _, future in batch:
                future.set_result(stored.get(id(future)))

        self._committed(tell)

    @override
    def _give_up(self, job: _Job) -> None:
        job[1].set_exception(self._stopped())

    def _close_files(self) -> None:
        """Close what is open, without what a failed write left after the last sync."""
        try:
            self._writer.rollback()
            self._writer.close()
            if self._log is not None:
                self._log.close()
        except OSError as error:
            self.failure = error
            self.batches.waits_for = "a WARC file cannot be closed"
            logger.error(  # noqa: TRY400 - the operator acts on the reason alone
                "files in %s are left open, for the next start to repair: %s",
                self._writer.config.directory,
                error,
            )
            self._writer.abandon()
            if self._log is not None:
                self._log.abandon()
