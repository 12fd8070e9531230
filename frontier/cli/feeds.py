"""``frontier feeds``: which sites are followed, and what is known of their feeds."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.table import Column, Table
from rich.text import Text

from frontier.cli.feeds_rounds import refetch, report, status
from frontier.cli.options import Commands, Force, Output, Yes
from frontier.cli.output import ExitCode, complain, say
from frontier.errors import ConfigurationError, FileTaken, SourceBroken
from frontier.feeds.live_sites import VARIABLE, source_of
from frontier.feeds.model import (
    DEFAULT_WAIT,
    Site,
    canonical_url,
    feed_of,
    format_wait,
    parse_wait,
    site_of,
    with_feeds,
)
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rich.console import RenderableType

    from frontier.feeds.live_sites import EditableSites
    from frontier.feeds.model import Feed

    Sites = Mapping[str, Site]
    Edits = Mapping[str, Site | None]

app = Commands("Follow the feeds of sites: which ones, and what was found in them.")
app.command()(status)
app.command()(report)
app.command()(refetch)
MAX_PAGE = 16 << 20
"""Bytes of a page that is asked for its feeds."""
SHOWN = 20
"""Faults that are printed; the others are counted."""

Source = Annotated[
    str,
    typer.Option(
        "--feeds",
        envvar=VARIABLE,
        metavar="FILE|URL",
        show_default="feeds.toml",
        help="The file of sites, or the URL of a database that has them.",
    ),
]
Wait = Annotated[
    str, typer.Option(metavar="WAIT", help="Between two rounds: 90s, 1h30m, 2d.")
]


@dataclass(frozen=True, slots=True)
class SitesOptions:
    """Which configuration a command reads or changes."""

    given: Source = ""

    def source(self) -> EditableSites:
        """The file or the database; nothing is opened yet."""
        return source_of(self.given)


@app.command("list")
def list_(output: Output, which: SitesOptions) -> None:
    """List the sites and their feeds, as the configuration has them now."""
    source = which.source()
    sites = source.read()
    notes = list(getattr(source, "notes", ()))
    said = {
        "source": source.where,
        "sites": [_site_json(site) for site in sites.values()],
        "left_out": notes,
    }
    output.result(said, _listed(sites.values()))
    _end(notes)


def _site_json(site: Site) -> dict[str, Any]:
    return {
        "name": site.name,
        "state": _state(site),
        "wait_s": site.wait_s,
        "wait_max_s": site.wait_max_s,
        "feeds": [{"url": f.url, "implied": list(f.implied)} for f in site.feeds],
    }


def _state(site: Site) -> str:
    return "ended" if site.ended else "paused" if site.paused else "active"


def _listed(sites: Iterable[Site]) -> Iterable[RenderableType]:
    """A line for each site, feed and implied page, so that URLs stay whole."""
    for site in sites:
        wait = format_wait(site.wait_s)
        if site.wait_max_s != site.wait_s:
            wait += f" to {format_wait(site.wait_max_s)}"
        head = Text(printable(site.name), style="bold")
        yield head.append(f": {_state(site)}, every {wait}", style="not bold")
        for feed in site.feeds:
            yield Text(f"  {feed.url}")
            for page in feed.implied:
                yield Text(f"    implies {page}")
        if not site.feeds:
            yield Text("  no feeds")


@app.command()
def add(
    output: Output,
    which: SitesOptions,
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Of the feeds.")],
    site: Annotated[
        str, typer.Option(metavar="NAME", help="The site (default: the feed's host).")
    ] = "",
    wait: Wait = "",
    wait_max: Annotated[
        str, typer.Option(metavar="WAIT", help="Adaptive waits go up to this.")
    ] = "",
    implied: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A page to fetch again with each new item."),
    ] = None,
) -> None:
    """Add feeds to a site, which is made if it is new; an ended site goes on.

    For a feed that is there already its implied pages are added, and waits are changed
    where they are given.
    """

    def change(sites: Sites) -> Edits:
        made: dict[str, Site] = {}
        for url in urls:
            feed = feed_of(url, implied or ())
            name = site or str(urlsplit(feed.url).hostname)
            _require_elsewhere(sites, feed, name)
            before = made.get(name) or sites.get(name)
            made[name] = _with_feed(before, name, feed, wait, wait_max)
        return made

    _edit(which.source(), output, change)


def _require_elsewhere(sites: Sites, feed: Feed, name: str) -> None:
    for other in sites.values():
        if other.name != name and any(feed.url == f.url for f in other.feeds):
            raise ValueError(
                f"the feed {feed.url} is in the site {other.name!r} already"
            )


def _with_feed(
    before: Site | None, name: str, feed: Feed, wait: str, wait_max: str
) -> Site:
    """The site with the feed; what is not given stays as it is."""
    if before is None:
        return site_of(name, [feed], wait or DEFAULT_WAIT, wait_max or None)
    wait_s = parse_wait(wait) if wait else before.wait_s
    is_fixed = before.wait_s == before.wait_max_s
    longest = wait_s if is_fixed else max(before.wait_max_s, wait_s)
    site = site_of(name, (), wait_s, wait_max or longest, paused=before.paused)
    feeds = list(before.feeds)
    for number, known in enumerate(feeds):
        if known.url == feed.url:
            feeds[number] = feed_of(feed.url, (*known.implied, *feed.implied))
            return with_feeds(site, feeds)
    return with_feeds(site, [*feeds, feed])


@app.command()
def discover(
    output: Output,
    url: Annotated[str, typer.Argument(metavar="URL", help="Of a page.")],
) -> None:
    """Fetch a page and list the feeds that it names; nothing is guessed or added."""
    from frontier.collection.open_source import read_page
    from frontier.feeds.discovery import feeds_of

    try:
        page = read_page(canonical_url(url), MAX_PAGE)
        found = feeds_of(page.body, page.content_type, page.url)
    except (SourceBroken, ValueError) as error:
        complain(str(error))
        raise typer.Exit(ExitCode.INCOMPLETE) from None
    table = Table(Column("feed", overflow="fold"), "format", "title")
    for feed in found:
        table.add_row(Text(feed.url), Text(feed.kind), Text(printable(feed.title)))
    facts = {"url": page.url, "feeds": [asdict(feed) for feed in found]}
    output.result(facts, [table] if found else [])
    if not found:
        complain(f"{page.url} names no feed")
        raise typer.Exit(ExitCode.NOT_FOUND)


@app.command()
def remove(
    output: Output,
    which: SitesOptions,
    what: Annotated[
        list[str], typer.Argument(metavar="NAME|URL...", help="Sites, or feeds.")
    ],
    yes: Yes = False,
) -> None:
    """Remove sites or single feeds from the configuration, with --yes.

    What was archived of them stays, and so does what the crawl knows of their items.
    """
    source = which.source()
    sites = source.read()
    plan = _without(sites, what)
    if not yes:
        gone = [n for n, site in plan.items() if site is None]
        feeds = sum(len(sites[n].feeds) for n in plan) - sum(
            len(site.feeds) for site in plan.values() if site
        )
        counted = f"{_count(len(gone), 'site')}, {_count(feeds, 'feed')}"
        say(f"to be removed from {source.where}: {counted}")
        asked = sys.stdin.isatty() and sys.stderr.isatty()
        if not asked or not typer.confirm("Remove them?", err=True):
            raise ConfigurationError("nothing was removed; to remove them add --yes")
    _edit(source, output, lambda now: _without(now, what))


def _without(sites: Sites, what: list[str]) -> dict[str, Site | None]:
    """What is left of sites when those named, or the feeds named, are gone."""
    made: dict[str, Site | None] = {}
    for given in what:
        if given in sites:
            made[given] = None
            continue
        url = _url(given)
        owner = next(
            (s for s in sites.values() if any(f.url == url for f in s.feeds)), None
        )
        if url is None or owner is None:
            _not_found(given)
        else:
            left = made.get(owner.name, owner)
            if left is not None:
                rest = tuple(feed for feed in left.feeds if feed.url != url)
                made[owner.name] = replace(left, feeds=rest)
    return made


def _url(given: str) -> str | None:
    try:
        return canonical_url(given)
    except ValueError:
        return None


def _not_found(given: str) -> None:
    complain(f"there is no site {given!r}, and no feed of this URL")
    raise typer.Exit(ExitCode.NOT_FOUND)


Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The sites.")]


@app.command()
def pause(output: Output, which: SitesOptions, names: Names) -> None:
    """Begin no new rounds of sites; what is known of their feeds stays."""
    _set(output, which, names, paused=True)


@app.command()
def resume(output: Output, which: SitesOptions, names: Names) -> None:
    """Go on with sites that are paused or ended."""
    _set(output, which, names, paused=False)


def _set(
    output: Output, which: SitesOptions, names: list[str], *, paused: bool
) -> None:
    def change(sites: Sites) -> Edits:
        for name in names:
            if name not in sites:
                _not_found(name)
        return {
            name: replace(
                sites[name], paused=paused, ended=sites[name].ended and paused
            )
            for name in names
        }

    _edit(which.source(), output, change)


@app.command("import-opml")
def import_opml(
    output: Output,
    which: SitesOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The OPML file.")],
    wait: Wait = DEFAULT_WAIT,
    pages: Annotated[
        bool, typer.Option("--pages", help="The page of each feed is implied by it.")
    ] = False,
) -> None:
    """Add the feeds of an OPML file, each to the site of its host.

    Feeds that are there already stay as they are.
    """
    from frontier.feeds.opml import merged, read

    parse_wait(wait)
    imported = read(file, wait, pages=pages)
    _edit(which.source(), output, lambda now: merged(now, imported), imported.faults)


@app.command("export-opml")
def export_opml(
    which: SitesOptions,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Where to (default: the output).")
    ] = "-",
    force: Force = False,
) -> None:
    """Write the sites and their feeds as OPML, which feed readers take."""
    from frontier.feeds.opml import written
    from frontier.files import mode_of_environment, publish

    sites = which.source().read()
    text = written(sites.values(), datetime.now(UTC))
    if file == "-":
        sys.stdout.write(text)
        return
    path = Path(file)
    if path.exists() and not force:
        raise FileTaken(file)
    publish(path, text.encode(), mode_of_environment())


def _edit(
    source: EditableSites,
    output: Output,
    change: Callable[[Sites], Edits],
    faults: Iterable[str] = (),
) -> None:
    """Change the configuration, and print what is other than before."""
    before: Sites = {}
    changed: dict[str, Site | None] = {}

    def note(sites: Sites) -> Edits:
        nonlocal before
        before = sites
        changed.clear()
        changed.update({n: s for n, s in change(sites).items() if s != sites.get(n)})
        return changed

    try:
        remarks = source.edit(note)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    left_out = list(faults)
    said = {
        "source": source.where,
        "added": sorted(n for n, s in changed.items() if s and n not in before),
        "changed": sorted(n for n, s in changed.items() if s and n in before),
        "removed": sorted(n for n, s in changed.items() if s is None),
        "left_out": left_out,
        "remarks": list(remarks),
    }
    for remark in remarks:
        complain(remark)
    output.result(said, _edited_text(source.where, before, changed))
    _end(left_out)


def _edited_text(
    where: str, before: Sites, changed: Mapping[str, Site | None]
) -> Iterable[RenderableType]:
    if not changed:
        return [Text(f"{where} says so already; nothing was changed")]
    lines = []
    for name, site in changed.items():
        had = before.get(name)
        if site is None:
            lines.append(f"{name}: removed")
            continue
        known = {feed.url for feed in had.feeds} if had else set()
        new = [feed.url for feed in site.feeds if feed.url not in known]
        gone = known - {feed.url for feed in site.feeds}
        what = "new" if had is None else "changed"
        parts = [what, _state(site), f"every {format_wait(site.wait_s)}"]
        parts.append(_count(len(site.feeds), "feed"))
        parts += [f"{len(new):,} new"] if new and had else []
        parts += [f"{len(gone):,} removed"] if gone else []
        lines.append(f"{name}: {', '.join(parts)}")
    return [Text("\n".join(lines))]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _end(faults: list[str]) -> None:
    """Say what was left out, and end with the code that says so."""
    for fault in faults[:SHOWN]:
        complain(fault)
    if len(faults) > SHOWN:
        complain(f"{len(faults) - SHOWN:,} more were left out")
    if faults:
        raise typer.Exit(ExitCode.INCOMPLETE)


app.in_order(
    "discover",
    "add",
    "import-opml",
    "list",
    "status",
    "report",
    "refetch",
    "pause",
    "resume",
    "remove",
    "export-opml",
)
