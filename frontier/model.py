"""The glossary as values: what the parts of the frontier hand to each other."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

T = TypeVar("T")
_BLOCK = 1 << 20


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make *cls* a dataclass whose fields keep their values: mypy sees to that.

    What Python has against a change is code in each class, as is a ``__repr__`` of its
    own: each of the two takes a twentieth of the time of a short command to compile.
    """
    made = dataclass(slots=True, unsafe_hash=True, repr=False)(cls)
    made.__repr__ = _shown  # type: ignore[method-assign]
    return made


def _shown(one: Any) -> str:
    values = (f"{name}={getattr(one, name)!r}" for name in one.__dataclass_fields__)
    return f"{type(one).__qualname__}({', '.join(values)})"


class FileBody:
    """The bytes of a file that no longer changes, and may have no name.

    They are read a part at a time. A map of the file would do, too, but it counts as
    the process's memory where that is limited, and a failing disk would kill the
    process.
    """

    def __init__(self, file: IO[bytes]) -> None:
        file.flush()
        self._file = os.dup(file.fileno())
        self._size = os.fstat(self._file).st_size

    def __del__(self) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self[:]

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        found = bytearray()
        while start + len(found) < stop:
            read = os.pread(self._file, stop - start - len(found), start + len(found))
            if not read:
                raise OSError("the file of a body was cut")
            found += read
        return bytes(found)


Body = bytes | FileBody
"""Bytes of a body: in memory, or in a file without a name if they are many.

Both have a length, and a slice of either is `bytes`; neither is changed.
"""


def slices_of(body: Body) -> Iterator[bytes]:
    """*body*, a part at a time if it is in a file."""
    if isinstance(body, bytes):
        yield body
        return
    for start in range(0, len(body), _BLOCK):
        yield body[start : start + _BLOCK]


class Order(StrEnum):
    """Which of two URLs of one queue key and priority comes first."""

    BFS = "bfs"
    DFS = "dfs"


@frozen
class Lease:
    """The right to reserve from a partition."""

    partition: int
    token: int
    """The fencing token; grows with each acquisition."""
    holder: str = ""
    """The name of this node on the membership map under which the lease was taken."""


@frozen
class Member:
    """A live node, as the membership map lists it."""

    node_id: str
    weight: int


@frozen
class Unmodified:
    """What the server has not modified since we stored it."""

    original: Original
    digest: str
    """The digest of its payload, as the index spells it."""


@frozen
class Found:
    """How a URL came to be fetched; the words are Heritrix's."""

    via: str
    """The URL that led to it; empty for a seed."""
    hops: str | None
    """A letter for each step from the seed; empty for a seed, ``None`` if not known."""
    seed: str
    """The seed it was found from; empty if it is a seed, or if that is not known."""

    @property
    def is_seed(self) -> bool:
        """Whether the URL is a seed."""
        return self.hops == ""


@frozen
class Attempt:
    """A request without a record: there was no answer, or it is left out."""

    url: str
    status: int
    """HTTP's, or one of Heritrix's ``FetchStatusCodes``, which are below 0."""
    started: float
    """When it was sent, in seconds since the Unix epoch; 0 if nothing was sent."""
    ended: float
    found: Found | None = None
    size: int = -1
    """The size of the body, in bytes; -1 if there is none."""
    mime: str = ""
    notes: tuple[str, ...] = ()
    """Annotations of the crawl log."""


@frozen
class Made:
    """The origin of a response that no server sent."""

    by: str
    """The class of a download handler, or what else is known of its maker."""
    requested: str
    """The URL that was asked for; the page may have another."""


@frozen
class Exchange:
    """One HTTP request and its response, as they crossed the wire.

    Or, with *made*, a document that came about otherwise, as Scrapy describes it: no
    server sent the heads then, and they only tell status and type.
    """

    url: str
    started: float
    """When the request was sent, in seconds since the Unix epoch."""
    request_head: bytes
    """Request line and header lines, each ended by CRLF, then an empty line."""
    request_body: bytes
    response_head: bytes
    """Like the request's; empty if the server sent no head."""
    response_body: Body
    """The entity body: transfer coding undone, content coding kept."""
    status: int
    ip: str | None = None
    truncated: str | None = None
    """A reason of WARC-Truncated if the body was cut, else ``None``."""
    protocols: tuple[str, ...] = ()
    """Values of WARC-Protocol; empty if they are not known."""
    cipher_suite: str | None = None
    """TLS's, as IANA names it; ``None`` if there is none, or none is known."""
    unmodified: Unmodified | None = None
    """What a 304 that we asked for stands for."""
    framing: str = ""
    """How the response differs from what its head says; empty if it is as usual."""
    found: Found | None = None
    """How its URL was found; ``None`` if nothing is known of it."""
    fetch_ms: int = -1
    """Milliseconds from the request to the end of the answer; -1: not known."""
    notes: tuple[str, ...] = ()
    """Annotations of the crawl log."""
    made: Made | None = None
    """What made the response, if no server sent it."""

    @property
    def method(self) -> str:
        """The request's method, as it was sent."""
        return self.request_head.partition(b" ")[0].decode("latin-1")


@frozen
class Original:
    """The capture that a revisit refers to."""

    url: str
    date: str
    """WARC-Date of the original, to the second, millisecond or microsecond."""
    crawl_id: str
    length: int
    """Compressed length of the original's record, in bytes."""
    minted: bool = field(default=False, compare=False)
    """Whether we wrote it, so that its record id follows from these facts."""
    source: str = field(default="", compare=False)
    """The CDX server that reported it, if no crawl of the collection has it."""


@frozen
class Stored:
    """Where an exchange was written, and as what."""

    file: str
    """Name of the WARC file without ``.open`` and without its directory."""
    offset: int
    """The offset of the response or revisit record's gzip member, in bytes."""
    length: int
    """The length of that gzip member, in bytes."""
    record_id: str
    """``<urn:uuid:...>`` of the response or revisit record."""
    date: str
    """WARC-Date of the record."""
    payload_digest: str
    """``sha256:<hex>`` of the payload."""
    original: Original | None
    """What the record refers to if it is a revisit, else ``None``."""
    url: str = field(default="", compare=False)
    """WARC-Target-URI of the record."""


@frozen
class Outlinks:
    """The URLs for which the callback of a page yielded requests."""

    page: Future[Stored]
    """Where the page is written, which is done before this is written."""
    links: tuple[tuple[str, str], ...]
    """Each URL once, with its hop letter, in the order in which they came."""
    left_out: int = 0
    """How many more there were."""
