"""Classes whose instances travel in `meta` and `cb_kwargs`, as themselves.

What always holds:

1.  Only classes of modules that `FRONTIER_ITEM_MODULES` allows are looked up, by
    the module and the qualified name that they have themselves. Nothing else is
    imported, whatever the store says.
2.  Such a class is a dataclass, an attrs class, a `scrapy.Item`, an enumeration or
    a named tuple. Of no other class an instance is made.
3.  An instance is made without its constructor, from values of all of its fields
    and of no others, so what is made is what was taken apart. One that has more
    than its fields is refused by the node that has it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import operator
from enum import Enum, Flag
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
from scrapy import Item

from frontier.errors import CodecError
from frontier.queue.item import Classes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from scrapy import Spider
    from scrapy.settings import BaseSettings

_LONGEST_NAME = 500
_MADE_BY_PYTHON = 1 << 9
"""Flag of classes that a ``class`` statement made (``Py_TPFLAGS_HEAPTYPE``)."""
_PYTHONS = frozenset(("__dict__", "__weakref__", "__orig_class__"))
"""Attributes that Python gives to objects; the last one to those of ``Pair[int]``."""
_KNOWN = 1024
"""Classes of which is remembered how they are taken apart."""


class _Kind(NamedTuple):
    """How instances of a class are taken apart and put together."""

    apart: Callable[[Any], Any]
    together: Callable[[type[Any], Any], Any]


class ItemClasses(Classes):
    """The classes of *modules*, each of which stands for what is below it, too."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self._found: dict[tuple[str, str], tuple[type[Any], _Kind]] = {}

    @classmethod
    def of(cls, allowed: Iterable[str], settings: BaseSettings, spider: Spider) -> Self:
        """Those of *allowed*, or of the project's and the spider's packages."""
        if modules := tuple(allowed):
            return cls(modules)
        named = [*settings.getlist("SPIDER_MODULES"), type(spider).__module__]
        return cls(name.partition(".")[0] for name in named)

    def apart(self, value: Any) -> tuple[str, str, Any] | None:
        """Module, name and content of *value*; `None` if it is of no such class.

        Raises:
            TypeError: It is, but cannot travel.
        """
        cls: Any = type(value)
        kind = _kind(cls)
        if kind is None:
            return None
        module, name = cls.__module__, cls.__qualname__
        try:
            found, _ = self._find(module, name)
        except CodecError as error:
            raise TypeError(f"is a {error}") from None
        if found is not cls:
            raise TypeError(f"is a {module}.{name}, whose name means another class")
        try:
            return module, name, kind.apart(value)
        except Exception as error:  # noqa: BLE001 (the class's code may raise any)
            raise TypeError(f"is a {module}.{name} {error}") from None

    def together(self, module: Any, name: Any, content: Any) -> Any:
        """The instance that `apart` took apart.

        Raises:
            CodecError: The class is not allowed or not there, or is made of
                something else here.
        """
        cls, kind = self._find(module, name)
        try:
            return kind.together(cls, content)
        except Exception as error:  # noqa: BLE001 (the class's code may raise any)
            raise CodecError(f"no {module}.{name} is made of this: {error}") from None

    def _find(self, module: Any, name: Any) -> tuple[type[Any], _Kind]:
        found = self._found.get((str(module), str(name)))
        if found is None:
            found = self._found[module, name] = self._look_up(module, name)
        return found

    def _look_up(self, module: Any, name: Any) -> tuple[type[Any], _Kind]:
        if not (_is_path(module) and _is_path(name)):
            raise CodecError(f"{module!s:.99}.{name!s:.99}, which is not in a module")
        if not self._allows(module):
            raise CodecError(
                f"{module}.{name}, and FRONTIER_ITEM_MODULES allows no classes of "
                f"{module}"
            )
        try:
            found: Any = importlib.import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (its code may raise any)
            raise CodecError(
                f"{module}.{name}, and its module cannot be imported: {error}"
            ) from None
        for part in name.split("."):
            # Not getattr, which may run code of the module's.
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        is_it = isinstance(found, type) and (found.__module__, found.__qualname__) == (
            module,
            name,
        )
        kind = _kind(found) if is_it else None
        if kind is None:
            raise CodecError(
                f"{module}.{name}, which is no dataclass, attrs class, item, "
                "enumeration or named tuple of that module"
            )
        return found, kind

    def _allows(self, module: str) -> bool:
        parts = module.split(".")
        return any(
            ".".join(parts[:count]) in self._modules
            for count in range(1, len(parts) + 1)
        )


def _is_path(name: Any) -> bool:
    """Whether *name* is a dotted name, none of a package's ``__main__``."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return False
    parts = name.split(".")
    return all(map(str.isidentifier, parts)) and "__main__" not in parts[1:]


@functools.lru_cache(_KNOWN)
def _kind(cls: Any) -> _Kind | None:
    """What *cls* is, or `None` if it is nothing that travels as itself."""
    if issubclass(cls, Enum):
        return _FLAG if issubclass(cls, Flag) else _ENUM
    if issubclass(cls, Item):
        return _ITEM
    if issubclass(cls, tuple):
        names = getattr(cls, "_fields", None)
        is_named = hasattr(cls, "_make") and isinstance(names, tuple)
        return _tuple_kind(len(names)) if names and is_named else None
    if not _is_plain(cls):
        return None
    if dataclasses.is_dataclass(cls):
        return _fields_kind([field.name for field in dataclasses.fields(cls)])
    if attrs.has(cls):
        return _fields_kind([field.name for field in attrs.fields(cls)])
    return None


def _is_plain(cls: type[Any]) -> bool:
    """Whether an instance of *cls* is its attributes, and no list, text or error."""
    return all(c.__flags__ & _MADE_BY_PYTHON for c in cls.__mro__ if c is not object)


def _require_no_more(value: Any, names: Iterable[str]) -> None:
    """Raise `TypeError` if *value* has attributes beside *names* and what is cached."""
    cls = type(value)
    there = dict.fromkeys(getattr(value, "__dict__", ()))
    for one in cls.__mro__:
        slots = vars(one).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in _PYTHONS and hasattr(value, name):
                there[name] = None
    beyond = [
        name
        for name in there
        if name not in names
        and name not in _PYTHONS
        and not isinstance(getattr(cls, name, None), functools.cached_property)
    ]
    if beyond:
        raise TypeError(f"with more than its fields: {', '.join(beyond)[:200]}")


def _fields_kind(names: list[str]) -> _Kind:
    known = frozenset(names)

    def apart(value: Any) -> dict[str, Any]:
        _require_no_more(value, known)
        missing = [name for name in names if not hasattr(value, name)]
        if missing:
            raise TypeError(f"without its field {missing[0]}")
        return {name: getattr(value, name) for name in names}

    def together(cls: type[Any], content: Any) -> Any:
        if not isinstance(content, dict) or content.keys() != known:
            raise CodecError("its fields here are others")
        made = object.__new__(cls)
        for name, value in content.items():
            object.__setattr__(made, name, value)  # a frozen one has no other way
        return made

    return _Kind(apart, together)


def _tuple_kind(length: int) -> _Kind:
    def apart(value: Any) -> list[Any]:
        _require_no_more(value, ())
        return list(value)

    def together(cls: type[Any], content: Any) -> Any:
        if not isinstance(content, list) or len(content) != length:
            raise CodecError("its fields here are others")
        return tuple.__new__(cls, content)

    return _Kind(apart, together)


def _item_apart(item: Item) -> dict[str, Any]:
    _require_no_more(item, ("_values",))
    return {name: Item.__getitem__(item, name) for name in Item.__iter__(item)}


def _item_together(cls: type[Item], content: Any) -> Item:
    made = Item.__new__(cls)
    Item.__init__(made)
    for name, value in dict(content).items():
        Item.__setitem__(made, name, value)  # which knows the fields
    return made


def _member_name(member: Enum) -> str:
    if type(member).__members__.get(member.name) is not member:
        raise TypeError("that is none of its members")
    return member.name


def _flag_bits(flag: Flag) -> Any:
    _require_bits(type(flag), flag.value)
    return flag.value


def _flag_of(cls: type[Any], bits: Any) -> Any:
    # Python keeps each combination that was ever made.
    _require_bits(cls, bits)
    return cls(bits)


def _require_bits(cls: type[Flag], bits: Any) -> None:
    known = [member.value for member in cls.__members__.values()]
    if not isinstance(bits, int) or bits & ~functools.reduce(operator.or_, known, 0):
        raise TypeError("with bits that have no name")


_ENUM = _Kind(_member_name, lambda cls, name: cls.__members__[name])
_FLAG = _Kind(_flag_bits, _flag_of)
_ITEM = _Kind(_item_apart, _item_together)
