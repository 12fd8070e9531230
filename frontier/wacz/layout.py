"""What is where in a WACZ (specification 1.1.1), and how it is read.

The list of pages has the HTML captures with status 200 or none, and their titles.

The canonicalization rules that a WACZ carries, in a member of its own.

``rules/canonicalization.json`` is listed among the resources as every member is,
and validators and replay tools skip it. It has, for each rule set of the
WARC files, name, version, SHA-256, the set itself, and the files under it::

    {"canonicalization": [{"name": ..., "version": 1, "sha256": ..., "rules": {...},
                           "files": ["a.warc.gz"]}]}
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zipfile
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, Any

from frontier.cdx.declared_rules import FIELD, declared_in
from frontier.cdx.lines import LINE_LIMIT, REVISIT, parse, title_in, title_of_resource
from frontier.cdx.sorting import Need, canonical
from frontier.errors import BadWacz, BadWarc
from frontier.files import open_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from frontier.cdx.declared_rules import Declared
    from frontier.warc.reader import Found


VERSION = "1.1.1"
SUFFIX = ".wacz"
WARCS = (".warc.gz", ".warc")
CDX = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
PACKAGE = "datapackage.json"
DIGEST = "datapackage-digest.json"
ARCHIVE = "archive/"
INDEXES = "indexes/"
INDEX = "indexes/index.cdx.gz"
INDEX_INDEX = "indexes/index.idx"
PAGES = "pages/pages.jsonl"
LOGS = "logs/"
PAGES_HEADER = {
    "format": "json-pages-1.0",
    "id": "pages",
    "title": "All Pages",
    "hasText": False,
}
BLOCK = 1 << 20

_NAME = re.compile(r"[^\x00-\x1f\\:]{1,1024}")


def is_safe(name: str) -> bool:
    """Whether *name* is a relative path that stays inside its directory."""
    parts = name.split("/")
    return bool(_NAME.fullmatch(name)) and not {"", ".", ".."} & set(parts)


def blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield what *read* returns until it returns nothing."""
    while block := read(BLOCK):
        yield block


def hash_of(stream: BinaryIO) -> tuple[str, int]:
    """Return ``sha256:<hex>`` and the size of the rest of *stream*."""
    digest, size = hashlib.sha256(), 0
    for block in blocks(stream.read):
        digest.update(block)
        size += len(block)
    return f"sha256:{digest.hexdigest()}", size


def page_of(found: Found, seeds: frozenset[str]) -> bytes | None:
    """Return the line of a page; ``None`` if the capture is not a page."""
    if found.kind == "resource":
        title = title_of_resource(found.headers.get("content-type"), found.block)
    elif found.kind in {"response", "revisit"}:
        title = title_in(found.block)
    else:
        return None
    if title is None:
        return None
    url = found.headers.get("warc-target-uri").strip("<>")
    return line(url, found.headers.get("warc-date"), _json(title), url in seeds)


def line(url: str, date: str, title: str, is_seed: bool) -> bytes:
    """Return the line of a page; its *title* is a JSON string."""
    text = f'{{"id": "{_identifier(f"{url} {date}")}", "url": {_json(url)}'
    text += f', "ts": {_json(date)}'
    if title != '""':
        text += f', "title": {title}'
    if is_seed:
        text += ', "seed": true'
    return f"{text}}}\n".encode()


def _identifier(name: str) -> str:
    """A name of 32 digits that follows from the URL and the date."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:32]


def index_lines(archive: zipfile.ZipFile) -> Iterator[bytes]:
    """Yield the CDXJ lines of *archive*, in order."""
    for name in archive.namelist():
        if not name.startswith(INDEXES):
            continue
        if not name.endswith(CDX):
            continue
        with archive.open(name) as packed:
            stream = gzip.GzipFile(fileobj=packed) if name.endswith(".gz") else packed
            while read := stream.readline(LINE_LIMIT):
                if not read.endswith(b"\n") and len(read) == LINE_LIMIT:
                    raise ValueError(f"{name}: a line over {LINE_LIMIT} bytes")
                if not read.startswith(b"!meta"):
                    yield read


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


def originals(path: Path) -> Iterator[Need]:
    """Yield what the WACZ at *path* stores, as a revisit would need it.

    Raises:
        BadWacz: It cannot be read.
    """
    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            for raw in index_lines(archive):
                found = parse(raw)
                if found.mime != REVISIT:
                    yield Need(canonical(found.digest), found.key, found.timestamp)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise BadWacz(str(path), f"cannot be read: {error}") from error


CANONICALIZATION = "rules/canonicalization.json"
MAX_BYTES = 16 << 20


def canonicalization_members(warcs: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Name and content of what a WACZ of *warcs* has of their rules.

    Nothing if no file says its rules. Only the first records of each are read.

    Raises:
        BadWarc: A file is cut off before its first capture, or is none.
        OSError: A file cannot be read.
    """
    said = []
    for path in warcs:
        with open_input(path) as stream:
            said.append((path.name, declared_in(str(path), stream)))
    sets = _sets(said)
    if sets:
        yield CANONICALIZATION, json.dumps({FIELD: sets}, indent=2).encode()


def canonicalization_faults(archive: zipfile.ZipFile) -> list[str]:
    """What is wrong with the member: a digest, or what its WARC files say.

    A WACZ without it is sound: other tools write none.
    """
    try:
        sets = listed(archive)
    except (ValueError, RecursionError) as error:
        return [f"{CANONICALIZATION}: {error}"]
    wrong: list[str] = []
    by_file: dict[str, str] = {}
    for each in sets:
        text = json.dumps(each["rules"], sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() != each["sha256"]:
            wrong.append(
                f"{CANONICALIZATION}: the rules {each['name']!r:.100} have another hash"
            )
        by_file |= dict.fromkeys(map(str, each["files"]), str(each["sha256"]))
    there = set(archive.namelist())
    for file, digest in by_file.items():
        name = f"{ARCHIVE}{file}"
        if name not in there:
            wrong.append(f"{CANONICALIZATION}: {file[:200]!r} is not there")
            continue
        try:
            with archive.open(name) as stream:
                found = declared_in(name, stream)
        except BadWarc:
            continue  # which is reported for the file itself
        if found.digest != digest:
            wrong.append(f"{CANONICALIZATION}: {file[:200]!r} says {found.label}")
    return wrong


def _sets(said: Iterable[tuple[str, Declared]]) -> list[dict[str, Any]]:
    sets: dict[str, dict[str, Any]] = {}
    for file, one in said:
        if not one.name:
            continue
        rules = json.loads(one.text) if one.text else None
        facts = {"name": one.name, "version": one.version, "sha256": one.digest}
        known = sets.setdefault(one.digest, {**facts, "rules": rules, "files": []})
        known["rules"] = known["rules"] or rules
        known["files"].append(file)
    return [one for one in sets.values() if one["rules"] is not None]


def listed(archive: zipfile.ZipFile) -> list[dict[str, Any]]:
    """The rule sets that a WACZ carries, as in the module's text; none, if so.

    Raises:
        ValueError: The member is not what it has to be.
    """
    if CANONICALIZATION not in archive.namelist():
        return []
    if archive.getinfo(CANONICALIZATION).file_size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    given = json.loads(archive.read(CANONICALIZATION))
    found = given.get(FIELD) if isinstance(given, dict) else None
    if not isinstance(found, list) or not all(
        isinstance(each, dict)
        and isinstance(each.get("files"), list)
        and {"name", "version", "sha256", "rules"} <= each.keys()
        for each in found
    ):
        raise ValueError("it is not a list of rules and files")
    return found
