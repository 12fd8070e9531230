"""Writing a batch of exchanges: digest, look up, append, sync, index.

What always holds:

1.  A digest enters the index after its response is on disk, never before; and
    a `Stored` is returned after both. (With fsync ``close``, "on disk" means handed
    to the operating system: it survives this process, not a power cut.)
2.  A revisit refers to an original in the index, or to a response before it in the
    same batch. That precedes it in the file, or is in a file closed before: a file
    cut off at any record never has a revisit without its original.
3.  A batch is written whole, in order. If an `OSError` interrupts it, it is rolled
    back and written again.

Each batch costs one lookup, one sync (or one per exchange, by the setting) and one
addition to the index. While the disk or the index fails, it is tried again after 0.1 s,
then after longer and longer pauses up to 2 s, until it works or the archive is stopped:
a stopped one stores what it has as originals, without the index.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from frontier.dedupe.cdx_lookup import Asked
from frontier.dedupe.digest_index import Entry
from frontier.dedupe.revisit_policy import URL_KEY, Item, Rules, Statistics
from frontier.dedupe.url_history import last_capture_of
from frontier.errors import StoreUnavailable, WriterStopped
from frontier.model import Original
from frontier.warc.content_coding import decoded
from frontier.warc.records import target_uri

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from frontier.dedupe.cdx_lookup import CdxServers
    from frontier.dedupe.digest_index import Index
    from frontier.dedupe.url_history import History, LastCapture
    from frontier.model import Exchange, Outlinks, Stored
    from frontier.warc.cdxj_sidecar import Listing
    from frontier.warc.crawl_log import CrawlLog
    from frontier.warc.disk_space import Room
    from frontier.warc.file_rotation import WarcWriter

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0
"""Seconds between two attempts: at first, and at most."""

T = TypeVar("T")


class Fsync(StrEnum):
    """When records are forced to disk."""

    RECORD = "record"
    BATCH = "batch"
    CLOSE = "close"


@dataclass(slots=True)
class Counters:
    """What was written. Only the writer thread changes them; anyone may read."""

    exchanges: int = 0
    originals: int = 0
    """Payloads that might have been revisits and were stored in full."""
    revisits: int = 0
    original_bytes: int = 0
    """Payload bytes of the originals, before compression."""
    revisit_bytes: int = 0
    """Payload bytes that the revisits left out, before compression."""
    conserved_bytes: int = 0
    """By how much smaller the revisits' records are than their originals'."""
    records: int = 0
    """Of all types, the warcinfo records included."""
    written_bytes: int = 0
    """Compressed, as in the files."""
    files: int = 0
    """That were begun."""
    lookup_seconds: float = 0.0
    """Time spent waiting for the index's answers to lookups."""
    unmodified: int = 0
    """304s that we asked for; revisits, too, but of no payload that was sent."""
    statistics: Statistics = field(default_factory=Statistics)
    cdx: Asked = field(default_factory=Asked)
    """What the CDX servers were asked for."""

    def report(self) -> dict[str, int]:
        """All of it that the crawl's report has, as whole numbers."""
        seen, cdx = self.statistics, self.cdx
        return {
            "originals": self.originals,
            "revisits": self.revisits,
            "original_bytes": self.original_bytes,
            "revisit_bytes": self.revisit_bytes,
            "written_bytes": self.written_bytes,
            "files": self.files,
            "handled": seen.handled.payloads,
            "handled_bytes": seen.handled.bytes,
            "new_payloads": seen.new.payloads,
            "new_bytes": seen.new.bytes,
            "exact_url": seen.exact_url.payloads,
            "exact_url_bytes": seen.exact_url.bytes,
            "canonical_url": seen.canonical_url.payloads,
            "canonical_url_bytes": seen.canonical_url.bytes,
            "digest": seen.digest.payloads,
            "digest_bytes": seen.digest.bytes,
            "lookup_us": int(self.lookup_seconds * 1e6),
            "unmodified": self.unmodified,
            "cdx_asked": cdx.asked,
            "cdx_found": cdx.found,
            "cdx_failed": cdx.failed,
            "cdx_us": int(cdx.seconds * 1e6),
        }


@dataclass(frozen=True, slots=True)
class ArchiveConfig:
    """How exchanges are archived, and who takes part beside the files and the index."""

    fsync: str = Fsync.BATCH
    rules: Rules = field(default_factory=Rules)
    """What becomes a revisit."""
    decode: bool = False
    """Whether bodies are stored without their Content-Encoding."""
    history: History | None = None
    """Gets what URLs answered."""
    servers: CdxServers | None = None
    """Are asked for what the index does not know."""
    listing: Listing | None = None
    room: Room | None = None
    log: CrawlLog | None = None
    """Gets a line of each attempt."""


class BatchWriter:
    """Writes batches of exchanges with one `WarcWriter` and one `Index`.

    Once *stopping* is set, nothing is waited for any more.
    """

    def __init__(
        self,
        writer: WarcWriter,
        index: Index,
        stopping: threading.Event,
        config: ArchiveConfig,
    ) -> None:
        self.counters = Counters()
        if config.servers is not None:
            self.counters.cdx = config.servers.asked
        self.blocked = False
        """Whether an `OSError` is being waited out."""
        self.unindexed = 0
        """How many originals on disk the index never got."""
        self._writer = writer
        self._index = index
        self._crawl_id = writer.config.crawl_id
        self._stopping = stopping
        self._fsync = Fsync(config.fsync)
        self._decode = config.decode
        self._rules = config.rules
        self._history = config.history
        self._listing = config.listing
        self._servers = config.servers
        limited = config.room is not None and config.room.is_limited
        self._room = config.room if limited else None
        self._index_given_up = False

    def write(self, exchanges: Sequence[Exchange]) -> list[Stored]:
        """Store *exchanges* and return, for each, where it is.

        Raises:
            WriterStopped: The disk failed and *stopping* is set.
        """
        items = [
            self._rules.weigh(decoded(x) if self._decode or x.made is not None else x)
            for x in exchanges
        ]
        known = self._lookup(items)
        known |= self._ask_servers(items, known)
        stored = self._store(items, known)
        self._add(items, stored)
        self._count(items, stored)
        return stored

    def write_outlinks(self, found: Sequence[tuple[Outlinks, Stored]]) -> None:
        """Write a record of its links for each page of *found*.

        Raises:
            WriterStopped: The disk failed and *stopping* is set.
        """
        size = sum(len(url) for links, _ in found for url, _ in links.links)
        attempt = 0
        while True:
            try:
                if attempt:
                    self._writer.rollback()
                self._claim(size)
                for links, page in found:
                    self._writer.append_outlinks(links, page)
                self._settle()
            except OSError as error:
                self._wait_for_disk(attempt, error)
                attempt += 1
            else:
                break
        if attempt:
            self._disk_works_again()
        self._count_written()

    def _lookup(self, items: list[Item]) -> dict[str, Original]:
        digests = list(dict.fromkeys(key for item in items for key in item.keys))
        if not digests:
            return {}
        return self._ask(lambda: self._timed_lookup(digests)) or {}

    def _ask_servers(
        self, items: list[Item], known: dict[str, Original]
    ) -> dict[str, Original]:
        """What CDX servers have of that which the index does not know."""
        if self._servers is None or self._stopping.is_set():
            return {}
        asked = [
            (item, item.wanted())
            for item in items
            if item.eligible and item.found(known)[1] is None
        ]
        answers = self._servers.lookup([wanted for _, wanted in asked])
        return {
            key: answers[wanted][1]
            for item, wanted in asked
            if wanted in answers
            for key in item.keys
            if item.further.get(key, item.digest_hex) == answers[wanted][0]
        }

    def _timed_lookup(self, digests: list[str]) -> dict[str, Original]:
        asked = time.perf_counter()
        try:
            return self._index.lookup(digests)
        finally:
            self.counters.lookup_seconds += time.perf_counter() - asked

    def _store(self, items: list[Item], known: dict[str, Original]) -> list[Stored]:
        """Append *items* and settle them, however often it takes."""
        stored: list[Stored] = []
        attempt = 0
        size = sum(len(x.exchange.response_body) for x in items) if self._room else 0
        while True:
            try:
                if attempt:
                    self._writer.rollback()
                    self._forget_undone(stored)
                if not stored:
                    self._claim(size)
                self._append(items, known, stored)
                self._settle()
            except OSError as error:
                self._wait_for_disk(attempt, error)
                attempt += 1
            else:
                break
        if attempt:
            self._disk_works_again()
        return stored

    def _forget_undone(self, stored: list[Stored]) -> None:
        """Take out of *stored* what was rolled back."""
        while stored and not self._writer.keeps(stored[-1]):
            undone = stored.pop()
            if self._listing is not None:
                self._listing.forget(undone)

    def _disk_works_again(self) -> None:
        self.blocked = False
        logger.info("WARC files in %s are written again", self._writer.config.directory)

    def _claim(self, size: int) -> None:
        """Have room for *size* bytes; or close the file, so that it can be moved."""
        if self._room is not None:
            try:
                self._room.claim(size)
            except OSError:
                self._writer.close()
                raise

    def _append(
        self, items: list[Item], known: dict[str, Original], stored: list[Stored]
    ) -> None:
        """Write what *stored* lacks of *items*, and add it to *stored*."""
        originals = dict(known)
        for position, item in enumerate(items):
            if position >= len(stored):
                stored.append(self._append_one(item, *item.found(originals)))
            if item.eligible and stored[position].original is None:
                made = self._original(item, stored[position])
                for key in item.keys:
                    originals.setdefault(key, made)

    def _append_one(self, item: Item, digest: str, original: Original | None) -> Stored:
        exchange = item.exchange
        stored = self._writer.append(exchange, digest, original)
        if self._fsync is Fsync.RECORD:
            self._writer.sync()
        if self._listing is not None:
            self._listing.note(exchange, stored)
        return stored

    def _original(self, item: Item, stored: Stored) -> Original:
        url = target_uri(item.exchange.url)
        return Original(url, stored.date, self._crawl_id, stored.length, minted=True)

    def _settle(self) -> None:
        if self._fsync is Fsync.CLOSE:
            self._writer.flush()
        else:
            self._writer.sync()

    def _add(self, items: list[Item], stored: list[Stored]) -> None:
        captures = [
            (item, at) for item, at in zip(items, stored, strict=True) if item.eligible
        ]
        new = [self._entry(item, at) for item, at in captures if at.original is None]
        if new and not self._ask(lambda: self._add_all(new)):
            self.unindexed += len(new)
        history = self._history
        if history is not None:
            past = [self._past(item, at) for item, at in captures]
            known = [each for each in past if each is not None]
            if known:
                self._ask(lambda: history.add(known))

    def _entry(self, item: Item, at: Stored) -> Entry:
        url = target_uri(item.exchange.url)
        key = item.keys[0] if item.keys[0].startswith(URL_KEY) else ""
        return Entry(item.digest_hex, at.date, url, at.length, key)

    def _past(self, item: Item, at: Stored) -> LastCapture | None:
        original = at.original or self._original(item, at)
        return last_capture_of(item.exchange, item.digest_hex, at, original)

    def _add_all(self, entries: list[Entry]) -> bool:
        self._index.add(entries)
        return True

    def _ask(self, call: Callable[[], T]) -> T | None:
        """What *call* returns when the index answers.

        ``None`` if it does not, and *stopping* is set: nothing is asked from then on.
        """
        attempt = 0
        while not self._index_given_up:
            try:
                answer = call()
            except StoreUnavailable as error:
                if attempt == 0:
                    logger.warning("the archive waits for its index: %s", error)
                self._index_given_up = self._stopping.is_set()
                self._stopping.wait(_delay(attempt))
                attempt += 1
            else:
                if attempt:
                    logger.info("the archive's index answers again")
                return answer
        return None

    def _wait_for_disk(self, attempt: int, error: OSError) -> None:
        directory = self._writer.config.directory
        if attempt == 0:
            self.blocked = True
            logger.error(
                "WARC files in %s cannot be written: %s; trying again, and nothing "
                "more is fetched until it works",
                directory,
                error,
            )
        if self._stopping.is_set():
            raise WriterStopped(f"WARC files in {directory} cannot be written: {error}")
        self._stopping.wait(_delay(attempt))

    def _count(self, items: list[Item], stored: list[Stored]) -> None:
        counters = self.counters
        for item, at in zip(items, stored, strict=True):
            size = len(item.exchange.response_body)
            if item.eligible:
                counters.statistics.note(item.exchange, at.original)
            if item.exchange.unmodified is not None:
                counters.unmodified += 1
            elif at.original is not None:
                counters.revisits += 1
                counters.revisit_bytes += size
                counters.conserved_bytes += max(0, at.original.length - at.length)
            elif item.eligible:
                counters.originals += 1
                counters.original_bytes += size
        counters.exchanges += len(items)
        self._count_written()

    def _count_written(self) -> None:
        self.counters.records = self._writer.tally.records
        self.counters.written_bytes = self._writer.tally.bytes
        self.counters.files = self._writer.files


def _delay(attempt: int) -> float:
    return float(min(FIRST_DELAY * 2 ** min(attempt, 10), LONGEST_DELAY))
