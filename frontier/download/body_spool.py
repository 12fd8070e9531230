"""Bodies on their way from the wire to Scrapy and to the archive.

Up to ``FRONTIER_WARC_SPOOL_BYTES`` a body is in memory, as with Scrapy. A larger one
goes to an unnamed file in the directory of WARC files, which vanishes with the process;
the archive reads it from there. Scrapy's `Response` wants the whole body as one
``bytes``, so one copy is made when the body is complete; a body that never becomes a
response (too long, too slow, cut off), or that is archived only, is never in memory as
a whole.

What always holds:

1.  The reactor neither writes nor reads a file: one thread does, in order.
2.  While a body is spooled, at most `AHEAD` bytes of it, plus one read, are in memory:
    nothing more is read from the server until the disk has caught up.
3.  A disk that accepts nothing is waited for, as long as the download may take.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from scrapy.http import Response

from frontier.model import Body, FileBody

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.settings.config import Config


logger = logging.getLogger(__name__)

BLOCK = 1 << 20
"""Bytes that are collected before they are handed to the thread."""
AHEAD = 4 * BLOCK
"""Bytes that may wait for the thread before the server is made to wait."""
_DISK_DELAY = 0.5
ARCHIVED_ONLY = "frontier-body-archived-only"
"""The flag of a response without its body, which only the archive has."""


class ArchivedOnly(Response):
    """The response for a body that is larger than ``FRONTIER_WARC_ONLY_BYTES``."""

    archived_bytes = 0
    """The size of the body as it was received."""

    @classmethod
    def instead(cls, response: Response, size: int) -> ArchivedOnly:
        """A copy of *response* whose body, of *size* bytes, only the archive has."""
        made = cls(
            response.url,
            response.status,
            response.headers,
            flags=[*response.flags, ARCHIVED_ONLY],
            certificate=response.certificate,
            ip_address=response.ip_address,
            protocol=response.protocol,
        )
        made.archived_bytes = size
        return made


class SpoolDirectory:
    """Makes the spools of one process, and has the thread that writes them."""

    def __init__(self, config: Config) -> None:
        self.directory = config.warc_dir
        self.limit = config.warc_spool_bytes
        self.thread = ThreadPoolExecutor(1, "frontier-spool")
        self.closing = threading.Event()

    def new(self) -> Spool:
        """A spool for one body."""
        return Spool(self)

    async def close(self) -> None:
        """Wait until everything is written."""
        self.closing.set()
        await asyncio.to_thread(self.thread.shutdown)


class Spool:
    """The body of one response. Public methods are for the reactor's thread."""

    def __init__(self, place: SpoolDirectory) -> None:
        self._place = place
        self.most = 0
        """Bytes above which only the archive gets the body; 0: no limit."""
        self._memory = bytearray()
        self._size = 0
        self._waiting = 0
        self._paused = False
        self._transport: Any = None
        self._file: IO[bytes] | None = None  # only the thread uses it
        self._spooled = False
        self._over = threading.Event()
        self._whole = b""
        self._given_up = False

    def attach(self, transport: Any) -> None:
        """Pause *transport* whenever the disk is slower than the wire."""
        self._transport = transport

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def is_archived_only(self) -> bool:
        """Whether Scrapy does not get the body."""
        return 0 < self.most < self._size

    def write(self, data: bytes) -> None:
        """Add *data*."""
        self._memory += data
        self._size += len(data)
        if self._size > self._place.limit and len(self._memory) >= BLOCK:
            self._hand_over()

    def truncate(self, _: int) -> None:
        """Drop nothing: what Scrapy drops of a failed download is archived."""

    def whenever_written(self, then: Callable[[], None]) -> None:
        """Call *then* once `getvalue` needs no disk: now, or after reading the file."""
        if not self._spooled or self.is_archived_only:
            then()
            return
        self._hand_over()
        self._do(self._read, then)

    def getvalue(self) -> bytes:
        """The whole body, for Scrapy."""
        if self.is_archived_only:
            return b""
        return self._whole if self._spooled else bytes(self._memory)

    async def take(self, body: bytes = b"") -> Body:
        """The whole body, for the archive; *body* is Scrapy's copy, if it has one.

        A spooled body stays in its file.
        """
        self._over.set()
        if not self._spooled:
            return body or bytes(self._memory)
        self._whole = b""
        self._hand_over()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._place.thread, self._filed)

    def _hand_over(self) -> None:
        data, self._memory = self._memory, bytearray()
        self._spooled = True
        self._waiting += len(data)
        if self._waiting > AHEAD and not self._paused and self._transport:
            self._paused = True
            self._transport.pauseProducing()
        self._do(lambda: self._append(data), lambda: self._appended(len(data)))

    def _appended(self, size: int) -> None:
        self._waiting -= size
        if self._paused and self._waiting <= AHEAD // 2:
            self._paused = False
            self._transport.resumeProducing()

    def _do(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        """Call *job* in the spool thread, and *then* in this one."""
        loop = asyncio.get_running_loop()

        def work() -> None:
            try:
                job()
            except OSError:
                logger.exception(
                    "a large body cannot be written, and is lost: its request "
                    "fails by its time-out"
                )
                return  # *then* is not called, so the download times out
            loop.call_soon_threadsafe(then)

        self._place.thread.submit(work)

    # In the spool thread:

    def _append(self, data: bytearray) -> None:
        rest = memoryview(data if not self._given_up else b"")
        complained = False
        while rest:
            try:
                if self._file is None:
                    self._file = TemporaryFile(  # noqa: SIM115 (`_filed` closes it)
                        dir=self._place.directory, buffering=0
                    )
                rest = rest[self._file.write(rest) or 0 :]
            except OSError as error:
                if not complained:
                    complained = True
                    logger.error(  # noqa: TRY400 (the reason is enough)
                        "a large body cannot be written to %s: %s; trying again",
                        self._place.directory,
                        error,
                    )
                if self._place.closing.is_set() or self._over.wait(_DISK_DELAY):
                    self._given_up = True  # nothing may follow the gap
                    return

    def _read(self) -> None:
        if self._file is not None:
            self._file.seek(0)
            self._whole = self._file.read()

    def _filed(self) -> Body:
        if self._file is None or self._file.tell() == 0:
            return b""
        with self._file as file:
            return FileBody(file)
