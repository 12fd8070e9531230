"""Requests as records, and records as requests again.

A record holds what differs from a plain GET request, as data. Classes come back
only by names that this process has imported already and only if they are
`scrapy.Request` or a subclass; callbacks only as methods of the spider.
"""

from __future__ import annotations

import copy
import functools
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.utils.request import request_from_dict

from frontier.errors import CodecError, NotSerializable
from frontier.scope import domain_of

if TYPE_CHECKING:
    from scrapy import Spider

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
MAX_HOST = 255
"""Longest host name of DNS, in characters; what is longer is cut."""


class Recorder:
    """Makes records of one spider's requests.

    Scrapy's own `Request.to_dict` looks through all members of the spider for
    each callback, which takes longer than all the rest.
    """

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._names: dict[Any, str] = {}

    def record(self, request: Request) -> dict[str, Any]:
        """The record of *request*.

        Raises:
            NotSerializable: Its callback or errback is not a method of the spider.
        """
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
                return name
            raise NotSerializable(
                request.url, "its callback", f"{function!r} is not one of the spider's"
            )
        code = function.__func__
        if code not in self._names:
            name = code.__name__
            if getattr(getattr(self._spider, name, None), "__func__", None) is not code:
                name = self._other_name(request, function)
            self._names[code] = name
        return self._names[code]

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


def from_record(record: dict[str, Any], spider: Spider) -> Request:
    """The request of *record*.

    Raises:
        CodecError: Its class or a callback does not exist here, or its values
            do not make a request.
    """
    name = record.get("_class")
    if name is not None and _class_of(name) is None:
        raise CodecError(f"{name} is not a class of requests that is known here")
    try:
        return request_from_dict(record, spider=spider)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise CodecError(str(error)) from error


def _class_of(name: Any) -> type[Request] | None:
    module, _, attribute = str(name).rpartition(".")
    cls = getattr(sys.modules.get(module), attribute, None)
    return cls if isinstance(cls, type) and issubclass(cls, Request) else None


def host_of(url: str) -> str:
    """The host of *url*, without its port; empty if it has none."""
    return (urlsplit(origin_of(url)).hostname or "").rstrip(".")[:MAX_HOST]


def origin_of(url: str) -> str:
    """The part of *url* before its path: scheme, user, host and port."""
    # Scrapy's URLs have no bare "?" or "#" before the path, but may lack one.
    end = url.find("/", url.find("//") + 2)
    return url if end < 0 else url[:end]


@functools.lru_cache(maxsize=10_000)
def _key_of_origin(origin: str, kind: str) -> str:
    parts = urlsplit(origin)
    host = host_of(origin)
    if kind == "domain":
        return domain_of(host)
    port = _port(parts.netloc)
    if port in ("", "80" if parts.scheme == "http" else "443"):
        return host
    return f"{host}:{port}"


def queue_key(url: str, kind: str) -> str:
    """What *url* is queued under: its ``host`` and port, ``domain``, or ``url``.

    A default port is left out, so that both spellings share one queue.
    """
    if kind == "url":
        return url
    return _key_of_origin(origin_of(url), kind)


def _port(netloc: str) -> str:
    port = netloc.rpartition("@")[2].rpartition("]")[2].rpartition(":")[2]
    return port if port.isdecimal() else ""
