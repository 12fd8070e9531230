"""Carrying over what a crawl has seen: from its tiers to a file, and back.

A file is of unknown origin: it is read and checked to its end before any of it is
imported. `frontier seen export` and `import` call this; it blocks.
What always holds:

1.  A set is carried over mark by mark, into any crawl with a shared tier. Bloom
    filters, where there is no set or one was given up, are carried over as they are,
    and only into a crawl that was made for them.
2.  Buckets are read in the order of their numbers. A split moves marks to a bucket with
    a greater number, so a set that grows meanwhile is read whole, some marks twice.
3.  Adding first splits the set into all the buckets that the marks will need. Otherwise
    the marks of one exported bucket would fill one bucket far beyond the server's
    limit.
4.  Adding again what is already there changes nothing: an import that broke off can be
    repeated.

The file is a gzip of msgpack messages, one after another: first a map that says what
made it; for each partition ``["partition", number, URLs in its set, generations of its
filters, URLs in the last]``, then ``["bits", number, generation, first byte, bytes]``
and ``["marks", number, marks]``; and last ``["end", number of marks]``.
"""

from __future__ import annotations

import gzip
import json
import secrets
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import msgpack

from frontier.cluster.crawls import mark_now, open_call
from frontier.errors import ConfigurationError, InputBroken
from frontier.files import mode_of_environment, open_input, published
from frontier.queue.push import TEST, Push
from frontier.seeds.seeder import Seeder
from frontier.seen import intset
from frontier.seen.config import (
    MAX_BLOOMS,
    SeenConfig,
    SeenLayout,
    grow_plan,
    grown,
    joined,
)
from frontier.seen.seen_set import (
    BLOOM_BY,
    PLACED_BY,
    StoredCrawl,
    checked_shape,
    in_bloom,
    layout_call,
    layout_of,
)
from frontier.settings.values import NAME
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, PartitionKeys, RegistryKeys
from frontier.urls.fingerprint import LEAST_MARK

FORMAT, VERSION = "frontier-seen", 4
"""Another version if `frontier.urls.fingerprint.seen_hash` changes."""
MAX_BUCKETS = 16
"""Buckets that are read with one call."""
MAX_SPLITS = 32
"""Splits that are made with one call."""
BLOCK_BYTES = 64 * 1024
"""Bytes of a Bloom filter in a message."""
MAX_MESSAGE = 1024 * 1024
"""Bytes of a message; the marks of `MAX_BUCKETS`, at most 512 each, are far fewer."""

NO_TIER = "keeps nothing of what it saw in the store"


def _refused(crawl_id: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"the crawl {crawl_id} {reason}")


def export(
    store: BlockingStore,
    crawl: StoredCrawl,
    tiers: SeenConfig,
    path: Path,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write what *crawl* saw to *path*; return how many URLs of sets are in it.

    *progress* is told how many partitions are done.

    Raises:
        ConfigurationError: What it saw is not in the store.
        OSError: *path* cannot be written.
    """
    if not (tiers.has_set or tiers.has_bloom):
        raise _refused(crawl.keys.crawl_id, NO_TIER)
    header = {"format": FORMAT, "version": VERSION, "shape": crawl.shape}
    header |= {"crawl_id": crawl.keys.crawl_id, "spider": crawl.spider}
    urls = 0
    with (
        published(path, mode_of_environment()) as file,
        gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
    ):
        packed.write(msgpack.packb(header))
        for number in range(crawl.config.partitions):
            for message in _exported(store, crawl, tiers, number):
                packed.write(msgpack.packb(message))
                urls += len(message[2]) if message[0] == "marks" else 0
            progress(number + 1)
        packed.write(msgpack.packb(["end", urls]))
    return urls


def _exported(
    store: BlockingStore, crawl: StoredCrawl, tiers: SeenConfig, number: int
) -> Iterator[list[Any]]:
    """The messages for a partition."""
    keys, bucket = crawl.keys.partition(number), 0
    layout = layout_of(store.call(layout_call(keys)))
    filters = tiers.generations(layout) if layout.era or not tiers.has_set else []
    if layout.count or filters:
        yield ["partition", number, layout.count, len(filters), layout.last]
    for generation, made in enumerate(filters):
        for at in range(0, -(-made.bits // 8), BLOCK_BYTES):
            name, end = keys.bloom(generation), at + BLOCK_BYTES - 1
            data = store.command("GETRANGE", name, at, end)
            if data.strip(b"\0"):
                yield ["bits", number, generation, at, data]
    while tiers.has_set and bucket < layout.buckets:
        end = min(bucket + MAX_BUCKETS, layout.buckets)
        names = [keys.bucket(layout.era, each) for each in range(bucket, end)]
        calls = [Call.command("SMEMBERS", name) for name in names]
        *found, current = store.run([*calls, layout_call(keys)])
        now = layout_of(current)
        if now.era != layout.era:
            reason = "gave up a set while it was exported; export it again"
            raise _refused(crawl.keys.crawl_id, reason)
        marks = [int(member) for members in found for member in members]
        if marks:
            yield ["marks", number, marks]
        bucket, layout = end, now


class Import:
    """A file to be imported, which is whole.

    Raises:
        InputBroken: It is not whole, or not an exported seen-set of this version.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.urls = 0
        """How many URLs the file has."""
        self.read = 0
        """How many of them are in the store now."""
        self.added = 0
        """How many of them were not there before."""
        self._filters: dict[int, tuple[int, int]] = {}
        """Partition to its Bloom generations, and the URLs in the last of them."""
        self._partitions = 0
        messages = self._messages()
        header = next(messages)
        for kind, number, *rest in messages:
            self._partitions = max(self._partitions, number + 1)
            if kind == "marks":
                self.urls += len(rest[0])
            elif kind == "partition" and rest[1]:
                self._filters[number] = rest[1], rest[2]
        shape, keys = header["shape"], CrawlKeys("", header["crawl_id"])
        try:
            config = checked_shape(shape)
        except ConfigurationError as error:
            self._fail(f"its crawl's settings are not this version's ({error})")
        self.crawl = StoredCrawl(keys, "", header["spider"], shape, config)
        """The crawl that was exported."""

    def _messages(self) -> Iterator[Any]:
        """The header, then the messages of all partitions."""
        try:
            with open_input(self._path) as file, gzip.GzipFile(fileobj=file) as plain:
                unpacker = msgpack.Unpacker(plain, max_buffer_size=MAX_MESSAGE)
                yield from self._checked(unpacker)
        except EOFError:
            self._fail("it is cut off")
        except (gzip.BadGzipFile, zlib.error) as error:
            self._fail(f"it is damaged, or no exported seen-set ({error})")
        except (ValueError, msgpack.UnpackException) as error:
            self._fail(f"it has a message that cannot be read ({type(error).__name__})")

    def _checked(self, unpacked: Iterator[Any]) -> Iterator[Any]:
        header, read = next(unpacked, None), 0
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            self._fail("it is not an exported seen-set")
        self._same("version", header.get("version"), VERSION)
        for name, kind in {"crawl_id": str, "spider": str, "shape": dict}.items():
            if not isinstance(header.get(name), kind):
                self._fail(f"it does not have the {name} of its crawl")
        yield header
        for message in unpacked:
            match message:
                case ["end", int(marks)] if marks == read:
                    for _ in unpacked:
                        self._fail("there is more after its end")
                    return
                case ["end", int()]:
                    break
                case ["marks", int(number), [int(), *_] as marks] if (
                    number >= 0
                    and {type(mark) for mark in marks} == {int}
                    and LEAST_MARK <= min(marks) <= max(marks) < 2 * LEAST_MARK
                ):
                    read += len(marks)
                case ["partition", int(), int(), int(blooms), int()] if (
                    min(message[1:]) >= 0 and blooms <= MAX_BLOOMS
                ):
                    pass
                case ["bits", int(), int(), int(), bytes()] if min(message[1:4]) >= 0:
                    pass
                case _:
                    self._fail("it has a message that is none")
            yield message
        self._fail("it is cut off")

    def create(self, store: BlockingStore, namespace: str, crawl_id: str) -> None:
        """Create a crawl with the settings of the one that was exported.

        Raises:
            ConfigurationError: There is a crawl of that name, or the name is invalid.
        """
        if not NAME.fullmatch(crawl_id):
            raise ConfigurationError(f"{crawl_id[:200]!r} cannot be the id of a crawl")
        keys = CrawlKeys(namespace, crawl_id, secrets.token_hex(8))
        if store.command("EXISTS", keys.meta):
            raise ConfigurationError(
                f"there is a crawl {crawl_id} already; import with --crawl {crawl_id}"
            )
        registry = Call.command("SADD", RegistryKeys(namespace).crawls, crawl_id)
        shape = json.dumps(self.crawl.shape)
        store.run([open_call(keys, shape, self.crawl.spider), registry])
        mark_now(store, keys, self.crawl.config.partitions)

    def run(
        self,
        store: BlockingStore,
        crawl: StoredCrawl,
        tiers: SeenConfig,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Mark all that is in the file as seen in *crawl*.

        *progress* is told how many URLs were read.

        Raises:
            ConfigurationError: The crawl cannot take what is in the file.
            ConfigurationError: The crawl has ended.
            InputBroken: The file's URLs are in other partitions, or kept differently.
        """
        self._require_fit(store, crawl, tiers)
        # If the file has filters, they have all its marks.
        marked = replace(tiers, has_bloom=False) if self._filters else tiers
        seeder = Seeder(store, crawl.keys, marked)
        messages = self._messages()
        next(messages)
        for kind, number, *rest in messages:
            keys = crawl.keys.partition(number)
            if kind == "partition":
                count, blooms, last = rest
                reserve(store, keys, marked, count)
                fields = ["blooms", blooms, "last", last]
                if tiers.has_set:  # what only the filters have counts as given up
                    inside = in_bloom(tiers, SeenLayout(blooms=blooms, last=last))
                    fields += ["era", 1, "lost_from", inside]
                if blooms:
                    store.command("HSET", keys.seen, *fields)
            elif kind == "bits":
                generation, at, data = rest
                blooms, _ = self._filters.get(number, (0, 0))
                bits = tiers.generation(generation).bits if generation < blooms else 0
                if at + len(data) > -(-bits // 8):
                    reason = "has bits outside of its filters"
                    raise ConfigurationError(f"{self._path} {reason}")
                store.command("SETRANGE", keys.bloom(generation), at, data)
            else:
                (marks,) = rest
                seeder.push(
                    (number, Push(TEST, mark, "", 0, b"", mark)) for mark in marks
                )
                self.read += len(marks)
                self.added = seeder.new
                progress(self.read)
        seeder.leave()

    def _require_fit(
        self, store: BlockingStore, crawl: StoredCrawl, tiers: SeenConfig
    ) -> None:
        name, partitions = crawl.keys.crawl_id, crawl.config.partitions
        if not (tiers.has_set or tiers.has_bloom):
            raise _refused(name, NO_TIER)
        if crawl.state != "open":
            raise _refused(name, f"is {crawl.state}; nothing was imported")
        if self._filters and not tiers.has_bloom:
            reason = (
                "has no Bloom tier, and the file has Bloom filters; a crawl with "
                "'bloom' in FRONTIER_SEEN_TIERS can take them"
            )
            raise _refused(name, reason)
        for setting in (*PLACED_BY, *BLOOM_BY) if self._filters else PLACED_BY:
            self._same(setting, self.crawl.shape[setting], crawl.shape[setting])
        if self._partitions > partitions:
            self._fail("it has more partitions than it says")
        for number in range(partitions if self._filters else 0):
            layout = layout_of(store.call(layout_call(crawl.keys.partition(number))))
            # What an import that broke off has left does no harm.
            known = self._filters.get(number, (0, 0))
            if (layout.blooms, layout.last) not in ((0, 0), known):
                reason = "Bloom filters can be imported with --new only"
                raise _refused(name, f"has seen URLs already; {reason}")

    def _same(self, what: str, has: object, wanted: object) -> None:
        if has != wanted:
            self._fail(f"made with {what} {has!r}, but {wanted!r} is needed")

    def _fail(self, reason: str) -> NoReturn:
        raise InputBroken(self._path, f"{reason}; nothing was imported") from None


def reserve(
    store: BlockingStore, keys: PartitionKeys, tiers: SeenConfig, count: int
) -> None:
    """Give the partition's set the buckets that *count* more marks will need."""
    layout = layout_of(store.call(layout_call(keys)))
    wanted = intset.wanted(layout.count + count) if tiers.has_set else 0
    while layout.buckets < wanted:
        total = min(wanted, layout.buckets + MAX_SPLITS)
        plan = grow_plan(keys, tiers, layout, total, urls=0)
        ((reply,),) = store.run(joined([plan], alone=False))
        layout = grown(reply)
