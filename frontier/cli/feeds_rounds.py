"""``frontier feeds status`` and ``refetch``: what a crawl of feeds does, and did."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.text import Text

from frontier.cli.options import CrawlOptions, Output
from frontier.cli.output import ExitCode, end_with
from frontier.cli.report import table
from frontier.errors import ConfigurationError, NotFound
from frontier.feeds.model import format_wait
from frontier.status.text import local_moment as when
from frontier.status.validate import printable
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from frontier.feeds.failed_pages import FailedPage
    from frontier.feeds.followed import Followed, FollowedFeed, FollowedSite
    from frontier.feeds.round_state import PastRound

Names = Annotated[
    list[str] | None,
    typer.Option("--site", metavar="NAME", help="Only this site; may be repeated."),
]
Rounds = Annotated[
    int,
    typer.Option(
        min=0,
        max=100,
        metavar="N",
        show_default=False,
        help="List the last N rounds of each site.",
    ),
]


FEED_ROW = "{:>8}  {:>11}  {:>11}  {:>7}  {}"
"""A line of a feed: its URL is last, for it may be longer than a line."""


def status(
    options: CrawlOptions,
    output: Output,
    sites: Names = None,
    rounds: Rounds = 0,
) -> None:
    """Show the state of each site and feed of a crawl, and when it is read next.

    With --rounds it lists the last rounds of each site instead: when they began, and
    what was new or failed.
    """
    from frontier.feeds.followed import followed, past_rounds

    with options.connected() as store:
        keys = options.crawl(store).keys
        found = followed(store, keys, sites or ())
        if rounds:
            names = [site.name for site in found.sites]
            past = past_rounds(store, keys, names, rounds)
    if not rounds:
        output.result(_status_facts(found), _status_text(found))
    else:
        said = {name: [one._asdict() for one in each] for name, each in past.items()}
        output.result(
            {"crawl_id": found.crawl_id, "state": found.state, "sites": said},
            _rounds_text(found, past),
        )
    _end(found, sites)


def refetch(
    options: CrawlOptions,
    output: Output,
    url: Annotated[str, typer.Argument(metavar="URL", help="Of a page.")],
    site: Annotated[
        str, typer.Option(metavar="NAME", help="In whose round it is fetched.")
    ] = "",
) -> None:
    """Fetch a page once more, in the next round of its site, which begins now."""
    from scrapy import Request

    from frontier.cli.project import Identities
    from frontier.feeds.failed_pages import FailedPage, read_page, refetch_call
    from frontier.feeds.followed import followed
    from frontier.feeds.model import canonical_url

    try:
        page = canonical_url(url)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    with options.connected() as store:
        crawl = options.crawl(store)
        key = Identities(crawl, store).fingerprint(Request(page))
        found = followed(store, crawl.keys, [site] if site else ())
        names = [one.name for one in found.sites]
        asked = [Call.command("HGET", crawl.keys.failed(name), key) for name in names]
        known = {
            one.name: entry
            for one, reply in zip(found.sites, store.run(asked), strict=True)
            if (entry := read_page(reply)) is not None
        }
        chosen = _site_of(found, site, page, known)
        feeds = [feed.record for feed in chosen.feeds]
        feeds.sort(key=lambda record: record.failures)
        wanted = known.get(chosen.name) or FailedPage(page, feeds[0].url, asked=True)
        call = refetch_call(crawl.keys, chosen.name, key, replace(wanted, resume=0))
        state = store.call(call).decode()
    name = printable(chosen.name)
    begins = state in {"waiting", "crawling"}
    when = "now" if begins else f"when the site is not {state} any more"
    facts = {"url": page, "site": chosen.name, "feed": wanted.feed, "state": state}
    output.result(facts, [Text(f"{page}: fetched with {name}'s next round, {when}")])


def _site_of(
    found: Followed, name: str, page: str, known: Mapping[str, FailedPage]
) -> FollowedSite:
    """The site in whose rounds *page* is: the one *name*, or that of its feeds' host.

    *known* are the sites that know that it failed.
    """
    host = urlsplit(page).hostname
    sites = [site for site in found.sites if site.feeds]
    if not name:
        of_host = [
            site
            for site in sites
            if any(urlsplit(feed.record.url).hostname == host for feed in site.feeds)
        ]
        sites = [site for site in sites if site.name in known] or of_host
    if len(sites) == 1:
        return sites[0]
    if name:
        raise NotFound(f"the crawl {found.crawl_id} has no feeds of a site {name}")
    many = "several sites have" if sites else "no site has"
    raise ConfigurationError(
        f"{many} feeds of the host of {page}: say which site with --site NAME"
    )


def _end(found: Followed, sites: Sequence[str] | None) -> None:
    """Say what is not as it should be, and exit with that."""
    missing = set(sites or ()) - {site.name for site in found.sites}
    lines = [f"the crawl {found.crawl_id} has no site {n}" for n in sorted(missing)]
    code = ExitCode.NOT_FOUND if missing else ExitCode.INCOMPLETE
    end_with([*found.damaged, *lines], code)


def _status_facts(found: Followed) -> dict[str, Any]:
    facts: dict[str, Any] = {"crawl_id": found.crawl_id, "state": found.state}
    facts |= {"now_ms": found.now_ms, "nodes": found.nodes, "sites": []}
    for site in found.sites:
        told = asdict(site)
        told["some_failed"] = [asdict(page) for page in site.some_failed]
        told["feeds"] = [
            {
                **asdict(feed.record),
                "implied": feed.implied,
                "excluded": feed.excluded,
            }
            for feed in site.feeds
        ]
        facts["sites"].append(told)
    return facts


def _status_text(found: Followed) -> Iterator[RenderableType]:
    yield Text(
        f"{found.crawl_id}: {found.state}, {_count(found.nodes, 'live node')}, "
        f"{_count(len(found.sites), 'site')}"
    )
    if not found.sites:
        yield Text("It follows no feeds.")
        return
    now_ms = found.now_ms
    numbers = ("items", "round", "wait", "last", "next", "URLs")
    yield table(
        "site",
        "state",
        *(f">{number}" for number in numbers),
        rows=[
            (
                printable(site.name),
                site.state,
                f"{site.items:,}",
                f"{site.round:,}",
                _wait(site),
                _time(site.emitted_ms, now_ms),
                _time(site.next_ms, now_ms),
                f"{site.urls:,}",
            )
            for site in found.sites
        ],
    )
    yield Text()
    yield Text(FEED_ROW.format("items", "newest", "answered", "implies", "feed"))
    for site in found.sites:
        for feed in site.feeds:
            yield from _feed_lines(feed, now_ms)
    for site in found.sites:
        if site.failed:
            pages = _count(site.failed, "page")
            yield Text(f"failed in {printable(site.name)}: {pages}, asked for again")
        for page in site.some_failed:
            again = f"round {page.resume:,}"
            yield Text(f"  {printable(page.url)}")
            yield Text(
                f"  failed {_count(page.failures, 'time')}, next in {again}: "
                f"{printable(page.reason)}"
            )


def _feed_lines(feed: FollowedFeed, now_ms: int) -> Iterator[Text]:
    """A feed, and below it why it is not read; its URL is not broken."""
    record = feed.record
    yield Text(
        FEED_ROW.format(
            f"{record.items:,}",
            _time(record.newest * 1000, now_ms),
            _time(record.fetched * 1000, now_ms),
            len(feed.implied),
            printable(record.url),
        )
    )
    if feed.excluded:
        yield Text(
            f"  not fetched: an operator has excluded {printable(feed.excluded)}"
        )
    if record.failures:
        times = _count(record.failures, "time")
        yield Text(f"  failed {times} in a row: {printable(record.reason)}")
    if record.moved:
        where = printable(record.moved)
        yield Text(f"  has moved for good to {where}: configure that in its place")
    if record.remark:
        yield Text(f"  {printable(record.remark)}")


def _rounds_text(
    found: Followed, rounds: Mapping[str, Sequence[PastRound]]
) -> Iterator[RenderableType]:
    yield Text(f"{found.crawl_id}: {found.state}")
    numbers = ("round", "began", "feeds", "unanswered", "new items", "failed", "wait")
    for name, past in rounds.items():
        yield Text()
        yield Text(f"{printable(name)}: {_count(len(past), 'round')}")
        if not past:
            continue
        yield table(
            *(f">{number}" for number in numbers),
            rows=[
                (
                    f"{one.number:,}",
                    when(one.emitted_ms),
                    f"{one.feeds:,}",
                    f"{one.unanswered:,}",
                    f"{one.items:,}",
                    f"{one.failed:,}",
                    format_wait(one.wait_s),
                )
                for one in past
            ],
        )


def _wait(site: FollowedSite) -> str:
    now, least, most = map(format_wait, (site.wait_s, site.wait_min_s, site.wait_max_s))
    return now if least == most else f"{now} ({least} to {most})"


def _time(at_ms: int, now_ms: int) -> str:
    """As a time of this place, in 11 characters: of today, of this year, or a day."""
    if not at_ms:
        return "-"
    at, now = when(at_ms), when(now_ms)
    day, _, clock = at.partition(" ")
    if now.startswith(day):
        return clock
    return at[5:-3] if at[:5] == now[:5] else day


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
