"""What the store knows of one URL: seen or not, and where it is now.

What always holds:

1.  Looking changes nothing. Lists are read in windows: no call keeps the server.
2.  What the store says is not trusted: an item that cannot be read is passed over, a
    key that is damaged is named, and the rest is looked at.
3.  It is not one instant: a URL may move on while it is looked for. Of two places the
    later in its life counts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frontier.cluster.controls import Controls, calls, read
from frontier.cluster.membership import ttl_of
from frontier.errors import CodecError, ConfigurationError, KeyDamaged
from frontier.queue.back_off import BackOff, read_entry
from frontier.queue.damage import is_number
from frontier.queue.dead_letters import CHUNK, letter
from frontier.queue.due import read_waiting
from frontier.queue.item import decode
from frontier.queue.priority import process_of, readable, split_name
from frontier.queue.reserve import deliveries, read_reserved
from frontier.seen.config import seen_config
from frontier.seen.seen_set import layout_call, layout_of
from frontier.seen.seen_set import look as look_at_tiers
from frontier.settings.config import PREFIX, Config
from frontier.settings.live import LIVE, value_of
from frontier.status.reports import read_reports
from frontier.status.snapshot import beats_of
from frontier.status.validate import printable, text, whole
from frontier.store.client import Call
from frontier.store.keys import node_of
from frontier.urls.addresses import SAID
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import SPREAD, partition_of
from frontier.urls.traps import SETTINGS, Traps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from frontier.seen.seen_set import Answer, StoredCrawl
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

WINDOW = 500
"""Elements of a list that one call reads."""
MAX_NAMES = 10_000
"""Queues, and buckets of what waits, of the partition that are looked through."""
READY, WAITING, RESERVED = "ready", "waiting", "reserved"
STARTED, DEAD = "started", "dead"
LATER = (WAITING, READY, RESERVED, STARTED, DEAD)
"""Where a URL may be, in the order in which it gets there."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The URL that is asked about, as it is to the crawl."""

    typed: str
    url: str
    """As Scrapy requests it."""
    canonical: str
    """The form by which the crawl tells URLs apart."""
    refused: str
    """Why the crawl's rules have no form for it; empty if they have."""
    queue_key: str
    partition: int
    fingerprint: bytes
    mark: int
    same: Callable[[str], bool]
    """Whether another spelling is the same URL to the crawl."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How a URL was found, as its request says."""

    via: str = ""
    hops: str = ""
    seed: str = ""
    is_seed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where the URL is in its partition."""

    kind: str
    """One of `LATER`."""
    key: str
    """Of the store."""
    queue: str
    method: str
    origin: Origin
    tries: int
    """Deliveries without an ack."""
    place: int = 0
    """From the oldest, counted from 1; 0 where that says nothing."""
    of: int = 0
    before: int = 0
    """URLs of its host with a higher priority."""
    due_ms: int = 0
    node: str = ""
    """Of what is reserved: who has it; empty if that node's lease has ended."""
    reason: str = ""
    """Of a dead letter."""
    process: str = ""
    """Which alone can make the request; empty if any node can."""
    visited: bool = False
    """Whether it was fetched before, and the schedule has put it back."""


@dataclass(slots=True)
class StoreFacts:
    """What the store says."""

    crawl_id: str
    state: str
    spider: str
    removed: bool
    now_ms: int = 0
    limit: str = ""
    live: tuple[str, ...] = ()
    """Nodes whose heartbeats arrive."""
    silent: tuple[str, ...] = ()
    """Nodes on the map that are not heard of for as long as a lease of theirs."""
    holder: str = ""
    """Of the URL's partition."""
    controls: Controls = field(default_factory=Controls)
    own: dict[str, str] = field(default_factory=dict)
    """What nodes were started with, of what can be changed; the newest report's."""
    settings: dict[str, str] = field(default_factory=dict)
    """The same with what was changed since, by name."""
    said: dict[str, str] = field(default_factory=dict)
    """Classes of addresses that seeds have led to; see `address_of`."""
    answer: Answer | None = None
    claimed: bool = False
    places: list[Place] = field(default_factory=list)
    back_off: BackOff | None = None
    spent: tuple[int, int, int] = (0, 0, 0)
    """Of its host: pages, bytes, and URLs that were skipped."""
    traps: Traps = field(default_factory=lambda: Traps(Config()))
    """With the limits of the crawl, and the counts that nodes have reported."""
    unread: list[str] = field(default_factory=list)
    """What could not be looked at: keys and why."""

    @property
    def place(self) -> Place | None:
        """Where the URL is, if it is anywhere."""
        return max(self.places, key=lambda p: LATER.index(p.kind), default=None)


def look(
    store: BlockingStore,
    crawl: StoredCrawl,
    subject: Subject,
    progress: Callable[[int], None] = lambda _: None,
) -> StoreFacts:
    """All that the store knows of *subject*.

    *progress* is told how many queued requests were looked at.

    Raises:
        StoreError: The store does not answer.
    """
    facts = StoreFacts(crawl.keys.crawl_id, crawl.state, crawl.spider, crawl.removed)
    keys = crawl.keys.partition(subject.partition)
    _look_at_crawl(store, crawl, facts)
    _look_at_partition(store, crawl, subject, facts)
    if crawl.removed:
        return facts
    _look_at_groups(store, crawl, subject, facts)
    _look_at_tiers(store, crawl, subject, facts)
    spread = crawl.config.queue_key in SPREAD
    search = _Search(store, keys, subject, facts, progress, is_spread=spread)
    search.run()
    return facts


def _look_at_crawl(store: BlockingStore, crawl: StoredCrawl, facts: StoreFacts) -> None:
    keys = crawl.keys
    said = [f"address:{kind}" for kind in SAID]
    nodes, reports, time, meta, *wanted = store.run(
        [
            Call.command("HGETALL", keys.nodes()),
            Call.command("HGETALL", keys.reports()),
            Call.command("TIME"),
            Call.command("HMGET", keys.meta(), "ttl_ms", "limit", *said),
            *calls(keys),
        ],
        tolerant=True,
    )
    facts.now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
    ttl, limit, *kinds = meta if isinstance(meta, list) else [None] * (2 + len(SAID))
    facts.limit = text(limit)
    facts.said = {kind: text(how) for kind, how in zip(SAID, kinds, strict=True) if how}
    facts.controls = read(keys, wanted)
    facts.unread += [f"a control: {one}" for one in facts.controls.strange]
    if isinstance(nodes, KeyDamaged) or isinstance(reports, KeyDamaged):
        bad = nodes if isinstance(nodes, KeyDamaged) else reports
        facts.unread.append(f"{bad.key}: {bad.reason}")
    beats = beats_of(nodes) if isinstance(nodes, dict) else {}
    oldest = facts.now_ms - ttl_of(ttl)
    live = {name for name, (beat, _) in beats.items() if beat > oldest}
    facts.live, facts.silent = tuple(sorted(live)), tuple(sorted(beats.keys() - live))
    known = read_reports(reports) if isinstance(reports, dict) else {}
    newest = max(known.values(), key=lambda one: one.opened, default=None)
    facts.own = dict(newest.own) if newest is not None else {}
    changed = {
        name: value
        for (name, host), (value, _) in facts.controls.settings.items()
        if not host
    }
    facts.settings = {name: facts.own[name] for name in LIVE if name in facts.own}
    facts.settings |= changed


def _look_at_partition(
    store: BlockingStore, crawl: StoredCrawl, subject: Subject, facts: StoreFacts
) -> None:
    keys, queue_key = crawl.keys.partition(subject.partition), subject.queue_key
    shared = crawl.config.queue_key in SPREAD or crawl.config.host_shards > 1
    host = queue_key.rpartition("#")[0] if crawl.config.host_shards > 1 else queue_key
    left = crawl.keys.back_off() if shared else keys.back_off
    spent = [f"{what}:{queue_key}" for what in ("pages", "bytes", "skipped")]
    lease, back_off, counts, claimed = store.run(
        [
            Call.command("HGET", keys.lease, "holder"),
            Call.command("HGET", left, host),
            Call.command("HMGET", keys.spent, *spent),
            Call.command("HEXISTS", keys.claimed, str(subject.mark)),
        ],
        tolerant=True,
    )
    for reply in (lease, back_off, counts, claimed):
        if isinstance(reply, KeyDamaged):
            facts.unread.append(f"{reply.key}: {reply.reason}")
    if isinstance(lease, bytes):
        facts.holder = text(node_of(lease))
    if isinstance(back_off, bytes):
        facts.back_off = read_entry(host.encode(), back_off, facts.now_ms)
    if isinstance(counts, list):
        pages, size, skipped = map(whole, counts)
        facts.spent = (pages, size, skipped)
    facts.claimed = claimed == 1


def _look_at_groups(
    store: BlockingStore, crawl: StoredCrawl, subject: Subject, facts: StoreFacts
) -> None:
    """Learn how many URLs the crawl has of the groups that traps count."""
    facts.traps = Traps(_with_limits(facts.settings))
    groups = list(facts.traps.groups(subject.url))
    calls_of_groups = []
    for one in groups:
        partition = partition_of(one.host, crawl.config.partitions)
        mark = seen_hash(f"{one.kind} {one.name}".encode("utf-8", "replace"))
        name = crawl.keys.partition(partition).groups
        calls_of_groups.append(Call.command("HGET", name, str(mark)))
    replies = store.run(calls_of_groups, tolerant=True)
    for group, reply in zip(groups, replies, strict=True):
        facts.traps.learn(group, whole(reply) if isinstance(reply, bytes) else 0)


def _with_limits(settings: Mapping[str, str]) -> Config:
    """The configuration with the limits on traps that *settings* have."""
    found: dict[str, Any] = {}
    for name in SETTINGS.values():
        with suppress(ConfigurationError):
            if name in settings:
                value = value_of(name, settings[name])
                found[name.removeprefix(PREFIX).lower()] = value
    return replace(Config(), **found)


def _look_at_tiers(
    store: BlockingStore, crawl: StoredCrawl, subject: Subject, facts: StoreFacts
) -> None:
    """Ask the shared tiers of the seen test, if their layout can be read."""
    if not {"set", "bloom"} & {*crawl.config.seen_tiers}:
        return
    keys, tiers = crawl.keys.partition(subject.partition), seen_config(crawl.config)
    try:
        numbers = store.call(layout_call(keys))
        known = all(value is None or is_number(value) for value in numbers)
        if not known or not tiers.allows(layout_of(numbers)):
            facts.unread.append(f"{keys.seen}: its numbers do not fit each other")
            return
        facts.answer = look_at_tiers(store, keys, subject.mark, tiers)
    except KeyDamaged as error:
        facts.unread.append(f"{error.key}: {error.reason}")


class _Search:
    """Looks for one URL in what its partition has queued."""

    def __init__(
        self,
        store: BlockingStore,
        keys: PartitionKeys,
        subject: Subject,
        facts: StoreFacts,
        progress: Callable[[int], None],
        *,
        is_spread: bool,
    ) -> None:
        self._store = store
        self._keys = keys
        self._subject = subject
        self._facts = facts
        self._progress = progress
        self._is_spread = is_spread
        self._looked = 0

    def run(self) -> None:
        """Look everywhere, in the order in which a URL moves, so that none is missed.

        What moves on meanwhile is met later; what was put back is met the second time.
        """
        looks = (
            *(self._waiting, self._ready, self._reserved),
            *(self._waiting, self._ready, self._dead),
        )
        for one in looks:
            if self._facts.places and one in (self._waiting, self._ready):
                continue
            try:
                one()
            except KeyDamaged as error:
                told = f"{error.key}: {error.reason}"
                if told not in self._facts.unread:
                    self._facts.unread.append(told)

    def _waiting(self) -> None:
        due = self._keys.due
        call = Call.command("ZRANGE", due, 0, MAX_NAMES - 1, "WITHSCORES")
        for name, score in _scored(self._store.call(call)):
            key = self._keys.waiting(name)
            for place, element in self._elements(key):
                try:
                    queue, item = read_waiting(element)
                except CodecError:
                    continue
                if record := self._read(queue, item):
                    more = {"place": place, "due_ms": int(score)}
                    self._add(WAITING, key, queue, record, item, **more)
        if self._store.call(Call.command("ZCARD", due)) > MAX_NAMES:
            self._facts.unread.append(f"{due}: only its first {MAX_NAMES:,} were read")

    def _ready(self) -> None:
        queues = self._keys.queues
        names = self._store.call(Call.command("ZRANGE", queues, 0, MAX_NAMES - 1))
        ours = filter(self._is_of_host, filter(None, map(readable, names)))
        before = 0
        for queue in ours:  # the highest priority first
            key = self._keys.ready(queue)
            length = int(self._store.call(Call.command("LLEN", key)))
            for place, item in self._elements(key):
                if record := self._read(queue, item):
                    more = {"place": place, "of": length, "before": before}
                    self._add(READY, key, queue, record, item, **more)
            before += length
        if self._store.call(Call.command("ZCARD", queues)) > MAX_NAMES:
            told = f"{queues}: only its first {MAX_NAMES:,} were read"
            self._facts.unread.append(told)

    def _reserved(self) -> None:
        keys = self._keys
        reserved, started, lease = self._store.run(
            [
                Call.command("HGETALL", keys.reserved),
                Call.command("SMEMBERS", keys.started),
                Call.command("HMGET", keys.lease, "token", "holder"),
            ]
        )
        token, holder = lease
        for number, value in reserved.items():
            try:
                _, own, queue, item = read_reserved(number, value)
            except CodecError:
                continue
            if record := self._read(queue, item):
                kind = STARTED if number in started else RESERVED
                node = text(node_of(holder or b"")) if token == b"%d" % own else ""
                self._add(kind, keys.reserved, queue, record, item, node=node)
        self._count(len(reserved))

    def _dead(self) -> None:
        for _, value in self._elements(self._keys.dead, CHUNK):
            found = letter(self._subject.partition, value)
            if found.url and self._is_it(found.url):
                item = value.split(b"\n", 2)[-1]
                record = self._read(found.queue, item) or {"url": found.url}
                reason = printable(found.reason.decode("utf-8", "replace"))
                place = {"reason": reason}
                self._add(DEAD, self._keys.dead, found.queue, record, item, **place)

    def _elements(self, key: str, window: int = WINDOW) -> Iterator[tuple[int, bytes]]:
        """The elements of the list *key*, each with its place, counted from 1."""
        first = 0
        while True:
            call = Call.command("LRANGE", key, first, first + window - 1)
            some: Sequence[bytes] = self._store.call(call)
            yield from enumerate(some, first + 1)
            self._count(len(some))
            first += len(some)
            if len(some) < window:
                return

    def _count(self, more: int) -> None:
        self._looked += more
        self._progress(self._looked)

    def _is_of_host(self, queue: str) -> bool:
        if self._is_spread:
            return True
        key = split_name(queue)[1]
        own = self._subject.queue_key
        return key == own or key.startswith(f"{own}~")

    def _is_it(self, url: str) -> bool:
        return url == self._subject.url or self._subject.same(url)

    def _read(self, queue: str, item: bytes) -> Mapping[str, Any] | None:
        """The record of *item*, if it is of the URL."""
        try:
            record = decode(item, queue)
        except CodecError:
            return None
        return record if self._is_it(str(record["url"])) else None

    def _add(
        self,
        kind: str,
        key: str,
        queue: str,
        record: Mapping[str, Any],
        item: bytes,
        **more: Any,
    ) -> None:
        method = record.get("method", "GET")
        self._facts.places.append(
            Place(
                kind,
                key,
                queue,
                printable(method) if isinstance(method, str) else "GET",
                _origin(record.get("meta")),
                deliveries(item),
                process=process_of(queue),
                visited=bool(record.get("recrawl")),
                **more,
            )
        )


def _origin(meta: Any) -> Origin:
    """How a request with *meta* was found; see `frontier.requests.discovery`."""
    found = meta.get("frontier_found") if isinstance(meta, dict) else None
    if not isinstance(found, list | tuple) or len(found) != 4:
        return Origin()
    via, hops, seed = (one if isinstance(one, str) else "" for one in found[:3])
    is_seed = found[1] == "" and not via
    return Origin(via[:2_000], hops[:60], seed[:2_000], is_seed)


def _scored(reply: Any) -> Iterator[tuple[str, float]]:
    """The members of a sorted set and their scores, however the client gives them."""
    if reply and isinstance(reply[0], list | tuple):
        pairs = [(name, score) for name, score in reply]
    else:
        pairs = list(zip(reply[::2], reply[1::2], strict=True))
    for name, score in pairs:
        yield name.decode("utf-8", "replace"), float(score)
