"""``frontier migrate``: take over what another scheduler has left."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.cli.command import (
    WARC_DIR,
    Commands,
    Output,
    Scrapy,
    StoreOptions,
    connected,
    flag,
    option,
    options,
)
from frontier.cli.output import Shown, bar, complain, say
from frontier.errors import ConfigurationError
from frontier.settings.values import PREFIX
from frontier.status.text import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from frontier.migrate.migration import LeftOut, Migration
    from frontier.migrate.scrapy_redis import Source
    from frontier.queue.push import Push
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore

LEFT_OUT = Path("scrapy-redis-left-out.jsonl")
REASONS = 5
"""How many reasons for leaving requests out are shown."""


@options
class TakeOver(Output, Scrapy, StoreOptions):
    """What is taken over, from where, and where it goes."""

    spider: str = option(
        ..., "NAME", "A spider of the Scrapy project in this directory."
    )
    source: str = option(
        "",
        "URL",
        "The server of scrapy-redis (default: the project's REDIS_URL, or "
        "--redis-url).",
        "--from",
    )
    queue_key: str = option(
        "", "KEY", "Its queue (default: as SCHEDULER_QUEUE_KEY says)."
    )
    dupefilter_key: str = option(
        "", "KEY", "Its filter (default: as SCHEDULER_DUPEFILTER_KEY says)."
    )
    no_dupefilter: bool = flag("Leave the filter where it is.")
    seen_urls: Path | None = option(
        None, "FILE", "A file of URLs that count as seen, one per line."
    )
    crawl: str = option(
        "",
        "CRAWL_ID",
        "The crawl (default: the spider's open one, or a new one).",
        "--crawl",
    )
    left_out: Path = option(
        LEFT_OUT, "FILE", "Where to write the requests that are left out."
    )
    dry_run: bool = flag("Read everything, write nothing.")


def scrapy_redis(given: TakeOver) -> Shown:
    """Take over the queue and filter of a scrapy-redis spider. Changes nothing there.

    Run it in the Scrapy project, when scrapy-redis has stopped. The requests go to
    the open crawl of the spider, or to a new one, with their priorities, callbacks
    and meta. Requests with more than plain data are left out and named. Running it
    again queues nothing twice.
    """
    from frontier.cli.crawl import parse_pairs
    from frontier.cli.projects import crawler_of
    from frontier.migrate.migration import LeftOut, Migration
    from frontier.migrate.scrapy_redis import (
        Keys,
        Source,
        server_of_nodes,
        server_of_scrapy_redis,
    )
    from frontier.store.client import BlockingStore

    crawler = crawler_of(given.spider, parse_pairs("-s", given.setting))
    config = _config(crawler, given)
    server = server_of_nodes(crawler.settings, given.redis_url)
    where = server_of_scrapy_redis(crawler.settings, given.source, server)
    origin = BlockingStore.from_settings(where)
    file = None if given.dry_run else given.left_out
    starts = getattr(crawler.spidercls, "redis_key", None)
    own = (given.queue_key, given.dupefilter_key, starts)
    with connected(server, config.store_dir, create=True) as store:
        left = LeftOut(file)
        keys = Keys.of(crawler.settings, given.spider, *own)
        source = Source(origin, keys, has_filter=not given.no_dupefilter)
        there = server or {"REDIS_URL": store.where}
        waits = partial(
            say, "another command is taking over this queue; waiting for it"
        )
        migration = Migration(crawler, config, store, there, source, left, waits)
        migration.require_known()
        crawl_id, urls, faulty = "", 0, 0
        if given.dry_run:
            with bar("requests", source.queued) as progress:
                migration.look(progress)
        else:
            crawl_id = _fill(migration, source)
            if given.seen_urls is not None:
                urls, faulty = _mark(store, migration, given.seen_urls, crawl_id)
        said = {
            "crawl_id": crawl_id,
            **_said(source, migration),
            "seen_urls": urls,
            "left_out": left.reasons,
            "dry_run": given.dry_run,
        }
        faults = _faults(source, migration, faulty, left, file)
        return Shown(said, _rows(said), _notes(source), faults)


def _fill(migration: Migration, source: Source) -> str:
    """Fill the filter and the queue of the crawl; return its id."""
    crawl_id = migration.enter().crawl_id
    if source.seen:
        with bar("fingerprints", source.seen) as progress:
            migration.fill_seen(progress)
    with bar("requests", source.queued) as progress:
        migration.fill(progress)
    return crawl_id


def _mark(
    store: BlockingStore, migration: Migration, file: Path, crawl_id: str
) -> tuple[int, int]:
    """Mark the URLs of *file* as seen in the crawl; name the other lines.

    Return how many there are of both.
    """
    from frontier.queue.push import TEST, Push
    from frontier.requests.identities import Identities, urls_in
    from frontier.seen.seen_set import stored_crawl

    crawl = stored_crawl(store, migration.config.namespace, crawl_id)
    identities, urls, faulty = Identities(crawl), 0, 0

    def pushes() -> Iterator[tuple[int, Push]]:
        nonlocal urls, faulty
        for line in urls_in(str(file)):
            try:
                found = identities.of(line.text, line.place)
            except ConfigurationError as error:
                faulty += 1
                if faulty <= REASONS:
                    complain(f"{error}; skipped")
                continue
            urls += 1
            progress(urls)
            yield found.partition, Push(TEST, found.mark, "", 0, b"")

    with bar("URLs", None) as progress:
        migration.mark(pushes())
    return urls, faulty


def _said(source: Source, migration: Migration) -> dict[str, Any]:
    return {
        "source": source.where,
        "queue_key": source.keys.queue,
        "queue": asdict(migration.queue),
        "dupefilter_key": source.keys.seen,
        "dupefilter": asdict(migration.filter),
        "start_urls": source.starts,
    }


def _notes(source: Source) -> list[str]:
    note = (
        f"the {source.starts:,} start URLs of {source.keys.starts} stay there: if "
        "that is on the nodes' store, nodes take them as scrapy-redis did"
    )
    return [note] * bool(source.starts)


def _rows(said: dict[str, Any]) -> dict[str, Any]:
    queue, known, dry = said["queue"], said["dupefilter"], said["dry_run"]
    return {
        "crawl": said["crawl_id"] or "none, as this is a dry run",
        "from": f"{said['queue_key']} on {said['source']}",
        "requests there": queue["source"],
        "would be queued" if dry else "queued": queue["queued"],
        "seen already": queue["seen_already"],
        "left out": queue["left_out"],
        "fingerprints there": known["source"],
        "imported": f"{known['imported']:,}, {known['added']:,} of them now",
        "of what is left out": f"{known['unfetched']:,}, which are not imported",
        "URLs marked as seen": said["seen_urls"],
        "start URLs there": said["start_urls"],
    }


def _faults(
    source: Source,
    migration: Migration,
    faulty: int,
    left: LeftOut,
    file: Path | None,
) -> list[str]:
    """What was not taken over."""
    known, keys = migration.filter, source.keys
    ordered = sorted(left.reasons.items(), key=lambda one: -one[1])
    faults = [f"{count:,} left out: {reason}" for reason, count in ordered]
    if ordered and file:
        faults.append(f"what is left out is in {file}")
    if known.left_out:
        faults.append(f"{known.left_out:,} members of {keys.seen} are no fingerprints")
    if faulty:
        faults.append(f"{faulty:,} lines of the file are no URLs")
    if known.lacking:
        faults.append(
            f"no word from {first_of(known.lacking, REASONS)}: each asks for what was "
            "seen with its next heartbeat, unless it is dead; till then it may fetch it"
        )
    if source.has_changed():
        faults.append(
            f"{keys.queue} or {keys.seen} on {source.where} has changed meanwhile: "
            "stop what crawls with scrapy-redis, and repeat this"
        )
    return faults


def _config(crawler: Crawler, given: TakeOver) -> Config:
    from frontier.cli.crawl import parse_pairs
    from frontier.cli.crawl_run import configuration

    settings = parse_pairs("-s", given.setting)
    project = {n: v for n, v in crawler.settings.items() if n.startswith(PREFIX)}
    config = configuration(settings, given.store_dir, WARC_DIR, project)
    return replace(config, crawl_id=given.crawl or config.crawl_id)


app = Commands(
    "Take over what another scheduler has left.", {"scrapy-redis": scrapy_redis}
)
