"""The schedules S1 to S19 of the protocol, as scripts of the simulator.

    python -m tests.harness.schedules                    all, and what is wrong
    python -m tests.harness.schedules s10 --log          one, with what nodes log
    python -m tests.harness.schedules s10=NAME           one, with a fault put back

Each tells what is seen from outside: which page is fetched, by whom and how often, and
what a node says. A crawl is made by hand: who has a page's partition, when the site
answers, and what becomes of a call.

`tests/harness/test_schedules.py` names the tests of processes that tell the others.
Those that end in `local` are about requests that cannot be stored.
"""

import argparse
import asyncio
import json
import os
import sys
import traceback
from types import SimpleNamespace
from typing import NamedTuple

from tests.harness.sim import (
    ERRORS,
    PARTITIONS,
    SLOTS,
    TTL,
    Engine,
    Site,
    Trial,
    listen,
)
from tests.harness.virtual import BEGAN, CLOCK, Loop, Server, SimStore, same_hashes

# isort: split
# Time is virtual from here on.
from frontier.store.scripts import SCRIPTS
from tests.harness.mutants import MUTANTS

STEP = 0.002
"""Seconds that a call takes to the server, and back."""
PATIENCE = 4 * TTL
"""Virtual seconds after which what is waited for does not happen. Where no fault is put
back, all happens within little more than a lease."""


class Fate(NamedTuple):
    """What becomes of the next call of a script by a node."""

    name: str
    script: str
    late: float | None
    """By how many seconds it runs after it has timed out; `None`: not at all."""


class Told:
    """Calls that arrive at once, but for those of which another fate is told."""

    def __init__(self):
        self.fates, self.windows, self.trace = [], [], []
        self._names = {script.sha: script.name for script in SCRIPTS.values()}
        self.quiet = True

    def draw(self, process, patience, commands):
        """Seconds to the server, and back; and how it fails, if it does."""
        if process is None:
            return STEP, STEP, ""
        if process.cut:
            return None, STEP, "lost"
        scripts = {self._names[c[1]] for c in commands if c[0] == "EVALSHA"}
        for fate in self.fates:
            if fate.name == process.name and fate.script in scripts:
                self.fates.remove(fate)
                there = None if fate.late is None else patience + fate.late
                return there, STEP, "lost"
        return STEP, STEP, ""

    def note(self, process, commands, replies):
        """Nobody reads what was done."""


class Web(Site):
    """Pages that are made one by one, and answer when they are told to."""

    def __init__(self):
        self.hosts, self.links, self.entries = [0], [[]], []
        self.local, self.plain = set(), set()
        self._held, self._draw = {}, Least()

    def hold(self, page):
        """Do not answer to who asks for *page*, until `answer`."""
        self._held[page] = []

    def answer(self, page):
        """Answer to who has asked for *page*, or will."""
        for answer in self._held.pop(page):
            answer()

    def is_asked(self, page):
        """Whether somebody has asked for *page*, which is held."""
        return bool(self._held[page])

    def _soon(self, page, answer):
        if page in self._held:
            self._held[page].append(answer)
        else:
            super()._soon(page, answer)


class Least:
    """Draws the least there is."""

    def choice(self, among):
        """The first."""
        return among[0]

    def uniform(self, least, most):
        """The least."""
        return least


SLOWLY = SimpleNamespace(choice=lambda among: 2.0 if 2.0 in among else among[0])
"""Draws two seconds where a request waits in its slot, else the least."""


class Play(Trial):
    """A crawl whose every step is told."""

    def __init__(self, server, *servers):
        super().__init__(server, 0, *servers)
        self.site, self.wire, self.delay = Web(), Told(), 0.0
        SimStore.wire, self.goes_on = self.wire, True

    def start(self, node_id=None):
        """One node more, which does nothing slowly."""
        engine = super().start(node_id)
        engine._draw = Least()
        return engine

    async def pair(self):
        """Two nodes that share the partitions, and have fetched the seed."""
        a, b = self.start(), self.start()
        await self.settled(a, b)
        await self.until(lambda: self.by(0), "the seed")
        return a, b

    async def settled(self, *engines):
        """Return when *engines* have all partitions, and each its share."""

        def shares():
            held = [len(e.node.leases.held) if e._begun else 0 for e in engines]
            return all(held) and sum(held) == PARTITIONS

        await self.until(shares, "shares")

    async def until(self, condition, what):
        """Return when *condition* is true."""
        limit = CLOCK.now + PATIENCE
        while not condition():
            assert CLOCK.now < limit, f"no {what}"
            await asyncio.sleep(0.01)

    async def on_the_wire(self, *sent):
        """Return when each node of *sent* has asked for its page, which is held."""
        for node, page in sent:
            self.site.hold(page)
            node.enqueue(page)
        asked = self.site.is_asked
        await self.until(lambda: all(asked(page) for _, page in sent), "pages")

    def page(self, on, links=()):
        """A page in a partition that the node *on* holds, which leads to *links*."""
        return self.page_where(lambda p, _: on.node.leases.current(p), links)

    def page_where(self, fits, links=(), least=1):
        """A page whose partition and counter's key *fits*, of host *least* or later."""
        page = len(self.site.hosts)
        keys, places = self.engines[0].node.keys, self.engines[0]._places
        for host in range(least, 1000):
            self.site.hosts[page:] = [host]
            url = self.site.url(page)
            partition = places.of(url, url.encode()).partition
            if fits(partition, keys.partition(partition).counts):
                break
        self.site.links.append(list(links))
        return page

    def page_beside(self, other, links=()):
        """A page of another host in the partition of *other*, that leads to *links*."""
        return self.page_where(lambda p, _: p == self.partition(other), links)

    def partition(self, page):
        """The partition of *page*."""
        url = self.site.url(page)
        return self.engines[0]._places.of(url, url.encode()).partition

    def is_at(self, page):
        """Whether somebody has been handed out *page*."""
        return any(life[0] == self.site.url(page) for life in self.lives.values())

    def by(self, page):
        """Which processes have fetched *page*."""
        return [e.node for e in self.site.entries if e.url == self.site.url(page)]

    def fate(self, engine, script, late=None):
        """Have the next *script* of *engine* time out, and run *late* seconds after."""
        self.wire.fates.append(Fate(engine.process.name, script, late))

    async def met(self):
        """Return when all that was told of calls has happened."""
        await self.until(lambda: not self.wire.fates, "call of which a fate was told")

    async def whole(self, *, but=()):
        """See nodes end, and nothing wrong; pages *but* may be fetched twice."""
        self.goes_on = False
        limit = CLOCK.now + PATIENCE
        while CLOCK.now < limit and self._staying():
            await asyncio.sleep(0.1)
        since = CLOCK.now
        self.wire.windows.append(("", since, since))
        for page in but:
            self.lives["excused", page] = (self.site.url(page), since)
        wrong = self._judge()
        assert not wrong, "; ".join(wrong)


async def s1(play):
    """Two pages with a child in the other's partition; both nodes hand over."""
    a, b = await play.pair()
    first = play.page(a, [play.page(b)])
    second = play.page(b, [play.page(a)])
    await play.on_the_wire((a, first), (b, second))
    play.start()
    a.drain()
    b.drain()
    await asyncio.sleep(TTL)
    play.site.answer(first)
    play.site.answer(second)
    await play.whole()


async def s1_local(play):
    """The same of children that one node alone can make: each gets the other's."""
    a, b = await play.pair()
    children = [play.page(b), play.page(a)]
    play.site.local.update(children)
    first = play.page_beside(children[1], [children[0]])
    second = play.page_beside(children[0], [children[1]])
    a.enqueue(first)
    b.enqueue(second)
    await play.whole()
    assert list(map(play.by, (first, second, *children))) == [
        *(["n0"], ["n1"]),
        *(["n0"], ["n1"]),
    ]


async def s2(play):
    """Two pages that one node alone can make, and that link to each other."""
    a, b = await play.pair()
    one = play.page(a)
    other = play.page(b, [one])
    play.site.links[one].append(other)
    play.site.local.update((one, other))
    a.enqueue(play.page(a, [one, other]))
    await play.whole()
    assert [play.by(one), play.by(other)] == [["n0"], ["n0"]]


async def s3(play):
    """A partition is handed over while a page of it is on the wire."""
    a, b = await play.pair()
    page = play.page(a, [play.page(a), play.page(b)])
    await play.on_the_wire((a, page))
    a.drain()
    await asyncio.sleep(3 * TTL)
    assert not b.node.leases.current(play.partition(page))
    play.site.answer(page)
    await play.whole()
    assert play.by(page) == ["n0"]


async def s3_local(play):
    """The same of a page that one node alone can make."""
    a, b = await play.pair()
    child = play.page(a, [play.page(b)])
    play.site.local.add(child)
    page = play.page_beside(child, [child])
    play.site.hold(child)
    a.enqueue(page)
    await play.until(lambda: play.site.is_asked(child), "child")
    a.drain()
    await asyncio.sleep(3 * TTL)
    assert not b.node.leases.current(play.partition(child))
    play.site.answer(child)
    await play.whole()
    assert [play.by(page), play.by(child)] == [["n0"], ["n0"]]


async def s4(play, *, is_local=False):
    """The push of a page's only link is late, and the node dies meanwhile."""
    a, b = await play.pair()
    child = play.page(b)
    if is_local:
        play.site.local.add(child)
    page = play.page(a, [child])
    await play.on_the_wire((a, page))
    play.fate(a, "queue_push", late=2.0)
    play.site.answer(page)
    await play.met()
    await asyncio.sleep(1)
    a.kill()
    await play.whole(but=[page])
    assert (play.by(page), play.by(child)) == (["n0", "n1"], ["n1"])


async def s4_local(play):
    """The test of a page that one node alone can make is late, and the node dies."""
    await s4(play, is_local=True)


async def s5(play):
    """A server forgets that it has dropped a node, which sleeps still."""
    a, b = await play.pair()
    page = play.page(a, [play.page(a), play.page(b)])
    await play.on_the_wire((a, page))
    twin = play.page(a)
    a._draw = SLOWLY
    a.enqueue(twin)
    await play.until(lambda: len(a._active) > 1, "start of another")
    a.process.frozen = True
    play.site.answer(page)
    await asyncio.sleep(TTL / 2)
    snapshot = play.server.snapshot()
    await play.until(lambda: b.node.leases.current(play.partition(page)), "death")
    play.server.restart(snapshot)
    other = play.site.hosts[page] + 1
    more = play.page_where(lambda p, _: p == play.partition(page), least=other)
    b.enqueue(more)
    await play.until(lambda: play.by(more), "page of its partition")
    a.process.thaw(asyncio.get_running_loop())
    await play.whole(but=[page])
    assert [play.by(more), play.by(twin)] == [["n1"], ["n1"]]


async def s6(play):
    """A release is late, and an acquire; who has the partition by then is at work."""
    a, b = await play.pair()
    given = {p for p in range(PARTITIONS) if a.node.leases.current(p)}
    c = play.start()
    await play.until(lambda: c._begun, "node")
    play.fate(a, "lease_release", late=3.0)
    play.fate(b, "lease_release", late=3.0)
    play.fate(c, "lease_acquire", late=3.0)
    await play.met()
    await play.until(lambda: any(map(c.node.leases.current, given)), "partition")
    page = play.page_where(
        lambda p, _: p in given and c.node.leases.current(p), [play.page(b)]
    )
    await play.on_the_wire((a, page))
    await asyncio.sleep(3 * TTL)
    play.site.answer(page)
    await play.whole()
    assert play.by(page) == ["n2"]


async def s7(play):
    """Two processes have one node id: the first goes, and loses nothing."""
    a, b = await play.pair()
    page = play.page(a, [play.page(a), play.page(b)])
    await play.on_the_wire((a, page))
    again = play.start("n0")
    await play.until(lambda: a.failures, "failure")
    play.site.answer(page)
    await play.settled(again, b)
    assert [type(error).__name__ for error in a.failures] == ["NodeReplaced"]
    a.failures.clear()
    await play.whole(but=[page])


async def s8(play):
    """What was to be reserved is reserved after everybody has looked for it."""
    a, b = await play.pair()
    pages = [play.page(a) for _ in range(3 * SLOTS)]
    play.fate(a, "queue_reserve", late=8.0)
    for page in pages:
        play.site.hold(page)
        b.enqueue(page)
    await play.met()
    await asyncio.sleep(4 * TTL)
    for page in pages:
        play.site.answer(page)
    await play.whole()
    assert [play.by(page) for page in pages] == [["n0"] for _ in pages]


async def s9_emptied(play):
    """One server of a cluster starts empty while nobody has its partitions."""
    a, b = await play.pair()
    a.enqueue(play.page(a, [play.page(b)]))
    await asyncio.sleep(1)
    a.kill()
    b.kill()
    await asyncio.sleep(2 * TTL)
    crawl = play.server.owner(a.node.keys.meta)
    other = next(name for name, *_ in play.server.owners if name != crawl)
    play.server.take_over(other, other, [])
    c = play.start()
    await play.until(lambda: play._tasks[2].done() or c.failures, "failure")
    errors = c.failures or [play._tasks[2].exception()]
    assert [type(error).__name__ for error in errors] == ["CrawlLost"]


async def s9_deleted(play):
    """A node sleeps while its crawl is deleted, and wakes up in the next."""
    a, b = await play.pair()
    a.enqueue(play.page(a, [play.page(b)]))
    await asyncio.sleep(1)
    a.process.frozen = True
    b.kill()
    before = len(play.site.entries)
    play.server.restart([])
    c = play.start()
    await play.until(lambda: len(play.site.entries) > before, "the seed")
    a.process.thaw(asyncio.get_running_loop())
    await play.until(lambda: a.failures, "failure")
    assert [type(error).__name__ for error in a.failures] == ["CrawlLost"]
    c.enqueue(play.page(c))
    play.goes_on = False
    await play.until(lambda: c.closed, "end")
    fetched = [e.node for e in play.site.entries[before:]]
    assert fetched == ["n2", "n2"]


async def forgets(play, *, count=1, dies=False, to_it=False):
    """A server forgets what it was pushed; what led to that is acked at another.

    Before a replica takes its place it is dead if it *dies*, and *count* pages more are
    pushed, one in half a second: to it, or else to the other.
    """
    a, at = play.start(), play.server.owner
    await play.settled(a)
    crawl = at(a.node.keys.meta)
    first, second = (name for name, *_ in play.server.owners if name != crawl)
    lost = play.page_where(lambda _, key: at(key) == first)
    slow = [play.page_where(lambda _, key: at(key) == second) for _ in range(SLOTS)]
    leads = play.page_where(lambda _, key: at(key) == second, [lost])
    for page in (*slow, leads):
        play.site.hold(page)
        a.enqueue(page)
    await play.until(lambda: all(map(play.site.is_asked, slow)), "slow pages")
    snapshot = play.server.snapshot()
    play.site.answer(slow.pop())
    await play.until(lambda: play.site.is_asked(leads), "page")
    there = [second, *[first if to_it else second] * count]
    play.site.links[0] = [
        play.page_where(lambda _, key, there=one: at(key) == there) for one in there
    ]
    for page in play.site.links[0]:
        play.site.hold(page)
    a.enqueue(play.site.links[0][0])
    play.site.answer(leads)
    await play.until(lambda: not play.is_at(leads), "ack")
    if dies:
        play.server.dead.add(first)
    for page in play.site.links[0][1:]:
        a.enqueue(page)
        await asyncio.sleep(0.5)
    play.server.take_over(first, "new", snapshot)
    await asyncio.sleep(TTL)  # in which the node sees that
    under_way = (*slow, *play.site.links[0])
    for page in under_way:
        play.site.answer(page)
    await play.whole(but=under_way)
    assert play.by(lost) == ["n0"]


async def s10(play):
    """A server dies with what was pushed to it last; a replica is elected late."""
    await forgets(play, count=60, dies=True)


async def s10_local(play):
    """A server forgets which page has claimed what one node alone can make.

    Of a page's child another page is delivered first afterwards. What that child leads
    to is new to whichever page has it.
    """
    a, b = await play.pair()
    leaf = play.page(a)
    child = play.page_beside(leaf, [leaf])
    play.site.local.update((child, leaf))
    page, other = (
        play.page_where(
            lambda p, _, on=on: on.node.leases.current(p) and p != play.partition(leaf),
            [child],
        )
        for on in (a, b)
    )
    await play.on_the_wire((a, page), (b, other))
    snapshot = play.server.snapshot()
    play.site.answer(page)
    await play.until(lambda: play.by(child), "child")
    a._draw = SLOWLY
    await play.until(lambda: play.is_at(leaf), "leaf")
    a._draw = Least()
    play.site.answer(other)
    await play.until(lambda: not play.is_at(other), "ack")
    play.site.hold(page)
    play.server.restart(snapshot)
    await play.until(lambda: len(play.by(child)) > 1, "child by the other")
    await asyncio.sleep(TTL)
    play.site.answer(page)
    await play.whole(but=[page, other, child])


async def s10_cut(play):
    """A primary that is cut off from its replicas takes writes for 15 s."""
    await forgets(play, count=30, to_it=True)


async def s11(play):
    """A primary is demoted, and ends no connection: it sends to who has its slots."""
    await forgets(play, count=0)


async def s14(play):
    """Three nodes die while what a page has led to is left, which they alone have."""
    first = play.start()
    await play.settled(first)
    child = play.page(first)
    play.site.local.add(child)
    page = play.page(first, [child])
    play.site.hold(child)
    first.enqueue(page)
    for number in range(3):
        await play.until(lambda: play.site.is_asked(child), "child")
        await asyncio.sleep(1)
        play.engines[-1].kill()
        play.site._held[child].clear()
        assert len(play.by(page)) == number + 1
        play.start()
    await play.until(lambda: play.site.is_asked(child), "child")
    play.site.answer(child)
    await play.whole(but=[page])
    assert [len(play.by(page)), play.by(child)] == [4, ["n3"]]


async def s15(play):
    """Nobody reaches the server for two leases: no node is dropped."""
    a, b = await play.pair()
    pages = [play.page(a, [play.page(b)]), play.page(b, [play.page(a)])]
    await play.on_the_wire(*zip((a, b), pages, strict=True))
    a.process.cut = b.process.cut = True
    await asyncio.sleep(2 * TTL)
    a.process.cut = b.process.cut = False
    await asyncio.sleep(TTL)
    for page in pages:
        play.site.answer(page)
    await play.whole()


async def s16(play):
    """A lease ends between the look for it and the request."""
    a, b = await play.pair()
    page = play.page(a, [play.page(b)])
    a._draw = SimpleNamespace(choice=lambda among: among[-1])
    a.enqueue(page)
    await play.until(lambda: play.is_at(page), "page")
    await asyncio.sleep(2.2)
    a.process.frozen = True
    await play.until(lambda: play.by(page), "page by another")
    a.process.thaw(asyncio.get_running_loop())
    await play.whole()
    assert play.by(page) == ["n1"]


SCHEDULES = {
    made.__name__: (made, servers)
    for made, servers in (
        *((made, ()) for made in (s1, s1_local, s2, s3, s3_local, s4, s4_local, s5)),
        *((made, ()) for made in (s6, s7, s8, s9_deleted, s10_local, s14, s15, s16)),
        *((made, ("a", "b", "c")) for made in (s9_emptied, s10, s10_cut, s11)),
    )
}


def play(name):
    """What is wrong with the schedule *name*; nothing if it holds."""
    made, servers = SCHEDULES[name]
    with Server() as server:
        told = Play(server, *servers)
        try:
            Loop().run(made(told), told.processes)
        except AssertionError:
            return f"{CLOCK.now - BEGAN:.1f} s: {traceback.format_exc()[-1500:]}"
        finally:
            ERRORS.take()
    return ""


def with_fault(name, fault):
    """What is wrong with it where *fault* is put back: in another process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        MUTANTS[fault](Engine)
        os.write(write, play(name).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        wrong = told.read()
    assert os.waitpid(child, 0)[1] == 0, f"{name} with {fault}"
    return wrong


def main():
    """Play; print what is wrong, by name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--log", action="store_true")
    asked = parser.parse_args()
    listen(asked.log)
    found = {}
    for words in asked.names or SCHEDULES:
        name, _, fault = words.partition("=")
        found[name] = with_fault(name, fault) if fault else play(name)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    same_hashes("tests.harness.schedules")
    sys.exit(main())
