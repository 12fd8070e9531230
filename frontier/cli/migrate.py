"""``frontier migrate``: take over what another scheduler has left."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontier.cli.command import Commands
from frontier.cli.options import (
    WARC_DIR,
    Output,
    ScrapySettings,
    StoreOptions,
    connected,
)
from frontier.cli.output import ExitCode, bar, complain, facts, say
from frontier.errors import ConfigurationError
from frontier.settings.config import PREFIX
from frontier.status.validate import printable
from frontier.store.address import REDIS_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from frontier.migrate.migration import LeftOut, Migration
    from frontier.migrate.scrapy_redis import Source
    from frontier.queue.push import Push
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore

LEFT_OUT = Path("scrapy-redis-left-out.jsonl")
OF_ADDONS = 15
"""Scrapy's priority of what add-ons set."""
REASONS = 5
"""Reasons for which requests were left out that are told."""


@dataclass(frozen=True, slots=True)
class From:
    """What is taken over, and from where."""

    spider: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A spider of the Scrapy project in this directory.",
        ),
    ]
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL",
            help="The server of scrapy-redis (default: the project's REDIS_URL, or "
            "--redis-url).",
        ),
    ] = ""
    queue_key: Annotated[
        str,
        typer.Option(
            metavar="KEY", help="Its queue (default: as SCHEDULER_QUEUE_KEY says)."
        ),
    ] = ""
    dupefilter_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="Its filter (default: as SCHEDULER_DUPEFILTER_KEY says).",
        ),
    ] = ""
    no_dupefilter: Annotated[
        bool,
        typer.Option("--no-dupefilter", help="Leave the filter where it is."),
    ] = False
    seen_urls: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of URLs that count as seen, one per line.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Into:
    """Where it goes."""

    crawl: Annotated[
        str,
        typer.Option(
            "--crawl",
            metavar="CRAWL_ID",
            help="The crawl (default: the spider's open one, or a new one).",
        ),
    ] = ""
    setting: ScrapySettings = None
    left_out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Where to write the requests that are left out."
        ),
    ] = LEFT_OUT
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read everything, write nothing."),
    ] = False


app = Commands("Take over what another scheduler has left.")


@app.command("scrapy-redis")
def scrapy_redis(what: From, into: Into, options: StoreOptions, output: Output) -> None:
    """Take over the queue and filter of a scrapy-redis spider. Changes nothing there.

    Run it in the Scrapy project, when scrapy-redis has stopped. The requests go to
    the open crawl of the spider, or to a new one, with their priorities, callbacks
    and meta. What is more than plain data is left out and named. Running it again
    queues nothing twice.
    """
    from frontier.cli.crawl import parse_pairs
    from frontier.cli.project import crawler_of
    from frontier.migrate.migration import LeftOut, Migration
    from frontier.migrate.scrapy_redis import Source
    from frontier.store.client import BlockingStore

    crawler = crawler_of(what.spider, parse_pairs("-s", into.setting or []))
    config = _config(crawler, into, options)
    server = _server(crawler, options.redis_url)
    origin = BlockingStore.from_settings(_source(crawler, what.source, server))
    file = None if into.dry_run else into.left_out
    with (
        connected(server, config.store_dir, create=True) as store,
        LeftOut(file) as left,
    ):
        source = Source(origin, _keys(crawler, what), has_filter=not what.no_dupefilter)
        there = server or {"REDIS_URL": store.where}
        migration = Migration(crawler, config, store, there, source, left)
        migration.require_known()
        marked = Marked()
        if into.dry_run:
            with bar("requests", source.queued) as progress:
                migration.look(progress)
        else:
            keys = migration.enter()
            marked.crawl_id = keys.crawl_id
            if source.seen:
                with bar("fingerprints", source.seen) as progress:
                    migration.fill_seen(keys, progress, _waits)
            with bar("requests", source.queued) as progress:
                migration.fill(keys, progress, _waits)
            if what.seen_urls is not None:
                _mark(store, migration, what.seen_urls, marked)
        _show(source, migration, marked, left, output, dry=into.dry_run)
        code = _tell(source, migration, marked, left, file)
    if code:
        raise typer.Exit(code)


@dataclass(slots=True)
class Marked:
    """What was marked as seen of a file, in the crawl that everything goes to."""

    crawl_id: str = ""
    urls: int = 0
    faulty: int = 0
    """Lines that are no URLs."""


def _mark(store: BlockingStore, migration: Migration, file: Path, done: Marked) -> None:
    """Have the crawl have seen the URLs of *file*; name the other lines."""
    from frontier.cli.project import Identities, urls_in
    from frontier.queue.push import TEST, Push
    from frontier.seen.seen_set import stored_crawl

    crawl = stored_crawl(store, migration.config.namespace, done.crawl_id)
    identities = Identities(crawl)

    def pushes() -> Iterator[tuple[int, Push]]:
        for line in urls_in(str(file)):
            if not line.url or line.url.startswith("#"):
                continue
            try:
                found = identities.of(line.url, line.place)
            except ConfigurationError as error:
                done.faulty += 1
                if done.faulty <= REASONS:
                    complain(f"{error}; skipped")
                continue
            done.urls += 1
            progress(done.urls)
            yield found.partition, Push(TEST, found.mark, "", 0, b"")

    with bar("URLs", None) as progress:
        migration.mark(crawl.keys, pushes())


def _show(
    source: Source,
    migration: Migration,
    marked: Marked,
    left: LeftOut,
    output: Output,
    *,
    dry: bool,
) -> None:
    queue, known = migration.queue, migration.filter
    said: dict[str, Any] = {
        "crawl_id": marked.crawl_id,
        "source": source.where,
        "queue_key": source.keys.queue,
        "queue": asdict(queue),
        "dupefilter_key": source.keys.seen,
        "dupefilter": asdict(known),
        "start_urls": source.starts,
        "seen_urls": marked.urls,
        "left_out": left.reasons,
        "dry_run": dry,
    }
    rows = [
        ("crawl", marked.crawl_id or "none, as this is a dry run"),
        ("from", printable(f"{source.keys.queue} on {source.where}")),
        ("requests there", f"{queue.source:,}"),
        ("would be queued" if dry else "queued", f"{queue.queued:,}"),
        ("seen already", f"{queue.seen_already:,}"),
        ("left out", f"{queue.left_out:,}"),
        ("fingerprints there", f"{known.source:,}"),
        ("imported", f"{known.imported:,}, {known.added:,} of them now"),
        ("of what is left out", f"{known.unfetched:,}, which are not imported"),
        ("URLs marked as seen", f"{marked.urls:,}"),
        ("start URLs there", f"{source.starts:,}"),
    ]
    output.result(said, [facts(rows)])


def _tell(
    source: Source,
    migration: Migration,
    marked: Marked,
    left: LeftOut,
    file: Path | None,
) -> ExitCode:
    """Say what was not taken over; return the exit code."""
    known, keys = migration.filter, source.keys
    ordered = sorted(left.reasons.items(), key=lambda one: -one[1])
    faults = [f"{count:,} left out: {reason}" for reason, count in ordered[:REASONS]]
    if len(ordered) > REASONS:
        faults.append(f"and for {len(ordered) - REASONS:,} other reasons")
    if ordered and file:
        faults.append(f"what is left out is in {file}")
    if known.left_out:
        faults.append(f"{known.left_out:,} members of {keys.seen} are no fingerprints")
    if marked.faulty:
        faults.append(f"{marked.faulty:,} lines of the file are no URLs")
    if known.lacking:
        faults.append(
            f"no word from {', '.join(known.lacking[:REASONS])}: each asks for what "
            "was seen with its next heartbeat, unless it is dead; till then it may "
            "fetch it"
        )
    if source.has_changed():
        faults.append(
            f"{keys.queue} or {keys.seen} on {source.where} has changed meanwhile: "
            "stop what crawls with scrapy-redis, and repeat this"
        )
    for line in faults:
        complain(line)
    if source.starts:
        say(
            f"the {source.starts:,} start URLs of {keys.starts} stay there: if that "
            "is on the nodes' store, nodes take them as scrapy-redis did"
        )
    return ExitCode.INCOMPLETE if faults else ExitCode.OK


def _waits() -> None:
    say("another command is taking over this queue; waiting for it")


def _config(crawler: Crawler, into: Into, options: StoreOptions) -> Config:
    from frontier.cli.crawl import parse_pairs
    from frontier.cli.crawl_run import configuration

    given = parse_pairs("-s", into.setting or [])
    project = {n: v for n, v in crawler.settings.items() if n.startswith(PREFIX)}
    config = configuration(given, options.store_dir, WARC_DIR, project)
    return replace(config, crawl_id=into.crawl or config.crawl_id)


def _server(crawler: Crawler, redis_url: str) -> dict[str, Any]:
    """The ``REDIS_*`` settings of the crawl's nodes; empty for an embedded store."""
    if redis_url:
        return {"REDIS_URL": redis_url}
    return {n: crawler.settings[n] for n in REDIS_SETTINGS if crawler.settings[n]}


def _source(crawler: Crawler, source: str, server: dict[str, Any]) -> dict[str, Any]:
    """The ``REDIS_*`` settings of scrapy-redis: the project's, or the nodes' own.

    Raises:
        ConfigurationError: Nobody has named a server.
    """
    settings = crawler.settings
    named_here = [
        name
        for name in REDIS_SETTINGS
        if settings[name] and (settings.getpriority(name) or 0) > OF_ADDONS
    ]
    if source:
        return {"REDIS_URL": source}
    if not (named_here or server):
        raise ConfigurationError(
            "neither the project nor --redis-url names a server; name that of "
            "scrapy-redis with --from"
        )
    return {name: settings[name] for name in named_here} or server


def _keys(crawler: Crawler, what: From) -> Any:
    from frontier.migrate.scrapy_redis import Keys, named

    redis_key = str(getattr(crawler.spidercls, "redis_key", None) or "")
    keys = Keys.of(crawler.settings, what.spider, redis_key)
    return replace(
        keys,
        queue=named(what.queue_key, what.spider) or keys.queue,
        seen=named(what.dupefilter_key, what.spider) or keys.seen,
    )
