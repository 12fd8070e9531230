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

What always holds:

1.  A key that is not known is a fault, with file, line and the name that is near.
2.  `TomlSites.add` keeps what is there, comments too. What it writes has been read
    again before, and replaces the file in one step.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, InputBroken
from frontier.feeds.model import (
    DEFAULT_WAIT,
    MAX_SITES,
    Feed,
    Site,
    canonical_url,
    feed_of,
    format_wait,
    parse_wait,
    site_name,
    site_of,
    with_feeds,
)
from frontier.files import mode_of_environment, publish, read_input
from frontier.settings.toml_tables import TomlTables, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_BYTES = 64 << 20
SETTLE_S = 0.05
"""Between two looks at a file that has changed: somebody may still be writing."""
LOOKS = 20


def _is_bool(value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError("write true or false")  # noqa: TRY004 (as all checks do)


def _is_list(value: object) -> None:
    if not isinstance(value, list):
        raise ValueError("write a list, in square brackets")  # noqa: TRY004


SITE_FIELDS: dict[str, Callable[[Any], object]] = {
    "name": site_name,
    "wait": parse_wait,
    "wait_max": parse_wait,
    "paused": _is_bool,
    "ended": _is_bool,
    "feeds": _is_list,
}
"""The keys of a site; each check raises `ValueError` for what cannot be."""
FEED_FIELDS: dict[str, Callable[[Any], object]] = {
    "url": canonical_url,
    "implied": _is_list,
}


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
        data = self._settled()
        if data != self._data:
            self._sites = sites_in(self.where, data)
            self._data = data
        return self._sites

    def _settled(self) -> bytes:
        """The file's bytes: if they are not the known ones, the same at two looks."""
        data = self._bytes()
        for _ in range(LOOKS):
            if data == self._data:
                break
            time.sleep(SETTLE_S)
            before, data = data, self._bytes()
            if data == before:
                break
        return data

    def _bytes(self) -> bytes:
        return read_bytes(self._path, MAX_BYTES)

    def add(self, wanted: Mapping[str, Site]) -> None:
        """Have the file say the sites *wanted*, with all feeds of those that it has.

        Feeds are added, and whole sites; nothing else is changed. A file that is not
        there is made.

        Raises:
            InputBroken: The file is wrong as it is, or cannot be edited.
            OSError: It cannot be written.
        """
        try:
            import tomlkit
            from tomlkit.items import AoT
        except ImportError:
            raise ConfigurationError(
                "to add to feeds.toml a package is needed; install it with: "
                "pip install 'frontier-crawl[feeds]'"
            ) from None
        path = Path(os.path.realpath(self._path))  # a link stays one
        data, mode = b"", mode_of_environment()
        if path.exists():
            data, mode = read_input(path, MAX_BYTES), path.stat().st_mode & 0o777
        before = sites_in(self.where, data)
        document: Any = tomlkit.parse(data.decode("utf-8-sig"))
        tables = {table["name"]: table for table in document.get("site", ())}
        new = tomlkit.aot()
        for name, site in wanted.items():
            if name not in tables:
                new.append(_table(site))
                continue
            known = {feed.url for feed in before[name].feeds}
            entries = tables[name].setdefault("feeds", tomlkit.array())
            for feed in site.feeds:
                if feed.url not in known:
                    entries.append(_entry(feed, is_table=isinstance(entries, AoT)))
        if "site" not in document:
            document["site"] = new
        else:
            for table in new:
                document["site"].append(table)
        written = tomlkit.dumps(document).encode()
        reason = "is written in a way that this command cannot add to"
        try:
            is_said = sites_in(self.where, written) == {**before, **wanted}
        except InputBroken:
            is_said = False
        if not is_said:
            raise InputBroken(self.where, reason)
        publish(path, written, mode)


def sites_in(where: str, data: bytes) -> dict[str, Site]:
    """The sites that the file *where* says, whose bytes are *data*.

    Raises:
        InputBroken: Something in it cannot be.
    """
    file = TomlTables(where, data, "site", MAX_SITES, longest_line=MAX_BYTES)
    made: dict[str, Site] = {}
    places: dict[str, int] = {}
    feeds: dict[str, int] = {}
    for number, table in enumerate(file.tables):
        site = _site(file, number, table)
        if site.name in made:
            first = file.line(places[site.name], "name")
            reason = f"there is a site {site.name!r} in line {first} already"
            file.fail(number, "name", reason)
        for feed in site.feeds:
            owner = feeds.setdefault(feed.url, number)
            if owner != number:
                first = file.line(owner, feed.url)
                reason = f"the feed {feed.url} is in line {first} already"
                file.fail(number, feed.url, reason)
        made[site.name], places[site.name] = site, number
    return made


def _site(file: TomlTables, number: int, table: Mapping[str, Any]) -> Site:
    _check(file, number, table, SITE_FIELDS, "a site")
    feeds = [_feed(file, number, entry) for entry in table.get("feeds", [])]
    with file.at(number, "wait_max" if "wait_max" in table else ""):
        site = site_of(
            table.get("name"),
            (),
            table.get("wait", DEFAULT_WAIT),
            table.get("wait_max"),
            paused=table.get("paused", False),
            ended=table.get("ended", False),
        )
    with file.at(number, "feeds"):
        return with_feeds(site, feeds)


def _feed(file: TomlTables, number: int, entry: object) -> Feed:
    given = {"url": entry} if isinstance(entry, str) else entry
    if not isinstance(given, dict):
        file.fail(number, "feeds", "a feed is a URL, or a table with a url")
    _check(file, number, given, FEED_FIELDS, "a feed")
    with file.at(number, str(given.get("url", "feeds"))):
        return feed_of(given.get("url"), given.get("implied", []))


def _check(
    file: TomlTables,
    number: int,
    given: Mapping[str, Any],
    fields: Mapping[str, Callable[[Any], object]],
    of: str,
) -> None:
    file.require_known(number, given, fields, of)
    for key, value in given.items():
        with file.at(number, str(value) if key == "url" else key):
            fields[key](value)


def _table(site: Site) -> Any:
    """A site as it is written where there was none."""
    import tomlkit

    table = tomlkit.table()
    table["name"] = site.name
    table["wait"] = format_wait(site.wait_s)
    if site.wait_max_s != site.wait_s:
        table["wait_max"] = format_wait(site.wait_max_s)
    for key in ("paused", "ended"):
        if getattr(site, key):
            table[key] = True
    feeds = tomlkit.array().multiline(multiline=True)
    for feed in site.feeds:
        feeds.append(_entry(feed))
    table["feeds"] = feeds
    return table


def _entry(feed: Feed, *, is_table: bool = False) -> Any:
    import tomlkit

    if not is_table and not feed.implied:
        return feed.url
    made: Any = tomlkit.table() if is_table else tomlkit.inline_table()
    made["url"] = feed.url
    if feed.implied:
        made["implied"] = list(feed.implied)
    return made
