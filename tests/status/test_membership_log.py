"""What is read of the log of the members, on a real server, and how it is told."""

import pytest

from frontier.status.membership_log import (
    KINDS,
    SHOWN,
    MemberEvent,
    log_call,
    read_log,
    said_of,
)
from frontier.store.keys import CrawlKeys

pytestmark = pytest.mark.store
GARBAGE = (
    "",
    "abc",
    "1 2 joined 1",
    "1 2 joined 1 ",
    "1 2 joined x node-1",
    "-1 2 joined 1 node-1",
    "1 2 danced 1 node-1",
    "1 2 joined 1 node-1\n",
    "1 2 joined 1 \x1b[2J",
    "1 2 joined 1 <b>x</b>",
    "1 2 joined 1 .hidden",
    "1 2 joined 1 " + "x" * 101,
    "9" * 10_000,
    b"\xff\xfe\0\n",
)


@pytest.fixture
def keys(unique):
    return CrawlKeys(f"test-{unique}", "site-1")


@pytest.fixture
def look(blocking, keys):
    """Read the log of the crawl."""
    store = blocking()
    return lambda: read_log(store.run([log_call(keys)], tolerant=True)[0])


def test_the_newest_entry_comes_first(look, db, keys):
    assert look() == ((), 0)
    db("RPUSH", keys.membership, "1 1000 joined 1 a", "2 2000 died 0 b.c-d_e")

    newest, oldest = look()[0]
    assert newest == MemberEvent(2000, 2, "b.c-d_e", "died")
    assert oldest == MemberEvent(1000, 1, "a", "joined", 1)


@pytest.mark.parametrize("value", GARBAGE)
def test_malformed_membership_entry_is_skipped_and_counted(look, db, keys, value):
    db("RPUSH", keys.membership, "1 1000 joined 1 a", value)

    assert look() == ((MemberEvent(1000, 1, "a", "joined", 1),), 1)


def test_a_log_of_another_type_has_no_entries_and_is_not_taken_for_an_empty_one(
    look, db, keys
):
    db("SET", keys.membership, "x")

    assert look() == ((), 1)


def test_a_long_log_is_not_read_whole(look, db, keys):
    for first in range(0, 5000, 1000):
        entries = (f"1 {n} joined 1 a" for n in range(first, first + 1000))
        db("RPUSH", keys.membership, *entries)

    found, unread = look()
    assert [event.at_ms for event in found] == list(range(4999, 4999 - SHOWN, -1))
    assert unread == 0


def test_membership_message_of_each_kind_names_the_node():
    told = {said_of(MemberEvent(1, 1, "node-7", what)) for what in KINDS}

    assert len(told) == len(KINDS)
    assert all("node-7" in text for text in told)
    assert said_of(MemberEvent(1, 1, "a", "weight", 3)) == "a has the weight 3"
