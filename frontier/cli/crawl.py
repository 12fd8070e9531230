"""``frontier crawl``: run crawls, list them, look at one, end one; dead letters."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frontier.cli.command import (
    Archive,
    Commands,
    ListOptions,
    ReportOptions,
    Scrapy,
    StoreOptions,
    argument,
    flag,
    option,
    options,
    parsed,
)
from frontier.cli.output import ExitCode, Shown, complain, say, show, table
from frontier.errors import ConfigurationError, OtherSchema
from frontier.status.text import duration, local_moment as when
from frontier.status.validate import printable, text
from frontier.store.keys import SCHEMA, CrawlKeys

if TYPE_CHECKING:
    from frontier.cli.crawl_run import Outcome, Plan
    from frontier.status.views import CrawlSummary


@options
class RunOptions(Archive, Scrapy, StoreOptions):
    """What `run` crawls, with which nodes, and how far."""

    other: str = argument("", default="")
    """What was given without an option, such as the name of a spider: not enough."""
    seeds: str = option(
        "",
        "URL|FILE",
        "A URL, or a file of URLs, one per line, for the built-in spider.",
    )
    spider: str = option(
        "", "NAME", "A spider of the Scrapy project in this directory."
    )
    feeds: str = option(
        "",
        "FILE|URL",
        "Sites to follow, for the built-in spider: feeds.toml, or the URL of a "
        "database.",
    )
    nodes: int = option(2, "N", "Nodes to start.", within=(1, 100))
    scope: str = option(
        "",
        "SCOPE",
        "What the built-in spider follows: host (default), domain, prefix or all.",
    )
    argument: list[str] = option(
        (), "NAME=VALUE", "An argument of the spider; may be repeated.", "-a"
    )
    output: list[str] = option(
        (),
        "FILE",
        "Append the items to this feed; %(frontier_node)s in its name stands for the "
        "node.",
        "--output",
        "-o",
    )
    join: bool = flag("Join an open crawl, or wait for one; never begin one.")
    limit_pages: int = option(
        0, "N", "End the crawl after this many pages.", within=(0, None)
    )
    limit_time: str = option(
        "",
        "TIME",
        "End the crawl after this many seconds, or 1h 30m.",
        type=parsed("--limit-time", "limit_time"),
    )
    limit_bytes: int = option(
        0,
        "BYTES",
        "End the crawl after this many bytes of responses.",
        within=(0, None),
    )


def run(given: RunOptions) -> None:
    """Crawl with several nodes on this machine, then print the report.

    Give --seeds or --feeds for a built-in spider, or --spider for one of your own. To
    go on with an interrupted crawl, run it again. Nodes that already run on the same
    store, here or on other machines, take part.

    Examples:
        frontier crawl run --seeds https://example.org/ --limit-pages 1000
        frontier crawl run --spider NAME --nodes 3 -a year=2026 -s DOWNLOAD_DELAY=1
    """
    from frontier.cli.crawl_run import run as run_plan

    plan = _planned(given)
    outcome = run_plan(plan)
    _tell(plan, outcome)
    code = ExitCode.INCOMPLETE if plan.left_out else ExitCode.OK
    raise click.exceptions.Exit(outcome.exit_code or code)


def _planned(given: RunOptions) -> Plan:
    from frontier.cli.crawl_run import (
        FOLLOWER,
        SITE,
        Plan,
        configuration,
        feeds_arguments,
        from_here,
        site_arguments,
    )
    from frontier.cli.projects import Project

    settings = _with_limits(parse_pairs("-s", given.setting), given)
    if given.join:
        settings["FRONTIER_JOIN_ONLY"] = "True"
    arguments = parse_pairs("-a", given.argument)
    chosen = [name for name in ("seeds", "feeds", "spider") if getattr(given, name)]
    if len(chosen) != 1 or given.other or (given.scope and not given.seeds):
        raise ConfigurationError(
            "name one thing to crawl: --seeds URL|FILE (and --scope) or --feeds for a "
            "built-in spider, or --spider NAME for your own (its arguments with -a)"
        )
    left_out = ""
    if given.spider:
        project = Project.of(given.spider, settings)
    else:
        if given.feeds:
            named = feeds_arguments(given.feeds)
        else:
            named, left_out = site_arguments(given.seeds, given.scope or "host")
        arguments, project = {**named, **arguments}, Project.bundled()
    if project.is_ours:
        settings = from_here(settings)
    return Plan(
        project=project,
        spider=given.spider or (FOLLOWER if given.feeds else SITE),
        arguments=arguments,
        nodes=given.nodes,
        redis_url=given.redis_url,
        config=configuration(
            settings, given.store_dir, given.warc_dir, project.settings
        ),
        settings=settings,
        feeds=[
            uri if "://" in uri else str(Path(uri).absolute()) for uri in given.output
        ],
        left_out=left_out,
    )


def _tell(plan: Plan, outcome: Outcome) -> None:
    from frontier.cli.crawl_run import logs
    from frontier.cli.report import WarcFiles, crawl_report

    seen, watched = outcome.crawl, outcome.watched
    if watched is not None:
        files = WarcFiles.of(plan.config.warc_dir, watched.crawl.crawl_id)
        show([*crawl_report(watched, files), *logs(outcome.nodes)])
    outcome.nodes.complain()
    if seen is not None and seen.ended_at:
        say(f"{seen.crawl_id} {seen.ended_at}")
    of_crawl = [seen.harm, seen.left_out] if seen is not None else []
    for line in filter(None, [*of_crawl, plan.left_out]):
        complain(line)
    if outcome.is_whole:
        names = ", ".join(node.node_id for node in outcome.nodes.failed())
        complain(f"the crawl is complete: other nodes took over the work of {names}")
    if outcome.exit_code is ExitCode.INTERRUPTED:
        how = " before a node entered a crawl"
        if seen is not None:
            how = "; to go on with the crawl, run the same command again"
        complain(f"interrupted{how}")


def _with_limits(settings: dict[str, str], given: RunOptions) -> dict[str, str]:
    """*settings*, with those that set the limits that are not 0.

    Raises:
        ConfigurationError: One of them is set already, or is not valid.
    """
    from frontier.node.ends import LIMITS

    limits = {
        "pages": given.limit_pages,
        "time": given.limit_time,
        "bytes": given.limit_bytes,
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


def list_all(given: ListOptions) -> Shown:
    """List the crawls in the store, the newest first."""
    from frontier.status.document import crawls_document
    from frontier.status.snapshot import DAMAGED, list_crawls

    with given.connected() as store:
        crawls = list_crawls(store, given.namespace)
    faults = [
        f"the key {CrawlKeys(given.namespace, crawl.crawl_id).meta} of "
        f"{crawl.crawl_id} is damaged: delete it; frontier crawl rebuild then makes "
        "the crawl again from journals; without them the next node begins another, "
        "and frontier crawl delete removes the rest of this one"
        for crawl in crawls
        if crawl.state == DAMAGED
    ]
    others = [crawl for crawl in crawls if crawl.schema not in {"", f"{SCHEMA}"}]
    faults += [str(OtherSchema(c.crawl_id, c.schema, SCHEMA)) for c in others]
    columns = ("crawl", "spider", "state", "created", "lasted", "nodes")
    return Shown(
        crawls_document(crawls),
        [table(*columns, rows=map(_row, crawls)) if crawls else "no crawls yet"],
        faults=faults,
    )


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
    lasted = "-"
    if crawl.finished_ms:
        lasted = duration((crawl.finished_ms - crawl.created_ms) / 1000)
    began = when(crawl.created_ms) if crawl.created_ms else "-"
    state = "paused" if crawl.paused else crawl.state
    nodes = f"{crawl.nodes}" if crawl.nodes or state in {"open", "paused"} else "-"
    if crawl.kind == "dupefilter":
        state, nodes = crawl.kind, "-"
    return [crawl.crawl_id, crawl.spider, state, began, lasted, nodes]


def dead(given: ReportOptions) -> Shown:
    """List the dead letters: requests that were given up, and why."""
    from frontier.queue.dead_letters import counted, letters

    with given.connected() as store:
        crawl = given.stored(store)
        counts = counted(store, crawl.keys, crawl.config.partitions)
        found, total = list(letters(store, crawl.keys, counts)), sum(counts.values())
    rows = [
        {
            "url": printable(one.url),
            "reason": text(one.reason),
            "queue": printable(one.queue),
            "partition": one.partition,
        }
        for one in found
    ]
    lines = [f"{row['url'] or '(unreadable request)'}: {row['reason']}" for row in rows]
    if total > len(found):
        lines.append(f"and {total - len(found):,} more")
    return Shown(
        {"crawl_id": crawl.keys.crawl_id, "dead": total, "letters": rows},
        lines or ["nothing was given up"],
    )


@options
class RequeueOptions(ReportOptions):
    """Which dead letters are queued again."""

    urls: list[str] = argument("URL", default=())
    every: bool = flag("Requeue every dead letter that can be read.", "--all")


def requeue(given: RequeueOptions) -> Shown:
    """Queue dead letters again: those of a URL, or all. Their hosts are asked now.

    A finished crawl is open again then: start its spider to go on with it.

    Examples:
        frontier crawl requeue https://example.org/page
        frontier crawl requeue --all
    """
    from frontier.seeds.requeue import requeue as requeue_letters

    wanted = {url.strip() for url in given.urls}
    if bool(wanted) == given.every:
        raise ConfigurationError("requeue needs either URLs or --all")
    with given.connected() as store:
        missing = set(wanted)
        crawl_id = given.crawl_id(store)
        done = requeue_letters(store, given.namespace, crawl_id, missing or None)
    notes = list[str]()
    if done.open_crawl:
        name = "" if done.open_crawl == done.crawl_id else done.crawl_id
        setting = f" with FRONTIER_CRAWL_ID={name}" * bool(name)
        notes.append(
            f"{done.crawl_id} had ended; to fetch them, start its spider{setting}"
        )
    return Shown(
        asdict(done),
        [f"{done.requeued:,} requests are queued again, {done.left:,} are left"],
        notes,
        [
            f"{printable(url)!r} was not given up, or was requeued already"
            for url in sorted(missing)
        ],
    )


app = Commands(
    "Run crawls, look at them, repair them, end them.",
    {
        "run": run,
        "status": "crawl_status.status",
        "list": list_all,
        "seed": "seeds.seed",
        "pause": "crawl_control.pause",
        "resume": "crawl_control.resume",
        "set": "crawl_control.change",
        "exclude": "crawl_control.exclude",
        "retry": "crawl_control.retry",
        "dead": dead,
        "requeue": requeue,
        "items": "crawl_items.items",
        "repair": "crawl_repair.repair",
        "rebuild": "crawl_repair.rebuild",
        "end": "crawl_end.end",
        "delete": "crawl_end.delete",
    },
)
