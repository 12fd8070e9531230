"""The seen-set of a crawl as the store has it, whoever made it.

What always holds:

1.  The number of partitions, the queue key and the tiers are those that the
    crawl was created with, not those of the settings here.
2.  A call on buckets carries the number of buckets that its keys were computed
    for, and is made again with the current one if that is another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier import buckets
from frontier.conf import Config
from frontier.errors import (
    CannotForget,
    CodecError,
    ConfigurationError,
    LayoutStale,
    UnknownCrawl,
)
from frontier.model import Layout
from frontier.planning import error_after
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.store.scripts import SEEN_FORGET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.bloom import Generation
    from frontier.hashing import Mark
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

MAX_MEMBERS = 500
"""Members per call: more would keep the server for longer than a push does."""
SHAPE = (
    "FRONTIER_PARTITIONS",
    "FRONTIER_QUEUE_KEY",
    "FRONTIER_SEEN_TIERS",
    "FRONTIER_BLOOM_CAPACITY",
    "FRONTIER_BLOOM_ERROR_RATE",
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What the shared tiers say of one URL."""

    layout: Layout
    bucket: int | None
    """Where the set has it or would have it; ``None`` without a set."""
    in_set: bool
    filters: tuple[bool, ...]
    """Whether each Bloom generation says that it has the URL."""
    bloom_error: float
    """Chance, at most, that the Bloom tier calls a new URL seen now."""

    @property
    def seen(self) -> bool:
        """Whether the URL would be called seen: the set's word if there is one."""
        return self.in_set if self.bucket is not None else any(self.filters)


def stored_crawl(store: BlockingStore, namespace: str, crawl_id: str) -> StoredCrawl:
    """The crawl *crawl_id*.

    Raises:
        UnknownCrawl: There is none.
        CodecError: It was created by another version.
    """
    keys = CrawlKeys(namespace, crawl_id)
    names = ("state", "spider", "shape")
    state, spider, text = store.call(Call.command("HMGET", keys.meta(), *names))
    if state is None:
        raise UnknownCrawl(namespace, crawl_id)
    try:
        shape = json.loads(text or b"")
        config = checked_shape(shape)
    except (ValueError, RecursionError, ConfigurationError) as error:
        raise CodecError(
            f"the settings of the crawl {crawl_id} in the store "
            f"are not this version's: {error}"
        ) from None
    return StoredCrawl(
        keys,
        state.decode("utf-8", "replace"),
        (spider or b"").decode("utf-8", "replace"),
        shape,
        config,
    )


def checked_shape(shape: Any) -> Config:
    """The configuration that *shape*, of unknown origin, stands for.

    Raises:
        ConfigurationError: It stands for none.
    """
    if not isinstance(shape, dict):
        raise ConfigurationError("they are no settings")
    for name in SHAPE:
        if name not in shape:
            raise ConfigurationError(f"there is no {name}")
    return Config.from_settings(shape)


def layout_of(reply: Sequence[bytes | None]) -> Layout:
    """The layout whose four fields the store gave as *reply*."""
    found = [int(value or 0) for value in reply]
    return Layout(found[0] or 1, *found[1:])


def layout_call(keys: PartitionKeys) -> Call:
    """The call that asks for a partition's layout."""
    names = ("buckets", "count", "blooms", "last")
    return Call.command("HMGET", keys.seen, *names)


def look(
    store: BlockingStore,
    keys: PartitionKeys,
    mark: Mark,
    generation: Callable[[int], Generation],
    *,
    has_set: bool,
) -> Answer:
    """What the tiers of the partition of *keys* say of *mark*."""
    layout = layout_of(store.call(layout_call(keys)))
    while True:
        made = [generation(number) for number in range(layout.blooms)]
        bucket = buckets.bucket_of(mark.member, layout.buckets)
        calls = [Call.command("SISMEMBER", keys.bucket(bucket), str(mark.member))]
        calls += [
            Call.command("GETBIT", keys.bloom(n), (mark.h1 + i * mark.h2) % each.bits)
            for n, each in enumerate(made)
            for i in range(each.hashes)
        ]
        *replies, current = store.run([*calls, layout_call(keys)])
        found = layout_of(current)
        if (found.buckets, found.blooms) == (layout.buckets, layout.blooms):
            break
        layout = found  # it grew in between
    filters, at = [], 1
    for each in made:
        filters.append(all(replies[at : at + each.hashes]))
        at += each.hashes
    inside = sum(each.capacity for each in made[:-1]) + layout.last
    return Answer(
        layout=layout,
        bucket=bucket if has_set else None,
        in_set=has_set and replies[0] == 1,
        filters=tuple(filters),
        bloom_error=error_after(made, inside) if made else 0.0,
    )


def forget(
    store: BlockingStore, crawl: StoredCrawl, partition: int, members: Sequence[int]
) -> list[bool]:
    """Take *members* out of a partition's set; return which of them were there.

    Raises:
        CannotForget: The crawl has no set.
    """
    if "set" not in crawl.config.seen_tiers:
        raise CannotForget(crawl.keys.crawl_id)
    keys = crawl.keys.partition(partition)
    layout, done = layout_of(store.call(layout_call(keys))), list[bool]()
    while len(done) < len(members):
        batch = members[len(done) : len(done) + MAX_MEMBERS]
        try:
            done += forgotten(store.call(forget_call(keys, layout, batch)))
        except LayoutStale as error:
            layout = error.layout
    return done


def forget_call(keys: PartitionKeys, layout: Layout, members: Sequence[int]) -> Call:
    """The call that takes *members*, at most `MAX_MEMBERS`, out of the set."""
    places = [buckets.bucket_of(member, layout.buckets) for member in members]
    names = [keys.seen, *(keys.bucket(place) for place in places)]
    return Call.to(SEEN_FORGET, names, [layout.buckets, *map(str, members)])


def forgotten(reply: list[Any]) -> list[bool]:
    """Which members the call with *reply* took out.

    Raises:
        LayoutStale: None, as the set has another number of buckets.
    """
    if reply[0] == 0:
        raise LayoutStale(Layout(buckets=int(reply[1])))
    return [flag == 1 for flag in reply[1]]
