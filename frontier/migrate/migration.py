"""A migration: what scrapy-redis has of a spider, taken over by a crawl.

What always holds:

1.  The source is read and never written. The crawl is made, or joined if it is open,
    by the rules of nodes; some may run already.
2.  To repeat it, whole or cut off anywhere, doubles nothing: each request is tested
    and queued in one step.
3.  The crawl does not end while its queue is filled, nor just after. What was seen is
    there before, and nodes that run know of it.
4.  Each request of the source is in one of the counts: queued, seen already,
    or left out, with a reason.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from frontier.cluster import crawls
from frontier.cluster.controls import Change, change, operator
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import ConfigurationError
from frontier.files import creating
from frontier.migrate.queue_import import QueueImport
from frontier.migrate.scrapy_redis import ItemFault
from frontier.node.archiving import claim
from frontier.node.host_addresses import BlockingAddresses
from frontier.seeds.load_once import Seeder, SeedLock
from frontier.seen.config import seen_config
from frontier.seen.imported_filter import (
    add_calls,
    begin_calls,
    mark_of,
    others_fingerprints,
)
from frontier.status.controls import reach
from frontier.store.client import Call, check_server
from frontier.store.keys import taken
from frontier.urls.partition import QueueAddresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from io import BufferedWriter
    from pathlib import Path
    from typing import Self

    from scrapy.crawler import Crawler

    from frontier.migrate.scrapy_redis import Item, Source
    from frontier.queue.push import Push
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys

SAMPLE = 1_000
"""Requests of the queue that are looked for in the filter."""
IMPORTED = "imported"
"""What the crawl's control log says that was done."""
BATCH = 2_000
"""Requests that are pushed together, at most."""
BATCH_BYTES = 32 * 1024 * 1024
SECRET = 0o600
"""Mode of the file of what is left out: requests have cookies and passwords."""


@dataclass(slots=True)
class Queue:
    """What became of the requests of a queue."""

    source: int = 0
    queued: int = 0
    seen_already: int = 0
    left_out: int = 0

    @property
    def missing(self) -> int:
        """Requests that were there when it began, and were not found."""
        done = self.queued + self.seen_already + self.left_out
        return self.source - done

    def said(self) -> dict[str, int]:
        """The counts by their names."""
        return asdict(self)

    def note(self, seeder: Seeder) -> None:
        """Count what *seeder* has pushed."""
        self.queued, self.seen_already = seeder.queued, seeder.seen


@dataclass(slots=True)
class Filter:
    """What became of the fingerprints of a filter."""

    source: int = 0
    imported: int = 0
    """Fingerprints that the crawl has now."""
    added: int = 0
    """Those that it had not before."""
    unfetched: int = 0
    """Those of requests that are left out, which are not imported."""
    left_out: int = 0
    """Members of the filter that are no SHA-1 in hexadecimal."""
    lacking: tuple[str, ...] = ()
    """Nodes that run, and have not said that they ask for these."""

    @property
    def missing(self) -> int:
        """Fingerprints that were there when it began, and were not found."""
        done = self.imported + self.unfetched + self.left_out
        return max(0, self.source - done)

    def said(self) -> dict[str, Any]:
        """The counts by their names."""
        return asdict(self)


class LeftOut:
    """The file of what is left out, a JSON object a line; none if that is nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: BufferedWriter | None = None
        self.reasons: dict[str, int] = {}
        """How many there are of each of some reasons."""

    def __enter__(self) -> Self:
        if self._path is not None:
            with suppress(FileNotFoundError):
                self._path.unlink()  # of an earlier run
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, item: Item, fault: ItemFault) -> None:
        """Write down *item*, which is left out."""
        self.reasons[fault.reason] = self.reasons.get(fault.reason, 0) + 1
        if self._path is None:
            return
        if self._file is None:
            self._file = open(  # noqa: SIM115 (closed when this is left)
                self._path, "wb", opener=creating(SECRET)
            )
        line = {
            "number": item.number,
            "url": fault.url or None,
            "reason": fault.reason,
            "item": base64.b64encode(item.data).decode(),
        }
        self._file.write(json.dumps(line).encode() + b"\n")


class Migration:
    """Takes over *source* for the spider of *crawler*, into *store*.

    *server* are the ``REDIS_*`` settings that lead there.

    Raises:
        StoreError: The store does not answer, or may forget keys.
    """

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        store: BlockingStore,
        server: Mapping[str, Any],
        source: Source,
    ) -> None:
        check_server(store.call(Call.command("INFO", "memory")), store.where)
        self._crawler = crawler
        self._store = store
        self._server = server
        self._source = source
        self._holder = _holder()
        self.config = config

    def enter(self) -> CrawlKeys:
        """The open crawl of the spider, which is made if there is none.

        Raises:
            ConfigurationError: The one that is named has ended, or has other settings.
        """

        async def run(calls: Sequence[Call]) -> list[Any]:
            return self._store.run(calls)

        config, settings = self.config, dict(self._crawler.settings)
        claiming = partial(claim, config, self._server)
        keys: CrawlKeys = asyncio.run(
            crawls.enter(
                run,
                config.namespace,
                self._crawler.spidercls.name,
                config.crawl_id,
                crawl_settings(config, settings),
                claim=claiming if config.warc_enabled else None,
            )
        )
        return keys

    def require_known(self) -> None:
        """Refuse a filter that has none of the queue's requests, which it should have.

        Raises:
            ConfigurationError: Whoever made it, it is neither scrapy-redis nor Scrapy.
        """
        pushes = self._pushes(lambda host: host)
        made: list[bytes] = []
        tested = 0
        for item in islice(self._source.items(), SAMPLE if self._source.seen else 0):
            with suppress(ItemFault):
                request = pushes.request(item)
                if not request.dont_filter:
                    facts = (request.url, request.method, request.body)
                    made += others_fingerprints(*facts)
                    tested += 1
        if tested and not self._source.known(made):
            keys = self._source.keys
            raise ConfigurationError(
                f"{keys.seen} has none of the first {tested:,} requests of "
                f"{keys.queue}, neither by scrapy-redis's fingerprints nor by "
                "Scrapy's: a fingerprinter of the project's own has made it. Add "
                "--no-dupefilter, and --seen-urls FILE with URLs from logs or feed "
                "exports"
            )

    def fill_seen(
        self,
        keys: CrawlKeys,
        progress: Callable[[int], None],
        on_wait: Callable[[], None],
    ) -> Filter:
        """Make the filter's fingerprints the imported filter of the crawl of *keys*.

        Nodes that run ask it from then on. *on_wait* is as of `fill`.

        Raises:
            CrawlClosed: The crawl has ended.
        """
        store, lock, read = self._store, self._lock(keys), 0
        found = Filter(self._source.seen)
        lock.hold(0, on_wait)
        unfetched, met = self._unfetched(keys, lock), set[int]()
        store.run(begin_calls(keys))
        what = f"{found.source} fingerprints of {self._source.keys.seen}"
        version, _ = change(store, keys, Change(IMPORTED, what), operator())
        found.lacking = reach(store, keys, version).lacking
        for some in self._source.fingerprints():
            marks = [mark_of(one) for one in some]
            found.left_out += marks.count(None)
            whole = [m for m in marks if m is not None and m not in unfetched]
            met.update(unfetched.intersection(marks))
            found.added += sum(store.run([*add_calls(keys, whole)]))
            lock.hold(0, on_wait)
            read += len(some)
            progress(min(read, found.source))
        found.unfetched = len(met)
        size = Call.command("SCARD", keys.imported())
        found.imported = store.call(size) - 1  # the guard
        self._note_taken(keys, self._source.keys.seen)
        return found

    def _unfetched(self, keys: CrawlKeys, lock: SeedLock) -> set[int]:
        """The marks of requests that are left out, to which links may lead again."""
        pushes = self._pushes(BlockingAddresses(self._store, keys).find)
        found: set[int | None] = set()
        for item in self._source.items():
            try:
                pushes.push(item)
            except ItemFault as fault:
                if fault.tested is not None:
                    found.update(map(mark_of, others_fingerprints(*fault.tested)))
            if item.number % BATCH == 0:
                lock.hold(0)
        return {mark for mark in found if mark is not None}

    def mark(self, keys: CrawlKeys, pushes: Iterable[tuple[int, Push]]) -> None:
        """Have the crawl of *keys* have seen *pushes*, which name no queue.

        Raises:
            StoreError: The store does not answer. Some may be stored.
        """
        seeder = Seeder(self._store, keys, seen_config(self.config))
        some: list[tuple[int, Push]] = []
        for push in pushes:
            some.append(push)
            if len(some) >= BATCH:
                seeder.push(some)
                some = []
        seeder.push(some)
        seeder.leave()

    def look(self, left: LeftOut, progress: Callable[[int], None]) -> Queue:
        """Read all of the queue, and count what would be left out; write nothing."""
        counts = Queue(self._source.queued)
        pushes = self._pushes(lambda host: host)
        for item in self._source.items():
            if _push_of(pushes, item, left):
                counts.queued += 1
            else:
                counts.left_out += 1
            progress(item.number)
        return counts

    def fill(
        self,
        keys: CrawlKeys,
        left: LeftOut,
        progress: Callable[[int], None],
        on_wait: Callable[[], None],
    ) -> Queue:
        """Put the requests of the queue into the crawl of *keys*.

        Returns what became of them. *on_wait* is told, once, that another command
        takes over the same queue.

        Raises:
            CrawlClosed: The crawl has ended.
            PushForgotten: The store has gone back in time; it is to be repeated.
            StoreError: The store does not answer. Some may be stored.
        """
        counts = Queue(self._source.queued)
        pushes = self._pushes(BlockingAddresses(self._store, keys).find)
        lock = self._lock(keys)
        seeder = Seeder(self._store, keys, seen_config(self.config))
        lock.hold(0, on_wait)
        waiting: list[tuple[int, Push]] = []
        size = 0
        for item in self._source.items():
            if push := _push_of(pushes, item, left):
                waiting.append(push)
                size += len(push[1].item)
            else:
                counts.left_out += 1
            if len(waiting) >= BATCH or size >= BATCH_BYTES:
                seeder.push(waiting)
                waiting, size = [], 0
                lock.hold(0, on_wait)
                progress(item.number)
        seeder.push(waiting)
        seeder.leave()
        self._note_taken(keys, self._source.keys.queue)
        lock.done()
        counts.note(seeder)
        return counts

    def _note_taken(self, keys: CrawlKeys, name: str) -> None:
        """Have nodes know that key *name* is no leftover."""
        self._store.call(Call.command("HSET", keys.meta(), taken(name), "yes"))

    def _pushes(self, host_of: Callable[[str], str]) -> QueueImport:
        places = QueueAddresses(self.config, host_of)
        return QueueImport(self._crawler, self.config, places, self._source.keys.queue)

    def _lock(self, keys: CrawlKeys) -> SeedLock:
        """The right to take over this source, which keeps the crawl open."""
        name = f"{self._source.where} {self._source.keys.queue}"
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        return SeedLock(self._store, keys, f"migrate-{digest[:16]}", self._holder)


def _push_of(pushes: QueueImport, item: Item, left: LeftOut) -> tuple[int, Push] | None:
    try:
        return pushes.push(item)
    except ItemFault as fault:
        left.add(item, fault)
        return None


def _holder() -> str:
    return f"migrate-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
