"""Pickles of others, read as data: nothing is imported, looked up or called.

A pickle is a program for a machine with a stack. The machine here has the part of the
instructions (`pickletools` lists all of them) that make builtin containers and scalars,
and of calls those of `CALLS`, which make dates, decimals and UUIDs.
What always holds:

1.  No class or function is ever looked up: names are compared with those of `CALLS`,
    and what these make has checked arguments. Where a pickle names another, or asks
    for a persistent or registered object, an `Opaque` with what it named stands in its
    place, and the pickle is refused once it was read, with what else it says.
2.  Time and memory are linear in the bytes of the pickle, which are at most
    `MAX_BYTES`, in at most `MAX_STEPS` instructions. What is shared counts each time
    that it is met, so that none grows when it is written out.
3.  What is returned is not within itself, and at most `MAX_DEPTH` deep.
4.  Keys and members are text, bytes, numbers or nothing; at most `MAX_NUMBERS` of them
    are numbers, whose hashes an attacker can choose.
"""

from __future__ import annotations

import codecs
import datetime as dt
import struct
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from frontier.errors import CodecError
from frontier.queue.item import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[..., Any]

MAX_STEPS = 250_000
"""Instructions of a pickle; the dictionary of a request takes about a hundred."""
MAX_DEPTH = 64
MAX_NUMBERS = 1_000
MAX_INT = 1024
"""Bytes, or digits, of a number."""
SHOWN = 100
"""Characters of a name in a message."""
_UUID = "uuid.UUID"
"""Made without arguments, with a state that has its number."""
_KEYS = frozenset((str, bytes, int, float, bool, type(None)))
_TEXT = frozenset((str, bytes))


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """What stands in a pickle where something would have to be looked up."""

    what: str


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
    machine = _Machine(data)
    try:
        value = machine.run()
    except (IndexError, KeyError, ValueError, struct.error) as error:
        reason = f"it is not a pickle: {type(error).__name__} at byte {machine.at:,}"
        raise PickleRefused(reason, machine.last()) from None
    if reason := machine.fault or _fault_of(value):
        raise PickleRefused(reason, value)
    return value


_MARK = object()


class _Machine:
    """Runs one pickle."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self.fault = ""
        """The first thing that keeps the pickle from being data, if anything does."""
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._places: dict[Opaque, int] = {}
        """Where in the memo what is to become a UUID is."""
        self._numbers = 0

    def run(self) -> Any:
        """What the pickle leaves on the stack."""
        steps, data = _STEPS, self._data
        for _ in range(MAX_STEPS):
            code = data[self.at]
            self.at += 1
            if code == _STOP:
                return self._pop()
            step = steps.get(code)
            if step is None:
                raise ValueError
            step(self)
        raise PickleRefused(f"it has more than {MAX_STEPS:,} instructions", self.last())

    def last(self) -> Any:
        """The outermost dictionary that there is so far."""
        return next((one for one in self._stack if type(one) is dict), None)

    def find_class(self, name: str) -> Opaque:
        """Never what *name* is, but what stands for it."""
        return Opaque(name[:SHOWN])

    # Reading.

    def _bytes(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self._data):
            raise ValueError
        found = self._data[self.at : end]
        self.at = end
        return found

    def _number(self, format_: str) -> Any:
        return struct.unpack(format_, self._bytes(struct.calcsize(format_)))[0]

    def _line(self) -> bytes:
        end = self._data.index(b"\n", self.at)
        found = self._data[self.at : end]
        self.at = end + 1
        return found

    # The stack.

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError
        return value

    def _top(self) -> Any:
        if self._stack[-1] is _MARK:
            raise ValueError
        return self._stack[-1]

    def _pop_mark(self) -> list[Any]:
        """What is above the last mark."""
        stack, end = self._stack, len(self._stack) - 1
        at = end
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError
        found = stack[at + 1 :]
        del stack[at:]
        return found

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _note(self, fault: str) -> None:
        self.fault = self.fault or fault

    # What instructions do.

    def none(self) -> None:
        """Change nothing."""

    def mark(self) -> None:
        """Set a mark."""
        self._push(_MARK)

    def frame(self) -> None:
        """Read the size of what follows, which is of no use here."""
        self._bytes(8)

    def duplicate(self) -> None:
        """Push what is on top once more."""
        self._push(self._top())

    def text_number(self) -> None:
        """Push a number, or a truth value, that is written in digits."""
        line = self._line()
        if line in {b"00", b"01"}:
            self._push(line == b"01")
        elif len(line) > MAX_INT:
            self._note(f"it has a number of more than {MAX_INT:,} digits")
            self._push(0)
        else:
            self._push(int(line.removesuffix(b"L")))

    def long(self, size: int) -> None:
        """Push a number of *size* bytes."""
        data = self._bytes(size)
        if size > MAX_INT:
            self._note(f"it has a number of more than {MAX_INT:,} bytes")
            data = b""
        self._push(int.from_bytes(data, "little", signed=True))

    def old_text(self, data: bytes) -> None:
        """Push text of Python 2, which is bytes where it is not ASCII."""
        self._push(data.decode("ascii") if data.isascii() else data)

    def quoted(self) -> None:
        """Push text of Python 2 that is written as in a program."""
        line = self._line()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"\"'":
            raise ValueError
        decoded: Any = codecs.escape_decode(line[1:-1])
        self.old_text(decoded[0])

    def put(self, place: int) -> None:
        """Remember what is on top; a UUID is remembered before it has its state."""
        top = self._memo[place] = self._top()
        if type(top) is Opaque and top.what == _UUID:
            self._places[top] = place

    def make_tuple(self, size: int) -> None:
        """Make a tuple of what is on top."""
        if size > len(self._stack):
            raise ValueError
        found = tuple(self._stack[len(self._stack) - size :])
        if _MARK in found:
            raise ValueError
        del self._stack[len(self._stack) - size :]
        self._push(found)

    def append(self, values: list[Any]) -> None:
        """Add *values* to the list on top."""
        target = self._top()
        if type(target) is list:
            target.extend(values)
        elif type(target) is not Opaque:
            raise ValueError

    def set_items(self, values: list[Any]) -> None:
        """Add keys and values to the dictionary on top."""
        target = self._top()
        if type(target) is dict:
            self._fill(target, values)
        elif type(target) is not Opaque:
            raise ValueError

    def add_items(self, values: list[Any]) -> None:
        """Add *values* to the set on top."""
        target = self._top()
        if type(target) is set:
            target.update(filter(self._may_be_key, values))
        elif type(target) is not Opaque:
            raise ValueError

    def dictionary(self) -> None:
        """Make a dictionary of what is above the mark."""
        made: dict[Any, Any] = {}
        self._fill(made, self._pop_mark())
        self._push(made)

    def _fill(self, target: dict[Any, Any], values: list[Any]) -> None:
        if len(values) % 2:
            raise ValueError
        pairs = zip(values[::2], values[1::2], strict=True)
        target.update((k, v) for k, v in pairs if self._may_be_key(k))

    def frozen(self) -> None:
        """Make a frozen set of what is above the mark."""
        self._push(frozenset(filter(self._may_be_key, self._pop_mark())))

    def _may_be_key(self, value: Any) -> bool:
        kind = type(value)
        if kind in _TEXT:
            return True
        if kind is Opaque:
            self._note(f"it has a {value.what} as a key or a member of a set")
            return False
        if kind not in _KEYS:
            self._note(f"it has a {kind.__name__} as a key or a member of a set")
            return False
        self._numbers += 1
        if self._numbers > MAX_NUMBERS:
            self._note(f"it has more than {MAX_NUMBERS:,} numbers as keys or members")
            return False
        return True

    # What would look something up, or call it.

    def named(self) -> None:
        """Push what stands for a class that is named in two lines."""
        module, name = self._line(), self._line()
        self._push(self.find_class(f"{_said(module)}.{_said(name)}"))

    def stack_named(self) -> None:
        """The same; the names are on the stack."""
        name, module = self._pop(), self._pop()
        self._push(self.find_class(f"{_said(module)}.{_said(name)}"))

    def instance(self) -> None:
        """Push what stands for an instance, whose class is named in two lines."""
        module, name = self._line(), self._line()
        self._pop_mark()
        self._push(self.find_class(f"{_said(module)}.{_said(name)}"))

    def make_object(self) -> None:
        """The same; the class is above the mark."""
        made = self._pop_mark()
        self._push(Opaque(_said(made[0])))

    def call(self, arguments: int) -> None:
        """Push the data that a call makes, or what stands for its result."""
        given = [self._pop() for _ in range(arguments)]
        self._push(_result_of(self._pop(), given))

    def build(self) -> None:
        """Push the UUID that a state makes, or what stands for an object."""
        state, target = self._pop(), self._pop()
        made = _with_state(target, state)
        self._push(made)
        if type(target) is Opaque and target in self._places:
            self._memo[self._places[target]] = made

    def persistent(self, *, in_line: bool) -> None:
        """Push what stands for an object that is kept elsewhere."""
        if in_line:
            self._line()
        else:
            self._pop()
        self._push(Opaque("reference to an object that is not in it"))

    def registered(self, size: int) -> None:
        """Push what stands for a class of a registry."""
        self._bytes(size)
        self._push(Opaque("class by its number"))

    def buffer(self) -> None:
        """Push what stands for data that is not in the pickle."""
        self._push(Opaque("buffer that is not in it"))


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


def _result_of(called: Any, given: list[Any]) -> Any:
    """What *called* makes of *given* if it is one of `CALLS`, or what stands for it."""
    make, kinds = CALLS.get(_said(called), (None, ()))
    values = given[0] if len(given) == 1 and type(given[0]) is tuple else ()
    fits = 0 < len(values) <= len(kinds) and all(
        type(value) is kind for value, kind in zip(values, kinds, strict=False)
    )
    if make is not None and fits and type(called) is Opaque:
        with suppress(TypeError, ValueError, ArithmeticError):
            return make(*values)
    return Opaque(_said(called))


def _with_state(target: Any, state: Any) -> Any:
    """The UUID that *target* is with *state*, or what stands for *target*."""
    if type(target) is Opaque and target.what == _UUID and type(state) is dict:
        number = state.get("int")
        if type(number) is int and 0 <= number < 1 << 128:
            return UUID(int=number)
    return Opaque(_said(target))


def _said(value: Any) -> str:
    if type(value) is Opaque:
        return value.what
    if type(value) is bytes:
        return value[:SHOWN].decode("utf-8", "replace")
    return value[:SHOWN] if type(value) is str else f"call of a {type(value).__name__}"


def _steps() -> Iterator[tuple[bytes, Step]]:
    """What each instruction does, by its byte. All else is none."""
    m = _Machine
    yield b"\x80", lambda s: s._bytes(1)  # PROTO
    yield b"\x95", m.frame
    yield b"(", m.mark
    yield b"0", lambda s: s._pop()
    yield b"1", lambda s: s._pop_mark()
    yield b"2", m.duplicate
    yield b"N", lambda s: s._push(None)
    yield b"\x88", lambda s: s._push(True)
    yield b"\x89", lambda s: s._push(False)
    yield b"I", m.text_number
    yield b"L", m.text_number
    for code, format_ in ((b"J", "<i"), (b"K", "<B"), (b"M", "<H"), (b"G", ">d")):
        yield code, lambda s, f=format_: s._push(s._number(f))
    yield b"\x8a", lambda s: s.long(s._number("<B"))
    yield b"\x8b", lambda s: s.long(s._number("<i"))
    yield b"F", lambda s: s._push(float(s._line()[:MAX_INT]))
    yield b"S", m.quoted
    yield b"T", lambda s: s.old_text(s._bytes(s._number("<i")))
    yield b"U", lambda s: s.old_text(s._bytes(s._number("<B")))
    yield b"V", lambda s: s._push(s._line().decode("raw-unicode-escape"))
    sizes = ("<B", "<I", "<Q")
    for code, size in zip((b"\x8c", b"X", b"\x8d"), sizes, strict=True):
        yield (
            code,
            lambda s, f=size: s._push(
                s._bytes(s._number(f)).decode("utf-8", "surrogatepass")
            ),
        )
    for code, size in zip((b"C", b"B", b"\x8e"), sizes, strict=True):
        yield code, lambda s, f=size: s._push(s._bytes(s._number(f)))
    yield b"\x96", lambda s: s._push(bytearray(s._bytes(s._number("<Q"))))
    yield from _containers()
    yield from _refusals()


def _containers() -> Iterator[tuple[bytes, Step]]:
    m = _Machine
    yield b"]", lambda s: s._push([])
    yield b"l", lambda s: s._push(s._pop_mark())
    yield b"a", lambda s: s.append([s._pop()])
    yield b"e", lambda s: s.append(s._pop_mark())
    yield b")", lambda s: s._push(())
    yield b"t", lambda s: s._push(tuple(s._pop_mark()))
    for size, code in enumerate((b"\x85", b"\x86", b"\x87"), 1):
        yield code, lambda s, n=size: s.make_tuple(n)
    yield b"}", lambda s: s._push({})
    yield b"d", m.dictionary
    yield b"s", lambda s: s.set_items([s._pop(), s._pop()][::-1])
    yield b"u", lambda s: s.set_items(s._pop_mark())
    yield b"\x8f", lambda s: s._push(set())
    yield b"\x90", lambda s: s.add_items(s._pop_mark())
    yield b"\x91", m.frozen
    yield b"p", lambda s: s.put(int(s._line()[:20]))
    yield b"q", lambda s: s.put(s._number("<B"))
    yield b"r", lambda s: s.put(s._number("<I"))
    yield b"\x94", lambda s: s.put(len(s._memo))
    yield b"g", lambda s: s._push(s._memo[int(s._line()[:20])])
    yield b"h", lambda s: s._push(s._memo[s._number("<B")])
    yield b"j", lambda s: s._push(s._memo[s._number("<I")])


def _refusals() -> Iterator[tuple[bytes, Step]]:
    m = _Machine
    yield b"c", m.named
    yield b"\x93", m.stack_named
    yield b"i", m.instance
    yield b"o", m.make_object
    yield b"R", lambda s: s.call(1)
    yield b"\x81", lambda s: s.call(1)
    yield b"\x92", lambda s: s.call(2)
    yield b"b", m.build
    yield b"P", lambda s: s.persistent(in_line=True)
    yield b"Q", lambda s: s.persistent(in_line=False)
    for size, code in ((1, b"\x82"), (2, b"\x83"), (4, b"\x84")):
        yield code, lambda s, n=size: s.registered(n)
    yield b"\x97", m.buffer
    yield b"\x98", m.none


_STOP = ord(".")
_STEPS: dict[int, Step] = {c[0]: step for c, step in _steps()}


def _fault_of(value: Any) -> str:
    """What keeps *value* from being data that may be written out; empty if nothing."""
    room, nodes = MAX_BYTES, MAX_STEPS
    waiting: list[tuple[Any, int, Any]] = [(value, 0, None)]
    while waiting:
        one, depth, path = waiting.pop()
        kind, nodes = type(one), nodes - 1
        if kind is Opaque:
            return f"{_where(path)} is a {one.what}, which is no plain data"
        if kind in _TEXT or kind is bytearray:
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


def _where(path: Any) -> str:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(f"[{key!r}]"[:SHOWN])
    return f"its {''.join(reversed(keys))[:SHOWN]}" if keys else "it"
