"""``frontier dashboard``: the status page."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

from frontier.cli.command import (
    CrawlsOptions,
    command,
    is_made,
    option,
    options,
)
from frontier.cli.output import say
from frontier.dashboard import require_libraries


@options
class DashboardOptions(CrawlsOptions):
    """Where the page is served."""

    port: int = option(
        8350, "N", "The port to listen on; 0 picks a free one.", within=(0, 65535)
    )
    host: str = option(
        "127.0.0.1",
        "NAME",
        "The address to listen on; any but loopback needs a token.",
    )
    token: str = option(
        "",
        "TEXT",
        "The page's password; safer in the environment.",
        envvar="DASHBOARD_TOKEN",
    )


def dashboard(given: DashboardOptions) -> None:
    """Show crawls in a browser, live, until it is stopped (Ctrl-C).

    It only reads, and waits for the first crawl if there is no store yet. Other
    machines reach it with --host and a token.
    """
    require_libraries("frontier dashboard")
    from frontier.dashboard.app import Source
    from frontier.dashboard.server import listen, serve_until_signal
    from frontier.store.address import given as names_a_server

    with ExitStack() as stack:
        store = cache(lambda: stack.enter_context(given.connected()))
        if names_a_server({"REDIS_URL": given.redis_url}) or is_made(given.store_dir):
            where = store().where
        else:
            where = str(given.store_dir.absolute())
            say(f"there is no store yet: the first crawl makes it in {where}")
        source = Source(store, given.namespace, where)
        sock = listen(given.host, given.port, given.token)
        at = f"[{given.host}]" if ":" in given.host else given.host
        say(f"the status page is at http://{at}:{sock.getsockname()[1]}/")
        serve_until_signal(sock, source, given.token)


app = command(dashboard, "dashboard")
