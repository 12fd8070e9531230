"""One thread looks for all who ask, and goes on whatever it meets."""

import asyncio
import itertools
import threading

import pytest

from frontier.dashboard import poller
from frontier.dashboard.poller import Poller
from frontier.errors import FrontierError

SOON = 60.0


def asked(look, render, ask):
    """What *ask* returns, of a poller that has *look* and *render* for any name."""

    async def run():
        made = Poller(lambda _: (look, render))
        made.start()
        try:
            async with asyncio.timeout(SOON):
                return await ask(made)
        finally:
            await made.stop()

    return asyncio.run(run())


def test_who_asks_after_a_while_is_told_what_is_so_now(monkeypatch):
    monkeypatch.setattr(poller, "FRESH", 0.0)
    monkeypatch.setattr(poller, "SELDOM", 3600.0)
    looks = itertools.count()

    async def twice(made):
        return [(await made.newest("x")).view for _ in range(2)]

    first, second = asked(lambda: next(looks), lambda *_: {}, twice)

    assert first < second


@pytest.mark.parametrize("part", ["look", "render"])
def test_a_fault_of_ours_is_told_and_what_was_seen_stays_until_it_is_over(
    part, monkeypatch
):
    monkeypatch.setattr(poller, "EVERY", 0.01)
    looks, wrong, healed = itertools.count(), threading.Event(), threading.Event()

    def checked(view):
        if wrong.is_set() and not healed.is_set():
            raise ZeroDivisionError("of ours")
        return view

    def look():
        view = next(looks)
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
