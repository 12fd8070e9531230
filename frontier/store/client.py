"""The connection to Redis: calls go out in batches, errors come back as ours.

What always holds:

1.  Nothing outside `frontier.store` imports redis. Services make `Call` values
    and read replies; a store runs them.
2.  The calls of one `run` go out together and their replies come back in the
    same order. They are not a transaction: each call is atomic, the batch is
    not, and after `StoreUnavailable` any of them may have happened.
3.  Replies are bytes, integers, lists and ``None``; nothing is decoded here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.exceptions
from scrapy_redis.connection import get_redis
from scrapy_redis.defaults import REDIS_PARAMS

from frontier.errors import ConfigurationError, StoreRefused, StoreUnavailable
from frontier.store.scripts import SCRIPTS, Script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Argument = str | bytes | int | float

UNAVAILABLE = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.OutOfMemoryError,
    OSError,
)
REDIS_SETTINGS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_PARAMS")


@dataclass(frozen=True, slots=True)
class Call:
    """One command or script, ready to be sent."""

    parts: tuple[Argument, ...]
    script: Script | None = None

    @classmethod
    def command(cls, *parts: Argument) -> Call:
        """The command *parts*, its name first."""
        return cls(parts)

    @classmethod
    def to(
        cls, script: Script, keys: Sequence[str], args: Sequence[Argument] = ()
    ) -> Call:
        """A run of *script* with *keys* and *args*."""
        return cls(("EVALSHA", script.sha, len(keys), *keys, *args), script)


def given(settings: Mapping[str, Any]) -> bool:
    """Whether *settings* name a server, so that no embedded one is started."""
    return any(settings.get(name) for name in REDIS_SETTINGS)


class Store:
    """Runs calls from the event loop, each at most once."""

    def __init__(self, client: redis.asyncio.Redis, where: str) -> None:
        self._client = client
        self.where = where

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Store:
        """Connect as scrapy-redis's ``REDIS_*`` settings say.

        Raises:
            ConfigurationError: They do not make a client.
        """
        # A client that repeats what was not answered would reserve URLs twice.
        once = redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0)
        client = _make_client(settings, redis.asyncio.Redis, retry=once)
        return cls(client, _where(client))

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Send *calls* together and return their replies.

        Raises:
            StoreUnavailable: The store did not answer.
            StoreRefused: It answered one of the calls with an error.
        """
        try:
            replies = await self._send(calls)
            missing = [i for i, reply in enumerate(replies) if _is_noscript(reply)]
            if missing:
                await self._load()
                again = await self._send([calls[i] for i in missing])
                for i, reply in zip(missing, again, strict=True):
                    replies[i] = reply
        except UNAVAILABLE as error:
            raise StoreUnavailable(self.where, str(error)) from error
        return _checked(replies, self.where)

    async def call(self, call: Call) -> Any:
        """Send one call and return its reply; raises as `run` does."""
        return (await self.run([call]))[0]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*call.parts)
        return list(await pipeline.execute(raise_on_error=False))

    async def _load(self) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for script in SCRIPTS:
            pipeline.script_load(script.source)
        await pipeline.execute()


class BlockingStore:
    """Runs calls from a thread or a command; same contract as `Store`.

    But a call that is not answered is repeated a few times before it fails, so
    it is for calls that may happen twice.
    """

    def __init__(self, client: redis.Redis, where: str) -> None:
        self._client = client
        self.where = where

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> BlockingStore:
        """Connect as scrapy-redis's ``REDIS_*`` settings say.

        Raises:
            ConfigurationError: They do not make a client.
        """
        client = _make_client(settings, redis.Redis)
        return cls(client, _where(client))

    def run(self, calls: Sequence[Call]) -> list[Any]:
        """Send *calls* together and return their replies; see `Store.run`."""
        try:
            replies = self._send(calls)
            missing = [i for i, reply in enumerate(replies) if _is_noscript(reply)]
            if missing:
                self._load()
                again = self._send([calls[i] for i in missing])
                for i, reply in zip(missing, again, strict=True):
                    replies[i] = reply
        except UNAVAILABLE as error:
            raise StoreUnavailable(self.where, str(error)) from error
        return _checked(replies, self.where)

    def call(self, call: Call) -> Any:
        """Send one call and return its reply; raises as `run` does."""
        return self.run([call])[0]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*call.parts)
        return list(pipeline.execute(raise_on_error=False))

    def _load(self) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for script in SCRIPTS:
            pipeline.script_load(script.source)
        pipeline.execute()


def check_server(reply: bytes | Mapping[str, Any], where: str) -> None:
    """Refuse a server that may forget keys, given its ``INFO memory``.

    Raises:
        StoreRefused: Its eviction policy is not ``noeviction``.
    """
    if isinstance(reply, bytes):
        lines = reply.decode("utf-8", "replace").splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        policy = fields.get("maxmemory_policy", "noeviction")
    else:
        policy = str(reply.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise StoreRefused(
            f"the store at {where} runs under maxmemory-policy {policy} and would "
            "forget URLs silently; set maxmemory-policy noeviction"
        )


def _make_client(settings: Mapping[str, Any], cls: type[Any], **chosen: Any) -> Any:
    params = {**REDIS_PARAMS, **_params(settings.get("REDIS_PARAMS") or {})}
    if params.get("redis_cls"):
        raise ConfigurationError(
            "REDIS_PARAMS: redis_cls cannot be chosen; frontier needs its own client"
        )
    params.pop("retry_on_timeout", None)  # redis warns of it; timeouts are retried
    for name in ("url", "host", "port", "db"):
        if value := settings.get(f"REDIS_{name.upper()}"):
            params[name] = value
    try:
        return get_redis(
            **{**params, "redis_cls": cls, "decode_responses": False, **chosen}
        )
    except (TypeError, ValueError) as error:
        url = settings.get("REDIS_URL")
        raise ConfigurationError(f"REDIS_URL = {url!r}: {error}") from error


def _params(given: Any) -> dict[str, Any]:
    try:
        return dict(json.loads(given) if isinstance(given, str) else given)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"REDIS_PARAMS = {given!r}: must be a dictionary, or one in JSON"
        ) from None


def _where(client: redis.Redis | redis.asyncio.Redis) -> str:
    options = client.connection_pool.connection_kwargs
    if "path" in options:
        return f"unix://{options['path']}"
    return f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"


def _is_noscript(reply: Any) -> bool:
    return isinstance(reply, redis.exceptions.NoScriptError)


def _checked(replies: list[Any], where: str) -> list[Any]:
    for reply in replies:
        if isinstance(reply, UNAVAILABLE):
            raise StoreUnavailable(where, str(reply)) from reply
        if isinstance(reply, redis.exceptions.RedisError):
            raise StoreRefused(f"the store at {where} answers: {reply}") from reply
    return replies
