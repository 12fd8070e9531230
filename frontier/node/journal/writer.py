"""The journal of one node, written in a thread of its own.

What always holds:

1.  `pushed`, `acked` and `durable` never wait for the disk, and a future of `durable`
    completes when everything that was put before it is on disk, or fails with
    `WriterStopped` (see `GroupCommit`).
2.  A file that is being written is locked and called ``.open``. One that lost its
    writer is cut back to its last whole entry and closed by the next node that starts
    on the directory.
3.  What an `OSError` leaves half done is cut off and written again, until it
    works or the journal is closed.

The journal of one node, if it has one: what a node's parts tell it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.append_file import AppendFile, close_left, lock_left
from frontier.errors import ArchiveError, ConfigurationError, WriterStopped
from frontier.files import (
    FILE_MODE,
    make_directory,
    sync_directory,
)
from frontier.group_commit import GroupCommit
from frontier.node.context import Part
from frontier.node.journal.entries import (
    OPEN,
    SUFFIX,
    Acked,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    frame,
    read_header,
    whole_bytes,
)
from frontier.queue.push import CLAIM, GONE, TEST
from frontier.store.calls import Call
from frontier.store.keys import RegistryKeys
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from io import FileIO
    from pathlib import Path
    from typing import Self

    from frontier.cluster.crawls import Run
    from frontier.queue.due import Again
    from frontier.queue.push import Push
    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys


logger = logging.getLogger(__name__)

LINGER = 0.05
"""Seconds in which more may come before a batch is written; nobody waits for it."""
MAX_BATCH = 10_000
MAX_FILE_BYTES = 256 * 1024 * 1024

_Entry = Pushed | tuple[int, str, bytes, "Again | None"]
"""The tuple is what `Acked` or `PutAgain` is made of, later and not on the reactor."""


class Journal(GroupCommit[_Entry]):
    """Appends what a node pushes and acks to a series of files in *directory*.

    Raises:
        ArchiveError: The directory or a file in it cannot be written.
    """

    def __init__(
        self,
        directory: Path,
        header: Header,
        *,
        max_bytes: int = MAX_FILE_BYTES,
        clock: Callable[[], float] = time.time,
        mode: int = FILE_MODE,
    ) -> None:
        super().__init__("journal", "the journal is closed")
        self._mode = mode
        self._directory = directory
        self._header = header
        self._max_bytes = max_bytes
        self._clock = clock
        self._serial = 0
        self._file: AppendFile | None = None
        try:
            make_directory(directory, mode)
            mend(directory)
            self._open()
        except OSError as error:
            raise ArchiveError(
                f"FRONTIER_JOURNAL_DIR = {str(directory)!r}: {error.strerror}"
            ) from error
        self._thread.start()

    def pushed(self, entry: Pushed) -> None:
        """Note that the store has *entry*."""
        self._add(entry)

    def acked(
        self, partition: int, queue: str, item: bytes, again: Again | None = None
    ) -> None:
        """Note that the request *item* of *queue* is done, and waits *again*."""
        self._add((partition, queue, item, again))

    @override
    def _work(self) -> None:
        while batch := self._take(MAX_BATCH, linger=LINGER):
            self._write(b"".join(map(_framed, batch)))
            self._committed()
        self._publish()

    def _write(self, data: bytes) -> None:
        waits = pauses()
        is_told = False
        while True:
            try:
                if self._file is not None and (
                    self._file.kept >= self._max_bytes or self._file.published
                ):
                    self._publish()
                self._append(self._file or self._open(), data)
            except OSError as error:
                if not is_told:
                    is_told = True
                    logger.error(  # noqa: TRY400 (told by its reason alone)
                        "the journal in %s cannot be written: %s; trying again",
                        self._directory,
                        error,
                    )
                if self._stopping.is_set():
                    raise WriterStopped(
                        f"the journal in {self._directory} cannot be written: {error}"
                    ) from error
                self._stopping.wait(next(waits))
            else:
                return

    def _append(self, file: AppendFile, data: bytes) -> None:
        """Write *data* and wait until it is on disk."""
        file.rollback()  # of what failed before
        file.append(data)
        file.sync()

    def _open(self) -> AppendFile:
        header = self._header
        moment = datetime.fromtimestamp(self._clock(), UTC)
        self._serial += 1
        while True:
            stamp = f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
            parts = (header.crawl_id, stamp, f"{self._serial:05}", header.node_id)
            name = "-".join(_safe(part) for part in parts) + SUFFIX
            with contextlib.suppress(FileExistsError):
                file = AppendFile(self._directory, name, self._mode)
                break
            moment += timedelta(milliseconds=1)  # the serial says what came before
        try:
            self._append(file, frame(header))
            sync_directory(self._directory)
        except OSError:  # nothing may be written to a file without a header
            with contextlib.suppress(OSError):
                file.discard()
            raise
        self._file = file
        return file

    def _publish(self) -> None:
        if self._file is not None:
            self._file.publish()
            self._file = None


class Left:
    """A journal that lost its writer. Locked: nobody else looks at it meanwhile."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self._file = file

    def close(self) -> tuple[Path, int]:
        """Cut it back to its last whole entry, take ``.open`` off its name, unlock it.

        Returns its new path, and how many bytes were cut off. A file without any
        entry is deleted.

        Raises:
            OSError: It cannot be read or changed.
        """
        path = self.path
        try:
            end = whole_bytes(path)
            cut = path.stat().st_size - end
            close_left(path, self._file, end)
            sync_directory(path.parent)
        finally:
            self.release()
        logger.warning("%s was left open; %d bytes cut off", path, cut)
        return path.with_name(path.name.removesuffix(OPEN)), cut

    def release(self) -> None:
        """Unlock it, and leave it as it is."""
        self._file.close()


def left_open(directory: Path) -> Iterator[Left]:
    """The journals in *directory* that lost their writers, by name.

    Raises:
        OSError: The directory, or one of them, cannot be read.
    """

    def refused(path: Path, reason: str) -> None:
        logger.error("%s is left alone: %s", path, reason)

    for path in sorted(directory.glob(f"*{SUFFIX}{OPEN}")):
        file = lock_left(path, refused)
        if file is not None:
            yield Left(path, file)


def mend(directory: Path) -> list[tuple[Path, int]]:
    """Close the journals in *directory* that lost their writers.

    Returns what `Left.close` does, of each.

    Raises:
        OSError: A file cannot be read or changed.
    """
    return [left.close() for left in left_open(directory)]


def others_of(directory: Path, keys: CrawlKeys) -> dict[str, list[Path]]:
    """The journals in *directory* of other crawls with the name of *keys*, by birth.

    Raises:
        OSError: The directory, or a file in it, cannot be read.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(directory.glob(f"*{SUFFIX}*")):
        if path.name.endswith((SUFFIX, SUFFIX + OPEN)):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                header = read_header(path)
                name = (keys.namespace, keys.crawl_id)
                if header and header.name == name and header.born != keys.born:
                    found.setdefault(header.born, []).append(path)
    return found


def told_of(others: Mapping[str, Sequence[Path]], crawl_id: str) -> str:
    """Which journals *others* are, of crawls called *crawl_id*."""
    paths = [path for paths in others.values() for path in paths]
    first = paths[0].with_name(paths[0].name.removesuffix(OPEN))
    if len(paths) == 1:
        return f"1 journal of an earlier crawl {crawl_id}: {first}"
    return f"{len(paths):,} journals of an earlier crawl {crawl_id}, as {first}"


async def refuse_lost(run: Run, directory: Path, keys: CrawlKeys) -> None:
    """Do not begin the crawl of *keys* anew if the store has lost it.

    Raises:
        ConfigurationError: *directory* has journals of it, the store does not have it,
            and nobody has deleted it.
    """
    # Before the store is asked: another node's journal comes after its crawl.
    others = await asyncio.to_thread(others_of, directory, keys)
    if not others:
        return
    deleted = RegistryKeys(keys.namespace).deleted()
    exists = Call.command("EXISTS", keys.meta())
    is_there, *gone = await run(
        [exists, *(Call.command("SISMEMBER", deleted, born) for born in others)]
    )
    births = zip(others, gone, strict=True)
    lost = {born: others[born] for born, is_gone in births if not is_gone}
    if is_there or not lost:
        return
    raise ConfigurationError(
        f"this store does not have the crawl {keys.crawl_id}, but a journal directory "
        f"has {told_of(lost, keys.crawl_id)}. If the store was lost, restore the "
        f"crawl: frontier crawl rebuild --crawl {keys.crawl_id} --journal {directory}. "
        "To begin it anew, move these journals away, or choose another "
        "FRONTIER_CRAWL_ID"
    )


def _framed(entry: _Entry) -> bytes:
    if isinstance(entry, Pushed):
        return frame(entry)
    partition, queue, item, again = entry
    digest = digest_of(queue, item)
    if again is not None:
        return frame(PutAgain(partition, digest, again.queue, again.item, again.due))
    return frame(Acked(partition, digest))


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


class Journaling(Part):
    """Has the journal of a node told what the store has of it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @classmethod
    async def of(
        cls,
        directory: Path,
        header: Header,
        keys: CrawlKeys,
        mode: int,
    ) -> Self:
        """Open the journal with *header* in *directory*, of the crawl of *keys*.

        Raises:
            ArchiveError: It cannot be written.
        """
        journal = await asyncio.to_thread(Journal, directory, header, mode=mode)
        earlier = await asyncio.to_thread(others_of, directory, keys)
        if earlier:
            logger.warning("%s; they are left alone", told_of(earlier, keys.crawl_id))
        return cls(journal)

    @override
    def pushed(self, partition: int, pushes: Sequence[Push]) -> None:
        """Note that the store has *pushes*."""
        for push in pushes:
            if push.mode in GONE:  # a rebuild finds out by itself
                continue
            mode = TEST if push.mode == CLAIM else push.mode
            self._journal.pushed(
                Pushed(
                    *(partition, mode, push.mark, push.queue, push.item),
                    due=push.due,
                    forced=push.forced,
                )
            )

    @override
    def acked(self, reservation: Reservation, again: Again | None) -> None:
        """Note that a request is done, and waits *again*."""
        partition = reservation.lease.partition
        self._journal.acked(partition, reservation.queue, reservation.item, again)

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Return when all that was noted is on disk."""
        await asyncio.wrap_future(self._journal.durable())

    async def close(self) -> None:
        """Write what is left and close the file."""
        await asyncio.to_thread(self._journal.close)
