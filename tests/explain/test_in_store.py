"""What the store says of a URL, also where somebody has written garbage into it."""

import random

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint

from frontier.errors import CodecError, KeyDamaged
from frontier.explain.in_store import Subject, look
from frontier.queue.due import waiting_element
from frontier.queue.item import encode
from frontier.queue.push import TEST, Push
from frontier.seen.config import seen_config
from frontier.seen.seen_set import stored_crawl
from frontier.store.client import Call
from frontier.urls.fingerprint import seen_hash
from tests.harness import crawls
from tests.node.test_damage import (
    KINDS,
    OF_A_CRAWL,
    OF_A_PARTITION,
    name_of,
    write,
)

HOST = "a.example"
QUEUE = f"0:{HOST}"
URL = f"http://{HOST}/5"


def item_of(number):
    found = [f"http://{HOST}/", "L", f"http://{HOST}/", 0]
    url = f"http://{HOST}/{number}"
    return encode({"url": url, "meta": {"frontier_found": found}}, QUEUE)


@pytest.fixture
def server(servers):
    """One kind of server: what each kind answers is tested below."""
    found = servers("any")
    found.check()
    return found


@pytest.fixture
def crawl(blocking, unique):
    """A crawl in one partition, whose queue has ten URLs."""
    store, namespace = blocking(), f"in-store-{unique}"
    keys, config = crawls.make(store, namespace, "one", FRONTIER_PARTITIONS=1)
    pushes = [(0, Push(TEST, mark(n), QUEUE, 0, item_of(n), n)) for n in range(10)]
    done = crawls.push(store, keys, seen_config(config), pushes)
    assert [*done.values()] == ["n"] * 10
    return store, stored_crawl(store, namespace, "one")


def mark(number):
    return seen_hash(fingerprint(Request(f"http://{HOST}/{number}")))


def subject(url=URL):
    known = fingerprint(Request(url))
    return Subject(
        *(url, url, url, "", "scrapy", True, HOST, 0, known, seen_hash(known)),
        same=lambda other: fingerprint(Request(other)) == known,
    )


def test_a_url_has_its_place_and_the_page_that_led_to_it(crawl):
    store, made = crawl

    facts = look(store, made, subject("http://A.example/5#x"))

    (place,) = facts.places
    assert (place.kind, place.place, place.of, place.before) == ("ready", 6, 10, 0)
    assert place.origin == (f"http://{HOST}/", "L", f"http://{HOST}/")
    assert facts.answer.seen


def test_higher_priorities_come_before_it(crawl):
    store, made = crawl
    part = made.keys.partition(0)
    queue = f"3:{HOST}"
    store.call(Call.command("RPUSH", part.ready(queue), *map(item_of, (20, 21))))
    store.call(Call.command("ZADD", part.queues, -3, queue))

    (place,) = look(store, made, subject()).places

    assert (place.queue, place.before) == (QUEUE, 2)


@pytest.mark.parametrize("kind", ["waiting", "dead"])
def test_waiting_and_dead_letter_requests_are_found(crawl, kind):
    store, made = crawl
    part = made.keys.partition(0)
    store.call(Call.command("DEL", part.ready(QUEUE)))
    element = waiting_element(QUEUE, item_of(5))
    if kind == "waiting":
        store.call(Call.command("ZADD", part.due, 4_000_000_000_000, "4000000000000"))
        store.call(Call.command("RPUSH", part.waiting("4000000000000"), element))
    else:
        store.call(Call.command("RPUSH", part.dead, b"no \x1b[2J reason\n" + element))

    place = look(store, made, subject()).place

    assert place.kind == kind
    assert place.due_ms == (4_000_000_000_000 if kind == "waiting" else 0)
    assert "\x1b" not in place.reason


@pytest.mark.parametrize("poison", KINDS)
def test_garbage_in_any_key_is_passed_over_or_ends_it_with_the_name_of_the_key(
    crawl, poison
):
    store, made = crawl
    drawn = random.Random(5)
    for in_partition, table in ((False, OF_A_CRAWL), (True, OF_A_PARTITION)):
        for what, (kind, fields) in table.items():
            name = name_of(store, (made.keys, in_partition), what, drawn)
            saved = store.call(Call.command("DUMP", name))
            for _ in range(9):
                write(store, name, kind, poison, fields, drawn)
            try:
                look(store, made, subject())
            except KeyDamaged as error:
                assert name in str(error)
            except CodecError as error:
                assert what == "meta", error
            finally:
                store.call(Call.command("DEL", name))
                if saved:
                    store.call(Call.command("RESTORE", name, 0, saved))
