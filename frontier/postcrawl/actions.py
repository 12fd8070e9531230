"""What is to be done with the records of files: a table of actions for each command.

What always holds:

1.  A row says where a record is, and what becomes of it: a ``revisit`` of an original,
    a response (``restore``), a ``tombstone``, or nothing (``drop``). A record to be
    restored has a row for each capture that may have its payload, the likeliest first.
2.  The rows of one file are read without those of the others, and without a database.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from frontier.model import frozen
from frontier.postcrawl.engines import part_of


class Action(NamedTuple):
    """What is to become of one record, and the original that is used for that."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    do: str
    payload_digest: str
    """Of a record that becomes a revisit, by its manifest."""
    original_file: str
    """Empty if there is none."""
    original_offset: int
    original_id: str
    original_url: str
    original_date: str
    nth: int
    """Which of the record's rows this is, from 1 on."""


@frozen
class Pass:
    """What is to be done with files; it can be passed to another process."""

    directory: Path
    """The directory of the manifests, and of the notes of what was done."""
    actions: Path
    """The table of actions."""
    reason: str = ""
    """Stated in each tombstone."""


PLACE = "actions.parquet"
"""The table of actions, beside the manifests, of a command that applies no plan."""


def actions_of(place: Path, file: str) -> list[Action]:
    """The actions in *place* for the records of *file*, in the order of the file."""
    if not place.exists():
        return []
    found = pq.read_table(
        part_of(place, file),
        columns=list(Action._fields),
        filters=[("file", "=", file)],
        partitioning=None,
    ).sort_by([("record_offset", "ascending"), ("nth", "ascending")])
    columns = (column.to_pylist() for column in found.columns)
    return list(map(Action._make, zip(*columns, strict=True)))
