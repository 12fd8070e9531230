"""The primary that Sentinel names: how it is reached, and how it is left.

A connection is made to whatever server the sentinels name then, and stays there.
That is not enough when another is named: a primary that hangs does not end its
connections, and one that was replaced by an operator's command (``SENTINEL
FAILOVER``) takes writes for ten seconds more, which are lost. So somebody has to
ask again (`Watch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.backoff
import redis.exceptions
import redis.retry
import redis.sentinel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from frontier.store.address import Address

SENTINEL_TIMEOUT = 2.0
"""Seconds for a sentinel to answer, unless ``sentinel_kwargs`` say otherwise: it may
be on the machine that died, and the others are asked after it."""
BLOCKING_TIMEOUT = 5.0
"""Seconds for a primary to answer a thread, which nobody tells that it was replaced;
unless ``REDIS_PARAMS`` say less."""


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
    retry: Any = redis.asyncio.retry if asynchronous else redis.retry
    theirs = {
        name: value
        for name, value in params.items()
        if name.startswith(("socket_", "ssl"))
    }
    for name in ("socket_timeout", "socket_connect_timeout"):
        theirs[name] = _least(theirs.get(name), SENTINEL_TIMEOUT)
    theirs["retry"] = retry.Retry(redis.backoff.NoBackoff(), 0)
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


class Watch:
    """Finds out that the primary of an asynchronous *client* was replaced."""

    def __init__(self, client: Any) -> None:
        self._pool = client.connection_pool
        self._primary: Any = None

    async def leave_replaced(self) -> bool:
        """End the connections to other servers than the sentinels name.

        Whether they name another one than before.
        """
        try:
            named = await self._pool.get_master_address()
        except (redis.exceptions.RedisError, OSError):
            return False  # no sentinel answers, or none has a primary just now
        leave_others(self._pool, named)
        before, self._primary = self._primary, named
        return before not in (None, named)


def leave_others(pool: Any, named: tuple[str, int]) -> None:
    """End the connections of an asynchronous *pool* that lead not to *named*.

    Also those that are not in use just now. The pool ends them by itself when it is
    sent to another primary, but not one that is in use then and is given back later:
    what is sent over that goes to an old primary, which may take it for seconds.
    """
    for connection in (*pool._available_connections, *pool._in_use_connections):
        if (connection.host, connection.port) != named:
            _abort(connection)


def _abort(connection: Any) -> None:
    """Have whoever reads from *connection*, or writes to it, find it closed.

    Its own ``disconnect`` takes the writer from under who is just connecting.
    """
    writer = getattr(connection, "_writer", None)
    if writer is not None:
        writer.transport.abort()
