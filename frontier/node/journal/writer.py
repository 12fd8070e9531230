"""The journal of one node, written in a thread of its own.

What always holds:

1.  `pushed` and `acked` never wait for the disk; `before_ack` returns when everything
    that was noted before it is on disk, or raises `WriterStopped` (see `GroupCommit`).
2.  A file that is being written is locked, and its name ends with ``.open``. One that
    lost its writer is cut back to its last whole entry and closed by the next node that
    starts on the directory.
3.  What an `OSError` leaves half done is cut off and written again, until it
    works or the journal is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.append_file import AppendFile, close_left
from frontier.errors import ArchiveError, ConfigurationError, WriterStopped
from frontier.files import FILE_MODE, OPEN, make_directory, sync_directory
from frontier.group_commit import GroupCommit
from frontier.node.context import Part
from frontier.node.journal.entries import (
    SUFFIX,
    Acked,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    frame,
    journals_in,
    whole_bytes,
)
from frontier.queue.push import CLAIM, Push
from frontier.store.calls import Call, Run
from frontier.store.keys import CrawlKeys, RegistryKeys
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from frontier.queue.due import Again
    from frontier.queue.reserve import Reservation


logger = logging.getLogger(__name__)

LINGER = 0.05
"""Seconds in which more may come before a batch is written; nobody waits for it."""
MAX_BATCH = 10_000
MAX_FILE_BYTES = 256 * 1024 * 1024

_Entry = Pushed | tuple["Reservation", "Again | None"]
"""`Acked` or `PutAgain` is made of the tuple later, not in the reactor's thread."""


class Journal(GroupCommit[_Entry], Part):
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
        self._waits_for = ""
        try:
            make_directory(directory, mode)
            mend(directory)
            self._open()
        except OSError as error:
            raise ArchiveError(
                f"FRONTIER_JOURNAL_DIR = {str(directory)!r}: {error.strerror}"
            ) from error
        self._thread.start()

    @override
    def pushed(self, partition: int, pushes: Sequence[Push]) -> None:
        """Note that the store has *pushes*."""
        for push in pushes:
            if push.mode == CLAIM:  # it is pushed as seen when it is done
                continue
            what = (push.mark, push.queue, push.item, push.due, push.forced)
            self._add(Pushed(partition, push.mode, *what))

    @override
    def acked(self, reservation: Reservation, again: Again | None) -> None:
        """Note that a request is done; with *again*, it waits for another visit."""
        self._add((reservation, again))

    @override
    def room(self) -> bool:
        """Whether the disk takes what is noted: without it no page is acked."""
        return not self._waits_for

    @override
    def report(self) -> dict[str, Any]:
        """Whether the node waits for the disk; the archive says so of its own."""
        return {"disk_full": True} if self._waits_for else {}

    @override
    def waits_for(self) -> str:
        """The files that the disk does not take."""
        return self._waits_for

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Return when all that was noted is on disk."""
        await asyncio.wrap_future(self.durable())

    @override
    def _work(self) -> None:
        while batch := self._take(MAX_BATCH, linger=LINGER):
            self._write(b"".join(map(_framed, batch)))
            self._committed()
        self._publish()

    def _write(self, data: bytes) -> None:
        waits = pauses()
        while True:
            try:
                if self._file is not None and (
                    self._file.kept >= self._max_bytes or self._file.published
                ):
                    self._publish()
                self._append(self._file or self._open(), data)
            except OSError as error:
                what = f"the journal in {self._directory} cannot be written"
                if not self._waits_for:
                    self._waits_for = what
                    logger.error(  # noqa: TRY400 (told by its reason alone)
                        "%s: %s; trying again, and nothing more is fetched until it "
                        "works",
                        what,
                        error,
                    )
                if self._stopping.is_set():
                    raise WriterStopped(f"{what}: {error}") from error
                self._stopping.wait(next(waits))
                continue
            if self._waits_for:
                self._waits_for = ""
                logger.info("the journal in %s can be written again", self._directory)
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
        except OSError:  # nothing may be written into a file without a header
            with contextlib.suppress(OSError):
                file.discard()
            raise
        self._file = file
        return file

    def _publish(self) -> None:
        if self._file is not None:
            self._file.publish()
            self._file = None


def mend(directory: Path) -> list[tuple[Path, int]]:
    """Close the journals in *directory* that lost their writers.

    Each is cut back to its last whole entry; one without any is deleted. Returns their
    new paths, and how many bytes were cut off.

    Raises:
        OSError: A file cannot be read or changed.
    """
    left = sorted(directory.glob(f"*{SUFFIX}{OPEN}"))
    mended = close_left(left, lambda path, _: whole_bytes(path))
    for path, _, cut in mended:
        logger.warning(
            "the journal %s was left open; its last %d bytes, an "
            "incomplete entry, are cut off",
            path,
            cut,
        )
    return [(path, cut) for path, _, cut in mended]


def others_of(directory: Path, keys: CrawlKeys) -> dict[str, list[Path]]:
    """The journals in *directory* of other crawls with the name of *keys*, by birth.

    Raises:
        OSError: The directory, or a file in it, cannot be read.
    """
    found: dict[str, list[Path]] = {}
    for path, header in journals_in([directory] if directory.exists() else ()):
        name = (keys.namespace, keys.crawl_id)
        if header and header.name == name and header.born != keys.born:
            found.setdefault(header.born, []).append(path)
    return found


def told_of(others: Mapping[str, Sequence[Path]], crawl_id: str) -> str:
    """Describe the journals *others*, of earlier crawls called *crawl_id*."""
    paths = [path for paths in others.values() for path in paths]
    first = paths[0].with_name(paths[0].name.removesuffix(OPEN))
    if len(paths) == 1:
        return f"1 journal of an earlier crawl {crawl_id}: {first}"
    return f"{len(paths):,} journals of an earlier crawl {crawl_id}, as {first}"


async def refuse_lost(run: Run, directory: Path, keys: CrawlKeys) -> None:
    """Refuse to begin the crawl of *keys* anew if the store has lost it.

    Raises:
        ConfigurationError: *directory* has journals of it, the store does not have it,
            and nobody has deleted it.
    """
    # Read before the store is asked: another node's journal comes after its crawl.
    others = await asyncio.to_thread(others_of, directory, keys)
    if not others:
        return
    deleted = RegistryKeys(keys.namespace).deleted
    exists = Call.command("EXISTS", keys.meta)
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
    done, again = entry
    partition, digest = done.lease.partition, digest_of(done.queue, done.item)
    if again is not None:
        return frame(PutAgain(partition, digest, again.queue, again.item, again.due))
    return frame(Acked(partition, digest))


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)
