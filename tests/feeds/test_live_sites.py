"""A configuration that changes, breaks and mends while a crawl runs."""

import logging
import queue

import pytest

from frontier.errors import ConfigurationError, FeedConfigError
from frontier.feeds.feeds_sql import SqlSites
from frontier.feeds.feeds_toml import TomlSites
from frontier.feeds.live_sites import Changes, LiveSites, absolute, source_of
from frontier.feeds.model import Feed, site_of

A = site_of("a", [Feed("http://a.example/feed")])
B = site_of("b", [Feed("http://b.example/feed")])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "feeds.toml"
    TomlSites(path).edit(lambda _: {"a": A, "b": B})
    return path


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "frontier")
    return lambda: [record.getMessage() for record in caplog.records]


def test_what_has_changed_is_told_once(file):
    live = LiveSites(TomlSites(file), 10)
    first = live.refresh()
    slower = site_of("a", A.feeds, "2h")
    TomlSites(file).edit(lambda _: {"a": slower, "b": None, "c": site_of("c", [])})
    second = live.refresh()

    assert first == Changes(added=frozenset("ab"))
    assert second == Changes(frozenset("c"), frozenset("b"), frozenset("a"))
    assert not live.refresh()
    assert live.sites["a"] == slower


def test_a_file_that_breaks_changes_nothing_and_is_said_once(file, log):
    live = LiveSites(TomlSites(file), 10)
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
        assert not live.refresh()
        assert sorted(live.sites) == ["a", "b"]

    unknown, no_toml, gone, again = log()
    assert "did you mean 'wait'?; the crawl goes on with the 2 sites" in unknown
    assert "is not TOML" in no_toml
    assert "cannot be read: No such file" in gone
    assert again == f"{file} can be read again: 2 sites"
    assert live.fault == ""


def test_without_any_good_state_the_fault_is_raised(tmp_path):
    live = LiveSites(TomlSites(tmp_path / "feeds.toml"), 10)

    with pytest.raises(FeedConfigError, match="No such file"):
        live.refresh()
    TomlSites(tmp_path / "feeds.toml").edit(lambda _: {"a": A})
    assert live.refresh().added == {"a"}


def test_a_thread_reads_again_and_tells(file):
    live = LiveSites(TomlSites(file), 0.01)
    live.refresh()
    told = queue.Queue()
    live.start(told.put)
    try:
        TomlSites(file).edit(lambda _: {"a": None})
        assert told.get(timeout=60) == Changes(removed=frozenset("a"))
        assert sorted(live.sites) == ["b"]
        file.write_text("x")
        TomlSites(file)
        good = site_of("n", [])
        file.unlink()
        TomlSites(file).edit(lambda _: {"n": good})
        changes = told.get(timeout=60)
        while "n" not in live.sites:
            changes = told.get(timeout=60)
        assert changes.added == {"n"}
    finally:
        live.stop()


def test_an_error_of_who_is_told_ends_nothing(file, log):
    live = LiveSites(TomlSites(file), 0.01)
    live.refresh()
    told = queue.Queue()

    def tell(changes):
        told.put(changes)
        raise ValueError("no")

    live.start(tell)
    try:
        for name in ("x", "y"):
            TomlSites(file).edit(lambda _, name=name: {name: site_of(name, [])})
            assert told.get(timeout=60).added == {name}
    finally:
        live.stop()
    assert sum("were not taken" in line for line in log()) == 2


def test_a_database_that_stops_and_starts_is_said_once_each(own_postgres, log):
    url = own_postgres.url("feeds")
    SqlSites(url).edit(lambda _: {"a": A, "b": B})
    live = LiveSites(SqlSites(url), 10)
    live.refresh()
    own_postgres.stop()
    for _ in range(3):
        assert not live.refresh()
    assert sorted(live.sites) == ["a", "b"]
    own_postgres.start()
    SqlSites(url).edit(lambda _: {"a": None})
    assert live.refresh().removed == {"a"}

    stopped, again, changed = log()
    assert "the crawl goes on with the 2 sites that it has" in stopped
    assert "can be read again: 1 sites" in again
    assert "changed: removed: a" in changed
    assert "s3cret" not in "".join(log())


def test_a_database_that_is_being_migrated_changes_nothing(database, log):
    SqlSites(database.url).edit(lambda _: {"a": A, "b": B})
    live = LiveSites(SqlSites(database.url), 10)
    live.refresh()
    database.run("alter table Feed rename to Feed_2")
    assert not live.refresh()
    database.run("create table Feed (id int, URI text)")
    assert not live.refresh()
    database.run("drop table Feed", "alter table Feed_2 rename to Feed")
    assert not live.refresh()

    assert sorted(live.sites) == ["a", "b"]
    no_table, no_column, again = log()
    assert "has not the table Feed;" in no_table
    assert "has not the column Feed.Site;" in no_column
    assert "can be read again" in again


def test_rows_that_are_left_out_are_said_once(database, log):
    SqlSites(database.url).edit(lambda _: {"a": A})
    live = LiveSites(SqlSites(database.url), 10)
    live.refresh()
    database.run("update Site set MinWaitPeriod = 'soon'")
    for _ in range(3):
        live.refresh()
    database.run("update Site set MinWaitPeriod = '2h'")
    assert live.refresh().changed == {"a"}

    assert sum("'soon' is not a wait" in line for line in log()) == 1
    assert live.sites["a"].wait_s == 7200


@pytest.mark.parametrize(
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
    with pytest.raises(ConfigurationError, match="no such database"):
        source_of("nosuch://x")
