"""Requests as records, and records as requests again.

A record holds what differs from a plain GET request, as data. Classes come back
only by names that this process has imported already and only if they are
`scrapy.Request` or a subclass; callbacks only as methods of the spider.
"""

from __future__ import annotations

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


def to_record(request: Request, spider: Spider) -> dict[str, Any]:
    """The record of *request*.

    Raises:
        NotSerializable: Its callback or errback is not a method of *spider*.
    """
    try:
        full = request.to_dict(spider=spider)
    except ValueError as error:
        raise NotSerializable(request.url, "its callback", str(error)) from None
    headers = full["headers"]
    full["headers"] = {name: list(values) for name, values in headers.items()}
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
    if name is not None:
        module, _, attribute = str(name).rpartition(".")
        cls = getattr(sys.modules.get(module), attribute, None)
        if not (isinstance(cls, type) and issubclass(cls, Request)):
            raise CodecError(f"{name} is not a class of requests that is known here")
    try:
        return request_from_dict(record, spider=spider)
    except (TypeError, ValueError, AttributeError) as error:
        raise CodecError(str(error)) from error


def queue_key(url: str, kind: str) -> str:
    """What *url* is queued under: its ``host`` and port, ``domain``, or ``url``.

    A default port is left out, so that both spellings share one queue.
    """
    if kind == "url":
        return url
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")[:MAX_HOST]
    if kind == "domain":
        return domain_of(host)
    port = _port(parts.netloc)
    if port in ("", "80" if parts.scheme == "http" else "443"):
        return host
    return f"{host}:{port}"


def _port(netloc: str) -> str:
    port = netloc.rpartition("@")[2].rpartition("]")[2].rpartition(":")[2]
    return port if port.isdecimal() else ""
