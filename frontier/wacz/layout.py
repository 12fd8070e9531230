"""What is where in a WACZ (specification 1.1.1), and which names are allowed.

The list of pages has the HTML captures with status 200 or none, and their titles.
"""

from __future__ import annotations

import hashlib
import re
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING

from frontier.cdx.cdxj_fields import title_in, title_of_resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

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
