"""Carrying over what a crawl has seen: from its tiers to a file, and back.

What always holds:

1.  A set is carried over entry by entry, into any crawl that can take its entries.
    Bloom filters, where there is no set or one was dropped for lack of memory, are
    carried over as they are, and only into a crawl made for them.
2.  A set is read by its range of entries, from below, and where reading stands is an
    entry, not a bucket: when the set grows, it goes on from there. What was in the set
    when it began is read, exactly once.
3.  Adding splits the buckets that all will need before it adds the first. Sorted
    entries would else fill one bucket far over the server's limit.
4.  Adding again what is there changes nothing: an import that broke off can be made
    again.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from frontier.cluster.crawls import mark_now, open_call
from frontier.errors import (
    CannotCarry,
    ConfigurationError,
    SeenFileBroken,
    SeenFileMismatch,
)
from frontier.files import mode_of_environment
from frontier.queue.push import NEW, TEST, Push, push_to
from frontier.seen.config import MAX_URLS, SeenLayout, grow_call, grown
from frontier.seen.export.file import (
    BITS,
    BLOCK_BYTES,
    ENTRIES,
    HASH,
    Header,
    SeenFile,
    SeenFileWriter,
)
from frontier.seen.seen_set import checked_shape, in_bloom, layout_call, layout_of
from frontier.settings.values import NAME
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, RegistryKeys
from frontier.store.scripts import SEEN_READ
from frontier.urls.canon.rulesets import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from frontier.seen.config import SeenConfig
    from frontier.seen.export.file import Block
    from frontier.seen.intset import Space
    from frontier.seen.seen_set import StoredCrawl
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys


MAX_BUCKETS = 16
"""Buckets that are read with one call."""
MAX_SPLITS = 32
"""Splits that are made with one call."""


def entries(
    store: BlockingStore, keys: PartitionKeys, space: Space
) -> Iterator[list[int]]:
    """The entries of the partition's set, in sorted lists, each above the last."""
    layout = layout_of(store.call(layout_call(keys)))
    at = 0
    while at < space.end and layout.count:
        # Until the first split the store does not say how many buckets there are.
        total = layout.buckets or space.groups
        numbers, end = list[int](), at
        while end < space.end and len(numbers) < MAX_BUCKETS:
            numbers.append(space.bucket_of(end, total))
            end = space.range_of(end, total).stop
        names = [keys.seen, *(keys.bucket(layout.era, number) for number in numbers)]
        reply = store.call(Call.to(SEEN_READ, names, [layout.buckets, layout.era]))
        if reply[0] == 0:
            layout = replace(layout, buckets=int(reply[1]), era=int(reply[2]))
            continue
        found = sorted(
            space.entry_of(int(value), number)
            for number, bucket in zip(numbers, reply[1:], strict=True)
            for value in bucket
        )
        # A bucket of a set that has grown may begin below where this stands.
        if found := [entry for entry in found if at <= entry < end]:
            yield found
        at = end


def reserve(
    store: BlockingStore, keys: PartitionKeys, tiers: SeenConfig, count: int
) -> SeenLayout:
    """Give the partition's set the buckets that *count* more entries will need."""
    layout = layout_of(store.call(layout_call(keys)))
    while tiers.has_set:
        now = layout.buckets or tiers.space.groups
        total = tiers.space.wanted(layout.count + count)
        if total <= now:
            break
        call = grow_call(keys, tiers, layout, min(total, now + MAX_SPLITS))
        layout = grown(store.call(call))
    return layout


def add(
    store: BlockingStore,
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    marks: Sequence[int],
) -> tuple[SeenLayout, int]:
    """Add *marks*; return the layout and how many of them were new.

    They are at most as many as `frontier.seen.config.MAX_URLS`.
    """
    pushes = [Push(TEST, mark, "", 0, b"") for mark in marks]
    done = push_to(store, keys, tiers, layout, pushes)
    return done.layout, done.verdicts.count(NEW)


NO_TIER = "keeps nothing of what it saw in the store"
NATIVE = (
    "keeps what it saw in the server's own filters, which are not carried over; "
    "a crawl with 'set' in FRONTIER_SEEN_TIERS or FRONTIER_BLOOM_NATIVE = 'no' can be"
)
GAVE_UP = "gave up a set while it was exported; export it again"
NOT_EMPTY = "has seen URLs already; Bloom filters can be imported with --new only"


def export(
    store: BlockingStore,
    crawl: StoredCrawl,
    tiers: SeenConfig,
    path: Path,
    fingerprinter: str,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write what *crawl* saw to *path*; return how many URLs of sets are in it.

    *progress* is told how many partitions are done.

    Raises:
        CannotCarry: What it saw is nowhere, or in filters of the server's.
        ConfigurationError: *path* cannot be written.
    """
    name = crawl.keys.crawl_id
    if not (tiers.has_set or tiers.has_bloom):
        raise CannotCarry(name, NO_TIER)
    if tiers.native and not tiers.has_set:
        raise CannotCarry(name, NATIVE)
    header = Header(
        fingerprinter,
        name,
        crawl.spider,
        crawl.shape,
        tiers.space.bits,
        tiers.space.groups,
        rules=label_of(crawl.config.canon_rules),
    )
    with SeenFileWriter(path, header, mode_of_environment()) as file:
        for partition in range(crawl.config.partitions):
            _export_partition(store, crawl, tiers, partition, file)
            progress(partition + 1)
    return file.urls


def _export_partition(
    store: BlockingStore,
    crawl: StoredCrawl,
    tiers: SeenConfig,
    partition: int,
    file: SeenFileWriter,
) -> None:
    keys, name = crawl.keys.partition(partition), crawl.keys.crawl_id
    layout = layout_of(store.call(layout_call(keys)))
    if layout.blooms and (layout.era or not tiers.has_set):
        if tiers.native:
            raise CannotCarry(name, NATIVE)
        _export_filters(store, keys, tiers, partition, layout, file)
    if tiers.has_set:
        for found in entries(store, keys, tiers.space):
            file.add(partition, found)
    if layout_of(store.call(layout_call(keys))).era != layout.era:
        raise CannotCarry(name, GAVE_UP)


def _export_filters(
    store: BlockingStore,
    keys: PartitionKeys,
    tiers: SeenConfig,
    partition: int,
    layout: SeenLayout,
    file: SeenFileWriter,
) -> None:
    file.add_layout(partition, layout.blooms, layout.last)
    for number in range(layout.blooms):
        size = -(-tiers.generation(number).bits // 8)
        for at in range(0, size, BLOCK_BYTES):
            end = at + BLOCK_BYTES - 1
            data = store.call(Call.command("GETRANGE", keys.bloom(number), at, end))
            if data.strip(b"\0"):
                file.add_bits(partition, number, at, data)


class Import:
    """A file to be imported. It has been read to its end when this exists.

    Raises:
        SeenFileBroken: It is not whole.
        SeenFileMismatch: It was made by other rules, or of other fingerprints.
    """

    def __init__(self, path: Path, fingerprinter: str) -> None:
        self._path = str(path)
        self._file = SeenFile(path)
        self.read = 0
        """Members that are in the store now."""
        self.added = 0
        """Those of them that were not there before."""
        try:
            header = self._file.header
            self._same("fingerprinter", header.fingerprinter, fingerprinter)
            self._same("hash", header.hash, HASH)
            self._config = self._shape()
            rules = label_of(self._config.canon_rules)
            self._same("canonicalization", header.rules, rules)
            self._counts = self._file.verified()
        except BaseException:
            self._file.close()
            raise

    @property
    def urls(self) -> int:
        """How many the file has."""
        return self._file.header.urls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def create(self, store: BlockingStore, namespace: str, crawl_id: str) -> None:
        """Create a crawl with the settings of the one that was exported.

        Raises:
            ConfigurationError: There is one of that name, or it is not a name.
        """
        if not NAME.fullmatch(crawl_id):
            raise ConfigurationError(f"{crawl_id[:200]!r} cannot be the id of a crawl")
        keys = CrawlKeys(namespace, crawl_id)
        if store.call(Call.command("EXISTS", keys.meta())):
            raise ConfigurationError(
                f"there is a crawl {crawl_id} already; import with --crawl {crawl_id}"
            )
        header = self._file.header
        keys = CrawlKeys(namespace, crawl_id, secrets.token_hex(8))
        store.run(
            [
                open_call(keys, json.dumps(header.shape), header.spider),
                Call.command("SADD", RegistryKeys(namespace).crawls(), crawl_id),
            ]
        )
        for error in mark_now(store, keys, self._config.partitions).values():
            raise error

    def run(
        self,
        store: BlockingStore,
        crawl: StoredCrawl,
        tiers: SeenConfig,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Let *crawl* have seen all that is in the file.

        *progress* is told how many URLs were read.

        Raises:
            CannotCarry: It cannot take what is in the file.
            ConfigurationError: The crawl has ended.
            SeenFileMismatch: Its URLs are in other partitions, or kept otherwise.
        """
        name = crawl.keys.crawl_id
        if not (tiers.has_set or tiers.has_bloom):
            raise CannotCarry(name, NO_TIER)
        if crawl.state != "open":
            raise ConfigurationError(
                f"the crawl {name} is {crawl.state}; nothing was imported"
            )
        here, there = crawl.config, self._config
        self._same("FRONTIER_PARTITIONS", there.partitions, here.partitions)
        self._same("FRONTIER_QUEUE_KEY", there.queue_key, here.queue_key)
        self._same("FRONTIER_HOST_SHARDS", there.host_shards, here.host_shards)
        self._same("FRONTIER_CANON_RULES", there.canon_rules, here.canon_rules)
        if any(partition >= here.partitions for partition in self._counts):
            raise ConfigurationError(f"{self._path} has more partitions than it says")
        space = self._file.header.space
        if space.member_bytes == 4 and space != tiers.space:
            wanted = (tiers.set_bits, here.bloom_capacity)
            has = (32, there.bloom_capacity)
            what = "(FRONTIER_SEEN_SET_BITS, FRONTIER_BLOOM_CAPACITY)"
            self._same(what, has, wanted)
        if self._file.layouts:
            self._require_room(store, crawl, tiers)
        self._add(store, crawl.keys, tiers, progress)

    def _require_room(
        self, store: BlockingStore, crawl: StoredCrawl, tiers: SeenConfig
    ) -> None:
        """Raise unless *crawl* can take over the filters of the file."""
        if tiers.native or not tiers.has_bloom:
            raise CannotCarry(crawl.keys.crawl_id, NATIVE)
        for name in ("FRONTIER_BLOOM_CAPACITY", "FRONTIER_BLOOM_ERROR_RATE"):
            self._same(name, self._file.header.shape[name], crawl.shape[name])
        for partition in range(crawl.config.partitions):
            layout = layout_of(store.call(layout_call(crawl.keys.partition(partition))))
            # What an import that broke off has left is no hindrance.
            there = self._file.layouts.get(partition, (0, 0))
            if (layout.blooms, layout.last) not in ((0, 0), there):
                raise CannotCarry(crawl.keys.crawl_id, NOT_EMPTY)

    def _shape(self) -> Config:
        try:
            return checked_shape(self._file.header.shape)
        except ConfigurationError as error:
            reason = f"its crawl's settings are not this version's ({error})"
            raise SeenFileBroken(self._path, 0, reason) from None

    def _add(
        self,
        store: BlockingStore,
        crawl: CrawlKeys,
        tiers: SeenConfig,
        progress: Callable[[int], None],
    ) -> None:
        current, layout = -1, SeenLayout()
        space = self._file.header.space
        # The filters of the file have its entries already; and a short entry is
        # no mark that could be put into a filter.
        without = bool(self._file.layouts) or space.member_bytes == 4
        entered = replace(tiers, has_bloom=False, native=False) if without else tiers
        for block in self._file.blocks():
            keys = crawl.partition(block.partition)
            if block.kind == ENTRIES:
                if block.partition != current:
                    current = block.partition
                    count = self._counts[current]
                    layout = reserve(store, keys, entered, count)
                marks = [space.mark(entry) for entry in block.entries]
                for i in range(0, len(marks), MAX_URLS):
                    batch = marks[i : i + MAX_URLS]
                    layout, new = add(store, keys, entered, layout, batch)
                    self.read += len(batch)
                    self.added += new
                    progress(self.read)
            elif block.kind == BITS:
                self._write_bits(store, keys, tiers, block)
            else:
                self._write_layout(store, keys, tiers, block)

    def _write_bits(
        self, store: BlockingStore, keys: PartitionKeys, tiers: SeenConfig, block: Block
    ) -> None:
        blooms, _ = self._file.layouts.get(block.partition, (0, 0))
        size = -(-tiers.generation(block.a).bits // 8) if block.a < blooms else 0
        if block.b + len(block.data) > size:
            raise ConfigurationError(f"{self._path} has bits outside of its filters")
        name = keys.bloom(block.a)
        store.call(Call.command("SETRANGE", name, block.b, block.data))

    def _write_layout(
        self, store: BlockingStore, keys: PartitionKeys, tiers: SeenConfig, block: Block
    ) -> None:
        fields: dict[str, int] = {"blooms": block.a, "last": block.b}
        if tiers.has_set:  # what only the filters have is as if it was given up
            fields["era"] = 1
            fields["lost_from"] = in_bloom(
                tiers, SeenLayout(blooms=block.a, last=block.b)
            )
        pairs = [part for pair in fields.items() for part in pair]
        store.call(Call.command("HSET", keys.seen, *pairs))

    def _same(self, what: str, has: object, wanted: object) -> None:
        if has != wanted:
            raise SeenFileMismatch(self._path, what, has, wanted)
