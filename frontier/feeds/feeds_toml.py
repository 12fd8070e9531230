r"""``feeds.toml``: sites and their feeds in a file that people write.

::

    [[site]]
    name = "Example News"
    wait = "1h30m"              # between two rounds; 1h if it is not given
    wait_max = "1d"             # adaptive: up to this; without it the wait is fixed
    paused = false
    feeds = [
      "https://news.example/rss",
      { url = "https://news.example/sport.xml", implied = ["https://news.example/"] },
    ]

An unknown key is a fault, which is reported with file, line and the nearest known key.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from frontier.errors import ConfigurationError
from frontier.feeds.model import Site, sites_of
from frontier.settings.live_source import File
from frontier.settings.toml_tables import TomlTables

SITE = ("name", "wait", "wait_max", "paused", "ended", "feeds")
FEED = ("url", "implied")
MAX_BYTES = 64 << 20
MAX_SITES = 100_000


def toml_sites(path: Path) -> File[dict[str, Site]]:
    """The sites of the file *path*, by name."""

    def parse(data: bytes) -> dict[str, Site]:
        file = TomlTables(str(path), data, "site", MAX_SITES, longest_line=MAX_BYTES)
        for number, table in enumerate(file.tables):
            file.require_known(number, table, SITE, "a site")
            feeds = table.get("feeds")
            for entry in feeds if isinstance(feeds, list) else ():
                if isinstance(entry, dict):
                    file.require_known(number, entry, FEED, "a feed")
        return sites_of(file.tables, file.fail)

    return File(path, MAX_BYTES, parse)


def toml_of(sites: Iterable[Site], wait: str) -> str:
    """The names and feeds of *sites*, which all have this *wait*, as such a file.

    Raises:
        ConfigurationError: A package is missing.
    """
    try:
        import tomlkit
    except ImportError:
        raise ConfigurationError(
            "to write feeds.toml a package is needed; install it with: "
            "pip install 'frontier-crawl[feeds]'"
        ) from None
    tables = [
        {
            "name": site.name,
            "wait": wait,
            "feeds": [
                {"url": feed.url, "implied": [*feed.implied]} for feed in site.feeds
            ],
        }
        for site in sites
    ]
    return tomlkit.dumps({"site": tables})
