"""The mode of files that are made: ``FRONTIER_FILE_MODE``, and of their directories.

What is archived may be of pages that need a login, and a journal has cookies and
bodies of requests: not everybody on a machine is to read them. The process's umask
takes away from the mode, as from every file that is made; nothing is added to it, and a
file or directory that is there keeps its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VARIABLE = "FRONTIER_FILE_MODE"
"""The setting, and the variable of the environment that commands look at."""
FILE_MODE = 0o640
"""The default: written by the node's user, read by its group."""


def creating(mode: int) -> Callable[[str, int], int]:
    """An ``opener`` for `open`, of files that get *mode* if they are made."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    return opener


def make_directory(path: Path, mode: int) -> None:
    """Make *path*, and those above it that are not there, for files of *mode*.

    Whoever may read files may also look them up: each bit to read gets one to enter.

    Raises:
        OSError: It cannot be made, or is no directory.
    """
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_directory(path.parent, mode)
    path.mkdir(mode | (mode & 0o444) >> 2, exist_ok=True)


def mode_of(text: str) -> int:
    """The mode that *text* is, in octal digits as of ``chmod``.

    Raises:
        ValueError: It is none, or one with which the owner cannot write and read.
    """
    digits = text.removeprefix("0o")
    if not digits or len(digits) > 4 or set(digits) - set("01234567"):
        raise ValueError("must be octal digits as of chmod, such as 0640")
    mode = int(digits, 8)
    if mode & ~0o666 or mode & 0o600 != 0o600:
        raise ValueError("must be 0600 and what group and others may: 0640, 0644, 0660")
    return mode


def mode_of_environment() -> int:
    """What commands use that no node's settings tell: of ``FRONTIER_FILE_MODE``.

    Raises:
        ConfigurationError: It is no mode.
    """
    given = os.environ.get(VARIABLE, "")
    try:
        return mode_of(given) if given else FILE_MODE
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} = {given[:80]!r}: {error}") from None
