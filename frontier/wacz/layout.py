"""What is where in a WACZ (specification 1.1.1), and which names are allowed."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

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
