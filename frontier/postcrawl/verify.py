"""The proof that a deduplication has lost nothing, from the files alone.

What always holds:

1.  Nothing is taken from a plan or an earlier manifest: both sides are read whole.
2.  A file of BEFORE that is not in AFTER, or has other records there, is a fault.

Each record of BEFORE is there in AFTER byte for byte, or with other headers around the
same block (as `frontier.postcrawl.restore` makes it). Or it is a response that is a
revisit now: of the same URL and date, with the same HTTP head, and with an original in
AFTER, or in files that are given for that, named by URL and second, whose stored body
is the one that was there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frontier.errors import NoManifest
from frontier.postcrawl.engines import duckdb_engine, query
from frontier.postcrawl.manifest import stored_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NAMES = pa.schema([("file", pa.string()), ("name", pa.string())])
NAMED = 100
"""Faults that are named; all are counted."""


@dataclass(slots=True)
class Verified:
    """What was compared, and what is wrong."""

    records: int = 0
    identical: int = 0
    anew: int = 0
    """Of the same id, URL, date and block, with other headers around it."""
    revisits: int = 0
    """Responses that are revisits now, and resolve to the bytes that they had."""
    payload_bytes: int = 0
    """Of those."""
    faults: int = 0
    named: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)


def compare(
    before: Sequence[Path],
    after: Sequence[Path],
    originals: Sequence[Path],
    scratch: Path,
    roots: tuple[str, str],
) -> Verified:
    """Compare the manifests *before* with those *after*, which have all digests.

    Revisits may be of captures in *originals*, too, which are compared with nothing. A
    file of one side is that of the other with its name, and with its directories' names
    below what was given, *roots*, where several files have it.
    """
    done = Verified()
    sides = [[_file(place) for place in side] for side in (before, after)]
    with duckdb_engine(scratch) as engine:
        for table, names in zip(
            ("names_before", "names_after"), _names(roots, *sides), strict=True
        ):
            columns = [list(names), list(names.values())]
            engine.table(table, pa.table(columns, _NAMES))
        engine.view("records_before", before)
        engine.view("records_after", after)
        engine.view("captures", [*after, *originals])
        for row in engine.rows(query("verify")):
            _note(done, *row)
    return done


def _file(place: Path) -> str:
    found = stored_manifest(place)
    if found is None:
        raise NoManifest(str(place))
    return found.file


def _names(
    roots: tuple[str, str], before: Sequence[str], after: Sequence[str]
) -> list[dict[str, str]]:
    """By its path, what each file of a side is called: as little as tells all apart.

    That is below the directory that is given, or below the one that all files of a side
    share, as `frontier.postcrawl.many_files.outs_of` has it: where more names are in
    both.
    """
    first, second = (
        [_below(files, root), _below(files, _shared(files))]
        for files, root in zip((before, after), roots, strict=True)
    )
    sides = [(one, other) for other in second for one in first]
    parts = max(sides, key=lambda pair: len(_words(pair[0]) & _words(pair[1])))
    depth: dict[str, int] = {}
    for of in parts:
        alike: dict[str, list[list[str]]] = {}
        for words in of.values():
            alike.setdefault(words[-1], []).append(words)
        for name, several in alike.items():
            count = depth.get(name, 1)
            while len({tuple(words[-count:]) for words in several}) < len(several):
                count += 1
            depth[name] = count
    return [
        {file: "/".join(words[-depth[words[-1]] :]) for file, words in of.items()}
        for of in parts
    ]


def _below(files: Sequence[str], root: str) -> dict[str, list[str]]:
    """By its path, the names from *root* to each of *files*."""
    top = root.rstrip("/") + "/"
    return {file: file.removeprefix(top).split("/") for file in files}


def _shared(files: Sequence[str]) -> str:
    """The directory that all *files* are in."""
    above = zip(*(file.split("/")[:-1] for file in files), strict=False)
    return "/".join(
        words[0] for words in takewhile(lambda words: len(set(words)) == 1, above)
    )


def _words(named: dict[str, list[str]]) -> set[tuple[str, ...]]:
    return {tuple(words) for words in named.values()}


def _note(
    done: Verified,
    name: str | None,
    before: int | None,
    after: int | None,
    fault: str | None,
    is_revisit: bool,
    is_anew: bool,
    size: int | None,
) -> None:
    done.records += before is not None
    if fault:
        done.faults += 1
        if len(done.named) < NAMED:
            where = (
                f"byte {before:,}" if before is not None else f"byte {after:,} after"
            )
            done.named.append(f"{name} at {where}: {fault}")
    elif is_revisit:
        done.revisits += 1
        done.payload_bytes += size or 0
    elif is_anew:
        done.anew += 1
    else:
        done.identical += 1
