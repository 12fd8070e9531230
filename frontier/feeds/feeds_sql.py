"""Sites and their feeds in an SQL database that has the tables of CrawlRSS.

CrawlRSS has these columns. Those in brackets are optional, and ours:

    Site         id, Name, MinWaitPeriod, Active [MaxWaitPeriod, Paused]
    Feed         id, URI, Site
    ImpliedPage  id, URI, Site
    FeedPage     Feed, Page: which feed implies which page

What always holds:

1.  `STATEMENT` reads all: what comes back is one state of the database. Nothing is ever
    written.
2.  What the sites are follows from the rows alone, so that all nodes see the same. A
    row that cannot be used is left out, and `SqlSites.notes` says which and why; a wait
    that cannot be is `DEFAULT_WAIT`. Of two of one name or URL the first id counts.
3.  No message has the password of the URL, or what its query says.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, InputBroken
from frontier.feeds.model import (
    DEFAULT_WAIT,
    MAX_FEEDS,
    MAX_IMPLIED,
    MAX_SITES,
    Feed,
    Site,
    canonical_url,
    parse_wait,
    site_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import URL, Engine

CONNECT_S = 5
"""Seconds in which a server has to answer."""
STATEMENT_S = 20
"""Seconds that the statement may take."""
SQLITE_STEPS = 10_000
"""Instructions of a statement of SQLite between two looks at the clock."""
MAX_ROWS = 2_000_000
"""One for each implied page, or feed, or site."""
MAX_NOTES = 1_000
STATEMENT = """
SELECT Site.*, Feed.id AS feed_id, Feed.URI AS feed_uri, ImpliedPage.URI AS page_uri
FROM Site
LEFT JOIN Feed ON Feed.Site = Site.id
LEFT JOIN FeedPage ON FeedPage.Feed = Feed.id
LEFT JOIN ImpliedPage ON ImpliedPage.id = FeedPage.Page
ORDER BY Site.id, Feed.id, ImpliedPage.id
"""
NEEDED = ("id", "Name", "MinWaitPeriod", "Active")
"""Columns of the table Site; a database names any other that it lacks by itself."""
OPTIONAL = ("MaxWaitPeriod", "Paused")


class SqlSites:
    """The sites of the database that the URL *given* names.

    It is connected to for each reading. Used by one thread at a time.

    Raises:
        ConfigurationError: It is not a URL of a database, or a package is missing.
    """

    def __init__(self, given: str) -> None:
        try:
            from sqlalchemy import make_url
            from sqlalchemy.exc import ArgumentError, NoSuchModuleError
        except ImportError:
            raise ConfigurationError(
                "sites in a database need a package; install it with: "
                "pip install 'frontier-crawl[feeds]'"
            ) from None
        try:
            url = _with_driver(make_url(given))
            self._password = str(url.password or "")
            self.where = url.set(query={}).render_as_string(hide_password=True)
            self._file = _file_of(url)
            self._engine = _engine(url)
        except NoSuchModuleError:
            raise ConfigurationError(
                f"{self.where}: SQLAlchemy knows no such database"
            ) from None
        except (ArgumentError, ValueError):
            raise ConfigurationError(
                "the sites' database is not a URL that SQLAlchemy knows, such as "
                "postgresql://user:password@host/name or sqlite:///feeds.db"
            ) from None
        except ImportError as error:
            raise ConfigurationError(
                f"{self.where}: its driver is not installed: pip install {error.name}"
            ) from None
        self.notes: tuple[str, ...] = ()
        """What the last reading left out, and why."""
        self._rows: Sequence[Any] | None = None
        self._sites: Mapping[str, Site] = {}

    def read(self) -> Mapping[str, Site]:
        """The sites by name; made again only if the rows are others.

        Raises:
            InputBroken: The database cannot be reached, or lacks a table or column.
        """
        rows = self._selected()
        if rows != self._rows:
            reading = _Reading(rows, self.where)
            self._sites, self.notes = reading.sites, tuple(reading.notes)
            self._rows = rows
        return self._sites

    def _selected(self) -> Sequence[Any]:
        """What `STATEMENT` finds: `NEEDED`, `OPTIONAL`, a feed's id and URI, a page."""
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        if self._file is not None and not self._file.is_file():  # reading makes none
            raise InputBroken(self.where, "there is no such file")
        try:
            with self._engine.connect() as connection:
                found = connection.execute(text(STATEMENT))
                # Each database has its own spelling of a name without quotes.
                there = {name.lower(): at for at, name in enumerate(found.keys())}
                rows = found.fetchmany(MAX_ROWS + 1)
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise InputBroken(self.where, self._first_line(cause)) from None
        missing = [f"Site.{name}" for name in NEEDED if name.lower() not in there]
        if missing:
            raise InputBroken(self.where, f"has not the column {', '.join(missing)}")
        if len(rows) > MAX_ROWS:
            raise InputBroken(self.where, f"has more than {MAX_ROWS:,} feeds and pages")
        places = [there.get(name.lower()) for name in (*NEEDED, *OPTIONAL)]
        return [
            (*(None if at is None else row[at] for at in places), *row[-3:])
            for row in rows
        ]

    def _first_line(self, error: object) -> str:
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        return line.replace(self._password, "***") if self._password else line


def _file_of(url: URL) -> Path | None:
    name = url.database
    has_file = url.get_backend_name() == "sqlite" and name not in {None, ":memory:"}
    return Path(name) if name and has_file else None


def _with_driver(url: URL) -> URL:
    """*url* with the driver that is installed, where it names none."""
    if url.drivername in {"postgres", "postgresql"}:
        newest = find_spec("psycopg") or not find_spec("psycopg2")
        return url.set(drivername=f"postgresql+psycopg{'' if newest else '2'}")
    if url.drivername in {"mysql", "mariadb"} and find_spec("pymysql"):
        return url.set(drivername=f"{url.drivername}+pymysql")
    return url


def _engine(url: URL) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    backend = url.get_backend_name()
    options: dict[str, Any] = {}
    if backend == "postgresql":
        options = {
            "connect_timeout": CONNECT_S,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": STATEMENT_S * 1000,
        }
    elif backend == "sqlite":
        options = {"timeout": CONNECT_S}
    elif url.drivername.endswith("+pymysql"):
        options = {"connect_timeout": CONNECT_S, "read_timeout": STATEMENT_S}
    # No pool: it is asked every ten seconds, and a connection that is kept may be dead.
    engine = create_engine(
        url, connect_args=options, poolclass=NullPool, hide_parameters=True
    )
    if backend == "postgresql":
        event.listen(engine, "connect", _limit_postgresql)
    elif backend == "sqlite":
        event.listen(engine, "connect", _limit_sqlite)
    return engine


def _limit_postgresql(connection: Any, _: object) -> None:
    """Not as options of the connection: a pooler such as pgbouncer refuses those."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {STATEMENT_S * 1000}")
        connection.commit()


def _limit_sqlite(connection: Any, _: object) -> None:
    end = time.monotonic() + STATEMENT_S
    connection.set_progress_handler(lambda: time.monotonic() > end, SQLITE_STEPS)


class _Reading:
    """What *rows*, in their order, say: sites, and what cannot be used.

    Raises:
        InputBroken: There are too many sites.
    """

    def __init__(self, rows: Sequence[Any], where: str) -> None:
        self.sites: dict[str, Site] = {}
        self.notes: list[str] = []
        self._known: set[str] = set()
        """URLs of feeds."""
        for number, (_, group) in enumerate(groupby(rows, itemgetter(0))):
            if number >= MAX_SITES:
                raise InputBroken(where, f"has more than {MAX_SITES:,} sites")
            self._add_site(list(group))

    def _note(self, note: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(note)

    def _add_site(self, rows: list[Any]) -> None:
        id_, written, wait, active, longest, paused, *_ = rows[0]
        try:
            name = site_name(written)
        except ValueError as error:
            self._note(f"the site with the id {id_} is left out: {error}")
            return
        if name in self.sites:
            self._note(
                f"the site {name!r} is there twice; that with the id {id_} is left out"
            )
            return
        wait_s, wait_max_s = self._waits(name, wait, longest)
        self.sites[name] = Site(
            name,
            self._feeds(name, rows),
            wait_s,
            wait_max_s,
            paused=_truth(paused),
            ended=not _truth(active),
        )

    def _waits(self, name: str, wait: object, longest: object) -> tuple[int, int]:
        try:
            wait_s = parse_wait(_text(wait) or DEFAULT_WAIT)
        except ValueError as error:
            self._note(f"the site {name!r}: {error}; {DEFAULT_WAIT} is taken")
            wait_s = parse_wait(DEFAULT_WAIT)
        try:
            wait_max_s = parse_wait(_text(longest)) if _text(longest) else wait_s
        except ValueError as error:
            self._note(f"the site {name!r}: {error}; its wait is fixed")
            wait_max_s = wait_s
        if wait_max_s < wait_s:
            self._note(f"the site {name!r}: its longest wait is below its wait; fixed")
        return wait_s, max(wait_s, wait_max_s)

    def _feeds(self, name: str, rows: list[Any]) -> tuple[Feed, ...]:
        feeds: list[Feed] = []
        for feed_id, group in groupby(rows, itemgetter(-3)):
            of_feed = list(group)
            if feed_id is None:
                continue
            if len(feeds) >= MAX_FEEDS:
                self._note(
                    f"the site {name!r} has more than {MAX_FEEDS:,} feeds; the others "
                    "are left out"
                )
                break
            try:
                url = canonical_url(of_feed[0][-2])
            except ValueError as error:
                self._note(f"a feed of {name!r} is left out: {error}")
                continue
            if url in self._known:
                self._note(f"the feed {url} of {name!r} is there already; left out")
                continue
            self._known.add(url)
            feeds.append(Feed(url, self._pages(name, url, of_feed)))
        return tuple(feeds)

    def _pages(self, name: str, feed: str, rows: list[Any]) -> tuple[str, ...]:
        pages: dict[str, None] = {}
        for *_, page in rows:
            if page is None:
                continue
            try:
                pages[canonical_url(page)] = None
            except ValueError as error:
                self._note(f"a page of {feed} of {name!r} is left out: {error}")
        if len(pages) > MAX_IMPLIED:
            self._note(f"the feed {feed} has more than {MAX_IMPLIED} implied pages")
        return tuple(pages)[:MAX_IMPLIED]


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _truth(value: object) -> bool:
    """What a column of yes or no has: a boolean, a number, a bit or a word."""
    if isinstance(value, bytes):
        return value.strip(b"\x00") not in {b"", b"0"}
    if isinstance(value, str):
        return value.strip().lower() in {"1", "t", "true", "y", "yes", "on"}
    return bool(value)
