"""Sites in a database: CrawlRSS's own, ours, and broken ones; SQLite and PostgreSQL."""

import contextlib
import logging
import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import pytest

from frontier.errors import ConfigurationError, FeedConfigError
from frontier.feeds import sql_schema
from frontier.feeds.feeds_sql import SqlSites
from frontier.feeds.model import MAX_FEEDS, Feed, FeedState, Site, site_of

NEWS = Site(
    "Example News",
    (
        Feed("https://news.example/rss"),
        Feed(
            "https://news.example/sport.xml",
            ("https://news.example/", "https://news.example/sport"),
        ),
    ),
    5400,
    86_400,
)
BLOG = site_of("Blog", [Feed("https://blog.example/atom.xml")], "90")
HIBERNATE = """
create sequence hibernate_sequence start 50;
create table Site (id int4 not null, Active bool, LastFeedUpdate timestamp,
  MinWaitPeriod varchar(255), Name varchar(255), primary key (id));
create table Feed (id int4 not null, LastDigest varchar(255), LastFetchTime timestamp,
  MostRecentlySeen timestamp, URI varchar(255), Site int4 references Site,
  primary key (id));
create table ImpliedPage (id int4 not null, URI varchar(255),
  Site int4 references Site, primary key (id));
create table FeedPage (Feed int4 not null references Feed,
  Page int4 not null references ImpliedPage, primary key (Feed, Page))
"""
"""What Hibernate makes of CrawlRSS's classes for PostgreSQL; SQLite takes it, too."""
ROWS = """
insert into Site (id, Active, MinWaitPeriod, Name) values
  (1, true, '1h30m', 'Example News'), (2, false, '1d', 'Old'), (3, true, '', 'Bare');
insert into Feed (id, URI, Site) values (7, 'https://news.example/rss', 1),
  (8, 'HTTPS://NEWS.example:443/sport.xml', 1), (9, 'https://old.example/rss', 2);
insert into ImpliedPage (id, URI, Site) values (4, 'https://news.example/', 1),
  (5, 'https://news.example/sport', 1);
insert into FeedPage (Feed, Page) values (8, 4), (8, 5), (7, 4)
"""
BAD_ROWS = """
insert into Site (id, Active, MinWaitPeriod, Name) values
  (10, true, '1h30', 'Bad wait'),
  (11, true, '1h', 'Old'), (12, true, '1h', ''), (13, null, null, 'Null'),
  (14, true, '0', 'Zero'), (15, true, '40d', 'Long'), (16, true, '1h 30m', 'Blank'),
  (17, true, '90', 'Number');
insert into Feed (id, URI, Site) values (20, 'file:///etc/passwd', 10),
  (21, 'https://news.example/rss', 10), (22, null, 10), (23, 'LONG', 10),
  (24, 'http://ok.example/', 10);
insert into ImpliedPage (id, URI, Site) values (30, 'javascript:x', 10);
insert into FeedPage (Feed, Page) values (24, 30)
"""


def as_hibernate_made(database):
    tables = HIBERNATE.split(";")
    database.run(*tables["sqlite" in database.url :], *ROWS.split(";"))
    return SqlSites(database.url)


def put(source, *sites):
    return source.edit(lambda _: {site.name: site for site in sites})


def test_a_database_of_crawlrss_works_as_it_is(database):
    source = as_hibernate_made(database)
    page = "https://news.example/"

    assert source.read() == {
        "Example News": Site(
            "Example News",
            (
                Feed("https://news.example/rss", (page,)),
                Feed("https://news.example/sport.xml", (page, f"{page}sport")),
            ),
            5400,
            5400,
        ),
        "Old": site_of("Old", [Feed("https://old.example/rss")], "1d", ended=True),
        "Bare": Site("Bare", (), 3600, 3600),
    }
    assert source.notes == ()


def test_a_database_of_crawlrss_is_edited_and_takes_ids_as_its_own(database):
    source = as_hibernate_made(database)
    first = source.read()["Example News"]
    more = site_of(
        first.name, [first.feeds[1], Feed("https://x.example/", ("http://p/",))]
    )
    put(source, more, BLOG)

    assert source.read()[first.name] == more
    assert source.read()["Blog"] == BLOG
    assert [row[0] for row in database.run("select id from Site order by id")][:3] == [
        1,
        2,
        3,
    ]
    if "postgresql" in database.url:  # as Hibernate itself takes them
        assert database.run("select max(id) from Site") >= [(50,)]
        (new,) = database.run("select nextval('hibernate_sequence')")[0]
        assert new > database.run("select max(id) from Site")[0][0]
    # the page that two feeds implied is still there for the other one
    assert database.run("select count(*) from ImpliedPage where id in (4, 5)") == [(2,)]


def test_a_pause_where_there_is_no_column_for_it_is_said(database):
    source = as_hibernate_made(database)
    site = source.read()["Example News"]
    paused = site_of(site.name, site.feeds, site.wait_s, paused=True)

    (remark,) = put(source, paused)

    assert "no column Paused; the site is ended instead" in remark
    assert source.read()[site.name].ended
    put(source, site)
    assert source.read()[site.name] == site


def test_a_longest_wait_where_there_is_no_column_for_it_is_refused(database):
    source = as_hibernate_made(database)

    with pytest.raises(
        FeedConfigError, match="ALTER TABLE .* ADD COLUMN MaxWaitPeriod"
    ):
        put(source, NEWS)
    assert "Blog" not in source.read()


def test_columns_that_are_ours_may_be_added(database):
    source = as_hibernate_made(database)
    database.run(
        "alter table Site add column MaxWaitPeriod varchar(255)",
        "alter table Site add column Paused boolean",
    )
    new = site_of(
        "Example News", source.read()["Example News"].feeds, "2h", "3d", paused=True
    )

    assert put(source, new) == ()
    assert source.read()["Example News"] == new


def test_names_may_have_underscores_and_any_case(sqlite):
    sqlite.run(
        "create table SITE (ID integer primary key, NAME text, Min_Wait_Period text, "
        "active bit)",
        'create table "feed" (id integer primary key, uri text, site int)',
        "create table implied_page (id integer primary key, uri text, site int)",
        "create table feed_page (feed int, page int)",
    )
    source = SqlSites(sqlite.url)
    put(source, BLOG)

    assert source.read() == {"Blog": BLOG}


def test_an_empty_database_gets_the_tables(database):
    source = SqlSites(database.url)

    put(source, NEWS, BLOG)

    assert source.read() == {"Example News": NEWS, "Blog": BLOG}
    assert database.run("select Name, MinWaitPeriod, MaxWaitPeriod from Site") == [
        ("Example News", "1h30m", "1d"),
        ("Blog", "1m30s", None),
    ]


def test_rows_that_people_insert_need_no_id(database):
    source = SqlSites(database.url)
    put(source, BLOG)
    database.run(
        "insert into Site (Name, MinWaitPeriod, Active) values ('New', '2h', true)",
        "insert into Feed (URI, Site) select 'http://new.example/', id from Site "
        "where Name = 'New'",
    )

    assert source.read()["New"] == site_of("New", [Feed("http://new.example/")], "2h")
    put(source, NEWS)
    assert len(source.read()) == 3


def test_each_edit_says_what_was_wanted(database):
    source = SqlSites(database.url)
    put(source, NEWS)
    states = [
        site_of(NEWS.name, NEWS.feeds, "2h"),
        site_of(NEWS.name, NEWS.feeds[1:], "2h", paused=True),
        site_of(NEWS.name, [Feed(NEWS.feeds[1].url)], "2h", "3h", ended=True),
        site_of(NEWS.name, [Feed(NEWS.feeds[1].url, ("http://p/",)), BLOG.feeds[0]]),
        site_of(NEWS.name, []),
    ]
    for state in states:
        put(source, state)
        assert source.read() == {NEWS.name: state}
        assert source.notes == ()
    for table in ("Feed", "ImpliedPage", "FeedPage"):
        assert database.run(f"select * from {table}") == []
    source.edit(lambda _: {NEWS.name: None})
    assert source.read() == {}
    assert database.run("select * from Site") == []


def test_a_site_that_goes_takes_all_that_refers_to_it(database):
    source = as_hibernate_made(database)

    source.edit(lambda _: {"Example News": None})

    assert sorted(source.read()) == ["Bare", "Old"]
    assert database.run("select id from Feed") == [(9,)]
    assert database.run("select * from ImpliedPage") == []
    assert database.run("select * from FeedPage") == []


def test_edits_at_once_do_not_lose_any(database):
    put(SqlSites(database.url), site_of("all", []))
    faults = []

    def add(number):
        def change(sites):
            site = sites["all"]
            feeds = [*site.feeds, Feed(f"http://a.example/{number}")]
            return {"all": site_of("all", feeds)}

        try:
            SqlSites(database.url).edit(change)
        except FeedConfigError as error:
            faults.append(error)

    threads = [threading.Thread(target=add, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []
    assert len(SqlSites(database.url).read()["all"].feeds) == 8


def test_what_cannot_be_used_is_left_out_and_said(database):
    source = as_hibernate_made(database)
    if "postgresql" in database.url:
        database.run("alter table Feed alter column URI type text")
    long = "http://a.example/" + "x" * 100_000
    database.run(*BAD_ROWS.replace("LONG", long).split(";"))

    sites = source.read()

    assert sites["Bad wait"] == Site(
        "Bad wait", (Feed("http://ok.example/"),), 3600, 3600
    )
    assert sites["Old"].ended  # the first one
    assert sites["Null"].ended
    waits = {name: sites[name].wait_s for name in ("Zero", "Long", "Blank", "Number")}
    assert waits == {"Zero": 3600, "Long": 40 * 86_400, "Blank": 5400, "Number": 90}
    said = "\n".join(source.notes)
    for part in (
        "'1h30' is not a wait",
        "the site 'Old' is there twice; that with the id 11 is left out",
        "the site with the id 12 is left out: a site needs a name",
        "the wait '0' is too short; it is 1s at least; 1h is taken",
        "'file:///etc/passwd' is not a URL of http or https",
        "the feed https://news.example/rss of 'Bad wait' is there already",
        "None is not a URL",
        "more than 4,096 characters",
        "a page of http://ok.example/ of 'Bad wait' is left out",
    ):
        assert part in said
    assert len(said) < 3000


def test_a_site_has_not_more_feeds_than_the_limit(sqlite):
    source = as_hibernate_made(sqlite)
    values = ", ".join(f"({n}, 'http://m/{n}', 3)" for n in range(100, 101 + MAX_FEEDS))
    sqlite.run(f"insert into Feed (id, URI, Site) values {values}")

    assert len(source.read()["Bare"].feeds) == MAX_FEEDS
    assert "more than 1,000 feeds; the others are left out" in source.notes[0]


@pytest.mark.parametrize(
    ("step", "lacks"),
    [
        ("drop table FeedPage", "the table FeedPage"),
        ("alter table Site rename column MinWaitPeriod to x", "Site.MinWaitPeriod"),
        ("alter table Feed rename to Feed_old", "the table Feed"),
    ],
)
def test_a_database_that_is_being_migrated_is_not_half_read(database, step, lacks):
    source = as_hibernate_made(database)
    source.read()
    database.run(step)

    with pytest.raises(FeedConfigError, match=f"has not .*{lacks}"):
        source.read()
    with pytest.raises(FeedConfigError, match=f"has not .*{lacks}"):
        put(source, BLOG)


def test_a_database_is_not_made_by_reading_it(sqlite, tmp_path):
    with pytest.raises(FeedConfigError, match=r"feeds.db: there is no such file"):
        SqlSites(sqlite.url).read()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_said(tmp_path):
    path = tmp_path / "feeds.db"
    path.write_text("not a database\n" * 100)

    with pytest.raises(FeedConfigError, match="file is not a database"):
        SqlSites(f"sqlite:///{path}").read()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://me:s3cret@host/db", "SQLAlchemy knows no such database"),
        ("postgresql://me:s3cret@host:port/db", "is not a URL that SQLAlchemy knows"),
        ("oracle://me:s3cret@host/db", "driver is not installed: pip install"),
    ],
)
def test_a_url_that_cannot_be_is_said_without_its_password(url, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        SqlSites(url)
    assert "s3cret" not in str(caught.value)


def test_no_message_has_the_password(postgres, caplog):
    wrong = postgres.server.url(postgres.name, password="n0tth1s")
    unknown = postgres.server.url(postgres.name, user="n0tth1s", password="n0tth1s")
    nowhere = postgres.url.replace(str(postgres.server.port), "1")
    for url in (wrong, f"{wrong}?sslcert=n0tth1s", nowhere, postgres.url + "x"):
        source = SqlSites(url)
        with pytest.raises(FeedConfigError) as caught:
            source.read()
        said = f"{caught.value}\n{source.where}\n{caplog.text}"
        assert "n0tth1s" not in said
        assert "s3cret" not in said
        assert "127.0.0.1" in said
    with pytest.raises(FeedConfigError, match="authentication failed"):
        SqlSites(unknown).read()


def test_a_server_that_is_frozen_is_hung_up_on(postgres, monkeypatch):
    source = as_hibernate_made(postgres)
    source.read()
    monkeypatch.setattr(sql_schema, "HANG_UP_S", 0.2)
    locked = threading.Event()
    free = threading.Event()

    def hold():  # nothing of the table can be read meanwhile
        import psycopg

        with psycopg.connect(
            host=str(postgres.server.directory),
            port=postgres.server.port,
            user="frontier",
            dbname=postgres.name,
        ) as connection:
            connection.execute("LOCK TABLE Site IN ACCESS EXCLUSIVE MODE")
            locked.set()
            free.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    try:
        with pytest.raises(FeedConfigError, match=r"[Cc]onnection|closed"):
            source.read()
    finally:
        free.set()
        holder.join()
    monkeypatch.undo()
    assert len(source.read()) == 3


NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_what_was_found_is_written_where_crawlrss_has_it(database):
    source = as_hibernate_made(database)
    source.read()
    east = NOON.astimezone(tz=None)
    found = [
        FeedState("https://news.example/sport.xml", east, "sha1:ABC", NOON),
        FeedState("https://unknown.example/", east, "sha1:X", NOON),
    ]

    source.record("Example News", NOON, found)

    ((update,),) = database.run("select LastFeedUpdate from Site where id = 1")
    ((fetch, digest, newest),) = database.run(
        "select LastFetchTime, LastDigest, MostRecentlySeen from Feed where id = 8"
    )
    assert digest == "sha1:ABC"
    for when in (update, fetch, newest):
        assert str(when) == "2026-11-23 12:00:00"
    assert database.run("select LastDigest from Feed where id = 7") == [(None,)]


def test_what_is_older_does_not_replace_what_is_newer(database):
    source = as_hibernate_made(database)
    source.read()
    hour = timedelta(hours=1)
    for when, digest in ((NOON, "sha1:NEW"), (NOON - hour, "sha1:OLD")):
        found = FeedState("https://news.example/rss", when, digest, when)
        source.record("Example News", when, [found])

    assert database.run("select LastDigest from Feed where id = 7") == [("sha1:NEW",)]
    ((update,),) = database.run("select LastFeedUpdate from Site where id = 1")
    assert str(update) == "2026-11-23 12:00:00"


def test_columns_that_are_not_there_are_not_written(database):
    source = as_hibernate_made(database)
    database.run(
        "alter table Feed drop column LastFetchTime",
        "alter table Site drop column LastFeedUpdate",
    )
    source.read()
    source.record(
        "Example News", NOON, [FeedState("https://news.example/rss", NOON, "sha1:A")]
    )

    assert database.run("select LastDigest from Feed where id = 7") == [("sha1:A",)]


def test_a_database_that_takes_nothing_is_said_once(postgres, caplog):
    as_hibernate_made(postgres)
    user = f"reader_{postgres.name}"
    postgres.run(
        f"create role {user} login password 'pw'",
        f"grant select on all tables in schema public to {user}",
    )
    source = SqlSites(postgres.server.url(postgres.name, user=user, password="pw"))
    assert len(source.read()) == 3
    found = [FeedState("https://news.example/rss", NOON, "sha1:A", NOON)]
    with caplog.at_level(logging.INFO, "frontier"):
        for _ in range(3):
            source.record("Example News", NOON, found)
        postgres.run(f"grant update on all tables in schema public to {user}")
        source.record("Example News", NOON, found)

    first, second = [record.getMessage() for record in caplog.records]
    assert "permission denied" in first
    assert "is only in the store" in first
    assert "takes what was found in feeds again" in second


def test_a_statement_of_sqlite_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("frontier.feeds.sql_schema.HANG_UP_S", 0.2)
    sites = SqlSites(f"sqlite:///{tmp_path / 'sites.db'}")
    sites.edit(lambda _: {"news": site_of("news", [Feed("http://a.example/rss")])})
    endless = "SELECT 1 AS x UNION ALL SELECT x + 1 FROM r"
    with contextlib.closing(sqlite3.connect(tmp_path / "sites.db")) as database:
        database.executescript(
            "ALTER TABLE FeedPage RENAME TO old; CREATE VIEW FeedPage AS "
            f"WITH RECURSIVE r(x) AS ({endless}) SELECT x AS Feed, x AS Page FROM r;"
        )

    with pytest.raises(FeedConfigError, match="interrupted"):
        sites.read()
