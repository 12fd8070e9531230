from collections import Counter

from frontier.testing.oracle import Entry, RequestLog, expected_urls
from frontier.testing.site import Site


def entry(start, end, node="a", host="h:1", path="/", **facts):
    facts = {"method": "GET", "status": 200, "bytes": 1, "ua": None, **facts}
    return Entry(
        start=start, end=end, host=host, url=f"http://{host}{path}", node=node, **facts
    )


def test_oracle_expects_the_requested_number_of_urls():
    for urls, hosts, months in (
        *((400, 5, 18), (900, 5, 18), (130, 5, 18), (131, 5, 18)),
        *((60, 1, 18), (333, 3, 0), (500, 7, 1)),
    ):
        site = Site(urls=urls, hosts=hosts, calendar_months=months)
        assert len(expected_urls(site)) == urls


def test_fetches_are_counted_by_url():
    log = RequestLog(
        [
            entry(1, 2, path="/a"),
            entry(2, 3, path="/a", node="b"),
            entry(3, 4, path="/b"),
            entry(4, 5, path="/b", method="HEAD"),
            entry(5, 6, path="/c", aborted=True),
            entry(6, 7, path="/robots.txt"),
        ]
    )
    a, b, c, d = (f"http://h:1/{name}" for name in "abcd")

    assert log.fetched() == Counter({a: 2, b: 1})
    assert log.repeated() == {a: 2}
    assert log.aborted() == {c: 1}
    assert log.missing({a, c, d}) == {c, d}
