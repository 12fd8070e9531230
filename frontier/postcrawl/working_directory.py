"""The directory that a command works in: one command at a time, nothing left of a kill.

What always holds:

1.  A directory is held with `fcntl.flock` on a file in it, which ends with the process
    however that ends. The file says who has it, for the message of who is refused.
2.  What a killed command has left is removed by the next one that works there, once it
    holds the directory. What a living one has is not touched.

Manifests are worked on where they are. What `frontier warc remove` takes out of WACZ
files is beside the files that are given, where their room is and the next run finds it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from frontier.errors import DirectoryInUse
from frontier.files import is_at, make_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = ".lock"
BESIDE = ".frontier-remove"
"""The name of a directory beside files that captures are removed from."""
_SORTED = "duckdb*"
"""What DuckDB has on disk in a directory of manifests while it runs."""
_OWN = 0o600
_SAID = 200
"""Bytes that a lock says at most."""


@contextmanager
def held(directory: Path, command: str, mode: int) -> Iterator[None]:
    """Hold *directory*, of manifests, which is made if it is not there.

    Raises:
        DirectoryInUse: Another process has it.
        OSError: It cannot be made, or not be written to.
    """
    make_directory(directory, mode)
    descriptor = _locked(directory, command, mode)
    try:
        for left in directory.glob(_SORTED):
            _remove(left)
        yield
    finally:
        _free(descriptor)


@contextmanager
def beside(path: Path, command: str) -> Iterator[Path]:
    """A directory beside *path*, empty, that only its owner may read; it is removed.

    Raises:
        DirectoryInUse: Another process works there.
        OSError: It cannot be made.
    """
    directory = path.absolute().parent / BESIDE
    descriptor = _made_and_locked(directory, command)
    try:
        _clear(directory)
        yield directory
    finally:
        _clear(directory)
        (directory / LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # another command has just begun there
            directory.rmdir()
        _free(descriptor)


@contextmanager
def temporary(name: str) -> Iterator[Path]:
    """A directory for temporary files, ``frontier-NAME-...``; it is removed.

    What a killed process has left there is for who cleans up `tempfile.gettempdir`.
    """
    with tempfile.TemporaryDirectory(prefix=f"frontier-{name}-") as made:
        yield Path(made)


def _made_and_locked(directory: Path, command: str) -> int:
    while True:
        with suppress(FileExistsError):
            directory.mkdir(0o700)
        with suppress(FileNotFoundError):  # who had it was just removing it
            return _locked(directory, command, _OWN)


def _locked(directory: Path, command: str, mode: int) -> int:
    """The descriptor of the locked file in *directory*.

    Raises:
        DirectoryInUse: Another process has locked it.
        OSError: There is no such directory, or it cannot be written to.
    """
    path = directory / LOCK
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        descriptor = os.open(path, flags, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(path, descriptor):
                said = f"{command}, process {os.getpid()} on {socket.gethostname()}"
                with suppress(OSError):  # a full disk: who has to write says so
                    os.truncate(descriptor, 0)
                    os.write(descriptor, said.encode())
                return descriptor
        except BlockingIOError:
            said = os.pread(descriptor, _SAID, 0).decode("utf-8", "replace")
            os.close(descriptor)
            raise DirectoryInUse(str(directory), said) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # of another, who has removed it


def _free(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork may have a copy
    os.close(descriptor)


def _clear(directory: Path) -> None:
    """Remove all but the lock."""
    for each in directory.iterdir():
        if each.name != LOCK:
            _remove(each)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
