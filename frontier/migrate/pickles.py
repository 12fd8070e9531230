"""Pickles of others, read as data: no class is looked up, and nothing is called.

`pickletools` goes over a pickle first: it bounds its instructions, and refuses those
that ask for what is not in it. Then the standard library's unpickler, the one that is
written in Python, reads it with an `Opaque` class for each name. What always holds:

1.  No class or function is looked up: names are compared with those of `CALLS`, and
    what these make has checked arguments. An `Opaque` stands in the place of all
    others, and the pickle is refused once it was read, with what else it says.
2.  Time and memory are linear in the bytes of the pickle, which are at most
    `MAX_BYTES`. What is shared counts each time that it is met, so that none grows when
    it is written out.
3.  What is returned is not within itself, and at most `MAX_DEPTH` deep.
4.  Keys and members are text, bytes, numbers or nothing. Their hashes do not recurse;
    `MAX_LARGE` bounds the numbers whose hashes a pickle can choose.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
import pickletools
from contextlib import suppress
from decimal import Decimal
from pickle import _Unpickler  # in Python, so that its parts can be replaced
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from typing_extensions import override

from frontier.errors import CodecError
from frontier.queue.item import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_STEPS = 250_000
"""Instructions of a pickle; the dictionary of a request takes about a hundred."""
MAX_DEPTH = 64
MAX_LARGE = 1_000
"""Numbers beyond 2^60: Python's hash of a smaller one is the number itself."""
MAX_NAMES = 1_000
"""Instructions that name a class: each pickled class has one."""
MAX_INT = 1024
"""Bytes, or digits, of a number."""
SHOWN = 100
"""Characters of a name in a message."""
REFUSED = frozenset(
    ("PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER")
)
"""Instructions that ask for what is not in the pickle."""
NAMES = frozenset(("GLOBAL", "STACK_GLOBAL", "INST"))
_KEYS = frozenset((str, bytes, int, float, bool, type(None)))
_UUID = "uuid.UUID"


class PickleRefused(CodecError):
    """A pickle says more than data; *value* is what else it says, if anything."""

    def __init__(self, reason: str, value: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value


def loads(data: bytes) -> Any:
    """What the pickle *data*, of unknown origin, says.

    Raises:
        PickleRefused: It is broken or too large, names what is no data, or is more
            than data may be here.
    """
    if len(data) > MAX_BYTES:
        raise PickleRefused(f"it takes {len(data):,} bytes; at most {MAX_BYTES:,}")
    try:
        reason = _fault_of_steps(data)
        value = None if reason else _Reader(io.BytesIO(data)).load()
    except Exception as error:  # noqa: BLE001 (each part of a broken one has its own)
        reason, value = f"it is not a pickle: {type(error).__name__}", None
    if reason := reason or _fault_of(value):
        raise PickleRefused(reason, value)
    return value


def _fault_of_steps(data: bytes) -> str:
    """What keeps the instructions of *data* from being read; empty if nothing."""
    large = names = 0
    for step, (code, given, _) in enumerate(pickletools.genops(data)):
        if step == MAX_STEPS:
            return f"it has more than {MAX_STEPS:,} instructions"
        if code.name in REFUSED:
            return f"it has a {code.name}, which is no plain data"
        names += code.name in NAMES
        if isinstance(given, int | float):
            large += abs(given) >= 1 << 60
            if isinstance(given, int) and given.bit_length() > 8 * MAX_INT:
                return f"it has a number of more than {MAX_INT:,} bytes"
    if names > MAX_NAMES:
        return f"it names more than {MAX_NAMES:,} classes"
    return f"it has more than {MAX_LARGE:,} large numbers" if large > MAX_LARGE else ""


def _decimal(text: str) -> Decimal:
    if len(text) > MAX_INT:
        raise ValueError
    return Decimal(text)


def _checked(make: Callable[..., Any]) -> Callable[..., Any]:
    """*make*, and check each part of what it makes: of bytes it takes any hour."""
    return lambda *given: make(*given).replace()


CALLS: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
    "lxml.etree._ElementUnicodeResult": (str, (str,)),
    "datetime.date": (_checked(dt.date), (bytes,)),
    "datetime.datetime": (_checked(dt.datetime), (bytes, dt.timezone)),
    "datetime.time": (_checked(dt.time), (bytes, dt.timezone)),
    "datetime.timedelta": (dt.timedelta, (int, int, int)),
    "datetime.timezone": (dt.timezone, (dt.timedelta, str)),
    "decimal.Decimal": (_decimal, (str,)),
}
"""Calls that make data: what does it here, and the types of its arguments.

`CrawlSpider` has the text of each link in ``meta``, as lxml gave it."""


class Opaque:
    """What stands in a pickle where something would have to be looked up."""

    what = ""

    def __new__(cls, *given: Any, **named: Any) -> Any:
        """What the call of a class with this name makes, if that is data."""
        make, kinds = CALLS.get(cls.what, (None, ()))
        fits = 0 < len(given) <= len(kinds) and all(
            type(value) is kind for value, kind in zip(given, kinds, strict=False)
        )
        if make is not None and fits and not named:
            with suppress(TypeError, ValueError, ArithmeticError):
                return make(*given)
        if cls.what == _UUID and not given:
            return object.__new__(UUID)  # its number comes with its state
        return super().__new__(cls)

    def _nothing(self, *_: object) -> None:
        """Take what a pickle puts into an object, and forget it."""

    __setstate__ = __setitem__ = append = extend = add = _nothing


def _opaque(what: str) -> type[Opaque]:
    return type("Opaque", (Opaque,), {"what": what[:SHOWN]})


def _guarded(name: str, first: int, step: int) -> Callable[[Any], None]:
    """The instruction *name*, but that keys have hashes that are at hand."""

    def load(reader: Any) -> None:
        stack = reader.stack
        for at in range(len(stack) + first if first < 0 else first, len(stack), step):
            kind = type(stack[at])
            if kind not in _KEYS:
                stack[at] = _opaque(f"{kind.__name__} as a key or a member of a set")()
        getattr(_Unpickler, f"load_{name}")(reader)

    return load


class _Reader(_Unpickler):
    """Reads one pickle."""

    # What is above a mark is a stack of its own. One key lies below its value.
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **_Unpickler.dispatch,
        pickle.SETITEM[0]: _guarded("setitem", -2, 2),
        pickle.SETITEMS[0]: _guarded("setitems", 0, 2),
        pickle.DICT[0]: _guarded("dict", 0, 2),
        pickle.ADDITEMS[0]: _guarded("additems", 0, 1),
        pickle.FROZENSET[0]: _guarded("frozenset", 0, 1),
    }

    @override
    def find_class(self, module: str, name: str) -> type[Opaque]:
        """Never what *name* is, but what stands for it."""
        return _opaque(f"{module}.{name}")

    def _decode_string(self, value: bytes) -> str | bytes:
        """Text of Python 2, which is bytes where it is not ASCII."""
        return value.decode("ascii") if value.isascii() else value


def _fault_of(value: Any) -> str:
    """What keeps *value* from being data that may be written out; empty if nothing."""
    room, nodes = MAX_BYTES, MAX_STEPS
    waiting: list[tuple[Any, int, Any]] = [(value, 0, None)]
    while waiting:
        one, depth, path = waiting.pop()
        kind, nodes = type(one), nodes - 1
        if what := _strange(one):
            return f"{_where(path)} is a {what}, which is no plain data"
        if kind in {str, bytes, bytearray}:
            room -= len(one)
        elif kind is dict:
            waiting += [(key, depth + 1, (path, key)) for key in one]
            waiting += [(each, depth + 1, (path, key)) for key, each in one.items()]
        elif kind in {list, tuple, set, frozenset}:
            waiting += [(each, depth + 1, (path, n)) for n, each in enumerate(one)]
        if depth > MAX_DEPTH:
            return f"it is more than {MAX_DEPTH} deep, or within itself"
        if room < 0 or nodes < 0 or len(waiting) > 4 * MAX_STEPS:
            return "what it shares makes it too large"
    return ""


def _strange(one: Any) -> str:
    """What *one* is, if it is no data."""
    if isinstance(one, Opaque) or (isinstance(one, type) and issubclass(one, Opaque)):
        return one.what
    if type(one) is UUID:
        number = getattr(one, "int", None)
        if not (type(number) is int and 0 <= number < 1 << 128):
            return _UUID
    return ""


def _where(path: Any) -> str:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(f"[{key!r}]"[:SHOWN])
    return f"its {''.join(reversed(keys))[:SHOWN]}" if keys else "it"
