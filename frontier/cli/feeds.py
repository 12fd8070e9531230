"""``frontier feeds``: which sites are followed, and what is known of their feeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from frontier.cli.command import Commands, Output, argument, flag, option, options
from frontier.cli.output import Shown
from frontier.errors import ConfigurationError
from frontier.feeds.model import DEFAULT_WAIT, Site, parse_wait
from frontier.feeds.sources import VARIABLE, source_of
from frontier.settings.live_source import File
from frontier.status.text import duration
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from frontier.feeds.model import Sites as Source


@options
class SitesOptions(Output):
    """Which configuration a command reads."""

    where: str = option(
        "",
        "FILE|URL",
        "The file of sites, or the URL of a database that has them.",
        "--feeds",
        envvar=VARIABLE,
        show_default="feeds.toml",
    )

    def source(self) -> Source:
        """The file or the database; nothing is opened yet."""
        return source_of(self.where)


def list_(given: SitesOptions) -> Shown:
    """List sites and feeds as the configuration has them now."""
    source = given.source()
    sites = source.read()
    notes = list(source.notes)
    said = {
        "source": source.where,
        "sites": [_site_json(site) for site in sites.values()],
        "left_out": notes,
    }
    return Shown(said, _listed(sites.values()), faults=notes)


def _site_json(site: Site) -> dict[str, Any]:
    return {
        "name": site.name,
        "state": site.want,
        "wait_s": site.wait_s,
        "wait_max_s": site.wait_max_s,
        "feeds": [feed._asdict() for feed in site.feeds],
    }


def _listed(sites: Iterable[Site]) -> Iterable[RenderableType]:
    """A line for each site, feed and implied page, so that URLs stay whole."""
    for site in sites:
        wait = duration(site.wait_s)
        if site.wait_max_s != site.wait_s:
            wait += f" to {duration(site.wait_max_s)}"
        head = Text(printable(site.name), style="bold")
        yield head.append(f": {site.want}, every {wait}", style="not bold")
        for feed in site.feeds:
            yield f"  {feed.url}"
            for page in feed.implied:
                yield f"    implies {page}"
        if not site.feeds:
            yield "  no feeds"


@options
class ImportOptions(SitesOptions):
    """Which OPML file is read, and as what."""

    file: Path = argument("FILE", "The OPML file.")
    wait: str = option(DEFAULT_WAIT, "WAIT", "Wait between two rounds: 90s, 1h30m, 2d.")
    pages: bool = flag("Fetch each feed's own page, too, as an implied page.")


def import_opml(given: ImportOptions) -> Shown:
    """Print the feeds of an OPML file as sites of feeds.toml.

    There is one site for each host. Append them: frontier feeds import-opml FILE >>
    feeds.toml. Feeds that are there already are left out.
    """
    from frontier.feeds.feeds_toml import toml_of
    from frontier.feeds.opml import read

    try:
        parse_wait(given.wait)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    source = given.source()
    is_there = not isinstance(source, File) or Path(source.where).exists()
    known = source.read() if is_there else {}
    sites, faults = read(given.file, given.wait, known, pages=given.pages)
    listed = [_site_json(site) for site in sites]
    text = toml_of(sites, given.wait) if sites else ""
    return Shown({"sites": listed, "left_out": faults}, [text.strip()], faults=faults)


app = Commands(
    "Follow the feeds of sites, and see what was found in them.",
    {
        "import-opml": import_opml,
        "list": list_,
        "status": "feeds_rounds.status",
        "refetch": "feeds_rounds.refetch",
    },
)
