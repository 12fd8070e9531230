"""A configuration that changes, breaks and mends while a crawl runs."""

import logging
import threading

import pytest

from frontier.errors import ConfigurationError
from frontier.feeds.feeds_sql import SqlSites
from frontier.feeds.feeds_toml import toml_sites
from frontier.feeds.model import Feed
from frontier.feeds.sources import absolute, source_of
from frontier.settings import live_source
from frontier.settings.live_source import Live
from tests.harness.cases import each
from tests.harness.sites import make_tables, site_of, write_rows, write_toml
from tests.topologies import until

A = site_of("a", [Feed("http://a.example/feed")])
B = site_of("b", [Feed("http://b.example/feed")])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "feeds.toml"
    write_toml(path, A, B)
    return path


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "frontier")
    return lambda: [
        line
        for record in caplog.records
        if "has changed" not in (line := record.getMessage())
    ]


def test_a_file_that_breaks_changes_nothing_and_is_said_once(file, log):
    live = Live(toml_sites(file), 10)
    live.refresh()
    good = file.read_text()
    for text in (
        good + "wiat = 1\n",
        good + "wiat = 1\n",
        good + "x\n",
        None,
        good,
        good,
    ):
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
        live.refresh()
        assert sorted(live.value) == ["a", "b"]

    unknown, no_toml, gone, again = log()
    assert "did you mean 'wait'?; the crawl goes on with what it has" in unknown
    assert "is not TOML" in no_toml
    assert "cannot be read: No such file" in gone
    assert again == f"{file} can be read again"
    assert live.fault == ""


def test_a_thread_reads_again(file):
    live = Live(toml_sites(file), 0.01)
    live.start()
    try:
        until(lambda: sorted(live.value or ()) == ["a", "b"])
        file.write_text("x")
        until(lambda: "is not TOML" in live.fault)
        write_toml(file, B)
        until(lambda: live.value == {"b": B})
    finally:
        live.stop()


def test_a_database_that_stops_and_starts_is_said_once_each(own_postgres, log):
    def run(*statements):
        own_postgres.run(*statements, database="feeds")

    make_tables(run)
    write_rows(run, A, B)
    live = Live(SqlSites(own_postgres.url("feeds")), 10)
    live.refresh()
    own_postgres.stop()
    for _ in range(3):
        live.refresh()
    assert sorted(live.value) == ["a", "b"]
    own_postgres.start()
    write_rows(run, B)
    live.refresh()
    assert live.value == {"b": B}

    stopped, again = log()
    assert "the crawl goes on with what it has read before" in stopped
    assert "can be read again" in again
    assert "s3cret" not in "".join(log())


def test_a_table_that_is_locked_is_said_while_it_is(postgres, log, monkeypatch):
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setattr(live_source, "SLOW", 0.1)
    make_tables(postgres.run)
    write_rows(postgres.run, A)
    live = Live(SqlSites(postgres.url), 10)
    with psycopg.connect(postgres.url) as other:
        other.execute("lock table Site in access exclusive mode")
        reading = threading.Thread(target=live.refresh)
        reading.start()
        until(lambda: any("takes no change until it answers" in line for line in log()))
    reading.join()

    assert sorted(live.value) == ["a"]
    assert live.fault == ""


def test_rows_that_are_left_out_are_said_once(database, log):
    make_tables(database.run)
    write_rows(database.run, A)
    live = Live(SqlSites(database.url), 10)
    live.refresh()
    database.run("update Site set MinWaitPeriod = 'soon', MaxWaitPeriod = null")
    for _ in range(3):
        live.refresh()
    database.run("update Site set MinWaitPeriod = '2h'")
    live.refresh()

    assert sum("the wait 'soon' must be a time" in line for line in log()) == 1
    assert live.value["a"].wait_s == 7200


@each(
    ("given", "made"),
    [
        ("feeds.toml", "HERE/feeds.toml"),
        ("/a/feeds.toml", "/a/feeds.toml"),
        ("feeds.db", "HERE/feeds.db"),
        ("sqlite:///feeds.db", "sqlite:///HERE/feeds.db"),
        ("sqlite+pysqlite:///x/feeds.db", "sqlite+pysqlite:///HERE/x/feeds.db"),
        ("sqlite:////a/feeds.db", "sqlite:////a/feeds.db"),
        ("postgresql://me:pw@h/db", "postgresql://me:pw@h/db"),
    ],
)
def test_a_source_is_the_same_in_another_directory(given, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert absolute(given) == made.replace("HERE", str(tmp_path))


def test_a_source_is_named_by_a_path_or_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FRONTIER_FEEDS", raising=False)
    assert source_of("").where == "feeds.toml"
    assert source_of("x/sites.txt").where == "x/sites.txt"
    assert source_of("x.sqlite3").where == "sqlite:///x.sqlite3"
    monkeypatch.setenv("FRONTIER_FEEDS", "postgresql://me:pw@h/db")
    assert source_of("").where == "postgresql+psycopg://me:***@h/db"
    with pytest.raises(ConfigurationError, match="not a URL that SQLAlchemy"):
        source_of("nosuch://x")
