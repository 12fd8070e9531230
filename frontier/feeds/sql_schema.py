"""An SQL database that has the tables of CrawlRSS: reaching it, and what is in it.

CrawlRSS has these tables. The columns behind the semicolon are optional, and the last
two of them are ours:

    Site         id, Name, MinWaitPeriod, Active; LastFeedUpdate, MaxWaitPeriod, Paused
    Feed         id, URI, Site; MostRecentlySeen, LastDigest, LastFetchTime
    ImpliedPage  id, URI, Site
    FeedPage     Feed, Page: which feed implies which page

What always holds:

1.  Names are compared without case and without ``_``: each database and each mapper has
    spellings of its own. The columns of a `Schema` have CrawlRSS's.
2.  A database without one of the tables, or without a column that we need, is one that
    is being migrated: `FeedConfigError` says what is missing.
3.  Nothing waits long: not for a server that does not answer, not for a statement.
4.  No message has the password of the URL, or what its query says.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, FeedConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Column, Connection, Engine, Table

CONNECT_S = 5
"""Seconds in which a server has to answer."""
STATEMENT_S = 20
"""Seconds that a statement may take."""
HANG_UP_S = 30
"""Seconds after which a connection is ended, whatever the server does."""
SQLITE_STEPS = 10_000
"""Instructions of a statement of SQLite between two looks at the clock."""
_COLLISIONS = frozenset(("40001", "40P01", "23505", "42P07"))
"""Of PostgreSQL: transactions met, a deadlock, the same row or table made twice."""
_NEEDED = {
    "Site": ("id", "Name", "MinWaitPeriod", "Active"),
    "Feed": ("id", "URI", "Site"),
    "ImpliedPage": ("id", "URI", "Site"),
    "FeedPage": ("Feed", "Page"),
}
_OPTIONAL = {
    "Site": ("LastFeedUpdate", "MaxWaitPeriod", "Paused"),
    "Feed": ("MostRecentlySeen", "LastDigest", "LastFetchTime"),
    "ImpliedPage": (),
    "FeedPage": (),
}


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables as they are there; ``table.c`` has columns by CrawlRSS's names."""

    site: Table
    feed: Table
    page: Table
    link: Table


class Database:
    """The database that the URL *given* names; connects when it is first asked.

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
        self.dialect = self._engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from.

        Raises:
            FeedConfigError: The database cannot be reached, or refuses.
        """
        if self._file is not None and not self._file.is_file():
            raise FeedConfigError(self.where, "there is no such file")
        with self._told(), self._engine.connect() as connection, _limited(connection):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction that nothing else comes between.

        Raises:
            FeedConfigError: The database cannot be reached, or refuses.
            Collision: Another transaction was in the way; this one did nothing.
        """
        with self._told(), self._engine.connect() as plain, _limited(plain):
            if self.dialect == "sqlite":
                connection = plain.execution_options(isolation_level="AUTOCOMMIT")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.exec_driver_sql("COMMIT")
                except BaseException:
                    connection.exec_driver_sql("ROLLBACK")
                    raise
                return
            connection = plain.execution_options(isolation_level="SERIALIZABLE")
            with connection.begin():
                yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Have errors of a database be ours, without the password."""
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", "") in _COLLISIONS:
                raise Collision(
                    self.where, "another transaction is in the way"
                ) from None
            raise FeedConfigError(self.where, self._first_line(error.orig)) from None
        except SQLAlchemyError as error:
            raise FeedConfigError(self.where, self._first_line(error)) from None

    def _first_line(self, error: object) -> str:
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        return line.replace(self._password, "***") if self._password else line

    def moment(self, when: datetime) -> object:
        """*when* as a column for times takes it; in UTC where it has no zone."""
        aware = when.astimezone(UTC)
        if self.dialect == "postgresql":
            return aware
        return aware.replace(tzinfo=None).isoformat(" ", "seconds")

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


class Collision(FeedConfigError):
    """Two transactions met; the one that sees this may be tried again."""


def _file_of(url: URL) -> Path | None:
    """The file of an SQLite database: it is not to be made by reading it."""
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
        limits = {"read_timeout": STATEMENT_S, "write_timeout": STATEMENT_S}
        options = {"connect_timeout": CONNECT_S, **limits}
    # No pool: it is asked every ten seconds, and a connection that is kept may be dead.
    engine = create_engine(
        url, connect_args=options, poolclass=NullPool, hide_parameters=True
    )
    if backend == "postgresql":
        event.listen(engine, "connect", _set_limits)
    return engine


def _set_limits(connection: Any, _: object) -> None:
    """Not as options of the connection: a pooler such as pgbouncer refuses those."""
    with _hung_up(connection), connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {STATEMENT_S * 1000}")
        cursor.execute("SET timezone = 'UTC'")
        connection.commit()


def _limited(connection: Connection) -> AbstractContextManager[None]:
    return _hung_up(connection.connection.driver_connection)


@contextmanager
def _hung_up(connection: Any) -> Iterator[None]:
    """End the *connection* if it takes too long: a server that is frozen has no limits.

    Drivers wait in it without an end. One that cannot be ended has limits of its own.
    """
    if isinstance(connection, sqlite3.Connection):
        end = time.monotonic() + HANG_UP_S
        connection.set_progress_handler(lambda: time.monotonic() > end, SQLITE_STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)
        return
    try:
        descriptor = os.dup(connection.fileno())
    except (AttributeError, OSError):
        yield
        return
    with socket.socket(fileno=descriptor) as ours:
        timer = threading.Timer(HANG_UP_S, ours.shutdown, [socket.SHUT_RDWR])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def has_tables(connection: Connection) -> bool:
    """Whether any of the tables is there."""
    return bool(_names(connection))


def _names(connection: Connection) -> dict[str, str]:
    """The names that our tables have there, by CrawlRSS's."""
    from sqlalchemy import inspect

    inspector = inspect(connection)
    there = [*inspector.get_table_names(), *inspector.get_view_names()]
    by_plain = {_plain(name): name for name in reversed(there)}
    return {
        name: by_plain[_plain(name)] for name in _NEEDED if _plain(name) in by_plain
    }


def schema_of(connection: Connection, where: str) -> Schema:
    """The tables as they are there now.

    Raises:
        FeedConfigError: One is missing, or a column that is needed.
    """
    names = _names(connection)
    missing = [f"the table {name}" for name in _NEEDED if name not in names]
    tables = {}
    for table, spelled in names.items():
        made, lacking = _table(connection, table, spelled)
        tables[table] = made
        missing += [f"the column {table}.{column}" for column in lacking]
    if missing:
        raise FeedConfigError(where, f"has not {', '.join(missing)}")
    order = ("Site", "Feed", "ImpliedPage", "FeedPage")
    return Schema(*(tables[name] for name in order))


def _table(connection: Connection, table: str, spelled: str) -> tuple[Table, list[str]]:
    """The table called *spelled*, and which of the columns needed it has not."""
    from sqlalchemy import Column, MetaData, Table, false, literal_column, select
    from sqlalchemy import table as bare
    from sqlalchemy.types import NullType

    nothing: Any = select(literal_column("*")).select_from(bare(spelled)).where(false())
    there = {_plain(name): name for name in connection.execute(nothing).keys()}  # noqa: SIM118
    known = (*_NEEDED[table], *_OPTIONAL[table])
    # No types: what a column has comes as the driver has it, and is looked at.
    columns = [
        Column(there[_plain(name)], NullType(), key=name)
        for name in known
        if _plain(name) in there
    ]
    lacking = [name for name in _NEEDED[table] if _plain(name) not in there]
    return Table(spelled, MetaData(), *columns), lacking


def create_tables(connection: Connection) -> None:
    """Make the tables, as CrawlRSS has them, with our two columns."""
    from sqlalchemy import MetaData, Table

    made, lower = MetaData(), connection.dialect.name == "postgresql"
    spelled = str.lower if lower else str  # where others need quotes
    for name, columns in _columns(spelled).items():
        Table(spelled(name), made, *columns)
    made.create_all(connection)


def _columns(spelled: Callable[[str], str]) -> dict[str, list[Column[Any]]]:
    """Those of each table that is made."""
    import sqlalchemy as sql

    def column(name: str, kind: Any, *more: Any, **options: Any) -> Column[Any]:
        return sql.Column(spelled(name), kind, *more, **options)

    def key(name: str, table: str) -> Column[Any]:
        leads_to = sql.ForeignKey(f"{spelled(table)}.id")
        return column(name, sql.Integer, leads_to, index=True)

    text, time, url = sql.String(255), sql.DateTime(), sql.String(4096)
    return {
        "Site": [
            column("id", sql.Integer, primary_key=True),
            column("Name", text, nullable=False, unique=True),
            column("MinWaitPeriod", text),
            column("MaxWaitPeriod", text),
            column("Active", sql.Boolean, nullable=False),
            column("Paused", sql.Boolean),
            column("LastFeedUpdate", time),
        ],
        "Feed": [
            column("id", sql.Integer, primary_key=True),
            column("URI", url, nullable=False),
            key("Site", "Site"),
            column("MostRecentlySeen", time),
            column("LastDigest", text),
            column("LastFetchTime", time),
        ],
        "ImpliedPage": [
            column("id", sql.Integer, primary_key=True),
            column("URI", url, nullable=False),
            key("Site", "Site"),
        ],
        "FeedPage": [key("Feed", "Feed"), key("Page", "ImpliedPage")],
    }


def insert_row(connection: Connection, table: Table, values: dict[str, object]) -> Any:
    """Insert *values*, by CrawlRSS's names; returns the new id.

    An id comes from where the database has ids from: the column itself, else the
    sequence that Hibernate makes, else it is one more than the greatest.
    """
    from sqlalchemy import func, insert, select, text

    if connection.dialect.name == "postgresql":
        quoted = connection.dialect.identifier_preparer.format_table(table)
        own = text("SELECT pg_get_serial_sequence(:t, :c) IS NOT NULL")
        if connection.scalar(own, {"t": quoted, "c": table.c["id"].name}):
            done = insert(table).values(values).returning(table.c["id"])
            return connection.scalar(done)
        if connection.scalar(text("SELECT to_regclass('hibernate_sequence')")):
            new = connection.scalar(text("SELECT nextval('hibernate_sequence')"))
            connection.execute(insert(table).values({**values, "id": new}))
            return new
    new = connection.scalar(select(func.coalesce(func.max(table.c["id"]), 0) + 1))
    connection.execute(insert(table).values({**values, "id": new}))
    return new
