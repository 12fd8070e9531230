"""Sites in PostgreSQL, which are added, changed and paused while two nodes run."""

import contextlib
import signal
import sqlite3
from collections import Counter

import pytest
from conftest import SHORT, until

from frontier.feeds.model import Feed
from frontier.store.keys import CrawlKeys
from frontier.testing import news
from tests.harness.sites import make_tables, site_of, write_rows

KEYS = CrawlKeys("frontier", "feeds-1")
NODES = ("node-1", "node-2")
RSS, ATOM = news.FEEDS


@pytest.fixture
def site_server(serve):
    return serve(urls=120, hosts=1, published=6)


@pytest.fixture
def told(cluster):
    """What the store has of a site."""

    def told(site, field):
        found = cluster.db("HGET", KEYS.site(site), field)
        return (found or b"").decode()

    return told


def fetched(server):
    return Counter(
        entry.url.removeprefix(server.site.bases[0])
        for entry in server.requests().entries
    )


def items(numbers):
    return {f"/news/{number}" for number in numbers}


@pytest.mark.long
def test_sites_are_added_changed_and_paused_in_postgresql(
    cluster, site_server, postgres, told, monkeypatch
):
    base = site_server.site.bases[0]
    even = site_of("even", [Feed(base + RSS, (base + news.IMPLIED,))], 1)
    make_tables(postgres.run)
    write_rows(postgres.run, even)
    monkeypatch.setenv("FRONTIER_FEEDS", postgres.url)
    for node in NODES:
        cluster.start(node, spider="feeds", FRONTIER_FEEDS_REFRESH="0.2", **SHORT)
    cluster.join()
    until(lambda: items((0, 2, 4)) <= fetched(site_server).keys(), "the even items")
    assert not items((1, 3, 5)) & fetched(site_server).keys()

    # A site and its feed come, as anybody would insert them.
    postgres.run(
        "insert into site (id, name, minwaitperiod, active) values "
        "(50, 'odd', '1s', true)",
        f"insert into feed (id, uri, site) values (51, '{base}{ATOM}', 50)",
    )
    until(lambda: items((1, 3, 5)) <= fetched(site_server).keys(), "the odd items")

    # One site waits longer, the other is paused: neither is asked for what is new.
    postgres.run(
        "update site set minwaitperiod = '40d', maxwaitperiod = null "
        "where name = 'even'",
        "update site set paused = true where name = 'odd'",
    )
    until(lambda: told("even", "wait") == str(40 * 86_400), "the wait is longer")
    until(lambda: told("odd", "state") == "paused", "the site is paused")
    until(lambda: told("even", "state") == "waiting", "its round is over")
    rounds = told("even", "round")
    site_server.publish(2)
    asked = fetched(site_server)

    # It goes on where it was: each item is fetched once.
    postgres.run("update site set paused = false where name = 'odd'")
    until(
        lambda: items((7,)) <= fetched(site_server).keys(), "the item published later"
    )
    assert told("even", "round") == rounds
    assert not items((6,)) & fetched(site_server).keys()
    assert fetched(site_server)[RSS] == asked[RSS]
    assert {
        path: n for path, n in fetched(site_server).items() if "/news/" in path
    } == dict.fromkeys(items((0, 1, 2, 3, 4, 5, 7)), 1)

    # It ends, and comes back, which was the end of CrawlRSS.
    postgres.run("update site set active = false where name = 'odd'")
    until(lambda: told("odd", "state") == "ended", "the site has ended")
    site_server.publish(2)
    postgres.run("update site set active = true where name = 'odd'")
    until(lambda: items((9,)) <= fetched(site_server).keys(), "the site goes on")
    for node in NODES:
        cluster.nodes[node].terminate()
    cluster.finish(*NODES)
    logs = "".join(cluster.text_of(node) for node in NODES)
    assert "s3cret" not in logs
    assert "Traceback" not in logs


def test_a_database_that_does_not_answer_stops_no_round_and_no_end(
    cluster, site_server, tmp_path
):
    base, file = site_server.site.bases[0], tmp_path / "sites.db"
    url = f"sqlite:///{file}"
    even = site_of("even", [Feed(base + RSS, (base + news.IMPLIED,))], 1)

    def run(*statements):
        with contextlib.closing(sqlite3.connect(file)) as database, database:
            for statement in statements:
                database.execute(statement)

    make_tables(run)
    write_rows(run, even)
    given = ("-a", f"feeds={url}")
    cluster.start("node-1", *given, spider="feeds", FRONTIER_FEEDS_REFRESH="0.2")
    until(lambda: items((0, 2, 4)) <= fetched(site_server).keys(), "the even items")
    endless = "SELECT 1 AS x UNION ALL SELECT x + 1 FROM r"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.executescript(
            "ALTER TABLE FeedPage RENAME TO old; CREATE VIEW FeedPage AS "
            f"WITH RECURSIVE r(x) AS ({endless}) SELECT x AS Feed, x AS Page FROM r;"
        )
    asked = fetched(site_server)[RSS]
    until(lambda: fetched(site_server)[RSS] > asked + 2, "rounds that go on")
    site_server.publish(2)
    until(lambda: items((6,)) <= fetched(site_server).keys(), "what is new")
    cluster.nodes["node-1"].send_signal(signal.SIGTERM)

    cluster.finish("node-1")
