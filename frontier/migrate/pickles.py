"""Pickles of others, read as data: no class is looked up, and nothing is called.

`pickletools` goes over a pickle first: so the number of its instructions is bounded,
and those that ask for something outside of the pickle are refused. Then the standard
library's unpickler, the one that is written in Python, reads it. What always holds:

1.  A name is only compared with those in `DATA`, whose classes just make data. An
    `Opaque` stands in for any other, and the pickle is refused once it was read, with
    what it says besides.
2.  A value that is returned does not contain itself, is at most `MAX_DEPTH` deep, and
    is no larger than `MAX_BYTES` with its shared parts written out.

It is made for the queue of one's own crawl: a pickle may still waste its reader's time,
or end the command.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
import pickletools
from collections.abc import Callable
from decimal import Decimal
from pickle import _Unpickler  # in Python: the one in C makes room for any memo
from typing import Any, ClassVar
from uuid import UUID

from typing_extensions import override

from frontier.errors import CodecError
from frontier.queue.item import MAX_BYTES

MAX_STEPS = 250_000
"""Instructions of a pickle; the dictionary of a request takes about a hundred."""
MAX_DEPTH = 64
SHOWN = 100
"""Characters of a name in a message."""
REFUSED = frozenset(
    ("PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER")
)
"""Instructions that ask for what is not in the pickle."""
TEXT = (str, bytes, bytearray)
SIZED = (*TEXT, dict, list, tuple, set, frozenset)
DATA = {
    "lxml.etree._ElementUnicodeResult": str,  # the text of each link of `CrawlSpider`
    "datetime.date": dt.date,
    "datetime.datetime": dt.datetime,
    "datetime.time": dt.time,
    "datetime.timedelta": dt.timedelta,
    "datetime.timezone": dt.timezone,
    "decimal.Decimal": Decimal,
    "uuid.UUID": UUID,
}


class PickleRefused(CodecError):
    """A pickle is not just data; *value* is what it says besides, if anything."""

    def __init__(self, reason: str, value: Any) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value


def loads(data: bytes) -> Any:
    """What the pickle *data*, of unknown origin, says.

    Raises:
        PickleRefused: It is broken or too large, names something that is not data, or
            exceeds a limit for data.
    """
    try:
        reason = _fault_of_steps(data)
        value = None if reason else _Reader(io.BytesIO(data)).load()
    except Exception as error:  # noqa: BLE001 (a broken one may raise anything)
        reason, value = f"it is not a pickle: {type(error).__name__}", None
    if reason := reason or _fault_of(value):
        raise PickleRefused(reason, value)
    return value


def _fault_of_steps(data: bytes) -> str:
    """Why the instructions of *data* are refused; empty if they are not."""
    for step, (code, _, _) in enumerate(pickletools.genops(data)):
        if step == MAX_STEPS:
            return f"it has more than {MAX_STEPS:,} instructions"
        if code.name in REFUSED:
            return f"it has a {code.name}, which is no plain data"
    return ""


class Opaque:
    """Stands in for what a pickle would have to look up."""

    what = ""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Have a call of the class with this name just make a stand-in."""
        return super().__new__(cls)

    def _nothing(self, *_: object) -> None:
        """Take what a pickle puts into an object, and forget it."""

    __setstate__ = __setitem__ = append = extend = add = _nothing


_BUILD = _Unpickler.dispatch[pickle.BUILD[0]]


class _Reader(_Unpickler):
    """Reads one pickle."""

    @override
    def find_class(self, module: str, name: str) -> type[Any]:
        """Never the class *name* itself, but what stands in for it."""
        what = f"{module}.{name}"
        return DATA.get(what) or type("Opaque", (Opaque,), {"what": what[:SHOWN]})

    def load_build(self) -> None:
        """Give an object its state; the object may not be a class of `DATA`."""
        parts: Any = self
        if isinstance(parts.stack[-2], type):
            raise pickle.UnpicklingError
        _BUILD(parts)

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **_Unpickler.dispatch,
        pickle.BUILD[0]: load_build,
    }

    def _decode_string(self, value: bytes) -> str | bytes:
        """Text of Python 2, which is bytes if it is not ASCII."""
        return value.decode("ascii") if value.isascii() else value


def _fault_of(value: Any) -> str:
    """Why *value* is not data that may be written out; empty if it is."""
    room, waiting = MAX_BYTES, [(value, 0, "")]
    while waiting:
        one, depth, where = waiting.pop()
        if isinstance(one, Opaque | type):
            named = f"its {where}" if where else "it"
            return (
                f"{named} is a {getattr(one, 'what', 'class')}, which is no plain data"
            )
        if not isinstance(one, SIZED):
            continue
        room -= len(one)
        if room < 0 or depth > MAX_DEPTH:
            return f"it is too large, more than {MAX_DEPTH} deep, or within itself"
        if isinstance(one, dict):
            waiting += [(key, depth + 1, where) for key in one]
        elif isinstance(one, TEXT):
            continue
        pairs = one.items() if isinstance(one, dict) else enumerate(one)
        waiting += [(x, depth + 1, f"{where}[{key!r}]"[:SHOWN]) for key, x in pairs]
    return ""
