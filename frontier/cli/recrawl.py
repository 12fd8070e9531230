"""``frontier recrawl``: see what is due, have pages visited now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.command import Commands
from frontier.cli.options import CrawlOptions, Output
from frontier.cli.output import ExitCode, bar, end_with, facts, table
from frontier.errors import ConfigurationError
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.queue.purge import Hastening
    from frontier.seen.seen_set import StoredCrawl
    from frontier.status.schedules import Intervals, Waiting

app = Commands("See which pages are due, and visit pages now.")


@app.command()
def status(
    options: CrawlOptions,
    output: Output,
    hosts: Annotated[
        int,
        typer.Option(min=0, max=10_000, metavar="N", help="How many hosts to list."),
    ] = 20,
    sample: Annotated[
        int,
        typer.Option(
            min=0, max=100_000_000, metavar="N", help="How many pages to sample."
        ),
    ] = 100_000,
) -> None:
    """Show what waits until it is due, and at which intervals.

    Counts are of all pages; hosts and intervals are of a sample.
    """
    from frontier.status.schedules import waiting_of

    with options.connected() as store:
        crawl = options.crawl(store)
        partitions = crawl.config.partitions
        with bar("partitions", 2 * partitions) as progress:
            found = waiting_of(
                store, crawl.keys, partitions, sample=sample, progress=progress
            )
    output.result(_status_facts(crawl, found, hosts), _status_text(crawl, found, hosts))
    end_with(
        [
            f"left out: {printable(key)} is damaged; see frontier crawl repair"
            for key in found.damaged
        ]
    )


def _status_facts(crawl: StoredCrawl, found: Waiting, hosts: int) -> dict[str, Any]:
    return {
        "crawl_id": crawl.keys.crawl_id,
        "waiting": found.waiting,
        "due": found.ready + found.overdue,
        "overdue": found.overdue,
        "next_hour": found.next_hour,
        "sampled": found.sampled,
        "unscheduled": found.unscheduled,
        "unreadable": found.unreadable,
        "interval_seconds": _interval_facts(found.intervals),
        "hosts": [
            {"host": name, "pages": one.pages, **_interval_facts(one)}
            for name, one in found.largest(hosts)
        ],
        "damaged": [printable(key) for key in found.damaged],
    }


def _interval_facts(one: Intervals) -> dict[str, float]:
    figures = {"min": one.least, "mean": one.mean, "max": one.most}
    return {name: round(seconds, 1) for name, seconds in figures.items()}


def _status_text(
    crawl: StoredCrawl, found: Waiting, hosts: int
) -> Iterator[RenderableType]:
    numbers = [
        ("crawl", crawl.keys.crawl_id),
        ("waiting", f"{found.waiting:,}"),
        ("due", f"{found.ready + found.overdue:,} (new URLs included)"),
        ("overdue", f"{found.overdue:,}"),
        ("next hour", f"{found.next_hour:,}"),
    ]
    if found.unscheduled:
        numbers.append(("no schedule", f"{found.unscheduled:,} of the sample"))
    if found.unreadable:
        numbers.append(("unreadable", f"{found.unreadable:,} of the sample"))
    yield facts(numbers)
    if not found.intervals.pages:
        return
    each = [*found.largest(hosts), ("all", found.intervals)]
    yield Text()
    yield table(
        "host",
        ">pages",
        ">min",
        ">mean",
        ">max",
        rows=[
            (name, f"{one.pages:,}", *map(_told, (one.least, one.mean, one.most)))
            for name, one in each
        ],
    )
    if found.sampled < found.waiting:
        yield Text(f"a sample of {found.sampled:,}, spread over all that waits")


def _told(interval: float) -> str:
    """An interval in words: ``1d2h``; with tenths of a second if it is short."""
    from frontier.feeds.model import format_wait

    return f"{interval:.1f}s" if interval < 60 else format_wait(round(interval))


@app.command()
def now(
    options: CrawlOptions,
    output: Output,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL|PREFIX",
            help="A page; with * at the end, all pages that begin so.",
        ),
    ],
) -> None:
    """Make a page due at once, on whatever node, or all whose URLs begin so.

    If no page has exactly this URL, it is taken for a prefix. Intervals stay.
    """
    from frontier.seeds.load_once import tell_holders

    with options.connected() as store:
        crawl = options.crawl(store)
        hastening = _hastened(store, crawl, url)
        tell_holders(store, crawl.keys, hastening.sooner)
    done = hastening.done
    numbers = {"made_due": done.taken, "unreadable": done.unreadable}
    output.rows({"crawl_id": crawl.keys.crawl_id, **numbers})
    if not done.taken:
        none = f"nothing that waits is {printable(url[:200])}, or begins so"
        end_with([none], ExitCode.NOT_FOUND)


def _hastened(store: Any, crawl: StoredCrawl, given: str) -> Hastening:
    """Make due what *given* means: a URL, or else how URLs begin."""
    from frontier.queue.purge import Hastening

    partitions = _partitions_of(crawl, given)
    prefix = given.removesuffix("*")
    meanings = [lambda url: url.startswith(prefix)]
    if prefix == given:
        meanings.insert(0, lambda url: url == given)
    for is_meant in meanings:
        hastening = Hastening(store, crawl.keys, is_meant)
        with bar("partitions", len(partitions)) as progress:
            for count, _ in enumerate(hastening.run(partitions), 1):
                progress(count)
        if hastening.done.taken:
            break
    return hastening


def _partitions_of(crawl: StoredCrawl, given: str) -> list[int]:
    """Where URLs are that begin as *given*: one, if that names a whole host.

    Raises:
        ConfigurationError: It is not the beginning of a URL.
    """
    from urllib.parse import urlsplit

    from frontier.urls.partition import QueueAddresses

    config = crawl.config
    if not given.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{printable(given[:200])!r} must begin with http:// or https://"
        )
    try:
        is_whole = bool(urlsplit(given).hostname) and given.count("/") > 2
    except ValueError as error:
        raise ConfigurationError(f"{printable(given[:200])!r}: {error}") from None
    if not is_whole or config.host_shards > 1:
        return list(range(config.partitions))
    if config.queue_key not in {"host", "domain"}:
        return list(range(config.partitions))
    return [QueueAddresses(config).of(given, bytes(20)).partition]
