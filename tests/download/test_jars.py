"""Jars of cookies in the store: versions, merging, what there is room for."""

import asyncio

import pytest

from frontier.download import cookies
from frontier.download.cookies import MAX_COOKIES, Cookies, Jar
from frontier.store.client import Store
from tests.harness.crawls import node_of


@pytest.fixture
def node(store, crawl):
    """Make what a node knows of the crawl's cookies."""
    return lambda: Cookies(node_of(store, crawl))


class Clock:
    """Goes on only as a test has it: a slow machine takes longer than a look lasts."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(cookies, "time", clock)
    return clock


async def read(node, jar):
    """Refresh *jar*, as its user does, once a look at the index is over."""
    cookies.time.now += 2 * cookies.FRESH
    fresh = await node.refresh(jar)
    if fresh is not None:
        jar.stored = fresh
    return fresh


async def test_jar_changed_by_one_node_is_read_once_by_another(node):
    a, b = node(), node()
    ours, theirs, empty = Jar("x"), Jar("x"), Jar("y")
    assert await read(b, theirs) is None
    assert await a.write(ours, {"one": "0 1", "two": "0 2"}) == (True, 0)

    assert await read(b, theirs) == {"one": "0 1", "two": "0 2"}
    assert b.is_current(theirs)
    assert await read(b, theirs) is None
    assert await read(b, empty) is None
    assert await read(a, ours) is None, "it has what it wrote itself"


async def test_changes_are_merged_cookie_by_cookie(node):
    a, b = node(), node()
    ours, theirs = Jar("x"), Jar("x")
    await a.write(ours, {"one": "0 1", "two": "0 2"})
    await b.write(theirs, {"two": "0 B", "three": "0 3"})
    await a.write(ours, {"one": ""})

    merged = {"two": "0 B", "three": "0 3"}
    assert await read(a, ours) == merged, "it was overtaken"
    assert await read(b, theirs) == merged


async def test_writing_cookies_already_stored_makes_no_new_jar_version(node, db, crawl):
    a, b = node(), node()
    await a.write(Jar("x"), {"one": "0 1"})

    assert await b.write(Jar("x"), {"one": "0 1", "gone": ""}) == (False, 0)
    assert db("ZSCORE", crawl.cookies, "x") == 1


async def test_a_look_is_relied_on_for_a_moment(node, clock):
    a, b, jar = node(), node(), Jar("x")
    assert not b.is_current(jar)
    await b.refresh(jar)
    assert b.is_current(jar)
    await a.write(Jar("x"), {"one": "0 1"})
    clock.now += 2 * cookies.FRESH

    assert not b.is_current(jar)
    assert await b.refresh(jar) == {"one": "0 1"}


async def test_many_that_want_to_know_ask_once(node, db, crawl, monkeypatch):
    jars = [Jar(str(n)) for n in range(50)]
    asked = []
    run = Store.run

    async def counted(self, calls, **options):
        asked.append(calls)
        return await run(self, calls, **options)

    monkeypatch.setattr(Store, "run", counted)
    b = node()
    await asyncio.gather(*(b.refresh(jar) for jar in jars))

    assert len(asked) == 1


async def test_an_index_of_many_pages_is_read_whole(node, db, crawl, monkeypatch):
    monkeypatch.setattr(cookies, "PAGE", 3)
    a, b = node(), node()
    for n in range(7):
        await a.write(Jar(str(n)), {"one": f"0 {n}"})

    for n in range(7):
        assert await read(b, Jar(str(n))) == {"one": f"0 {n}"}


async def test_a_jar_has_room_for_so_many_and_expired_ones_make_some(node, db, crawl):
    a = node()
    many = {str(n): ("1 old" if n < 2 else "0 x") for n in range(MAX_COOKIES)}
    assert await a.write(Jar("x"), many) == (True, 0)

    assert await a.write(Jar("x"), {"a": "0 y", "b": "0 y", "c": "0 y"}) == (True, 1)
    assert await a.write(Jar("x"), {"5": "0 z"}) == (True, 0), "it had its room"
    assert db("HLEN", crawl.jar("x")) == MAX_COOKIES


async def test_a_crawl_has_room_for_so_many_jars(node, db, crawl, monkeypatch):
    monkeypatch.setattr(cookies, "MAX_JARS", 1)
    a = node()
    await a.write(Jar("x"), {"one": "0 1"})

    assert await a.write(Jar("y"), {"one": "0 1", "two": "0 2"}) == (False, 2)
    assert not db("EXISTS", crawl.jar("y"))


async def test_cookies_of_a_missing_crawl_are_not_stored(node, db, crawl):
    db("DEL", crawl.meta)

    assert await node().write(Jar("x"), {"one": "0 1"}) == (False, 0)
    assert not db("EXISTS", crawl.jar("x"))
    assert not db("EXISTS", crawl.cookies)


async def test_after_a_change_of_the_store_all_is_read_again(node):
    a, jar = node(), Jar("x")
    await a.write(jar, {"one": "0 1"})
    assert await read(a, jar) is None
    era = jar.era
    a.went_back()

    assert not a.is_current(jar)
    assert await a.refresh(jar) == {"one": "0 1"}
    assert jar.era > era
    assert a.is_current(jar)
