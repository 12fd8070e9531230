"""Manifests and plans as the text of WARCsum: a line for each response.

| text | fields, a space between them |
|---|---|
| ``manifest.warcsum`` | ``file offset length URI date algorithm:hex`` |
| ``plan.warcsum`` | and a hash extension, a copy number, URI and date of copy 1 |

The file's name, and the offset and length of its gzip member. White space in a name or
a URI is ``%20``, so that a line always has its fields. The extension tells contents of
one digest apart that have another length; those of one length are compared when the
plan is applied. What stays has ``1 - -`` behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.files import FILE_MODE
from frontier.postcrawl.engines import creating_whole, parts_of, query
from frontier.postcrawl.plan import PLAN, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frontier.postcrawl.engines import DuckDb

MANIFEST = "manifest.warcsum"
SKIPPED = """
SELECT count(*) FROM manifest WHERE type = 'response' AND payload_digest IS NULL
"""


def write_manifest(
    engine: DuckDb, places: Sequence[Path], directory: Path, mode: int = FILE_MODE
) -> int:
    """Write the rows of the manifests *places* to `MANIFEST` in *directory*.

    Returns how many responses have no digest: they have no line.

    Raises:
        OSError: One cannot be read, or it cannot be written.
    """
    engine.view("manifest", places)
    with creating_whole(directory / MANIFEST, mode) as scratch:
        engine.write_lines(query("warcsum"), scratch)
    ((skipped,),) = engine.rows(SKIPPED)
    return int(skipped)


def write_plan(
    engine: DuckDb, places: Sequence[Path], directory: Path, mode: int = FILE_MODE
) -> None:
    """Write what the plan in *directory* says of the manifests *places*.

    Raises:
        OSError: It cannot be written.
    """
    engine.view("manifest", places)
    engine.view("plan", parts_of(directory / PLAN))
    with creating_whole(directory / TEXT, mode) as scratch:
        engine.write_lines(query("warcsum-plan"), scratch)
