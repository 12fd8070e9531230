"""What the store says of a URL, also where somebody has written garbage into it."""

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint

from frontier.errors import KeyDamaged
from frontier.explain.in_store import Subject, look
from frontier.queue.due import waiting_element
from frontier.queue.item import encode
from frontier.queue.push import TEST, Push
from frontier.seen.config import seen_config
from frontier.seen.seen_set import stored_crawl
from frontier.store.client import Call
from frontier.urls.fingerprint import seen_hash
from tests.harness import crawls

HOST = "a.example"
QUEUE = f"0:{HOST}"
URL = f"http://{HOST}/5"
PARTS = (
    *("lease", "counts", "queues", "due", "reserved", "started"),
    *("hosts", "groups", "dead", "seen"),
    *("claimed", "forced"),
)
VALUES = (b"abc", b"\xff\xfe\x00\n", b"9" * 30, b"-5", b"")


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


@pytest.mark.parametrize("value", ["type", *VALUES])
def test_garbage_in_any_key_is_passed_over_or_ends_it_with_the_name_of_the_key(
    crawl, value
):
    store, made = crawl
    part = made.keys.partition(0)
    names = [getattr(part, name) for name in PARTS]
    names += [part.ready(QUEUE), part.waiting("5")]
    names += [made.keys.nodes, made.keys.reports, made.keys.controls]
    names += [made.keys.control_log]
    for name in names:
        kind = store.call(Call.command("TYPE", name))
        saved = store.call(Call.command("DUMP", name)) if kind != b"none" else None
        _spoil(store, name, value)
        try:
            look(store, made, subject())
        except KeyDamaged as error:
            assert name in str(error)
        finally:
            store.call(Call.command("DEL", name))
            if saved:
                store.call(Call.command("RESTORE", name, 0, saved))


def _spoil(store, name, value):
    """Give the key *name* another type, or *value* in what it is."""
    lists = (":ready:", ":waiting:", ":dead", ":control_log")
    store.call(Call.command("DEL", name))
    if value == "type":
        store.call(Call.command("SETBIT", name, 5, 1))
    elif any(part in name for part in lists):
        store.call(Call.command("RPUSH", name, value))
    elif name.endswith((":queues", ":due")):
        store.call(Call.command("ZADD", name, 5, value))
    elif name.endswith(":started"):
        store.call(Call.command("SADD", name, value))
    else:
        fields = ["token", "holder", "why", "5", HOST, "buckets", "era", "blooms"]
        fields += [f"pages:{HOST}", "count", "last", "ready"]
        pairs = [part for each in fields for part in (each, value)]
        store.call(Call.command("HSET", name, *pairs))
