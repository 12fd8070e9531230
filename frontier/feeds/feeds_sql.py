"""Sites and their feeds in an SQL database that has the tables of CrawlRSS.

CrawlRSS has these columns. Those in brackets are optional, and ours:

    Site         id, Name, MinWaitPeriod, Active [MaxWaitPeriod, Paused]
    Feed         id, URI, Site
    ImpliedPage  id, URI, Site
    FeedPage     Feed, Page: which feed implies which page

What always holds:

1.  `STATEMENT` reads everything, so its result is one state of the database. Nothing is
    ever written.
2.  The sites depend on the rows alone, so that all nodes see the same. A row that
    cannot be used is left out, and `SqlSites.notes` says which and why; an invalid wait
    becomes `DEFAULT_WAIT`. Of two rows with one name or URL, the first by id counts.
3.  No message has the password of the URL, or its query.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, InputBroken
from frontier.feeds.model import Site, sites_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = Mapping[str, Any]
    """By the names of columns, in lower case."""

STATEMENT = """
SELECT Site.*, Feed.id AS feed_id, Feed.URI AS feed_uri, ImpliedPage.URI AS page_uri
FROM Site
LEFT JOIN Feed ON Feed.Site = Site.id
LEFT JOIN FeedPage ON FeedPage.Feed = Feed.id
LEFT JOIN ImpliedPage ON ImpliedPage.id = FeedPage.Page
ORDER BY Site.id, Feed.id, ImpliedPage.id
"""
NEEDED = ("id", "name", "minwaitperiod", "active")
"""Columns of the table Site; if any other is missing, the database itself says so."""
DRIVERS = {
    "postgresql": {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": 20_000,
    },
    "sqlite": {"timeout": 5},
}
"""Options that keep a reading from waiting for a server that is gone."""


class SqlSites:
    """The sites of the database that the URL *given* names.

    Each reading connects to it anew. Used by one thread at a time.

    Raises:
        ConfigurationError: It is not a URL of a database, or a package is missing.
    """

    def __init__(self, given: str) -> None:
        try:
            from sqlalchemy import create_engine, make_url
            from sqlalchemy.exc import ArgumentError
            from sqlalchemy.pool import NullPool
        except ImportError:
            raise ConfigurationError(
                "sites in a database need a package; install it with: "
                "pip install 'frontier-crawl[feeds]'"
            ) from None
        try:
            url = make_url(given)
            if url.drivername in {"postgres", "postgresql"}:
                newest = find_spec("psycopg") or not find_spec("psycopg2")
                url = url.set(drivername=f"postgresql+psycopg{'' if newest else '2'}")
            self._password = str(url.password or "")
            self.where = url.set(query={}).render_as_string(hide_password=True)
            backend = url.get_backend_name()
            self._file = url.database if backend == "sqlite" else None
            self._engine = create_engine(
                url,
                connect_args=DRIVERS.get(backend, {}),
                poolclass=NullPool,  # a connection that is kept may be dead
                hide_parameters=True,
            )
        except (ArgumentError, ValueError):
            raise ConfigurationError(
                "the sites' database is not a URL that SQLAlchemy knows, such as "
                "postgresql://user:password@host/name or sqlite:///feeds.db"
            ) from None
        except ImportError as error:
            package = {"MySQLdb": "mysqlclient"}.get(f"{error.name}", error.name)
            raise ConfigurationError(
                f"{self.where}: its driver is not installed: pip install {package}"
            ) from None
        self.notes: tuple[str, ...] = ()
        """What the last reading left out, and why."""
        self._rows: Sequence[Row] | None = None
        self._sites: Mapping[str, Site] = {}

    def read(self) -> Mapping[str, Site]:
        """The sites by name; made again only if the rows have changed.

        Raises:
            InputBroken: The database cannot be reached, or lacks a table or column.
        """
        rows = self._selected()
        if rows != self._rows:
            tables, notes = list(_tables(rows)), list[str]()

            def note(number: int, _: str, reason: str) -> None:
                notes.append(
                    f"the site {tables[number].get('name', '')!r}: {reason}; not used"
                )

            self._sites = sites_of(tables, note)
            self._rows, self.notes = rows, tuple(notes)
        return self._sites

    def _selected(self) -> Sequence[Row]:
        """What `STATEMENT` finds."""
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        if self._file and not Path(self._file).is_file():  # else SQLite makes one
            raise InputBroken(self.where, "there is no such file")
        try:
            with self._engine.connect() as connection:
                found = connection.execute(text(STATEMENT))
                # Each database has its own spelling of a name without quotes.
                names = list(map(str.lower, found.keys()))
                rows = [dict(zip(names, row, strict=True)) for row in found]
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            line = (str(cause).strip() or type(cause).__name__).splitlines()[0][:300]
            line = line.replace(self._password, "***") if self._password else line
            raise InputBroken(self.where, line) from None
        if missing := [name for name in NEEDED if name not in names]:
            raise InputBroken(self.where, f"Site lacks the column {missing[0]}")
        return rows


def _tables(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The table of each site in *rows*, which are in order, as a file would have it."""
    for _, of_site in groupby(rows, itemgetter("id")):
        feeds: dict[Any, dict[str, Any]] = {}
        for row in of_site:
            if row["feed_id"] is not None:
                feed = {"url": row["feed_uri"], "implied": []}
                implied = feeds.setdefault(row["feed_id"], feed)["implied"]
                implied += [] if row["page_uri"] is None else [row["page_uri"]]
        wait, longest = row["minwaitperiod"], row.get("maxwaitperiod")
        said = {"name": row["name"], "wait": wait, "wait_max": longest}
        states = {
            "paused": _truth(row.get("paused")),
            "ended": not _truth(row["active"]),
            "feeds": list(feeds.values()),
        }
        yield {key: value for key, value in said.items() if value} | states


def _truth(value: object) -> bool:
    """Whether a yes-or-no column says yes, as a boolean, a number, a bit or a word."""
    return str(value).lower() not in {"none", "", "0", "f", "false", "no", r"b'\x00'"}
