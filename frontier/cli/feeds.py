"""``frontier feeds``: which sites are followed, and what is known of their feeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.feeds_rounds import refetch, status
from frontier.cli.options import Commands, Output
from frontier.cli.output import end_with
from frontier.errors import ConfigurationError
from frontier.feeds.live_sites import VARIABLE, source_of
from frontier.feeds.model import DEFAULT_WAIT, Site, format_wait, parse_wait
from frontier.feeds.model import Sites as Source
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType

    Sites = Mapping[str, Site]

app = Commands("Follow the feeds of sites: which ones, and what was found in them.")
app.command()(status)
app.command()(refetch)

Where = Annotated[
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
    """Which configuration a command reads."""

    given: Where = ""

    def source(self) -> Source:
        """The file or the database; nothing is opened yet."""
        return source_of(self.given)


@app.command("list")
def list_(output: Output, which: SitesOptions) -> None:
    """List the sites and their feeds, as the configuration has them now."""
    source = which.source()
    sites = source.read()
    notes = list(source.notes)
    said = {
        "source": source.where,
        "sites": [_site_json(site) for site in sites.values()],
        "left_out": notes,
    }
    output.result(said, _listed(sites.values()))
    end_with(notes)


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


@app.command("import-opml")
def import_opml(
    output: Output,
    which: SitesOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The OPML file.")],
    wait: Wait = DEFAULT_WAIT,
    pages: Annotated[
        bool,
        typer.Option("--pages", help="Make the page of each feed an implied page."),
    ] = False,
) -> None:
    """Add the feeds of an OPML file to feeds.toml, each to the site of its host.

    Feeds that are there already stay as they are.
    """
    from frontier.feeds.feeds_toml import TomlSites
    from frontier.feeds.opml import merged, read

    source = which.source()
    if not isinstance(source, TomlSites):
        raise ConfigurationError(
            f"{source.where} is read and never written: insert the rows yourself"
        )
    try:
        parse_wait(wait)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    imported = read(file, wait, pages=pages)
    before = source.read() if Path(source.where).exists() else {}
    wanted = merged(before, imported)
    if wanted:
        source.add(wanted)
    said = {
        "source": source.where,
        "added": sorted(wanted.keys() - before.keys()),
        "changed": sorted(wanted.keys() & before.keys()),
        "left_out": imported.faults,
    }
    output.result(said, _imported_text(source.where, before, wanted))
    end_with(imported.faults)


def _imported_text(where: str, before: Sites, wanted: Sites) -> Iterable[Text]:
    if not wanted:
        yield Text(f"{where} says so already; nothing was changed")
    for name, site in wanted.items():
        known = len(before[name].feeds) if name in before else 0
        what = "changed" if name in before else "new"
        new = _count(len(site.feeds) - known, "new feed")
        yield Text(f"{name}: {what}, every {format_wait(site.wait_s)}, {new}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


app.in_order("import-opml", "list", "status", "refetch")
