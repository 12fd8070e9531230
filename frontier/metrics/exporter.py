"""Serving a node's metrics, from threads, at a port of its own.

What always holds:

1.  What is served was read in the reactor's thread, which alone writes it, between two
    of its steps: nothing is locked, and pages need no extra counting for it.
2.  A scrape waits at most `PATIENCE` for the reactor. If a callback blocks that, the
    scrape gets what was read last, and ``frontier_figures_age_seconds`` is its age.
3.  No two nodes share a port: each binds its own before it enters the crawl.
4.  On loopback it answers only to names of this machine. It only reads, closes silent
    connections, and has at most `MOST` connections at a time.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
from concurrent.futures import Future
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from typing_extensions import override

from frontier.errors import ConfigurationError
from frontier.metrics.exposition import Families, families, require_library
from frontier.metrics.node import NODE, Reading
from frontier.settings.values import ports_of
from frontier.urls.addresses import is_loopback, name_of_header

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric as Family

    from frontier.settings.config import Config

logger = logging.getLogger(__name__)

PATH = "/metrics"
PATIENCE = 1.0
"""Seconds that a scrape waits for the reactor."""
SILENCE = 10.0
"""Seconds after which a silent connection is closed."""
MOST = 16
"""Connections at a time; each has a thread."""
POLL = 0.05
"""Seconds that `Exporter.close` waits at most for the thread that accepts."""


class _Handler(WSGIRequestHandler):
    """One scrape."""

    timeout = SILENCE

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: each scrape would be a line."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread for each scrape."""

    daemon_threads = True

    @override
    def server_bind(self) -> None:
        """Bind, without asking name servers for the name of this machine."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()
        self._free = threading.BoundedSemaphore(MOST)

    @override
    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is a place for it; if not, it is closed at once."""
        return self._free.acquire(blocking=False)

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve it, then let another connection have its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log it without a traceback: mostly, a client has gone away."""
        logger.debug("a scrape has failed")


class _Server6(_Server):
    address_family = socket.AF_INET6


class Exporter:
    """The metrics of one node, on a port that is bound when this is made."""

    def __init__(self, config: Config) -> None:
        """Bind the first free port of the setting.

        Raises:
            ConfigurationError: There is none, or the extra is not installed.
        """
        require_library("FRONTIER_METRICS_PORT")
        self._server = _bound(config)
        self.host: str = config.metrics_host
        self.port: int = self._server.server_port
        self._thread: threading.Thread | None = None

    def serve(
        self, read: Callable[[], Reading], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Serve at each scrape what *read* returns, which is called in *loop*."""
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import make_wsgi_app

        self._read, self._loop = read, loop
        self._last = read()
        registry = CollectorRegistry()
        registry.register(Families(self._collect))
        ProcessCollector(registry=registry)
        app = make_wsgi_app(registry)
        self._server.set_app(_guarded(app, own=is_loopback(self.host)))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL,), name="metrics", daemon=True
        )
        self._thread.start()
        logger.info("metrics are at %s", self.url)

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"

    def close(self) -> None:
        """Stop serving; this may take `POLL` seconds."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _collect(self) -> Iterator[Family]:
        """The metrics of now, or of when the reactor last had time to read them."""
        asked: Future[Reading] = Future()

        def answer() -> None:
            """Read the figures, in the reactor's thread."""
            try:
                asked.set_result(self._read())
            except Exception as error:  # noqa: BLE001 (the scrape logs it)
                asked.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(answer)
            self._last = asked.result(PATIENCE)
        except TimeoutError:
            logger.debug("the node is too busy to collect its figures")
        except Exception:
            logger.exception("the metrics of this node cannot be read")
        yield from families(NODE, self._last)


def _bound(config: Config) -> _Server:
    host, ports = config.metrics_host, ports_of(config.metrics_port)
    failed: OSError | None = None
    for port in ports:
        try:
            return (_Server6 if ":" in host else _Server)((host, port), _Handler)
        except OSError as error:
            failed = error
            if error.errno != errno.EADDRINUSE:
                break
    raise ConfigurationError(
        f"FRONTIER_METRICS_PORT = {config.metrics_port!r}: no metrics can be served at "
        f"{host}: {failed.strerror or failed if failed else 'no port'}"
    )


def _guarded(app: Any, *, own: bool) -> Any:
    """*app* at `PATH`, and nothing elsewhere.

    With *own* it answers only to names of this machine, so that a web page whose name
    is made to lead here learns nothing (DNS rebinding).
    """

    def serve(environ: dict[str, Any], start_response: Any) -> Any:
        if own and not is_loopback(name_of_header(environ.get("HTTP_HOST", ""))):
            status, text = (
                "421 Misdirected Request",
                "the Host header is not a name of this server\n",
            )
        elif environ.get("PATH_INFO") != PATH:
            status, text = "404 Not Found", f"metrics are at {PATH}\n"
        else:
            return app(environ, start_response)
        start_response(status, [("Content-Type", "text/plain")])
        return [text.encode()]

    return serve
