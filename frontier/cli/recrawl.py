"""``frontier recrawl``: plan a schedule, see what is due, have pages visited now."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from frontier.cli.options import Commands, CrawlOptions, Output
from frontier.cli.output import ExitCode, bar, complain
from frontier.cli.report import facts as rows_of
from frontier.errors import ConfigurationError
from frontier.settings.values import seconds_of
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.queue.due import Hastened
    from frontier.recrawl.schedule import Schedule
    from frontier.recrawl.simulation import Outcome, Site
    from frontier.seen.seen_set import StoredCrawl
    from frontier.status.schedules import Intervals, Waiting

app = Commands("Plan when pages are fetched again, see what is due, visit pages now.")

WAIT = "WAIT"
"""What stands for a number of seconds, or for ``1h 30m``, in the help."""
ROWS = 8
"""Of a chart of text."""
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE.png", help="Draw pages a day and freshness."),
]


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """A schedule, as the settings of the same names say it."""

    schedule: Annotated[
        str, typer.Option(metavar="KIND", help="adaptive or fixed.")
    ] = "adaptive"
    interval: Annotated[
        str, typer.Option(metavar=WAIT, help="As FRONTIER_RECRAWL_INTERVAL.")
    ] = "1d"
    minimum: Annotated[
        str, typer.Option(metavar=WAIT, help="As FRONTIER_RECRAWL_MIN.")
    ] = "1h"
    maximum: Annotated[
        str, typer.Option(metavar=WAIT, help="As FRONTIER_RECRAWL_MAX.")
    ] = "28d"
    growth: Annotated[
        float, typer.Option(metavar="N", help="As FRONTIER_RECRAWL_GROWTH.")
    ] = 1.5
    decay: Annotated[
        float, typer.Option(metavar="N", help="As FRONTIER_RECRAWL_DECAY.")
    ] = 1.5

    def made(self) -> Schedule:
        """The schedule that they say.

        Raises:
            ConfigurationError: It cannot be.
        """
        from frontier.recrawl.schedule import Kind, Schedule

        if self.schedule not in {Kind.ADAPTIVE, Kind.FIXED}:
            raise ConfigurationError(
                f"--schedule {self.schedule[:40]!r}: must be adaptive or fixed"
            )
        made = Schedule(
            Kind(self.schedule),
            seconds("--interval", self.interval),
            seconds("--minimum", self.minimum),
            seconds("--maximum", self.maximum),
            self.growth,
            self.decay,
        )
        name, reason = made.problem()
        if name:
            raise ConfigurationError(f"--{name} {reason}")
        return made


def seconds(option: str, text: str) -> float:
    """The seconds that the *text* of an *option* means: ``90``, ``0.5``, ``1h 30m``.

    Raises:
        ConfigurationError: It means none.
    """
    try:
        return seconds_of(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None


@app.command()
def plan(
    output: Output,
    options: ScheduleOptions,
    pages: Annotated[
        str, typer.Option(metavar="N", help="Pages of the site: 2000, 50M.")
    ] = "10000",
    days: Annotated[
        float, typer.Option(min=1, max=3660, metavar="N", help="How long it runs.")
    ] = 90,
    fastest: Annotated[
        str,
        typer.Option(metavar=WAIT, help="Between two changes of the liveliest page."),
    ] = "1h",
    exponent: Annotated[
        float,
        typer.Option(
            min=0,
            max=4,
            metavar="N",
            help="The nth page changes 1/n**N times as often; 0: all alike.",
        ),
    ] = 1.0,
    still: Annotated[
        float,
        typer.Option(
            min=0, max=0.99, metavar="SHARE", help="Of the pages, that never change."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the random changes.")] = 1,
    plot: Plot = None,
) -> None:
    """Simulate a schedule on a site: pages a day, freshness, share of revisits.

    Beside it stands the fixed schedule that fetches as many pages.
    """
    from frontier.recrawl.simulation import Site
    from frontier.seen.plan import count_of

    schedule = options.made()
    shortest = seconds("--fastest", fastest)
    if not 0 < shortest <= 1e10:
        raise ConfigurationError("--fastest must be more than no time")
    site = Site(count_of(pages), shortest, exponent, still)
    planned = _Plan.made(site, schedule, days, seed)
    if plot is not None:
        planned.draw(plot)
    output.result(planned.facts(), planned.text())


@dataclass(frozen=True, slots=True)
class _Plan:
    """What schedules do to a site."""

    site: Site
    schedule: Schedule
    outcomes: dict[str, Outcome]
    """By name, the one that was asked for first."""
    fixed: float
    """Seconds between two visits of the fixed schedule that it is compared with."""
    best: float
    """The highest freshness of any schedule with as many visits."""
    best_captured: float
    """The largest share of versions that any such schedule captures."""

    @classmethod
    def made(cls, site: Site, schedule: Schedule, days: float, seed: int) -> _Plan:
        from frontier.recrawl.schedule import Kind
        from frontier.recrawl.simulation import (
            DAY,
            best_captured,
            best_freshness,
            fixed_at_equal_visits,
            simulate,
        )

        rates = site.rates()
        scale = site.pages / len(rates)
        asked = simulate(rates, schedule, days, scale=scale, seed=seed)
        outcomes, interval = {str(schedule.kind): asked}, schedule.interval
        if schedule.kind is Kind.ADAPTIVE:
            fixed, done = fixed_at_equal_visits(rates, schedule, asked, seed=seed)
            outcomes["fixed, as many visits"], interval = done, fixed.interval
        pace = asked.visits / (days * DAY)
        simulated = rates[: asked.sampled]
        best = best_freshness(simulated, pace), best_captured(simulated, pace)
        return cls(site, schedule, outcomes, interval, *best)

    def draw(self, path: Path) -> None:
        """What they do, day by day."""
        from frontier.cli.plots import draw_recrawls

        draw_recrawls(path, {name: one.by_day() for name, one in self.outcomes.items()})

    def facts(self) -> dict[str, Any]:
        return {
            "site": asdict(self.site),
            "schedule": asdict(replace(self.schedule, text=False)),
            "fixed_interval": round(self.fixed, 1),
            "best_freshness": round(self.best, 4),
            "best_captured": round(self.best_captured, 4),
            "outcomes": {
                name: {
                    "days": one.days,
                    "pages_simulated": one.sampled,
                    "cut": one.cut,
                    "pages_a_day": round(one.pages_a_day, 1),
                    "freshness": round(one.freshness, 4),
                    "versions_captured": round(one.versions_captured, 4),
                    "revisit_share": round(one.revisit_share, 4),
                    "age_seconds": round(one.age, 1),
                    "by_day": [
                        {
                            "day": round(day, 2),
                            "pages_a_day": round(pages, 1),
                            "freshness": round(fresh, 4),
                        }
                        for day, pages, fresh in one.by_day()
                    ],
                }
                for name, one in self.outcomes.items()
            },
        }

    def text(self) -> Iterator[RenderableType]:
        from frontier.feeds.model import format_wait

        asked = next(iter(self.outcomes.values()))
        yield Text(
            f"{self.site.pages:,} pages for {asked.days:g} days; the liveliest changes "
            f"every {format_wait(max(1, round(self.site.fastest)))}, the nth at "
            f"1/n**{self.site.exponent:g} of its rate"
        )
        for note in _notes(self.site, asked):
            yield Text(note)
        yield Text()
        yield _outcomes_table(self.outcomes)
        yield Text()
        yield from _chart(asked)
        yield Text()
        fixed = format_wait(max(1, round(self.fixed)))
        yield Text("fresh:    pages whose copy is current, at the mean over time")
        yield Text("captured: versions fetched before the next one replaced them")
        yield Text("revisits: visits that found nothing new")
        yield Text(
            f"fixed:    every {fixed}; no schedule with as many visits has more than "
            f"{self.best:.1%} fresh, or {self.best_captured:.1%} captured"
        )


def _notes(site: Site, asked: Outcome) -> Iterator[str]:
    if asked.cut or asked.sampled < site.pages:
        yield f"a sample: {asked.sampled:,} pages were simulated and stand for all"


def _outcomes_table(outcomes: dict[str, Outcome]) -> Table:
    from frontier.feeds.model import format_wait

    table = Table()
    table.add_column("schedule")
    for name in ("pages a day", "fresh", "captured", "revisits", "mean age"):
        table.add_column(name, justify="right")
    for name, one in outcomes.items():
        table.add_row(
            name,
            f"{one.pages_a_day:,.0f}",
            f"{one.freshness:.1%}",
            f"{one.versions_captured:.1%}",
            f"{one.revisit_share:.1%}",
            format_wait(round(one.age)),
        )
    return table


def _chart(outcome: Outcome) -> Iterator[Text]:
    """Pages a day over the days, as bars of text; `--plot` draws it better."""
    rows = outcome.by_day()
    most = max(pages for _, pages, _ in rows) or 1.0
    yield Text(f"pages a day, up to {most:,.0f}; fresh below, of ten")
    for level in range(ROWS, 0, -1):
        least = (level - 0.5) / ROWS * most
        bars = "".join("#" if pages >= least else " " for _, pages, _ in rows)
        yield Text(f"  |{bars}".rstrip())
    yield Text("  |" + "".join(str(min(9, int(fresh * 10))) for *_, fresh in rows))
    yield Text(f"  day 0{f'{outcome.days:g}':>{len(rows) - 4}}")


@app.command()
def status(
    options: CrawlOptions,
    output: Output,
    hosts: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="Hosts that are listed.")
    ] = 20,
    sample: Annotated[
        int,
        typer.Option(
            min=0, max=100_000_000, metavar="N", help="Pages whose intervals are read."
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
    _tell_damaged(found.damaged)


def _tell_damaged(damaged: list[str]) -> None:
    """Say which keys were left out, and exit with a code that says that some were.

    Raises:
        Exit: Some were.
    """
    for key in damaged[:10]:
        complain(f"left out: {printable(key)} is damaged; see frontier crawl repair")
    if damaged:
        raise typer.Exit(ExitCode.INCOMPLETE)


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
    yield rows_of(numbers)
    if not found.intervals.pages:
        return
    table = Table()
    table.add_column("host")
    for name in ("pages", "min", "mean", "max"):
        table.add_column(name, justify="right")
    for name, one in [*found.largest(hosts), ("all", found.intervals)]:
        shown = (_told(one.least), _told(one.mean), _told(one.most))
        table.add_row(name, f"{one.pages:,}", *shown)
    yield Text()
    yield table
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
            metavar="URL|PREFIX", help="A page; with * at its end, all that begin so."
        ),
    ],
) -> None:
    """Make a page due at once, on whatever node, or all whose URLs begin so.

    If no page has exactly this URL, it is taken for a prefix. Intervals stay.
    """
    from frontier.seeds.load_once import tell_holders

    with options.connected() as store:
        crawl = options.crawl(store)
        done = _hastened(store, crawl, url)
        tell_holders(store, crawl.keys, done.sooner)
    numbers = {
        "made_due": done.moved,
        "unreadable": done.unreadable,
        "contended": done.contended,
    }
    said = {"crawl_id": crawl.keys.crawl_id, **numbers}
    rows = [(name.replace("_", " "), f"{n:,}") for name, n in numbers.items() if n]
    output.result(said, [rows_of([("crawl", crawl.keys.crawl_id), *rows])])
    if done.contended:
        complain("lists changed all the time, and may have more: run it again")
        raise typer.Exit(ExitCode.INCOMPLETE)
    if not done.moved:
        complain(f"nothing that waits is {printable(url[:200])}, or begins so")
        raise typer.Exit(ExitCode.NOT_FOUND)


def _hastened(store: Any, crawl: StoredCrawl, given: str) -> Hastened:
    """Make due what *given* means: a URL, or else how URLs begin."""
    from frontier.queue.due import Hastening

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
        if hastening.done.moved:
            break
    return hastening.done


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
    address = QueueAddresses(config).of(given, bytes(20))
    return list(range(config.partitions)) if address is None else [address.partition]
