"""An index under other rules: which of its entries get another key, and where to.

What always holds:

1.  An index is read as a stream, and a second time to re-key it; memory does not grow
    with it. Entries that move are sorted in a private file on disk.
2.  The new index is in the order of its bytes, even if the old one was not. It gets
    its name after its last byte is on disk, and overwrites a file only with *force*.
3.  An entry is copied as it is, except for its key.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import sqlite3
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from isal import igzip

from frontier.cdx.declared_rules import (
    META,
    Declared,
    declared_in,
    meta_line,
    stated_by,
)
from frontier.cdx.lines import GET, Asked, asked_of, key_under, sort_key
from frontier.collection.open_source import Texts, indexes_of
from frontier.errors import BadWarc, ConfigurationError, SourceBroken
from frontier.files import creating, mode_of_environment, open_input
from frontier.wacz.layout import ARCHIVE, SUFFIX, WARCS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from frontier.urls.canon.rulesets import RuleSet

PYWB = "pywb"
"""Stands for the key that pywb looks a URL up by: that of the package surt."""
OPEN = ".open"
STEP = 10_000
"""Lines between two reports of progress."""
SCRATCH_KB = 16_384
MAX_META = 1 << 20
_CDX = b" CDX"
_STAMP = re.compile(rb"[0-9]{1,17}")


class Change(NamedTuple):
    """An entry whose key becomes another."""

    before: str
    after: str
    url: str


@dataclass(slots=True)
class Seen:
    """What there is in an index."""

    entries: int = 0
    changed: int = 0
    """Entries whose key becomes another."""
    unknown: int = 0
    """Entries of files that say nothing of their rules, or were not given."""
    wrong: int = 0
    """Lines that are not entries; they stay as they are."""
    unsorted: int = 0
    """Entries that come after a greater one."""
    too_long: int = 0
    stated: Declared | None = None
    """The rules that the index says it has."""
    tops: list[bytes] = field(default_factory=list)
    """What comes before the entries."""


def rules_of_files(
    paths: Sequence[Path], broken: Callable[[str], object]
) -> list[Declared]:
    """What WARC files, also those in WACZ files, say of their rules.

    One that cannot be read is left out, and *broken* is called with the reason.
    """
    found: list[Declared] = []
    for path in paths:
        try:
            if path.name.endswith(SUFFIX):
                found += _in_wacz(path)
            else:
                with open_input(path) as stream:
                    found.append(declared_in(str(path), stream))
        except (BadWarc, SourceBroken) as error:
            broken(str(error))
        except OSError as error:
            broken(f"{path}: {error.strerror or error}")
    return found


def _in_wacz(path: Path) -> Iterator[Declared]:
    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.startswith(ARCHIVE) and name.endswith(WARCS):
                    with archive.open(name) as stream:
                        yield declared_in(f"{path}: {name}", stream)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise SourceBroken(str(path), f"not a readable WACZ: {error}") from None


class Rekeying:
    """The index *path*, a CDXJ, a CDX, or the one in a WACZ, under *rules*.

    *rules* are for all entries, or else by the name of the WARC file that an entry
    leads to; ``None`` stands for pywb's keys. Close it.

    Raises:
        SourceBroken: It cannot be read.
    """

    def __init__(
        self,
        path: Path,
        rules: RuleSet | None,
        by_file: Mapping[str, RuleSet] | None = None,
    ) -> None:
        self.seen = Seen()
        self._path = path
        self._rules = rules
        self._by_file = by_file
        self._texts = _opened(path)
        self._directory = tempfile.TemporaryDirectory(prefix="frontier-")
        self._moved = sqlite3.connect(
            Path(self._directory.name) / "moved", isolation_level=None
        )
        self._moved.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            f"PRAGMA cache_size = -{SCRATCH_KB};"
            "CREATE TABLE moved (number INTEGER PRIMARY KEY, line BLOB); BEGIN"
        )

    def close(self) -> None:
        """Drop what was noted."""
        self._texts.close()
        self._moved.close()
        self._directory.cleanup()

    def changes(
        self, progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[Change]:
        """Each entry whose key becomes another; all are counted in `seen`.

        Raises:
            SourceBroken: The index is cut off or damaged.
        """
        last = b""
        for number, line in enumerate(self._lines()):
            if number % STEP == 0:
                progress(number)
            if line is None:
                self.seen.too_long += 1
            elif line.startswith((b"!", _CDX)):
                self._top(number, line)
            else:
                change, made = self._looked_at(line)
                if change is not None:
                    yield change
                    self._note(number, made)
                elif line < last:
                    self.seen.unsorted += 1
                    self._note(number, line)
                else:
                    last = line

    def write(self, out: Path, *, force: bool = False) -> int:
        """Write the index with the entries of `changes` moved; return its lines.

        Raises:
            ConfigurationError: *out* is there and not *force*, or lines of the index
                are too long to be copied.
            SourceBroken: The index is cut off or damaged.
            OSError: *out* cannot be written.
        """
        if self.seen.too_long:
            text = f"{self.seen.too_long} of its lines are too long to be copied"
            raise ConfigurationError(f"{self._path}: {text}; nothing was written")
        unfinished = out.with_name(out.name + OPEN)
        try:
            made = creating(mode_of_environment())
            with open(unfinished, "wb", opener=made) as file:
                count = _written(self._result(), file, packed=out.suffix == ".gz")
                file.flush()
                os.fsync(file.fileno())
            if force:
                unfinished.replace(out)
            else:
                os.link(unfinished, out)  # fails if it is there, in one step
        except FileExistsError:
            raise ConfigurationError(
                f"{out} is there; add --force to overwrite it"
            ) from None
        finally:
            unfinished.unlink(missing_ok=True)
        return count

    def _lines(self) -> Iterator[bytes | None]:
        for _, lines in self._texts.blocks():
            yield from lines

    def _top(self, number: int, line: bytes) -> None:
        self._moved.execute("INSERT INTO moved VALUES (?, NULL)", (number,))
        said = stated_by(line) if line.startswith(META) else None
        if said:
            self.seen.stated = said
        elif sum(map(len, self.seen.tops)) + len(line) < MAX_META:
            self.seen.tops.append(line)

    def _note(self, number: int, line: bytes) -> None:
        self._moved.execute("INSERT INTO moved VALUES (?, ?)", (number, line))

    def _looked_at(self, line: bytes) -> tuple[Change | None, bytes]:
        key, url, how, file, rest = _entry(line)
        if not url:
            self.seen.wrong += 1
            return None, line
        self.seen.entries += 1
        rules = self._rules
        if self._by_file is not None:
            rules = self._by_file.get(file.rpartition("/")[2])
            if rules is None:
                self.seen.unknown += 1
                return None, line
        filed = how.filed(url)
        made = sort_key(filed) if rules is None else key_under(rules, filed)
        if made == key:
            return None, line
        self.seen.changed += 1
        text = made.encode("utf-8", "surrogateescape") + b" " + rest
        return Change(key, made, url), text

    def _result(self) -> Iterator[bytes]:
        is_cdx = any(line.startswith(_CDX) for line in self.seen.tops)
        if self._rules is not None and not self.seen.unknown and not is_cdx:
            yield meta_line(self._rules)
        yield from self.seen.tops
        query = "SELECT line FROM moved WHERE line IS NOT NULL ORDER BY line"
        moved = (line for (line,) in self._moved.execute(query))
        yield from heapq.merge(self._kept(), moved)

    def _kept(self) -> Iterator[bytes]:
        cursor = self._moved.execute("SELECT number FROM moved ORDER BY number")
        gone = next(cursor, (-1,))[0]
        for number, line in enumerate(self._lines()):
            if number == gone:
                gone = next(cursor, (-1,))[0]
            elif line is not None:
                yield line


def _opened(path: Path) -> Texts:
    try:
        file = open_input(path)
    except OSError as error:
        raise SourceBroken(str(path), error.strerror or str(error)) from None
    if path.name.endswith(SUFFIX):
        with file:
            return indexes_of(file, str(path))
    return Texts([(str(path), file)])


def _entry(line: bytes) -> tuple[str, str, Asked, str, bytes]:
    """Key, URL, method and file of an entry, all but its key; no URL if it is none."""
    raw, _, rest = line.partition(b" ")
    stamp, _, facts = rest.partition(b" ")
    key = raw.decode("utf-8", "surrogateescape")
    if not _STAMP.fullmatch(stamp):
        return key, "", GET, "", rest
    if facts.startswith(b"{"):
        try:
            given = json.loads(facts)
        except (ValueError, RecursionError):
            return key, "", GET, "", rest
        url, file = given.get("url"), given.get("filename", "")
        if not isinstance(url, str) or not isinstance(file, str):
            return key, "", GET, "", rest
        return key, url, asked_of(given), file, rest
    words = facts.decode("utf-8", "replace").split(" ")
    return key, words[0], GET, words[-1], rest  # CDX: N b a ... g


def _written(lines: Iterator[bytes], file: IO[bytes], *, packed: bool) -> int:
    count = 0
    to: Any = file
    if packed:
        to = igzip.IGzipFile(fileobj=file, mode="wb")  # type: ignore[no-untyped-call]
    for line in lines:
        to.write(line + b"\n")
        count += 1
    if packed:
        to.close()  # ends its stream, not *file*
    return count
