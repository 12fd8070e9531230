"""Queue items: requests as bytes, versioned, without pickle.

An item is one digit (how often it was delivered without an ack), one version byte, and
a msgpack map of what differs from a plain GET request; attributes that all requests
have are keyed by their places in `NAMES`. Most URLs begin with ``https://`` or
``http://`` and the key of their queue, a host: such an item has only the rest of the
URL, and a version of its own. It is read with the name of the queue that it is in. What
comes back is data:

1.  Values of the types in `_PACKERS` keep their type; instances of subclasses of text,
    bytes and numbers become instances of the base class, and buffers become bytes. Any
    other value is refused with its name, never changed.
2.  Of a class only its name travels. `Classes` says which classes may, and looks them
    up; where nothing is looked up, that name stands for the instance.

A type that is added gets an extension code of its own and no new version: a node that
does not know the code refuses the items that have it and reads all others.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack

from frontier.errors import CodecError, NotSerializable

VERSION = 2
SHORT = {3: "https://", 4: "http://"}
"""Versions of items whose URLs lack this scheme and the queue key after it."""
NAMES = (
    "url",
    "callback",
    "headers",
    "meta",
    "errback",
    "method",
    "body",
    "cookies",
    "encoding",
    "priority",
    "dont_filter",
    "flags",
    "cb_kwargs",
    "_class",
    "recrawl",
    "exempt",
    "forced",
)
"""Names in records by their places, which never change; more may be appended."""
RECRAWL = "recrawl"
"""In a record: what the schedule knows about its URL; not an attribute of a request."""
EXEMPT = "exempt"
"""In a record: what was seen before the crawl does not apply to it (see
`frontier.seen.imported_filter`); not an attribute of a request either."""
FORCED = "forced"
"""In a record: the id of its push, if it was queued untested; not an attribute either.
See `frontier.queue.push.Push`."""
EXTRAS = (RECRAWL, EXEMPT, FORCED)
MAX_BYTES = 4 * 1024 * 1024
"""Largest item, so that a hostile or broken request cannot fill the store."""

MAX_DEPTH = 32
"""Levels of nested tuples and sets: reading each takes 32 KB of the C stack, so some
hundreds of them would crash the process."""

_HEAD = b"0" + bytes([VERSION])
_SHORT_HEADS = [(text, b"0" + bytes([version])) for version, text in SHORT.items()]
_PLACES: dict[Any, Any] = {name: place for place, name in enumerate(NAMES)}
_NAMED: dict[Any, Any] = dict(enumerate(NAMES))
_place = _PLACES.get
_URL = _PLACES["url"]
_VERSIONS = frozenset((VERSION, *SHORT))


class Classes:
    """Lets no class travel; `frontier.requests.stored_request` has one that does."""

    def apart(self, value: Any) -> tuple[str, str, Any] | None:  # noqa: ARG002
        """Module, name and content of *value*; `None` if its class may not travel.

        Raises:
            TypeError: Its class may, but *value* cannot travel.
        """
        return None

    def together(self, module: Any, name: Any, content: Any) -> Any:  # noqa: ARG002
        """The instance that `apart` took apart.

        Raises:
            CodecError: The class is not allowed or does not exist, or is made of
                something else here.
        """
        return f"{module}.{name}"


class Codec:
    """Writes and reads the items of a crawl whose requests may carry *classes*."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        # Made once, as making it takes as long as packing with it.
        self._pack_record = msgpack.Packer(
            default=partial(self._pack_other, depth=0), strict_types=True
        ).pack

    def encode(self, record: Mapping[str, Any], queue: str = "") -> bytes:
        """The item of *record*, a request as a mapping with a ``url``.

        It can be read in *queue* alone, a `queue_name`; in any if none is given.

        Raises:
            NotSerializable: A value is not data, or the item is too large.
        """
        try:
            placed = {_place(name, name): value for name, value in record.items()}
            head, placed[_URL] = _shortened(placed.get(_URL), queue)
            body: bytes = self._pack_record(placed)
        except _NOT_DATA as error:
            raise self._blame(record, error) from None
        if len(body) > MAX_BYTES:
            reason = f"takes {len(body):,} bytes; at most {MAX_BYTES:,} can be stored"
            raise NotSerializable(_short(record), "the request", reason)
        return head + body

    def decode(self, item: bytes, queue: str = "") -> dict[str, Any]:
        """The record of *item*, which is in *queue*.

        Raises:
            CodecError: It is not what `encode` of this version writes, or needs its
                queue and none is given, or has an instance of a class that is not
                allowed.
        """
        if len(item) < 3 or item[1] not in _VERSIONS:
            raise CodecError("an item of another version, or not an item")
        try:
            record = msgpack.unpackb(
                item[2:],
                ext_hook=partial(self._unpack_ext, depth=0),
                strict_map_key=False,
                max_str_len=MAX_BYTES,
            )
        except _ClassRefused as refused:
            raise CodecError(f"an item with a {refused}") from None
        except Exception as error:  # noqa: BLE001 (msgpack raises many types)
            raise CodecError(f"an item that is not msgpack: {error}") from None
        if isinstance(record, dict):
            record = {_NAMED.get(name, name): value for name, value in record.items()}
            if isinstance(url := record.get("url"), str):
                record["url"] = _whole(url, item[1], queue)
                return record
        raise CodecError("an item without a URL")

    def _pack(self, value: Any, depth: int = 0) -> Any:
        default = partial(self._pack_other, depth=depth)
        return msgpack.Packer(default=default, strict_types=True).pack(value)

    def _pack_other(self, value: Any, *, depth: int) -> Any:
        kind = type(value)
        if kind in _PACKERS:
            code, plain = _PACKERS[kind]
            content = plain(value)
        elif (named := self._classes.apart(value)) is not None:
            code, content = _NAMED_CLASS, list(named)
        else:
            for base, plain in () if isinstance(value, Enum) else _BASES:
                if isinstance(value, base):
                    return self._pack_plain(plain(value), depth)
            raise TypeError(f"is a {kind.__module__}.{kind.__qualname__}")
        if depth == MAX_DEPTH:
            raise ValueError(
                f"has more than {MAX_DEPTH} tuples, sets or objects in each other"
            )
        return msgpack.ExtType(code, self._pack(content, depth + 1))

    def _pack_plain(self, value: Any, depth: int) -> Any:
        """*value*, or its extension if msgpack, which asks once, cannot pack it."""
        is_large = type(value) is int and not -(2**63) <= value < 2**64
        if is_large or type(value) is Decimal:
            return self._pack_other(value, depth=depth)
        return value

    def _unpack_ext(self, code: int, data: bytes, *, depth: int) -> Any:
        if code != _NAMED_CLASS and code not in _UNPACKERS:
            raise CodecError(f"an item with extension {code}")
        if depth == MAX_DEPTH:
            raise CodecError(
                f"an item with more than {MAX_DEPTH} extensions in each other"
            )
        hook = partial(self._unpack_ext, depth=depth + 1)
        content = msgpack.unpackb(data, ext_hook=hook, strict_map_key=False)
        if code != _NAMED_CLASS:
            return _UNPACKERS[code](content)
        module, name, content = content
        try:
            return self._classes.together(module, name, content)
        except CodecError as error:
            raise _ClassRefused(*error.args) from None

    def _blame(self, record: Mapping[str, Any], error: Exception) -> NotSerializable:
        for part in ("meta", "cb_kwargs"):
            for key, value in (record.get(part) or {}).items():
                try:
                    self._pack({key: value})
                except _NOT_DATA as cause:
                    where = f"{part}[{key!r}]"
                    return NotSerializable(_short(record), where, str(cause))
        for name, value in record.items():
            try:
                self._pack(value)
            except _NOT_DATA as cause:
                return NotSerializable(_short(record), name, str(cause))
        return NotSerializable(_short(record), "the request", str(error))


def _shortened(url: Any, queue: str) -> tuple[bytes, Any]:
    """The head of an item for *queue*, and the part of *url* that it has."""
    host = queue.partition(":")[2]
    if host and type(url) is str:
        for scheme, head in _SHORT_HEADS:
            if url.startswith(f"{scheme}{host}/"):
                return head, url[len(scheme) + len(host) :]
    return _HEAD, url


def _whole(url: str, version: int, queue: str) -> str:
    """The whole URL of which an item of *version* has the part *url*."""
    scheme = SHORT.get(version)
    if scheme is None:
        return url
    host = queue.partition(":")[2]
    if not host or not url.startswith("/"):
        raise CodecError("an item whose URL has no host")
    return scheme + host + url


class _ClassRefused(CodecError):
    """The class of an instance in an item is not allowed, or is different here."""


def _date_parts(value: dt.datetime | dt.time) -> Any:
    """ISO 8601 text; with the name of the zone and the fold if there are any."""
    zone = value.tzinfo
    if isinstance(zone, ZoneInfo) and zone.key:
        return [value.replace(tzinfo=None).isoformat(), zone.key, value.fold]
    if value.fold:
        return [value.isoformat(), "", value.fold]
    if zone is not None and value.utcoffset() is None:
        raise TypeError("has a time zone whose offset is not known without a date")
    return value.isoformat()


def _from_date_parts(kind: Any, parts: Any) -> Any:
    if isinstance(parts, str):
        return kind.fromisoformat(parts)
    text, key, fold = parts
    value = kind.fromisoformat(text).replace(fold=fold)
    if not key:
        return value
    if not _ZONE.fullmatch(key):
        raise ValueError("a time zone without a name")
    return value.replace(tzinfo=ZoneInfo(key))


def _big(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    if size > _MAX_INT:
        raise OverflowError(f"is a number of {size:,} bytes; at most {_MAX_INT:,}")
    return value.to_bytes(size, "big", signed=True)


def _from_big(content: Any) -> int:
    if len(content) > _MAX_INT:
        raise ValueError(f"a number of more than {_MAX_INT} bytes")
    return int.from_bytes(content, "big", signed=True)


def _with_factory(value: defaultdict[Any, Any]) -> Any:
    for name, factory in _FACTORIES.items():
        if value.default_factory is factory:
            return [name, dict(value)]
    raise TypeError(
        f"is a defaultdict of {value.default_factory!r}; only one of "
        f"{', '.join(_FACTORIES)} can be stored"
    )


_NOT_DATA = (TypeError, ValueError, OverflowError, RecursionError)
_MAX_INT = 1024
"""Bytes of a number: printing it takes time in proportion to its length squared."""
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(?:/[A-Za-z0-9_+-]{1,40}){0,2}")
_FACTORIES: dict[str, Any] = {
    "None": None,
    **{kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)},
}
_TUPLE, _SET, _FROZENSET, _DATETIME, _DATE, _DECIMAL = range(1, 7)
_ORDERED, _DEFAULTDICT, _COUNTER, _DEQUE = range(8, 12)
_TIME, _TIMEDELTA = 13, 14
_BIG, _UUID, _NAMED_CLASS, _PATH = range(16, 20)
_PACKERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    tuple: (_TUPLE, list),
    set: (_SET, list),
    frozenset: (_FROZENSET, list),
    dt.datetime: (_DATETIME, _date_parts),
    dt.date: (_DATE, dt.date.isoformat),
    dt.time: (_TIME, _date_parts),
    dt.timedelta: (_TIMEDELTA, lambda d: [d.days, d.seconds, d.microseconds]),
    Decimal: (_DECIMAL, str),
    int: (_BIG, _big),  # those that msgpack has no place for
    OrderedDict: (_ORDERED, dict),
    defaultdict: (_DEFAULTDICT, _with_factory),
    Counter: (_COUNTER, dict),
    deque: (_DEQUE, lambda values: [values.maxlen, list(values)]),
    UUID: (_UUID, lambda one: one.bytes),
    type(Path()): (_PATH, str),
}
_UNPACKERS: dict[int, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _DATETIME: partial(_from_date_parts, dt.datetime),
    _DATE: dt.date.fromisoformat,
    _TIME: partial(_from_date_parts, dt.time),
    _TIMEDELTA: lambda parts: dt.timedelta(*parts),
    _DECIMAL: Decimal,
    _BIG: _from_big,
    _ORDERED: OrderedDict,
    _DEFAULTDICT: lambda parts: defaultdict(_FACTORIES[parts[0]], parts[1]),
    _COUNTER: Counter,
    _DEQUE: lambda parts: deque(parts[1], parts[0]),
    _UUID: lambda content: UUID(bytes=content),
    _PATH: Path,
}
# The base class's own methods, as a subclass may have overridden them.
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (int, int.__int__),
    (float, float.__float__),
    (Decimal, Decimal),
)


def _short(record: Mapping[str, Any]) -> str:
    return str(record.get("url"))[:200]


_plain = Codec(Classes())
encode, decode = _plain.encode, _plain.decode
"""For items whose classes are not looked up: seeds, or when only the URL is wanted."""
