"""``frontier dashboard``: the status page."""

from __future__ import annotations

from typing import Annotated

import typer

from frontier.cli.options import (
    NAMESPACE,
    STORE_DIR,
    Namespace,
    RedisUrl,
    StoreDir,
    connected,
)
from frontier.cli.output import say
from frontier.dashboard import require_libraries

PORT = 8350

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="NAME",
        help="Where to listen; another place than this machine needs a token.",
    ),
]
Port = Annotated[
    int,
    typer.Option("--port", min=0, max=65535, metavar="N", help="0 is any free port."),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="DASHBOARD_TOKEN",
        metavar="TEXT",
        help="Show it only to who has this; better given in the environment.",
    ),
]
OneCrawl = Annotated[
    str,
    typer.Option(
        "--crawl", metavar="CRAWL_ID", help="The crawl whose page is named first."
    ),
]


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

    It only reads. Other people's browsers see it with --host and a token.
    """
    require_libraries("frontier dashboard")
    from frontier.dashboard.app import Source
    from frontier.dashboard.server import listen, serve_until_signal

    with connected(redis_url, store_dir) as store:
        sock = listen(host, port, token)
        at = f"[{host}]" if ":" in host else host
        path = f"crawls/{crawl}" if crawl else ""
        say(f"the status page is at http://{at}:{sock.getsockname()[1]}/{path}")
        serve_until_signal(sock, Source(store, namespace, store.where), token)
