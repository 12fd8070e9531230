"""The connection to Redis: calls go out in batches, errors come back as ours.

The store is one server, a cluster, or the primary that Sentinel names:
`frontier.store.address` says which, `frontier.store.cluster_router` what goes where.

What always holds:

1.  Nothing outside `frontier.store` imports redis. Services make `Call` values
    and read replies; a store runs them.
2.  The calls of one `run` go out together and their replies come back in the
    same order. They are not a transaction: each call is atomic, the batch is
    not, and after `StoreUnavailable` any of them may have happened.
3.  Replies are bytes, integers, lists and ``None``; nothing is decoded here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from inspect import signature
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.exceptions
import redis.retry

from frontier.errors import (
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    WritesRefused,
)
from frontier.store.address import (
    CLUSTER,
    SENTINEL,
    Address,
    Server,
    address_of,
    given,
    leave_others,
    malformed,
    primary_of,
)
from frontier.store.calls import Argument, Call, Copies, T
from frontier.store.cluster_router import Batch, Outcome, Router
from frontier.store.damage import damaged, is_damage, type_calls

__all__ = ["Argument", "BlockingStore", "Call", "Store", "check_server", "given"]

UNAVAILABLE = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.MasterDownError,
    OSError,
)
DEMOTED = redis.exceptions.ReadOnlyError
"""How a server says that it is a replica. It may be one for a while without a restart,
and without closing its connections."""
REPEATS = 5
"""How often a `BlockingStore` asks again."""
FIRST_REPEAT = 0.1
_READ_ONLY = re.compile(r"(^|-)(MISCONF|NOREPLICAS|READONLY) ")
"""How a server says that it writes nothing now, also from within a script: its disk is
full, or it lacks its replicas, or it is a replica."""
_PASSING = re.compile(r"(^|-)(BUSY|LOADING) ")
"""How it says that it cannot do anything now: another script is running, or it is still
reading its file."""
_FORBIDDEN = re.compile(
    r"NOPERM|no permissions? to|ACL failure|ACL-permission|"
    r"executing the script can't|can't (run this command|access at least one)",
    re.IGNORECASE,
)
"""How a server says that its ACL forbids a user something, also in a script."""
_UNKNOWN = re.compile(r"unknown( redis)? command", re.IGNORECASE)
KEEPS = "noeviction"
"""The one policy of a server that never drops keys by itself."""
MAX_KEYS = 5
"""Keys of a script that a message names."""
CHANGED = "another server answers, or it was started again"
_REFUSED_TLS = re.compile(
    r"alert handshake failure|certificate required|reset by peer|broken pipe|"
    r"EOF occurred|connection (lost|closed)|not connected",
    re.IGNORECASE,
)
"""How a client without a certificate learns that a server wants one: in the handshake
of TLS 1.2; after that of TLS 1.3, or only by the connection ending, in any way."""
WANTED = (
    "; it may want a certificate of its clients: ssl_certfile and ssl_keyfile in "
    "REDIS_PARAMS, or in the URL"
)
NOT_TLS = "; it may not speak TLS, which a URL with rediss asks for"
_NO_NOTICES: dict[str, Any] = {}
"""Keeps the maintenance notices of redis-py 8 off: with them it does not replace an
idle connection that has ended."""
with contextlib.suppress(ImportError):
    from redis.maint_notifications import MaintNotificationsConfig

    if "maint_notifications_config" in signature(redis.asyncio.Redis).parameters:
        _NO_NOTICES["maint_notifications_config"] = MaintNotificationsConfig(
            enabled=False
        )
CLOSED = "this node has closed its connections"
_TLS = (redis.connection.SSLConnection, redis.asyncio.connection.SSLConnection)
_began: ContextVar[int] = ContextVar("_began", default=0)
"""`Store.changes` as of the beginning of the call for which a connection is made."""
SCAN_PAGE = 5_000
"""Keys that one call of SCAN looks at."""
PULSE = 0.25
"""Seconds between two checks whether a server is alive."""
TURNS = 20
"""Turns of the event loop in which an answer that has arrived is read: if they take
long, this process is late, not the server."""
NO_COPIES = Copies()
HERE = ("", 0)
"""The server of a store that has only one, or whose Sentinel names one."""


class Store:
    """Runs calls from the event loop, each at most once."""

    def __init__(self, servers: _Servers) -> None:
        self._servers = servers
        self._router = servers.router
        self.alone = self._router.alone
        """Whether keys of several hash slots may meet in one call."""
        self._runs: dict[Server, bytes] = {}
        self.watched = False
        """Whether the first call after such a change fails."""
        servers.check = self._check
        self.copies = Copies()
        """The copies that each write of a `copied` run must have."""
        self.where = servers.where
        self.address = servers.address

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], timeout: float | None = None
    ) -> Store:
        """Connect as scrapy-redis's ``REDIS_*`` settings say.

        *timeout* is for how many seconds a server may take to answer, where the
        settings do not say.

        Raises:
            ConfigurationError: No client can be made from them.
        """
        return cls(_Servers(address_of(settings, timeout), asynchronous=True))

    @property
    def changes(self) -> int:
        """How often a server took another's place, or was started again."""
        return self._router.changes

    def doubt(self, server: Server | None = None) -> None:
        """Count *server*, or all, as changed: it has lost something that it had."""
        every = {None, *self._router.servers}
        self._router.note_lost(every if server is None else {server})

    def lost(self) -> set[Server | None]:
        """The servers that have lost something since this was last asked.

        `server_of` says which key is meant.
        """
        lost, self._router.lost = self._router.lost, set()
        return lost

    async def run(self, calls: Sequence[Call], *, copied: bool = False) -> list[Any]:
        """Send *calls* together and return their replies.

        With *copied* they count as answered only once the `copies` exist.

        Raises:
            StoreUnavailable: The store did not answer; or it has changed, and is
                `watched`.
            StoreRefused: It answered one of the calls with an error.
            KeyDamaged: It answered with an error about a value.
        """
        began = self._router.changes
        _began.set(began)
        copies = self.copies if copied else NO_COPIES

        async def send(batches: Sequence[Batch]) -> list[Outcome]:
            if self.watched and self._router.changes != began:
                raise redis.exceptions.ConnectionError(CHANGED)
            if len(batches) == 1:
                return [await self._servers.ask(batches[0], copies)]
            asking = (self._servers.ask(batch, copies) for batch in batches)
            return await asyncio.gather(*asking)

        try:
            found = await self._router.run(calls, send, asyncio.sleep)
        except (*UNAVAILABLE, redis.exceptions.RedisError) as error:
            raise _failed(error, self.where) from error
        self._require_unchanged(began, found)
        replies, bad = _checked(found, self.where, calls)
        for place in bad:
            types = await self.run(type_calls(calls[place]))
            raise damaged(self.where, calls[place], str(replies[place]), types)
        return replies

    def _require_unchanged(self, began: int, replies: Sequence[Any]) -> None:
        """Raise if the store has changed since *began*; note it of these *replies*."""
        if any(isinstance(one, DEMOTED) for one in replies):
            self.doubt()  # when it is a primary again, it has what its primary had
        # Since these replies another server took the place, or lost its last writes.
        elif self.watched and self.changes != began:
            raise StoreUnavailable(self.where, CHANGED)

    async def call(self, call: Call) -> Any:
        """Send one call and return its reply; raises as `run` does."""
        return (await self.run([call]))[0]

    async def watch(self, interval: float, on_replaced: Callable[[], None]) -> None:
        """Leave a primary that Sentinel has replaced, until cancelled.

        Sentinel is asked every *interval* seconds. Returns at once if there is none.
        """
        if not self._servers.has_sentinel:
            return
        pool, primary = self._servers.client(HERE).connection_pool, None
        while True:
            # No sentinel may answer, or none have a primary just now.
            with contextlib.suppress(redis.exceptions.RedisError, OSError):
                before, primary = primary, await pool.get_master_address()
                leave_others(pool, primary)
                if before not in (None, primary):
                    on_replaced()
            await asyncio.sleep(interval)

    async def pulse(
        self, silence: float, on_silent: Callable[[StoreUnavailable], None]
    ) -> None:
        """Keep asking each server whether it is alive, until cancelled.

        A server that hangs ends no connection, and is silent for as long as calls may
        wait. *on_silent* is called, once, for one that has not answered for *silence*
        seconds.
        """
        asked: dict[Server, tuple[asyncio.Task[bool], float]] = {}
        silent: set[Server] = set()
        try:
            while True:
                for server in self._router.servers:
                    if server not in asked:
                        asking = asyncio.create_task(self._lives(server))
                        asked[server] = (asking, time.monotonic())
                await asyncio.sleep(PULSE)
                for _ in range(TURNS):  # answers that have arrived meanwhile are read
                    if all(asking.done() for asking, _ in asked.values()):
                        break
                    await asyncio.sleep(0)
                for server, (asking, since) in list(asked.items()):
                    if asking.done():
                        del asked[server]
                        if asking.result():
                            silent.discard(server)
                        continue
                    waited = time.monotonic() - since
                    if waited >= silence and server not in silent:
                        silent.add(server)
                        named = "it" if server == HERE else f"{server[0]}:{server[1]}"
                        why = f"{named} has said nothing for {waited:.1f} s"
                        on_silent(StoreUnavailable(self.where, why))
        finally:
            for asking, _ in asked.values():
                asking.cancel()

    def server_of(self, key: str) -> Server | None:
        """The server that has *key*, as far as known."""
        return self._router.owner(key)

    async def _lives(self, server: Server) -> bool:
        """Whether *server* answers, or refuses at once, which calls will report."""
        _began.set(self.changes)
        try:
            await self._servers.client(server).execute_command("PING")
        except redis.exceptions.TimeoutError:
            return False
        except (redis.exceptions.RedisError, OSError):
            return True
        return True

    async def close(self) -> None:
        """Close the connections; no others are made from now on.

        A call that is under way fails, even if it is about to connect.
        """
        self._servers.closed = True
        for client in self._servers.clients:
            await client.aclose()

    async def _check(self, server: Server, connection: Any) -> None:
        """Notice if a new connection leads to another server than before, or run.

        A call that began before another task noticed it is not sent either.
        """
        if self._servers.closed:  # meanwhile; redis-py then closes the connection
            raise redis.exceptions.ConnectionError(CLOSED)
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        info = await connection.read_response()
        text = info if isinstance(info, bytes) else str(info).encode()
        found = re.search(rb"run_id:(\w+)", text)
        run = found[1] if found else b""
        if self._runs.setdefault(server, run) != run:
            self._runs[server] = run
            self.doubt(server)
            if self._servers.has_sentinel:
                pool = self._servers.client(server).connection_pool
                leave_others(pool, (connection.host, connection.port))
        if self.watched and self.changes != _began.get():
            raise redis.exceptions.ConnectionError(CHANGED)


class BlockingStore:
    """Runs calls from a thread or a command; same contract as `Store`.

    But a call that is not answered is repeated a few times before it fails, so this is
    for calls that may happen twice.
    """

    def __init__(self, servers: _Servers, repeats: int, repeat_for: float) -> None:
        """*repeat_for* is after how many seconds a call is not repeated any more."""
        self._servers = servers
        self._repeats, self._repeat_for = repeats, repeat_for
        self._router = servers.router
        self.alone, self.where = self._router.alone, servers.where
        self.copies = Copies()
        """The copies of what its scripts wrote that there must be before a run ends."""
        self._leaves = False

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], timeout: float | None = None
    ) -> BlockingStore:
        """Connect as scrapy-redis's ``REDIS_*`` settings say.

        *timeout* is as for `Store.from_settings`; after it no call is repeated.

        Raises:
            ConfigurationError: No client can be made from them.
        """
        return cls.at(address_of(settings, timeout), timeout)

    @classmethod
    def at(
        cls, address: Address, timeout: float | None = None, *, repeats: bool = True
    ) -> BlockingStore:
        """Connect to *address*; raises as `from_settings` does.

        Without *repeats* a call that is not answered fails at once.
        """
        servers = _Servers(address, asynchronous=False)
        return cls(servers, REPEATS if repeats else 0, timeout or math.inf)

    def run(self, calls: Sequence[Call], *, tolerant: bool = False) -> list[Any]:
        """Send *calls* together and return their replies; see `Store.run`.

        If *tolerant*, the error of a damaged key stands in place of the reply.
        """
        replies, bad = self._repeated(calls)
        for place in bad:
            call = calls[place]
            types, _ = self._repeated(type_calls(call))
            error = damaged(self.where, call, str(replies[place]), types)
            if not tolerant:
                raise error
            replies[place] = error
        return replies

    def _repeated(self, calls: Sequence[Call]) -> tuple[list[Any], list[int]]:
        began = time.monotonic()
        for repeat in range(self._repeats):
            try:
                return self._run(calls)
            except StoreFull:
                break
            except StoreUnavailable:
                self.leave()  # another server may be the one to ask
                if time.monotonic() - began >= self._repeat_for:
                    raise
                time.sleep(FIRST_REPEAT * 2**repeat)
        return self._run(calls)

    def leave(self) -> None:
        """Have the next run make new connections; may be called from any thread."""
        self._leaves = True

    def _run(self, calls: Sequence[Call]) -> tuple[list[Any], list[int]]:
        if self._leaves:
            self._leaves = False
            for client in self._servers.clients:
                client.connection_pool.disconnect(inuse_connections=False)
        try:
            found = at_once(self._router.run(calls, self._send, _pause))
        except (*UNAVAILABLE, redis.exceptions.RedisError) as error:
            raise _failed(error, self.where) from error
        return _checked(found, self.where, calls)

    def call(self, call: Call) -> Any:
        """Send one call and return its reply; raises as `run` does."""
        return self.run([call])[0]

    def command(self, *parts: Argument) -> Any:
        """Send the command *parts* and return its reply; raises as `run` does."""
        return self.run([Call(parts)])[0]

    def runs(self) -> list[str]:
        """The run ids of the servers; raises as `run` does.

        If they change, the servers may have forgotten what they had confirmed.
        """
        return sorted(one["run_id"] for one in infos(self.command("INFO", "server")))

    def scan(self, pattern: str) -> Iterator[bytes]:
        """The keys that match *pattern*, some perhaps twice; raises as `run` does.

        The primaries of a cluster are scanned one after the other. A key that moves to
        another one meanwhile may be missed.
        """
        self.command("PING")  # from now on a cluster's servers are known
        for server in self._router.servers:
            cursor = b"0"
            while True:
                parts = ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_PAGE)
                cursor, found = self.call(Call(parts, server=server))
                yield from found
                if int(cursor) == 0:
                    break

    def close(self) -> None:
        """Close the connections."""
        for client in self._servers.clients:
            client.close()

    async def _send(self, batches: Sequence[Batch]) -> list[Outcome]:
        return [await self._servers.ask(batch, self.copies) for batch in batches]


async def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 (in a thread of its own, or a command)


def at_once(doing: Coroutine[Any, Any, T]) -> T:
    """The result of *doing*, in which nothing suspends: it blocks instead."""
    try:
        doing.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("what blocks has been waited for")


class _Servers:
    """A client for each server, made when it is first asked for."""

    def __init__(self, address: Address, *, asynchronous: bool) -> None:
        self.address = address
        self._is_async = asynchronous
        self._cls: Any = redis.asyncio.Redis if asynchronous else redis.Redis
        # Redis-py would ask the same server again, where another one may answer; and a
        # client that repeats calls without an answer would reserve URLs twice.
        retry: Any = redis.asyncio.retry if asynchronous else redis.retry
        once = retry.Retry(redis.backoff.NoBackoff(), 0)
        self._chosen = {"decode_responses": False, "retry": once}
        self._made: dict[Server, Any] = {}
        self.check: Callable[[Server, Any], Awaitable[None]] | None = None
        """Called with each new connection; for the event loop only."""
        self._sentinels: list[Any] = []
        self.closed = False
        """Whether no more connections, to servers or sentinels, are to be made."""
        self._has_connected = False
        clustered = address.kind == CLUSTER
        self.router = Router(
            address.servers if clustered else [HERE], alone=not clustered
        )
        try:
            first = self.client(self.router.seeds[0])  # says what is wrong
        except (TypeError, ValueError, AttributeError) as error:
            raise malformed(address.url, str(error)) from error
        self.where = address.where or _where(first)
        pool = first.connection_pool
        self._speaks_tls = issubclass(pool.connection_class, _TLS)
        self._has_certificate = pool.connection_kwargs.get("ssl_certfile")

    def client(self, server: Server) -> Any:
        """The client of *server*."""
        if server not in self._made:
            self._made[server] = self._make(self.address, server)
        return self._made[server]

    async def ask(self, batch: Batch, copies: Copies) -> Outcome:
        """The replies to *batch*, once there are *copies* of what it has written."""
        pipeline = self.client(batch.server).pipeline(transaction=False)
        for parts in (*batch.commands, *copies.after(batch.commands)):
            pipeline.execute_command(*parts)
        try:
            replies = pipeline.execute(raise_on_error=False)
            if self._is_async:
                replies = await replies
        except UNAVAILABLE as error:
            return _located(self.explained(error), batch.server)
        count = len(batch.commands)
        if replies[count:] and (lacking := copies.lacking(replies[count:])):
            return _located(redis.exceptions.ConnectionError(lacking), batch.server)
        return replies[:count]  # type: ignore[no-any-return]

    @property
    def has_sentinel(self) -> bool:
        """Whether the server is the one that Sentinel names."""
        return self.address.kind == SENTINEL

    @property
    def clients(self) -> list[Any]:
        """All clients, including those of the sentinels."""
        return [*self._made.values(), *self._sentinels]

    def explained(self, error: BaseException) -> BaseException:
        """*error*; if no server has ever let us in, it says what they may want."""
        if self._has_connected or not self._speaks_tls:
            return error
        if isinstance(error, redis.exceptions.TimeoutError):
            return redis.exceptions.TimeoutError(f"{error}{NOT_TLS}")
        if not self._has_certificate and _REFUSED_TLS.search(str(error)):
            return redis.exceptions.ConnectionError(f"{error}{WANTED}")
        return error

    async def _asking(self, connection: Any) -> None:
        """Check a connection to a sentinel, made before one to its primary."""
        if self.closed:
            raise redis.exceptions.ConnectionError(CLOSED)
        await connection.on_connect()

    def _make(self, address: Address, server: Server) -> Any:
        params = {**_NO_NOTICES, **address.params, **self._chosen}

        async def connected(connection: Any) -> None:
            if self.check is None:
                await connection.on_connect()
            else:
                await self.check(server, connection)
            self._has_connected = True

        def connected_here(connection: Any) -> None:
            connection.on_connect()
            self._has_connected = True

        params["redis_connect_func"] = connected if self._is_async else connected_here
        if address.kind == SENTINEL:
            asking = self._asking if self._is_async else None
            found = primary_of(address, params, self._cls, asking)
            client, self._sentinels = found
            return client
        named: dict[str, Any] = {}
        if address.kind == CLUSTER:
            params.pop("sentinel_kwargs", None)
            named = {"host": server[0], "port": server[1]}
        elif address.url:
            return self._cls.from_url(address.url, **params)
        return self._cls(**{**params, **named})


def infos(reply: Any) -> list[Mapping[str, Any]]:
    """What each server of a store has said, given the *reply* to an ``INFO``."""
    return reply if isinstance(reply, list) else [reply]


def check_server(reply: Any, where: str) -> None:
    """Refuse a server that may forget keys, given the reply to ``INFO memory``.

    Raises:
        StoreRefused: Its eviction policy is not ``noeviction``.
    """
    for info in infos(reply):
        policy = info.get("maxmemory_policy", KEEPS)
        if policy != KEEPS:
            raise StoreRefused(
                f"the store at {where} has maxmemory-policy {policy} and would drop "
                f"URLs silently; set maxmemory-policy {KEEPS}"
            )


def memory_share(reply: Any) -> float:
    """How much of its memory the fullest server uses, given ``INFO memory``.

    1.0 is all; 0 where there is no limit.
    """
    told = [(one.get("used_memory", 0), one.get("maxmemory")) for one in infos(reply)]
    return max((float(used) / most for used, most in told if most), default=0.0)


def _failed(error: BaseException, where: str) -> StoreUnavailable | StoreRefused:
    """The error to raise for *error* of a whole run, by whether a retry may help."""
    text = str(error)
    if isinstance(error, redis.exceptions.InvalidResponse):
        return StoreRefused(f"what answers at {where} is not Redis or Valkey: {text}")
    if "HELLO must be called" in text or text.startswith("Authentication required"):
        return StoreRefused(
            f"the store at {where} wants a password, and none is given; write it into "
            "the URL, redis://USER:PASSWORD@HOST:PORT, or into REDIS_PARAMS"
        )
    if isinstance(error, redis.exceptions.AuthenticationError):
        return StoreRefused(f"the store at {where} refuses user or password: {text}")
    if isinstance(error, UNAVAILABLE):
        return StoreUnavailable(where, text)
    if _FORBIDDEN.search(text):
        return _forbidden(where, "what a connection begins with", text)
    if "DB index" in text:
        return StoreRefused(f"the store at {where} has no such database: {text}")
    return StoreRefused(f"the store at {where} answers: {text}")


def _located(error: BaseException, server: Server) -> BaseException:
    """*error*, with the name of the server if it is one of a cluster."""
    with contextlib.suppress(TypeError):
        if server != HERE and f"{server[0]}:{server[1]}" not in str(error):
            return redis.exceptions.ConnectionError(
                f"{server[0]}:{server[1]}: {error or type(error).__name__}"
            )
    return error


def _where(client: redis.Redis | redis.asyncio.Redis) -> str:
    options = client.connection_pool.connection_kwargs
    database = options.get("db") or 0
    if "path" in options:
        return f"unix://{options['path']}" + (f"?db={database}" if database else "")
    server = f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
    return server + (f"/{database}" if database else "")


def _forbidden(where: str, what: str, text: str) -> StoreRefused:
    """The error if an ACL forbids *what*; *text* is what the server says about it."""
    if _UNKNOWN.search(text):
        return StoreRefused(
            f"the store at {where} refuses {what}: {text}; it has renamed or lacks a "
            "command: docs/security.md has those that frontier needs"
        )
    return StoreRefused(
        f"the user of the store at {where} may not do {what}: {text}; "
        "docs/security.md has the rights that frontier needs, as ACL SETUSER"
    )


def _described(call: Call) -> str:
    """*call* in a few words: its name, and its first keys."""
    if call.script is None:
        return " ".join(str(part)[:100] for part in call.parts[:2])
    count = int(call.parts[2])
    keys = ", ".join(str(key)[:100] for key in call.parts[3 : 3 + min(count, MAX_KEYS)])
    return f"{call.script.name} on {keys}{', ...' if count > MAX_KEYS else ''}"


def _checked(
    replies: list[Any], where: str, calls: Sequence[Call]
) -> tuple[list[Any], list[int]]:
    """*replies*, and the places of those that complain about a value."""
    bad = []
    for place, reply in enumerate(replies):
        if not isinstance(reply, redis.exceptions.RedisError):
            continue
        text = str(reply)
        # Redis 6 and 7.0 wrap in ERR what a command says inside a script.
        if isinstance(reply, redis.exceptions.OutOfMemoryError) or "-OOM " in text:
            raise StoreFull(where) from reply
        if isinstance(reply, redis.exceptions.AskError):
            raise StoreRefused(
                f"the store at {where} is a server of a Redis Cluster ({text}); "
                "name it as redis+cluster://HOST:PORT"
            ) from reply
        if _READ_ONLY.search(text) or isinstance(reply, DEMOTED):
            raise WritesRefused(where, text) from reply
        if isinstance(reply, UNAVAILABLE) or _PASSING.search(text):
            raise StoreUnavailable(where, text) from reply
        if _FORBIDDEN.search(text) or _UNKNOWN.search(text):
            raise _forbidden(where, _described(calls[place]), text) from reply
        if is_damage(text):
            bad.append(place)
            continue
        raise StoreRefused(
            f"the store at {where} answers with an error: {reply}"
        ) from reply
    return replies, bad
