"""The journal's format: a line for each entry, with its checksum, in Base64.

A line encodes the CRC-32 of the rest (big-endian, 4 bytes), and msgpack. The first
entry is the `Header`. A damaged line costs only its own entry.

What is read is not trusted: only lists of numbers, text and bytes come back, their
sizes are capped, and an entry is checked field by field.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from frontier.cluster.job import Job
from frontier.files import OPEN, open_input
from frontier.model import frozen
from frontier.urls.fingerprint import LEAST_MARK

SUFFIX = ".journal"
MAX_LINE = 7 * 1024 * 1024
"""The most bytes of an entry: an item has at most 4 MiB."""
MAX_QUEUE = 1 << 20
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
    """The mark that the crawl was born with; another of the same name has its own."""
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
    """Empty if it was only marked as seen."""
    item: bytes
    due: int = 0
    """When it was to be ready, in ms of the server's clock; 0 for at once."""
    forced: int = 0
    """The id of a push that was not tested; see `frontier.queue.push.Push`."""


class Acked(NamedTuple):
    """A request that is done: its links and its record are stored."""

    partition: int
    digest: bytes


class PutAgain(NamedTuple):
    """A request that is done and put back to be fetched again later, in one step."""

    partition: int
    digest: bytes
    """Of the request that is done."""
    queue: str
    item: bytes
    due: int


Entry = Header | Pushed | Acked | PutAgain
_KINDS: dict[str, type[Entry]] = {
    "header 3": Header,  # with the version of the format
    "p": Pushed,
    "a": Acked,
    "g": PutAgain,
}
_NAMES = {cls: name for name, cls in _KINDS.items()}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _below(most: int, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < most


_CHECKS: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("namespace", "crawl_id", "spider", "node_id"), _is_text),
    "shape": lambda value: isinstance(value, dict),
    "born": lambda value: _is_text(value) and _BORN.fullmatch(value),
    "job": lambda value: value == "" or Job.read(value.encode()),
    "partition": _below(16384),
    "mode": lambda value: value in ("t", "m", "f"),
    "mark": _below(2 * LEAST_MARK, LEAST_MARK),
    "queue": lambda value: len(value) <= MAX_QUEUE and _QUEUE.fullmatch(value),
    "item": lambda value: isinstance(value, bytes),
    "due": _below(10**15),
    "forced": _below(2 * LEAST_MARK),
    "digest": lambda value: isinstance(value, bytes) and len(value) == 16,
}
"""Whether the value of a field is valid, by the field's name."""


@frozen
class Bad:
    """Bytes of a journal that are not an entry."""

    file: str
    offset: int
    length: int
    reason: str


def digest_of(queue: str, item: bytes) -> bytes:
    """What identifies a queued request, however often it was delivered."""
    told = hashlib.blake2b(queue.encode("utf-8", "surrogatepass"), digest_size=16)
    told.update(b"\n" + item[1:])  # the first digit counts deliveries
    return told.digest()


def frame(entry: Entry) -> bytes:
    """*entry* as it is written."""
    payload: bytes = msgpack.packb([_NAMES[type(entry)], *entry])
    return b64encode(zlib.crc32(payload).to_bytes(4) + payload) + b"\n"


def read_header(path: Path) -> Header | None:
    """The header of the journal *path*; ``None`` if it has none of this version."""
    first = next(read(path), None)
    return first if isinstance(first, Header) else None


def read(path: Path) -> Iterator[Entry | Bad]:
    """Everything in *path*, in its order.

    Raises:
        OSError: It cannot be read.
    """
    return (entry for _, entry in _lines(path))


def whole_bytes(path: Path) -> int:
    """Where the last whole entry of *path* ends; 0 if there is none."""
    ends = (end for end, entry in _lines(path) if not isinstance(entry, Bad))
    return max(ends, default=0)


def is_torn(bad: Bad) -> bool:
    """Whether *bad* is the end of a journal whose node was killed while writing.

    Nothing is lost with it: the page of the entry that was being written is not acked.
    """
    path = Path(bad.file)
    at_end = bad.offset + bad.length == path.stat().st_size
    return at_end and path.name.endswith(OPEN)


def journals_in(directories: Iterable[Path]) -> Iterator[tuple[Path, Header | None]]:
    """The journals in *directories*, by directory and name, with their headers.

    Raises:
        OSError: A directory, or a file in it, cannot be read.
    """
    for directory in directories:
        for path in sorted(directory.iterdir()):
            if path.name.endswith((SUFFIX, SUFFIX + OPEN)):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    yield path, read_header(path)


def _lines(path: Path) -> Iterator[tuple[int, Entry | Bad]]:
    """Each line of *path*: where it ends, and what it is."""
    end = 0
    with open_input(path) as file:
        while line := file.readline(MAX_LINE):
            at, end = end, end + len(line)
            try:
                yield end, _entry(line)
            except Exception as error:  # noqa: BLE001 (msgpack raises many types)
                why = f"is not an entry: {str(error)[:200]}"
                yield end, Bad(str(path), at, len(line), why)


def _entry(line: bytes) -> Entry:
    if not line.endswith(b"\n"):
        raise ValueError("it is cut off")
    data = b64decode(line[:-1], validate=True)
    if zlib.crc32(data[4:]) != int.from_bytes(data[:4]):
        raise ValueError("its checksum differs")
    kind, *fields = msgpack.unpackb(
        data[4:], strict_map_key=True, max_ext_len=0, max_map_len=100
    )
    if kind not in _KINDS:
        raise ValueError(f"its kind {str(kind)[:20]!r} is not known")
    entry = _KINDS[kind](*fields)
    for name, value in entry._asdict().items():
        if not _CHECKS[name](value):
            raise ValueError(f"its {name} is invalid")
    return entry
