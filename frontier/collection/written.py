"""What the WARC files of a collection's crawls have, to be held against its counts."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from frontier.collection.foreign_indexes import Capture, conserved
from frontier.dedupe.digest import spelled
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.warc.reader import records_in
from frontier.warc.records import NOT_MODIFIED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys
    from frontier.warc.reader import Found

CHUNK = 1_000
_CAPTURES = frozenset({"response", "resource", "revisit"})
_CRAWL = b"isPartOf: "


def counts_of(
    directory: Path,
    crawls: Collection[str],
    store: BlockingStore,
    keys: CollectionKeys,
) -> dict[str, Counter[str]]:
    """The counts that each of *crawls* has by its WARC files below *directory*.

    A file is read as far as its records are whole. What a revisit left out is told by
    the size that the index has of its original.

    Raises:
        OSError: A file cannot be read.
    """
    found: dict[str, Counter[str]] = {}
    for path in sorted(directory.rglob("*.warc.gz*")):
        chunk: list[Capture] = []
        for crawl_id, capture in _captures(path):
            if crawl_id in crawls:
                counts = found.setdefault(crawl_id, Counter())
                counts["totalUrls"] += 1
                counts["dupeUrls"] += capture.revisit
                if capture.revisit:
                    chunk.append(capture)
                if len(chunk) == CHUNK:
                    counts["conservedSize"] += conserved(store, keys, chunk)[0]
                    chunk = []
        if chunk:  # a file is of one crawl
            counts["conservedSize"] += conserved(store, keys, chunk)[0]
    return found


def _captures(path: Path) -> Iterator[tuple[str, Capture]]:
    """The crawl of each capture of *path*, and the capture."""
    crawl_id = ""
    with open_input(path) as file, suppress(BadWarc):
        for found in records_in(file, str(path)):
            if found.kind == "warcinfo":
                lines = found.block.splitlines()
                named = [one for one in lines if one.startswith(_CRAWL)]
                crawl_id = named[0][len(_CRAWL) :].decode() if named else ""
            elif found.kind in _CAPTURES:
                yield crawl_id, _capture(found)


def _capture(found: Found) -> Capture:
    """As a crawl has counted it: neither a 304 nor what was made later is a revisit."""
    get = found.headers.get
    is_revisit = found.kind == "revisit" and get("warc-profile") != NOT_MODIFIED
    given = get("warc-payload-digest")
    try:
        digest = spelled(given)
    except ValueError:
        digest = given
    is_revisit = is_revisit and not get("x-frontier-replaces")
    url = get("warc-target-uri")
    return Capture(digest, get("warc-date"), url, found.length, is_revisit)
