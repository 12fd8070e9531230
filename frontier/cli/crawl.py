"""``frontier crawl``: run crawls, list them, look at one, end one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 (typer evaluates the annotations)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.crawl_repair import rebuild, repair
from frontier.cli.dead_letters import dead, requeue
from frontier.cli.options import (
    WARC_DIR,
    CrawlId,
    Json,
    Place,
    WarcDir,
    Yes,
    with_crawl,
    with_namespace,
    with_store,
)
from frontier.cli.output import ExitCode, complain, say, show, show_json
from frontier.cli.progress import bar
from frontier.cli.report import WarcFiles, crawl_table, duration, report
from frontier.cli.seeds import seed
from frontier.errors import ConfigurationError, CrawlClosed, CrawlLost, OtherSchema
from frontier.store.keys import SCHEMA, CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.status.views import CrawlSnapshot, CrawlSummary
    from frontier.store.client import BlockingStore, Call


@with_namespace
def close(
    place: Place,
    crawl_id: CrawlId,
    yes: Yes = False,
    remove_frontier: Annotated[
        bool,
        typer.Option(
            "--remove-frontier",
            help="Also remove its queues and what it has seen; also if it had ended.",
        ),
    ] = False,
) -> None:
    """End a crawl that no node runs; what is left in its queues is not fetched.

    Nothing is deleted without --remove-frontier. The next node of its spider opens
    the next crawl.
    """
    from frontier.settings.config import Config
    from frontier.status.snapshot import snapshot
    from frontier.store.client import Call
    from frontier.store.keys import CrawlKeys
    from frontier.store.scripts import CRAWL_CLOSE

    with place.connected() as store:
        seen = snapshot(store, place.namespace, crawl_id)
        left = seen.queue.ready + seen.queue.reserved
        if left and seen.state == "open" and not yes:
            raise ConfigurationError(
                f"{left:,} requests of {crawl_id} are not done and would not be "
                "fetched; add --yes to close it all the same"
            )
        if remove_frontier and not yes:
            raise ConfigurationError(
                f"what {crawl_id} has seen, {seen.queue.seen:,} URLs, would be "
                "forgotten, and its queues; add --yes to do so"
            )
        keys = CrawlKeys(place.namespace, crawl_id)
        ttl_ms = int(Config().lease_ttl * 1000)
        done = store.call(Call.to(CRAWL_CLOSE, [keys.meta(), keys.nodes()], [ttl_ms]))
        if done == 0:
            complain(f"the crawl {crawl_id} is in use; stop its nodes first")
            raise typer.Exit(ExitCode.IN_USE)
        _retire(store, place.namespace, seen)
        show([Text(f"{crawl_id} is closed" if done == 1 else f"{crawl_id} had ended")])
        if remove_frontier:
            _remove(store, place.namespace, crawl_id)
            show([Text("its queues and what it had seen are removed")])


@with_namespace
def cancel(
    place: Place,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: Annotated[
        str,
        typer.Option(
            envvar="FRONTIER_COLLECTION",
            metavar="NAME",
            help="Of the crawl, where no node runs that knows it.",
        ),
    ] = "",
) -> None:
    """End a crawl on all its nodes, and do not offer its payloads to other crawls.

    Nodes finish what they have in flight, and exit with 0. No node joins it again.
    WARC files stay.
    """
    from frontier.cluster.crawls import cancel_call
    from frontier.settings.config import Config
    from frontier.status.snapshot import snapshot
    from frontier.store.keys import CrawlKeys

    with place.connected() as store:
        seen = snapshot(store, place.namespace, crawl_id)
        if seen.state == "open" and not yes:
            left = seen.queue.ready + seen.queue.reserved
            raise ConfigurationError(
                f"{left:,} requests of {crawl_id} are not done and would not be "
                "fetched, and its payloads would not be offered to other crawls; say "
                "--yes to cancel it all the same"
            )
        keys = CrawlKeys(place.namespace, crawl_id)
        done, live = store.call(cancel_call(keys, ttl=Config().lease_ttl))
        if not done:
            raise CrawlClosed(crawl_id)
        _retire(store, place.namespace, seen)
        if not live:
            _forget_payloads(store, collection, crawl_id)
    show([Text(f"{crawl_id} is canceled" if done == 1 else f"{crawl_id} was canceled")])
    if live:
        say(f"its {live:,} nodes will go; frontier node list --watch shows it")


def _retire(store: BlockingStore, namespace: str, seen: CrawlSnapshot) -> None:
    from frontier.store.client import Call
    from frontier.store.keys import RegistryKeys
    from frontier.store.scripts import CRAWL_RETIRE

    spider = RegistryKeys(namespace).spider(seen.spider)
    store.call(Call.to(CRAWL_RETIRE, [spider], [seen.crawl_id]))


def _forget_payloads(store: BlockingStore, collection: str, crawl_id: str) -> None:
    """What the last node of a canceled crawl does; there is none."""
    from frontier.collection.commit import Collection

    Collection(store, collection, crawl_id, revisits=False).cancel()


def _remove(store: BlockingStore, namespace: str, crawl_id: str) -> None:
    from frontier.node.remove_frontier import remove_frontier
    from frontier.seen.seen_set import stored_crawl

    async def run(calls: Sequence[Call]) -> list[Any]:
        return store.run(calls)

    crawl = stored_crawl(store, namespace, crawl_id)
    with bar("partitions", crawl.config.partitions) as progress:
        asyncio.run(remove_frontier(run, crawl.keys, crawl.config, progress))


app = typer.Typer(help="Run crawls, list them, look at one.", no_args_is_help=True)
app.command()(seed)
app.command()(dead)
app.command()(requeue)
app.command()(rebuild)
app.command()(repair)
app.command()(close)
app.command()(cancel)


@app.command()
@with_store
def run(
    place: Place,
    seeds: Annotated[
        str,
        typer.Option(
            metavar="URL|FILE",
            help="A URL, or a file with one a line, for the spider site.",
        ),
    ] = "",
    spider: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A spider of the Scrapy project that this directory is in.",
        ),
    ] = "",
    nodes: Annotated[int, typer.Option(min=1, max=100, help="Nodes to start.")] = 2,
    scope: Annotated[
        str,
        typer.Option(help="What site follows: host (default), domain, prefix or all."),
    ] = "",
    argument: Annotated[
        list[str] | None,
        typer.Option("-a", metavar="NAME=VALUE", help="An argument of the spider."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", metavar="NAME=VALUE", help="A Scrapy setting."),
    ] = None,
    limit_pages: Annotated[
        int, typer.Option(min=0, help="End the crawl after so many pages.")
    ] = 0,
    limit_time: Annotated[
        float, typer.Option(min=0, help="End it after so many seconds.")
    ] = 0,
    limit_bytes: Annotated[
        int, typer.Option(min=0, help="End it after so many bytes of responses.")
    ] = 0,
    warc_dir: WarcDir = WARC_DIR,
) -> None:
    """Crawl with several nodes on this machine, then print the report.

    With --seeds, the spider site that comes with this package; with --spider, one of
    your own. An interrupted crawl goes on when it is run again. Nodes of the same
    store that run already, here or on other machines, take part.
    """
    from frontier.cli.crawl_run import (
        SITE,
        Plan,
        complain_of,
        configuration,
        logs,
        site_arguments,
    )
    from frontier.cli.crawl_run import run as run_plan
    from frontier.cli.project import Project

    limits = {"pages": limit_pages, "time": limit_time, "bytes": limit_bytes}
    settings = _with_limits(parse_pairs("-s", setting or []), limits)
    arguments = parse_pairs("-a", argument or [])
    if bool(seeds) == bool(spider) or (spider and scope):
        raise ConfigurationError(
            "either --seeds, with or without --scope, for the spider site, or --spider "
            "for one of your own, whose arguments are given with -a"
        )
    if spider:
        project = Project.of(spider, settings)
    else:
        arguments = {**site_arguments(seeds, scope or "host"), **arguments}
        project = Project.bundled()
    config = configuration(settings, place.store_dir, warc_dir, project.settings)
    plan = Plan(
        project=project,
        spider=spider or SITE,
        arguments=arguments,
        nodes=nodes,
        redis_url=place.redis_url,
        config=config,
        settings=settings,
    )
    outcome = run_plan(plan)
    if outcome.snapshot is not None:
        files = WarcFiles.of(config.warc_dir, outcome.snapshot.crawl_id)
        show([*report(outcome.snapshot, files), *logs(outcome.nodes)])
    complain_of(outcome.nodes)
    if outcome.snapshot is not None and outcome.snapshot.ended_at:
        say(f"{outcome.snapshot.crawl_id} {outcome.snapshot.ended_at}")
    if outcome.snapshot is not None and outcome.snapshot.harmed:
        complain(outcome.snapshot.harm)
    for line in outcome.too_late:
        complain(line)
    if outcome.exit_code is ExitCode.INTERRUPTED:
        complain("interrupted; a crawl that is open goes on when it is run again")
    raise typer.Exit(outcome.exit_code)


def _with_limits(
    settings: dict[str, str], limits: Mapping[str, float]
) -> dict[str, str]:
    """*settings*, and those that set *limits*, where they are not 0.

    Raises:
        ConfigurationError: One of them is set already.
    """
    from frontier.node.crawl_limits import LIMITS

    for name, value in limits.items():
        setting = LIMITS[name].setting
        if value and setting in settings:
            raise ConfigurationError(
                f"-s {setting} and --limit-{name} are the same; give one of them"
            )
        if value:
            settings[setting] = f"{value}"
    return settings


@app.command("list")
@with_namespace
def list_all(
    place: Place,
    as_json: Json = False,
) -> None:
    """List all crawls in the store, the newest first."""
    from frontier.status.snapshot import DAMAGED, list_crawls

    with place.connected() as store:
        crawls = list_crawls(store, place.namespace)
    damaged = [crawl.crawl_id for crawl in crawls if crawl.state == DAMAGED]
    if as_json:
        show_json({"crawls": [asdict(crawl) for crawl in crawls]})
    elif crawls:
        show([crawl_table([_row(crawl) for crawl in crawls])])
    else:
        show([Text("no crawls yet")])
    for crawl_id in damaged:
        complain(
            f"the key {CrawlKeys(place.namespace, crawl_id).meta()} of {crawl_id} "
            "is damaged: delete it; frontier crawl rebuild then makes the crawl again "
            "from journals, and frontier crawl close ends it"
        )
    others = [crawl for crawl in crawls if crawl.schema not in {"", f"{SCHEMA}"}]
    for crawl in others:
        complain(str(OtherSchema(crawl.crawl_id, crawl.schema, SCHEMA)))
    if damaged or others:
        raise typer.Exit(ExitCode.INCOMPLETE)


@app.command()
@with_crawl
def status(
    place: Place,
    warc_dir: WarcDir = WARC_DIR,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png", help="Draw the bytes saved, by type and by host."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Report on a crawl, running or not."""
    from frontier.status.snapshot import snapshot

    with place.connected() as store:
        seen = snapshot(store, place.namespace, place.crawl_id(store))
    files = WarcFiles.of(warc_dir.absolute(), seen.crawl_id)
    if plot is not None:
        draw_shares(plot, seen)
    if as_json:
        found = [{"name": name, "bytes": size} for name, size in files.sizes]
        warcs = {"directory": str(files.directory), "files": found}
        show_json({**asdict(seen), "warcs": warcs})
    else:
        show(report(seen, files))
    if seen.lost:
        complain(str(CrawlLost(seen.crawl_id)))
        raise typer.Exit(ExitCode.CRAWL_FAILED)
    if seen.harmed:
        complain(seen.harm)
        raise typer.Exit(ExitCode.INCOMPLETE)


def parse_pairs(option: str, given: list[str]) -> dict[str, str]:
    """What was *given* with *option*, each ``NAME=VALUE``.

    Raises:
        ConfigurationError: One of them is not of that form.
    """
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or (option == "-s" and not name.isidentifier()):
            raise ConfigurationError(f"{option} {text}: must be NAME=VALUE")
        pairs[name] = value
    return pairs


def _row(crawl: CrawlSummary) -> list[str]:
    created = datetime.fromtimestamp(crawl.created_ms / 1000, UTC).astimezone()
    lasted = "-"
    if crawl.finished_ms:
        lasted = duration((crawl.finished_ms - crawl.created_ms) / 1000)
    when = f"{created:%Y-%m-%d %H:%M:%S}" if crawl.created_ms else "-"
    state, nodes = crawl.state, str(crawl.nodes)
    if crawl.kind == "dupefilter":
        state, nodes = crawl.kind, "-"
    return [crawl.crawl_id, crawl.spider, state, when, lasted, nodes]


def draw_shares(path: Path, seen: CrawlSnapshot) -> None:
    """Draw the bytes that revisits saved in *seen*."""
    from frontier.cli.plots import draw_saved_bytes

    shares = seen.totals.shares
    draw_saved_bytes(
        path,
        {
            title: {n: (s.hit_bytes, s.handled_bytes) for n, s in shares[kind].items()}
            for kind, title in (("mimes", "by media type"), ("hosts", "by host"))
            if kind in shares
        },
    )
