"""Files that somebody else has made, opened for reading: one way for all of them.

What always holds:

1.  Only a regular file is opened. A FIFO, a socket or a device would be waited for, or
    never end; opening one here neither waits nor takes anything from it.
2.  What is read whole has a limit, and so has what is compressed, by its ratio.
3.  What is refused is an `OSError` whose ``strerror`` says why, and whose ``filename``
    is the path: who opens files tells it as any other file that cannot be read.

A link is followed to a regular file: a path that a person named may be one. Who looks
into a directory that others write to says ``follow=False``.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

MAX_RATIO = 100
"""How much larger text may be than what it was compressed to."""
FREE_BYTES = 64 << 20
"""Bytes of text that may have any ratio."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def open_input(path: Path | str, *, follow: bool = True) -> BinaryIO:
    """Open the regular file *path* for reading.

    Raises:
        OSError: There is none, it may not be read, or *path* is something else.
        ValueError: No file can have that name.
    """
    descriptor = descriptor_of(path, os.O_RDONLY, follow=follow)
    return os.fdopen(descriptor, "rb")


def read_input(path: Path | str, limit: int) -> bytes:
    """All of the regular file *path*.

    Raises:
        OSError: As of `open_input`; or it has more than *limit* bytes.
        ValueError: No file can have that name.
    """
    with open_input(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return data


def require_ratio(text: int, compressed: int) -> None:
    """Refuse what grows like a bomb: *text* bytes out of *compressed* so far.

    Raises:
        ValueError: It does.
    """
    if text > FREE_BYTES and text > MAX_RATIO * max(compressed, 1):
        raise ValueError(f"it grows more than {MAX_RATIO} times: a bomb")


def descriptor_of(path: Path | str, flags: int, *, follow: bool = False) -> int:
    """A descriptor of the regular file *path*, opened with *flags*.

    Raises:
        OSError: As of `open_input`; or it is a link, and those are not followed.
    """
    refuse = 0 if follow else os.O_NOFOLLOW
    try:
        # A FIFO is waited for without O_NONBLOCK; a regular file does not mind it.
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
    return OSError(errno.EINVAL, f"it is {kind}, and no regular file", str(path))


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")
