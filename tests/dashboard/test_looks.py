"""All who ask share a look, and looking goes on whatever it meets."""

import asyncio
import itertools
import threading

import pytest

from frontier.dashboard import looks
from frontier.dashboard.looks import Looks
from frontier.errors import FrontierError
from frontier.metrics.crawl import MOST

SOON = 60.0


def asked(look, render, ask):
    """What *ask* returns, of looks that have *look* and *render* for any name."""

    async def run():
        made = Looks(lambda _: (look, render))
        try:
            async with asyncio.timeout(SOON):
                return await ask(made)
        finally:
            made.stop()

    return asyncio.run(run())


def test_concurrent_requests_share_a_look_and_a_later_one_gets_a_new(monkeypatch):
    monkeypatch.setattr(looks, "EVERY", 0.05)
    count = itertools.count()

    async def often(made):
        together = await asyncio.gather(*(made.newest("x") for _ in range(9)))
        return {one.view for one in together}, await made.newest("x", 1)

    together, later = asked(lambda: next(count), lambda *_: {}, often)

    assert together == {0}
    assert later.view == 1


def test_ten_viewed_crawls_and_what_a_scrape_asks_for_are_each_watched_once():
    watched = []

    def watch(name):
        watched.append(name)
        return str, lambda *_: {}

    async def twice():
        made = Looks(watch)
        sights = [*range(10), *range(100, 100 + 3 + MOST)]
        for name in sights * 2:
            await made.newest(f"{name}")
        return len(sights)

    assert asyncio.run(twice()) == len(watched)


@pytest.mark.parametrize("part", ["look", "render"])
def test_internal_error_is_shown_with_the_last_view_until_it_is_over(part, monkeypatch):
    monkeypatch.setattr(looks, "EVERY", 0.01)
    count, wrong, healed = itertools.count(), threading.Event(), threading.Event()

    def checked(view):
        if wrong.is_set() and not healed.is_set():
            raise ZeroDivisionError("of ours")
        return view

    def look():
        view = next(count)
        return checked(view) if part == "look" else view

    def render(view, error):
        return {"shown": view if error else checked(view), "error": str(error)}

    async def until_it_is_over(made):
        first = await made.newest("x")
        wrong.set()
        told = first
        while told.error is None:
            told = await made.newest("x", told.number)
        healed.set()
        last = told
        while last.error is not None:
            last = await made.newest("x", last.number)
        return first, told, last

    first, told, last = asked(look, render, until_it_is_over)

    assert isinstance(told.error, FrontierError)
    assert "of ours" in told.parts["error"].content
    assert told.parts["shown"].content >= first.view
    assert last.parts["shown"].content == last.view > told.view
