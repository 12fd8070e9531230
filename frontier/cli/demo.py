"""``frontier demo``: a small site, two nodes, and what they made of it."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frontier.cli.command import (
    STORE_DIR,
    WARC_DIR,
    command,
    connected,
    option,
    options,
)
from frontier.cli.output import ExitCode, complain, facts, say, show

if TYPE_CHECKING:
    from frontier.cli.crawl_run import Outcome
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore

FIRST_PORT = 8410
"""With this port, each of two or three nodes gets hosts of the default site."""
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": "8",
    "DOWNLOAD_DELAY": "0.05",
    "FRONTIER_COLLECTION": "demo",
}
"""Fast, as the site is ours; and not in the user's own collection."""
EXAMPLES = 3
"""URLs that are shown as examples of a fault."""


@options
class DemoOptions:
    """How large the site is, and who crawls it."""

    nodes: int = option(2, "N", "Nodes to start.", within=(1, 16))
    urls: int = option(400, "N", "URLs of the site.")
    hosts: int = option(5, "N", "Hosts of the site.")
    delay: float = option(0.0, "SECONDS", "Wait before each answer.", within=(0, None))
    directory: Path = option(
        Path(), "DIR", "Directory for all files of the demo.", "--dir"
    )


def demo(given: DemoOptions) -> None:
    """Crawl a small built-in site with two nodes.

    Run it twice: the second crawl archives unchanged pages as revisits.
    """
    from frontier.cli.crawl_run import configuration
    from frontier.testing.oracle import expected_urls
    from frontier.testing.server import SiteServer
    from frontier.testing.site import Site

    nodes, hosts = given.nodes, given.hosts
    store_dir, warc_dir = given.directory / STORE_DIR, given.directory / WARC_DIR
    config = configuration(SETTINGS, store_dir, warc_dir)
    site = Site(urls=given.urls, hosts=hosts)
    with connected("", config.store_dir, create=True) as store:
        # Never an open crawl of the user's own.
        settings = {**SETTINGS, "FRONTIER_CRAWL_ID": _next_id(store, config.namespace)}
        config = configuration(settings, store_dir, warc_dir)
        log_dir = config.store_dir / "logs"
        log_dir.mkdir(exist_ok=True)
        log = log_dir / f"{time.strftime('%Y%m%dT%H%M%S')}-site.jsonl"
        port = _port(hosts)
        with SiteServer(site, log=log, delay=given.delay, port=port) as server:
            at = server.hosts[0]
            say(f"crawling {given.urls:,} URLs on {hosts} hosts, the first at {at}")
            outcome = _crawl(server.seeds, nodes, config, settings)
    code = _print(outcome, config, log, expected_urls(server.site))
    raise click.exceptions.Exit(code)


def _crawl(
    seeds: list[str], nodes: int, config: Config, settings: dict[str, str]
) -> Outcome:
    """Run the spider ``site`` from *seeds*, each of which is on its own host."""
    from frontier.cli.crawl_run import SITE, Plan, run
    from frontier.cli.projects import Project

    return run(
        Plan(
            project=Project.bundled(),
            spider=SITE,
            arguments={"seeds": ",".join(seeds), "scope": "host"},
            nodes=nodes,
            redis_url="",
            config=config,
            settings=settings,
        )
    )


def _next_id(store: BlockingStore, namespace: str) -> str:
    from frontier.status.snapshot import list_crawls

    names = {crawl.crawl_id for crawl in list_crawls(store, namespace)}
    return next(name for n in count(1) if (name := f"demo-{n}") not in names)


def _port(hosts: int) -> int:
    """`FIRST_PORT`, so that each demo has the same URLs; 0 if that is taken."""
    from frontier.errors import ConfigurationError
    from frontier.testing.server import close, listen

    try:
        close(listen(hosts, FIRST_PORT))
    except ConfigurationError:
        return 0
    return FIRST_PORT


def _print(outcome: Outcome, config: Config, log: Path, expected: set[str]) -> ExitCode:
    """Show what the crawl and the site say; return how the command ends."""
    from frontier.cli.crawl_run import logs
    from frontier.cli.report import WarcFiles, crawl_report
    from frontier.testing.oracle import RequestLog

    served, watched = RequestLog.read(log), outcome.watched
    wrong = {"twice": served.repeated(), "not at all": served.missing(expected)}
    if watched is not None:
        files = WarcFiles.of(config.warc_dir, watched.crawl.crawl_id)
        show(crawl_report(watched, files))
    show([*logs(outcome.nodes), f"  {log.name} (what the site served)", ""])
    counts = f"{len(expected):,} expected, {len(served.fetched()):,} fetched"
    twice, missing = map(len, wrong.values())
    nodes = watched.crawl.nodes if watched is not None else ()
    busy = [one.node_id for one in nodes if one.figures and one.figures.pages]
    rows = [
        ("URLs of the site", f"{counts}, {twice:,} fetched twice, {missing:,} missing"),
        ("Fetched by", " and ".join(busy) or "nobody"),
    ]
    show([facts(rows)])
    outcome.nodes.complain()
    if outcome.nodes.interrupted:
        complain("interrupted")
        return outcome.exit_code
    for what, found in wrong.items():
        if found:
            examples = " ".join(sorted(found)[:EXAMPLES])
            complain(f"{len(found)} URLs were fetched {what}, such as {examples}")
    if twice or missing:
        return outcome.exit_code or ExitCode.CRAWL_FAILED
    show(["Every URL of the site was fetched exactly once."])
    return outcome.exit_code


app = command(demo, "demo")
