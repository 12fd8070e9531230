"""Some of the captures of a collection: to restore them, or to have them by themselves.

What always holds:

1.  A capture is selected by what its own headers say: its URL and its WARC-Date. That
    of a line of an index is the same to the second, and of the same URL.
2.  An extract has each selected capture and each original that one of these refers to,
    or the original is named.

Records of an extract are the bytes that they were. It keeps each file's warcinfo, and
of the records that are no captures those that have the URL and the date of one.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from frontier.cdx.lines import parse
from frontier.errors import ConfigurationError
from frontier.files import FILE_MODE, open_input
from frontier.postcrawl.engines import duckdb_of_manifests
from frontier.postcrawl.rewriting import Job, rewrite
from frontier.warc.records import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from frontier.postcrawl.rewriting import Rewritten

NEEDED = """
SELECT DISTINCT r.file, r.record_offset, r.url, r.date,
  r.refers_to_url, r.refers_to_date, o.url, o.date, o.type = 'revisit'
FROM manifest r LEFT JOIN manifest o
  ON r.refers_to_url = o.url AND left(r.refers_to_date, 19) = left(o.date, 19)
  AND o.type IN ('response', 'resource', 'revisit')
WHERE r.type = 'revisit'
ORDER BY r.file, r.record_offset, o.date
"""
RECORDS = """
SELECT record_offset, record_length, type, url, date
FROM manifest JOIN wanted ON manifest.file = wanted.file ORDER BY record_offset
"""
_LINE = 1 << 20
"""Longest line of an index, in bytes."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which captures; what is empty lets all through."""

    prefix: str = ""
    """What their URLs begin with."""
    captures: frozenset[tuple[str, str]] | None = None
    """URL, and date in 14 digits."""
    ids: frozenset[str] | None = None
    """Of revisits: their record ids."""

    def takes(self, url: str, date: str) -> bool:
        """Whether the capture of *url* at the WARC-Date *date* is selected."""
        if not url.startswith(self.prefix):
            return False
        return self.captures is None or (url, digits(date)) in self.captures

    def takes_revisit(self, url: str, date: str, record_id: str) -> bool:
        """Whether it is, and is a revisit that is one of `ids`."""
        if self.ids is not None and record_id not in self.ids:
            return False
        return self.takes(url, date)

    def fact(self) -> str:
        """What tells this selection from others."""
        facts = {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in asdict(self).items()
        }
        return sha256(json.dumps(facts).encode()).hexdigest()


ALL = Selection()


@dataclass(frozen=True, slots=True)
class Needed:
    """The originals that the selected revisits refer to."""

    originals: frozenset[tuple[str, str]] = frozenset()
    """URL and WARC-Date."""
    missing: list[str] = field(default_factory=list)
    """Revisits whose original is nowhere in the files, and where they are."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A record that an extract leaves out."""

    file: str
    record_offset: int
    record_length: int


def digits(date: str) -> str:
    """A WARC-Date as indexes have it: 14 digits."""
    return "".join(filter(str.isdigit, date))[:14]


def listed(path: Path) -> frozenset[tuple[str, str]]:
    """URL and date of the captures that the CDXJ file *path* lists.

    Raises:
        ConfigurationError: A line is none of a CDXJ.
        OSError: It cannot be read.
    """
    found = set()
    with open_input(path) as file:
        for number, raw in enumerate(_lines(file), 1):
            if not raw.strip() or raw.startswith((b"!", b"#", b"urn:")):
                continue
            try:
                line = parse(raw)
            except ValueError as error:
                raise ConfigurationError(f"{path}:{number}: {error}") from None
            found.add((escaped(line.url), line.timestamp))
    return frozenset(found)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    return iter(functools.partial(file.readline, _LINE), b"")


def needed(directory: Path, selection: Selection) -> Needed:
    """What the revisits of *selection* need, in files with manifests in *directory*.

    It is held in memory: about 300 bytes for each original.
    """
    originals: set[tuple[str, str]] = set()
    missing: list[str] = []
    linked: set[tuple[str, str]] = set()
    """URL and date of the revisits that a selected one refers to."""
    with duckdb_of_manifests(directory) as engine:
        before = -1
        while len(linked) > before:  # once more for each link of the longest chain
            before, missing = len(linked), []
            for file, offset, url, date, *of, name, second, is_revisit in engine.rows(
                NEEDED
            ):
                if not (selection.takes(url, date) or (url, date) in linked):
                    continue
                if name is not None:
                    originals.add((name, second))
                    if is_revisit:
                        linked.add((name, second))
                elif all(of):
                    missing.append(
                        f"{file}: the original of the revisit at byte {offset:,} is "
                        f"not in these files: {of[0]} of {of[1]}"
                    )
                else:
                    where = f"{file}: the revisit at byte {offset:,}"
                    missing.append(f"{where} names no capture by URL and date")
    return Needed(frozenset(originals), missing)


def extract(
    path: Path,
    directory: Path,
    out: Path,
    selection: Selection,
    originals: frozenset[tuple[str, str]],
    progress: Callable[[int], None] = lambda _: None,
    mode: int = FILE_MODE,
) -> Rewritten:
    """Write to *out* the records of *path* that *selection* takes, and *originals*.

    Its manifest in *directory* has rows of all records.

    Raises:
        StaleManifest: The file has changed since.
        FileTaken: *out* is another file, and there.
        OSError: One cannot be read or written.
    """

    def left() -> Iterator[_Left]:
        name = os.fspath(path.absolute())
        with duckdb_of_manifests(directory) as engine:
            engine.table("wanted", pa.table({"file": [name]}))
            for offset, length, kind, url, date in engine.rows(RECORDS):
                is_wanted = selection.takes(url, date) or (url, date) in originals
                if kind != "warcinfo" and not is_wanted:
                    yield _Left(name, offset, length)

    wanted = f"extract {selection.fact()} {Selection(captures=originals).fact()}"
    job = Job(path, out, directory, left(), lambda _, __: None, wanted)
    return rewrite(job, progress, mode)
