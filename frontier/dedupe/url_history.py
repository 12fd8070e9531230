"""What a URL answered last, so that the server can be asked whether it changed.

What always holds:

1.  An entry refers to an original that is on disk, and counts only while the
    original's crawl is the reader's or a committed one.
2.  Nothing in an entry is trusted: sizes are capped, validators are one printable
    line, and the file is a plain name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.dedupe.digest import parse, spelled
from frontier.dedupe.digest_index import decode, encode
from frontier.dedupe.match_keys import url_key
from frontier.dedupe.url_index import Visibility
from frontier.store.client import Call
from frontier.store.keys import collection_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Exchange, Original, Stored
    from frontier.store.client import BlockingStore

_UNSAFE_NAME = re.compile(r"^[.-]|[^A-Za-z0-9._-]")
_LIMIT = 16_384
"""Longest entry that is read, in bytes."""
_VALIDATOR = re.compile(r"[\x20-\x7e]{1,1000}")
_HEADER = re.compile(
    rb"^(etag|last-modified)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Past:
    """The last capture of a URL that had a validator, and its original."""

    url: str
    original: Original
    digest: str
    etag: str
    modified: str
    """Value of Last-Modified; this or the ETag may be empty, not both."""
    file: str
    """Name of the WARC file with the original's record."""
    offset: int


class History:
    """The last captures of the URLs of a collection, as one crawl sees them."""

    def __init__(self, store: BlockingStore, name: str, crawl_id: str) -> None:
        self._store = store
        self._key = collection_keys(store, name).history()
        self._visibility = Visibility(store, name, crawl_id)

    def lookup(self, url: str) -> Past | None:
        """What *url* answered last, if the reader may refer to it.

        Raises:
            StoreUnavailable: Ask again later.
        """
        value = self._store.call(Call.command("HGET", self._key, url_key(url, "")))
        past = _read(value, url) if value and len(value) <= _LIMIT else None
        if past is None or not self._visibility.of([past.original.crawl_id]):
            return None
        return past

    def add(self, captures: Sequence[Past]) -> bool:
        """Remember *captures*, in place of what was known of their URLs; true.

        Raises:
            StoreUnavailable: Nothing is known about the effect; repeat it.
        """
        self._store.run(
            [
                Call.command("HSET", self._key, url_key(past.url, ""), _write(past))
                for past in captures
            ]
        )
        return True


def past_of(
    exchange: Exchange, digest: str, stored: Stored, original: Original
) -> Past | None:
    """What is remembered of *exchange*, which was stored as *original*.

    ``None`` if it has no validator, or is no answer to a plain GET, or became a
    revisit: then it is not known in which file its body is.
    """
    if stored.original is not None:
        return None
    if not exchange.request_head.startswith(b"GET "):
        return None
    found = {
        name.lower(): value.decode("latin-1").strip()
        for name, value in _HEADER.findall(exchange.response_head)
    }
    etag, modified = (
        value if _VALIDATOR.fullmatch(value := found.get(name, "")) else ""
        for name in (b"etag", b"last-modified")
    )
    if not (etag or modified):
        return None
    return Past(
        url=exchange.url,
        original=original,
        digest=digest,
        etag=etag,
        modified=modified,
        file=stored.file,
        offset=stored.offset,
    )


def _write(past: Past) -> str:
    o = past.original
    facts = {
        "url": past.url,
        "crawl": o.crawl_id,
        "original": encode(o.date, o.url, o.length),
        "minted": o.minted,
        "digest": past.digest,
        "etag": past.etag,
        "modified": past.modified,
        "file": past.file,
        "offset": past.offset,
    }
    return json.dumps(facts, separators=(",", ":"))


def _read(value: bytes, url: str) -> Past | None:
    try:
        facts: dict[str, Any] = json.loads(value)
        known = decode(str(facts["original"]))
        digest = spelled(parse(str(facts["digest"])))
        file, offset = str(facts["file"]), int(facts["offset"])
        etag, modified = str(facts["etag"]), str(facts["modified"])
        owner, minted = str(facts["crawl"]), facts["minted"] is True
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    safe = file.endswith(".warc.gz") and not _UNSAFE_NAME.search(file)
    valid = all(not each or _VALIDATOR.fullmatch(each) for each in (etag, modified))
    if known is None or facts.get("url") != url or not (safe and valid):
        return None
    original = known.original(owner, minted=minted)
    return Past(url, original, digest, etag, modified, file, max(offset, 0))
