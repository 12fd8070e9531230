"""Opens files that somebody else has made, and makes files: one way for each.

What always holds:

1.  Only a regular file is opened. A FIFO, a socket or a device would block, or never
    end; opening one here neither waits nor takes anything from it.
2.  What is read whole has a limit on its size, and what is compressed, on its ratio.
3.  A refusal is an `OSError` whose ``strerror`` says why, and whose ``filename`` is the
    path: callers report it like any other file that cannot be read.

What is read may be a link to a regular file, as a path that a person named may be one.

Files get the mode ``FRONTIER_FILE_MODE`` when they are made, and their directories one
that fits it. Archived pages may need a login, and a journal has cookies and bodies of
requests: not everybody on a machine may read them. The process's umask takes away from
the mode, as for every new file; nothing is added to it, and a file or directory that
exists keeps its own. `sync_directory` makes the names of new files outlive a power cut,
and `published` never leaves a file in part.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, BinaryIO

from frontier.errors import ConfigurationError, FileInUse

VARIABLE = "FRONTIER_FILE_MODE"
"""The setting, and the environment variable that commands look at."""
FILE_MODE = 0o640
"""The default: written by the node's user, read by its group."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing, never of reading."""
OPEN = ".open"
"""Ends the name of a file that is not whole yet."""
LINK = "it is a link; name what it leads to"
"""Why a file is left alone that would be replaced, or that a directory has."""


def creating(mode: int) -> Callable[[str, int], int]:
    """An ``opener`` for `open` that gives *mode* to a file that it makes."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    return opener


def create_locked(path: Path, mode: int) -> FileIO:
    """Make the file *path*, empty, and hold an exclusive `fcntl.flock` on it.

    In between, another process may take it for a file that has lost its writer.

    Raises:
        FileExistsError: The name is taken, or such a process has the file.
        OSError: It cannot be made.
    """
    try:
        file = _locked(path, FileIO(path, "x+", opener=creating(mode)))
    except BlockingIOError:
        raise FileExistsError(errno.EEXIST, "being repaired", str(path)) from None
    if file is None:
        raise FileExistsError(errno.EEXIST, "removed by a repair", str(path))
    return file


def lock_left(path: Path) -> FileIO | None:
    """Open and lock the file *path*, which has lost its writer; ``None`` if it is gone.

    Raises:
        BlockingIOError: Its writer is alive.
        OSError: It is not a regular file (a link is not), or cannot be opened.
    """
    try:
        return _locked(path, FileIO(descriptor_of(path, os.O_RDWR), "r+"))
    except FileNotFoundError:
        return None


def _locked(path: Path, file: FileIO) -> FileIO | None:
    """Lock *file*; if *path* is another file by now, close it and return ``None``."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_at(path, file.fileno()):
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return None


@contextmanager
def rewriting(place: Path, mode: int) -> Iterator[FileIO]:
    """A new file that is to become *place*: beside it, locked, and named ``.open``.

    Its holder may read *place* and rename the new file to it: no other process does so
    meanwhile. It is removed at the end if it was not renamed. What a killed process
    has left is removed first.

    Raises:
        FileInUse: Another process has it.
        OSError: It cannot be made.
    """
    scratch = place.with_name(place.name + OPEN)
    while True:
        try:
            file = create_locked(scratch, mode)
            break
        except FileExistsError:
            _remove_left(scratch, place)
    try:
        yield file
    finally:
        if is_at(scratch, file.fileno()):
            scratch.unlink()
        file.close()


def _remove_left(scratch: Path, place: Path) -> None:
    """Remove *scratch*, which a killed process has left beside *place*.

    Raises:
        FileInUse: That process is alive.
    """
    try:
        left = lock_left(scratch)
    except BlockingIOError:
        raise FileInUse(str(place)) from None
    if left is not None:
        scratch.unlink()
        left.close()


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file *descriptor* still has the name *path*."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


def require_at(path: Path, descriptor: int) -> None:
    """Write nothing to the open file *descriptor* if it has lost the name *path*.

    Raises:
        FileNotFoundError: Somebody has moved or removed it.
    """
    if not is_at(path, descriptor):
        gone = "it is not there any more; put it back, or start this node again"
        raise FileNotFoundError(errno.ENOENT, gone, str(path))


def make_directory(path: Path, mode: int) -> None:
    """Make *path*, and what is missing above it, as directories for files of *mode*.

    Whoever may read the files may also enter: each read bit gets its execute bit.

    Raises:
        OSError: It cannot be made, or is not a directory.
    """
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_directory(path.parent, mode)
    path.mkdir(mode | (mode & 0o444) >> 2, exist_ok=True)


def sync_directory(directory: Path) -> None:
    """Wait until the names in *directory* are on disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(place: Path, data: bytes, mode: int = FILE_MODE) -> None:
    """Write *data* to *place*, which gets its name once all of it is on disk.

    Raises:
        OSError: It cannot be written.
    """
    with published(place, mode) as file:
        file.write(data)


@contextmanager
def published(place: Path, mode: int) -> Iterator[IO[bytes]]:
    """A file that gets the name *place* once all of it is on disk, or is removed.

    Raises:
        FileInUse: Another process writes it.
        OSError: It cannot be written.
    """
    try:
        with rewriting(place, mode) as scratch:
            with open(scratch.fileno(), "wb", closefd=False) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            place.with_name(place.name + OPEN).replace(place)
    except OSError as error:
        if error.errno in FULL and not error.filename:
            error.filename = os.fspath(place)
        raise
    sync_directory(place.parent)


def mode_of(text: str) -> int:
    """The mode that *text* names, in octal digits as for ``chmod``.

    Raises:
        ValueError: It is none, or not one of a file that its owner reads and writes.
    """
    digits = text.removeprefix("0o")
    if not digits or len(digits) > 4 or set(digits) - set("01234567"):
        raise ValueError("must be octal digits as of chmod, such as 0640")
    mode = int(digits, 8)
    if mode & ~0o666 or mode & 0o600 != 0o600:
        raise ValueError("must be 0600 and what group and others may: 0640, 0644, 0660")
    return mode


def mode_of_environment() -> int:
    """The mode in ``FRONTIER_FILE_MODE``, for commands that know no node's settings.

    Raises:
        ConfigurationError: It is not a mode.
    """
    given = os.environ.get(VARIABLE, "")
    try:
        return mode_of(given) if given else FILE_MODE
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} = {given[:80]!r}: {error}") from None


MAX_RATIO = 100
"""How many times larger than its compressed form text may be."""
FREE_BYTES = 64 << 20
"""Bytes of text up to which any ratio will do."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def open_input(path: Path | str) -> BinaryIO:
    """Open the regular file *path* for reading.

    Raises:
        OSError: There is none, it may not be read, or *path* is not a regular file.
        ValueError: No file can have that name.
    """
    return os.fdopen(descriptor_of(path, os.O_RDONLY, follow=True), "rb")


def read_input(path: Path | str, limit: int) -> bytes:
    """All of the regular file *path*.

    Raises:
        OSError: As for `open_input`; or it has more than *limit* bytes.
        ValueError: No file can have that name.
    """
    with open_input(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return data


def require_ratio(text: int, compressed: int) -> None:
    """Refuse a decompression bomb: so far, *text* bytes came out of *compressed*.

    Raises:
        ValueError: It is one.
    """
    if text > FREE_BYTES and text > MAX_RATIO * max(compressed, 1):
        raise ValueError(f"it inflates to more than {MAX_RATIO} times its size")


def descriptor_of(path: Path | str, flags: int, *, follow: bool = False) -> int:
    """A descriptor of the regular file *path*, opened with *flags*.

    Raises:
        OSError: As for `open_input`; or it is a link, and *follow* is false.
    """
    refuse = 0 if follow else os.O_NOFOLLOW
    try:
        # Without O_NONBLOCK, opening a FIFO blocks; for regular files it is ignored.
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | refuse)
    except OSError as error:
        is_link = os.path.islink(path)  # noqa: PTH114 - without pathlib
        if error.errno == errno.ELOOP and not follow and is_link:
            raise _refused(path, "a link") from None
        if error.errno in {errno.ENXIO, errno.EISDIR}:
            mode = os.stat(path).st_mode  # noqa: PTH116 - without pathlib
            raise _refused(path, _kind(mode)) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _refused(path, _kind(mode))
    return descriptor


def _refused(path: Path | str, kind: str) -> OSError:
    return OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")
