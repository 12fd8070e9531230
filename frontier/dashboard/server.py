"""Runs the status page: where it listens, and how it begins and ends.

What always holds:

1.  It listens on this machine alone unless there is a token.
2.  Who has it run beside a node never waits for it, and nothing of it ends the node:
    a port that is taken is one line of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

import uvicorn

from frontier.dashboard.access import LEAST_TOKEN, Access
from frontier.dashboard.app import Source, application
from frontier.errors import ConfigurationError
from frontier.store.client import BlockingStore
from frontier.urls.addresses import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.applications import Starlette

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
"""Those above are answered with 503."""
IDLE = 10
"""Seconds after which a connection is closed that asks for nothing more."""
ANSWER = 5.0
"""Seconds that the store has to answer the page of a node."""
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send those who look what is left, and close."""
        await self._app.state.stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS,
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


class PageOfNode:
    """The status page that a node serves, on a thread with an event loop of its own.

    It listens on this machine alone.
    """

    def __init__(self, sock: socket.socket, source: Source) -> None:
        self._sock = sock
        self._source = source
        self._server: uvicorn.Server | None = None
        self._closed = False
        self._thread = threading.Thread(
            target=self._run, name="frontier-dashboard", daemon=True
        )
        self.port: int = sock.getsockname()[1]

    @classmethod
    def begin(
        cls, port: int, namespace: str, settings: Mapping[str, Any]
    ) -> PageOfNode:
        """Serve at *port* what the store of *settings* has; blocks for a moment.

        Raises:
            ConfigurationError: It cannot listen there.
        """
        sock = listen("127.0.0.1", port)
        store = BlockingStore.from_settings(settings, ANSWER)
        page = cls(sock, Source(lambda: store, namespace, store.where))
        page._thread.start()
        return page

    def _run(self) -> None:
        try:
            asyncio.run(serve(self._sock, self._source, on_server=self._begun))
        except Exception:  # of the page alone: the crawl goes on
            logger.exception("the status page of this node has ended")
        finally:
            self._source.store().close()

    def _begun(self, server: uvicorn.Server) -> None:
        self._server = server
        server.should_exit = self._closed

    def close(self) -> None:
        """Serve no more; do not wait for long for who still reads."""
        self._closed = True
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(LAST + 3)
