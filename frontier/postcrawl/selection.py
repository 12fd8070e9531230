"""Selects captures of a collection, to restore or to extract them.

What always holds:

1.  A capture is selected by what its own headers say: its URL and its WARC-Date. A line
    of an index selects the capture with the same URL and the same date to the second.
2.  An extract has each selected capture, and each original that one of these refers to;
    an original that it lacks is named.

Records of an extract keep their bytes. It also keeps each file's warcinfo, and those
other records that have the URL and the date of a capture in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from frontier.cdx.lines import LINE_LIMIT, read_line
from frontier.errors import ConfigurationError
from frontier.files import open_input
from frontier.model import frozen
from frontier.postcrawl.actions import PLACE, Pass
from frontier.postcrawl.engines import DuckDb, duckdb_of_manifests, query, texts
from frontier.warc.records import escaped

MISSING = """
SELECT r.file, r.record_offset, r.refers_to_url, r.refers_to_date FROM needed r
WHERE r.type = 'revisit' AND NOT EXISTS (SELECT 1 FROM needed o
  WHERE r.refers_to_url = o.url AND left(r.refers_to_date, 19) = left(o.date, 19))
ORDER BY r.file, r.record_offset
"""


@frozen
class Selection:
    """Which captures are selected; a field that is not set lets all through."""

    prefix: str = ""
    """What their URLs begin with."""
    captures: frozenset[tuple[str, str]] | None = None
    """The URL of each, and its date in 14 digits."""
    ids: frozenset[str] | None = None
    """Record ids of revisits."""

    def condition(self, engine: DuckDb) -> str:
        """The SQL condition, for *engine*, that selects rows of ``manifest``."""
        said = ["TRUE"]
        if self.prefix:
            engine.table("begins", texts(prefix=[self.prefix]))
            said.append("starts_with(url, (SELECT prefix FROM begins))")
        if self.ids is not None:
            engine.table("ids", texts(record_id=self.ids))
            said.append("record_id IN (SELECT record_id FROM ids)")
        if self.captures is not None:
            urls, moments = ([row[n] for row in self.captures] for n in (0, 1))
            engine.table("listed", texts(url=urls, moment=moments))
            moment = r"left(regexp_replace(date, '\D', '', 'g'), 14)"
            said.append(f"(url, {moment}) IN (FROM listed)")
        return "(" + " AND ".join(said) + ")"


def listed(path: Path) -> frozenset[tuple[str, str]]:
    """URL and date of the captures that the CDXJ file *path* lists.

    Raises:
        ConfigurationError: A line is not one of a CDXJ.
        OSError: It cannot be read.
    """
    found = set()
    with open_input(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LINE_LIMIT), b""), 1):
            if raw.startswith(b"urn:"):
                continue
            try:
                line = read_line(raw)
            except ValueError as error:
                raise ConfigurationError(f"{path}:{number}: {error}") from None
            if line is not None:
                found.add((escaped(line.url), line.timestamp))
    return frozenset(found)


def extracting(
    directory: Path,
    selection: Selection,
    missing: Callable[[str], None],
) -> Pass:
    """The pass that leaves out what *selection* does not take and no revisit needs.

    The manifests in *directory* have rows for all records. *missing* is told of
    revisits whose original is nowhere in these files.
    """
    place = directory / PLACE
    with duckdb_of_manifests(directory) as engine:
        selected = selection.condition(engine)
        engine.keep("needed", query("needed").format(selected=selected))
        for file, offset, *of in engine.rows(MISSING):
            where = f"{file}: the original of the revisit at byte {offset:,}"
            if all(of):
                missing(f"{where} is not in these files: {of[0]} of {of[1]}")
            else:
                where = f"{file}: the revisit at byte {offset:,}"
                missing(f"{where} names no capture by URL and date")
        engine.write_by_file(query("extract").format(selected=selected), place)
    return Pass(directory, place)
