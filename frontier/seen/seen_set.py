"""The seen-set of a crawl as the store has it, whoever made it.

What always holds:

1.  The number of partitions, the queue key and the tiers are those that the
    crawl was created with, not those of the settings here.
2.  A call on buckets carries the number of buckets that its keys were computed
    for, and is made again with the current one if that is another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frontier.errors import (
    CannotForget,
    ConfigurationError,
    KeyDamaged,
    UnknownCrawl,
)
from frontier.seen import bloom
from frontier.seen.capacity_plan import error_after
from frontier.seen.config import LayoutStale, SeenLayout
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, check_schema
from frontier.store.scripts import SEEN_FORGET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

BY_FINGERPRINT = "fingerprint"
"""``FRONTIER_QUEUE_KEY`` in the settings of a crawl of the duplicate filter alone."""
MAX_MEMBERS = 500
"""Members per call: more would keep the server for longer than a push does."""
LAYOUT = ("buckets", "count", "blooms", "last", "era")
"""Fields of a partition's seen-set; see `SeenLayout`."""
SHAPE = (
    "FRONTIER_PARTITIONS",
    "FRONTIER_QUEUE_KEY",
    "FRONTIER_HOST_SHARDS",
    "FRONTIER_CANON_RULES",
    "FRONTIER_SEEN_TIERS",
    "FRONTIER_SEEN_SET_BITS",
    "FRONTIER_BLOOM_CAPACITY",
    "FRONTIER_BLOOM_ERROR_RATE",
    "FRONTIER_BLOOM_NATIVE",
    "REQUEST_FINGERPRINTER_CLASS",
    "canonicalization",
)
"""Settings without which a seen-set cannot be read."""


@dataclass(frozen=True, slots=True)
class StoredCrawl:
    """A crawl, and what it was created with."""

    keys: CrawlKeys
    state: str
    spider: str
    shape: dict[str, Any]
    config: Config
    """The shape, checked; settings that are not in it have their defaults."""
    removed: bool = False
    """Whether its queues and what it had seen are gone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the shared tiers say of one URL."""

    layout: SeenLayout
    bucket: int | None
    """Where the set has it or would have it; ``None`` without a set."""
    in_set: bool
    filters: tuple[bool, ...]
    """Whether each Bloom generation says that it has the URL."""
    bloom_error: float
    """Chance, at most, that the Bloom tier calls a new URL seen now."""

    @property
    def seen(self) -> bool:
        """Whether the URL would be called seen.

        The set's word, if there is one; but once a set was dropped, a URL that
        only Bloom has is seen too.
        """
        if self.bucket is None or self.layout.era:
            return self.in_set or any(self.filters)
        return self.in_set


def stored_crawl(store: BlockingStore, namespace: str, crawl_id: str) -> StoredCrawl:
    """The crawl *crawl_id*.

    Raises:
        UnknownCrawl: There is none.
        OtherSchema: It was created by another version.
        KeyDamaged: What it was created with cannot be read.
    """
    keys = CrawlKeys(namespace, crawl_id)
    names = ("state", "spider", "shape", "removed_ms", "born", "schema")
    state, spider, text, removed, born, schema = store.call(
        Call.command("HMGET", keys.meta(), *names)
    )
    if state is None:
        raise UnknownCrawl(namespace, crawl_id)
    check_schema(crawl_id, schema)
    try:
        shape = json.loads(text or b"")
        config = checked_shape(shape)
    except (ValueError, RecursionError, ConfigurationError) as error:
        reason = f"its shape is not the settings of a crawl: {error}"
        raise KeyDamaged(store.where, keys.meta(), reason) from None
    return StoredCrawl(
        CrawlKeys(namespace, crawl_id, (born or b"").decode("utf-8", "replace")),
        state.decode("utf-8", "replace"),
        (spider or b"").decode("utf-8", "replace"),
        shape,
        config,
        removed is not None,
    )


def checked_shape(shape: Any) -> Config:
    """The configuration that *shape*, of unknown origin, stands for.

    Raises:
        ConfigurationError: It stands for none.
    """
    if not isinstance(shape, dict):
        raise ConfigurationError("they are not settings")
    for name in SHAPE:
        if name not in shape:
            raise ConfigurationError(f"there is no {name}")
    if shape["FRONTIER_QUEUE_KEY"] != BY_FINGERPRINT:
        return Config.from_settings(shape)
    given = {name: shape[name] for name in shape if name != "FRONTIER_QUEUE_KEY"}
    # No setting can say so: nothing is queued by it.
    return replace(Config.from_settings(given), queue_key=BY_FINGERPRINT)


def layout_of(reply: Sequence[bytes | None]) -> SeenLayout:
    """The layout whose fields the store gave as *reply* to `layout_call`."""
    return SeenLayout(*(int(value or 0) for value in reply))


def layout_call(keys: PartitionKeys) -> Call:
    """The call that asks for a partition's layout."""
    return Call.command("HMGET", keys.seen, *LAYOUT)


def look(
    store: BlockingStore, keys: PartitionKeys, mark: int, tiers: SeenConfig
) -> Answer:
    """What the tiers of the partition of *keys* say of *mark*."""
    layout = layout_of(store.call(layout_call(keys)))
    space = tiers.space
    entry = space.entry(mark)
    while True:
        bucket = space.bucket_of(entry, layout.buckets or space.groups)
        member = str(space.member(entry))
        calls = [
            Call.command("SISMEMBER", keys.bucket(layout.era, bucket), member),
            *_filter_calls(keys, mark, tiers, layout.blooms),
        ]
        *replies, current = store.run([*calls, layout_call(keys)])
        found = layout_of(current)
        if _same_keys(found, layout):
            break
        layout = found  # it grew in between
    return Answer(
        layout=layout,
        bucket=bucket if tiers.has_set else None,
        in_set=tiers.has_set and replies[0] == 1,
        filters=tuple(_filters_say(replies[1:], tiers, layout.blooms)),
        bloom_error=bloom_error(tiers, layout),
    )


def bloom_error(tiers: SeenConfig, layout: SeenLayout) -> float:
    """Chance, at most, that the Bloom tier of a partition calls a new URL seen."""
    if not layout.blooms:
        return 0.0
    if tiers.native:
        return tiers.error_rate  # the server keeps its own books
    made = [tiers.generation(number) for number in range(layout.blooms)]
    return error_after(made, in_bloom(tiers, layout))


def in_bloom(tiers: SeenConfig, layout: SeenLayout) -> int:
    """URLs in the Bloom tier of a partition, at most."""
    full = range(0 if tiers.native else layout.blooms - 1)
    return sum(tiers.generation(number).capacity for number in full) + layout.last


def _filter_calls(
    keys: PartitionKeys, mark: int, tiers: SeenConfig, blooms: int
) -> list[Call]:
    if tiers.native and blooms:
        return [Call.command("BF.EXISTS", keys.bloom(0), str(mark))]
    return [
        Call.command("GETBIT", keys.bloom(number), position)
        for number in range(blooms)
        for position in bloom.positions(mark, tiers.generation(number))
    ]


def _filters_say(
    replies: Sequence[int], tiers: SeenConfig, blooms: int
) -> Iterator[bool]:
    if tiers.native:
        yield from (bool(reply) for reply in replies)
        return
    at = 0
    for number in range(blooms):
        hashes = tiers.generation(number).hashes
        yield all(replies[at : at + hashes])
        at += hashes


def _same_keys(one: SeenLayout, other: SeenLayout) -> bool:
    names = ("buckets", "blooms", "era")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def forget(
    store: BlockingStore,
    crawl: StoredCrawl,
    tiers: SeenConfig,
    partition: int,
    marks: Sequence[int],
) -> list[bool]:
    """Take *marks* out of a partition's set; return which of them were there.

    Raises:
        CannotForget: The crawl has no set.
    """
    if not tiers.has_set:
        raise CannotForget(crawl.keys.crawl_id)
    keys = crawl.keys.partition(partition)
    layout, done = layout_of(store.call(layout_call(keys))), list[bool]()
    while len(done) < len(marks):
        batch = marks[len(done) : len(done) + MAX_MEMBERS]
        try:
            done += forgotten(store.call(forget_call(keys, tiers, layout, batch)))
        except LayoutStale as error:
            layout = error.layout
    return done


def forget_call(
    keys: PartitionKeys, tiers: SeenConfig, layout: SeenLayout, marks: Sequence[int]
) -> Call:
    """The call that takes *marks*, at most `MAX_MEMBERS`, out of the set."""
    space = tiers.space
    numbers = space.numbers(marks, layout.buckets or space.groups)
    names = [keys.seen, *(keys.bucket(layout.era, number) for number in numbers)]
    members = [str(space.member(space.entry(mark))) for mark in marks]
    return Call.to(SEEN_FORGET, names, [layout.buckets, layout.era, *members])


def forgotten(reply: list[Any]) -> list[bool]:
    """Which marks the call with *reply* took out.

    Raises:
        LayoutStale: None, as the set is another one or has grown.
    """
    if reply[0] == 0:
        raise LayoutStale(SeenLayout(buckets=int(reply[1]), era=int(reply[2])))
    return [flag == 1 for flag in reply[1]]
