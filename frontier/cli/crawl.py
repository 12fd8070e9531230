"""``frontier crawl``: run crawls, list them, look at one, end one; dead letters."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 (typer evaluates the annotations)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.crawl_repair import rebuild, repair
from frontier.cli.options import (
    WARC_DIR,
    Commands,
    CrawlId,
    CrawlOptions,
    CrawlsOptions,
    Output,
    StoreOptions,
    WarcDir,
    Yes,
)
from frontier.cli.output import ExitCode, complain, say, show, show_json
from frontier.cli.progress import bar
from frontier.cli.report import WarcFiles, crawl_table, duration, report
from frontier.cli.seeds import seed
from frontier.errors import ConfigurationError, CrawlClosed, CrawlLost, OtherSchema
from frontier.status.validate import printable, text
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.cli.crawl_run import Outcome, Plan
    from frontier.queue.dead_letters import Letter
    from frontier.seen.seen_set import StoredCrawl
    from frontier.status.views import CrawlSnapshot, CrawlSummary
    from frontier.store.client import BlockingStore, Call

RemoveFrontier = Annotated[
    bool,
    typer.Option(
        "--remove-frontier",
        help="Also delete its queues and what it has seen, even if it had ended.",
    ),
]
CollectionOfCrawl = Annotated[
    str,
    typer.Option(
        "--collection",
        envvar="FRONTIER_COLLECTION",
        metavar="NAME",
        help="The crawl's collection, if no node runs that knows it.",
    ),
]


def close(
    options: CrawlsOptions,
    crawl_id: CrawlId,
    yes: Yes = False,
    remove_frontier: RemoveFrontier = False,
) -> None:
    """End a crawl that no node runs. What is left in its queues is not fetched.

    Deletes nothing without --remove-frontier. The next node of its spider starts a
    new crawl.
    """
    from frontier.settings.config import Config
    from frontier.status.snapshot import snapshot
    from frontier.store.client import Call
    from frontier.store.scripts import CRAWL_CLOSE

    with options.connected() as store:
        seen = snapshot(store, options.namespace, crawl_id)
        if not yes:
            _require_consent(seen, remove_frontier=remove_frontier)
        keys = CrawlKeys(options.namespace, crawl_id)
        ttl_ms = int(Config().lease_ttl * 1000)
        done = store.call(Call.to(CRAWL_CLOSE, [keys.meta(), keys.nodes()], [ttl_ms]))
        if done == 0:
            complain(f"the crawl {crawl_id} is in use; stop its nodes first")
            raise typer.Exit(ExitCode.IN_USE)
        _retire(store, options.namespace, seen)
        show([Text(f"{crawl_id} is closed" if done == 1 else f"{crawl_id} had ended")])
        if remove_frontier:
            _remove(store, options.namespace, crawl_id)
            show([Text("its queues and what it had seen are removed")])


def _require_consent(seen: CrawlSnapshot, *, remove_frontier: bool) -> None:
    """Raise where a close would lose something."""
    left = seen.queue.ready + seen.queue.reserved
    if left and seen.state == "open":
        raise ConfigurationError(
            f"{left:,} requests of {seen.crawl_id} are not done and would not be "
            "fetched; add --yes to close it"
        )
    if remove_frontier:
        raise ConfigurationError(
            f"what {seen.crawl_id} has seen, {seen.queue.seen:,} URLs, would be "
            "forgotten, and its queues; add --yes to do so"
        )


def cancel(
    options: CrawlsOptions,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: CollectionOfCrawl = "",
) -> None:
    """End a crawl on all its nodes, and do not offer its payloads to other crawls.

    Nodes finish what is in flight, and exit with 0. No node can join it again. WARC
    files stay.
    """
    from frontier.cluster.crawls import cancel_call
    from frontier.settings.config import Config
    from frontier.status.snapshot import snapshot

    with options.connected() as store:
        seen = snapshot(store, options.namespace, crawl_id)
        if seen.state == "open" and not yes:
            left = seen.queue.ready + seen.queue.reserved
            raise ConfigurationError(
                f"{left:,} requests of {crawl_id} are not done and would not be "
                "fetched, and its payloads would not be offered to other crawls; add "
                "--yes to cancel it"
            )
        keys = CrawlKeys(options.namespace, crawl_id)
        done, live = store.call(cancel_call(keys, ttl=Config().lease_ttl))
        if not done:
            raise CrawlClosed(crawl_id)
        _retire(store, options.namespace, seen)
        if not live:
            _forget_payloads(store, collection, crawl_id)
    show([Text(f"{crawl_id} is canceled" if done == 1 else f"{crawl_id} was canceled")])
    if live:
        say(f"its {live:,} nodes will stop; frontier node list --watch shows it")


def _retire(store: BlockingStore, namespace: str, seen: CrawlSnapshot) -> None:
    from frontier.store.client import Call
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


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `run` crawls, with which nodes, and how far."""

    seeds: Annotated[
        str,
        typer.Option(
            metavar="URL|FILE",
            help="A URL, or a file of URLs, one a line, for the built-in spider.",
        ),
    ] = ""
    spider: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A spider of the Scrapy project in this directory.",
        ),
    ] = ""
    nodes: Annotated[
        int, typer.Option(min=1, max=100, metavar="N", help="Nodes to start.")
    ] = 2
    scope: Annotated[
        str,
        typer.Option(
            metavar="SCOPE",
            help="What the built-in spider follows: host (default), domain, prefix "
            "or all.",
        ),
    ] = ""
    argument: Annotated[
        list[str] | None,
        typer.Option(
            "-a",
            metavar="NAME=VALUE",
            help="An argument of the spider; may be repeated.",
        ),
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "--set",
            metavar="NAME=VALUE",
            help="A Scrapy setting; may be repeated.",
        ),
    ] = None
    limit_pages: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            show_default=False,
            help="End the crawl after so many pages.",
        ),
    ] = 0
    limit_time: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            show_default=False,
            help="End the crawl after so many seconds.",
        ),
    ] = 0
    limit_bytes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            show_default=False,
            help="End the crawl after so many bytes of responses.",
        ),
    ] = 0
    warc_dir: WarcDir = WARC_DIR


def run(how: RunOptions, options: StoreOptions) -> None:
    """Crawl with several nodes on this machine, then print the report.

    Give --seeds for the built-in spider, or --spider for one of your own. To go on
    with an interrupted crawl, run it again. Nodes that run on the same store already,
    here or on other machines, take part.
    """
    from frontier.cli.crawl_run import run as run_plan

    plan = _planned(how, options)
    outcome = run_plan(plan)
    _tell(plan, outcome)
    raise typer.Exit(outcome.exit_code)


def _planned(how: RunOptions, options: StoreOptions) -> Plan:
    from frontier.cli.crawl_run import SITE, Plan, configuration, site_arguments
    from frontier.cli.project import Project

    settings = _with_limits(parse_pairs("-s", how.setting or []), how)
    arguments = parse_pairs("-a", how.argument or [])
    if bool(how.seeds) == bool(how.spider) or (how.spider and how.scope):
        raise ConfigurationError(
            "give either --seeds, and --scope if you like, for the built-in spider, or "
            "--spider for one of your own, whose arguments are given with -a"
        )
    if how.spider:
        project = Project.of(how.spider, settings)
    else:
        arguments = {**site_arguments(how.seeds, how.scope or "host"), **arguments}
        project = Project.bundled()
    return Plan(
        project=project,
        spider=how.spider or SITE,
        arguments=arguments,
        nodes=how.nodes,
        redis_url=options.redis_url,
        config=configuration(
            settings, options.store_dir, how.warc_dir, project.settings
        ),
        settings=settings,
    )


def _tell(plan: Plan, outcome: Outcome) -> None:
    from frontier.cli.crawl_run import complain_of, logs

    seen = outcome.snapshot
    if seen is not None:
        files = WarcFiles.of(plan.config.warc_dir, seen.crawl_id)
        show([*report(seen, files), *logs(outcome.nodes)])
    complain_of(outcome.nodes)
    if seen is not None and seen.ended_at:
        say(f"{seen.crawl_id} {seen.ended_at}")
    if seen is not None and seen.harmed:
        complain(seen.harm)
    for line in outcome.too_late:
        complain(line)
    if outcome.exit_code is ExitCode.INTERRUPTED:
        complain("interrupted; to go on with the crawl, run the same command again")


def _with_limits(settings: dict[str, str], how: RunOptions) -> dict[str, str]:
    """*settings*, and those that set the limits, where they are not 0.

    Raises:
        ConfigurationError: One of them is set already.
    """
    from frontier.node.crawl_limits import LIMITS

    limits = {
        "pages": how.limit_pages,
        "time": how.limit_time,
        "bytes": how.limit_bytes,
    }
    for name, value in limits.items():
        setting = LIMITS[name].setting
        if value and setting in settings:
            raise ConfigurationError(
                f"-s {setting} and --limit-{name} are the same; give one of them"
            )
        if value:
            settings[setting] = f"{value}"
    return settings


def list_all(
    output: Output,
    options: CrawlsOptions,
) -> None:
    """List the crawls in the store, the newest first."""
    from frontier.status.snapshot import DAMAGED, list_crawls

    with options.connected() as store:
        crawls = list_crawls(store, options.namespace)
    damaged = [crawl.crawl_id for crawl in crawls if crawl.state == DAMAGED]
    table = crawl_table([*map(_row, crawls)]) if crawls else Text("no crawls yet")
    output.result({"crawls": [asdict(crawl) for crawl in crawls]}, [table])
    for crawl_id in damaged:
        complain(
            f"the key {CrawlKeys(options.namespace, crawl_id).meta()} of {crawl_id} "
            "is damaged: delete it; frontier crawl rebuild then makes the crawl again "
            "from journals, and frontier crawl close ends it"
        )
    others = [crawl for crawl in crawls if crawl.schema not in {"", f"{SCHEMA}"}]
    for crawl in others:
        complain(str(OtherSchema(crawl.crawl_id, crawl.schema, SCHEMA)))
    if damaged or others:
        raise typer.Exit(ExitCode.INCOMPLETE)


def status(
    options: CrawlOptions,
    output: Output,
    warc_dir: WarcDir = WARC_DIR,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png", help="Draw the bytes saved, by type and by host."
        ),
    ] = None,
) -> None:
    """Show the report of a crawl, running or not."""
    from frontier.status.snapshot import snapshot

    with options.connected() as store:
        seen = snapshot(store, options.namespace, options.crawl_id(store))
    files = WarcFiles.of(warc_dir.absolute(), seen.crawl_id)
    if plot is not None:
        draw_shares(plot, seen)
    found = [{"name": name, "bytes": size} for name, size in files.sizes]
    warcs = {"directory": str(files.directory), "files": found}
    output.result({**asdict(seen), "warcs": warcs}, report(seen, files))
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
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name or (option == "-s" and not name.isidentifier()):
            raise ConfigurationError(f"{option} {pair}: must be NAME=VALUE")
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


@dataclass(frozen=True, slots=True)
class _DeadLetters:
    crawl: StoredCrawl
    total: int
    letters: list[Letter]


def dead(
    options: CrawlOptions,
    output: Output,
) -> None:
    """List the dead letters: requests that were given up, and why."""
    with options.connected() as store:
        found = _dead_letters(store, options)
    rows = [
        {
            "url": printable(one.url),
            "reason": text(one.reason),
            "queue": printable(one.queue),
            "partition": one.partition,
        }
        for one in found.letters
    ]
    lines = [f"{row['url'] or '(unreadable request)'}: {row['reason']}" for row in rows]
    if found.total > len(found.letters):
        lines.append(f"and {found.total - len(found.letters):,} more")
    output.result(
        {
            "crawl_id": found.crawl.keys.crawl_id,
            "dead": found.total,
            "letters": rows,
        },
        map(Text, lines or ["nothing was given up"]),
    )


def requeue(
    options: CrawlOptions,
    output: Output,
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", show_default=False)
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Requeue all that can be read.")
    ] = False,
) -> None:
    """Queue dead letters again, in an open crawl: those of a URL, or all."""
    wanted = {url.strip() for url in urls or ()}
    if bool(wanted) == every:
        raise ConfigurationError("requeue needs either URLs or --all")
    with options.connected() as store:
        done = _revive(store, options, wanted, every=every)
    if output.as_json:
        show_json(asdict(done))
    else:
        say(f"{done.requeued:,} requests are queued again, {done.left:,} are left")
    for url in sorted(wanted):
        complain(f"{printable(url)!r} was not given up, or was requeued already")
    if wanted:
        raise typer.Exit(ExitCode.INCOMPLETE)


@dataclass(slots=True)
class _Revived:
    crawl_id: str = ""
    requeued: int = 0
    left: int = 0


def _revive(
    store: BlockingStore, options: CrawlOptions, wanted: set[str], *, every: bool
) -> _Revived:
    """Requeue those that are *wanted*, or *every* one; take what is found from it."""
    from frontier.queue.dead_letters import revive
    from frontier.seeds.load_once import SeedLock, tell_holders

    done = _Revived()
    while True:  # what is read at once is capped
        found = _dead_letters(store, options)
        keys = found.crawl.keys
        chosen = [
            one for one in found.letters if one.url and (every or one.url in wanted)
        ]
        done.crawl_id, done.left = keys.crawl_id, found.total - len(chosen)
        wanted -= {one.url for one in chosen}
        if not chosen:
            return done
        # As for seeds: the crawl must not end while they are on their way.
        lock = SeedLock(store, keys, f"requeue-{secrets.token_hex(8)}", "requeue")
        lock.hold(0)
        count, became_ready = revive(store, keys, chosen)
        tell_holders(store, keys, became_ready)
        lock.done()
        done.requeued += count
        if not count or not done.left:
            return done


def _dead_letters(store: BlockingStore, options: CrawlOptions) -> _DeadLetters:
    from frontier.queue.dead_letters import counted, letters

    crawl = options.crawl(store)
    counts = counted(store, crawl.keys, crawl.config.partitions)
    found = list(letters(store, crawl.keys, counts))
    return _DeadLetters(crawl, sum(counts.values()), found)


app = Commands("Run crawls, look at them, repair them, end them.")
app.command()(run)
app.command()(status)
app.command("list")(list_all)
app.command()(seed)
app.command()(dead)
app.command()(requeue)
app.command()(repair)
app.command()(rebuild)
app.command()(close)
app.command()(cancel)
