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

A key that is not known is a fault, with file, line and the name that is near.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError
from frontier.feeds.model import format_wait, sites_of
from frontier.settings.toml_tables import TomlTables, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from frontier.feeds.model import Site

SITE = ("name", "wait", "wait_max", "paused", "ended", "feeds")
FEED = ("url", "implied")
MAX_BYTES = 64 << 20
MAX_SITES = 100_000
SETTLE_S = 0.05
"""Between two looks at a file that has changed: somebody may still be writing."""


class TomlSites:
    """The sites of the file *path*.

    Used by one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = str(path)
        self.notes: tuple[str, ...] = ()
        """Nothing is left out of a file: what is wrong in it is an error."""
        self._data: bytes | None = None
        self._sites: Mapping[str, Site] = {}

    def read(self) -> Mapping[str, Site]:
        """The sites by name; the file is parsed only if it has changed.

        Raises:
            InputBroken: It cannot be read, or something in it cannot be.
        """
        data = read_bytes(self._path, MAX_BYTES)
        while data != self._data:
            time.sleep(SETTLE_S)
            before, data = data, read_bytes(self._path, MAX_BYTES)
            if data == before:
                self._sites, self._data = self._parsed(data), data
        return self._sites

    def _parsed(self, data: bytes) -> dict[str, Site]:
        file = TomlTables(self.where, data, "site", MAX_SITES, longest_line=MAX_BYTES)
        for number, table in enumerate(file.tables):
            file.require_known(number, table, SITE, "a site")
            feeds = table.get("feeds")
            for entry in feeds if isinstance(feeds, list) else ():
                if isinstance(entry, dict):
                    file.require_known(number, entry, FEED, "a feed")
        return sites_of(file.tables, file.fail)


def toml_of(sites: Iterable[Site]) -> str:
    """*sites* as a file says them.

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
            "wait": format_wait(site.wait_s),
            "wait_max": format_wait(site.wait_max_s),
            "paused": site.paused,
            "ended": site.ended,
            "feeds": [
                {**feed._asdict(), "implied": [*feed.implied]} for feed in site.feeds
            ],
        }
        for site in sites
    ]
    return tomlkit.dumps({"site": tables})
