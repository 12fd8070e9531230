"""What is to be done with the records of files: a table of actions for each command.

What always holds:

1.  A row says where a record is, and what becomes of it: a ``revisit`` of an original,
    a response (``restore``), a ``tombstone``, or nothing (``drop``). A record to be
    restored has a row for each capture that may have its payload, the likeliest first.
2.  The rows of one file are read without those of the others, and without a database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pyarrow.parquet as pq

from frontier.model import frozen
from frontier.postcrawl.engines import part_of


@frozen
class Action:
    """What is to become of one record, and the original that is used for that."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    do: str
    original_file: str
    """Empty if there is none."""
    original_offset: int
    original_id: str
    original_url: str
    original_date: str


@frozen
class Pass:
    """What is to be done with files; it can be passed to another process."""

    directory: Path
    """The directory of the manifests, and of the notes of what was done."""
    actions: Path
    """The table of actions."""
    wanted: str
    """What the actions follow from, so that a file of another plan does not count as
    done."""
    reason: str = ""
    """Stated in each tombstone."""


PLACE = "actions.parquet"
"""The table of actions, beside the manifests, of a command that applies no plan."""
_COLUMNS = [field.name for field in fields(Action)]
_ORDER = [("record_offset", "ascending"), ("nth", "ascending")]


def actions_of(place: Path, file: str) -> Iterator[list[Action]]:
    """The actions of each record of *file* in *place*, in the order of the file."""
    if not place.exists():
        return
    names = pq.read_schema(part_of(place, file)[0]).names
    order = [by for by in _ORDER if by[0] in names]
    found = pq.read_table(
        part_of(place, file),
        columns=[*_COLUMNS, *(by[0] for by in order if by[0] not in _COLUMNS)],
        filters=[("file", "=", file)],
        partitioning=None,
    ).sort_by(order)
    rows = (
        Action(*row)
        for batch in found.select(_COLUMNS).to_batches(max_chunksize=10_000)
        for row in zip(*(each.to_pylist() for each in batch), strict=True)
    )
    for _, some in groupby(rows, key=attrgetter("record_offset")):
        yield list(some)
