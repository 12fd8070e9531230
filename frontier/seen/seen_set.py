"""The seen-set of a crawl in the store, whoever made it: what is in it, how full it is.

What always holds:

1.  The number of partitions, the queue key and the tiers are those that the
    crawl was created with, not those of the settings here.
2.  A call on buckets carries the number of buckets for which its keys were computed,
    and is made again with the current number if that differs.
3.  The functions that say how full the tiers are (`state_call` to `lost`) do no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from frontier.cluster.crawls import BY_FINGERPRINT
from frontier.errors import (
    ConfigurationError,
    KeyDamaged,
    UnknownCrawl,
)
from frontier.model import frozen
from frontier.seen import bloom, intset
from frontier.seen.config import SeenConfig, SeenLayout
from frontier.settings.config import Config
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, PartitionKeys, check_schema

CANNOT_FORGET = (
    "the crawl {} keeps no set of what it saw, and a Bloom filter cannot forget; only "
    "a crawl with 'set' in FRONTIER_SEEN_TIERS can"
)
MAX_MEMBERS = 500
"""Members per call: more would occupy the server for longer than a push does."""
LAYOUT = ("buckets", "count", "blooms", "last", "era")
"""Fields of a partition's seen-set; see `SeenLayout`."""
STATE = (*LAYOUT, "lost_from", "given_up", "old")
"""`LAYOUT`, and what is known about dropped sets; see `PartitionState`."""
PLACED_BY = (
    "FRONTIER_PARTITIONS",
    "FRONTIER_QUEUE_KEY",
    "FRONTIER_HOST_SHARDS",
    "FRONTIER_CANON_RULES",
    "REQUEST_FINGERPRINTER_CLASS",
    "canonicalization",
)
"""Settings that decide on the partition and the mark of a URL."""
BLOOM_BY = ("FRONTIER_BLOOM_CAPACITY", "FRONTIER_BLOOM_ERROR_RATE")
"""Settings that decide on the bits of a URL in Bloom filters."""
SHAPE = (*PLACED_BY, *BLOOM_BY, "FRONTIER_SEEN_TIERS")
"""Settings without which a seen-set cannot be read."""


@frozen
class StoredCrawl:
    """A crawl and what it was created with."""

    keys: CrawlKeys
    state: str
    spider: str
    shape: dict[str, Any]
    config: Config
    """The checked shape; settings that are not in it have their defaults."""
    removed: bool = False
    """Whether its queues and its seen-set are gone."""


@frozen
class Answer:
    """What the shared tiers say about one URL."""

    layout: SeenLayout
    bucket: int | None
    """Where the set has the URL or would have it; ``None`` without a set."""
    in_set: bool
    filters: tuple[bool, ...]
    """Whether each Bloom generation says that it has the URL."""
    bloom_error: float
    """Upper bound of the chance that the Bloom tier now calls a new URL seen."""

    @property
    def seen(self) -> bool:
        """Whether the URL would be called seen.

        The set decides, if there is one; but once a set was dropped, a URL that only
        Bloom has is seen too.
        """
        if self.bucket is None or self.layout.era:
            return self.in_set or any(self.filters)
        return self.in_set

    @property
    def only_bloom(self) -> bool:
        """Whether the URL is called seen on the word of the Bloom tier alone."""
        return self.seen and not self.in_set


def stored_crawl(store: BlockingStore, namespace: str, crawl_id: str) -> StoredCrawl:
    """The crawl *crawl_id*.

    Raises:
        UnknownCrawl: There is none.
        OtherSchema: It was created by another version.
        KeyDamaged: What it was created with cannot be read.
    """
    keys = CrawlKeys(namespace, crawl_id)
    names = ("state", "spider", "shape", "removed_ms", "born", "schema")
    state, spider, text, removed, born, schema = store.command(
        "HMGET", keys.meta, *names
    )
    if state is None:
        raise UnknownCrawl(namespace, crawl_id)
    check_schema(crawl_id, schema)
    try:
        shape = json.loads(text or b"")
        config = checked_shape(shape)
    except (ValueError, RecursionError, ConfigurationError) as error:
        reason = f"its shape is not the settings of a crawl: {error}"
        raise KeyDamaged(store.where, keys.meta, reason) from None
    return StoredCrawl(
        CrawlKeys(namespace, crawl_id, (born or b"").decode("utf-8", "replace")),
        state.decode("utf-8", "replace"),
        (spider or b"").decode("utf-8", "replace"),
        shape,
        config,
        removed is not None,
    )


def checked_shape(shape: Any) -> Config:
    """The configuration in *shape*, which is of unknown origin.

    Raises:
        ConfigurationError: It is not the shape of a crawl.
    """
    if not isinstance(shape, dict):
        raise ConfigurationError("they are not settings")
    for name in SHAPE:
        if name not in shape:
            raise ConfigurationError(f"there is no {name}")
    if shape["FRONTIER_QUEUE_KEY"] != BY_FINGERPRINT:
        return Config.from_settings(shape)
    given = {name: shape[name] for name in shape if name != "FRONTIER_QUEUE_KEY"}
    # Settings cannot have this value, as such a crawl queues nothing.
    return replace(Config.from_settings(given), queue_key=BY_FINGERPRINT)


def layout_of(reply: Sequence[bytes | None]) -> SeenLayout:
    """The layout in the *reply* to `layout_call`."""
    buckets, *rest = reply
    return SeenLayout(int(buckets or 1), *(int(value or 0) for value in rest))


def layout_call(keys: PartitionKeys) -> Call:
    """The call that asks for a partition's layout."""
    return Call.command("HMGET", keys.seen, *LAYOUT)


def look(
    store: BlockingStore, keys: PartitionKeys, mark: int, tiers: SeenConfig
) -> Answer:
    """What the tiers of the partition with *keys* say about *mark*."""
    layout = SeenLayout()
    while True:
        bucket = intset.bucket_of(mark, layout.buckets)
        made = tiers.generations(layout)
        asked = [
            Call.command("GETBIT", keys.bloom(number), position)
            for number, each in enumerate(made)
            for position in bloom.positions(mark, each)
        ]
        calls = [Call.command("SISMEMBER", keys.bucket(layout.era, bucket), mark)]
        calls += asked
        in_set, *bits, current = store.run([*calls, layout_call(keys)])
        found = layout_of(current)
        grown = (found.buckets, found.blooms, found.era)
        if grown == (layout.buckets, layout.blooms, layout.era):
            break
        layout = found  # it grew in between
    answers = iter(bits)
    said = [all(list(islice(answers, each.hashes))) for each in made]
    return Answer(
        layout=layout,
        bucket=bucket if tiers.has_set else None,
        in_set=tiers.has_set and in_set == 1,
        filters=tuple(said),
        bloom_error=bloom_error(tiers, layout),
    )


def bloom_error(tiers: SeenConfig, layout: SeenLayout) -> float:
    """Upper bound of the chance that a partition's Bloom tier calls a new URL seen."""
    return bloom.error_after(tiers.generations(layout), in_bloom(tiers, layout))


def in_bloom(tiers: SeenConfig, layout: SeenLayout) -> int:
    """Upper bound of the URLs in the Bloom tier of a partition."""
    full = tiers.generations(layout)[:-1]
    return sum(each.capacity for each in full) + layout.last


def forget(
    store: BlockingStore,
    crawl: StoredCrawl,
    partition: int,
    marks: Sequence[int],
) -> list[bool] | None:
    """Take *marks* out of a partition's set; return which of them were there.

    ``None`` if one of its sets was given up, so that a Bloom filter decides there.
    """
    keys, buckets, done = crawl.keys.partition(partition), 1, list[bool]()
    while len(done) < len(marks):
        batch = marks[len(done) : len(done) + MAX_MEMBERS]
        numbers = intset.buckets_of(batch, buckets)
        names = [keys.seen, *(keys.bucket(0, number) for number in numbers)]
        did, *reply = store.call(Call.to("seen_forget", names, [buckets, 0, *batch]))
        if did:
            done += [flag == 1 for flag in reply[0]]
        elif reply[1]:
            return None
        else:
            buckets = reply[0]
    return done


@frozen
class PartitionState:
    """The tiers of one partition."""

    layout: SeenLayout
    lost_from: int | None
    """URLs in Bloom when the first set was dropped; ``None`` if none was."""
    given_up: int
    """URLs of dropped sets."""
    old: tuple[int, int] | None
    """Era and buckets of a dropped set that is being deleted."""
    set_bytes: int


@frozen
class SeenState:
    """The tiers of a crawl."""

    urls: int = 0
    """Different URLs, as far as the tiers can tell."""
    set_urls: int = 0
    set_bytes: int = 0
    bloom_urls: int = 0
    """An upper bound: a generation may end a little early."""
    bloom_bytes: int = 0
    bloom_fill: float = 0.0
    """URLs in the Bloom tier, divided by those it has room for without growing."""
    bloom_error: float = 0.0
    """Upper bound of the chance that the Bloom tier calls a new URL seen."""
    generations: int = 0
    """Bloom generations of the partition that has most."""
    given_up: int = 0
    lost: float = 0.0
    """Expected number of new URLs that were called seen."""


def state_call(keys: PartitionKeys) -> Call:
    """The call whose reply `partition_state` reads."""
    return Call.command("HMGET", keys.seen, *STATE)


def partition_state(
    tiers: SeenConfig, reply: Sequence[bytes | None]
) -> PartitionState | None:
    """The state in *reply*; ``None`` if nothing was ever put into the partition.

    Raises:
        ValueError: It is not a reply of this version.
    """
    if not any(reply):
        return None
    layout = layout_of(reply[: len(LAYOUT)])
    lost_from, given_up, old = reply[len(LAYOUT) :]
    era, buckets = (old or b"0 0").split()
    has = layout.count if tiers.has_set else 0
    return PartitionState(
        layout,
        None if lost_from is None else int(lost_from),
        int(given_up or 0),
        None if old is None else (int(era), int(buckets)),
        intset.set_bytes(has, layout.buckets),
    )


def crawl_state(tiers: SeenConfig, partitions: Sequence[PartitionState]) -> SeenState:
    """The state of all *partitions*; the error is averaged over URLs."""
    urls = [_urls(tiers, each) for each in partitions]
    layouts = [each.layout for each in partitions]
    filters = [made for layout in layouts for made in tiers.generations(layout)]
    room = sum(made.capacity for made in filters)
    in_filters = sum(in_bloom(tiers, layout) for layout in layouts)
    return SeenState(
        urls=sum(urls),
        set_urls=sum(layout.count for layout in layouts),
        set_bytes=sum(each.set_bytes for each in partitions),
        bloom_urls=in_filters,
        bloom_bytes=sum(-(-made.bits // 8) for made in filters),
        bloom_fill=in_filters / room if room else 0.0,
        bloom_error=sum(
            bloom_error(tiers, layout) * count / sum(urls)
            for layout, count in zip(layouts, urls, strict=True)
            if count
        ),
        generations=max((layout.blooms for layout in layouts), default=0),
        given_up=sum(each.given_up for each in partitions),
        lost=sum(lost(tiers, each) for each in partitions),
    )


def lost(tiers: SeenConfig, state: PartitionState) -> float:
    """Expected number of new URLs of a partition that were called seen."""
    since = state.lost_from if tiers.has_set else 0
    if since is None:
        return 0.0
    made, inside = tiers.generations(state.layout), in_bloom(tiers, state.layout)
    return bloom.lost(made, inside) - bloom.lost(made, since)


def _urls(tiers: SeenConfig, state: PartitionState) -> int:
    if tiers.has_set and (state.given_up or not state.layout.era):
        return state.given_up + state.layout.count
    return in_bloom(tiers, state.layout)  # an upper bound: a generation may end early
