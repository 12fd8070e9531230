"""``frontier recrawl``: see what is due, have pages visited now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier.cli.command import Commands, ReportOptions, argument, option, options
from frontier.cli.output import ExitCode, Shown, bar, facts, rows_of, table
from frontier.status.text import duration
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from frontier.status.schedules import Intervals, Waiting


@options
class StatusOptions(ReportOptions):
    """How much of what waits is shown."""

    hosts: int = option(20, "N", "How many hosts to list.", within=(0, 10_000))
    sample: int = option(
        100_000, "N", "How many pages to sample.", within=(0, 100_000_000)
    )


def status(given: StatusOptions) -> Shown:
    """Show how many pages wait, when they are due, and their intervals.

    Counts are of all pages; hosts and intervals are of a sample.
    """
    from frontier.status.schedules import waiting_of

    with given.connected() as store:
        crawl = given.stored(store)
        partitions = crawl.config.partitions
        with bar("partitions", 2 * partitions) as progress:
            found = waiting_of(
                store, crawl.keys, partitions, sample=given.sample, progress=progress
            )
    damaged = [printable(key) for key in found.damaged]
    hosts = found.largest(given.hosts)
    said = {
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
            for name, one in hosts
        ],
        "damaged": damaged,
    }
    return Shown(
        said,
        _text(said, found, hosts),
        faults=[
            f"left out: {k} is damaged; see frontier crawl repair" for k in damaged
        ],
    )


def _interval_facts(one: Intervals) -> dict[str, float]:
    figures = {"min": one.least, "mean": one.mean, "max": one.most}
    return {name: round(seconds, 1) for name, seconds in figures.items()}


def _text(
    said: dict[str, Any], found: Waiting, hosts: Sequence[tuple[str, Intervals]]
) -> Iterator[RenderableType]:
    """The numbers of *said*, where new URLs count as due, and a table of *hosts*."""
    numbers = ("crawl_id", "waiting", "due", "overdue", "next_hour")
    faults = [name for name in ("unscheduled", "unreadable") if said[name]]
    yield facts(rows_of({name: said[name] for name in (*numbers, *faults)}))
    if not found.intervals.pages:
        return
    yield ""
    yield table(
        "host",
        ">pages",
        ">min",
        ">mean",
        ">max",
        rows=[
            (name, f"{one.pages:,}", *map(duration, (one.least, one.mean, one.most)))
            for name, one in (*hosts, ("all", found.intervals))
        ],
    )
    if found.sampled < found.waiting:
        yield f"a sample of {found.sampled:,}, spread over all that waits"


@options
class NowOptions(ReportOptions):
    """Which pages are made due."""

    url: str = argument(
        "URL|PREFIX", "A page; with * at the end, all pages that begin so."
    )


def now(given: NowOptions) -> Shown:
    """Make a page due now, or all pages whose URLs begin with a prefix.

    A URL that no page has exactly, or with * at its end, is taken for a prefix.
    Intervals stay as they are.
    """
    from frontier.recrawl.hasten import hastened
    from frontier.seeds.seeder import tell_holders

    with given.connected() as store, bar("partitions", None) as progress:
        crawl = given.stored(store)
        done, hints = hastened(store, crawl, given.url, progress)
        tell_holders(store, crawl.keys, hints)
    numbers = {"made_due": done.taken, "unreadable": done.unreadable}
    said = {"crawl_id": crawl.keys.crawl_id, **numbers}
    if done.taken:
        return Shown(said)
    none = f"nothing that waits is {printable(given.url[:200])}, or begins so"
    return Shown(said, faults=[none], code=ExitCode.NOT_FOUND)


app = Commands(
    "See which pages are due, and visit pages now.", {"status": status, "now": now}
)
