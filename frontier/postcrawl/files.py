"""Which files a command reads: those that are given, and those in directories.

What always holds:

1.  A directory is looked through to its bottom. What is in it and not read is told:
    files with other names by how they end, links to directories, what a node still
    writes, and what the command itself has written there.
2.  What cannot be read is told as a failure: a directory that nobody may read, a file
    that is not closed, and one whose name is not UTF-8, which no manifest can have.
3.  A file is given once, however often it is named.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.files import OPEN
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
_OURS = (".cdxj", ".manifest.parquet", ".done.json", FROM_WACZ, LOCK)
"""What is made of WARC files and stands beside them: not worth telling."""
_TABLES = frozenset({"plan.parquet", "actions.parquet"})
"""The same, of directories."""
_NAMED = frozenset(
    {
        "plan.json",
        "plan-files.parquet",
        "indexed.parquet",
        "indexed-captures.parquet",
        "plan.warcsum",
        "manifest.warcsum",
    }
)
"""The same, of what a plan is in."""


def files_in(
    given: Iterable[Path],
    say: Callable[[str], None],
    failed: Callable[[str], None],
    endings: tuple[str, ...] = ENDINGS,
    without: Path | None = None,
    unclosed: Callable[[str], None] | None = None,
) -> list[Path]:
    """*given* files, and those in *given* directories, in the order of their names.

    Of a directory, those with *endings* (in capitals, too), and nothing of *without*,
    which may be in it. *say* is told what is not looked at, *failed* what cannot be,
    and *unclosed* which files are not closed, if it is given.
    """
    apart = without.resolve() if without else None
    look = _Look(say, failed, unclosed or failed, endings, apart)
    found: dict[Path, None] = {}
    for path in given:
        if isinstance(path, RemotePath):
            is_one = not path.is_dir()
            found |= dict.fromkeys([path] if is_one else look.elsewhere(path))
        elif path.is_dir():
            found |= dict.fromkeys(look.below(path))
        elif look.is_named(path) and not look.is_open(path):
            found[path] = None
    return list(found)


def ends_with(name: str, endings: str | tuple[str, ...]) -> bool:
    """Whether the name of a file has one of *endings*, in capitals or not."""
    return name.lower().endswith(endings)


@dataclass(frozen=True, slots=True)
class _Look:
    """What is read of a directory, and whom the rest is told."""

    say: Callable[[str], None]
    failed: Callable[[str], None]
    unclosed: Callable[[str], None]
    endings: tuple[str, ...]
    without: Path | None

    def below(self, directory: Path) -> Iterator[Path]:
        """The files to read below *directory*."""
        others: Counter[str] = Counter()

        def unreadable(error: OSError) -> None:
            self.failed(f"{spelled(error.filename)}: {error.strerror}")

        for top, names, files in os.walk(directory, onerror=unreadable):
            where = directory / os.path.relpath(top, directory)
            names[:] = sorted(name for name in names if self._is_entered(where / name))
            for name in sorted(files):
                if self._is_taken(where / name, others):
                    yield where / name
        self._tell(directory, others)

    def elsewhere(self, directory: RemotePath) -> Iterator[Path]:
        """The same, of one that is no directory of this machine."""
        others: Counter[str] = Counter()
        for path in directory.below():
            if self._is_taken(path, others):
                yield path
        self._tell(directory, others)

    def is_named(self, path: Path) -> bool:
        """Whether its name can stand in a manifest; *failed* is told if it cannot."""
        try:
            os.fspath(path).encode()
        except UnicodeEncodeError:
            self.failed(f"{spelled(path)}: its name is not UTF-8")
            return False
        return True

    def is_open(self, path: Path | RemotePath) -> bool:
        """Whether *path* is not closed; that is told."""
        name = path.name.removesuffix(OPEN)
        if name == path.name or not ends_with(name, self.endings):
            return False
        here = None if isinstance(path, RemotePath) else path.with_name(name)
        if here is not None and here.exists():  # of a command, or what it left
            self.say(f"{spelled(path)} is being written; left out")
        else:
            self.unclosed(
                f"{spelled(path)} is not closed: its writer still runs, or was killed "
                "(frontier warc repair)"
            )
        return True

    def _is_entered(self, path: Path) -> bool:
        if path.is_symlink():
            self.say(f"{spelled(path)} is a link to a directory; left out")
            return False
        if path.name in _TABLES:
            return False
        if path.name == BESIDE:
            self.say(
                f"{spelled(path)} is of a removal that runs or was killed; left out"
            )
            return False
        return not self._is_without(path)

    def _is_without(self, path: Path) -> bool:
        if (
            self.without is None
            or path.name != self.without.name
            or path.resolve() != self.without
        ):
            return False
        self.say(f"{spelled(path)} is what is written or compared; left out")
        return True

    def _is_taken(self, path: Path, others: Counter[str]) -> bool:
        """Whether *path* is read; if it is not, that is told, or *others* counts it."""
        name = path.name
        if ends_with(name, self.endings):
            return self.is_named(path) and not self._is_without(path)
        if not self.is_open(path) and not _is_ours(name):
            others[os.path.splitext(name)[1] or name] += 1  # noqa: PTH122
        return False

    def _tell(self, directory: Path | RemotePath, others: Counter[str]) -> None:
        if others:
            kinds = ", ".join(kind for kind, _ in others.most_common(10))
            self.say(
                f"{spelled(directory)}: {others.total():,} files with other names are "
                f"not looked at: {spelled(kinds)}"
            )


def _is_ours(name: str) -> bool:
    return name in _NAMED or name.endswith(_OURS)


def spelled(path: Path | RemotePath | str) -> str:
    """*path* as text; what is not UTF-8 in it is escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def sampled(paths: Sequence[Path], share: float) -> list[Path]:
    """*share* of *paths*: at least one, the same each time, and part of any larger.

    Which ones follows from a digest of their names.
    """
    count = math.ceil(len(paths) * share)
    chosen = set(sorted(paths, key=_drawn)[:count])
    return [path for path in paths if path in chosen]


def _drawn(path: Path) -> bytes:
    return hashlib.sha256(os.fsencode(path)).digest()
