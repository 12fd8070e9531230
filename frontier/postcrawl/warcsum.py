"""Manifests and plans as the text of WARCsum: a line for each response.

| stage | fields, a space between them |
|---|---|
| 1 | ``file offset length URI date algorithm:hex`` |
| 2 | and a hash extension: 1, 2 and so on for each content of the digest |
| 3 | and a copy number, URI and date of copy 1; ``1 - -`` for what stays |

The file's name, and the offset and length of its gzip member. A name or URI that has a
space has ``%20`` in its place, so that a line always has its fields. Stage 1 is in the
order of the files, the others in that of the digests.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from frontier.files import FILE_MODE, published
from frontier.postcrawl.byte_comparison import SCHEMA, UNRESOLVED
from frontier.postcrawl.plan import COMPARED, PLAN, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from frontier.postcrawl.engines import Engine

MANIFEST = "manifest.warcsum"
_COLUMNS = [
    "file",
    "record_offset",
    "record_length",
    "url",
    "date",
    "payload_digest",
    "type",
]
_FIELDS = _COLUMNS[:6]
_SORTED = """
SELECT file, record_offset, record_length, url, date, payload_digest FROM manifest
WHERE type = 'response' AND payload_digest IS NOT NULL
ORDER BY payload_digest, file, record_offset
"""
_PLANNED = """
SELECT m.file, m.record_offset, m.record_length, m.url, m.date, m.payload_digest,
  coalesce(c.content, 1) AS extension, coalesce(p.copy, 1) AS number,
  p.original_url, p.original_date
FROM manifest m
LEFT JOIN compared c ON m.file = c.file AND m.record_offset = c.record_offset
LEFT JOIN plan p ON m.file = p.file AND m.record_offset = p.record_offset
WHERE m.type = 'response' AND m.payload_digest IS NOT NULL
ORDER BY m.payload_digest, extension, number, m.file, m.record_offset
"""


def write_manifest(places: Iterable[Path], out: Path, mode: int = FILE_MODE) -> int:
    """Write the rows of the manifests *places* to *out*.

    It gets its name when all of it is on disk. Returns how many responses have no
    digest: they have no line.

    Raises:
        OSError: One cannot be read, or it cannot be written.
    """
    skipped = 0
    for old in out.parent.glob(f"{out.name}.*"):  # what `split` has made of another
        if old.suffix[1:].isdigit():
            old.unlink()
    with published(out, mode) as file:
        for row in _responses(places):
            if row["payload_digest"] is None:
                skipped += 1
                continue
            file.write(line(row).encode())
    return skipped


def split(
    engine: Engine, places: Sequence[Path], out: Path, count: int, mode: int = FILE_MODE
) -> int:
    """Write the lines of *out*, by their digests, to at most *count* files.

    They are called as it is, with ``.1``, ``.2`` and so on, and have about one size; no
    digest is in two of them. Returns how many there are.

    Raises:
        OSError: One cannot be written.
    """
    if not places:
        return 0
    engine.view("manifest", places)
    rows = engine.rows(_SORTED)
    row, number, written, size = next(rows, None), 0, 0, out.stat().st_size
    while row is not None:
        number += 1
        digest = row[-1]
        with published(out.with_name(f"{out.name}.{number}"), mode) as file:
            while row is not None:
                is_full = written * count >= size * number
                if is_full and row[-1] != digest:
                    break
                digest = row[-1]
                fields = dict(zip(_FIELDS, row, strict=True))
                written += file.write(line(fields).encode())
                row = next(rows, None)
    return number


def write_plan(
    engine: Engine, places: Sequence[Path], directory: Path, mode: int = FILE_MODE
) -> int:
    """Write what the plan in *directory* says of the manifests *places*.

    A copy refers to what it becomes a revisit of; all other responses have copy number
    1. Returns how many are unresolved: they have no lines.

    Raises:
        OSError: It cannot be written.
    """
    engine.view("manifest", places)
    engine.view("plan", [directory / PLAN])
    if (directory / COMPARED).exists():
        engine.view("compared", [directory / COMPARED])
    else:
        engine.table("compared", SCHEMA.empty_table())
    unresolved = 0
    with (
        published(directory / TEXTS[0], mode) as resolved,
        published(directory / TEXTS[1], mode) as copies,
    ):
        for row in engine.rows(_PLANNED):
            extension, copy, *of = row[6:]
            if extension == UNRESOLVED:
                unresolved += 1
                continue
            text = line(dict(zip(_FIELDS, row[:6], strict=True))).rstrip("\n")
            url, date = (_field(each or "-") for each in of)
            resolved.write(f"{text} {extension}\n".encode())
            copies.write(f"{text} {extension} {copy} {url} {date}\n".encode())
    return unresolved


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
