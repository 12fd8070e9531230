"""Which other WACZ files hold the originals of the revisits of one."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.cdx.lines import LINE_LIMIT, REVISIT, parse
from frontier.cdx.sorting import canonical
from frontier.errors import BadWacz
from frontier.wacz import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Required:
    """A WACZ that another one needs, as its ``relation.requires`` names it."""

    filename: str
    hash: str
    """Bare lower-case hex of SHA-256."""
    size: int

    def facts(self) -> dict[str, object]:
        """The JSON object."""
        return {"filename": self.filename, "hash": self.hash, "size": self.size}


def requires(
    digests: set[bytes], candidates: Iterable[Path]
) -> tuple[list[Required], set[bytes]]:
    """Return which *candidates* hold *digests*, first ones preferred, and the rest.

    Raises:
        BadWacz: A candidate cannot be read.
    """
    left, found = set(digests), []
    for path in candidates:
        if not left:
            break
        held = {d for d in originals(path) if d in left}
        if held:
            left -= held
            with path.open("rb") as stream:
                value, size = layout.hash_of(stream)
            bare = value.removeprefix("sha256:")
            found.append(Required(path.name, bare, size))
    return found, left


def originals(path: Path) -> Iterator[bytes]:
    """Yield the payload digests that the WACZ at *path* stores.

    Raises:
        BadWacz: It cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for raw in index_lines(archive):
                line = parse(raw)
                if line.mime != REVISIT:
                    yield canonical(line.digest)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise BadWacz(str(path), f"cannot be read: {error}") from error


def index_lines(archive: zipfile.ZipFile) -> Iterator[bytes]:
    """Yield the CDXJ lines of *archive*, in order."""
    for name in archive.namelist():
        if not name.startswith(layout.INDEXES):
            continue
        if not name.endswith((".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")):
            continue
        with archive.open(name) as packed:
            stream = gzip.GzipFile(fileobj=packed) if name.endswith(".gz") else packed
            while line := stream.readline(LINE_LIMIT):
                if not line.endswith(b"\n") and len(line) == LINE_LIMIT:
                    raise ValueError(f"{name}: a line over {LINE_LIMIT} bytes")
                if not line.startswith(b"!meta"):
                    yield line


def read_json(archive: zipfile.ZipFile, name: str, limit: int = 1 << 26) -> object:
    """Return the JSON in the member *name*.

    Raises:
        ValueError: It is not JSON, or longer than *limit* bytes.
        KeyError: There is no such member.
    """
    with archive.open(name) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{name} is longer than {limit} bytes")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None
