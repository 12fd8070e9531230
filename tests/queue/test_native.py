"""The server's own filters (``BF.*``) as the Bloom tier."""

from dataclasses import replace

import pytest

from frontier.queue.push import FORCE, MARK, TEST


@pytest.fixture
def server(server_with_filters):
    return server_with_filters


def some(count, start=0):
    return [b"http://a.example/%d" % n for n in range(start, start + count)]


def test_alone_it_loses_few_and_never_queues_twice(client, db, keys):
    node = client("native")
    every = some(20_000)
    first, second = node.push_urls(every), node.push_urls(every)

    assert set(first) <= {"n", "b"}
    assert first.count("b") < 0.01 * len(every)
    assert set(second) == {"b"}
    assert node.scan().pushed == first.count("n") == node.layout.last
    assert db("TYPE", keys.bloom(0)) == b"MBbloom--"
    assert node.layout.blooms == 1


def test_behind_a_set_there_is_none(client, db, keys):
    node = client("native+set")
    every = some(8_000)

    assert set(node.push_urls(every)) == {"n"}
    assert set(node.push_urls(every)) == {"s"}
    assert (node.layout.blooms, db("EXISTS", keys.bloom(0))) == (0, 0)


def test_behind_a_set_of_32_bits_it_loses_nothing_and_knows_all(client, shapes):
    node = client("native+set")
    node.shape = replace(node.shape, set_bits=32)
    every = some(8_000)

    assert set(node.push_urls(every)) == {"n"}
    assert set(node.push_urls(every)) == {"s"}

    node.shape = shapes["native"]
    assert set(node.push_urls(every)) == {"b"}
    assert node.push_urls(some(4_000, 50_000)).count("b") < 0.012 * 4_000


def test_the_modes_are_what_they_are_everywhere(client):
    node = client("native")

    assert node.push_urls([b"a", b"a"]) == "nb"
    assert node.push_urls([b"a"], FORCE) == "f"
    assert node.push_urls([b"b"], MARK) == "f"
    assert node.push_urls([b"b"], TEST) == "b"
    assert node.push_urls([b"c"], FORCE) == "f"
    assert node.push_urls([b"c"], TEST) == "n"
