"""The memory that a node and its watchdog share; it outlives a node that is killed.

What always holds:

1.  Each field has one writer: the node, or the watchdog.
2.  A record is read whole or not at all: it has its length and a CRC-32, so that it is
    skipped if its writer was killed or stopped in the middle.
3.  Nobody waits here, and nothing is allocated after the start: all of the memory is
    allocated then, so that a full disk or a small ``/dev/shm`` cannot fault a write.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import zlib
from typing import NamedTuple

PAGE = 4096
RUNNING, MAX_RUNNING = 64, 2048
"""Where the record of the request whose callback runs is, and its most bytes."""
BEAT, MAX_BEAT = PAGE, 64 * 1024
BEATEN = BEAT + MAX_BEAT + PAGE
SIZE = BEATEN + PAGE
MAX_URL = 1000
"""Bytes of a URL that are kept, for people to read."""
READS = 5
"""How often to try reading a record that is being written meanwhile."""

_HEAD = struct.Struct("<II")
_COUNT = struct.Struct("<Q")
_WHICH = struct.Struct("<IQQ")
_AT = struct.Struct("<d")
EMPTY = bytes(_HEAD.size)


class Running(NamedTuple):
    """A request from the store whose callback, errback or pipeline runs."""

    partition: int
    token: int
    id: int
    """The id of its reservation."""
    url: str
    """Cut at `MAX_URL` bytes."""


def packed(running: Running) -> bytes:
    """The record of *running*, ready to be written."""
    url = running.url.encode("utf-8", "replace")[:MAX_URL]
    body = _WHICH.pack(running.partition, running.token, running.id) + url
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


class Memory:
    """The shared memory, with methods for its fields."""

    def __init__(self, file: int) -> None:
        self.file = file
        """The file descriptor by which a child process attaches to it."""
        self._map = mmap.mmap(file, SIZE)

    @classmethod
    def make(cls) -> Memory:
        """Allocate new memory.

        Raises:
            OSError: There is no room for it.
        """
        file = os.memfd_create("frontier-watchdog")
        os.posix_fallocate(file, 0, SIZE)
        return cls(file)

    def close(self) -> None:
        """Close the file; the memory stays mapped until nobody refers to this."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        self.close()

    # The node writes.

    def turn(self) -> None:
        """Count a turn of the node's loop."""
        _COUNT.pack_into(self._map, 0, self.turns + 1)

    def run(self, record: bytes) -> None:
        """Show what runs now: *record* is what `packed` returned, or `EMPTY`."""
        self._map[RUNNING : RUNNING + len(record)] = record

    def beat(self, said: bytes) -> None:
        """Give the watchdog the heartbeat to send in this node's place, as JSON."""
        self._write(BEAT, said[:MAX_BEAT])

    # The watchdog reads.

    @property
    def turns(self) -> int:
        """The number of turns counted; it only matters whether it changes."""
        return int(_COUNT.unpack_from(self._map, 0)[0])

    @property
    def running(self) -> Running | None:
        """What runs, or ran when the node was killed; ``None`` if that is not known.

        Its partition is -1 if no code of a request runs.
        """
        body = self._read(RUNNING, MAX_RUNNING)
        if body is None or 0 < len(body) < _WHICH.size:
            return None
        if not body:
            return Running(-1, 0, 0, "")
        url = body[_WHICH.size :].decode("utf-8", "replace")
        partition, token, number = _WHICH.unpack_from(body)
        return Running(partition, token, number, url)

    @property
    def said(self) -> bytes | None:
        """The latest heartbeat that `beat` was given."""
        return self._read(BEAT, MAX_BEAT)

    # The watchdog writes, and the node reads.

    def stand_in(self, at: float) -> None:
        """Report when an answered heartbeat was sent, on the monotonic clock.

        All processes of a machine share that clock.
        """
        self._write(BEATEN, _AT.pack(at))

    @property
    def stood_in(self) -> float:
        """The last time that `stand_in` was given; minus infinity if not known."""
        body = self._read(BEATEN, _AT.size)
        return float(_AT.unpack(body)[0]) if body else -math.inf

    # Inside.

    def _write(self, place: int, body: bytes) -> None:
        record = _HEAD.pack(len(body), zlib.crc32(body)) + body
        self._map[place : place + len(record)] = record

    def _read(self, place: int, most: int) -> bytes | None:
        for _ in range(READS):
            size, check = _HEAD.unpack_from(self._map, place)
            start = place + _HEAD.size
            body = self._map[start : start + min(size, most)]
            if len(body) == size and zlib.crc32(body) == check:
                return body
        return None
