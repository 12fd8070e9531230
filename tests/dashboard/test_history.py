"""What a page has in its log of the members, of a crawl in a real store."""

import json

import pytest

from frontier.dashboard import facts
from frontier.dashboard.history import EVENTS, CrawlHistory
from frontier.status.watch import HOLDERS_S, Watch


@pytest.fixture
def looking(blocking, crawl_of):
    """Look at a crawl with one page after the other; a look sees all."""
    keys, now = crawl_of("news"), iter(range(0, 10**6, int(HOLDERS_S * 10)))
    watch = Watch(
        blocking(), keys.namespace, keys.crawl_id, clock=lambda: float(next(now))
    )

    def look(*pages):
        seen = watch.look()
        for page in pages:
            page.note(seen)
        return seen

    return keys, look


def told(page):
    return [(event.kind, event.text) for event in page.events]


def test_the_log_has_what_was_before_the_page_was_opened(looking, db):
    keys, look = looking
    log = keys.membership()
    db("RPUSH", log, "1 1000 joined 1 node-1", "2 2000 died 0 node-1")
    early, late = CrawlHistory(), CrawlHistory()
    look(early)
    db("RPUSH", log, "3 3000 joined 1 node-2", "3 4000 twice 0 node-2")
    look(early)
    seen = look(early, late)

    assert told(early) == told(late)
    assert told(late) == [
        ("twice", "two live processes had the id node-2: the first stops"),
        ("joined", "node-2 joined"),
        ("died", "node-1 is lost: no heartbeat for longer than a lease"),
        ("joined", "node-1 joined"),
    ]
    assert seen.membership_unread == 0
    shown = facts.log(late, seen)
    assert shown[0]["at"] == "1970-01-01 00:00:04"
    assert shown[0]["iso"] == "1970-01-01T00:00:04Z"


def test_what_nodes_took_before_the_page_was_opened_is_in_the_log_once(looking, db):
    keys, look = looking
    taken = {"pages": 1, "taken": [[1000, 512], [2000, 1]]}
    db("HSET", keys.reports(), "node-1", json.dumps(taken))
    page = CrawlHistory()
    look(page)
    look(page)

    assert told(page) == [
        ("moved", "node-1 took 1 partition"),
        ("moved", "node-1 took 512 partitions"),
    ]


def test_what_the_page_saw_itself_stands_where_its_time_is(looking, db):
    keys, look = looking
    lease, page = keys.partition(3).lease, CrawlHistory()
    db("HSET", lease, "token", 1, "holder", "a")
    look(page)
    db("HSET", lease, "token", 2, "holder", "b")
    at = look(page).crawl.taken_ms
    db("RPUSH", keys.membership(), f"1 {at - 1} left 0 a", f"2 {at + 1} joined 1 c")
    look(page)
    look(page)

    assert [kind for kind, _ in told(page)] == ["joined", "moved", "left"]
    assert page.events[1].text == "1 partition: from a to b"


def test_the_log_of_a_page_is_bounded_and_keeps_the_newest(looking, db):
    keys, look = looking
    page = CrawlHistory()
    for first in range(0, 450, 150):
        entries = (f"1 {n} joined 1 n{n}" for n in range(first + 1, first + 151))
        db("RPUSH", keys.membership(), *entries)
        look(page)

    assert len(page.events) == EVENTS
    assert [event.at_ms for event in page.events] == list(range(450, 250, -1))
    db("LPUSH", keys.membership(), "1 1 left 0 old")
    look(page)
    assert page.events[-1].at_ms == 251


def test_a_node_that_falls_silent_and_is_heard_again_is_in_it(looking, db):
    keys, look = looking
    page, now = CrawlHistory(), int(db("TIME")[0]) * 1000
    for beat in (now + 10**7, now - 20_000, now + 10**7):
        db("HSET", keys.nodes(), "node-1", f"{beat} 1 0 p")
        look(page)

    assert [kind for kind, _ in told(page)] == ["back", "silent"]


def test_entries_that_cannot_be_read_are_said_on_the_page(page, crawl_of, db):
    keys = crawl_of("news")
    db("RPUSH", keys.membership(), "1 1000 joined 1 node-1", "<b>x</b>")
    _, text = page().ask(f"/crawls/{keys.crawl_id}")

    assert "node-1 joined" in str(text)
    assert "1 of the entries in the store cannot be read" in str(text)
    assert "<b>x" not in str(text)
