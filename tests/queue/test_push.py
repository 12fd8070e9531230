import random

import pytest

from frontier.node.delivery import Delivery
from frontier.queue.push import FORCE, MARK, TEST, push_plan, pushed
from frontier.seen.config import (
    MAX_URLS,
    LayoutStale,
    SeenLayout,
    joined,
)

EXACT = ["set", "bloom+set"]
TESTED = [*EXACT, "bloom"]


def urls(*numbers):
    return [b"http://a.example/%d" % n for n in numbers]


def some(count, start=0):
    return urls(*range(start, start + count))


class Model:
    """What a partition should have: a set, and a list per queue."""

    def __init__(self):
        self.seen, self.ready, self.pushed = set(), {}, 0
        self.became_ready = set()
        """Queues that had nothing before, and have."""

    def push(self, push):
        new = push.mode != TEST or push.mark not in self.seen
        if push.mode != FORCE:
            self.seen.add(push.mark)
        if new:
            if push.queue not in self.ready:
                self.became_ready.add(push.queue)
            self.ready.setdefault(push.queue, []).append(push.item)
            self.pushed += 1
        return new


def random_batches(new_push, seed, batches=40):
    chance = random.Random(seed)
    for n in range(batches):
        count = chance.choice([1, 3, 40, MAX_URLS])
        made = []
        for _ in range(count):
            url = chance.choice(urls(chance.randrange(200 + 100 * n)))
            mode = chance.choices([TEST, MARK, FORCE], [8, 1, 1])[0]
            queue = f"{chance.randrange(-1, 3)}:{chance.choice('abc')}.example"
            made.append(new_push(url, mode, queue))
        yield made


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("shape", EXACT)
def test_the_exact_tiers_do_what_a_set_and_lists_do(
    client, new_push, db, keys, shape, seed
):
    """By turns of several nodes, some of them new: most have an old idea of the set."""
    nodes, model = [client(shape) for _ in range(8)], Model()
    for number, batch in enumerate(random_batches(new_push, seed)):
        node = nodes[number * 5 % 8]
        if number % 7 == 0:
            node.layout = SeenLayout()
        done, model.became_ready = node.push(batch), set()
        verdicts = done.verdicts

        assert [v != "s" for v in verdicts] == [model.push(push) for push in batch]
        assert [v == "f" for v in verdicts] == [push.mode != TEST for push in batch]
        assert set(done.became_ready) == model.became_ready

    for queue, items in model.ready.items():
        assert db("LRANGE", keys.ready(queue), 0, -1) == items
    queues = [q.decode() for q in db("ZRANGE", keys.queues, 0, -1)]
    assert set(queues) == set(model.ready)
    assert queues == sorted(queues, key=lambda queue: -int(queue.partition(":")[0]))
    scan = node.scan()
    assert scan.ready == scan.pushed == model.pushed
    assert scan.seen == len(model.seen) == node.layout.count
    assert sum(node.stale for node in nodes) > 20


def test_bloom_alone_loses_few_and_never_queues_twice(client):
    node = client("bloom")
    every = some(20_000)
    first = node.push_urls(every)
    second = node.push_urls(every)

    assert node.layout.blooms >= 3
    assert set(first) <= {"n", "b"}
    assert 0 < first.count("b") < 0.01 * len(every)
    assert set(second) == {"b"}
    assert node.scan().pushed == first.count("n")


def test_bloom_knows_what_was_pushed_while_a_set_answered(client, shapes):
    node = client("bloom+set")
    every = some(8_000)
    node.push_urls(every)
    assert node.layout.blooms >= 2

    node.shape = shapes["bloom"]  # the set was given up
    assert set(node.push_urls(every)) == {"b"}
    assert node.push_urls(some(4_000, 50_000)).count("b") < 0.015 * 4_000


def test_without_shared_tiers_everything_is_queued(client):
    node = client("none")

    assert node.push_urls(some(3)) == "nnn"
    assert node.push_urls(some(3)) == "nnn"
    assert node.scan().pushed == 6


def test_bloom_alone_remembers_what_is_marked_and_not_what_is_forced(client):
    node = client("bloom")

    assert node.push_urls(urls(1), FORCE) == "f"
    assert node.push_urls(urls(1), MARK) == "f"
    assert node.push_urls(urls(1, 1), MARK) == "ff"
    assert node.push_urls(urls(1), TEST) == "b"
    assert node.push_urls(urls(2, 2), TEST) == "nb"
    assert node.scan().ready == 5


def test_a_stale_layout_changes_nothing_and_brings_the_current_one(
    blocking, client, keys, shapes, new_push
):
    node = client()
    node.push_urls(some(2_000))
    before = node.scan()
    plan = push_plan(keys, shapes["bloom+set"], SeenLayout(), [new_push(b"new")])
    (call,) = joined([plan], alone=False)

    with pytest.raises(LayoutStale) as caught:
        pushed(blocking().call(call)[0], [new_push(b"new")])

    assert caught.value.layout == node.layout
    assert node.scan() == before


def encodings(db, keys, layout):
    return {
        db("OBJECT ENCODING", keys.bucket(layout.era, n))
        for n in range(layout.buckets)
        if db("EXISTS", keys.bucket(layout.era, n))
    }


def test_fifty_thousand_urls_in_one_partition_are_still_small_integers(
    client, db, keys
):
    node = client("set")
    every = some(50_000)

    assert set(node.push_urls(every)) == {"n"}

    assert node.layout == SeenLayout(buckets=250, count=50_000)
    assert encodings(db, keys, node.layout) == {b"intset"}
    assert set(node.push_urls(every[::7])) == {"s"}


def test_many_nodes_that_know_an_old_count_do_not_fill_a_bucket(client, db, keys):
    nodes = [client("set") for _ in range(12)]
    for number, node in enumerate(nodes):
        node.push_urls(some(200, 1_000 * number))  # each knows an empty set

    assert encodings(db, keys, nodes[-1].layout) == {b"intset"}


def test_many_nodes_that_know_an_old_count_do_not_fill_a_generation(client):
    first, *others = [client("bloom") for _ in range(8)]
    first.push_urls(some(300))
    for node in others:
        node.layout = first.layout

    for number, node in enumerate(others, 1):
        node.push_urls(some(200, 1_000 * number))

    false = client("bloom").push_urls(some(5_000, 100_000)).count("b")
    assert false < 0.015 * 5_000


@pytest.mark.parametrize("mode", [FORCE, MARK])
@pytest.mark.parametrize("shape", [*TESTED, "none"])
def test_forced_push_is_queued_once_until_its_id_is_removed(
    client, new_push, db, keys, shape, mode
):
    node = client(shape)

    def pushes(parent):
        delivery = Delivery(name=parent)
        ids = [delivery.next_id(url) for url in urls(1, 1, 2)]
        made = [new_push(url, mode) for url in urls(1, 1, 2)]
        return [push._replace(forced=id_) for push, id_ in zip(made, ids, strict=True)]

    assert node.push(pushes(b"a")).verdicts == "fff"
    assert node.push([*pushes(b"a"), *pushes(b"b")]).verdicts == "sssfff"
    assert node.scan().ready == 6
    assert len(db("SMEMBERS", keys.forced)) == 6

    db("SREM", keys.forced, pushes(b"a")[0].forced)
    assert node.push(pushes(b"a")).verdicts == "fss"
