"""Which other WACZ files hold the originals of the revisits of one."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.cdx.lines import LINE_LIMIT, REVISIT, parse
from frontier.cdx.sorting import Need, canonical
from frontier.errors import BadWacz
from frontier.files import open_input
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
    needs: Iterable[Need], candidates: Iterable[Path]
) -> tuple[list[Required], set[bytes]]:
    """Return which *candidates* hold what is needed, and the digests that none has.

    A need is met by the file that has the payload under the URL that the revisit
    refers to: that is where a replay tool looks. If several have it, the one with
    the capture of that time counts, else the first of them.

    Raises:
        BadWacz: A candidate cannot be read.
    """
    by_digest: dict[bytes, set[Need]] = {}
    for need in needs:
        by_digest.setdefault(need.digest, set()).add(need)
    wanted = set().union(*by_digest.values())
    exact: dict[Need, Path] = {}
    near: dict[Need, Path] = {}
    paths = list(candidates)
    for path in paths:
        if len(exact) == len(wanted):
            break
        for found in originals(path):
            for need in by_digest.get(found.digest, ()):
                if need.key == found.key:
                    near.setdefault(need, path)
                    if need.time in {"", found.time}:
                        exact.setdefault(need, path)
    used = set((near | exact).values())
    missing = {need.digest for need in wanted - near.keys()}
    return [_required(path) for path in paths if path in used], missing


def _required(path: Path) -> Required:
    with open_input(path) as stream:
        value, size = layout.hash_of(stream)
    return Required(path.name, value.removeprefix("sha256:"), size)


def originals(path: Path) -> Iterator[Need]:
    """Yield what the WACZ at *path* stores, as a revisit would need it.

    Raises:
        BadWacz: It cannot be read.
    """
    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            for raw in index_lines(archive):
                line = parse(raw)
                if line.mime != REVISIT:
                    yield Need(canonical(line.digest), line.key, line.timestamp)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise BadWacz(str(path), f"cannot be read: {error}") from error


def index_lines(archive: zipfile.ZipFile) -> Iterator[bytes]:
    """Yield the CDXJ lines of *archive*, in order."""
    for name in archive.namelist():
        if not name.startswith(layout.INDEXES):
            continue
        if not name.endswith(layout.CDX):
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
