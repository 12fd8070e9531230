"""Which files a command reads: those that are given, and those in directories.

What always holds:

1.  A directory is looked through to its bottom. What is in it and not read is told:
    files with other names by how they end, links to directories, and what a node still
    writes.
2.  A file is given once, however often it is named.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from typing import TYPE_CHECKING

from frontier.postcrawl.remote_files import RemotePath
from frontier.postcrawl.working_directory import BESIDE, LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

ENDINGS = (".warc.gz", ".warc", ".warc.zst", ".arc.gz", ".arc")
"""How names of files end that are read when a directory is given."""
WACZ = ".wacz"
FROM_WACZ = ".from-wacz"
"""How names of WARC files end that were taken out of a WACZ only to be read."""
_OPEN = ".open"
_OURS = (".cdxj", ".manifest.parquet", ".done.json", FROM_WACZ, LOCK)
"""What is made of WARC files and stands beside them: not worth telling."""


def files_in(
    given: Iterable[Path],
    say: Callable[[str], None],
    endings: tuple[str, ...] = ENDINGS,
) -> list[Path]:
    """*given* files, and those in *given* directories, in the order of their names.

    Of a directory, those with *endings*; *say* is told what is not looked at.
    """
    found: dict[Path, None] = {}
    for path in given:
        if isinstance(path, RemotePath):
            is_one = not path.is_dir()
            found |= dict.fromkeys([path] if is_one else _elsewhere(path, say, endings))
        elif path.is_dir():
            found |= dict.fromkeys(_below(path, say, endings))
        else:
            found[path] = None
    return list(found)


def _below(
    directory: Path, say: Callable[[str], None], endings: tuple[str, ...]
) -> Iterator[Path]:
    others: Counter[str] = Counter()

    def unreadable(error: OSError) -> None:
        say(f"{error.filename} cannot be read: {error.strerror}; left out")

    for top, names, files in os.walk(directory, onerror=unreadable):
        names.sort()
        where = directory / os.path.relpath(top, directory)
        for name in names:
            if (where / name).is_symlink():
                say(f"{where / name} is a link to a directory; left out")
        if BESIDE in names:
            say(f"{where / BESIDE} is of a removal that runs or was killed; left out")
            names.remove(BESIDE)
        for name in sorted(files):
            if _is_taken(where / name, endings, others, say):
                yield where / name
    _tell(directory, others, say)


def _elsewhere(
    directory: RemotePath, say: Callable[[str], None], endings: tuple[str, ...]
) -> Iterator[Path]:
    others: Counter[str] = Counter()
    for path in directory.below():
        if _is_taken(path, endings, others, say):
            yield path
    _tell(directory, others, say)


def _is_taken(
    path: Path,
    endings: tuple[str, ...],
    others: Counter[str],
    say: Callable[[str], None],
) -> bool:
    """Whether *path* is read; if it is not, *say* is told, or *others* counts it."""
    name = path.name
    if name.endswith(endings):
        return True
    if name.removesuffix(_OPEN).endswith(endings):
        say(f"{path} is being written; left out")
    elif not name.endswith(_OURS):
        others[os.path.splitext(name)[1] or name] += 1  # noqa: PTH122
    return False


def _tell(
    directory: Path | RemotePath, others: Counter[str], say: Callable[[str], None]
) -> None:
    if others:
        kinds = ", ".join(kind for kind, _ in others.most_common(10))
        say(
            f"{directory}: {others.total():,} files with other names are not looked "
            f"at: {kinds}"
        )


def sampled(paths: Sequence[Path], share: float) -> list[Path]:
    """*share* of *paths*: at least one, the same each time, and part of any larger.

    Which ones follows from a digest of their names.
    """
    count = math.ceil(len(paths) * share)
    chosen = set(sorted(paths, key=_drawn)[:count])
    return [path for path in paths if path in chosen]


def _drawn(path: Path) -> bytes:
    return hashlib.sha256(os.fsencode(path)).digest()
