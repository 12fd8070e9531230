"""Runs the status page: where it listens, and how it begins and ends.

What always holds:

1.  It listens on this machine alone unless there is a token.
2.  A connection that asks for nothing turns nobody away: one whose request is not there
    in whole after `WHOLE` seconds is closed, and before that if others want its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from frontier.dashboard.access import LEAST_TOKEN, Access
from frontier.dashboard.app import Source, application
from frontier.errors import ConfigurationError
from frontier.urls.addresses import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.applications import Starlette

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
"""For one more, the connection that has asked for nothing for longest is closed."""
IDLE = 10
"""Seconds after which a connection is closed that asks for nothing more."""
WHOLE = 10.0
"""Seconds in which a request is to be there in whole."""
LAST = 2
"""Seconds that answers have to end when the page does."""


def listen(host: str, port: int, token: str = "") -> socket.socket:
    """A socket that listens on *port* of *host*; 0 is any free one.

    Raises:
        ConfigurationError: It is not to, or cannot.
    """
    if token and len(token) < LEAST_TOKEN:
        raise ConfigurationError(
            f"the token has {len(token)} characters; it needs {LEAST_TOKEN} at least"
        )
    if not token and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host}: others could read the status page there; "
            "give it a token (--token, or DASHBOARD_TOKEN in the environment)"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        more = "; port 0 is any free one" if is_taken else ""
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}{more}"
        ) from error


class _Server(uvicorn.Server):
    """One whose signals are its caller's, and whose streams end when it does."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._app = app

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send those who look what is left, and close."""
        self._app.state.stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield


def _connections() -> type[H11Protocol]:
    """The class of a server's connections, which share its limit."""
    waiting: dict[_Connection, None] = {}

    class _Connection(H11Protocol):
        """A connection that has to ask in time."""

        _late: asyncio.TimerHandle | None = None

        @override
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Take its place, or that of one that asks for nothing."""
            super().connection_made(transport)
            if len(self.connections) > MOST_CONNECTIONS:
                idle = next((one for one in waiting if one.asks_nothing), self)
                idle.transport.abort()
            self._wait()

        @override
        def connection_lost(self, exc: Exception | None) -> None:
            """Give its place back."""
            waiting.pop(self, None)
            if self._late is not None:
                self._late.cancel()
            super().connection_lost(exc)

        @override
        def on_response_complete(self) -> None:
            """Wait for the next request."""
            super().on_response_complete()
            self._wait()

        @property
        def asks_nothing(self) -> bool:
            """Whether there is no request that is here in whole."""
            cycle = self.cycle
            return cycle is None or cycle.response_complete or cycle.more_body

        def _wait(self) -> None:
            waiting.pop(self, None)
            waiting[self] = None  # as the last
            if self._late is not None:
                self._late.cancel()
            self._late = self.loop.call_later(WHOLE, self._end)

        def _end(self) -> None:
            if self.asks_nothing:
                self.transport.abort()

    return _Connection


async def serve(
    sock: socket.socket,
    source: Source,
    token: str = "",
    on_server: Callable[[uvicorn.Server], object] = lambda _: None,
) -> None:
    """Serve *source* on *sock* until ``should_exit`` of the server is set."""
    async with application(source) as app:
        server = _Server(
            uvicorn.Config(
                Access(app, token),
                http=_connections(),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE,
                timeout_graceful_shutdown=LAST,
                h11_max_incomplete_event_size=16_384,
            ),
            app,
        )
        on_server(server)
        await server.serve([sock])


def serve_until_signal(sock: socket.socket, source: Source, token: str = "") -> None:
    """Serve *source* in this thread, the main one, until SIGINT or SIGTERM."""

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def stop_with_signal(server: uvicorn.Server) -> None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, setattr, server, "should_exit", True)

        await serve(sock, source, token, stop_with_signal)

    asyncio.run(run())
