"""A migration: a crawl takes over what scrapy-redis has of a spider.

What always holds:

1.  The source is read and never written. The crawl is made, or joined if it is open,
    by the rules for nodes; some nodes may run already.
2.  Repeating it, whether it was finished or cut off anywhere, queues nothing twice:
    each request is tested and queued in one step.
3.  The crawl does not end while its queue is filled, nor just after. Its imported
    filter is there before, and running nodes know of it. Requests that are left out of
    the queue are taken out of the filter again: links may lead to them.
4.  Each request of the source is in one of the counts: queued, seen already,
    or left out, with a reason.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import build_from_crawler, load_object

from frontier.cluster import crawls
from frontier.cluster.controls import Change, change, operator
from frontier.cluster.seed_lock import SeedLock
from frontier.cluster.shared_settings import FINGERPRINTER, crawl_settings
from frontier.errors import CodecError, ConfigurationError
from frontier.files import creating
from frontier.migrate.scrapy_redis import (
    Item,
    ItemFault,
    Source,
    fingerprints_of,
    request_of,
)
from frontier.node.archiving import claim
from frontier.requests.stored_request import Allowed
from frontier.seeds.push import Pushes
from frontier.seeds.seeder import Seeder
from frontier.seen.config import seen_config
from frontier.seen.imported_filter import (
    add_calls,
    begin_calls,
    marks_of,
)
from frontier.status.controls import reach
from frontier.store.client import BlockingStore, Call, check_server
from frontier.urls.fingerprint import Fingerprints, seen_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scrapy.crawler import Crawler

    from frontier.queue.push import Push
    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys

IMPORTED = "imported"
"""What was done, as the crawl's control log calls it."""
BATCH = 2_000
"""URLs that are marked together, at most."""
SECRET = 0o600
"""Mode of the file with what is left out: requests have cookies and passwords."""


@dataclass(slots=True)
class Queue:
    """What became of the requests of a queue."""

    source: int
    queued: int = 0
    seen_already: int = 0
    left_out: int = 0


@dataclass(slots=True)
class Filter:
    """What became of the fingerprints of a filter."""

    source: int
    imported: int = 0
    """Fingerprints that the crawl has now."""
    added: int = 0
    """Those of them that it did not have before."""
    unfetched: int = 0
    """Those of requests that are left out; they are not imported."""
    left_out: int = 0
    """Members of the filter that are not a SHA-1 in hexadecimal."""
    lacking: tuple[str, ...] = ()
    """Running nodes that have not confirmed that they ask the imported filter."""


class LeftOut:
    """The file with what is left out, a JSON object per line; none if nothing is."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.reasons: Counter[str] = Counter()
        """How many items are left out, by reason."""
        if path is not None:
            path.unlink(missing_ok=True)  # of an earlier run

    def add(self, item: Item, fault: ItemFault) -> None:
        """Write down *item*, which is left out."""
        self.reasons[fault.reason] += 1
        if self._path is not None:
            url = fault.record.get("url")
            line = {
                "number": item.number,
                "url": url if isinstance(url, str) else None,
                "reason": fault.reason,
                "item": base64.b64encode(item.data).decode(),
            }
            with open(self._path, "a", opener=creating(SECRET)) as file:
                file.write(json.dumps(line) + "\n")


class Migration:
    """Takes over *source* for the spider of *crawler*, into *store*.

    *server* has the ``REDIS_*`` settings of *store*; *left* gets what is left out.

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
        left: LeftOut,
        on_wait: Callable[[], None],
    ) -> None:
        check_server(store.command("INFO", "memory"), store.where)
        self._crawler = crawler
        self._store = store
        self._server = server
        self._source = source
        self._left = left
        self._on_wait = on_wait
        self.config = config
        self.queue = Queue(source.queued)
        self.filter = Filter(source.seen)

    def enter(self) -> CrawlKeys:
        """The open crawl of the spider, which is made if there is none.

        Raises:
            ConfigurationError: The crawl named has ended, or has other settings.
        """

        async def run(calls: Sequence[Call]) -> list[Any]:
            return self._store.run(calls)

        config, settings = self.config, dict(self._crawler.settings)
        claiming = partial(claim, config, self._server)
        self._keys: CrawlKeys = asyncio.run(
            crawls.enter(
                run,
                config.namespace,
                self._crawler.spidercls.name,
                config.crawl_id,
                crawl_settings(config, settings),
                claim=claiming if config.warc_enabled else None,
            )
        )
        name = f"{self._source.where} {self._source.keys.queue}"
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        # The right to take over this source, which keeps the crawl open.
        list_id = f"migrate-{digest[:16]}"
        self._lock = SeedLock(self._keys, list_id, on_wait=self._on_wait)
        return self._keys

    def require_known(self) -> None:
        """Refuse a filter that has none of the queue's requests, which it should have.

        Raises:
            ConfigurationError: The filter has neither scrapy-redis's fingerprints nor
                Scrapy's.
        """
        made: list[bytes] = []
        for item in next(self._source.windows(), []) if self._source.seen else []:
            with suppress(ItemFault):
                made += fingerprints_of(request_of(item.data))
        if made and not self._source.has_any(made):
            keys = self._source.keys
            raise ConfigurationError(
                f"{keys.seen} has none of the first requests of {keys.queue}, neither "
                "by scrapy-redis's fingerprints nor by Scrapy's: the project had a "
                "fingerprinter of its own. Add --no-dupefilter, and --seen-urls FILE "
                "with URLs from logs or feed exports"
            )

    def fill_seen(self, progress: Callable[[int], None]) -> None:
        """Make the filter's fingerprints the imported filter of the crawl.

        Running nodes ask it from then on.

        Raises:
            CrawlClosed: The crawl has ended.
        """
        store, keys, read, found = self._store, self._keys, 0, self.filter
        self._lock.hold(store)
        store.run(begin_calls(keys))
        what = f"{found.source} fingerprints of {self._source.keys.seen}"
        version, _ = change(store, keys, Change(IMPORTED, what), operator())
        found.lacking = reach(store, keys, version).lacking
        for some in self._source.fingerprints():
            marks = marks_of(some)
            found.left_out += len(some) - len(marks)
            found.added += sum(store.run([*add_calls(keys, marks)]))
            self._lock.hold(store)
            read += len(some)
            progress(min(read, found.source))

    def mark(self, pushes: Iterator[tuple[int, Push]]) -> None:
        """Mark *pushes*, which name no queue, as seen by the crawl.

        Raises:
            StoreError: The store does not answer. Some may be stored.
        """
        seeder = Seeder(self._store, self._keys, seen_config(self.config))
        while some := list(islice(pushes, BATCH)):
            seeder.push(some)
        seeder.leave()

    def look(self, progress: Callable[[int], None]) -> None:
        """Read all of the queue, and count what would be left out; write nothing."""
        for pushes, _ in self._read(progress):
            self.queue.queued += len(pushes)

    def fill(self, progress: Callable[[int], None]) -> None:
        """Put the requests of the queue into the crawl.

        Raises:
            CrawlClosed: The crawl has ended.
            PushForgotten: The store has gone back in time; repeat the migration.
            StoreError: The store does not answer. Some may be stored.
        """
        store, keys = self._store, self._keys
        seeder = Seeder(store, keys, seen_config(self.config))
        self._lock.hold(store)
        for pushes, faults in self._read(progress):
            seeder.push(pushes)
            self._forget(faults)
            self._lock.hold(store)
        seeder.leave()
        members = store.command("SCARD", keys.imported)
        self.filter.imported = max(0, members - 1)  # without the guard
        store.call(self._lock.done_call())
        self.queue.queued, self.queue.seen_already = seeder.new, seeder.seen

    def _read(
        self, progress: Callable[[int], None]
    ) -> Iterator[tuple[list[tuple[int, Push]], list[ItemFault]]]:
        """Yield, in portions, what to push of the queue, and the faults of the rest."""
        cls = load_object(self._crawler.settings[FINGERPRINTER])
        fingerprinter = build_from_crawler(cls, self._crawler)
        fingerprints = Fingerprints(fingerprinter, self.config.canon_rules)
        spider, allowed = self._crawler.spidercls, Allowed.of(self.config)
        # Their scheduler's filter has them because they were queued, not fetched.
        made = Pushes(self.config, fingerprints.of, spider, allowed, exempt=True)
        for items in self._source.windows():
            pushes, faults = [], []
            for item in items:
                try:
                    pushes.append(self._push(item, made))
                except ItemFault as fault:
                    faults.append(fault)
                    self._left.add(item, fault)
            self.queue.left_out += len(faults)
            yield pushes, faults
            progress(items[-1].number)

    def _push(self, item: Item, made: Pushes) -> tuple[int, Push]:
        """The push for *item*, and its partition.

        Raises:
            ItemFault: It is not a request, or nodes do not take it from the store.
        """
        found = request_of(item.data)
        try:
            partition, push = made.of(found)
        except CodecError as error:
            raise ItemFault(str(error), found) from None
        if found.get("dont_filter"):  # not tested there: all of it identifies it
            key = self._source.keys.queue.encode("utf-8", "surrogateescape")
            digest = hashlib.sha256(key + b"\n" + item.data).digest()
            push = push._replace(mark=seen_hash(digest))
        return partition, push

    def _forget(self, faults: Iterable[ItemFault]) -> None:
        """Take requests that are left out, so not fetched, from the imported filter."""
        made = (one for fault in faults for one in fingerprints_of(fault.record))
        if marks := marks_of(made):
            self.filter.unfetched += self._store.command(
                "SREM", self._keys.imported, *marks
            )
