"""Where things are in a WACZ (specification 1.1.1), and how they are read.

The list of pages has the HTML captures with status 200 or no status, and their titles.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii as _json
from pathlib import Path
from typing import IO, Any

from frontier.cdx.lines import LINE_LIMIT, MOMENT, Capture, parse
from frontier.cdx.sorting import Need
from frontier.dedupe.digest import in_hex
from frontier.errors import BadWacz
from frontier.files import open_input, require_ratio
from frontier.warc.records import dated

VERSION = "1.1.1"
SUFFIX = ".wacz"
WARCS = (".warc.gz", ".warc")
CDX = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
PACKAGE = "datapackage.json"
DIGEST = "datapackage-digest.json"
LEFT_OUT = "frontier_left_out"
"""Key of the package: names of WARC files that should be in the WACZ but are not."""
ARCHIVE = "archive/"
INDEXES = "indexes/"
INDEX = "indexes/index.cdx.gz"
INDEX_INDEX = "indexes/index.idx"
PAGES = "pages/pages.jsonl"
LOGS = "logs/"
JSON_LIMIT = 1 << 26
"""The longest package that is read, in bytes."""
PAGES_HEADER = {
    "format": "json-pages-1.0",
    "id": "pages",
    "title": "All Pages",
    "hasText": False,
}

UNSOUND: tuple[type[Exception], ...] = (
    EOFError,
    KeyError,
    RuntimeError,  # encrypted, or a compression that Python does not have
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What Python raises of a zip file that cannot be used."""

_NAME = re.compile(r"(?![^/]*:)[^\x00-\x1f\\]{1,1024}")
"""A colon is that of a drive or of a scheme in its first part; Scoop has times in file
names below ``raw/``."""


def is_safe(name: str) -> bool:
    """Whether *name* is a relative path that stays inside its directory."""
    parts = name.split("/")
    return bool(_NAME.fullmatch(name)) and not {"", ".", ".."} & set(parts)


def require_sound(info: zipfile.ZipInfo) -> None:
    """Refuse a member that nobody should open.

    Raises:
        ValueError: Its name leads out of the file, or it is packed in another way than
            a WACZ's members are, or is a bomb.
    """
    name, wrong = info.filename, ""
    if not is_safe(name.rstrip("/")):
        wrong = "a name that leads out of the file"
    elif info.flag_bits & 1:
        wrong = "is encrypted"
    elif info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        wrong = "neither stored nor deflated"
    try:
        require_ratio(info.file_size, info.compress_size)
    except ValueError as error:
        wrong = str(error)
    if wrong:
        raise ValueError(f"{name[:200]!r}: {wrong}")


@contextmanager
def unzipped(file: IO[bytes], name: object) -> Iterator[zipfile.ZipFile]:
    """The zip *file*, which is called *name*.

    Raises:
        BadWacz: It is not one, or damaged, or encrypted, or what is in it is wrong.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except UNSOUND as error:
        is_cut = isinstance(error, (EOFError, zipfile.BadZipFile, zlib.error))
        what = "not a sound zip file" if is_cut else "cannot be read"
        reason = str(error) or "a member is cut off"
        raise BadWacz(str(name), f"{what}: {reason}") from None


def hash_of(stream: Any) -> tuple[str, int]:
    """Return ``sha256:<hex>`` and the size of *stream*, which is at its start."""
    digest = hashlib.file_digest(stream, "sha256")
    return f"sha256:{digest.hexdigest()}", stream.tell()


def page_of(capture: Capture, seeds: frozenset[str]) -> bytes | None:
    """Return the line of *capture* in the list of pages; ``None`` if it has none."""
    if capture.title is None:
        return None
    url, date = capture.url, capture.date
    if not MOMENT.fullmatch(date):
        date = dated(capture.timestamp)
    named = hashlib.sha1(f"{url} {date}".encode(), usedforsecurity=False)
    text = f'{{"id": "{named.hexdigest()[:32]}", "url": {_json(url)}'
    text += f', "ts": {_json(date)}'
    if capture.title:
        text += f', "title": {_json(capture.title)}'
    if url in seeds:
        text += ', "seed": true'
    return f"{text}}}\n".encode()


def index_lines(archive: zipfile.ZipFile) -> Iterator[bytes]:
    """Yield the CDXJ lines of *archive*, in order."""
    for name in archive.namelist():
        if not (name.startswith(INDEXES) and name.endswith(CDX)):
            continue
        with archive.open(name) as packed:
            stream = gzip.GzipFile(fileobj=packed) if name.endswith(".gz") else packed
            while read := stream.readline(LINE_LIMIT):
                if not read.endswith(b"\n") and len(read) == LINE_LIMIT:
                    raise ValueError(f"{name}: a line over {LINE_LIMIT} bytes")
                if not read.startswith(b"!meta"):
                    yield read


def read_json(archive: zipfile.ZipFile, name: str) -> object:
    """Return the JSON in the member *name*.

    Raises:
        ValueError: It is not JSON, or longer than `JSON_LIMIT` bytes.
        KeyError: There is no such member.
    """
    with archive.open(name) as stream:
        data = stream.read(JSON_LIMIT + 1)
    if len(data) > JSON_LIMIT:
        raise ValueError(f"{name} is longer than {JSON_LIMIT} bytes")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from None


def originals(path: Path) -> Iterator[Need]:
    """Yield what the WACZ at *path* stores, in the form of a revisit's need.

    Raises:
        BadWacz: It cannot be read.
    """
    try:
        with open_input(path) as file, unzipped(file, path) as archive:
            for raw in index_lines(archive):
                found = parse(raw)
                if found.kind != "revisit":
                    yield Need(in_hex(found.digest), found.key, found.timestamp)
    except OSError as error:
        raise BadWacz(str(path), f"cannot be read: {error}") from error
