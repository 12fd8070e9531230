"""Whether a WACZ is what the specification and its own claims say.

Everything in it is somebody else's word. Names, sizes, hashes, index entries
and revisits are each compared with the bytes; memory stays flat, because members
are read in blocks and captures are compared in a file on disk.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.cdx.lines import line_of, parse
from frontier.cdx.methods import paired
from frontier.cdx.sorting import Captures, canonical, need_of
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.wacz import canonicalization, layout, rules
from frontier.wacz.blocks import wrong_blocks
from frontier.wacz.requires import index_lines, originals, read_json
from frontier.warc.reader import plain_records, records

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLAINTS_LIMIT = 100

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")


def check(
    path: Path, against: Sequence[Path] = (), name: str | None = None
) -> list[str]:
    """Return what is wrong with the WACZ at *path*; empty if nothing is.

    *name* is what it will be called, if that is not the name it has.

    A revisit has to find its original in the file itself or in a WACZ that
    ``relation.requires`` names. Those of *against* that it names are opened;
    others are believed to hold it. A complaint about a revisit begins with
    ``unresolved``.
    """
    complaints: list[str] = []
    if not (name or path.name).endswith(layout.SUFFIX):
        complaints.append(f"its name does not end in {layout.SUFFIX}")
    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            wrong = rules.names(archive)
            complaints += wrong
            if not wrong:
                _Check(archive, complaints, list(against)).run()
    except (OSError, EOFError, ValueError, KeyError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        complaints.append(f"cannot be read: {reason}")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        complaints.append(f"not a sound zip file: {error}")
    return complaints[:COMPLAINTS_LIMIT]


def readable(path: Path) -> list[str]:
    """Return what is wrong with a WACZ that was just made.

    Every member is where its directory says, and those that are no WARC files
    have the hashes that the package has of them.
    """
    with open_input(path) as file, zipfile.ZipFile(file) as archive:
        complaints = rules.names(archive)
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
        package, self._resources = rules.package(self._zip, self._members, self._say)
        if package is None:
            return
        rules.pages(self._zip, self._members, self._say)
        for text in (*wrong_blocks(self._zip), *canonicalization.faults(self._zip)):
            self._say(text)
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

    def _hashes(self, captures: Captures) -> None:
        for name in self._members:
            said = self._resources.get(name)
            digest, size = hashlib.sha256(), 0
            is_warc = name.startswith(layout.ARCHIVE) and name.endswith(layout.WARCS)
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
        read = records if name.endswith(".gz") else plain_records
        try:
            for found, how in paired(read(name, blocks)):
                line = line_of(found, name.removeprefix(layout.ARCHIVE), how)
                if line is None:
                    continue
                captures.fact(line)
                if found.kind == "revisit":
                    captures.refer(
                        line.filename, found.offset, need_of(found, line.key)
                    )
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
        named: dict[str, dict[str, Any]] = {}
        if needed is not None and not isinstance(needed, list):
            self._say("relation.requires: is not a list")
        for each in needed if isinstance(needed, list) else []:
            if not isinstance(each, dict) or not isinstance(each.get("filename"), str):
                self._say("relation.requires: an entry without a filename")
                continue
            name = each["filename"]
            if name in named:
                self._say(f"relation.requires: {name[:200]!r} is there twice")
            named[name] = each
            if not _HEX.fullmatch(str(each.get("hash"))):
                self._say(f"relation.requires: {name[:200]!r} without a SHA-256 in hex")
        opened = [path for path in self._against if path.name in named]
        for path in opened:
            with open_input(path) as stream:
                value, size = layout.hash_of(stream)
            said = named[path.name]
            if value.removeprefix("sha256:") != said.get("hash"):
                self._say(f"relation.requires: {path} has another hash")
            if said.get("size") not in {None, size}:
                self._say(f"relation.requires: {path} has another size")
            for held in originals(path):
                captures.hold(held.digest, held.key)
        if named and len(opened) < len(named):
            return  # the others are believed to hold what is not found
        for file, offset, need in captures.unresolved():
            if need.digest:
                self._say(f"unresolved revisit in {file} at byte {offset}")
            else:
                self._say(f"unresolved revisit without digest in {file} at {offset}")
