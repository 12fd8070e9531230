"""Whether a WACZ agrees with the specification and with what it says of itself.

Nothing in it is trusted: names, sizes, hashes, index entries and revisits are each
compared with the bytes. Memory stays flat, because members are read in blocks and
captures are compared in a file on disk.

Each MUST of WACZ 1.1.1 is checked, and what Data Package 1.0 asks of names, package
and pages. One SHOULD is required, too, because a file cannot be verified without it:
``datapackage-digest.json``.

wabac.js does not inflate the whole of ``index.cdx.gz``. It reads the ``.idx`` (a line
for each gzip member: key, offset, length), finds the member that may have a URL, and
inflates that alone. So captures of a whole index are not found if its ``.idx`` is
wrong. pywb unpacks the index when a WACZ is added, and does not read ``.idx``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from frontier.cdx.lines import LINE_LIMIT, MOMENT, listed, paired, parse
from frontier.cdx.sorting import Captures
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.wacz import layout
from frontier.wacz.layout import index_lines, originals, read_json
from frontier.warc.reader import plain_records, records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

BLOCK_LIMIT = 64 << 20
"""Largest gzip member of an index that is read, in bytes; ours have some 50 kB."""
FORMAT = "cdxj-gzip-1.0"
COMPLAINTS_LIMIT = 100
MEMBERS_LIMIT = 100_000
"""Most members of a zip that is looked at."""
RATIO_LIMIT = 200
"""A member that inflates to more than this times its size is a zip bomb."""
SMALL = 1 << 20
"""Bytes that a member may inflate to however small it is."""

_PIECE = 1 << 20
_NUMBER = re.compile(r"[0-9]{1,15}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")
_LOCAL = struct.Struct("<4s5H3L2H")
_STREAMED = 1 << 3
_FULL = 0xFFFFFFFF
"""In place of a size that the ZIP64 field has."""
_NAME = re.compile(r"[a-z0-9._-]{1,1000}")
_TEXTS = ("title", "description", "software", "mainPageUrl")
_MOMENTS = ("created", "modified")
_FOLDERS = {
    layout.ARCHIVE: (layout.WARCS, ()),
    layout.INDEXES: (layout.CDX, (".idx",)),
    "pages/": ((".jsonl",), ()),
}
"""What there has to be in a folder of the specification, and what else may be."""


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


def _wrong_members(archive: zipfile.ZipFile) -> list[str]:
    """Return what keeps *archive* from being opened at all."""
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
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            wrong.append(f"{info.filename!r}: shares bytes with another member")
        end = info.header_offset + info.compress_size
    if not wrong and archive.fp is not None:
        for info in infos:
            wrong += _local(archive.fp, info)
    return wrong


def _local(file: IO[bytes], info: zipfile.ZipInfo) -> Iterator[str]:
    """Tell in what the header before a member differs from its directory's entry.

    APPNOTE 6.3.10, sections 4.3.7 and 4.5.3.
    """
    name = info.filename
    file.seek(info.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
        yield f"{name!r}: no member begins at byte {info.header_offset}"
        return
    (_, _, flags, method, _, _, crc, packed, size, name_size, extra_size) = (
        _LOCAL.unpack(header)
    )
    file.seek(name_size, os.SEEK_CUR)
    extra = file.read(extra_size)
    if extra and not info.extra:
        yield (
            f"{name!r}: its own header has an extra field, the directory none, so "
            "wabac (ReplayWeb.page, Browsertrix) looks for its data in the wrong place"
        )
    sizes = iter(_zip64(extra))
    size = next(sizes, size) if size == _FULL else size  # the larger one comes first
    packed = next(sizes, packed) if packed == _FULL else packed
    said = (method, crc, packed, size)
    if flags & _STREAMED:  # what was not known then follows the data
        said = (method, info.CRC, info.compress_size, info.file_size)
    if said != (info.compress_type, info.CRC, info.compress_size, info.file_size):
        yield f"{name!r}: its own header says another size or CRC than the directory"


def _zip64(extra: bytes) -> tuple[int, ...]:
    """The sizes in the ZIP64 field of *extra*; none if it has no such field."""
    while len(extra) >= 4:
        kind, length = struct.unpack("<HH", extra[:4])
        field, extra = extra[4 : 4 + length], extra[4 + length :]
        if kind == 1:
            count = len(field) // 8
            return struct.unpack(f"<{count}Q", field[: 8 * count])
    return ()


def _package(
    archive: zipfile.ZipFile, members: Collection[str], say: Callable[[str], None]
) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
    """Return the package description and its resources by path."""
    _files(archive, members, say)
    if layout.PACKAGE not in members:
        return None, {}
    found = read_json(archive, layout.PACKAGE)
    if not isinstance(found, dict):
        say(f"{layout.PACKAGE} is not a JSON object")
        return None, {}
    if found.get("profile") != "data-package":
        say(f"{layout.PACKAGE}: profile is not 'data-package'")
    if not isinstance(found.get("wacz_version"), str):
        say(f"{layout.PACKAGE}: wacz_version is missing")
    for key in _TEXTS:
        if not isinstance(found.get(key, ""), str):
            say(f"{layout.PACKAGE}: {key} is not text")
    for key in _MOMENTS:
        if key in found and not MOMENT.fullmatch(str(found[key])):
            say(f"{layout.PACKAGE}: {key} is not a date and time of RFC 3339")
    resources = _resources(found.get("resources"), members, say)
    _digest(archive, members, say)
    return found, resources


def _files(
    archive: zipfile.ZipFile, members: Collection[str], say: Callable[[str], None]
) -> None:
    """Which files there are, and how they are stored."""
    for name in (layout.PACKAGE, layout.DIGEST, layout.PAGES):
        if name not in members:
            say(f"{name} is missing")
    for folder, (needed, further) in _FOLDERS.items():
        held = [name for name in members if name.startswith(folder)]
        if not any(name.endswith(needed) for name in held):
            say(f"{folder} is missing, or has no {' or '.join(needed)}")
        for name in held:
            if not name.endswith((*needed, *further)):
                say(f"{name!r}: a file of another kind, which {folder} may not have")
    for name in members:
        kept = name.startswith((layout.ARCHIVE, layout.INDEXES))
        is_gzip = name.startswith(layout.ARCHIVE) or name.endswith(".gz")
        deflated = archive.getinfo(name).compress_type != zipfile.ZIP_STORED
        if kept and is_gzip and deflated:
            say(f"{name!r}: is compressed in the zip")


def _page_lists(
    archive: zipfile.ZipFile, members: Collection[str], say: Callable[[str], None]
) -> None:
    """Tell what is wrong with the lists of pages."""
    for name in members:
        if name.startswith("pages/") and name.endswith(".jsonl"):
            with archive.open(name) as stream:
                _pages(name, stream, say)


def _pages(name: str, stream: Any, say: Callable[[str], None]) -> None:
    number = 0
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
            say(f"{name}, line {number}: no {' and '.join(wanted)}")
            return
        if number > 1 and not MOMENT.fullmatch(page["ts"]):
            say(f"{name}, line {number}: ts is not a date and time of RFC 3339")
            return
    if not number:
        say(f"{name} is empty")


def _resources(
    listed: Any, members: Collection[str], say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    used: set[str] = set()
    if not isinstance(listed, list) or not listed:
        say(f"{layout.PACKAGE}: resources is not a list")
        return found
    for each in listed:
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str):
            say(f"{layout.PACKAGE}: a resource without a path")
            continue
        if path in found:
            say(f"{path[:200]!r}: is listed twice")
        elif not layout.is_safe(path):
            say(f"{path[:200]!r}: a resource that leads out of the file")
        else:
            found[path] = each
            if path not in members:
                say(f"{path!r}: is listed, but not there")
        name = each.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            say(f"{path[:200]!r}: its name has to be of a-z, 0-9, '.', '_' and '-'")
        elif name in used:
            say(f"{path[:200]!r}: another resource has its name")
        else:
            used.add(name)
    for member in members:
        if member not in found and member not in {layout.PACKAGE, layout.DIGEST}:
            say(f"{member!r}: is there, but not listed")
    return found


def _digest(
    archive: zipfile.ZipFile, members: Collection[str], say: Callable[[str], None]
) -> None:
    if layout.DIGEST not in members:
        return
    digest = read_json(archive, layout.DIGEST, 1 << 20)
    with archive.open(layout.PACKAGE) as stream:
        value, _ = layout.hash_of(stream)  # type: ignore[arg-type]
    if not isinstance(digest, dict) or digest.get("path") != layout.PACKAGE:
        say(f"{layout.DIGEST}: path is not {layout.PACKAGE!r}")
    elif digest.get("hash") != value:
        say(f"{layout.DIGEST}: the hash is not that of {layout.PACKAGE}")


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
            wrong = _wrong_members(archive)
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
        complaints = _wrong_members(archive)
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
        package, self._resources = _package(self._zip, self._members, self._say)
        if package is None:
            return
        _page_lists(self._zip, self._members, self._say)
        for text in wrong_blocks(self._zip):
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
                capture = listed(found, name.removeprefix(layout.ARCHIVE), how)
                if capture is not None:
                    captures.fact(capture)
                    captures.add(capture)
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
