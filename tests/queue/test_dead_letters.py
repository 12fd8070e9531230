import pytest

from frontier.queue.dead_letters import counted, letter, letters, revive
from frontier.queue.item import encode

A = "0:a.example"


def value(n, reason="delivered 3 times", queue=A):
    item = b"2" + encode({"url": f"http://a.example/{n}"}, queue)[1:]
    return f"{reason}\n{queue}\n".encode() + item


@pytest.fixture
def given_up(db, keys):
    """Give requests up, as `queue_requeue` does."""

    def given_up(*values):
        db("RPUSH", keys.dead, *values)
        db("HINCRBY", keys.counts, "dead", len(values))

    return given_up


@pytest.fixture
def read(blocking, crawl):
    def read():
        store = blocking()
        return list(letters(store, crawl, counted(store, crawl, 16)))

    return read


def test_all_letters_are_read_in_their_order(given_up, read):
    given_up(*(value(n) for n in range(100)))

    assert [one.url for one in read()] == [f"http://a.example/{n}" for n in range(100)]
    assert {(one.partition, one.tries) for one in read()} == {(7, 2)}


@pytest.mark.parametrize(
    "bad",
    [b"", b"\n", b"r\nno queue\n00", b"r\n0:a\n0\x01\xff", b"r\n0:a\n9\x07x", b"\xff"],
)
def test_unreadable_dead_letter_is_listed_and_not_revived(
    given_up, read, blocking, crawl, bad
):
    given_up(bad)
    (found,) = read()

    assert found.url == ""
    assert revive(blocking(), crawl, [found]) == (0, [])
    assert len(read()) == 1


def test_a_letter_whose_count_of_deliveries_is_lost_was_tried_never():
    assert letter(7, value(1).replace(b"\n2", b"\n\xff")).tries == 0


def test_a_letter_is_queued_again_as_if_it_had_never_been_tried(
    given_up, read, client, grant, blocking, crawl
):
    given_up(value(1), value(2, queue="5:a.example"), value(3))
    found = read()
    done = revive(blocking(), crawl, [found[0], found[1]])
    node = client()

    assert done == (2, [(7, A), (7, "5:a.example")])
    assert (node.scan().ready, node.scan().dead) == (2, 1)
    assert [one.url for one in read()] == ["http://a.example/3"]
    (taken,) = node.reserve(grant(), 9)
    assert taken.item == b"0" + letter(7, value(1)).value.split(b"\n", 2)[2][1:]
