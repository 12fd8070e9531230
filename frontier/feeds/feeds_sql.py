"""Sites and their feeds in an SQL database, as CrawlRSS has them.

A database that CrawlRSS has made works as it is; `sql_schema` says what is in it.

What always holds:

1.  One statement reads all: what comes back is one state of the database.
2.  What the sites are follows from the rows alone, so that all nodes see the same. A
    row that cannot be used is left out, and `SqlSites.notes` says which and why; a wait
    that cannot be is `DEFAULT_WAIT`. Of two of one name or URL the first id counts.
3.  An edit is one transaction. It touches the rows of the sites that it is about.
4.  What is written back of a feed's state is never older than what is there.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from frontier.errors import FeedConfigError
from frontier.feeds.model import (
    DEFAULT_WAIT,
    MAX_FEEDS,
    MAX_IMPLIED,
    MAX_NAME,
    MAX_SITES,
    MAX_URL,
    Feed,
    Site,
    canonical_url,
    format_wait,
    parse_wait,
    site_name,
)
from frontier.feeds.sql_schema import (
    Collision,
    Database,
    Schema,
    create_tables,
    has_tables,
    insert_row,
    schema_of,
)
from frontier.settings.values import MAX_DURATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Table

    from frontier.feeds.model import FeedState

logger = logging.getLogger(__name__)

MAX_ROWS = 2_000_000
"""Of the statement that reads all: one for each implied page, or feed, or site."""
MAX_NOTES = 1_000
TRIES = 30
"""Of an edit whose transaction met another's."""
MAX_DIGEST = 255
"""Characters of the column LastDigest."""


class SqlSites:
    """The sites of the database that the URL *given* names.

    Used by one thread at a time, but for `record`.

    Raises:
        ConfigurationError: It is not a URL of a database, or a package is missing.
    """

    def __init__(self, given: str) -> None:
        self._database = Database(given)
        self.where = self._database.where
        self.notes: tuple[str, ...] = ()
        """What the last reading left out, and why."""
        self._rows: Sequence[Any] | None = None
        self._read = _Reading()
        self._silent = ""
        """Why the state of feeds was last not written, as it was logged."""

    def read(self) -> Mapping[str, Site]:
        """The sites by name; made again only if the rows are others.

        Raises:
            FeedConfigError: The database cannot be reached, or lacks a table or column.
        """
        with self._database.reading() as connection:
            rows = _rows(connection, schema_of(connection, self.where), self.where)
        if rows != self._rows:
            self._read = _Reading.of(rows, self.where)
            self._rows = rows
            self.notes = tuple(self._read.notes)
        return self._read.sites

    def edit(
        self, change: Callable[[Mapping[str, Site]], Mapping[str, Site | None]]
    ) -> tuple[str, ...]:
        """Have the database say what *change* makes of its sites.

        *change* gets them by name, and returns those that are to be as it says; `None`
        for one that is to go. It may be called again. The tables are made if there is
        none of them. Returns what could not be said as it was asked for.

        Raises:
            FeedConfigError: The database cannot be reached, or refuses.
        """
        for last in range(TRIES - 1, -1, -1):
            try:
                return self._edit_once(change)
            except Collision:
                if not last:
                    raise
                time.sleep(random.uniform(0.005, 0.05))
        raise AssertionError

    def _edit_once(
        self, change: Callable[[Mapping[str, Site]], Mapping[str, Site | None]]
    ) -> tuple[str, ...]:
        remarks: dict[str, None] = {}
        with self._database.writing() as connection:
            if not has_tables(connection):
                create_tables(connection)
            schema = schema_of(connection, self.where)
            read = _Reading.of(_rows(connection, schema, self.where), self.where)
            rows = _Rows(connection, schema, self.where, remarks)
            for name, site in change(read.sites).items():
                before = read.sites.get(name)
                if site is None and before is not None:
                    rows.remove_site(read.site_ids[name])
                elif site is not None and before is None:
                    rows.add_site(site)
                elif site is not None and before is not None and site != before:
                    rows.change_site(read, before, site)
        return tuple(remarks)

    def record(
        self, site: str, last_update: datetime, states: Iterable[FeedState]
    ) -> None:
        """Write what a round has found into the columns that the tables have for it.

        A fault is logged once; the next round writes again.
        """
        ids, site_id = self._read.feed_ids, self._read.site_ids.get(site)
        known = [state for state in states if state.url in ids]
        if site_id is None:
            return
        try:
            with self._database.writing() as connection:
                schema = schema_of(connection, self.where)
                when = self._database.moment(last_update)
                _update(connection, schema.site, site_id, "LastFeedUpdate", when, {})
                for state in known:
                    self._record_feed(connection, schema.feed, ids[state.url], state)
        except FeedConfigError as error:
            if str(error) != self._silent:
                self._silent = str(error)
                logger.warning(
                    "%s; what was found in feeds is only in the store, not there",
                    error,
                )
            return
        if self._silent:
            self._silent = ""
            logger.warning("%s takes what was found in feeds again", self.where)

    def _record_feed(
        self, connection: Connection, table: Table, feed_id: object, state: FeedState
    ) -> None:
        values: dict[str, object] = {}
        if state.last_digest:
            values["LastDigest"] = state.last_digest[:MAX_DIGEST]
        if state.newest_item is not None:
            values["MostRecentlySeen"] = self._database.moment(state.newest_item)
        if state.last_fetch is not None:
            when = self._database.moment(state.last_fetch)
            _update(connection, table, feed_id, "LastFetchTime", when, values)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


def _update(
    connection: Connection,
    table: Table,
    row: object,
    column: str,
    when: object,
    more: Mapping[str, object],
) -> None:
    """Set the time *column* and *more* of a row, unless a later time is there."""
    from sqlalchemy import or_, update

    values = {name: value for name, value in more.items() if name in table.c}
    where = [table.c["id"] == row]
    if column in table.c:
        values[column] = when
        where.append(or_(table.c[column].is_(None), table.c[column] <= when))
    if values:
        connection.execute(update(table).where(*where).values(values))


def _rows(connection: Connection, schema: Schema, where: str) -> Sequence[Any]:
    """All that is there: id, name, waits and flags of a site; a feed's id, URI; a page.

    Raises:
        FeedConfigError: It is more than can be.
    """
    from sqlalchemy import func, null, select

    site, feed, page, link = schema.site, schema.feed, schema.page, schema.link

    def text(column: Any, most: int) -> Any:
        return func.substr(column, 1, most + 1)

    has_longest, has_pause = "MaxWaitPeriod" in site.c, "Paused" in site.c
    wanted = select(
        site.c["id"],
        text(site.c["Name"], MAX_NAME),
        text(site.c["MinWaitPeriod"], MAX_DURATION),
        text(site.c["MaxWaitPeriod"], MAX_DURATION) if has_longest else null(),
        site.c["Active"],
        site.c["Paused"] if has_pause else null(),
        feed.c["id"],
        text(feed.c["URI"], MAX_URL),
        text(page.c["URI"], MAX_URL),
    )
    joined = (
        site.outerjoin(feed, feed.c["Site"] == site.c["id"])
        .outerjoin(link, link.c["Feed"] == feed.c["id"])
        .outerjoin(page, link.c["Page"] == page.c["id"])
    )
    order = (site.c["id"], feed.c["id"], page.c["id"])
    statement = wanted.select_from(joined).order_by(*order).limit(MAX_ROWS + 1)
    rows = connection.execute(statement).fetchall()
    if len(rows) > MAX_ROWS:
        raise FeedConfigError(where, f"has more than {MAX_ROWS:,} feeds and pages")
    return [tuple(row) for row in rows]


class _Reading:
    """What rows say: sites, which rows they are, and what cannot be used."""

    def __init__(self) -> None:
        self.sites: dict[str, Site] = {}
        self.site_ids: dict[str, object] = {}
        self.feed_ids: dict[str, object] = {}
        """By the canonical URL."""
        self.notes: list[str] = []

    @classmethod
    def of(cls, rows: Sequence[Any], where: str) -> _Reading:
        """What *rows*, in their order, say.

        Raises:
            FeedConfigError: There are too many sites.
        """
        reading = cls()
        for number, (site_id, group) in enumerate(groupby(rows, itemgetter(0))):
            if number >= MAX_SITES:
                raise FeedConfigError(where, f"has more than {MAX_SITES:,} sites")
            reading._add_site(site_id, list(group))
        return reading

    def _note(self, note: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(note)

    def _add_site(self, site_id: object, rows: list[Any]) -> None:
        _, name, wait, longest, active, paused, *_ = rows[0]
        try:
            called = site_name(name)
        except ValueError as error:
            self._note(f"the site with the id {site_id} is left out: {error}")
            return
        if called in self.sites:
            self._note(
                f"the site {called!r} is there twice; that with the id {site_id} is "
                "left out"
            )
            return
        wait_s, wait_max_s = self._waits(called, wait, longest)
        feeds = self._feeds(called, rows)
        self.site_ids[called] = site_id
        self.sites[called] = Site(
            called,
            feeds,
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
        for feed_id, group in groupby(rows, itemgetter(6)):
            pages = list(group)
            if feed_id is None:
                continue
            if len(feeds) >= MAX_FEEDS:
                self._note(
                    f"the site {name!r} has more than {MAX_FEEDS:,} feeds; the others "
                    "are left out"
                )
                break
            try:
                url = canonical_url(pages[0][7])
            except ValueError as error:
                self._note(f"a feed of {name!r} is left out: {error}")
                continue
            if url in self.feed_ids:
                self._note(f"the feed {url} of {name!r} is there already; left out")
                continue
            self.feed_ids[url] = feed_id
            feeds.append(Feed(url, self._pages(name, url, pages)))
        return tuple(feeds)

    def _pages(self, name: str, feed: str, rows: list[Any]) -> tuple[str, ...]:
        pages: dict[str, None] = {}
        for row in rows:
            if row[8] is None:
                continue
            try:
                pages[canonical_url(row[8])] = None
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


class _Rows:
    """Changes rows within one transaction."""

    def __init__(
        self,
        connection: Connection,
        schema: Schema,
        where: str,
        remarks: dict[str, None],
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._where = where
        self._remarks = remarks

    def add_site(self, site: Site) -> None:
        """Insert a site, its feeds and their pages."""
        values = {"Name": site.name, **self._values(site)}
        number = insert_row(self._connection, self._schema.site, values)
        for feed in site.feeds:
            self._add_feed(number, feed)

    def change_site(self, read: _Reading, before: Site, site: Site) -> None:
        """Have a site that is there be as *site* says."""
        from sqlalchemy import update

        table, number = self._schema.site, read.site_ids[site.name]
        if replace(before, feeds=()) != replace(site, feeds=()):
            self._connection.execute(
                update(table).where(table.c["id"] == number).values(self._values(site))
            )
        had = {feed.url: feed for feed in before.feeds}
        for feed in site.feeds:
            if feed.url not in had:
                self._add_feed(number, feed)
            elif feed != had[feed.url]:
                self._remove_pages([read.feed_ids[feed.url]])
                self._add_pages(number, read.feed_ids[feed.url], feed)
        kept = {feed.url for feed in site.feeds}
        self._remove_feeds([read.feed_ids[url] for url in had if url not in kept])

    def remove_site(self, number: object) -> None:
        """Delete a site and all that refers to it."""
        from sqlalchemy import delete, select

        feed, page, site = self._schema.feed, self._schema.page, self._schema.site
        link, run = self._schema.link, self._connection.execute
        chosen = select(feed.c["id"]).where(feed.c["Site"] == number)
        self._remove_feeds([row[0] for row in run(chosen)])
        pages = select(page.c["id"]).where(page.c["Site"] == number)
        run(delete(link).where(link.c["Page"].in_(pages)))
        run(delete(page).where(page.c["Site"] == number))
        run(delete(site).where(site.c["id"] == number))

    def _values(self, site: Site) -> dict[str, object]:
        columns = self._schema.site.c
        values: dict[str, object] = {
            "MinWaitPeriod": format_wait(site.wait_s),
            "Active": not site.ended,
        }
        fixed = site.wait_s == site.wait_max_s
        if "MaxWaitPeriod" in columns:
            values["MaxWaitPeriod"] = None if fixed else format_wait(site.wait_max_s)
        elif not fixed:
            table = self._schema.site.name
            raise FeedConfigError(
                self._where,
                f"has no column for longest waits: ALTER TABLE {table} ADD COLUMN "
                "MaxWaitPeriod varchar(255)",
            )
        if "Paused" in columns:
            values["Paused"] = site.paused
        elif site.paused:
            values["Active"] = False
            self._remarks[
                "the database has no column Paused; the site is ended instead "
                "(Active is false), until it is resumed"
            ] = None
        return values

    def _add_feed(self, site: object, feed: Feed) -> None:
        values = {"URI": feed.url, "Site": site}
        number = insert_row(self._connection, self._schema.feed, values)
        self._add_pages(site, number, feed)

    def _add_pages(self, site: object, number: object, feed: Feed) -> None:
        from sqlalchemy import insert

        for url in feed.implied:
            values = {"URI": url, "Site": site}
            page = insert_row(self._connection, self._schema.page, values)
            pair = {"Feed": number, "Page": page}
            self._connection.execute(insert(self._schema.link).values(pair))

    def _remove_feeds(self, feeds: list[Any]) -> None:
        from sqlalchemy import delete

        if feeds:
            self._remove_pages(feeds)
            table = self._schema.feed
            self._connection.execute(delete(table).where(table.c["id"].in_(feeds)))

    def _remove_pages(self, feeds: list[Any]) -> None:
        """Remove what *feeds* imply, but for pages that other feeds imply as well."""
        from sqlalchemy import delete, select

        link, page, run = self._schema.link, self._schema.page, self._connection.execute
        pages = [
            row[0]
            for row in run(select(link.c["Page"]).where(link.c["Feed"].in_(feeds)))
        ]
        run(delete(link).where(link.c["Feed"].in_(feeds)))
        still = select(link.c["Page"]).where(link.c["Page"].in_(pages))
        used = {row[0] for row in run(still)}
        lonely = [number for number in pages if number not in used]
        run(delete(page).where(page.c["id"].in_(lonely)))
