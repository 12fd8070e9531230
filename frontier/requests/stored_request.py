"""Requests as records, and records as requests again.

A record holds what differs from a plain GET request, as data. Whoever may write to the
store can make any, so what always holds:

1.  Classes come back only by names that this process has imported already and only
    if they are `scrapy.Request` or a subclass.
2.  A callback or an errback is a function that the spider's own class has, or one of
    its bases below `scrapy.Spider`; see `is_callback`.
3.  The scheme of a URL, and what in ``meta`` steers where bytes go to or come from
    (`STEERING`), are as the node's settings allow.
4.  What would not come back is not stored in the first place: such a request stays
    with the process that made it.
"""

from __future__ import annotations

import copy
import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.utils.request import request_from_dict

from frontier.errors import CodecError, NotSerializable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

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
of the spider is called: for Scrapy's handlers, and scrapy-playwright's."""
WITH_PROXY = frozenset({"proxy", "_auth_proxy", "_scheme_proxy"})
"""Keys of ``meta`` that Scrapy's proxy middleware writes."""
OF_SPIDERS = frozenset({"parse", "_parse"})
"""Names of `scrapy.Spider`'s own that are callbacks."""
HOOKS = frozenset({"closed", "start_requests"})
"""Names that Scrapy calls where a spider has them, and `scrapy.Spider` has not."""
FIRST = ("response", "failure")
"""What the first parameter of a callback in a library's spider class is called."""
LIBRARIES = ("scrapy", "scrapy_redis")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a node takes from the store."""

    schemes: frozenset[str] = frozenset({"http", "https"})
    meta: frozenset[str] = frozenset()
    """Those of `STEERING`."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """What the settings say."""
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
        return (STEERING & meta.keys()) - self.meta if meta else frozenset()


def is_callback(cls: type[Spider], name: str) -> bool:
    """Whether a stored request may name *name* as its callback or errback.

    A plain function, class method or static method of the class or of a base that
    `scrapy.Spider` has not, so nothing that Scrapy itself calls (``update_settings``,
    ``from_crawler``, ``closed``), overridden or not, and nothing like ``__init__``. Of
    classes of Scrapy and scrapy-redis only what takes a response or a failure.
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
            raise NotSerializable(
                request.url, "its callback", f"{function!r} is not one of the spider's"
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
        """The name by which the spider has *function*, which has another itself."""
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
        # Scrapy finds fewer callbacks, and takes others' for the spider's.
        bare = copy.copy(request)
        bare.callback = bare.errback = None
        full = bare.to_dict() | named
        cls = type(request)
        if cls is not Request and _class_of(full["_class"]) is not cls:
            reason = f"{cls.__qualname__} is not found by its name in {cls.__module__}"
            raise NotSerializable(request.url, "its class", reason)
        full["headers"] = {name: list(v) for name, v in full["headers"].items()}
        return {
            name: value
            for name, value in full.items()
            if name not in _DEFAULTS or value != _DEFAULTS[name]
        }


def from_record(
    record: dict[str, Any], spider: Spider, allowed: Allowed | None = None
) -> Request:
    """The request of *record*, which may be anybody's.

    Raises:
        CodecError: Its class or a callback does not exist here, or is none that may be
            called; its scheme or meta is not allowed; or its values do not make a
            request.
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
    """Whether *name* is a callback, which *spider* itself has not replaced."""
    if not isinstance(name, str) or not is_callback(type(spider), name):
        return False
    return name not in vars(spider)


def _class_of(name: Any) -> type[Request] | None:
    module, _, attribute = str(name).rpartition(".")
    cls = getattr(sys.modules.get(module), attribute, None)
    return cls if isinstance(cls, type) and issubclass(cls, Request) else None
