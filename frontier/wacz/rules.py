"""What WACZ 1.1.1 and Data Package 1.0 ask of names, package and pages.

Each MUST of the former is checked once, here or where the bytes are read
(`frontier.wacz.check`). One SHOULD is required, too, because a file cannot be verified
without it: ``datapackage-digest.json``.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
from typing import TYPE_CHECKING, Any

from frontier.cdx.lines import LINE_LIMIT, MOMENT
from frontier.wacz import layout
from frontier.wacz.layout import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import IO

MEMBERS_LIMIT = 100_000
"""Most members of a zip that is looked at."""
RATIO_LIMIT = 200
"""A member that inflates to more than this times its size is a zip bomb."""
SMALL = 1 << 20
"""Bytes that a member may inflate to however small it is."""

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


def names(archive: zipfile.ZipFile) -> list[str]:
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


def package(
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


def pages(
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
