"""``frontier feeds status`` and ``refetch``: what a crawl of feeds does, and did."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from frontier.cli.command import ReportOptions, argument, option, options
from frontier.cli.output import ExitCode, Shown, table
from frontier.errors import ConfigurationError, NotFound
from frontier.status.text import counted, duration, local_moment as when
from frontier.status.validate import printable
from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from frontier.feeds.followed import FollowedFeed, FollowedSite

FEED_ROW = "{:>8}  {:>11}  {:>11}  {:>7}  {}"
"""The line of a feed: its URL is last, as it may be longer than a line."""
SHOWN = 20
"""Failed pages of a site that are named."""


@options
class StatusOptions(ReportOptions):
    """Which sites are shown."""

    sites: list[str] = option((), "NAME", "Only this site; may be repeated.", "--site")


def status(given: StatusOptions) -> Shown:
    """Show each site and feed of a crawl, and when it is due."""
    from frontier.feeds.followed import followed

    with given.connected() as store:
        crawl = given.stored(store)
        found = list(followed(store, crawl, given.sites))
    crawl_id = crawl.keys.crawl_id
    said = {"crawl_id": crawl_id, "sites": [_facts(site) for site in found]}
    missing = sorted({*given.sites} - {site.name for site in found})
    return Shown(
        said,
        _text(crawl_id, found),
        faults=[f"the crawl {crawl_id} has no site {name}" for name in missing],
        code=ExitCode.NOT_FOUND if missing else ExitCode.OK,
    )


@options
class RefetchOptions(ReportOptions):
    """Which page is fetched once more."""

    url: str = argument("URL", "The page's URL.")
    site: str = option("", "NAME", "The site whose round fetches it.")


def refetch(given: RefetchOptions) -> Shown:
    """Fetch a page once more, in a round that begins now."""
    from scrapy import Request

    from frontier.feeds.followed import followed
    from frontier.feeds.model import canonical_url
    from frontier.feeds.round_state import FailedPage, refetch_call
    from frontier.requests.identities import Identities

    try:
        page = canonical_url(given.url)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    with given.connected() as store:
        crawl = given.stored(store)
        key = Identities(crawl).fingerprint(Request(page))
        found = followed(store, crawl, [given.site] if given.site else ())
        chosen = _site_of(list(found), given.site, page, key)
        feeds = sorted(chosen.feeds, key=lambda feed: feed.record.failures)
        wanted = FailedPage(page, feeds[0].record.url, asked=True)
        wanted = chosen.failed.get(key, wanted)._replace(resume=0)
        call = refetch_call(crawl.keys, chosen.name, key, wanted)
        state = store.call(call).decode()
    name = printable(chosen.name)
    begins = state in {"waiting", "crawling"}
    when = "now" if begins else f"when the site is not {state} any more"
    facts = {"url": page, "site": chosen.name, "feed": wanted.feed, "state": state}
    return Shown(facts, [f"{page}: fetched with {name}'s next round, {when}"])


def _site_of(
    found: Sequence[FollowedSite], name: str, page: str, key: bytes
) -> FollowedSite:
    """The site whose rounds fetch *page*: the one called *name*, if that is given.

    Else the site in which the page failed, by its *key*, or else the one that has feeds
    on the page's host.
    """
    host = split(page).host
    sites = [site for site in found if site.feeds]
    if not name:
        sites = [site for site in sites if key in site.failed] or [
            site
            for site in sites
            if any(split(feed.record.url).host == host for feed in site.feeds)
        ]
    if len(sites) == 1:
        return sites[0]
    if name:
        raise NotFound(f"the crawl has no feeds of a site {name}")
    many = "several sites have" if sites else "no site has"
    raise ConfigurationError(
        f"{many} feeds of the host of {page}: say which site with --site NAME"
    )


def _facts(site: FollowedSite) -> dict[str, Any]:
    pages = list(site.failed.values())[:SHOWN]
    return {
        **asdict(site.view),
        "failed": len(site.failed),
        "some_failed": [page._asdict() for page in pages],
        "feeds": [
            {
                **feed.record._asdict(),
                "implied": feed.implied,
                "excluded": feed.excluded,
            }
            for feed in site.feeds
        ],
    }


def _text(crawl_id: str, found: Sequence[FollowedSite]) -> Iterator[RenderableType]:
    yield f"{crawl_id}: {counted(len(found), 'site')}"
    if not found:
        return
    numbers = ("items", "round", "wait", "last", "next", "URLs")
    rows = []
    for view in (site.view for site in found):
        wait, least, most = map(
            duration, (view.wait_s, view.wait_min_s, view.wait_max_s)
        )
        rows.append(
            (
                view.name,
                view.state,
                f"{view.items:,}",
                f"{view.round:,}",
                wait if least == most else f"{wait} ({least} to {most})",
                _time(view.emitted_ms),
                _time(view.next_ms),
                f"{view.urls:,}",
            )
        )
    yield table("site", "state", *(f">{number}" for number in numbers), rows=rows)
    yield ""
    yield FEED_ROW.format("items", "newest", "answered", "implies", "feed")
    for site in found:
        for feed in site.feeds:
            yield from _feed_lines(feed)
    for site in found:
        if site.failed:
            pages = counted(len(site.failed), "page")
            yield f"failed in {site.view.name}: {pages}, asked for again"
        for page in list(site.failed.values())[:SHOWN]:
            times, again = counted(page.failures, "time"), f"round {page.resume:,}"
            yield f"  {page.url}"
            yield f"  failed {times}, next in {again}: {printable(page.reason)}"


def _feed_lines(feed: FollowedFeed) -> Iterator[str]:
    """A feed, and below it why it is not read; the URL is not broken."""
    record = feed.record
    yield FEED_ROW.format(
        f"{record.items:,}",
        _time(record.newest * 1000),
        _time(record.fetched * 1000),
        len(feed.implied),
        record.url,
    )
    if feed.excluded:
        excluded = printable(feed.excluded)
        yield f"  not fetched: an operator has excluded {excluded}"
    if record.failures:
        times = counted(record.failures, "time")
        yield f"  failed {times} in a row: {printable(record.reason)}"
    if record.moved:
        yield f"  has moved for good to {record.moved}: configure that"
    if record.remark:
        yield f"  {record.remark}"


def _time(at_ms: int) -> str:
    """*at_ms* as local time in 11 characters: today's, this year's, or a date."""
    if not at_ms:
        return "-"
    at, now = when(at_ms), when(int(time.time() * 1000))
    day, _, clock = at.partition(" ")
    if now.startswith(day):
        return clock
    return at[5:-3] if at[:5] == now[:5] else day
