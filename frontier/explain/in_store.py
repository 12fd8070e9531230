"""What the store knows about one URL: whether it is seen, and where it is now.

What always holds:

1.  Looking changes nothing. Lists are read in windows, so that no call holds up the
    server.
2.  What the store says is not trusted: an item that cannot be read is skipped.
3.  This is not a snapshot: a URL may move on while it is looked for. If it is found in
    two places, the one later in its life counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from frontier.errors import CodecError, ConfigurationError, KeyDamaged
from frontier.model import frozen
from frontier.queue.dead_letters import CHUNK, letter
from frontier.queue.due import read_waiting
from frontier.queue.hosts import Record, record_of
from frontier.queue.item import decode
from frontier.queue.priority import readable, split_name
from frontier.queue.reserve import deliveries, read_reserved
from frontier.seen.config import seen_config
from frontier.seen.seen_set import Answer, StoredCrawl, look as look_at_tiers
from frontier.settings.config import PREFIX, Config
from frontier.settings.live import value_of
from frontier.status.snapshot import WholeCrawl, read_crawl
from frontier.status.validate import printable, text, whole
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import PartitionKeys, node_of
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import host_of_key, partition_of
from frontier.urls.traps import SETTINGS, Traps

WINDOW = 500
"""Elements of a list that one call reads at most."""
READY, WAITING, RESERVED = "ready", "waiting", "reserved"
STARTED, DEAD = "started", "dead"


@frozen
class Subject:
    """The URL that is asked about, as the crawl treats it."""

    typed: str
    url: str
    """As Scrapy requests it."""
    canonical: str
    """The form by which the crawl tells URLs apart."""
    refused: str
    """Why the crawl's rules have no form for it; empty if they have."""
    rules: str
    """The crawl's canonicalization rules."""
    by_host: bool
    """Whether the rules merge only URLs of the same host."""
    queue_key: str
    partition: int
    fingerprint: bytes
    mark: int
    same: Callable[[str], bool]
    """Whether another spelling is the same URL to the crawl."""


@frozen
class Place:
    """Where the URL is in its partition."""

    kind: str
    key: str
    """The key of the store that it is in."""
    queue: str
    record: Mapping[str, Any]
    """The record of its request."""
    tries: int = 0
    """Deliveries without an ack."""
    place: int = 0
    """Its place in the queue, 1 for the oldest; 0 if that means nothing."""
    of: int = 0
    before: int = 0
    """URLs of its host with a higher priority."""
    due_ms: int = 0
    node: str = ""
    """The node that has reserved it; empty if that node's lease has ended."""
    reason: str = ""
    """Why it is a dead letter."""

    @property
    def origin(self) -> tuple[str, str, str] | None:
        """Page, hops and seed, if its request has them: `frontier.requests.discovery`.

        For a seed they are empty.
        """
        meta = self.record.get("meta")
        found = meta.get("frontier_found") if isinstance(meta, dict) else None
        if not isinstance(found, list | tuple) or len(found) != 4:
            return None
        via, hops, seed = (one if isinstance(one, str) else "" for one in found[:3])
        return via, hops, seed


@frozen
class StoreFacts:
    """What the store says."""

    crawl: WholeCrawl
    traps: Traps
    """With the limits of the crawl, and the counts that nodes have reported."""
    holder: str
    """The node that holds the URL's partition."""
    failing: Record
    """The host record of its host."""
    spent: Record
    """The host record of its queue key."""
    is_claimed: bool
    answer: Answer | None
    """The shared tiers' answer; ``None`` if there are no such tiers, or none now."""
    places: tuple[Place, ...]
    """Where the URL is, in the order in which a URL moves on."""

    @property
    def place(self) -> Place | None:
        """Where the URL is, if it is anywhere."""
        return self.places[-1] if self.places else None


def look(
    store: BlockingStore,
    shape: StoredCrawl,
    subject: Subject,
    progress: Callable[[], None] = lambda: None,
) -> StoreFacts:
    """All that the store knows about *subject*; *progress* is called for each window.

    Raises:
        StoreError: The store does not answer, or a key of it is damaged.
    """
    keys, config = shape.keys.partition(subject.partition), shape.config
    crawl = read_crawl(store, shape.keys)
    host = host_of_key(subject.queue_key, config.host_shards)
    holder, records, claimed = store.run(
        [
            Call.command("HGET", keys.lease, "holder"),
            Call.command("HMGET", keys.hosts, host, subject.queue_key),
            Call.command("HEXISTS", keys.claimed, str(subject.mark)),
        ]
    )
    tiers, answer = {"set", "bloom"} & {*config.seen_tiers}, None
    if tiers and not crawl.view.removed_ms:
        try:
            answer = look_at_tiers(store, keys, subject.mark, seen_config(config))
        except ValueError:
            raise KeyDamaged(store.where, keys.seen, "it has no numbers") from None
    return StoreFacts(
        crawl,
        _traps(store, shape, crawl.settings, subject.url),
        text(node_of(holder or b"")),
        record_of(records[0]),
        record_of(records[1]),
        claimed == 1,
        answer,
        tuple(_Search(store, keys, subject, progress).places()),
    )


def _traps(
    store: BlockingStore, shape: StoredCrawl, settings: Mapping[str, str], url: str
) -> Traps:
    """The traps of the crawl, with the counts of the groups of *url*."""
    limits: dict[str, Any] = {}
    for name in SETTINGS.values() & settings.keys():
        with suppress(ConfigurationError):
            limits[name.removeprefix(PREFIX).lower()] = value_of(name, settings[name])
    traps = Traps(replace(Config(), **limits))
    for group in list(traps.groups(url)):
        partition = partition_of(group.host, shape.config.partitions)
        mark = seen_hash(f"{group.kind} {group.name}".encode("utf-8", "replace"))
        name = shape.keys.partition(partition).groups
        traps.learn(group, whole(store.command("HGET", name, str(mark))))
    return traps


@frozen
class _Search:
    """Looks for a URL in its partition."""

    store: BlockingStore
    keys: PartitionKeys
    subject: Subject
    progress: Callable[[], None]

    def places(self) -> Iterator[Place]:
        """Where the URL is, in the order in which a URL moves on."""
        yield from self._waiting()
        yield from self._ready()
        yield from self._reserved()
        for value in self._listed(self.keys.dead, CHUNK):
            found = letter(self.subject.partition, value)
            reason = printable(found.reason.decode("utf-8", "replace"))
            item = value.split(b"\n", 2)[-1]
            for one in self._found(DEAD, self.keys.dead, found.queue, item):
                yield replace(one, tries=found.tries, reason=reason)

    def _waiting(self) -> Iterator[Place]:
        for bucket in self._listed(self.keys.due, command="ZRANGE"):
            key = self.keys.waiting(bucket.decode("utf-8", "replace"))
            for element in self._listed(key):
                with suppress(CodecError):
                    of = read_waiting(element)
                    yield from self._found(WAITING, key, *of, due_ms=whole(bucket))

    def _ready(self) -> Iterator[Place]:
        before, names = 0, self._listed(self.keys.queues, command="ZRANGE")
        for queue in filter(None, map(readable, names)):
            of_queue = split_name(queue)[1]  # the highest priority comes first
            if of_queue.partition("~")[0] != self.subject.queue_key:
                continue
            key = self.keys.ready(queue)
            length = int(self.store.command("LLEN", key))
            more = {"of": length, "before": before}
            for place, item in enumerate(self._listed(key), 1):
                yield from self._found(READY, key, queue, item, place=place, **more)
            before += length

    def _reserved(self) -> Iterator[Place]:
        keys = self.keys
        reserved, started, (token, holder) = self.store.run(
            [
                Call.command("HGETALL", keys.reserved),
                Call.command("SMEMBERS", keys.started),
                Call.command("HMGET", keys.lease, "token", "holder"),
            ]
        )
        for number, value in reserved.items():
            with suppress(CodecError):
                entry = read_reserved(number, value)
                kind = STARTED if number in started or entry.keeper else RESERVED
                has = holder or b"" if token == b"%d" % entry.token else b""
                node = text(node_of(entry.keeper.encode() or has))
                of = entry.queue, entry.item
                yield from self._found(kind, keys.reserved, *of, node=node)

    def _listed(
        self, key: str, window: int = WINDOW, command: str = "LRANGE"
    ) -> Iterator[bytes]:
        first = 0
        while some := self.store.command(command, key, first, first + window - 1):
            yield from some
            self.progress()
            first += len(some)

    def _found(
        self, kind: str, key: str, queue: str, item: bytes, **more: Any
    ) -> Iterator[Place]:
        """The place of *item*, if it is for the URL."""
        with suppress(CodecError):
            record, subject = decode(item, queue), self.subject
            if record["url"] == subject.url or subject.same(str(record["url"])):
                yield Place(kind, key, queue, record, deliveries(item), **more)
