"""What scrapy-redis has on a server: its queue, its filter, its start URLs.

What always holds:

1.  Nothing there is changed: the keys are read in windows, and nothing is popped. So
    scrapy-redis can go on with them if the frontier is not what was wanted.
2.  What is read is data, whoever wrote it: pickles by `frontier.migrate.pickles`, JSON
    and msgpack by their parsers, of at most `MAX_BYTES`.
3.  A queue is read in the order in which it would have been emptied, except that a
    stack is read oldest request first: `FRONTIER_ORDER` turns it round again.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier.errors import ConfigurationError
from frontier.migrate.pickles import PickleRefused, loads
from frontier.model import frozen
from frontier.queue.item import MAX_BYTES
from frontier.seen.imported_filter import others_fingerprints
from frontier.status.validate import printable
from frontier.store.address import REDIS_SETTINGS
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy.settings import BaseSettings


WINDOW = 1_000
"""Requests, or fingerprints, that are read together."""
SIZES = {b"list": "LLEN", b"set": "SCARD", b"zset": "ZCARD"}
MAX_PRIORITY = 2**53
"""Above this, a sorted set cannot tell priorities apart."""


class Item(NamedTuple):
    """A request of the queue."""

    number: int
    """Its place in the order of `Source.windows`, from 1."""
    data: bytes


@frozen
class Keys:
    """Where scrapy-redis keeps what it has of one spider."""

    queue: str
    seen: str
    starts: str

    @classmethod
    def of(cls, settings: Mapping[str, Any], spider: str, *given: str | None) -> Keys:
        """Those of *spider* that *settings* name; first those *given*, if they are."""
        defaults = {
            "SCHEDULER_QUEUE_KEY": "%(spider)s:requests",
            "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:dupefilter",
            "REDIS_START_URLS_KEY": "%(name)s:start_urls",
        }
        patterns = (
            str(own or settings.get(name) or default)
            for own, (name, default) in zip_longest(given, defaults.items())
        )
        return cls(
            *(
                each.replace("%(spider)s", spider).replace("%(name)s", spider)
                for each in patterns
            )
        )


OF_ADDONS = 15
"""Scrapy's priority of settings that add-ons set."""


def server_of_nodes(settings: Mapping[str, Any], redis_url: str) -> dict[str, Any]:
    """The ``REDIS_*`` settings of the crawl's nodes; empty for an embedded store."""
    if redis_url:
        return {"REDIS_URL": redis_url}
    return {name: settings[name] for name in REDIS_SETTINGS if settings[name]}


def server_of_scrapy_redis(
    settings: BaseSettings, source: str, server: dict[str, Any]
) -> dict[str, Any]:
    """The ``REDIS_*`` settings of scrapy-redis: *source*, the project's, or *server*.

    Raises:
        ConfigurationError: Nobody has named a server.
    """
    named_here = {
        name: settings[name]
        for name in REDIS_SETTINGS
        if settings[name] and (settings.getpriority(name) or 0) > OF_ADDONS
    }
    if source:
        return {"REDIS_URL": source}
    if not (named_here or server):
        raise ConfigurationError(
            "neither the project nor --redis-url names a server; name that of "
            "scrapy-redis with --from"
        )
    return named_here or server


class Source:
    """The keys of one spider on a server, the filter's only with *has_filter*."""

    def __init__(
        self, store: BlockingStore, keys: Keys, *, has_filter: bool = True
    ) -> None:
        self._store = store
        self.keys = keys
        self.where = store.where
        self._kinds = {
            keys.queue: self._kind(keys.queue, b"list", b"zset"),
            keys.seen: self._kind(keys.seen, b"set") if has_filter else b"none",
            keys.starts: self._kind(keys.starts, b"list", b"set", b"zset"),
        }
        self.queued = self._size(keys.queue)
        """Requests in the queue."""
        self.seen = self._size(keys.seen)
        """Fingerprints in the filter."""
        self.starts = self._size(keys.starts)
        """Start URLs that nobody has taken."""

    def _kind(self, key: str, *allowed: bytes) -> bytes:
        kind: bytes = self._store.command("TYPE", key)
        if kind in {*allowed, b"none"}:
            return kind
        shown = printable(key[:200])
        if key == self.keys.seen and kind == b"string":
            raise ConfigurationError(
                f"{shown!r} is a bitmap, as scrapy-redis-bloomfilter keeps: its bits "
                "do not tell what was seen. Add --no-dupefilter, and --seen-urls FILE "
                "with URLs from logs or feed exports"
            )
        wanted = " or ".join(one.decode() for one in allowed)
        raise ConfigurationError(
            f"{shown!r} on {self.where} is a {kind.decode()}, and not a {wanted} of "
            "scrapy-redis; --queue-key and --dupefilter-key name others"
        )

    def _size(self, key: str) -> int:
        command = SIZES.get(self._kinds[key])
        return int(self._store.command(command, key)) if command else 0

    def has_changed(self) -> bool:
        """Whether there is more or less in it by now: somebody crawls with it."""
        now = self._size(self.keys.queue), self._size(self.keys.seen)
        return now != (self.queued, self.seen)

    def windows(self) -> Iterator[list[Item]]:
        """The requests of the queue, some at a time."""
        for first in range(0, self.queued, WINDOW):
            last = min(first + WINDOW, self.queued) - 1
            if self._kinds[self.keys.queue] == b"zset":
                call = Call.command("ZRANGE", self.keys.queue, first, last)
                found = self._store.call(call)
            else:  # those that were pushed first are at the right
                call = Call.command("LRANGE", self.keys.queue, -1 - last, -1 - first)
                found = reversed(self._store.call(call))
            yield [Item(number, data) for number, data in enumerate(found, first + 1)]

    def fingerprints(self) -> Iterator[list[bytes]]:
        """The fingerprints in the filter, some at a time, and some perhaps twice."""
        cursor = b"0" if self.seen else None
        while cursor is not None:
            cursor, found = self._store.command(
                "SSCAN", self.keys.seen, cursor, "COUNT", WINDOW
            )
            cursor = cursor if int(cursor) else None
            yield found

    def has_any(self, fingerprints: list[bytes]) -> bool:
        """Whether the filter has one of *fingerprints*."""
        asked = [Call.command("SISMEMBER", self.keys.seen, one) for one in fingerprints]
        return any(self._store.run(asked))


class ItemFault(Exception):
    """An item cannot be taken over as a request; *record* is what is known of it."""

    def __init__(self, reason: str, record: Any = None) -> None:
        super().__init__(reason)
        self.reason = printable(reason[:300])
        self.record: dict[str, Any] = record if isinstance(record, dict) else {}


def fingerprints_of(record: dict[str, Any]) -> list[bytes]:
    """Those by which scrapy-redis's filter may know a request, if it was tested."""
    url, method, body = (record.get(name) for name in ("url", "method", "body"))
    if not isinstance(url, str) or record.get("dont_filter"):
        return []
    body = body.encode() if isinstance(body, str) else body
    return others_fingerprints(
        url,
        method if isinstance(method, str) else "GET",
        body if isinstance(body, bytes) else b"",
    )


def request_of(data: bytes) -> dict[str, Any]:
    """The request in *data*, as Scrapy's `Request.to_dict` makes it.

    Raises:
        ItemFault: It is not a request, or has more than plain data.
    """
    found = _loaded(data)
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise ItemFault("it is not a request: it has no url")
    if "_encoding" in found:  # from Scrapy before 2.6
        found["encoding"] = found.pop("_encoding")
    priority = found.get("priority") or 0
    try:
        found["priority"] = int(priority)
        is_one = found["priority"] == priority and abs(priority) <= MAX_PRIORITY
    except (TypeError, ValueError, OverflowError):
        is_one = False
    if not is_one:
        raise ItemFault(
            f"its priority {priority} is not a whole number, or is too large", found
        )
    return {name: value for name, value in found.items() if value is not None}


def _loaded(data: bytes) -> Any:
    """Decode *data*: its first byte tells JSON, msgpack and a pickle apart."""
    if len(data) > MAX_BYTES:
        raise ItemFault(f"it takes {len(data):,} bytes; at most {MAX_BYTES:,}")
    try:
        if data[:1] == b"{":
            return json.loads(data)
        if data[:1] and (0x81 <= data[0] <= 0x8F or data[0] in {0xDE, 0xDF}):
            return msgpack.unpackb(data, strict_map_key=False)
        return loads(data)
    except PickleRefused as refused:
        raise ItemFault(refused.reason, refused.value) from None
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise ItemFault(f"it cannot be read: {str(error)[:100]}") from None
