"""The site on loopback, over HTTP/1.1 with persistent connections.

1. The server is one event loop on a thread of its own; requests of different
   connections do not wait for each other.
2. A request is logged once, after its answer was handed to the kernel. An
   answer that the kernel takes at once (all of this site's, to a client that
   reads) ends before any request that its client sends on receipt of it.
3. Apart from ``Date`` the bytes of an answer depend only on the site.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections import Counter
from dataclasses import asdict, replace
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from io import FileIO
from typing import TYPE_CHECKING, NamedTuple, Self

from typing_extensions import override

from frontier.errors import ConfigurationError
from frontier.testing.oracle import Entry
from frontier.testing.site import CHUNK_BYTES, Resource, Site

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


MAX_HEAD_BYTES = 65536
CACHED_RESOURCES = 8192
STEP = 0.1
"""Seconds after which a request that is held back looks at the delays again."""
BACKLOG = 1024
ATTEMPTS = 50
"""How many ephemeral ports are tried until all hosts can have the same one."""


class SiteServer:
    """Serves *site* from ``start`` to ``stop``, or as a context manager.

    *delay* is for every request, *host_delays* adds to it by the host's
    number, both in seconds; they may be changed while it serves, also for requests
    that wait. *log* is appended to. *port* is as in `listen`.

    ``start`` raises ``ConfigurationError`` if there is nowhere to listen.
    """

    def __init__(
        self,
        site: Site,
        *,
        log: Path | None = None,
        delay: float = 0.0,
        host_delays: Mapping[int, float] | None = None,
        port: int = 0,
    ) -> None:
        self.site = site
        """With the real base URLs once the server has started."""
        self.log = log
        self.delay = delay
        self.host_delays = dict(host_delays or {})
        self.waiting: Counter[str | None] = Counter()
        """Requests that are not answered yet, by their ``X-Frontier-Node``."""
        self._port = port
        self._sockets: list[socket.socket] = []
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def hosts(self) -> list[str]:
        """``address:port`` of each host."""
        return [base.partition("//")[2] for base in self.site.bases]

    @property
    def seeds(self) -> list[str]:
        """The home page of each host."""
        return self.site.seeds

    def start(self) -> None:
        """Listen; connections are accepted when this returns."""
        self._sockets = listen(self.site.hosts, self._port)
        try:
            self._log = FileIO(self.log or os.devnull, "a")
        except OSError:
            close(self._sockets)
            raise
        names = [sock.getsockname() for sock in self._sockets]
        self.site = self.site.served_at(f"http://{ip}:{port}" for ip, port in names)
        self._resource = lru_cache(CACHED_RESOURCES)(self.site.resource)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="site", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    def publish(self, count: int = 1) -> int:
        """Publish *count* more items on each host; return how many there are now."""
        published = self.site.published + count
        self.site = replace(self.site, published=published)
        self._resource = lru_cache(CACHED_RESOURCES)(self.site.resource)
        return published

    def stop(self) -> None:
        """Cut all connections and close the log; no effect if it does not run."""
        if self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._log.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        # Wall-clock times that cannot go back while the server runs.
        self._epoch = time.time() - time.monotonic()
        servers = [
            await self._loop.create_server(partial(self._connection, host), sock=sock)
            for host, sock in enumerate(self._sockets)
        ]
        self._ready.set()
        await self._stopping.wait()
        for server in servers:
            server.close()

    def _now(self) -> float:
        return self._epoch + time.monotonic()

    def _connection(self, host: int) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(_Reader(), partial(self._converse, host))

    async def _converse(
        self, host: int, reader: _Reader, writer: asyncio.StreamWriter
    ) -> None:
        # So that drain() waits until the kernel has everything.
        writer.transport.set_write_buffer_limits(0)
        try:
            while request := await _receive(reader):
                whole = await self._answer(host, request, reader, writer)
                if not whole or not request.keeps_alive:
                    break
        except ConnectionError:
            pass  # there is nobody to tell
        finally:
            # What was answered is with the kernel already. Not close(): a client that
            # does not read must not hold up the server.
            writer.transport.abort()

    async def _is_gone_early(self, host: int, wait: float, reader: _Reader) -> bool:
        """Wait as long as an answer is held back; whether the client leaves before."""
        begin = time.monotonic()
        while True:
            whole = self.delay + self.host_delays.get(host, 0.0) + wait
            left = whole - (time.monotonic() - begin)
            if left <= 0:
                return await reader.is_gone_within(0)
            if await reader.is_gone_within(min(left, STEP)):
                return True

    async def _answer(
        self,
        host: int,
        request: _Request,
        reader: _Reader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Send what *request* asks for and log it; return whether all was sent."""
        start, node = self._now(), request.headers.get("x-frontier-node")
        self.waiting[node] += 1
        resource = self._resource(host, request.target)
        if request.method != "GET":
            given = request.target, request.method, request.body
            resource = self.site.resource(host, *given)
        sent = False
        try:
            if not await self._is_gone_early(host, resource.wait, reader):
                for part in _frame(resource, request):
                    writer.write(part)
                    await writer.drain()
                sent = True
        except ConnectionError:
            pass  # logged as aborted
        finally:
            self.waiting[node] -= 1
            base = self.site.bases[host]
            entry = Entry(
                start=start,
                end=self._now(),
                host=base.partition("//")[2],
                url=base + request.target,
                method=request.method,
                status=resource.status,
                bytes=len(resource.body) if sent and request.has_body else 0,
                node=node,
                ua=request.headers.get("user-agent"),
                aborted=not sent,
            )
            # One write: readers of the file never see a part of it.
            self._log.write(f"{json.dumps(asdict(entry))}\n".encode())
        return sent


class _Reader(asyncio.StreamReader):
    """A reader that can tell when the other side has closed."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_HEAD_BYTES)
        self._gone = asyncio.Event()

    @override
    def feed_eof(self) -> None:
        super().feed_eof()
        self._gone.set()

    @override
    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._gone.set()

    async def is_gone_within(self, seconds: float) -> bool:
        """Whether the client leaves within *seconds*, or has left already."""
        if seconds > 0 and not self._gone.is_set():
            try:
                await asyncio.wait_for(self._gone.wait(), seconds)
            except TimeoutError:
                return False
        return self._gone.is_set()


class _Request(NamedTuple):
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"

    @property
    def has_body(self) -> bool:
        """Whether the answer has one."""
        return self.method != "HEAD"


async def _receive(reader: asyncio.StreamReader) -> _Request | None:
    """The next request; ``None`` for anything else, which is not answered."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        fields = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return None
    return _Request(method, target, headers, body)


def _frame(resource: Resource, request: _Request) -> list[bytes]:
    """The bytes of the answer; one part unless the transfer coding has more."""
    framing = (
        b"Transfer-Encoding: chunked"
        if resource.chunked
        else b"Content-Length: %d" % len(resource.body)
    )
    lines = [
        f"HTTP/1.1 {resource.status} {HTTPStatus(resource.status).phrase}".encode(),
        b"Date: " + formatdate(usegmt=True).encode("ascii"),
        *(name + b": " + value for name, value in resource.headers),
        framing,
        b"Connection: " + (b"keep-alive" if request.keeps_alive else b"close"),
        b"\r\n",
    ]
    head = b"\r\n".join(lines)
    if not request.has_body:
        return [head]
    if not resource.chunked:
        return [head + resource.body]
    body = resource.body
    pieces = (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))
    return [head, *(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces), b"0\r\n\r\n"]


def listen(hosts: int, port: int) -> list[socket.socket]:
    """A listening socket for each host, 127.0.0.2 and up, all at one *port*.

    0 picks a free one.

    Raises:
        ConfigurationError: The port that was asked for is taken, or no ephemeral
            one is free on all hosts.
    """
    aliases = [f"127.0.0.{2 + number}" for number in range(hosts)]
    for _ in range(1 if port else ATTEMPTS):
        sockets: list[socket.socket] = []
        at = port
        try:
            for alias in aliases:
                sockets.append(socket.create_server((alias, at), backlog=BACKLOG))
                at = sockets[0].getsockname()[1]
        except OSError as error:
            close(sockets)
            reason = error
        else:
            return sockets
    raise ConfigurationError(f"cannot listen on {aliases}: {reason}") from reason


def close(sockets: list[socket.socket]) -> None:
    """Close all of *sockets*."""
    for sock in sockets:
        sock.close()
