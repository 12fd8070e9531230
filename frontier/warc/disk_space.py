"""Limits how much of the disk a directory of WARC files may take.

What always holds:

1.  No write is begun that would leave less than *min_free* bytes of the disk free, or
    make the directory's files larger than *max_bytes*. An empty directory is exempt
    from the latter, or a larger write would wait for ever. Without room an `OSError`
    is raised, and the archive waits as for a full disk.
2.  Free space is checked each time. The size of the files is exact except for what
    other nodes write in `INTERVAL` seconds, and for the framing of records.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

from frontier.files import OPEN
from frontier.warc.crawl_log import SUFFIX

INTERVAL = 5.0
"""Seconds after which the files are counted again."""


class Room:
    """The room for files in *directory*; a limit of 0 means no limit."""

    def __init__(self, directory: Path, min_free: int = 0, max_bytes: int = 0) -> None:
        self._directory = directory
        self._min_free = min_free
        self._max_bytes = max_bytes
        self._taken = 0
        self._due = 0.0

    def claim(self, size: int) -> None:
        """Claim room for *size* bytes.

        Raises:
            OSError: There is no room for them now.
        """
        with contextlib.suppress(FileNotFoundError):  # the writer makes it again
            if self._min_free:
                self._leave_free(size)
            if self._max_bytes:
                self._keep_below(size)

    def _leave_free(self, size: int) -> None:
        disk = os.statvfs(self._directory)
        free = disk.f_bavail * disk.f_frsize
        if free - size < self._min_free:
            raise OSError(
                errno.ENOSPC,
                f"{free:,} bytes are free, of which FRONTIER_WARC_MIN_FREE_BYTES "
                f"leaves {self._min_free:,}",
            )

    def _keep_below(self, size: int) -> None:
        if time.monotonic() >= self._due or self._taken + size > self._max_bytes:
            self._taken = self._count()
            self._due = time.monotonic() + INTERVAL
        if self._taken and self._taken + size > self._max_bytes:
            raise OSError(
                errno.EDQUOT,
                f"its files have {self._taken:,} bytes, and "
                f"FRONTIER_WARC_MAX_TOTAL_BYTES is {self._max_bytes:,}",
            )
        self._taken += size

    def _count(self) -> int:
        """The bytes of all files in the directory, whoever wrote them.

        Crawl logs that are being written do not count: nobody can move those away.
        """
        total = 0
        with os.scandir(self._directory) as entries:
            for entry in entries:
                try:
                    if entry.name.endswith(f"{SUFFIX}{OPEN}"):
                        continue
                    if entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue  # it was moved away meanwhile
        return total
