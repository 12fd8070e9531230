"""Runs the status page: where it listens, and how it begins and ends.

What always holds: it listens on this machine alone unless there is a token.
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
from starlette.applications import Starlette
from typing_extensions import override

from frontier.dashboard.access import LEAST_TOKEN, Access
from frontier.dashboard.app import Application, Source
from frontier.errors import ConfigurationError
from frontier.urls.addresses import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
"""Connections at a time; more are told to come later."""
IDLE = 10
"""Seconds after which an idle connection is closed."""
LAST = 2
"""Seconds that answers have to end when the server stops."""


def listen(host: str, port: int, token: str = "") -> socket.socket:
    """A socket that listens on *port* of *host*; 0 is any free one.

    Raises:
        ConfigurationError: It must not listen there, or cannot.
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
        reason = str(error.strerror or error)
        if error.errno == errno.EADDRINUSE:  # Python says the address once more
            reason = "another process does; port 0 is any free one"
        raise ConfigurationError(f"cannot listen on {host}:{port}: {reason}") from error


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller, and ends its streams with itself."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self._end = end

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send viewers what is left, and close."""
        self._end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    sock: socket.socket,
    source: Source,
    token: str = "",
    on_server: Callable[[uvicorn.Server], object] = lambda _: None,
) -> None:
    """Serve *source* on *sock* until ``should_exit`` of the server is set."""
    app = Application(source)
    config = uvicorn.Config(
        Access(Starlette(routes=app.routes()), token),
        http="h11",
        limit_concurrency=MOST_CONNECTIONS,
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
    )
    server = _Server(config, app.looks.stop)
    on_server(server)
    try:
        await server.serve([sock])
    finally:
        app.looks.stop()


def serve_until_signal(sock: socket.socket, source: Source, token: str = "") -> None:
    """Serve *source* in this thread, the main one, until SIGINT or SIGTERM."""

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def stop_with_signal(server: uvicorn.Server) -> None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, setattr, server, "should_exit", True)

        await serve(sock, source, token, stop_with_signal)

    asyncio.run(run())
