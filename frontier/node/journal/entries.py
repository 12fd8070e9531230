r"""The journal's format: frames with a checksum, each of one entry.

A file is ``\xffJ``, the length and the CRC-32 of what follows (big-endian, 4 bytes
each), and that many bytes of msgpack; again and again. The first entry is the
`Header`. A damaged frame costs itself only: reading goes on at the next whole one.

What is read is not trusted: only lists of numbers, text and bytes come back,
their sizes are capped, and an entry is checked field by field.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import re
import struct
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack
from isal import isal_zlib

from frontier.cluster.job import Job
from frontier.files import open_input
from frontier.urls.fingerprint import LEAST_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSION = 2
OPEN = ".open"
SUFFIX = ".journal"
MAX_BYTES = 5 * 1024 * 1024
"""Of an entry: an item has at most 4 MiB."""
MAX_QUEUE = 1 << 20
_STEP = 1024
_MARK = b"\xffJ"
_HEAD = struct.Struct(">2sII")
_BORN = re.compile(r"[0-9a-f]{16}")
_QUEUE = re.compile(r"(?:-?[0-9]{1,12}(?:@[0-9a-f]{12})?:.*)?", re.DOTALL)


class Header(NamedTuple):
    """Whose journal a file is."""

    namespace: str
    crawl_id: str
    spider: str
    node_id: str
    shape: Mapping[str, Any]
    """The settings that the crawl was created with."""
    born: str
    """The mark that the crawl was born with: another of the same name has another."""
    job: str = ""
    """The job that the node was started for, as `Job.stored` has it; empty for none."""

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name of the crawl."""
        return self.namespace, self.crawl_id


class Pushed(NamedTuple):
    """A URL that is in the store, or was there before."""

    partition: int
    mode: str
    """How it was pushed; see `frontier.queue.push`."""
    mark: int
    queue: str
    """Empty if it was marked as seen only."""
    item: bytes
    due: int = 0
    """When it was to be ready, in ms of the server's clock; 0 for at once."""
    forced: int = 0
    """The id of a push that was not tested; see `frontier.queue.push.Forced`."""


class Acked(NamedTuple):
    """A request that is done: its links and its record are stored."""

    partition: int
    digest: bytes


class PutAgain(NamedTuple):
    """A request that is done, and is fetched again later: that was one step, too."""

    partition: int
    digest: bytes
    """Of the one that is done."""
    queue: str
    item: bytes
    due: int


Entry = Header | Pushed | Acked | PutAgain


@dataclass(frozen=True, slots=True)
class Bad:
    """Bytes of a journal that are not an entry."""

    file: str
    offset: int
    length: int
    reason: str


def digest_of(queue: str, item: bytes) -> bytes:
    """What tells one queued request from others, however often it was delivered."""
    told = hashlib.blake2b(queue.encode("utf-8", "surrogatepass"), digest_size=16)
    told.update(b"\n" + item[1:])  # the first digit counts deliveries
    return told.digest()


def frame(entry: Entry) -> bytes:
    """*entry* as it is written."""
    payload: bytes
    match entry:
        case Header():
            payload = msgpack.packb(["h", VERSION, *entry])
        case Pushed():
            payload = msgpack.packb(["p", *entry])
        case Acked():
            payload = msgpack.packb(["a", *entry])
        case PutAgain():
            payload = msgpack.packb(["g", *entry])
    return _HEAD.pack(_MARK, len(payload), zlib.crc32(payload)) + payload


def read_header(path: Path) -> Header | None:
    """The header of the journal *path*; ``None`` if it has none of this version."""
    for entry in read(path):
        return entry if isinstance(entry, Header) else None
    return None


def read(path: Path) -> Iterator[Entry | Bad]:
    """Everything in *path*, in its order.

    Raises:
        OSError: It cannot be read.
    """
    with open_input(path) as file:
        if file.seek(0, 2) == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            for begin, end, payload in _frames(data):
                if begin > at:
                    yield Bad(str(path), at, begin - at, "is not a whole entry")
                try:
                    yield _entry(payload)
                except (ValueError, TypeError, RecursionError) as error:
                    why = f"is not an entry: {error}"
                    yield Bad(str(path), begin, end - begin, why)
                at = end
            if at < len(data):
                yield Bad(str(path), at, len(data) - at, "is not a whole entry")


def is_torn(bad: Bad) -> bool:
    """Whether *bad* is the end of a journal that its node was killed over.

    Nothing is lost with it: the page of what was being written is not acked.
    """
    path = Path(bad.file)
    at_end = bad.offset + bad.length == path.stat().st_size
    return at_end and path.name.endswith(OPEN)


def without_header(directories: Sequence[Path]) -> list[Bad]:
    """Journals in *directories* of which nobody can say whose they are.

    Not one whose node was killed before it had written a whole entry.

    Raises:
        OSError: A directory, or a file in it, cannot be read.
    """
    found = []
    for directory in directories:
        for path in sorted(directory.iterdir()):
            if not path.name.endswith((SUFFIX, SUFFIX + OPEN)):
                continue
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if read_header(path) is not None:
                    continue
                size = path.stat().st_size
                if path.name.endswith(OPEN) and not whole_bytes(path):
                    continue
                reason = "has no header of this version; nothing of it is read"
                found.append(Bad(str(path), 0, size, reason))
    return found


def whole_bytes(path: Path) -> int:
    """Where the last whole frame of *path* ends; 0 if there is none."""
    with open_input(path) as file:
        if file.seek(0, 2) == 0:
            return 0
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = 0
            for _, end, _ in _frames(data):  # noqa: B007 (the last one counts)
                pass
            return end


def _frames(data: mmap.mmap) -> Iterator[tuple[int, int, bytes]]:
    """Begin, end and payload of each whole frame.

    In linear time: what a frame that is not whole may have spanned is not summed
    again for each head that is found in it.
    """
    at = summed = 0
    sums = _Sums(data)
    while (at := data.find(_MARK, at)) >= 0 and at + _HEAD.size <= len(data):
        _, length, checksum = _HEAD.unpack_from(data, at)
        begin, end = at + _HEAD.size, at + _HEAD.size + length
        if length <= MAX_BYTES and end <= len(data):
            known = sums.of(begin, end) if begin < summed else None
            if known is None or known == checksum:
                payload = data[begin:end]
                if zlib.crc32(payload) == checksum:
                    yield at, end, payload
                    at = end
                    continue
            summed = max(summed, end)
        at += 1


class _Sums:
    """CRC-32s of pieces that overlap, of which each byte is summed a few times.

    They are made of those of what is before a piece's begin and before its end; these
    are kept for each `_STEP` bytes.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._base = 0
        self._kept = array("I", [0])
        """That of the bytes from the base on: of none, of one step, of two..."""

    def of(self, begin: int, end: int) -> int:
        """That of the bytes from *begin* to *end*; *begin* is not less than before."""
        if begin >= self._base + len(self._kept) * _STEP:
            self._base, self._kept = begin, array("I", [0])
        before = isal_zlib.crc32_combine(self._until(begin), 0, end - begin)
        return int(self._until(end) ^ before)

    def _until(self, end: int) -> int:
        steps, rest = divmod(end - self._base, _STEP)
        while len(self._kept) <= steps:
            at = self._base + (len(self._kept) - 1) * _STEP
            step = self._data[at : at + _STEP]
            self._kept.append(zlib.crc32(step, self._kept[-1]))
        return zlib.crc32(self._data[end - rest : end], self._kept[steps])


def _entry(payload: bytes) -> Entry:
    try:
        kind, *rest = msgpack.unpackb(
            payload, strict_map_key=True, max_ext_len=0, max_map_len=100
        )
    except Exception as error:  # noqa: BLE001 (msgpack raises many types)
        raise ValueError(str(error)[:200]) from None
    if kind == "h":
        return _header(*rest)
    if kind == "p":
        return _pushed(*rest)
    if kind == "a":
        return _acked(*rest)
    if kind == "g":
        return _put_again(*rest)
    raise ValueError(f"kind {str(kind)[:20]!r} is not known")


def _header(version: Any, *rest: Any) -> Header:
    if version != VERSION:
        raise ValueError(f"version {str(version)[:20]} is not {VERSION}")
    header = Header(*rest)
    if not all(isinstance(text, str) for text in (*header[:4], *header[5:])):
        raise ValueError("a name is not text")
    if header.job:
        Job.read(header.job.encode("utf-8", "surrogatepass"))
    if not isinstance(header.shape, dict) or not _BORN.fullmatch(header.born):
        raise TypeError("the settings are invalid")
    return header


def _pushed(
    partition: Any,
    mode: Any,
    mark: Any,
    queue: Any,
    item: Any,
    due: Any = 0,
    forced: Any = 0,
) -> Pushed:
    _require_partition(partition)
    if mode not in ("t", "m", "f"):
        raise ValueError("its mode is not known")
    if type(mark) is not int or not LEAST_MARK <= mark < 2 * LEAST_MARK:
        raise ValueError("its hash is invalid")
    _require_item(queue, item, due)
    if type(forced) is not int or not 0 <= forced < 2 * LEAST_MARK:
        raise ValueError("its id is invalid")
    return Pushed(partition, mode, mark, queue, item, due, forced)


def _acked(partition: Any, digest: Any) -> Acked:
    _require_partition(partition)
    _require_digest(digest)
    return Acked(partition, digest)


def _put_again(
    partition: Any, digest: Any, queue: Any, item: Any, due: Any
) -> PutAgain:
    _require_partition(partition)
    _require_digest(digest)
    _require_item(queue, item, due)
    if not queue:
        raise ValueError("its queue is invalid")
    return PutAgain(partition, digest, queue, item, due)


def _require_digest(digest: Any) -> None:
    if not isinstance(digest, bytes) or len(digest) != 16:
        raise ValueError("its digest is invalid")


def _require_item(queue: Any, item: Any, due: Any) -> None:
    if (
        not isinstance(queue, str)
        or len(queue) > MAX_QUEUE
        or not _QUEUE.fullmatch(queue)
    ):
        raise ValueError("its queue is invalid")
    if not isinstance(item, bytes) or (queue and len(item) < 3):
        raise ValueError("its item is invalid")
    if type(due) is not int or not 0 <= due < 10**15:
        raise ValueError("its due time is invalid")


def _require_partition(partition: Any) -> None:
    if type(partition) is not int or not 0 <= partition < 16384:
        raise ValueError("its partition is invalid")
