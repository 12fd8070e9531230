import math

import pytest

from frontier.errors import KeyDamaged
from frontier.queue import purge
from frontier.queue.due import DUE, read_waiting
from frontier.queue.item import RECRAWL, decode, encode
from frontier.queue.purge import WINDOW
from frontier.queue.push import FORCE, Push
from frontier.recrawl.schedule import Mark, State
from frontier.status.schedules import waiting_of

pytestmark = pytest.mark.store
DAY = 86_400_000


@pytest.fixture
def wait(client, server_ms):
    """Have URLs wait for so many days, with a state."""
    node = client()

    def wait(paths, days=1.0, interval=3600.0, host="a.example"):
        queue = f"0:{host}"
        state = State(interval, Mark.of(b"x")).packed()
        due = math.ceil(server_ms() + days * DAY)
        pushes = [
            Push(
                *(FORCE, 0, queue, 0),
                encode({"url": f"http://{host}/{path}", RECRAWL: state}, queue),
                due=due,
            )
            for path in paths
        ]
        for first in range(0, len(pushes), 100):
            node.push(pushes[first : first + 100])

    return wait


@pytest.fixture
def hasten(blocking, crawl):
    store = blocking()

    def hasten(is_meant, partitions=(7,)):
        told = []
        found = purge.hasten(store, crawl, is_meant, partitions, told.append)
        assert told == list(range(1, len(partitions) + 1))
        return found

    return hasten


def url_of(element):
    queue, item = read_waiting(element)
    return decode(item, queue)["url"]


@pytest.fixture
def waiting(db, keys):
    """What waits in partition 7: paths by when they are due."""

    def waiting():
        found = {}
        for bucket in db("ZRANGE", keys.due, 0, -1):
            name = keys.waiting(bucket.decode())
            urls = [url_of(each) for each in db("LRANGE", name, 0, -1)]
            found[int(bucket)] = sorted(url.rpartition("/")[2] for url in urls)
        return found

    return waiting


def test_hasten_makes_only_matching_requests_due_now(
    wait, hasten, waiting, server_ms, until_due, client, grant
):
    wait(["a", "b", "news-1", "news-2"])
    wait(["c", "news-3"], days=30)

    done, hints = hasten(lambda url: "/news-" in url)

    assert (done.taken, done.unreadable) == (3, 0)
    assert hints == [(7, DUE)]
    now, *later = sorted(waiting())
    assert now <= server_ms() + 100
    assert waiting()[now] == ["news-1", "news-2", "news-3"]
    assert sorted(path for at in later for path in waiting()[at]) == ["a", "b", "c"]
    node, lease = client(), grant()
    until_due(now)
    assert node.move_due(lease)[0] == 3
    assert len(node.reserve(lease, 10)) == 3


def test_a_long_list_is_gone_through_once(wait, hasten, waiting):
    paths = [f"{number:05}" for number in range(3 * WINDOW + 7)]
    wait(paths)

    done, _ = hasten(lambda url: url.endswith("3"))

    assert done.taken == len([path for path in paths if path.endswith("3")])
    first, second = waiting().values()
    assert sorted(first + second) == paths
    assert {path[-1] for path in first} == {"3"}


def test_hasten_skips_requests_already_due(wait, hasten, waiting, until_due):
    wait(["a"], days=-1)
    before = waiting()
    until_due(*before)

    assert hasten(lambda _: True)[0].taken == 0
    assert waiting() == before


def test_unreadable_waiting_items_are_kept_and_counted(wait, hasten, keys, db):
    wait(["a"])
    (bucket,) = db("ZRANGE", keys.due, 0, -1)
    name = keys.waiting(bucket.decode())
    garbage = [b"", b"\n", b"no queue", b"0:a.example\n\xff\xff", b"\xff\n0\x02\x80"]
    db("RPUSH", name, *garbage)

    done, _ = hasten(lambda _: True)

    assert done.taken == 1
    assert done.unreadable >= len(garbage)
    assert sorted(db("LRANGE", name, 0, -1)) == sorted(garbage)


@pytest.mark.parametrize("which", ["due", "waiting"])
def test_a_damaged_key_is_named(wait, hasten, blocking, crawl, keys, db, which):
    wait(["a"])
    (bucket,) = db("ZRANGE", keys.due, 0, -1)
    name = keys.due if which == "due" else keys.waiting(bucket.decode())
    db("DEL", name)
    db("HSET", name, "x", "y")

    with pytest.raises(KeyDamaged) as caught:
        hasten(lambda _: True, partitions=(7, 8))
    assert caught.value.key == name
    assert waiting_of(blocking(), crawl, 16, sample=10).damaged == [name]


def test_the_status_counts_what_waits_and_shows_intervals(
    wait, blocking, crawl, keys, db, until_due
):
    wait(["d"], days=-1, interval=600.0)
    (first,) = db("ZRANGE", keys.due, 0, -1)
    wait(["a", "b"], days=0.01, interval=60.0)
    wait(["c"], days=3, interval=86_400.0)
    until_due(int(first))
    (last,) = db("ZRANGE", keys.due, -1, -1)
    db("RPUSH", keys.waiting(last.decode()), b"garbage")

    found = waiting_of(blocking(), crawl, 16, sample=100)

    assert (found.waiting, found.overdue, found.next_hour) == (5, 1, 2)
    assert (found.sampled, found.unreadable, found.damaged) == (5, 1, [])
    ((host, one),) = found.largest(5)
    assert (host, one.pages) == ("a.example", 4)
    assert (one.least, one.most) == (60, 86_400)
    assert one.mean == pytest.approx((60 + 60 + 86_400 + 600) / 4)


def test_the_status_of_many_is_of_a_sample(wait, blocking, crawl):
    wait([str(number) for number in range(3_000)])

    found = waiting_of(blocking(), crawl, 16, sample=700)

    assert found.waiting == 3_000
    assert 690 <= found.sampled <= 700
    assert found.intervals.pages == found.sampled
