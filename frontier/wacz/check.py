"""Whether a WACZ conforms to the specification and to what it says about itself.

Nothing in it is trusted: names, sizes, hashes, index entries and revisits are each
compared with the bytes. Memory stays flat, because members are read in blocks and
captures are compared in a file on disk.

Each MUST of WACZ 1.1.1 is checked. One SHOULD is also required, because a file cannot
be verified without it: ``datapackage-digest.json``.

wabac.js does not inflate the whole ``index.cdx.gz``. It reads the ``.idx`` (a line per
gzip member: key, offset, length), finds the member that may have a URL, and inflates
only that. So if the ``.idx`` is wrong, captures are not found although the index has
them. pywb unpacks the index when a WACZ is added, and does not read ``.idx``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from frontier.cdx.lines import LINE_LIMIT, MOMENT, captures_in, parse
from frontier.cdx.sorting import Captures, captures_at
from frontier.errors import BadWacz, BadWarc
from frontier.files import open_input
from frontier.wacz import layout
from frontier.wacz.layout import index_lines, originals, read_json
from frontier.warc.reader import LINE_END, Members, parts_of, records_of, telling

BLOCK_LIMIT = 64 << 20
"""The largest gzip member of an index that is read, in bytes; ours have some 50 kB."""
FORMAT = "cdxj-gzip-1.0"
COMPLAINTS_LIMIT = 100
MEMBERS_LIMIT = 100_000
"""The most members that a zip may have to be looked at."""

_NUMBER = re.compile(r"[0-9]{1,15}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")


def check(
    path: Path,
    against: Sequence[Path] = (),
    name: str | None = None,
    note: Callable[[str], object] = lambda _: None,
) -> list[str]:
    """Return what is wrong with the WACZ at *path*; empty if nothing is.

    *name* is the name that it will have, if that is not its present one.

    A revisit has to find its original in the file itself or in a WACZ that
    ``relation.requires`` names. Files of *against* that it names are opened; others are
    assumed to have the original. *note* is called with that, and with a signature: what
    it is of is compared, the signature itself is not verified. A complaint about a
    revisit begins with ``unresolved``, one about a WARC file that was left out when the
    WACZ was made with ``incomplete``.
    """
    complaints: list[str] = []
    if not (name or path.name).endswith(layout.SUFFIX):
        complaints.append(f"its name does not end in {layout.SUFFIX}")
    try:
        with open_input(path) as file, layout.unzipped(file, path) as archive:
            # What came before an error stays in the list.
            complaints.extend(
                islice(_wrong_in(archive, against, note), COMPLAINTS_LIMIT)
            )
    except BadWacz as error:
        complaints.append(error.reason)
    except OSError as error:
        complaints.append(f"cannot be read: {error.strerror or error}")
    return complaints[:COMPLAINTS_LIMIT]


def _wrong_members(archive: zipfile.ZipFile) -> Iterator[str]:
    """Faults because of which the members of *archive* are not opened at all."""
    infos = archive.infolist()
    if len(infos) > MEMBERS_LIMIT:
        yield f"it has {len(infos)} members; at most {MEMBERS_LIMIT} are read"
        return
    seen, end = set(), 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        name = info.filename
        if name in seen:
            yield f"{name!r}: is there twice"
        seen.add(name)
        try:
            layout.require_sound(info)
        except ValueError as error:
            yield str(error)
        if info.header_offset < end:
            yield f"{name!r}: shares bytes with another member"
        end = info.header_offset + info.compress_size


def _wrong_in(
    archive: zipfile.ZipFile,
    against: Sequence[Path],
    note: Callable[[str], object],
) -> Iterator[str]:
    """What is wrong with *archive*."""
    wrong = list(_wrong_members(archive))
    yield from wrong
    if wrong:
        return
    members = [name for name in archive.namelist() if not name.endswith("/")]
    yield from _wrong_files(archive, members)
    if layout.PACKAGE not in members:
        return
    package = read_json(archive, layout.PACKAGE)
    if not isinstance(package, dict):
        yield f"{layout.PACKAGE} is not a JSON object"
        return
    if package.get("profile") != "data-package":
        yield f"{layout.PACKAGE}: profile is not 'data-package'"
    if not isinstance(package.get("wacz_version"), str):
        yield f"{layout.PACKAGE}: wacz_version is missing"
    left_out = package.get(layout.LEFT_OUT)
    for each in left_out if isinstance(left_out, list) else []:
        yield f"incomplete: {each!s:.200} was left out when it was made"
    resources: dict[str, dict[str, Any]] = {}
    yield from _wrong_resources(package.get("resources"), members, resources)
    if layout.DIGEST in members:
        yield from _wrong_digest(archive, note)
    yield from _wrong_blocks(archive)
    with captures_at(None) as captures:
        for name in members:
            yield from _wrong_member(archive, name, resources.get(name), captures)
        yield from _wrong_index(archive, captures)
        yield from _wrong_revisits(captures, package, against, note)


def _wrong_files(archive: zipfile.ZipFile, members: Sequence[str]) -> Iterator[str]:
    """Files that are missing, or not stored in the way that readers need."""
    for name in (layout.PACKAGE, layout.DIGEST, layout.PAGES):
        if name not in members:
            yield f"{name} is missing"
    for folder, ends in (
        (layout.ARCHIVE, layout.WARCS),
        (layout.INDEXES, layout.CDX),
    ):
        if not any(n.startswith(folder) and n.endswith(ends) for n in members):
            yield f"{folder} is missing, or has no {' or '.join(ends)}"
    for name in members:
        if name.startswith("pages/") and name.endswith(".jsonl"):
            with archive.open(name) as stream:
                if wrong := _wrong_page(stream):
                    yield name + wrong
        is_packed = name.startswith(layout.INDEXES) and name.endswith(".gz")
        is_read_in_parts = is_packed or name.startswith(layout.ARCHIVE)
        is_stored = archive.getinfo(name).compress_type == zipfile.ZIP_STORED
        if is_read_in_parts and not is_stored:
            yield f"{name!r}: is compressed in the zip"


def _wrong_blocks(archive: zipfile.ZipFile) -> Iterator[str]:
    """What is wrong with the ``.idx`` files of *archive*, and indexes without one."""
    names = [n for n in archive.namelist() if n.startswith(layout.INDEXES)]
    missing = {n for n in names if n.endswith((".cdx.gz", ".cdxj.gz"))}
    for name in names:
        if name.endswith(".idx"):
            try:
                missing.discard(_member_of(archive, name))
            except (ValueError, KeyError, RecursionError) as error:
                yield f"{name}: {error.args[0]}"
                return
    for name in sorted(missing):
        yield f"{name}: no .idx leads to its lines"


def _member_of(archive: zipfile.ZipFile, name: str) -> str:
    """The member that the ``.idx`` *name* leads to; check that its lines cover it all.

    Raises:
        ValueError: They do not, or one of them is wrong.
        KeyError: There is no such member.
    """
    member, stream, at, last = "", None, 0, b""

    def take(raw: bytes) -> None:
        nonlocal member, stream, at, last
        key, filename, offset, length, digest = _entry(raw)
        if filename and stream is None:
            member = layout.INDEXES + filename
        if raw.startswith(b"!meta"):
            return
        if filename and member != layout.INDEXES + filename:
            raise ValueError(f"is of a second file {filename[:200]!r}")
        stream = stream or archive.open(member)
        if key < last:
            raise ValueError("is not sorted")
        if offset != f"{at}":
            raise ValueError(f"offset {offset[:40]}, but {at} is next")
        size = int(length) if _NUMBER.fullmatch(length) else 0
        data = stream.read(min(size, BLOCK_LIMIT))
        if not 0 < size == len(data):
            raise ValueError(f"length {length[:40]}, and {len(data)} bytes are there")
        first = _first_line(data)
        if not key or not first.startswith(key + b" "):
            raise ValueError(f"its member begins with {first[:100]!r}")
        if digest and digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
            raise ValueError("the digest differs")
        last, at = key, at + size

    with archive.open(name) as lines:
        for number, raw in enumerate(iter(lambda: lines.readline(LINE_LIMIT), b""), 1):
            try:
                take(raw)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from None
    if stream is None:
        raise ValueError("has no lines")
    if stream.read(1):
        raise ValueError(f"{member} goes on after the last of its members")
    return member


def _entry(raw: bytes) -> list[Any]:
    """Key, file, offset, length and digest of the line *raw* of an ``.idx``.

    Raises:
        ValueError: It is no such line, or of another format than `FORMAT`.
    """
    columns = raw.rstrip(b"\n").split(b"\t")
    if len(columns) >= 4:  # as the Internet Archive and pywb write them
        return [columns[0], *(c.decode() for c in columns[1:4]), ""]
    key, brace, rest = raw.partition(b" {")
    facts = json.loads(brace + rest)
    if raw.startswith(b"!meta") and facts.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    names = ("filename", "offset", "length", "digest")
    return [key, *(str(facts.get(name, "")) for name in names)]


def _first_line(data: bytes) -> bytes:
    """The first line in *data*, which is one gzip member.

    Raises:
        ValueError: It is not exactly one gzip member.
    """
    members = Members("", [data])
    with contextlib.suppress(BadWarc):
        members.next()
        first = members.take_until(LINE_END, LINE_LIMIT)
        members.end()
        if members.size == len(data):
            return first
    raise ValueError("not exactly one gzip member is there")


def _wrong_page(stream: IO[bytes]) -> str:
    """What is wrong with a list of pages; empty if nothing is."""
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
            return f", line {number}: no {' and '.join(wanted)}"
        if number > 1 and not MOMENT.fullmatch(page["ts"]):
            return f", line {number}: ts is not a date and time of RFC 3339"
    return "" if number else " is empty"


def _wrong_resources(
    said: Any, members: Sequence[str], found: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """What is wrong with the list of resources *said*; put its entries into *found*."""
    if not isinstance(said, list) or not said:
        yield f"{layout.PACKAGE}: resources is not a list"
        return
    for each in said:
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str):
            yield f"{layout.PACKAGE}: a resource without a path"
        elif path in found:
            yield f"{path[:200]!r}: is listed twice"
        elif path not in members:
            yield f"{path[:200]!r}: is listed, but not there"
        else:
            found[path] = each
    for member in members:
        if member not in {layout.PACKAGE, layout.DIGEST, *found}:
            yield f"{member!r}: is there, but not listed"


def _wrong_digest(
    archive: zipfile.ZipFile, note: Callable[[str], object]
) -> Iterator[str]:
    """What is wrong with the hash of the package; *note* gets what is not verified."""
    digest = read_json(archive, layout.DIGEST)
    with archive.open(layout.PACKAGE) as stream:
        value, _ = layout.hash_of(stream)
    if not isinstance(digest, dict) or digest.get("path") != layout.PACKAGE:
        yield f"{layout.DIGEST}: path is not {layout.PACKAGE!r}"
    elif digest.get("hash") != value:
        yield f"{layout.DIGEST}: the hash is not that of {layout.PACKAGE}"
    elif (signed := digest.get("signedData")) is not None:
        if not isinstance(signed, dict) or signed.get("hash") != value:
            yield f"{layout.DIGEST}: what was signed is another hash"
        else:
            who = signed.get("domain") or "a key without a domain"
            note(f"it is signed by {who!s:.200}; the signature is not verified")


def _wrong_member(
    archive: zipfile.ZipFile,
    name: str,
    said: dict[str, Any] | None,
    captures: Captures,
) -> Iterator[str]:
    """What is wrong with *name*, given what is *said* of it; note a WARC's captures."""
    digest = hashlib.sha256()
    with archive.open(name) as stream:
        blocks = telling(parts_of(stream), digest.update)
        if name.startswith(layout.ARCHIVE) and name.endswith(layout.WARCS):
            file, wrong = name.removeprefix(layout.ARCHIVE), list[BadWarc]()
            try:
                records = records_of(name, blocks)
                for capture in captures_in(records, file, wrong.append):
                    captures.note("fact", capture)
                    captures.add(capture)
            except BadWarc as error:
                wrong.append(error)
            yield from map(str, wrong[:COMPLAINTS_LIMIT])
        for _ in blocks:  # hash also what was not read of a damaged WARC file
            pass
    if said is None:
        return
    if not _HASH.fullmatch(str(said.get("hash"))):
        yield f"{name!r}: its hash is not sha256:<hex>"
    elif said["hash"] != f"sha256:{digest.hexdigest()}":
        yield f"{name!r}: its hash is another"
    size = archive.getinfo(name).file_size
    if said.get("bytes") != size:
        yield f"{name!r}: has {size} bytes, not {said.get('bytes')!r:.40}"


def _wrong_index(archive: zipfile.ZipFile, captures: Captures) -> Iterator[str]:
    """Compare the index with the records, by what each says of a capture."""
    last, is_sorted = b"", True
    for raw in index_lines(archive):
        if raw < last and is_sorted:  # of many such lines the first says it all
            is_sorted = False
            yield f"the index is not sorted, first at {raw[:200]!r}"
        last = raw
        try:
            captures.note("claim", parse(raw))
        except ValueError as error:
            yield f"index: {error}: {raw[:200]!r}"
    if not last:
        yield "the index is empty"
    yield from captures.differences(COMPLAINTS_LIMIT)


def _wrong_revisits(
    captures: Captures,
    package: dict[str, Any],
    against: Sequence[Path],
    note: Callable[[str], object],
) -> Iterator[str]:
    """Revisits without an original, and what is wrong with *package*'s requirements."""
    relation = package.get("relation")
    needed = relation.get("requires") if isinstance(relation, dict) else None
    named: dict[str, dict[str, Any]] = {}
    if needed is not None and not isinstance(needed, list):
        yield "relation.requires: is not a list"
    for each in needed if isinstance(needed, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("filename"), str):
            yield "relation.requires: an entry without a filename"
            continue
        name = each["filename"]
        if name in named:
            yield f"relation.requires: {name[:200]!r} is there twice"
        named[name] = each
        if not _HEX.fullmatch(str(each.get("hash"))):
            yield f"relation.requires: {name[:200]!r} without a SHA-256 in hex"
    opened = [path for path in against if path.name in named]
    for path in opened:
        with open_input(path) as stream:
            value, size = layout.hash_of(stream)
        said = named[path.name]
        if value.removeprefix("sha256:") != said.get("hash"):
            yield f"relation.requires: {path} has another hash"
        if said.get("size") not in {None, size}:
            yield f"relation.requires: {path} has another size"
        for held in originals(path):
            captures.hold(held.digest, held.key)
    unresolved = list(captures.unresolved())
    if unresolved and len(opened) < len(named):
        away = sorted(named.keys() - {path.name for path in opened})
        note(
            f"{len(unresolved):,} revisits are believed to have their originals in "
            f"{', '.join(away)}, which was not looked at (--against)"
        )
        return
    for file, offset, need in unresolved:
        if need.digest:
            yield f"unresolved revisit in {file} at byte {offset}"
        else:
            yield f"unresolved revisit without digest in {file} at {offset}"
