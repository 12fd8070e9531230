"""How much of a collection is there more than once, by type, host, year and size.

This is computed from manifests alone, and from all that have been made: in a sample,
copies are found only within it, and their share is a lower bound. No policy applies:
every capture with the payload of an earlier one counts as a copy, even one that
`frontier warc plan` leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frontier.errors import NoManifest
from frontier.model import frozen
from frontier.postcrawl.engines import Engine, duckdb_engine, query
from frontier.postcrawl.manifest import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path


KINDS = ("mime", "host", "year", "size")
MOST = 20
"""Names of a kind that are reported: those with most bytes in copies."""


@frozen
class Share:
    """Captures of one name, and how many have the payload of an earlier one."""

    captures: int = 0
    copies: int = 0
    payload_bytes: int = 0
    copied_bytes: int = 0


@dataclass(slots=True)
class Duplication:
    """What is there more than once."""

    files: int
    """Files that have a manifest."""
    total: Share = Share()
    by: dict[str, dict[str, Share]] = field(default_factory=dict)
    """For each of `KINDS`, its names; the first has most bytes in copies."""
    names: dict[str, int] = field(default_factory=dict)
    """How many names each kind has."""


def duplication(
    directory: Path,
    scratch: Path,
    engine: Callable[[Path], AbstractContextManager[Engine]] = duckdb_engine,
) -> Duplication:
    """What the manifests in *directory* say; *engine* may sort in *scratch*.

    Raises:
        NoManifest: There are none.
    """
    places = sorted(directory.glob(f"*{SUFFIX}"))
    if not places:
        raise NoManifest(str(directory))
    found = Duplication(len(places), by={kind: {} for kind in KINDS})
    with engine(scratch) as opened:
        opened.view("manifest", places)
        for kind, names, name, *numbers in opened.rows(
            query("stats").format(most=MOST)
        ):
            if kind == "all":
                found.total = Share(*(number or 0 for number in numbers))
            else:
                found.names[kind] = names
                found.by[kind][name] = Share(*numbers)
    return found
