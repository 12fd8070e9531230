"""Carrying over what a crawl has seen: from its tiers to a file, and back.

A file is of unknown origin: it is checked as it is read, and one made by other rules is
refused. `frontier seen export` and `import` call this; it blocks. What always holds:

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

The file of an exported seen-set.

::

    magic  8 bytes, version  2, length of header  4
    header  JSON, padded with blanks; CRC-32 of all so far  4
    block*  kind  1, partition  4, a  4, b  4, length  4, CRC-32  4, payload
    end     a block of the kind `END` without a payload

Numbers are big-endian, payloads are deflated, and the CRC-32 is over the five
numbers before it and the payload. Partitions ascend. A partition has

- `ENTRIES`, *a* of them: the differences between entries, which ascend, 8 bytes
  each; all the first bytes, then all the second and so on, as most are zero;
- a `LAYOUT`, if its Bloom tier is in the file: *a* generations, the last of which
  has *b* URLs;
- `BITS` of generation *a*: bytes from *b* on, at most `BLOCK_BYTES` of them.
"""

from __future__ import annotations

import json
import secrets
import struct
import sys
import zlib
from array import array
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from frontier.cluster.crawls import mark_now, open_call
from frontier.errors import (
    CannotCarry,
    ConfigurationError,
    SeenFileBroken,
    SeenFileMismatch,
)
from frontier.files import FILE_MODE, creating, mode_of_environment, open_input
from frontier.queue.push import NEW, TEST, Push, push_to
from frontier.seen.config import MAX_URLS, SeenLayout, grow_call, grown
from frontier.seen.intset import LEVELS, SHORT_BITS, Space
from frontier.seen.seen_set import checked_shape, in_bloom, layout_call, layout_of
from frontier.settings.values import NAME
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, RegistryKeys
from frontier.store.scripts import SEEN_READ
from frontier.urls.canon.rulesets import label_of
from frontier.urls.fingerprint import MARK_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from frontier.seen.config import SeenConfig
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
        mark_now(store, keys, self._config.partitions)

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


MAGIC = b"\x89SEEN\r\n\x1a"
VERSION = 2
RULES = "w3lib"
"""The canonicalization that URLs went through before they were hashed."""
HASH = "murmur3-128/62"
"""What made a mark of a fingerprint; see `frontier.urls.fingerprint.seen_hash`."""
ENTRIES, LAYOUT, BITS, END = range(4)
BLOCK_ENTRIES = 8192
BLOCK_BYTES = 64 * 1024
MAX_GENERATIONS = 64
MAX_HEADER = 64 * 1024
_OPENING = struct.Struct(">8sHI")
_BLOCK = struct.Struct(">BIIIII")
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself."""

    fingerprinter: str
    crawl_id: str
    spider: str
    shape: dict[str, Any]
    """The settings that the crawl was created with."""
    bits: int = MARK_BITS
    groups: int = 1
    """With *bits*, the `Space` of the entries."""
    urls: int = 0
    """Entries."""
    rules: str = RULES
    hash: str = HASH

    @property
    def space(self) -> Space:
        """The space of the entries.

        Raises:
            ValueError: There is no such space.
        """
        is_whole = (self.bits, self.groups) == (MARK_BITS, 1)
        if not is_whole and not (
            self.bits == SHORT_BITS and 1 <= int(self.groups) <= 1 << LEVELS
        ):
            raise ValueError("no space")
        return Space(self.bits, self.groups)


class Block(NamedTuple):
    """A part of a partition; what *a* and *b* are depends on its kind."""

    kind: int
    partition: int
    a: int
    b: int
    entries: list[int]
    data: bytes


class SeenFileWriter:
    """Writes a file that gets its name when it is complete."""

    def __init__(self, path: Path, header: Header, mode: int = FILE_MODE) -> None:
        self._path, self._header = path, header
        self._mode = mode
        self._part = path.with_name(path.name + ".part")
        self._length = len(json.dumps(asdict(header))) + 20
        self._pending: list[int] = []
        self._partition, self._last = 0, 0
        self.urls = 0

    def __enter__(self) -> Self:
        try:
            self._file = open(self._part, "wb", opener=creating(self._mode))
        except OSError as error:
            raise ConfigurationError(
                f"{self._part} cannot be written: {error.strerror}"
            ) from None
        self._file.write(self._opening(0))
        return self

    def add(self, partition: int, entries: Sequence[int]) -> None:
        """Write *entries*, sorted and above those written before of *partition*."""
        if partition != self._partition:
            self._flush(0)
            self._partition, self._last = partition, 0
        self._pending += entries
        self._flush(BLOCK_ENTRIES)

    def add_layout(self, partition: int, blooms: int, last: int) -> None:
        """Write of how many generations the bits are that follow."""
        self._flush(0)
        self._partition, self._last = partition, 0
        self._block(LAYOUT, partition, blooms, last, b"")

    def add_bits(self, partition: int, generation: int, at: int, data: bytes) -> None:
        """Write bytes of a generation, from its byte *at* on."""
        self._block(BITS, partition, generation, at, zlib.compress(data, 1))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, OSError):
                raise error
            if kind is None:
                self._flush(0)
                self._block(END, 0, 0, 0, b"")
                self._file.seek(0)
                self._file.write(self._opening(self.urls))
            self._file.close()
            if kind is None:
                self._part.replace(self._path)
        except OSError as fault:
            raise ConfigurationError(
                f"{self._path} cannot be written: {fault.strerror}"
            ) from None
        finally:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)

    def _opening(self, urls: int) -> bytes:
        text = json.dumps({**asdict(self._header), "urls": urls})
        body = _OPENING.pack(MAGIC, VERSION, self._length)
        body += text.ljust(self._length).encode("ascii")
        return body + _CRC.pack(zlib.crc32(body))

    def _flush(self, least: int) -> None:
        while self._pending and len(self._pending) >= least:
            entries = self._pending[:BLOCK_ENTRIES]
            del self._pending[:BLOCK_ENTRIES]
            payload = zlib.compress(_packed(entries, self._last), 6)
            self._block(ENTRIES, self._partition, len(entries), 0, payload)
            self._last = entries[-1]
            self.urls += len(entries)

    def _block(self, kind: int, partition: int, a: int, b: int, payload: bytes) -> None:
        head = _BLOCK.pack(kind, partition, a, b, len(payload), 0)[: -_CRC.size]
        self._file.write(head + _CRC.pack(zlib.crc32(head + payload)) + payload)


class SeenFile:
    """Reads a file; every error names it and the place of the block at fault."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: BinaryIO = open_input(path)
            self._file.read(0)
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be read: {error.strerror}"
            ) from None
        self._path = path
        self.layouts: dict[int, tuple[int, int]] = {}
        """Bloom generations of partitions, and URLs in the last; once verified."""
        try:
            self.header = self._opening()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def verified(self) -> dict[int, int]:
        """The number of entries of each partition, after reading the whole file.

        Raises:
            SeenFileBroken: It is not whole.
        """
        counts: dict[int, int] = {}
        for block in self.blocks():
            count = counts.get(block.partition, 0) + len(block.entries)
            counts[block.partition] = count
            if block.kind == LAYOUT:
                self.layouts[block.partition] = (block.a, block.b)
        if sum(counts.values()) != self.header.urls:
            raise self._broken(self._file.tell(), "it has not the URLs of its header")
        return counts

    def blocks(self) -> Iterator[Block]:
        """Each block.

        Raises:
            SeenFileBroken: A block is not what it should be.
        """
        self._file.seek(self._start)
        last, before = -1, 0
        while True:
            at = self._file.tell()
            head = self._exactly(_BLOCK.size, at)
            kind, partition, a, b, length, crc = _BLOCK.unpack(head)
            if kind > END or length > 2 * BLOCK_BYTES:
                raise self._broken(at, "there is no block")
            payload = self._exactly(length, at)
            if zlib.crc32(head[: -_CRC.size] + payload) != crc:
                raise self._broken(at, "it is damaged")
            if kind == END:
                break
            if partition < before:
                raise self._broken(at, "its partitions are in no order")
            last = last if partition == before else -1
            entries, data = list[int](), b""
            if kind == ENTRIES:
                entries = self._entries(payload, a, last, at)
                last = entries[-1]
            elif kind == LAYOUT and not 1 <= a <= MAX_GENERATIONS:
                raise self._broken(at, "it has invalid filters")
            elif kind == BITS:
                data = self._inflated(payload, BLOCK_BYTES, at)
            yield Block(kind, partition, a, b, entries, data)
            before = partition
        if self._file.read(1):
            raise self._broken(at, "there is more after the end")

    def _opening(self) -> Header:
        head = self._file.read(_OPENING.size)
        if len(head) < _OPENING.size or not head.startswith(MAGIC):
            raise self._broken(0, "it is not an exported seen-set")
        _, version, length = _OPENING.unpack(head)
        if version != VERSION:
            raise SeenFileMismatch(str(self._path), "version", version, VERSION)
        if length > MAX_HEADER:
            raise self._broken(0, "its header is damaged")
        rest = self._exactly(length + _CRC.size, 0)
        if _CRC.pack(zlib.crc32(head + rest[:length])) != rest[length:]:
            raise self._broken(0, "its header is damaged")
        self._start = self._file.tell()
        try:
            header = Header(**json.loads(rest[:length]))
            self._end = header.space.end
        except (TypeError, ValueError, RecursionError):
            raise self._broken(0, "its header is another program's") from None
        return header

    def _exactly(self, size: int, at: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise self._broken(at, "it is cut off in the block that begins")
        return found

    def _entries(self, payload: bytes, count: int, last: int, at: int) -> list[int]:
        if not 1 <= count <= BLOCK_ENTRIES:
            raise self._broken(at, "there is no block")
        plain = self._inflated(payload, 8 * count, at)
        if len(plain) != 8 * count:
            raise self._broken(at, "a block has other entries than it says")
        entries = _unpacked(plain, max(last, 0))
        rising = all(a < b for a, b in pairwise((last, *entries)))
        if entries[-1] >= self._end or not rising:
            raise self._broken(at, "a block has invalid entries")
        return entries

    def _inflated(self, payload: bytes, most: int, at: int) -> bytes:
        inflate = zlib.decompressobj()
        try:
            plain = inflate.decompress(payload, most + 1)
        except zlib.error:
            plain = b""
        if not 0 < len(plain) <= most:
            raise self._broken(at, "a block has another content than it says")
        return plain

    def _broken(self, offset: int, reason: str) -> SeenFileBroken:
        return SeenFileBroken(str(self._path), offset, reason)


def _packed(entries: Sequence[int], last: int) -> bytes:
    steps = array("Q")
    for entry in entries:
        steps.append(entry - last)
        last = entry
    if sys.byteorder == "little":
        steps.byteswap()
    plain = steps.tobytes()
    return b"".join(plain[i::8] for i in range(8))


def _unpacked(planes: bytes, last: int) -> list[int]:
    count = len(planes) // 8
    plain = bytearray(len(planes))
    for i in range(8):
        plain[i::8] = planes[i * count : (i + 1) * count]
    steps = array("Q", bytes(plain))
    if sys.byteorder == "little":
        steps.byteswap()
    entries = []
    for step in steps:
        last += step
        entries.append(last)
    return entries
