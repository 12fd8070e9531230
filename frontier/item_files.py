"""Joins the feed files of all nodes of a crawl to one without doubles.

A field of each item (``FRONTIER_ITEM_ORIGIN_FIELD``) says which page of which crawl it
is from, and which delivery of that: a mark of the crawl, one of what was queued, and
when the first item of the delivery came. A page whose node is killed is delivered
again, and its items are written again. What always holds:

1.  Of each page, the items of its last delivery are taken, and no others. Those of an
    earlier one may be incomplete: its node may have been killed between two of them.
2.  If it is said which crawl is wanted, items of others are left out. An item without
    an origin is taken as it is.
3.  A line is taken whole, or is reported as cut.
4.  Memory holds some 24 bytes for each page, one line, and no more.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, Protocol

from frontier.errors import ConfigurationError
from frontier.files import open_input

JSON_LINES = {".jsonl", ".jl", ".jsonlines", ".ndjson"}
CSV = ".csv"
MAX_LINE = 64 * 1024 * 1024
"""Most bytes of a line; a longer one counts as cut."""
MOST_STARTS = 1_000
"""Most places in a line at which a whole item is looked for after one that was cut."""
ORIGIN = re.compile(r"([0-9a-f]{32})-([0-9]{1,16})", re.ASCII)


def mark_of(crawl_id: str) -> bytes:
    """The four bytes with which the marks of the pages of a crawl begin."""
    return hashlib.sha256(crawl_id.encode()).digest()[:4]


class Line(NamedTuple):
    """A line of a file, with its item, or ``None`` for one that was cut."""

    number: int
    item: dict[str, Any] | None


class Cut(NamedTuple):
    """A line whose item is not whole."""

    file: Path
    line: int


@dataclass(slots=True)
class Joined:
    """What became of the files."""

    items: int = 0
    doubles: int = 0
    """Items of deliveries that were not the last of their page."""
    without_origin: int = 0
    of_others: int = 0
    """Items of other crawls, which were left out."""
    pages: int = 0
    cut: list[Cut] = field(default_factory=list)
    found: Counter[Path] = field(default_factory=Counter)
    """Whole items of each file, without those of other crawls."""


def require_readable(files: Sequence[Path]) -> None:
    """Refuse *files* that cannot be joined.

    Raises:
        ConfigurationError: A format is unknown, or two differ.
    """
    kinds = {_is_csv(file) for file in files}
    if len(kinds) > 1:
        raise ConfigurationError("files in JSON lines and in CSV cannot be joined")


def _is_csv(file: Path) -> bool:
    kind = file.suffix.lower()
    if kind != CSV and kind not in JSON_LINES:
        raise ConfigurationError(
            f"{file}: only JSON lines ({', '.join(sorted(JSON_LINES))}) and CSV "
            f"({CSV}) can be joined, which a killed node leaves readable"
        )
    return kind == CSV


def join(
    files: Sequence[Path], origin_field: str, output: IO[bytes], crawl_id: str = ""
) -> Joined:
    """Write the items of *files* to *output*: of each page, those of its last delivery.

    With *crawl_id*, only those of that crawl.

    Raises:
        ConfigurationError: As for `require_readable`.
        OSError: A file cannot be read, or *output* cannot be written.
    """
    require_readable(files)
    done, crawl = Joined(), mark_of(crawl_id) if crawl_id else b""
    last: dict[bytes, int] = {}
    columns: dict[str, None] = {}
    for file in files:
        for line in lines_of(file, origin_field):
            if line.item is None:
                done.cut.append(Cut(file, line.number))
                continue
            origin = _origin(line.item, origin_field)
            if origin is not None and not origin[0].startswith(crawl):
                done.of_others += 1
                continue
            done.found[file] += 1
            columns.update(dict.fromkeys(line.item) if _is_csv(file) else {})
            if origin is not None:
                page, at = origin
                last[page] = max(at, last.get(page, 0))
    done.pages = len(last)
    write = _writer(output, list(columns))
    for file in files:
        for line in lines_of(file, origin_field):
            if line.item is None:
                continue
            origin = _origin(line.item, origin_field)
            if origin is None:
                done.without_origin += 1
            elif last.get(origin[0]) != origin[1]:
                done.doubles += origin[0] in last  # else of another crawl, or added
                continue
            done.items += 1
            write(line.item)
    return done


def _origin(item: dict[str, Any], name: str) -> tuple[bytes, int] | None:
    """The mark of *item*'s page, and the time of its delivery; ``None`` if not told."""
    value = item.get(name)
    found = ORIGIN.fullmatch(value) if isinstance(value, str) else None
    return (bytes.fromhex(found[1]), int(found[2])) if found else None


class _Write(Protocol):
    def __call__(self, item: dict[str, Any], /) -> None: ...


def _writer(output: IO[bytes], columns: list[str]) -> _Write:
    """What writes items to *output*: as CSV with *columns*, if there are any."""
    if not columns:
        return lambda item: _put_json(output, item)
    row = io.StringIO()
    rows = csv.DictWriter(row, columns, restval="")

    def write(item: dict[str, Any]) -> None:
        rows.writerow(item)
        _put(output, row.getvalue())
        row.seek(0)
        row.truncate()

    write({name: name for name in columns})
    return write


def _put_json(output: IO[bytes], item: dict[str, Any]) -> None:
    try:
        line = json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        line = json.dumps(item).encode()
    output.write(line + b"\n")


def _put(output: IO[bytes], text: str) -> None:
    output.write(text.encode("utf-8", "surrogateescape"))


def lines_of(file: Path, origin_field: str) -> Iterator[Line]:
    """The items of *file* in their order, and what was cut.

    Raises:
        OSError: It cannot be read.
    """
    with open_input(file) as opened:
        if _is_csv(file):
            yield from _rows(opened, origin_field)
        else:
            yield from _json_lines(opened)


def _json_lines(file: IO[bytes]) -> Iterator[Line]:
    for number, line in enumerate(_bounded(file), 1):
        if line.strip():
            item, is_cut = _read(line)
            if is_cut:
                yield Line(number, None)
            if item is not None:
                yield Line(number, item)


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass
            line = b"{"  # no item, so it counts as cut
        yield line


def _read(line: bytes) -> tuple[dict[str, Any] | None, bool]:
    """The item in *line*, and whether something in it was cut.

    A node that was killed leaves half a line, and one that goes on with the file
    appends its first item to that.
    """
    start, tried = 0, 0
    while start >= 0 and tried < MOST_STARTS:
        try:
            item = json.loads(line[start:])
        except (ValueError, RecursionError):
            item = None
        if isinstance(item, dict):
            return item, start > 0
        start, tried = line.find(b'{"', start + 1), tried + 1
    return None, True


def _rows(file: BinaryIO, origin_field: str) -> Iterator[Line]:
    """The rows of a CSV file; the last was cut if it has no line break.

    A node that goes on with a file begins with the names of its columns again, which
    may be others.
    """
    with io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="") as text:
        ends = _Ends(text)
        rows = csv.reader(ends)
        try:
            columns = next(rows, [])
            for row in rows:
                is_item = any(map(ORIGIN.fullmatch, row))  # whatever text it has
                if row == columns or (origin_field in row and not is_item):
                    columns = row
                    continue
                whole = len(row) == len(columns) and ends.whole
                if row:
                    item = dict(zip(columns, row, strict=False)) if whole else None
                    yield Line(rows.line_num, item)
        except csv.Error:
            yield Line(rows.line_num, None)


class _Ends:
    """Gives lines, and says whether the last one given ends with a line break."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.whole = True

    def __iter__(self) -> _Ends:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.whole = line.endswith(("\n", "\r"))
        return line
