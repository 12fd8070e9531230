"""Whether a WACZ agrees with the specification and with what it says of itself.

Nothing in it is trusted: names, sizes, hashes, index entries and revisits are each
compared with the bytes. Memory stays flat, because members are read in blocks and
captures are compared in a file on disk.

wabac.js does not inflate the whole of ``index.cdx.gz``. It reads the ``.idx`` (a line
for each gzip member: key, offset, length), finds the member that may have a URL, and
inflates that alone. So captures of a whole index are not found if its ``.idx`` is
wrong. pywb unpacks the index when a WACZ is added, and does not read ``.idx``.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from frontier.cdx.lines import LINE_LIMIT, line_of, parse
from frontier.cdx.methods import paired
from frontier.cdx.sorting import Captures, canonical, need_of
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.wacz import canonicalization, layout, rules
from frontier.wacz.layout import index_lines, originals, read_json
from frontier.warc.reader import plain_records, records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


BLOCK_LIMIT = 64 << 20
"""Largest gzip member of an index that is read, in bytes; ours have some 50 kB."""
FORMAT = "cdxj-gzip-1.0"
_PIECE = 1 << 20
_NUMBER = re.compile(r"[0-9]{1,15}")


class _Entry(NamedTuple):
    key: bytes
    """The first line of its member begins with this."""
    filename: str
    offset: int
    length: int
    digest: str


def wrong_blocks(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield what is wrong with each ``.idx`` of *archive*, and what none leads to."""
    names = [n for n in archive.namelist() if n.startswith(layout.INDEXES)]
    missing = {n for n in names if n.endswith((".cdx.gz", ".cdxj.gz"))}
    for name in names:
        if not name.endswith(".idx"):
            continue
        try:
            for member in _members(archive, name):
                missing.discard(member)
        except (ValueError, KeyError) as error:
            yield f"{name}: {error.args[0]}"
            return
    for name in sorted(missing):
        yield f"{name}: no .idx leads to its lines"


def _members(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """Compare an index with the member that its lines lead to; yield that.

    Raises:
        ValueError: It leads elsewhere.
    """
    open_name, stream, at = "", None, 0
    last = b""
    for number, entry in _entries(archive, name):
        where = f"line {number}"
        if entry.key < last:
            raise ValueError(f"{where}: is not sorted")
        last = entry.key
        member = layout.INDEXES + entry.filename
        if member != open_name:
            if stream is not None:
                raise ValueError(f"{where}: is of a second file {member[:200]!r}")
            if member not in archive.NameToInfo:
                raise ValueError(f"{where}: there is no {member[:200]!r}")
            open_name, stream = member, archive.open(member)
        if entry.offset != at or stream is None:
            raise ValueError(f"{where}: offset {entry.offset}, but {at} is next")
        if not 0 < entry.length <= BLOCK_LIMIT:
            raise ValueError(f"{where}: length {entry.length}")
        _compare(stream, entry, where)
        at += entry.length
    if stream is None:
        raise ValueError("has no lines")
    if stream.read(1):
        raise ValueError(f"{open_name} goes on after the last of its members")
    yield open_name


def _entries(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[int, _Entry]]:
    default = ""
    with archive.open(name) as lines:
        number = 0
        while raw := lines.readline(LINE_LIMIT):
            number += 1
            try:
                if number == 1 and raw.startswith(b"!meta"):
                    meta = _json(raw)[1]
                    default = str(meta.get("filename", ""))
                    if meta.get("format") != FORMAT:
                        raise ValueError(f"its format is not {FORMAT!r}")  # noqa: TRY301
                    continue
                entry = _entry(raw, default)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from None
            yield number, entry


def _json(raw: bytes) -> tuple[bytes, dict[str, object]]:
    key, brace, rest = raw.partition(b" {")
    facts = json.loads(brace + rest)
    if not isinstance(facts, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - a wrong value, read
    return key, facts


def _entry(raw: bytes, default: str) -> _Entry:
    columns = raw.rstrip(b"\n").split(b"\t")
    if len(columns) >= 4:  # as the Internet Archive and pywb write them
        key = columns[0]
        filename, offset, length = (c.decode() for c in columns[1:4])
        digest = ""
    else:
        key, facts = _json(raw)
        filename = str(facts.get("filename") or default)
        offset, length = str(facts.get("offset")), str(facts.get("length"))
        digest = str(facts.get("digest") or "")
    if not _NUMBER.fullmatch(offset) or not _NUMBER.fullmatch(length):
        raise ValueError(f"offset {offset[:40]!r}, length {length[:40]!r}")
    return _Entry(key, filename, int(offset), int(length), digest)


def _compare(stream: IO[bytes], entry: _Entry, where: str) -> None:
    data = stream.read(entry.length)
    if len(data) < entry.length:
        raise ValueError(f"{where}: its file ends at byte {entry.offset + len(data)}")
    inflate = zlib.decompressobj(31)
    try:
        begin = text = inflate.decompress(data, _PIECE)
        while inflate.unconsumed_tail and text:
            text = inflate.decompress(inflate.unconsumed_tail, _PIECE)
    except zlib.error:
        raise ValueError(f"{where}: no gzip member is there") from None
    if not inflate.eof or inflate.unused_data:
        raise ValueError(f"{where}: not one gzip member is there")
    first = begin.split(b"\n", 1)[0]
    if not first.startswith(entry.key + b" ") or not entry.key:
        raise ValueError(f"{where}: its member begins with {first[:100]!r}")
    if entry.digest:
        digest = hashlib.sha256(data).hexdigest()
        if entry.digest != f"sha256:{digest}":
            raise ValueError(f"{where}: the digest is another")


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
