"""``frontier dashboard``: the status page."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from frontier.cli.options import (
    NAMESPACE,
    STORE_DIR,
    Namespace,
    RedisUrl,
    StoreDir,
    alone,
    connected,
    is_made,
)
from frontier.cli.output import say
from frontier.dashboard import require_libraries
from frontier.errors import NoStore

if TYPE_CHECKING:
    from pathlib import Path

    from frontier.store.client import BlockingStore

PORT = 8350

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="NAME",
        help="The address to listen on; any but loopback needs a token.",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        metavar="N",
        help="The port to listen on; 0 picks a free one.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="DASHBOARD_TOKEN",
        metavar="TEXT",
        help="The page's password; safer in the environment.",
    ),
]
OneCrawl = Annotated[
    str,
    typer.Option(
        "--crawl", metavar="CRAWL_ID", help="Print the address of this crawl's page."
    ),
]


class _Awaited:
    """The embedded store of *directory*, which the first crawl there will make.

    It is joined when it is first asked for after that, and left when *stack* is closed.
    """

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._store: BlockingStore | None = None
        self.where = str(directory.absolute())

    def __call__(self) -> BlockingStore:
        """The store.

        Raises:
            NoStore: Nobody has made it yet.
        """
        if self._store is None:
            if not is_made(self._directory):
                raise NoStore(self.where)
            self._store = self._stack.enter_context(connected("", self._directory))
        return self._store


def dashboard(
    port: Port = PORT,
    host: Host = "127.0.0.1",
    token: Token = "",
    crawl: OneCrawl = "",
    redis_url: RedisUrl = "",
    store_dir: StoreDir = STORE_DIR,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Show crawls in a browser, live, until it is stopped (Ctrl-C).

    It only reads, and waits for the first crawl if there is no store yet. Other
    machines reach it with --host and a token.
    """
    require_libraries("frontier dashboard")
    from frontier.dashboard.app import Source
    from frontier.dashboard.server import listen, serve_until_signal
    from frontier.store.address import given

    with ExitStack() as stack:
        if given({"REDIS_URL": redis_url}) or is_made(store_dir):
            store = stack.enter_context(connected(redis_url, store_dir))
            source = Source(lambda: store, namespace, store.where)
        else:
            awaited = _Awaited(store_dir, stack)
            source = Source(awaited, namespace, awaited.where)
            say(f"there is no store yet: the first crawl makes it in {awaited.where}")
        sock = listen(host, port, token)
        at = f"[{host}]" if ":" in host else host
        path = f"crawls/{crawl}" if crawl else ""
        say(f"the status page is at http://{at}:{sock.getsockname()[1]}/{path}")
        serve_until_signal(sock, source, token)


app = alone(dashboard)
