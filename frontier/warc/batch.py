"""Writing a batch of exchanges: digest, look up, append, sync, index.

What always holds:

1.  A digest enters the index after its response is on disk, never before; and
    a `Stored` is returned after both. (With fsync ``close``, "on disk" means handed
    to the operating system: it survives this process, not a power cut.)
2.  A revisit refers to an original in the index, or to a response before it in the
    same batch. Such a response precedes it in the file, or is in a file closed before:
    a file cut off at any record never has a revisit without its original.
3.  A batch is written whole, in order. If an `OSError` interrupts it, it is rolled
    back and written again.

Each batch costs one lookup, one sync (or one per exchange, by the setting) and one
addition to the index. While the disk or the index fails, it is tried again after 0.1 s,
then after longer and longer pauses up to 2 s, until it works or the archive is stopped.
In the latter case, what is not on disk and in the index is not reported as stored.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from frontier.dedupe.cdx_lookup import Asked, CdxServers
from frontier.dedupe.digest_index import Entry, Index
from frontier.dedupe.revisit_policy import URL_KEY, Item, Rules, kind_of
from frontier.dedupe.url_history import History, last_capture_of
from frontier.errors import StoreUnavailable, WriterStopped
from frontier.model import Exchange, Original, Outlinks, Stored, frozen
from frontier.warc.content_coding import LIMIT, decoded

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from frontier.warc.crawl_log import CrawlLog
    from frontier.warc.disk_space import Room
    from frontier.warc.file_rotation import WarcWriter

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.1
LONGEST_DELAY = 2.0
"""Seconds between two attempts: at first, and at most."""
INDEX = "the archive's index"

KINDS = [
    name + unit
    for name in ("handled", "new", "exact_url", "canonical_url", "digest")
    for unit in ("", "_bytes")
]

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
    """Bytes by which the revisits' records are smaller than their originals'."""
    records: int = 0
    """Records of all types, including the warcinfo records."""
    written_bytes: int = 0
    """Compressed, as in the files."""
    files: int = 0
    """Files that were begun."""
    lookup_seconds: float = 0.0
    """Time spent waiting for the index's answers to lookups."""
    unmodified: int = 0
    """304s that we asked for: written as revisits, but not counted in `revisits`, since
    no payload was sent."""
    kinds: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys(KINDS, 0))
    )
    """Payloads that were looked up, ``handled``, and each once by `kind_of`; and their
    bytes before compression. No name is added, as others read it meanwhile."""
    cdx: Asked = field(default_factory=Asked)
    """What the CDX servers were asked for."""

    def report(self) -> Counter[str]:
        """The figures that go into the crawl's report, as whole numbers."""
        figures = Counter({name: getattr(self, name) for name in _REPORTED})
        figures.update(self.kinds)
        figures["new_payloads"] = figures.pop("new", 0)
        for name in ("asked", "found", "failed"):
            figures[f"cdx_{name}"] = getattr(self.cdx, name)
        figures["lookup_us"] = int(self.lookup_seconds * 1e6)
        figures["cdx_us"] = int(self.cdx.seconds * 1e6)
        return figures


_REPORTED = (
    *("originals", "revisits", "original_bytes", "revisit_bytes", "written_bytes"),
    *("files", "unmodified"),
)


@frozen
class ArchiveConfig:
    """How exchanges are archived, and what takes part besides files and index."""

    fsync: str = Fsync.BATCH
    rules: Rules = field(default_factory=Rules)
    """What becomes a revisit."""
    decode: bool = False
    """Whether bodies are stored without their Content-Encoding."""
    history: History | None = None
    """Is told what URLs answered."""
    servers: CdxServers | None = None
    """Are asked for originals that the index does not have."""
    room: Room | None = None
    log: CrawlLog | None = None
    """Gets a line for each attempt."""


class BatchWriter:
    """Writes batches of exchanges with one `WarcWriter` and one `Index`.

    Once *stopping* is set, it no longer waits for a disk or an index that fails.
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
        self.waits_for = ""
        """What fails and is tried again, disk or index; empty if nothing is."""
        self._writer = writer
        self._disk = f"WARC files in {writer.config.directory}"
        self._index = index
        self._stopping = stopping
        self._config = config
        self._fsync = Fsync(config.fsync)

    def write(self, exchanges: Sequence[Exchange]) -> list[Stored]:
        """Store *exchanges* and return, for each, where it is.

        Raises:
            WriterStopped: The disk or the index failed and *stopping* is set.
        """
        done: list[Stored] = []
        while len(done) < len(exchanges):
            done += self._write_some(exchanges[len(done) :])
        return done

    def _write_some(self, exchanges: Sequence[Exchange]) -> list[Stored]:
        """Store the first of *exchanges*: no more than unpack to some `LIMIT` bytes."""
        rules, decode = self._config.rules, self._config.decode
        items: list[Item] = []
        size = 0
        while len(items) < len(exchanges) and size < LIMIT:
            x = exchanges[len(items)]
            items.append(rules.weigh(decoded(x) if decode or x.made is not None else x))
            size += len(items[-1].exchange.response_body)
        known = self._lookup(items)
        known |= self._ask_servers(items, known)
        stored: list[Stored] = []
        self._on_disk(size, lambda: self._append(items, known, stored))
        self._add(items, stored)
        self._count(items, stored)
        return stored

    def write_outlinks(self, found: Sequence[tuple[Outlinks, Stored]]) -> None:
        """Write, for each page of *found*, a record of its links.

        Raises:
            WriterStopped: The disk failed and *stopping* is set.
        """

        def append() -> None:
            for links, page in found:
                self._writer.append_outlinks(links, page)

        size = sum(len(url) for links, _ in found for url, _ in links.links)
        self._on_disk(size, append)

    def write_log(self, lines: Sequence[bytes]) -> None:
        """Write *lines* to the crawl log.

        Raises:
            WriterStopped: The disk failed and *stopping* is set.
        """
        if (log := self._config.log) is not None:
            self._insist(lambda _: log.write(lines), self._disk, "written")

    def _on_disk(self, size: int, append: Callable[[], None]) -> None:
        """Call *append*, which writes about *size* bytes, until they are on disk."""

        def write(attempt: int) -> None:
            if attempt:
                self._writer.rollback()
            try:
                if self._config.room is not None:
                    self._config.room.claim(size)
            except OSError:
                self._writer.close()  # so that somebody can remove the file
                raise
            append()
            if self._fsync is Fsync.CLOSE:
                self._writer.flush()
            else:
                self._writer.sync()

        self._insist(write, self._disk, "written")
        self.counters.records, self.counters.written_bytes = self._writer.tally
        self.counters.files = self._writer.files

    def _insist(self, call: Callable[[int], T], what: str, done: str = "used") -> T:
        """What *call*, given the number of the attempt, returns once it works.

        Until then, *what* cannot be *done*.

        Raises:
            WriterStopped: It does not, and *stopping* is set.
        """
        for attempt in count():
            try:
                answer = call(attempt)
                break
            except (OSError, StoreUnavailable) as error:
                self.waits_for = f"{what} cannot be used"
                self.blocked = isinstance(error, OSError)
                if not attempt:
                    logger.error(  # noqa: TRY400 - the operator acts on the reason
                        "%s cannot be %s: %s; trying again, and nothing is acked until "
                        "it works",
                        what,
                        done,
                        error,
                    )
                if self._stopping.is_set():
                    raise WriterStopped(f"{self.waits_for}: {error}") from error
                delay = FIRST_DELAY * 2 ** min(attempt, 10)
                self._stopping.wait(min(delay, LONGEST_DELAY))
        if attempt:
            self.blocked, self.waits_for = False, ""
            logger.info("%s can be %s again", what, done)
        return answer

    def close_file(self) -> None:
        """Close the file, which is old enough.

        Raises:
            WriterStopped: The disk failed and *stopping* is set.
        """
        self._insist(lambda _: self._writer.close(), self._disk, "closed")

    def _append(
        self, items: list[Item], known: dict[str, Original], stored: list[Stored]
    ) -> None:
        """Write those of *items* that *stored* lacks, and add them to *stored*.

        Records that were rolled back are taken out of *stored* first; a file that was
        closed in the middle of the batch keeps its records.
        """
        while stored and not self._writer.keeps(stored[-1]):
            stored.pop()
        originals = dict(known)
        for position, item in enumerate(items):
            if position >= len(stored):
                stored.append(
                    self._writer.append(item.exchange, *item.found(originals))
                )
                if self._fsync is Fsync.RECORD:
                    self._writer.sync()
            if item.eligible and stored[position].original is None:
                made = self._original(stored[position])
                for key in item.keys:
                    originals.setdefault(key, made)

    def _original(self, stored: Stored) -> Original:
        crawl_id = self._writer.config.crawl_id
        return Original(stored.url, stored.date, crawl_id, stored.length, minted=True)

    def _lookup(self, items: list[Item]) -> dict[str, Original]:
        keys = list(dict.fromkeys(key for item in items for key in item.keys))
        if not keys:
            return {}
        began = time.perf_counter()
        found = self._insist(lambda _: self._index.lookup(keys), INDEX)
        self.counters.lookup_seconds += time.perf_counter() - began
        return found

    def _ask_servers(
        self, items: list[Item], known: dict[str, Original]
    ) -> dict[str, Original]:
        """The originals at CDX servers, for payloads that the index does not have."""
        servers = self._config.servers
        if servers is None or self._stopping.is_set():
            return {}
        asked = [
            (item, item.wanted())
            for item in items
            if item.eligible and item.found(known)[1] is None
        ]
        answers = servers.lookup([wanted for _, wanted in asked])
        return {
            key: answers[wanted][1]
            for item, wanted in asked
            if wanted in answers
            for key in item.keys
            if item.further.get(key, item.digest_hex) == answers[wanted][0]
        }

    def _add(self, items: list[Item], stored: list[Stored]) -> None:
        entries, past, history = [], [], self._config.history
        for item, at in zip(items, stored, strict=True):
            if not item.eligible or at.original is not None:
                continue
            digest = item.digest_hex
            key = item.keys[0] if item.keys[0].startswith(URL_KEY) else ""
            entries.append(Entry(digest, at.date, at.url, at.length, key))
            if history is not None:
                original = self._original(at)
                last = last_capture_of(item.exchange, digest, at, original)
                past += [] if last is None else [last]
        if entries:
            self._insist(lambda _: self._index.add(entries), INDEX)
        if history is not None and past:
            self._insist(lambda _: history.add(past), INDEX)

    def _count(self, items: list[Item], stored: list[Stored]) -> None:
        counters = self.counters
        for item, at in zip(items, stored, strict=True):
            size = len(item.exchange.response_body)
            if item.eligible:
                for kind in ("handled", kind_of(item.exchange, at.original)):
                    counters.kinds[kind] += 1
                    counters.kinds[f"{kind}_bytes"] += size
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
