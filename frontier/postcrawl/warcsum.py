"""Manifests as the text of WARCsum: a line for each response, a space between fields.

``file offset length URI date algorithm:hex``, with the file's name and the offset and
length of its gzip member. A name or URI that has a space has ``%20`` in its place, so
that a line always has six fields.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from frontier.files import FILE_MODE, creating, sync_directory
from frontier.postcrawl.manifest import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_COLUMNS = [
    "file",
    "record_offset",
    "record_length",
    "url",
    "date",
    "payload_digest",
    "type",
]


def write_manifest(places: Iterable[Path], out: Path, mode: int = FILE_MODE) -> int:
    """Write the rows of the manifests *places* to *out*.

    It gets its name when all of it is on disk. Returns how many responses have no
    digest: they have no line.

    Raises:
        OSError: One cannot be read, or it cannot be written.
    """
    skipped = 0
    scratch = out.with_name(out.name + OPEN)
    with open(
        scratch, "w", encoding="utf-8", newline="", opener=creating(mode)
    ) as file:
        for row in _responses(places):
            if row["payload_digest"] is None:
                skipped += 1
                continue
            file.write(line(row))
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(out)
    sync_directory(out.parent)
    return skipped


def line(row: dict[str, Any]) -> str:
    """The line of a manifest's *row*, with its end."""
    fields = (
        os.path.basename(row["file"]),  # noqa: PTH119
        row["record_offset"],
        row["record_length"],
        row["url"],
        row["date"],
        row["payload_digest"],
    )
    return " ".join(_field(str(one)) for one in fields) + "\n"


def _field(text: str) -> str:
    """*text* without what would end a field or a line."""
    kept = (c if c.isprintable() and c != " " else _escaped(c) for c in text)
    return "".join(kept) or "-"


def _escaped(character: str) -> str:
    encoded = character.encode("utf-8", "surrogateescape")
    return "".join(f"%{byte:02X}" for byte in encoded)


def _responses(places: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for place in places:
        with pq.ParquetFile(place) as manifest:
            for batch in manifest.iter_batches(columns=_COLUMNS):
                for row in batch.to_pylist():
                    if row["type"] == "response":
                        yield row
