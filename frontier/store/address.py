"""Where the store is: scrapy-redis's ``REDIS_*`` settings, read.

Besides redis-py's own URLs there are two more, with one or several servers, and
``rediss+`` instead of ``redis+`` for TLS::

    redis+cluster://[user:password@]host[:port][,host[:port]...]
    redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db]

The hosts of a cluster are servers that are asked for its layout; those of Sentinel are
the sentinels. User and password are those of the Redis servers; what the sentinels want
goes into ``REDIS_PARAMS`` as ``sentinel_kwargs``. No error shows a password.

The primary that Sentinel names: how it is reached, and how it is left.

A connection is made to whatever server the sentinels name then, and stays there. That
is not enough once they name another: a primary that hangs does not end its connections,
and one that an operator's command has replaced (``SENTINEL FAILOVER``) takes writes for
ten more seconds, which are lost. So somebody has to ask again (`Store.watch`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import parse_qsl

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.exceptions
import redis.sentinel
from redis.connection import parse_url

from frontier.errors import ConfigurationError
from frontier.files import open_input
from frontier.model import frozen

Server = tuple[str, int]
"""Host and port."""

ENVIRONMENT = "REDIS_URL"
"""The variable that names the server, for commands and nodes alike: it overrides the
settings, and the command line overrides it."""
REDIS_SETTINGS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_PARAMS")
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Parameters of connections that name files."""
CLUSTER, SENTINEL = "cluster", "sentinel"
PORTS = {CLUSTER: 6379, SENTINEL: 26379}
FORMS = {
    "": "redis://HOST:PORT/DB, rediss://HOST:PORT/DB, unix://PATH",
    CLUSTER: "redis+cluster://HOST:PORT[,HOST:PORT...]",
    SENTINEL: "redis+sentinel://HOST:PORT[,HOST:PORT...]/SERVICE[/DB]",
}
_URL = re.compile(r"(rediss?)\+(cluster|sentinel)://(?:(.*)@)?([^/?@]*)([^?]*)(\?.*)?")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\],]+)(?::([0-9]{1,5}))?")
_SECRET = re.compile(r"(://).*@")
_SECRET_OPTION = re.compile(r"([?&](?:\w*password|username)=)[^&]*")

DEFAULTS = {"socket_timeout": 30, "socket_connect_timeout": 30, "encoding": "utf-8"}
"""Scrapy-redis's parameters of connections, where `REDIS_PARAMS` has none."""


@frozen
class Address:
    """One server, the servers of a cluster, or the sentinels of a service."""

    kind: str
    """``""``, ``"cluster"`` or ``"sentinel"``."""
    servers: tuple[Server, ...] = ()
    service: str = ""
    url: str = ""
    """The URL of a single server, if it was named by one."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters of each connection to a server that has data."""

    @property
    def where(self) -> str:
        """The servers, for people to read; "" for a single one."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.servers)
        return f"{self.service} of {hosts}" if self.service else hosts


def given(settings: Mapping[str, Any]) -> bool:
    """Whether *settings* name a server, so that no embedded one is started."""
    return any(settings.get(name) for name in REDIS_SETTINGS)


def redacted(url: str) -> str:
    """*url* with ``***`` for what may be a user or a password.

    It may be malformed, so everything up to the last ``@`` is hidden.
    """
    return _SECRET_OPTION.sub(r"\1***", _SECRET.sub(r"\1***@", url))


def address_of(settings: Mapping[str, Any], timeout: float | None = None) -> Address:
    """The address that *settings* give, with the parameters of its connections.

    *timeout* is that of connections, in seconds, where *settings* give none.

    Raises:
        ConfigurationError: They do not name a store.
    """
    own = dict(DEFAULTS)
    if timeout:
        own |= dict.fromkeys(("socket_timeout", "socket_connect_timeout"), timeout)
    params = {**own, **_params(settings.get("REDIS_PARAMS") or {})}
    if params.get("redis_cls"):
        raise ConfigurationError(
            "REDIS_PARAMS: redis_cls cannot be chosen; frontier needs its own client"
        )
    params.pop("retry_on_timeout", None)  # redis warns of it; timeouts are retried
    for name in ("url", "host", "port", "db"):
        if value := settings.get(f"REDIS_{name.upper()}"):
            params[name] = value
    url = str(params.pop("url", None) or "")
    if re.match(r"rediss?\+(cluster|sentinel):", url):
        for name in ("host", "port"):
            params.pop(name, None)
        found = _several(url, params)
    else:
        # redis-py would connect to this machine for a URL without a host.
        if url and not re.match(r"unix:|rediss?://(?:.*@)?[^:/?@]", url):
            raise malformed(url, f"must be {', '.join(FORMS.values())}")
        path = re.match(r"rediss?://(?:[^?]*@)?[^/?]*/([^?]*)", url)
        if path and (db := path[1].rstrip("/")) and not db.isdecimal():
            # redis-py would take database 0, or 12 for "1/2".
            raise malformed(url, f"{db!r} is not a number of a database")
        found = Address("", url=url, params=params)
    _require_files({**dict(parse_qsl(url.partition("?")[2])), **found.params})
    return found


def _require_files(params: Mapping[str, Any]) -> None:
    """Check the files that TLS needs; OpenSSL would wait for one that is a FIFO.

    Raises:
        ConfigurationError: One cannot be read.
    """
    for name in TLS_FILES:
        if path := params.get(name):
            try:
                open_input(str(path)).close()
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ConfigurationError(
                    f"{name} = {str(path)[:300]!r} cannot be read: {reason}"
                ) from None


def _several(url: str, params: dict[str, Any]) -> Address:
    kind = CLUSTER if "+cluster:" in url[:16] else SENTINEL
    match = _URL.fullmatch(url)
    found = [_HOST.fullmatch(text) for text in match[4].split(",")] if match else []
    if match is None or None in found:
        raise malformed(url, f"must be {FORMS[kind]}")
    servers = tuple(
        (one[1].strip("[]"), int(one[2] or PORTS[kind])) for one in found if one
    )
    _, service, *rest = (*match[5].rstrip("/").split("/"), "", "")[:4]
    db = rest[0] if kind == SENTINEL else service
    if len(match[5].rstrip("/").split("/")) > (3 if kind == SENTINEL else 2):
        raise malformed(url, f"must be {FORMS[kind]}")
    if db and not db.isdecimal():
        raise malformed(url, f"{db!r} is not a number of a database")
    if kind == CLUSTER and int(db or params.get("db") or 0):
        raise malformed(url, "a cluster has only database 0")
    if kind == SENTINEL and not service:
        raise malformed(url, f"names no service; must be {FORMS[kind]}")
    user = f"{match[3]}@" if match[3] else ""
    try:
        options = dict(parse_url(f"{match[1]}://{user}h{match[6] or ''}"))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise malformed(url, str(error)) from None
    options = {name: value for name, value in options.items() if name != "host"}
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    if kind == SENTINEL and db:
        options["db"] = int(db)
    elif kind == CLUSTER:
        options.pop("db", None)
        params.pop("db", None)
    return Address(
        kind,
        servers,
        service if kind == SENTINEL else "",
        params={**params, **options},
    )


def malformed(url: str, reason: str) -> ConfigurationError:
    """The error that says why *url* is invalid, without the secrets in it.

    The *reason* that a library gives may quote a part of the URL, so it is shown only
    if it quotes nothing secret.
    """
    shown = redacted(url)
    if shown != url and any(part in reason for part in _parts(url)):
        reason = "is not a URL of a Redis server"
    return ConfigurationError(f"REDIS_URL = {shown!r}: {reason}")


def _parts(url: str) -> list[str]:
    """Pieces of what `redacted` hides; a reason with one of them may leak."""
    hidden = [match[0] for match in _SECRET.finditer(url)]
    hidden += [match[0] for match in _SECRET_OPTION.finditer(url)]
    return [part for text in hidden for part in re.split(r"[/:@?=&#]+", text) if part]


def _params(found: Any) -> dict[str, Any]:
    try:
        return dict(json.loads(found) if isinstance(found, str) else found)
    except (TypeError, ValueError):
        raise ConfigurationError(  # its text may have a password
            "REDIS_PARAMS: must be a dictionary, or one in JSON"
        ) from None


SENTINEL_TIMEOUT = 2.0
"""Seconds for a sentinel to answer, unless ``sentinel_kwargs`` say otherwise: it may be
on the machine that died, and the others are asked only after it."""
BLOCKING_TIMEOUT = 5.0
"""Seconds for a primary to answer a thread, which is not told if the primary was
replaced; unless ``REDIS_PARAMS`` say less."""


def primary_of(
    address: Address,
    params: dict[str, Any],
    cls: Any,
    asking: Callable[[Any], Awaitable[None]] | None = None,
) -> tuple[Any, Any]:
    """A client of the class *cls* for the primary, and the sentinels' own clients.

    *asking* is called with each new connection to a sentinel.
    """
    asynchronous = cls is redis.asyncio.Redis
    module: Any = redis.asyncio.sentinel if asynchronous else redis.sentinel
    theirs = {
        name: value
        for name, value in params.items()
        if name.startswith(("socket_", "ssl"))
    }
    for name in ("socket_timeout", "socket_connect_timeout"):
        theirs[name] = _least(theirs.get(name), SENTINEL_TIMEOUT)
    theirs["retry"] = params["retry"]
    if asking is not None:
        theirs["redis_connect_func"] = asking
    theirs |= params.pop("sentinel_kwargs", None) or {}
    if not asynchronous:
        timeout = _least(params.get("socket_timeout"), BLOCKING_TIMEOUT)
        params["socket_timeout"] = timeout
    sentinel = module.Sentinel(address.servers, sentinel_kwargs=theirs, **params)
    client = sentinel.master_for(address.service, redis_class=cls)
    return client, list(sentinel.sentinels)


def _least(given: float | None, most: float) -> float:
    return most if given is None else min(given, most)


def leave_others(pool: Any, named: tuple[str, int]) -> None:
    """End the connections of an asynchronous *pool* that do not lead to *named*.

    Also those that are idle. The pool itself ends those when it is sent to another
    primary, but not one that is in use then and returned later: what is sent over that
    goes to an old primary, which may accept it for seconds.
    """
    for connection in (*pool._available_connections, *pool._in_use_connections):
        if (connection.host, connection.port) != named:
            _abort(connection)


def _abort(connection: Any) -> None:
    """Have whoever reads from *connection*, or writes to it, find it closed.

    Its own ``disconnect`` would take the writer away from a task that is connecting.
    """
    writer = getattr(connection, "_writer", None)
    if writer is not None:
        writer.transport.abort()
