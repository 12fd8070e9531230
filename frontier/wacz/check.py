"""Whether a WACZ is what the specification and its own claims say.

Everything in it is somebody else's word. Names, sizes, hashes, index entries
and revisits are each compared with the bytes; memory stays flat, because members
are read in blocks and captures are compared in a file on disk.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.cdx.lines import LINE_LIMIT, line_of, parse
from frontier.cdx.reader import records
from frontier.cdx.sorting import Captures, canonical
from frontier.errors import BadWarc
from frontier.wacz import layout, rules
from frontier.wacz.requires import index_lines, originals, read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMBERS_LIMIT = 100_000
"""Most members of a zip that is looked at."""
RATIO_LIMIT = 200
"""A member that inflates to more than this times its size is a zip bomb."""
SMALL = 1 << 20
"""Bytes that a member may inflate to however small it is."""
COMPLAINTS_LIMIT = 100

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_WARC = (".warc.gz", ".warc")


def check(path: Path, against: Sequence[Path] = ()) -> list[str]:
    """Return what is wrong with the WACZ at *path*; empty if nothing is.

    A revisit has to find its original in the file itself or in a WACZ that
    ``relation.requires`` names. Those of *against* that it names are opened;
    others are believed to hold it. A complaint about a revisit begins with
    ``unresolved``.
    """
    complaints: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            complaints += _names(archive)
            if not complaints:
                _Check(archive, complaints, list(against)).run()
    except (OSError, EOFError, ValueError, KeyError, RuntimeError) as error:
        complaints.append(f"cannot be read: {error}")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        complaints.append(f"not a sound zip file: {error}")
    return complaints[:COMPLAINTS_LIMIT]


def readable(path: Path) -> list[str]:
    """Return what is wrong with a WACZ that was just made.

    Every member is where its directory says, and those that are no WARC files
    have the hashes that the package has of them.
    """
    with zipfile.ZipFile(path) as archive:
        complaints = _names(archive)
        if complaints:
            return complaints
        package = read_json(archive, layout.PACKAGE)
        resources = package["resources"] if isinstance(package, dict) else []
        for each in resources:
            with archive.open(each["path"]) as stream:
                if each["path"].startswith(layout.ARCHIVE):
                    if stream.read(2) != b"\x1f\x8b":
                        complaints.append(f"{each['path']} does not begin as it should")
                    continue
                found = layout.hash_of(stream)  # type: ignore[arg-type]
                if found != (each["hash"], each["bytes"]):
                    complaints.append(f"{each['path']} has another hash")
    return complaints


def _names(archive: zipfile.ZipFile) -> list[str]:
    """What may not even be opened."""
    infos = archive.infolist()
    if len(infos) > MEMBERS_LIMIT:
        return [f"it has {len(infos)} members; at most {MEMBERS_LIMIT} are read"]
    wrong, seen = [], set()
    for info in infos:
        name = info.filename
        if not layout.is_safe(name.rstrip("/")):
            wrong.append(f"{name[:200]!r}: a name that leads out of the file")
        if name in seen:
            wrong.append(f"{name!r}: is there twice")
        seen.add(name)
        if info.flag_bits & 1:
            wrong.append(f"{name!r}: is encrypted")
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            wrong.append(f"{name!r}: neither stored nor deflated")
        if info.file_size > max(SMALL, RATIO_LIMIT * info.compress_size):
            wrong.append(f"{name!r}: a zip bomb of {info.file_size} bytes")
    return wrong


class _Check:
    def __init__(
        self, archive: zipfile.ZipFile, complaints: list[str], against: list[Path]
    ) -> None:
        self._zip = archive
        self._complaints = complaints
        self._against = against
        self._members = [n for n in archive.namelist() if not n.endswith("/")]
        self._resources: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        package = self._package()
        if package is None:
            return
        self._pages()
        self._complaints += rules.faults(self._zip)
        with tempfile.TemporaryDirectory() as directory:
            captures = Captures(Path(directory) / "captures")
            try:
                self._hashes(captures)
                self._index(captures)
                self._revisits(captures, package)
            finally:
                captures.close()

    def _say(self, text: str) -> None:
        if len(self._complaints) < COMPLAINTS_LIMIT:
            self._complaints.append(text)

    def _package(self) -> dict[str, Any] | None:
        for name in (layout.PACKAGE, layout.PAGES):
            if name not in self._members:
                self._say(f"{name} is missing")
        for folder in (layout.ARCHIVE, layout.INDEXES):
            if not any(n.startswith(folder) for n in self._members):
                self._say(f"{folder} is missing or empty")
        if layout.PACKAGE not in self._members:
            return None
        package = read_json(self._zip, layout.PACKAGE)
        if not isinstance(package, dict):
            self._say(f"{layout.PACKAGE} is not a JSON object")
            return None
        if package.get("profile") != "data-package":
            self._say(f"{layout.PACKAGE}: profile is not 'data-package'")
        if not isinstance(package.get("wacz_version"), str):
            self._say(f"{layout.PACKAGE}: wacz_version is missing")
        self._list(package.get("resources"))
        self._digest()
        return package

    def _list(self, resources: Any) -> None:
        if not isinstance(resources, list) or not resources:
            self._say(f"{layout.PACKAGE}: resources is not a list")
            return
        for each in resources:
            path = each.get("path") if isinstance(each, dict) else None
            if not isinstance(path, str):
                self._say(f"{layout.PACKAGE}: a resource without a path")
            elif path in self._resources:
                self._say(f"{path[:200]!r}: is listed twice")
            elif not layout.is_safe(path):
                self._say(f"{path[:200]!r}: a resource that leads out of the file")
            else:
                self._resources[path] = each
                if path not in self._members:
                    self._say(f"{path!r}: is listed, but not there")
        for name in self._members:
            if name not in self._resources and name not in {
                layout.PACKAGE,
                layout.DIGEST,
            }:
                self._say(f"{name!r}: is there, but not listed")

    def _digest(self) -> None:
        if layout.DIGEST not in self._members:
            return
        digest = read_json(self._zip, layout.DIGEST, 1 << 20)
        with self._zip.open(layout.PACKAGE) as stream:
            value, _ = layout.hash_of(stream)  # type: ignore[arg-type]
        if not isinstance(digest, dict) or digest.get("path") != layout.PACKAGE:
            self._say(f"{layout.DIGEST}: path is not {layout.PACKAGE!r}")
        elif digest.get("hash") != value:
            self._say(f"{layout.DIGEST}: the hash is not that of {layout.PACKAGE}")

    def _pages(self) -> None:
        if layout.PAGES not in self._members:
            return
        number = 0
        with self._zip.open(layout.PAGES) as stream:
            while raw := stream.readline(LINE_LIMIT):
                number += 1
                try:
                    page = json.loads(raw)
                except (ValueError, RecursionError):
                    page = None
                wanted = ("format", "id") if number == 1 else ("url", "ts")
                if not isinstance(page, dict) or not all(
                    isinstance(page.get(key), str) for key in wanted
                ):
                    self._say(
                        f"{layout.PAGES}, line {number}: no {' and '.join(wanted)}"
                    )
                    return
        if not number:
            self._say(f"{layout.PAGES} is empty")

    def _hashes(self, captures: Captures) -> None:
        for name in self._members:
            said = self._resources.get(name)
            digest, size = hashlib.sha256(), 0
            is_warc = name.startswith(layout.ARCHIVE) and name.endswith(_WARC)
            if is_warc and self._zip.getinfo(name).compress_type != zipfile.ZIP_STORED:
                self._say(f"{name!r}: is compressed in the zip")
            with self._zip.open(name) as stream:

                def told(stream: Any = stream, digest: Any = digest) -> Any:
                    nonlocal size
                    for block in layout.blocks(stream.read):
                        digest.update(block)
                        size += len(block)
                        yield block

                blocks = told()
                if is_warc:
                    self._warc(name, blocks, captures)
                for _ in blocks:
                    pass
                for _ in told():  # what a damaged WARC file has left unread
                    pass
            if said is None:
                continue
            if not _HASH.fullmatch(str(said.get("hash"))):
                self._say(f"{name!r}: its hash is not sha256:<hex>")
            elif said["hash"] != f"sha256:{digest.hexdigest()}":
                self._say(f"{name!r}: its hash is another")
            if said.get("bytes") != size:
                self._say(f"{name!r}: has {size} bytes, not {said.get('bytes')!r:.40}")

    def _warc(self, name: str, blocks: Any, captures: Captures) -> None:
        if not name.endswith(".gz"):
            self._say(f"{name!r}: is not compressed; its records are not looked at")
            return
        try:
            for found in records(name, blocks):
                line = line_of(found, name.removeprefix(layout.ARCHIVE))
                if line is None:
                    continue
                captures.fact(line)
                if found.kind == "revisit":
                    captures.refer(line.filename, line.key, found)
                else:
                    captures.hold(canonical(line.digest), line.key)
        except BadWarc as error:
            self._say(str(error))

    def _index(self, captures: Captures) -> None:
        """Compare the index with the records, by what each says of a capture."""
        last, total = b"", 0
        for raw in index_lines(self._zip):
            total += 1
            if raw < last:
                self._say(f"the index is not sorted at {raw[:200]!r}")
            last = raw
            try:
                line = parse(raw)
            except ValueError as error:
                self._say(f"index: {error}: {raw[:200]!r}")
                continue
            captures.claim(line)
        if not total:
            self._say("the index is empty")
        for text in captures.differences(COMPLAINTS_LIMIT):
            self._say(text)

    def _revisits(self, captures: Captures, package: dict[str, Any]) -> None:
        relation = package.get("relation")
        needed = relation.get("requires") if isinstance(relation, dict) else None
        named: dict[str, str] = {}
        for each in needed if isinstance(needed, list) else []:
            if isinstance(each, dict) and isinstance(each.get("filename"), str):
                named[each["filename"]] = str(each.get("hash"))
            else:
                self._say("relation.requires: an entry without a filename")
        opened = [path for path in self._against if path.name in named]
        for path in opened:
            with path.open("rb") as stream:
                value, _ = layout.hash_of(stream)
            if value.removeprefix("sha256:") != named[path.name]:
                self._say(f"relation.requires: {path} has another hash")
            for held in originals(path):
                captures.hold(held.digest, held.key)
        if named and len(opened) < len(named):
            return  # the others are believed to hold what is not found
        for file, offset, need in captures.unresolved():
            if need.digest:
                self._say(f"unresolved revisit in {file} at byte {offset}")
            else:
                self._say(f"unresolved revisit without digest in {file} at {offset}")
