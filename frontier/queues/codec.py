"""Queue items: requests as bytes, versioned, without pickle.

An item is one digit (how often it was delivered without an ack), one version
byte, and a msgpack map of what differs from a plain GET request; the names of what
all requests have are their places in `NAMES`. Only data comes back: numbers, text,
bytes, lists, tuples, maps, sets, dates and decimals.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import msgpack

from frontier.errors import CodecError, NotSerializable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSION = 2
OLDER = 1
"""The version before; it has names instead of places, and can be read as well."""
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
)
"""Names in records by their places, which never change; more may follow."""
MAX_BYTES = 4 * 1024 * 1024
"""Largest item, so that a hostile or broken request cannot fill the store."""

MAX_DEPTH = 32
"""Tuples and sets within each other: each takes 32 KB of the C stack to read, so
that some hundreds of them would end the process."""

_HEAD = b"0" + bytes([VERSION])
_PLACES: dict[Any, Any] = {name: place for place, name in enumerate(NAMES)}
_NAMED: dict[Any, Any] = dict(enumerate(NAMES))
_TUPLE, _SET, _FROZENSET, _DATETIME, _DATE, _DECIMAL = range(1, 7)


def encode(record: Mapping[str, Any], *, most: int = MAX_BYTES) -> bytes:
    """The item of *record*, a request as a mapping with a ``url``, of *most* bytes.

    Raises:
        NotSerializable: A value is not data, or all together are too large.
    """
    try:
        body: bytes = _packer.pack({_PLACES.get(n, n): record[n] for n in record})
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _blame(record, error) from None
    if len(body) > most:
        reason = f"takes {len(body):,} bytes; at most {most:,} can be stored"
        raise NotSerializable(_short(record), "the request", reason)
    return _HEAD + body


def decode(item: bytes) -> dict[str, Any]:
    """The record of *item*.

    Raises:
        CodecError: It is not what `encode` of this version writes.
    """
    if len(item) < 3 or item[1] not in (VERSION, OLDER):
        raise CodecError("an item of another version, or not an item")
    try:
        record = msgpack.unpackb(
            item[2:],
            ext_hook=partial(_unpack_ext, depth=0),
            strict_map_key=False,
            max_str_len=MAX_BYTES,
        )
    except Exception as error:  # noqa: BLE001 (msgpack raises many types)
        raise CodecError(f"an item that is not msgpack: {error}") from None
    if isinstance(record, dict):
        record = {_NAMED.get(name, name): value for name, value in record.items()}
        if isinstance(record.get("url"), str):
            return record
    raise CodecError("an item without a URL")


def _pack(value: Any, depth: int = 0) -> Any:
    default = partial(_pack_other, depth=depth)
    return msgpack.packb(value, default=default, strict_types=True)


def _pack_other(value: Any, *, depth: int) -> Any:
    kind = type(value)
    if kind in _PACKERS:
        if depth == MAX_DEPTH:
            raise ValueError(f"has more than {MAX_DEPTH} tuples or sets in each other")
        code, plain = _PACKERS[kind]
        return msgpack.ExtType(code, _pack(plain(value), depth + 1))
    if kind is OrderedDict:
        return dict(value)
    raise TypeError(f"is a {kind.__module__}.{kind.__qualname__}")


_PACKERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    tuple: (_TUPLE, list),
    set: (_SET, list),
    frozenset: (_FROZENSET, list),
    dt.datetime: (_DATETIME, dt.datetime.isoformat),
    dt.date: (_DATE, dt.date.isoformat),
    Decimal: (_DECIMAL, str),
}
_UNPACKERS: dict[int, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _DATETIME: dt.datetime.fromisoformat,
    _DATE: dt.date.fromisoformat,
    _DECIMAL: Decimal,
}


def _unpack_ext(code: int, data: bytes, *, depth: int) -> Any:
    if code not in _UNPACKERS:
        raise CodecError(f"an item with extension {code}")
    if depth == MAX_DEPTH:
        raise CodecError(f"an item with more than {MAX_DEPTH} extensions in each other")
    hook = partial(_unpack_ext, depth=depth + 1)
    return _UNPACKERS[code](msgpack.unpackb(data, ext_hook=hook, strict_map_key=False))


# Made once, as that takes as long as to pack with it.
_packer = msgpack.Packer(default=partial(_pack_other, depth=0), strict_types=True)


def _blame(record: Mapping[str, Any], error: Exception) -> NotSerializable:
    for part in ("meta", "cb_kwargs"):
        for key, value in (record.get(part) or {}).items():
            try:
                _pack({key: value})
            except (TypeError, ValueError, OverflowError, RecursionError) as cause:
                return NotSerializable(_short(record), f"{part}[{key!r}]", str(cause))
    for name, value in record.items():
        try:
            _pack(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as cause:
            return NotSerializable(_short(record), name, str(cause))
    return NotSerializable(_short(record), "the request", str(error))


def _short(record: Mapping[str, Any]) -> str:
    return str(record.get("url"))[:200]
