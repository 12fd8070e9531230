"""Writes manifests and plans in the text format of WARCsum: a line for each response.

| text | fields, separated by a space |
|---|---|
| ``manifest.warcsum`` | ``file offset length URI date algorithm:hex`` |
| ``plan.warcsum`` | and a hash extension, a copy number, URI and date of copy 1 |

*file* is its name; *offset* and *length* are those of the gzip member. White space in a
name or a URI is ``%20``, so that a line always has all fields. The extension tells
contents apart that have the same digest and another length; those of one length are
compared when the plan is applied. The last fields of what stays are ``1 - -``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from frontier.files import mode_of_environment, published
from frontier.postcrawl.engines import Engine, parts_of, query
from frontier.postcrawl.plan import PLAN, TEXT

MANIFEST = "manifest.warcsum"
SKIPPED = """
SELECT count(*) FROM manifest WHERE type = 'response' AND payload_digest IS NULL
"""


def write(
    engine: Engine, places: Sequence[Path], directory: Path, *, planned: bool = False
) -> int:
    """Write the rows of the manifests *places* to `MANIFEST` in *directory*.

    If *planned*, write what the plan there says of them to `TEXT` instead. Returns how
    many responses have no digest, and therefore no line.

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
