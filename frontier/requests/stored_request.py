"""Requests as records, and records as requests again.

A record holds what differs from a plain GET request, as data. Whoever can write to the
store can make any record, so what always holds:

1.  A class of requests is found only by a name that this process has imported already,
    and only if it is `scrapy.Request` or a subclass.
2.  A callback or an errback is a function of the spider's own class, or of one of its
    bases below `scrapy.Spider`; see `is_callback`.
3.  The scheme of a URL, and anything in ``meta`` that steers where bytes go or come
    from (`STEERING`), must be allowed by the node's settings.
4.  What would not come back is not stored in the first place: such a request stays
    with the process that made it.

`ItemClasses` are those whose instances travel in `meta` and `cb_kwargs`, as
themselves. What always holds for them:

1.  Only classes of modules that `FRONTIER_ITEM_MODULES` allows are looked up, by
    their own module and qualified name. Nothing else is imported, whatever the store
    says.
2.  Such a class is a dataclass, an attrs class, a `scrapy.Item`, an enumeration or
    a named tuple. No instance of any other class is made.
3.  An instance is made without its constructor, from values for all of its fields
    and no others, so it equals the one that was taken apart. An instance with more
    than its fields is refused by the node that has it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import attrs
from scrapy import Item, Request, Spider
from scrapy.utils.request import request_from_dict
from typing_extensions import override

from frontier.errors import CodecError, NotSerializable
from frontier.model import frozen
from frontier.queue.item import Classes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy.settings import BaseSettings

    from frontier.settings.config import Config

_DEFAULTS: dict[str, Any] = {
    "callback": None,
    "errback": None,
    "headers": {},
    "method": "GET",
    "body": b"",
    "cookies": {},
    "meta": {},
    "encoding": "utf-8",
    "priority": 0,
    "dont_filter": False,
    "flags": [],
    "cb_kwargs": {},
}
STEERING = frozenset(
    {
        "bindaddress",
        "ftp_local_filename",
        "playwright_context_kwargs",
        "playwright_page_event_handlers",
        "playwright_page_init_callback",
        "proxy",
    }
)
"""Keys of ``meta`` that choose where bytes are sent, a local address or file, or what
is called on the spider: by Scrapy's handlers, and scrapy-playwright's."""
WITH_PROXY = frozenset({"proxy", "_auth_proxy", "_scheme_proxy"})
"""Keys of ``meta`` that Scrapy's proxy middleware writes."""
OF_SPIDERS = frozenset({"parse", "_parse"})
"""Names in `scrapy.Spider` itself that are callbacks."""
HOOKS = frozenset({"closed", "start_requests"})
"""Names that Scrapy calls if a spider has them, and that `scrapy.Spider` lacks."""
FIRST = ("response", "failure")
"""Names of the first parameter of a callback in a library's spider class."""
LIBRARIES = ("scrapy", "scrapy_redis")


@frozen
class Allowed:
    """What a node takes from the store."""

    schemes: frozenset[str] = frozenset({"http", "https"})
    meta: frozenset[str] = frozenset()
    """The keys of `STEERING` that it takes."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """What the settings allow."""
        return cls(frozenset(config.schemes), frozenset(config.stored_meta))

    def refused(self, url: str, meta: Mapping[str, Any]) -> tuple[str, str]:
        """Which part of a request is not taken, and why; empty if it is."""
        scheme = url.partition(":")[0].lower()
        if scheme not in self.schemes:
            return "its scheme", f"{scheme[:40]!r} is not one of FRONTIER_SCHEMES"
        if steering := self.steering(meta):
            names = ", ".join(sorted(steering))
            return f"its meta {names}", "is not one of FRONTIER_STORED_META"
        return "", ""

    def steering(self, meta: Mapping[str, Any]) -> frozenset[str]:
        """The keys of *meta* that are not taken."""
        if STEERING.isdisjoint(meta):  # as nearly always, and quicker to tell
            return frozenset()
        return (STEERING & meta.keys()) - self.meta


def is_callback(cls: type[Spider], name: str) -> bool:
    """Whether a stored request may name *name* as its callback or errback.

    It is a plain function, class method or static method of the class or of a base, and
    but for ``parse`` its name is not in `scrapy.Spider`: so nothing that Scrapy itself
    calls (``update_settings``, ``from_crawler``, ``closed``), overridden or not, and
    nothing like ``__init__``. In classes of Scrapy and scrapy-redis it takes a response
    or a failure.
    """
    if name.startswith("__") and name.endswith("__"):
        return False
    if name in HOOKS or (hasattr(Spider, name) and name not in OF_SPIDERS):
        return False
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    if owner is None:
        return False
    found = vars(owner)[name]
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if not inspect.isfunction(found):
        return False
    if owner.__module__.partition(".")[0] in LIBRARIES and owner is not Spider:
        return found.__code__.co_varnames[1:2] in {(name,) for name in FIRST}
    return True


class Recorder:
    """Makes records of one spider's requests.

    Scrapy's own `Request.to_dict` looks through all members of the spider for
    each callback, which takes longer than all the rest.
    """

    def __init__(self, spider: Spider, allowed: Allowed | None = None) -> None:
        self._spider = spider
        self.allowed = allowed or Allowed()
        self._names: dict[Any, str] = {}

    def record(self, request: Request) -> dict[str, Any]:
        """The record of *request*.

        Raises:
            NotSerializable: Its callback or errback is not a method of the spider, or
                nodes do not take it from the store.
        """
        where, reason = self.allowed.refused(request.url, request.meta)
        if where:
            raise NotSerializable(request.url, where, reason)
        if type(request) is not Request:
            return self._of_subclass(request)
        record: dict[str, Any] = {"url": request.url}
        if request.callback is not None:
            record["callback"] = self._name(request, request.callback)
        if request.errback is not None:
            record["errback"] = self._name(request, request.errback)
        if request.method != "GET":
            record["method"] = request.method
        if request.encoding != "utf-8":
            record["encoding"] = request.encoding
        if request.priority:
            record["priority"] = request.priority
        if request.dont_filter:
            record["dont_filter"] = True
        if request.headers:
            # As they are kept: bytes to lists of bytes. Scrapy's items() is slow.
            record["headers"] = dict(dict.items(request.headers))
        for name in ("body", "cookies", "meta", "flags", "cb_kwargs"):
            if value := getattr(request, name):
                record[name] = value
        return record

    def _name(self, request: Request, function: Any) -> str:
        if getattr(function, "__self__", None) is not self._spider:
            name = getattr(function, "__name__", "")
            # A class method or a static method; the same on all nodes.
            if getattr(type(self._spider), name, None) == function:
                return self._checked(request, name)
            shown = repr(function)
            if isinstance(function, functools.partial):
                # Its arguments may be long, and differ from request to request.
                shown = f"functools.partial of {function.func!r}"
            raise NotSerializable(
                request.url, "its callback", f"{shown} is not one of the spider's"
            )
        code = function.__func__
        if code not in self._names:
            name = code.__name__
            if getattr(getattr(self._spider, name, None), "__func__", None) is not code:
                name = self._other_name(request, function)
            self._names[code] = self._checked(request, name)
        return self._names[code]

    def _checked(self, request: Request, name: str) -> str:
        if not is_callback(type(self._spider), name):
            reason = f"{name} is not one that a stored request may have"
            raise NotSerializable(request.url, "its callback", reason)
        return name

    def _other_name(self, request: Request, function: Any) -> str:
        """The spider's name for *function*, whose own name is another."""
        try:
            found = Request(request.url, function).to_dict(spider=self._spider)
        except ValueError as error:
            raise NotSerializable(request.url, "its callback", str(error)) from None
        return str(found["callback"])

    def _of_subclass(self, request: Request) -> dict[str, Any]:
        named = {
            part: self._name(request, function)
            for part in ("callback", "errback")
            if (function := getattr(request, part)) is not None
        }
        # Scrapy finds fewer callbacks, and mistakes others' for the spider's.
        bare = copy.copy(request)
        bare.callback = bare.errback = None
        full = bare.to_dict() | named
        cls = type(request)
        if cls is not Request and _class_of(full["_class"]) is not cls:
            reason = f"{cls.__qualname__} is not found by its name in {cls.__module__}"
            raise NotSerializable(request.url, "its class", reason)
        if cls.__module__.partition(".")[0] != "scrapy" and (loss := _loss(bare)):
            reason = f"{cls.__qualname__} {loss}"
            raise NotSerializable(request.url, "its class", reason)
        full["headers"] = {name: list(v) for name, v in full["headers"].items()}
        return {
            name: value
            for name, value in full.items()
            if name not in _DEFAULTS or value != _DEFAULTS[name]
        }


def _loss(request: Request) -> str:
    """Why *request* is more than its `attributes`; empty if they are all of it."""
    try:
        anew = request_from_dict(request.to_dict())
    except TypeError as error:
        return f"cannot be made from its attributes: {error}"
    own = getattr(request, "__dict__", {})
    lost = [name for name in own if getattr(anew, name, None) != own[name]]
    return f"would lose {', '.join(lost)}" if lost else ""


def from_record(
    record: dict[str, Any], spider: Spider, allowed: Allowed | None = None
) -> Request:
    """The request of *record*, which may be anybody's.

    Raises:
        CodecError: Its class or a callback does not exist here, or may not be called;
            its scheme or meta is not allowed; or its values do not make a request.
    """
    for part in ("callback", "errback"):
        named = record.get(part)
        if named is not None and not _is_there(spider, named):
            raise CodecError(
                f"its {part} {str(named)[:100]!r} is not a callback of the spider"
            )
    name = record.get("_class")
    if name is not None and _class_of(name) is None:
        raise CodecError(f"{name} is not a class of requests that is known here")
    try:
        request = request_from_dict(record, spider=spider)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise CodecError(str(error)) from error
    where, reason = (allowed or Allowed()).refused(request.url, request.meta)
    if where:
        raise CodecError(f"{request.url[:200]} is not taken: {where} {reason}")
    return request


def _is_there(spider: Spider, name: Any) -> bool:
    """Whether *name* is a callback that *spider*, the instance, has not replaced."""
    if not isinstance(name, str) or not is_callback(type(spider), name):
        return False
    return name not in vars(spider)


def _class_of(name: Any) -> type[Request] | None:
    module, _, attribute = str(name).rpartition(".")
    cls = getattr(sys.modules.get(module), attribute, None)
    return cls if isinstance(cls, type) and issubclass(cls, Request) else None


_LONGEST_NAME = 500
_MADE_BY_PYTHON = 1 << 9
"""Flag of classes that a ``class`` statement made (``Py_TPFLAGS_HEAPTYPE``)."""
_KNOWN = 1024
"""Classes for which it is remembered how they are taken apart."""


class _Kind(NamedTuple):
    """How instances of a class are taken apart and put together."""

    apart: Callable[[Any], Any]
    together: Callable[[type[Any], Any], Any]


class ItemClasses(Classes):
    """The classes of *modules*, and of all modules below these."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self._found: dict[tuple[str, str], tuple[type[Any], _Kind]] = {}

    @classmethod
    def of(cls, allowed: Iterable[str], settings: BaseSettings, spider: Spider) -> Self:
        """The classes of *allowed*, or else of the project's and spider's packages."""
        if modules := tuple(allowed):
            return cls(modules)
        named = [*settings.getlist("SPIDER_MODULES"), type(spider).__module__]
        return cls(name.partition(".")[0] for name in named)

    @override
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

    @override
    def together(self, module: Any, name: Any, content: Any) -> Any:
        """The instance that `apart` took apart.

        Raises:
            CodecError: The class is not allowed or not there, or cannot be made of
                *content* here.
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
    """Whether *name* is a dotted name, and not of a package's ``__main__``."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return False
    parts = name.split(".")
    return all(map(str.isidentifier, parts)) and "__main__" not in parts[1:]


@functools.lru_cache(_KNOWN)
def _kind(cls: Any) -> _Kind | None:
    """The kind of *cls*, or `None` if its instances do not travel as themselves."""
    if issubclass(cls, Enum):
        return _ENUM
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
    """Whether an instance of *cls* is just its attributes, no list, text or error."""
    return all(c.__flags__ & _MADE_BY_PYTHON for c in cls.__mro__ if c is not object)


def _require_no_more(value: Any, names: Iterable[str]) -> None:
    """Raise `TypeError` if *value* has attributes besides *names* and cached ones."""
    beyond = [
        name
        for name in getattr(value, "__dict__", ())
        if name not in names
        and name != "__orig_class__"  # Python sets it on instances of ``Pair[int]``
        and not isinstance(getattr(type(value), name, None), functools.cached_property)
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
    if type(member).__members__.get(str(member.name)) is not member:
        raise TypeError("that is none of its members")
    return member.name


_ENUM = _Kind(_member_name, lambda cls, name: cls.__members__[name])
_ITEM = _Kind(_item_apart, _item_together)
