"""What names URLs still that have left: crawl logs, and records of other captures.

Metadata records name the page that a link was on (``via``) and what a page links to,
requests name it as ``Referer``. None of this is changed: it is told by file and count.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.postcrawl.engines import duckdb_of_manifests
from frontier.postcrawl.manifest import KEPT
from frontier.postcrawl.rewriting import record_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NAMING = """
SELECT file, record_offset, record_id FROM manifest
WHERE type IN ('metadata', 'request') ORDER BY file, record_offset
"""
_LOG = "crawl.log"
"""In the names of crawl logs, ours and Heritrix's."""
_LINE = 1 << 20


def logs_in(given: Iterable[Path]) -> list[Path]:
    """The crawl logs below *given* directories, and beside *given* files."""
    found: set[Path] = set()
    for path in given:
        if path.is_dir():
            for top, _, names in os.walk(path):
                found |= {Path(top, name).absolute() for name in names if _LOG in name}
        else:
            found |= {one for one in path.parent.glob(f"*{_LOG}*") if one.is_file()}
    return sorted(found)


def lines_naming(path: Path, urls: Collection[str]) -> int:
    """How many lines of the crawl log *path* have one of *urls*.

    Raises:
        OSError: It cannot be read.
    """
    sought = {url.encode() for url in urls}
    with open_input(path) as file:
        lines = iter(lambda: file.readline(_LINE), b"")
        return sum(not sought.isdisjoint(line.split()) for line in lines)


def records_naming(
    directory: Path, urls: Collection[str], leaving: Collection[tuple[str, int]]
) -> dict[str, int]:
    """How many metadata records and requests name one of *urls*, by their file.

    Of the files with manifests in *directory*, without those at *leaving*, file and
    offset. What cannot be read is passed over: its file is named already.
    """
    sought, found = {url.encode() for url in urls}, Counter[str]()
    with duckdb_of_manifests(directory) as engine:
        for file, rows in groupby(engine.rows(NAMING), key=itemgetter(0)):
            with suppress(OSError), open_input(file) as stream:
                for _, offset, record_id in rows:
                    if (file, offset) not in leaving:
                        words = _words(stream, file, offset, record_id)
                        found[file] += not sought.isdisjoint(words)
    return dict(+found)


def _words(stream: IO[bytes], file: str, offset: int, record_id: str) -> list[bytes]:
    """The words of the record at *offset* of *file*; none if it cannot be read."""
    try:
        found = record_at(stream, file, offset, record_id)
        return found.read(KEPT).split()
    except (BadWarc, OSError, ValueError):
        return []
