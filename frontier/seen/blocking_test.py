"""The shared tiers of the seen test alone, for one URL at a time.

For callers that have a queue of their own and cannot go on without an answer.

What always holds:

1.  A URL is called seen only if the store says so. If the first question about
    it was not answered it may have been marked all the same, so it then counts
    as new: it may be fetched twice but is not lost.
2.  Test and mark are one script, so of all who ask about a URL one is told
    that it is new.
3.  Only `clear` deletes anything. What `close` leaves behind is there for
    the next `open` of the same crawl.
4.  A URL's partition is that of its fingerprint, so equal fingerprints meet
    whatever their URLs are. A crawl that queues by host has other partitions;
    neither joins a crawl of the other.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from frontier.cluster import crawls
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import StoreUnavailable
from frontier.queue.push import NEW, TEST, Push, push_to
from frontier.seen.config import SeenLayout, seen_config
from frontier.seen.seen_set import layout_call, layout_of
from frontier.store.client import BlockingStore, Call, check_server, given
from frontier.store.embedded import EmbeddedStore
from frontier.store.keys import RegistryKeys
from frontier.store.outage_retry import pauses
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys, PartitionKeys

logger = logging.getLogger(__name__)

CALL_TIMEOUT = 5.0
"""Seconds that the store has for one answer, unless ``REDIS_PARAMS`` says."""
PATIENCE = 60.0
"""Seconds for which a store that does not answer is asked again."""


class BlockingSeenTest:
    """The seen-set of one crawl, from `open` until `close`."""

    def __init__(
        self, config: Config, settings: Mapping[str, Any], *, spider: str
    ) -> None:
        self._config = config
        self._settings = settings
        self._spider = spider
        self._tiers = seen_config(config)
        self._layouts: dict[int, SeenLayout] = {}
        self._keys: CrawlKeys | None = None
        self._embedded: EmbeddedStore | None = None
        self._store: BlockingStore | None = None
        self.crawl_id = config.crawl_id or f"{spider}-dupefilter"
        self.outage_retry = PATIENCE

    def open(self) -> None:
        """Connect and enter the crawl, which is made if there is none.

        Raises:
            ConfigurationError: The settings do not fit the crawl's.
            StoreError: The store does not answer, or may forget keys.
        """
        settings = dict(self._settings)
        if not given(settings):
            self._embedded = EmbeddedStore.join(self._config.store_dir)
            settings["REDIS_URL"] = self._embedded.url
        try:
            self._store = BlockingStore.from_settings(_asking_once(settings))
            memory = self._store.call(Call.command("INFO", "memory"))
            check_server(memory, self._store.where)
            self._keys = self._enter(self._store)
        except BaseException:
            self.close()
            raise
        logger.info("the seen-set is %s on %s", self.crawl_id, self._store.where)

    def close(self) -> None:
        """Disconnect; once is enough. What was seen stays seen."""
        store, self._store = self._store, None
        if store is not None:
            store.close()
        embedded, self._embedded = self._embedded, None
        if embedded is not None:
            embedded.leave()

    def ask(self, fingerprint: bytes) -> str:
        """Mark *fingerprint* as seen; return whether it was: a verdict's letter.

        While the store does not answer this waits, and asks again.

        Raises:
            StoreUnavailable: It has not answered for `PATIENCE` seconds.
            StoreRefused: It answered with an error.
        """
        if not (self._tiers.has_bloom or self._tiers.has_set):
            return NEW
        try:
            return self._ask(fingerprint)
        except StoreUnavailable as error:
            logger.warning("%s; waiting for it", error)
        began = time.monotonic()
        for pause in pauses():
            time.sleep(pause)
            self._revive()
            try:
                self._ask(fingerprint)
            except StoreUnavailable:
                if time.monotonic() - began > self.outage_retry:
                    raise
            else:
                break
        waited = time.monotonic() - began
        logger.warning("the store answers again after %.1f s", waited)
        return NEW

    def clear(self) -> None:
        """Forget everything that was seen, and the crawl with it.

        For a crawl that nobody else asks about at the time. The next question
        enters it again.

        Raises:
            StoreError: The store did not answer, or answered with an error.
        """
        store, keys = self._opened(), self._keys
        if keys is None:
            return
        every = [keys.partition(number) for number in range(self._config.partitions)]
        seen = store.run([layout_call(each) for each in every])
        layouts = [layout_of(reply) for reply in seen]
        unlink = [
            Call.command("UNLINK", *_names(each, layout))
            for each, layout in zip(every, layouts, strict=True)
        ]
        registry = RegistryKeys(keys.namespace).crawls()
        forget = Call.command("SREM", registry, keys.crawl_id)
        store.run(unlink)
        store.run([Call.command("UNLINK", keys.meta()), forget])
        self._keys = None
        self._layouts.clear()

    def _ask(self, fingerprint: bytes) -> str:
        store = self._opened()
        if self._keys is None:
            self._keys = self._enter(store)
        number = partition_of(fingerprint.hex(), self._config.partitions)
        keys = self._keys.partition(number)
        pushes = [Push(TEST, seen_hash(fingerprint), "", 0, b"")]
        layout = self._layouts.get(number, SeenLayout())
        done = push_to(store, keys, self._tiers, layout, pushes)
        self._layouts[number] = done.layout
        return done.verdicts

    def _enter(self, store: BlockingStore) -> CrawlKeys:
        async def run(calls: Sequence[Call]) -> list[Any]:
            return store.run(calls)

        shape = crawl_settings(self._config, self._settings)
        shape["FRONTIER_QUEUE_KEY"] = crawls.BY_FINGERPRINT
        namespace = self._config.namespace
        entering = crawls.enter(run, namespace, self._spider, self.crawl_id, shape)
        try:
            entering.send(None)  # it runs to its end, as nothing in it suspends
        except StopIteration as returned:
            keys: CrawlKeys = returned.value
            return keys
        raise RuntimeError("a store that blocks has been waited for")

    def _opened(self) -> BlockingStore:
        if self._store is None:
            raise RuntimeError("the seen-set is not open")
        return self._store

    def _revive(self) -> None:
        """Start the embedded store again, should its process have died."""
        if self._embedded is None:
            return
        with suppress(StoreUnavailable):  # the next attempt asks again
            fresh = EmbeddedStore.join(self._config.store_dir)
            old, self._embedded = self._embedded, fresh
            old.leave()


def _asking_once(settings: Mapping[str, Any]) -> dict[str, Any]:
    """*settings* for a client that never repeats by itself what was not answered.

    A URL that is asked about twice without our knowing would seem to be seen.
    """
    params = settings.get("REDIS_PARAMS") or {}
    try:
        chosen = dict(json.loads(params) if isinstance(params, str) else params)
    except (TypeError, ValueError):
        return dict(settings)  # whoever connects says what is wrong with it
    timeouts = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), CALL_TIMEOUT)
    return {**settings, "REDIS_PARAMS": {**timeouts, **chosen, "retry": None}}


def _names(keys: PartitionKeys, layout: SeenLayout) -> list[str]:
    """Every key of a partition that has only a seen-set."""
    filters = [keys.bloom(number) for number in range(layout.blooms)]
    numbers = range(layout.buckets)
    return [
        keys.counts,
        keys.seen,
        *filters,
        *(keys.bucket(layout.era, n) for n in numbers),
    ]
