"""Sites in a database: CrawlRSS's own, and broken ones; SQLite and PostgreSQL."""

import pytest

from frontier.errors import ConfigurationError, InputBroken
from frontier.feeds.feeds_sql import SqlSites
from frontier.feeds.model import Feed, Site
from tests.harness.sites import CRAWLRSS, site_of

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


def as_crawlrss_made(database):
    database.run(*CRAWLRSS.split(";"), *ROWS.split(";"))
    return SqlSites(database.url)


def test_a_database_of_crawlrss_works_as_it_is(database):
    source = as_crawlrss_made(database)
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


def test_sites_are_read_with_select_rights_only(postgres):
    as_crawlrss_made(postgres)
    user = f"reader_{postgres.name}"
    postgres.run(
        f"create role {user} login password 'pw'",
        f"grant select on all tables in schema public to {user}",
    )
    url = postgres.server.url(postgres.name, user=user, password="pw")

    assert len(SqlSites(url).read()) == 3


def test_unusable_rows_are_skipped_and_reported(database):
    source = as_crawlrss_made(database)
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
        "the wait '1h30' must be a time such as",
        "there is a site 'Old' already; not used",
        "the site '': a site needs a name",
        "the wait '0' must be from 1 to 31,622,400 seconds",
        "'file:///etc/passwd' is not a URL of http or https",
        "the site 'Bad wait': the feed https://news.example/rss is listed already",
        "None is not a URL",
        "more than 4,096 characters",
        "'javascript:x' is not a URL of http or https",
    ):
        assert part in said
    assert len(said) < 3000


@pytest.mark.parametrize(
    ("step", "lacks"),
    [
        ("drop table FeedPage", "FeedPage"),
        ("alter table Site rename column MinWaitPeriod to x", "MinWaitPeriod"),
        ("alter table Feed rename column Site to x", "Feed.Site"),
    ],
)
def test_a_database_that_is_being_migrated_is_not_half_read(database, step, lacks):
    source = as_crawlrss_made(database)
    source.read()
    database.run(step)

    with pytest.raises(InputBroken, match=f"(?i){lacks}"):
        source.read()


def test_a_database_is_not_made_by_reading_it(sqlite, tmp_path):
    with pytest.raises(InputBroken, match=r"feeds.db: there is no such file"):
        SqlSites(sqlite.url).read()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_said(tmp_path):
    path = tmp_path / "feeds.db"
    path.write_text("not a database\n" * 100)

    with pytest.raises(InputBroken, match="file is not a database"):
        SqlSites(f"sqlite:///{path}").read()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://me:s3cret@host/db", "is not a URL that SQLAlchemy knows"),
        ("postgresql://me:s3cret@host:port/db", "is not a URL that SQLAlchemy knows"),
        ("oracle://me:s3cret@host/db", "driver is not installed: pip install"),
        ("mysql://me:s3cret@host/db", "pip install mysqlclient"),
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
        with pytest.raises(InputBroken) as caught:
            source.read()
        said = f"{caught.value}\n{source.where}\n{caplog.text}"
        assert "n0tth1s" not in said
        assert "s3cret" not in said
        assert "127.0.0.1" in said
    with pytest.raises(InputBroken, match="authentication failed"):
        SqlSites(unknown).read()
