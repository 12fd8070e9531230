r"""Blocks: cold queue items, many in one, compressed.

A block is one byte (the version, 1), four bytes (how many items, big-endian), and
zlib's output over a msgpack list of the items. A ready list that has blocks has one
element that is not an item, `MARK`, where they belong.

What always holds:

1.  A script puts items into a block, or a block's items back, in one step; it
    changes nothing unless the store still has what the caller has read.
2.  A block keeps the order of its items, and the list of blocks their order.
3.  What a block says is not trusted: it is refused if it is larger than blocks
    are made, or does not have as many items as it says.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgpack

from frontier.errors import CodecError, LeaseLost
from frontier.model import Order
from frontier.queue.item import MAX_BYTES
from frontier.store.client import Argument, Call
from frontier.store.scripts import QUEUE_SHELVE, QUEUE_SPILL, QUEUE_UNSPILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Lease
    from frontier.store.keys import PartitionKeys

VERSION = 1
MARK = b"*"
"""What stands for all blocks in a ready list; an item begins with a digit."""
BLOCK = 500
"""Items of a block, so that no script works for long: more hardly save more, for
zlib looks back 32 kB."""
BLOCK_BYTES = 96 * 1024
"""Items are added to a block up to this size; the first is in it in any case."""
MARK_LIMIT = 4000
"""How far from its beginning the mark is looked for in a list."""

_HEAD = struct.Struct(">BI")
LARGEST = BLOCK_BYTES + MAX_BYTES + 8 * BLOCK + 1024
"""Bytes of a block, inflated or not, that none is above."""


def pack(items: Sequence[bytes]) -> bytes:
    """The block of *items*."""
    body: bytes = msgpack.packb(list(items))
    return _HEAD.pack(VERSION, len(items)) + zlib.compress(body, 6)


def count_of(block: bytes) -> int:
    """How many items *block* says it has; 0 if it says nothing that can be."""
    if len(block) < _HEAD.size or block[0] != VERSION:
        return 0
    count: int = _HEAD.unpack_from(block)[1]
    return count if count <= BLOCK else 0


def unpack(block: bytes) -> list[bytes]:
    """The items of *block*.

    Raises:
        CodecError: It is not what `pack` of this version makes.
    """
    count = count_of(block)
    if not count:
        raise CodecError("a block of another version, or not a block")
    inflate = zlib.decompressobj()
    try:
        body = inflate.decompress(block[_HEAD.size :], LARGEST)
    except zlib.error as error:
        raise CodecError(f"a block that cannot be inflated: {error}") from None
    if not inflate.eof:
        raise CodecError("a block that is cut, or larger than blocks are")
    try:
        items: Any = msgpack.unpackb(body, max_array_len=BLOCK)
    except Exception as error:  # noqa: BLE001 (msgpack raises many types)
        raise CodecError(f"a block that is not msgpack: {error}") from None
    if not isinstance(items, list) or len(items) != count:
        raise CodecError("a block with other items than it says")
    if not all(isinstance(item, bytes) and item[:1].isdigit() for item in items):
        raise CodecError("a block with something that is not an item")
    return items


@dataclass(frozen=True, slots=True)
class Shelved:
    """What is known of a block that is in a file."""

    block: bytes | CodecError
    """The block, or why it is none."""
    count: int
    """Items that its address says it has."""
    size: int
    """Bytes of the file, as the address says."""

    def items(self) -> list[bytes]:
        """The items of the block.

        Raises:
            CodecError: It cannot be read, or has not as many as was said.
        """
        if isinstance(self.block, CodecError):
            raise self.block
        if count_of(self.block) != self.count:
            raise CodecError("a block with other items than its address says")
        return unpack(self.block)


def fitting(items: Sequence[bytes]) -> list[bytes]:
    """The first of *items*, as many as make one block."""
    sizes = accumulate(map(len, items[1:BLOCK]), initial=0)
    room = BLOCK_BYTES - len(items[0]) if items else 0
    return [item for item, size in zip(items, sizes, strict=False) if size <= room] or (
        list(items[:1])
    )


def spill_call(
    keys: PartitionKeys, lease: Lease, queue: str, blocks: int, items: Sequence[bytes]
) -> Call:
    """The call that puts *items* of *queue* into a block, if there are *blocks*."""
    names = [keys.lease, keys.counts, keys.ready(queue), keys.spilled(queue)]
    args: list[Argument] = [lease.token, blocks, items[0], len(items)]
    args += (_sha1(b"".join(items)), pack(items))
    return Call.to(QUEUE_SPILL, names, args)


def unspill_call(
    keys: PartitionKeys,
    lease: Lease,
    order: Order,
    queue: str,
    blocks: int,
    block: bytes,
    shelved: Shelved | None = None,
) -> Call:
    """The call that puts the items of *block*, the next of *blocks*, back.

    *shelved* tells what is in its file, if *block* is only the address. One that
    cannot be read goes to the dead letter.
    """
    names = [keys.lease, keys.counts, keys.ready(queue), keys.spilled(queue), keys.dead]
    pop = "LPOP" if order is Order.BFS else "RPOP"
    found = shelved or Shelved(block, count_of(block), 0)
    try:
        items, unread = found.items(), ""
    except CodecError as error:
        items, unread = [], f"{error}\n{queue}\n"
    args: list[Argument] = [lease.token, pop, blocks, _sha1(block), found.count]
    return Call.to(QUEUE_UNSPILL, names, [*args, unread, found.size, *reversed(items)])


def shelve_call(
    keys: PartitionKeys,
    lease: Lease,
    queue: str,
    index: int,
    block: bytes,
    address: bytes,
) -> Call:
    """The call that puts *address* in the place *index* of *block*."""
    names = [keys.lease, keys.counts, keys.spilled(queue)]
    args: list[Argument] = [lease.token, index, _sha1(block), address]
    return Call.to(QUEUE_SHELVE, names, args)


def done(reply: int | None, lease: Lease) -> bool:
    """Whether a call has changed anything.

    Raises:
        LeaseLost: The token is stale.
    """
    if reply is None:
        raise LeaseLost(lease.partition, lease.token)
    return bool(reply)


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
