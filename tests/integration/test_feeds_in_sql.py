"""Sites in a database that stops to answer, as nodes follow them.

What is added, changed and paused `test_newspaper` claims, PostgreSQL `tests/feeds`.
"""

import contextlib
import signal
import sqlite3
from collections import Counter

from conftest import until

from frontier.feeds.model import Feed
from frontier.testing import news
from tests.harness.sites import make_tables, site_of, write_rows

RSS, _ = news.FEEDS


def fetched(server):
    return Counter(
        entry.url.removeprefix(server.site.bases[0])
        for entry in server.requests().entries
    )


def items(numbers):
    return {f"/news/{number}" for number in numbers}


def test_a_database_that_does_not_answer_stops_no_round_and_no_end(
    cluster, serve, tmp_path
):
    site_server = serve(urls=120, hosts=1, published=6)
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
