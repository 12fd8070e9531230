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

from frontier.files import mode_of_environment, published
from frontier.postcrawl.engines import parts_of, query
from frontier.postcrawl.plan import PLAN, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frontier.postcrawl.engines import Engine

MANIFEST = "manifest.warcsum"
SKIPPED = """
SELECT count(*) FROM manifest WHERE type = 'response' AND payload_digest IS NULL
"""


def write(
    engine: Engine, places: Sequence[Path], directory: Path, *, planned: bool = False
) -> int:
    """Write the rows of the manifests *places* to `MANIFEST` in *directory*.

    Or, if *planned*, what the plan there says of them, to `TEXT`. Returns how many
    responses have no digest: they have no line.

    Raises:
        OSError: One cannot be read, or it cannot be written.
    """
    engine.view("manifest", places)
    if planned:
        engine.view("plan", parts_of(directory / PLAN))
    name, text = (TEXT, "warcsum-plan") if planned else (MANIFEST, "warcsum")
    with published(directory / name, mode_of_environment()) as file:
        for row in engine.rows(query(text)):
            file.write(f"{' '.join(map(str, row))}\n".encode())
    ((skipped,),) = engine.rows(SKIPPED)
    return int(skipped)
