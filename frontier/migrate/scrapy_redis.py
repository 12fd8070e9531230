"""What scrapy-redis has on a server: its queue, its filter, its start URLs.

What always holds:

1.  Nothing here is changed: the keys are read in windows, and nothing is popped. So
    scrapy-redis can go on with them should the frontier not be what was wanted.
2.  What is read is data, whoever wrote it: pickles by `frontier.migrate.pickles`, JSON
    and msgpack by their parsers, of at most `MAX_BYTES`.
3.  A queue is read in the order in which it would have been emptied, but that a stack
    comes with its oldest request first: `FRONTIER_ORDER` turns it round again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier.errors import ConfigurationError, StoreRefused
from frontier.migrate.pickles import PickleRefused, loads
from frontier.queue.item import MAX_BYTES
from frontier.status.validate import printable
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frontier.store.client import BlockingStore

QUEUE = "%(spider)s:requests"
FILTER = "%(spider)s:dupefilter"
STARTS = "%(name)s:start_urls"
"""The names of its keys where a project has set no others."""
WINDOW = 1_000
"""Requests that are read together, at most."""
WINDOW_BYTES = 16 * 1024 * 1024
"""Bytes of these, about."""
SIZES = {b"list": "LLEN", b"set": "SCARD", b"zset": "ZCARD"}
MAX_PRIORITY = 2**53
"""Where a sorted set cannot tell priorities apart any more."""
_TEXTS = ("url", "method", "encoding", "callback", "errback", "_class")
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str,)),
    "headers": (dict,),
    "meta": (dict,),
    "cb_kwargs": (dict,),
    "cookies": (dict, list),
    "flags": (list, tuple),
    "body": (bytes, str),
    "priority": (int, float),
    "dont_filter": (bool, int),
}
"""What Scrapy writes of a request, and of which types."""


class Item(NamedTuple):
    """A request of the queue."""

    number: int
    """Its place in the order of `Source.items`, from 1."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """Where scrapy-redis keeps what it has of one spider."""

    queue: str
    seen: str
    starts: str

    @classmethod
    def of(cls, settings: Mapping[str, Any], spider: str, redis_key: str = "") -> Keys:
        """As *settings* name them; *redis_key* is what the spider's class says."""
        names = (
            settings.get("SCHEDULER_QUEUE_KEY") or QUEUE,
            settings.get("SCHEDULER_DUPEFILTER_KEY") or FILTER,
            redis_key or settings.get("REDIS_START_URLS_KEY") or STARTS,
        )
        return cls(*(named(str(name), spider) for name in names))


def named(pattern: str, spider: str) -> str:
    """The key that *pattern* stands for with *spider*."""
    for place in ("%(spider)s", "%(name)s"):
        pattern = pattern.replace(place, spider)
    return pattern


class Source:
    """The keys of one spider on a server; the filter's, if that is of interest."""

    def __init__(
        self, store: BlockingStore, keys: Keys, *, has_filter: bool = True
    ) -> None:
        self._store = store
        self.keys = keys
        self.where = store.where
        self._queue = self._kind(keys.queue, b"list", b"zset")
        self._seen = self._kind(keys.seen, b"set") if has_filter else b"none"
        self._starts = self._kind(keys.starts, b"list", b"set", b"zset")
        self.queued = self._size(keys.queue, self._queue)
        """Requests in the queue."""
        self.seen = self._size(keys.seen, self._seen)
        """Fingerprints in the filter."""
        self.starts = self._size(keys.starts, self._starts)
        """Start URLs that nobody has taken."""

    def _kind(self, key: str, *allowed: bytes) -> bytes:
        kind: bytes = self._store.call(Call.command("TYPE", key))
        if kind in {*allowed, b"none"}:
            return kind
        shown, found = printable(key[:200]), kind.decode("ascii", "replace")
        if key == self.keys.seen and kind == b"string":
            raise ConfigurationError(
                f"{shown!r} is a bitmap, as scrapy-redis-bloomfilter keeps: its bits "
                "do not tell what was seen. Add --no-dupefilter, and --seen-urls FILE "
                "with URLs from logs or feed exports"
            )
        wanted = " or ".join(one.decode() for one in allowed)
        raise ConfigurationError(
            f"{shown!r} on {self.where} is a {found}, and not a {wanted} of "
            "scrapy-redis; --queue-key and --dupefilter-key name others"
        )

    def _size(self, key: str, kind: bytes) -> int:
        if kind not in SIZES:
            return 0
        return int(self._store.call(Call.command(SIZES[kind], key)))

    def has_changed(self) -> bool:
        """Whether there is more or less by now: somebody crawls with it."""
        queued = self._size(self.keys.queue, self._queue)
        seen = self._size(self.keys.seen, self._seen)
        return (queued, seen) != (self.queued, self.seen)

    def items(self) -> Iterator[Item]:
        """The requests of the queue."""
        window, number = self._window(), 0
        for first in range(0, self.queued, window):
            last = min(first + window, self.queued) - 1
            if self._queue == b"zset":
                call = Call.command("ZRANGE", self.keys.queue, first, last)
            else:  # those that were pushed first are at the right
                call = Call.command("LRANGE", self.keys.queue, -1 - last, -1 - first)
            found = self._store.call(call)
            for data in found if self._queue == b"zset" else reversed(found):
                number += 1
                yield Item(number, data)

    def _window(self) -> int:
        """How many requests to read at once, of the size that some have."""
        try:
            size = self._store.call(Call.command("MEMORY", "USAGE", self.keys.queue))
        except StoreRefused:  # the user of the server may not ask
            size = None
        each = (size or 0) // max(1, self.queued)
        return max(1, min(WINDOW, WINDOW_BYTES // max(1, each)))

    def fingerprints(self) -> Iterator[list[bytes]]:
        """What the filter has, some at a time, and some perhaps twice."""
        cursor = b"0"
        while self._seen == b"set":
            call = Call.command("SSCAN", self.keys.seen, cursor, "COUNT", WINDOW)
            cursor, found = self._store.call(call)
            yield found
            if int(cursor) == 0:
                return

    def known(self, fingerprints: list[bytes]) -> int:
        """How many of *fingerprints* the filter has."""
        asked = [Call.command("SISMEMBER", self.keys.seen, one) for one in fingerprints]
        return sum(self._store.run(asked)) if self._seen == b"set" else 0


class ItemFault(Exception):
    """An item is no request that can be taken over; *record* is what is known of it."""

    def __init__(self, reason: str, record: Any = None) -> None:
        super().__init__(reason)
        known = record if type(record) is dict else {}
        url, method, body = (known.get(name) for name in ("url", "method", "body"))
        self.reason = reason
        self.url: str = url if type(url) is str else ""
        self.tested: tuple[str, str, bytes] | None = None
        """URL, method and body by which the filter knows it; none if it does not."""
        if self.url and not known.get("dont_filter"):
            body = body.encode() if type(body) is str else body
            self.tested = (
                self.url,
                method if type(method) is str else "GET",
                body if type(body) is bytes else b"",
            )


def request_of(data: bytes) -> dict[str, Any]:
    """The request, as Scrapy's `Request.to_dict` makes it, that *data* is.

    Raises:
        ItemFault: It is none, or has more than plain data.
    """
    found = _loaded(data)
    url = found.get("url") if type(found) is dict else None
    if type(url) is not str:
        raise ItemFault("it is no request: there is no url in it")
    if "_encoding" in found:  # as of Scrapy before 2.6
        found["encoding"] = found.pop("_encoding")
    for name, value in found.items():
        kinds = _KINDS.get(name)
        optional = name in {"callback", "errback"} and value is None
        if type(name) is not str or (
            kinds is not None and type(value) not in kinds and not optional
        ):
            shown = printable(f"{name!r}"[:100])
            raise ItemFault(f"its {shown} is a {type(value).__name__}", found)
    return _settled(found)


def _settled(found: dict[str, Any]) -> dict[str, Any]:
    """*found* with the types that Scrapy has today."""
    priority = found.get("priority", 0)
    if not abs(priority) <= MAX_PRIORITY or priority != int(priority):
        raise ItemFault(f"its priority {priority} is no priority", found)
    found["priority"] = int(priority)
    found["dont_filter"] = bool(found.get("dont_filter"))
    found["flags"] = list(found.get("flags") or ())
    return {name: value for name, value in found.items() if value is not None}


def _loaded(data: bytes) -> Any:
    """What *data* says: by its first byte, JSON, msgpack or a pickle."""
    if len(data) > MAX_BYTES:
        raise ItemFault(f"it takes {len(data):,} bytes; at most {MAX_BYTES:,}")
    try:
        if data[:1] == b"{":
            return json.loads(data)
        if data[:1] and (0x81 <= data[0] <= 0x8F or data[0] in {0xDE, 0xDF}):
            return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise ItemFault(f"it cannot be read: {printable(str(error)[:100])}") from None
    try:
        return loads(data)
    except PickleRefused as refused:
        reason = printable(refused.reason[:300])
        raise ItemFault(reason, refused.value) from None
