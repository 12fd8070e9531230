"""Closed WARC files, copied to object storage.

What always holds:

1.  A file counts as uploaded only if the storage reports all of its bytes under its
    name; otherwise it is sent again, now or at the next start.
2.  The index beside a file is uploaded before the file.
3.  A file is removed here, its index first, only once it is uploaded, and only if a
    setting says so.
4.  Nothing here delays the archive: an ack means that a record is on *this*
    machine's disk.

There is no list of the files that are still to be sent: at the start, the storage is
asked for each by its name and size.
"""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path
from typing import Any

from typing_extensions import override

from frontier.errors import ConfigurationError
from frontier.files import sync_directory
from frontier.group_commit import GroupCommit
from frontier.settings.values import without_secrets
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.crawl_log import SUFFIX as LOG
from frontier.warc.file_rotation import named_in
from frontier.warc.remote_files import storage_of

logger = logging.getLogger(__name__)

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
"""Seconds between two attempts: at first, and at most."""
LAST_TRIES = 2
"""Attempts that a closing node still makes after a failed one, without a pause."""


class Uploader(GroupCommit["Path"]):
    """Sends closed files to *url* in a thread of its own, one at a time.

    *url* can be any that fsspec knows. Nothing is lost if the process is killed: the
    next start on *directory* sends what is missing.

    Raises:
        ConfigurationError: fsspec, or its package for this kind of URL, is not
            installed, or the URL is invalid.
    """

    def __init__(self, url: str, directory: Path, *, remove: bool = False) -> None:
        super().__init__("upload", "nothing more is uploaded")
        self.sent = 0
        """Files that this uploader has sent, without their indexes."""
        self.left: list[Path] = []
        """Files that could not be sent before `close`."""
        self._url = without_secrets(url)  # for messages
        self._remove = remove
        try:
            self._storage, self._root = storage_of(url)
        except ConfigurationError as error:
            raise ConfigurationError(f"FRONTIER_WARC_UPLOAD: {error}") from None
        for path in [*named_in(directory, LOG), *named_in(directory, ".warc.gz")]:
            self._add(path)
        self._thread.start()

    def add(self, path: Path) -> None:
        """Send the file at *path*, which is closed."""
        self._add(path)

    @override
    def close(self) -> None:
        """Send what waits; report what cannot be sent and is left to the next start."""
        super().close()
        if self.left:
            logger.error(
                "%d WARC files could not be sent to %s; the next start of a node on "
                "their directory sends them: %s",
                len(self.left),
                self._url,
                ", ".join(path.name for path in self.left),
            )

    @override
    def _work(self) -> None:
        while batch := self._take(1):
            if not self._send(batch[0]):
                break
            self._committed()

    @override
    def _give_up(self, job: Path) -> None:
        self.left.append(job)

    def _send(self, path: Path) -> bool:
        """Send *path*, in as many attempts as it takes; return whether it is there."""
        tries_left = LAST_TRIES
        for attempt in count():
            try:
                self._put(path)
                break
            except Exception as error:  # noqa: BLE001 (each storage has its own)
                if isinstance(error, FileNotFoundError) and not path.exists():
                    return True  # another node of this machine was quicker
                if not attempt:
                    logger.warning(
                        "%s cannot be sent to %s: %r; trying again",
                        path.name,
                        self._url,
                        error,
                    )
            if self._stopping.wait(
                min(FIRST_DELAY * 2 ** min(attempt, 9), LONGEST_DELAY)
            ):
                if not tries_left:
                    return False
                tries_left -= 1
        if attempt:
            logger.info("WARC files can be sent to %s again", self._url)
        return True

    def _put(self, path: Path) -> None:
        index = beside_of(path)
        if index.exists():
            self._copy(index)
        if self._copy(path):
            self.sent += 1
            logger.info("%s was sent to %s", path.name, self._url)
        if self._remove:
            index.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            sync_directory(path.parent)

    def _copy(self, path: Path) -> bool:
        """Make sure the storage has the file at *path*; return whether it was sent."""
        size = path.stat().st_size
        target = f"{self._root.rstrip('/')}/{path.name}"
        if self._size(target) == size:
            return False
        try:
            self._storage.put_file(str(path), target)
        except FileNotFoundError:  # no directory: object storage needs none
            path.stat()
            self._storage.makedirs(self._root, exist_ok=True)
            self._storage.put_file(str(path), target)
        found = self._size(target)
        if found != size:
            raise OSError(f"{found} bytes arrived of {size}")
        return True

    def _size(self, target: str) -> int | None:
        try:
            facts: dict[str, Any] = self._storage.info(target)
        except FileNotFoundError:
            return None
        size = facts.get("size")
        return int(size) if size is not None else None
