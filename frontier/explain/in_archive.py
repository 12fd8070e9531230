"""What WARC files and their indexes have about one URL.

What always holds:

1.  An index is bisected, not read; one that is not sorted is refused. A WARC file
    without an index beside it is read to its end.
2.  Of an indexed file no record is read. The first and the last `KEPT` captures are
    kept; all are counted.
3.  A file that is cut or damaged is read up to there, and is named.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import IO, TYPE_CHECKING

from frontier.cdx.lines import (
    LINE_LIMIT,
    Capture,
    captures_in,
    key_under,
    parse,
    sort_key,
)
from frontier.errors import BadWarc
from frontier.explain.files import fault, keep, trim
from frontier.files import OPEN
from frontier.model import frozen
from frontier.urls.canon.rulesets import named
from frontier.warc.reader import records_in
from frontier.warc.remote_files import open_file, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frontier.explain.in_store import Subject

BLOCK = 1 << 16
"""Bytes of an index at which the bisection ends and lines are read one by one."""
_TIME = attrgetter("line.timestamp")


@frozen
class Record:
    """One capture, as an index lists it."""

    line: Capture
    path: Path
    """The path of its WARC file, which may not be there."""

    @property
    def kind(self) -> str:
        """``response``, ``revisit`` or ``resource``."""
        return self.line.kind

    @property
    def source(self) -> str:
        """Where it is, in the form that ``frontier warc show`` takes."""
        return f"{self.path}:{self.line.offset}"


@dataclass(slots=True)
class ArchiveFacts:
    """What was found in the files."""

    records: list[Record] = field(default_factory=list)
    """Captures of the URL, in order of time: the first and the last `KEPT`."""
    count: int = 0
    unread: list[str] = field(default_factory=list)


def look_into(
    subject: Subject,
    warcs: Sequence[Path],
    indexes: Mapping[Path, Path | None],
    progress: Callable[[], None] = lambda: None,
) -> ArchiveFacts:
    """Search *warcs* and *indexes*, each with the WARC file that it indexes.

    A file that has an index is read only where the index points.
    """
    facts = ArchiveFacts()
    by_name = {path.name: path for path in warcs}
    # Indexes are sorted by the crawl's rules, or as pywb sorts them.
    rules, urls = named(subject.rules), (subject.url, subject.canonical)
    keys = {sort_key(url) for url in urls} | {key_under(rules, url) for url in urls}
    for place in [*indexes, *(path for path in warcs if path not in indexes.values())]:
        lines = _searched(place, keys) if place in indexes else _listed(place, facts)
        try:
            for line in lines:
                progress()
                beside = path_of(str(place).removesuffix(place.name) + line.filename)
                record = Record(line, by_name.get(line.filename, beside))
                if line.url == subject.url or subject.same(line.url):
                    facts.count += 1
                    keep(facts.records, record, _TIME)
        except (BadWarc, OSError, ValueError) as error:
            if not place.name.endswith(OPEN):  # else a node is writing its last record
                facts.unread.append(fault(place, error))
    trim(facts.records, _TIME)
    return facts


def _listed(path: Path, facts: ArchiveFacts) -> Iterator[Capture]:
    """What an index of the WARC file at *path* would list."""

    def unlisted(error: BadWarc) -> None:
        facts.unread.append(fault(path, error))

    with open_file(path, ahead=True) as file:
        yield from captures_in(records_in(file, str(path)), path.name, unlisted)


def _searched(path: Path, keys: Iterable[str]) -> Iterator[Capture]:
    """The lines of the index at *path* that have one of *keys*.

    Raises:
        ValueError: It is not sorted.
    """
    with open_file(path) as file:
        for key in keys:
            wanted = key.encode() + b" "
            low, high, below, above = 0, file.seek(0, 2), b"", b"\xff"
            while high - low > BLOCK:
                middle = (low + high) // 2
                line = next(_lines(file, middle), above)
                _require(below <= line <= above)
                if line < wanted:
                    low, below = middle, line
                else:
                    high, above = middle, line
            looked, last = 0, b""
            for line in _lines(file, low):
                _require(last <= line)
                looked, last = looked + len(line), line
                if line.startswith(wanted):
                    with suppress(ValueError):
                        yield parse(line)
                elif line > wanted and looked > BLOCK:
                    break


def _require(is_sorted: bool) -> None:
    if not is_sorted:
        raise ValueError("its lines are not sorted: LC_ALL=C sort does it")


def _lines(file: IO[bytes], start: int) -> Iterator[bytes]:
    """The lines of *file* that begin after *start*; all of its lines if that is 0."""
    at, ahead, is_cut = start, b"", start > 0
    while True:
        file.seek(at)
        block = file.read(BLOCK)
        at += len(block)
        *lines, ahead = (ahead + block).split(b"\n")
        yield from lines[is_cut:]
        is_cut = is_cut and not lines
        if not block:
            if ahead and not is_cut:
                yield ahead
            return
        if len(ahead) > LINE_LIMIT:
            raise ValueError(f"a line of more than {LINE_LIMIT:,} bytes")
