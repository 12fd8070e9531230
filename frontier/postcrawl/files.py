"""Which files a command reads: those that are given, and those in directories.

What always holds:

1.  A directory is searched to its bottom. Files with other names, and what a command
    itself has there, are skipped.
2.  What is not read is reported as a failure: an unreadable directory, a file that is
    not closed, one whose name is not UTF-8, which no manifest can have, and a symbolic
    link in a directory: to write in its place would leave what it leads to.
3.  A file is read once, however often it is named, and by whatever names.

A file that is read and the file it becomes have the same name below their directories.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from frontier.errors import ConfigurationError
from frontier.files import LINK, OPEN
from frontier.postcrawl.working_directory import BESIDE
from frontier.warc.remote_files import RemotePath

ENDINGS = (".warc.gz", ".warc", ".warc.zst", ".arc.gz", ".arc")
"""Endings of names of files that are read when a directory is given."""
WACZ = ".wacz"
FROM_WACZ = ".from-wacz"
"""The ending of names of WARC files that were taken out of a WACZ only to be read."""


def files_in(
    given: Iterable[Path],
    failed: Callable[[str], None],
    unclosed: Callable[[str], None],
    endings: tuple[str, ...] = ENDINGS,
    without: Path | None = None,
) -> list[Path]:
    """*given* files, and those in *given* directories, in the order of their names.

    From a directory, only files with *endings* (in capitals, too), and nothing in
    *without*, which may be below it. *failed* is told what is not read, and *unclosed*
    which files are not closed.
    """
    found: dict[Path, Path] = {}
    for top in given:
        for path in below(top, failed, without):
            name = path.name.removesuffix(OPEN)
            if ends_with(name, endings) and name != path.name:
                here = not isinstance(path, RemotePath)
                if not (here and path.with_name(name).exists()):  # not a command's
                    unclosed(
                        f"{spelled(path)} is not closed: its writer still runs, or was "
                        "killed (frontier warc repair)"
                    )
            elif path is not top and ends_with(name, endings) and path.is_symlink():
                failed(f"{spelled(path)}: {LINK}")
            elif path is top or ends_with(name, endings):
                try:
                    os.fspath(path).encode()
                    found.setdefault(path.resolve(), path)
                except UnicodeEncodeError:
                    failed(f"{spelled(path)}: its name is not UTF-8")
    return list(found.values())


def ends_with(name: str, endings: str | tuple[str, ...]) -> bool:
    """Whether the name of a file has one of *endings*, in capitals or not."""
    return name.lower().endswith(endings)


def below(
    top: Path,
    failed: Callable[[str], None],
    without: Path | None = None,
) -> Iterator[Path]:
    """All files below *top*, or *top* itself if it is a file; see `files_in`."""
    if isinstance(top, RemotePath):
        yield from top.below() if top.is_dir() else [top]
        return
    if not top.is_dir():
        yield top
        return

    def is_entered(path: Path) -> bool:
        apart = without is not None and path.resolve() == without.resolve()
        if path.name == BESIDE or apart:
            return False
        if path.is_symlink():
            failed(f"{spelled(path)}: {LINK}")
            return False
        return True

    def unreadable(error: OSError) -> None:
        failed(f"{spelled(error.filename)}: {error.strerror}")

    for where, names, files in os.walk(top, onerror=unreadable):
        directory = Path(where)
        names[:] = sorted(name for name in names if is_entered(directory / name))
        yield from (directory / name for name in sorted(files))


def spelled(path: Path | RemotePath | str) -> str:
    """*path* as text; what is not UTF-8 in it is escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def below_shared(paths: Sequence[Path]) -> list[PurePosixPath]:
    """The name of each of *paths* below the directory that they share.

    Raises:
        ConfigurationError: Some are on this machine, and others are not.
    """
    places = [
        PurePosixPath(path.place if isinstance(path, RemotePath) else path.absolute())
        for path in paths
    ]
    if len({place.is_absolute() for place in places}) > 1:
        raise ConfigurationError("give files of this machine or URLs, not both")
    if not places:
        return []
    shared = os.path.commonpath([place.parent for place in places])
    return [place.relative_to(shared) for place in places]


def outs_of(paths: Sequence[Path], out: Path) -> list[Path]:
    """Where each of *paths* goes below *out*: with its name from `below_shared`.

    Raises:
        ConfigurationError: One of *paths* would be overwritten.
    """
    outs = [out / name for name in below_shared(paths)]
    given = {path.resolve() for path in paths}
    for made in outs:
        if made.resolve() in given:
            raise ConfigurationError(
                f"{made} is one of the files that are read; name another directory, "
                "or apply a plan with --in-place"
            )
    return outs
