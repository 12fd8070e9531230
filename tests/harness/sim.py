"""Crawls by several real nodes in one process, with faults that a seed draws.

    python -m tests.harness.sim --seeds 300 --seed 0     300 trials, the first of seed 0
    python -m tests.harness.sim --seeds 300 --workers 2  the same by two processes
    python -m tests.harness.sim --seed 17 --trace        one, with what the server did
    python -m tests.harness.sim --mutant NAME --until    seeds until a fault is found

A trial has two to four nodes without Scrapy, one Valkey, which some take for a cluster
of three, and virtual time on both sides (`tests.harness.virtual`). What it did is
judged by the oracle of `tests.chaos`.
One seed is one trial: it does the same each time, as the trace's digest shows.

A node is driven by eight verbs: open, enqueue, take, done, tick (time passes), freeze
or kill, cut, back. Replies can be lost, and calls can run late: after they timed out,
and after others that were sent later. A server can start again with what it had a
moment or four leases ago, with its clock, or with nothing.

What was under way since that snapshot may be fetched again, until nodes have heard of
the restart, and nothing may be lost. A callback that computes for less than
``FRONTIER_BUSY_MAX`` excuses nothing; what computes for longer is given up.

Outside are, with what tests them:

* Scrapy, its slots and downloader: `tests.chaos`, `tests/integration`.
* The archive's threads: `tests/warc/test_writer_thread.py`, `tests.chaos`.
* The journal's thread (it is written in the loop's), and who removes journals:
  `tests/node/journal`.
* The watchdog's process and its pipe (it looks in this one; its calls take no time):
  `tests/watchdog`, `tests/integration/test_busy.py`.
* redis-py, its timers and connections: `tests/store`, `tests/node/test_heartbeat.py`.
* Slots that move, replicas and Sentinel: `make stores`, `tests.chaos`.
* Delays between requests of two nodes, which nobody judges here: `tests.chaos`.
* Which requests cannot be stored: `tests/integration/test_local.py`, `tests.chaos`.
"""

import argparse
import asyncio
import hashlib
import json
import logging
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.harness.virtual import (
    BEGAN,
    CLOCK,
    DRAWN,
    EPOCH,
    NOBODY,
    NODE,
    Loop,
    Process,
    Server,
    SimStore,
    blocking,
    same_hashes,
)

# isort: split
# Time is virtual from here on.
from frontier.cluster import ring
from frontier.errors import ConfigurationError
from frontier.node import borrow, end_of_crawl, inbox, node as nodes
from frontier.node.context import Features, Owner, happens
from frontier.node.delivery import Delivery
from frontier.node.ends import ORDERS, UNDONE
from frontier.node.hosts import Concurrency
from frontier.node.journal.entries import Header
from frontier.node.journal.rebuild import Rebuild
from frontier.node.journal.writer import MAX_BATCH, Journal, _framed
from frontier.node.node import Node
from frontier.node.process_stats import ProcessStats
from frontier.queue.dead_letters import counted, letters
from frontier.queue.item import decode, encode
from frontier.queue.push import ARE_SEEN, CLAIM, TEST, Push
from frontier.queue.reserve import Ran
from frontier.settings.config import Config
from frontier.store.address import address_of
from frontier.testing.oracle import Entry, RequestLog
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import QueueAddresses
from frontier.watchdog.child import Watchdog
from frontier.watchdog.process import Watch
from tests.chaos.oracle import Facts, judge
from tests.harness.mutants import MUTANTS

TTL = 6.0
"""Seconds of a lease."""
PARTITIONS = 8
SLOTS = 4
"""Requests that an engine has at once."""
FAULTS = 8.0
"""Seconds of a trial in which faults happen."""
LIMIT = 300.0
"""Seconds after which a crawl that has not ended does not end."""
PATIENCE = 0.1
"""Seconds between looks of the guard for a lease that comes back."""
RESTARTS = 0.6
"""From this lot on nobody is killed, frozen or cut off."""
MOVES = 0.8
"""From this lot on nodes come and go, and nothing breaks: in some trials only that, as
faults excuse that pages are fetched again."""
CLUSTERS = 0.25
"""Part of the trials that have a cluster, of which a server is replaced by a copy that
lacks its last writes: what led to these may be acked by another. No node goes
meanwhile: only who has pushed what is lost can push it again."""
REBUILDS = 0.15
"""Part of the others that have journals, and lose the store: all nodes are killed, the
server starts empty, and the crawl is rebuilt."""
OLDEST = 4 * TTL
"""Seconds since the snapshot from which a server alone may be started again. All that
it has is of one moment: who was acked later is there again, so nothing is lost. Of a
cluster's, a second: what was pushed is kept for longer than that."""
WATCHED = 0.2
"""Part of the trials that have watchdogs, and callbacks that compute."""
BUSY_MAX = 2.5 * TTL
"""Seconds for which a callback may compute."""
UNWRITTEN = 0.5
"""Seconds until a slow disk has what is noted in a journal, and nobody waits for."""
HEARD = 2.0
"""Seconds after which a node knows that the server was started again."""
LATE = 4.0
"""Seconds by which a call may run late, beyond its time-out."""

nodes.Store = SimStore
inbox.POLL = 1.0  # else most of a trial would be looks for hints
end_of_crawl.LOOK = borrow.INTERVAL = 0.5  # and most turns of the loop idle looks
ring._owners = lru_cache(ring._owners)  # each trial has the same nodes
ProcessStats.run = SimStore.pulse  # what a real process takes is of no seed
ProcessStats.report = lambda self, held: {}
Node._uncommitted = lambda self: []  # asked by redis-py, which knows no such cluster


class Wire:
    """What becomes of calls on their way, as a seed draws it."""

    def __init__(self, draw, noise):
        self._draw, self._noise = draw, noise
        self._slowest = draw.choice((0.005, 0.05, 0.4))
        self.windows = []
        """What went wrong: the process that it befell, or nobody's name for all of
        them; from, until."""
        self.trace = []
        self.quiet = False

    def draw(self, process, patience, commands):
        """Seconds to the server, and back; and how it fails, if it does."""
        draw = self._draw
        there = draw.uniform(0.001, self._slowest)
        back = draw.uniform(0.001, self._slowest)
        if process is not None and process.cut:
            return (there if draw.random() < 0.5 else None), back, "lost"
        if self.quiet or draw.random() >= self._noise:
            return there, back, ""
        who = process.name if process else ""
        self.windows.append((who, CLOCK.now, CLOCK.now + patience + LATE + TTL))
        kind = draw.choice(("lost", "reset", "never", "late"))
        if kind == "never":
            return None, back, "lost"
        if kind == "late":
            return patience + draw.uniform(0, LATE), back, "lost"
        return there, back, kind

    def note(self, process, commands, replies):
        """Have it in the trace that the server has done *commands*."""
        who = process.name if process else "?"
        self.trace.append((CLOCK.now, who, commands, replies))


class Site:
    """A graph of pages on a few hosts, and the log of who asked for them."""

    def __init__(self, draw):
        hosts, count = draw.randint(2, 6), draw.randint(6, 32)
        self.hosts = [draw.randrange(hosts) for _ in range(count)]
        self.links = [
            [draw.randrange(count) for _ in range(draw.randint(1, 4))]
            for _ in range(count)
        ]
        for page in range(1, count):  # each is led to by one before it
            self.links[draw.randrange(page)].append(page)
        self.local = set()
        """Pages whose requests cannot be stored, as the spider makes them."""
        self.plain = set()
        """Links, each a page and what it leads to, of which that is not so."""
        self.entries = []
        self._draw = draw

    def url(self, page):
        """The URL of *page*."""
        return f"http://h{self.hosts[page]}.example/{page}"

    def ask(self, page, process):
        """A future of the answer; the site logs it whoever waits for that."""
        loop = asyncio.get_running_loop()
        answered, began = loop.create_future(), CLOCK.now

        def answer():
            wall = EPOCH - BEGAN
            start, end = wall + began, wall + CLOCK.now
            host, url = f"h{self.hosts[page]}", self.url(page)
            self.entries.append(
                Entry(start, end, host, url, "GET", 200, 1, process.name, None)
            )
            if not answered.done():
                answered.set_result(None)

        self._soon(page, answer)
        return answered

    def _soon(self, page, answer):
        took = self._draw.choice((0.002, 0.5)) * self._draw.uniform(0.5, 1.0)
        asyncio.get_running_loop().call_later(took, answer, context=NOBODY)


class Life(NamedTuple):
    """How long a page was under way, for one node."""

    name: str
    url: str
    since: float
    until: float


class SimJournal(Journal):
    """Is written in the loop's thread, when somebody waits for it, or soon."""

    def _run(self):
        """Do nothing in a thread."""

    def _add(self, job, size=0):
        if not self._waiting:
            asyncio.get_running_loop().call_later(UNWRITTEN, self._write_all)
        return super()._add(job, size)

    def durable(self, number=None):
        self._write_all()
        return super().durable(number)

    def _write_all(self):
        if self._waiting:
            self._write(b"".join(map(_framed, self._take(MAX_BATCH))))
            self._committed()

    def close(self):
        self._write_all()
        self._publish()


class SimWatch(Watch):
    """The watchdog's process, which watches a simulated one."""

    def __init__(self, process, store, *given):
        self._process = process
        super().__init__(*given)
        self._store = store

    @property
    def lives(self):
        return not self._process.dead

    def _is_stopped(self):
        return self._process.frozen or self._process.dead

    def _say(self, message):
        logging.getLogger("frontier.watchdog").info(message)


class SimWatchdog(Watchdog):
    """Has the other process look in this one, at once."""

    async def _start(self):
        process, settings = NODE.get(), json.loads(self._given)
        store = blocking(SimStore.at, process)
        self._look(SimWatch(process, store, self._memory, settings))

    def _look(self, watch):
        if self._memory.file < 0:
            return
        if watch.lives:
            watch.look()
        elif not watch._process.cut:
            watch.part()
            return
        later = asyncio.get_running_loop().call_later
        later(watch.interval, self._look, watch, context=NOBODY)


nodes.Watchdog = SimWatchdog


class Journaled(Features):
    """A node with a journal in *directory*, if there is one."""

    def __init__(self, directory):
        self._directory = directory

    async def open(self, node):
        if self._directory is None:
            return ()
        keys, node_id = node.keys, node.config.node_id
        names = (keys.namespace, keys.crawl_id, node.spider, node_id)
        journal = SimJournal(self._directory, Header(*names, node.shape, keys.born))
        node.opened.callback(journal.close)
        return (journal,)


class Engine(Owner):
    """What runs a node: slots, a guard before the wire, a spider that follows links."""

    last_look = True
    """Whether the guard looks once more as the request is written."""

    def __init__(self, trial, name, node_id):
        self._trial, self.process, self._node_id = trial, Process(name), node_id
        self._draw = random.Random(f"{trial.seed} {name}")
        self._ready, self._active = asyncio.Event(), set()
        self._through = []
        """Reservations that are done with, but may not have left the node; and whether
        their requests were sent."""
        self.finished = None
        """When it heard of the end of the crawl."""
        self.drained = self.closed = False
        self.failures = []
        self.computes = 0.0
        """Seconds for which the next callback computes."""
        self.about_to_write = 0
        """Requests between the look for their lease and the last one."""
        self._begun = False

    def spawn(self, work):
        """Run *work* in the node's process."""
        context = NOBODY.copy()
        context.run(NODE.set, self.process)
        return asyncio.get_running_loop().create_task(work, context=context)

    # The verbs.

    async def open(self):
        """Have the node enter the crawl, and crawl to its end, without any feature."""
        config = Config(
            namespace="sim",
            node_id=self._node_id,
            crawl_id="c",
            partitions=PARTITIONS,
            lease_ttl=TTL,
            busy_max=self._trial.busy_max,
            warc_enabled=False,
            store_wait=3600.0,
            keep_frontier=True,
        )
        made = Node(
            config,
            {"REDIS_URL": self._trial.url},
            self,
            spider="sim",
            concurrency=Concurrency(requests=2 * SLOTS, per_host=SLOTS),
            features=Journaled(self._trial.journals),
        )
        self._places = QueueAddresses(config)
        try:
            await made.open()
        except ConfigurationError:
            if not self._trial.is_over():
                raise
            self.closed = True  # it came after the end
            return
        self.node = made
        made.has_seeds = True
        self.enqueue(0)
        self._begun = True
        await self._crawl()
        await made.close()
        self.closed = True
        self._see_ends()

    def enqueue(self, page):
        """Have *page* be fetched, unless it was seen."""
        url = self._trial.site.url(page)
        place = self._places.of(url, url.encode())
        queue, mark = f"0:{place.queue_key}", seen_hash(url.encode())
        push = Push(TEST, mark, queue, 0, encode({"url": url}, queue), page)
        self.node.outbox.put(place.partition, push)

    def adopt(self, page, parent):
        """Have *page*, which cannot be stored, be fetched unless it was seen."""
        url = self._trial.site.url(page)
        place = self._places.of(url, url.encode())
        mark = seen_hash(url.encode())
        made = Delivery(
            name=b"%d" % parent.next_id(url.encode()),
            parents=(parent,),
            request=page,
            partition=place.partition,
            queue=f"0:{place.queue_key}",
            mark=mark,
        )
        if self.node.deliveries.may_test(made):
            push = Push(CLAIM, mark, "", 0, b"", made, 0, made.owner, made)
            self.node.outbox.put(place.partition, push)

    def stored(self, pushes, verdicts):
        for push, verdict in zip(pushes, verdicts, strict=True):
            if push.mode == CLAIM and verdict in ARE_SEEN:
                self.node.deliveries.end(push.tag)
            elif push.mode == CLAIM:
                self.node.deliveries.accept(push.tag)

    def take(self):
        """The next to fetch, if there is one."""
        return self.node.take()

    def done(self, reservation):
        """All that it leads to is enqueued, or adopted."""
        self.node.deliveries.through(reservation)

    def drain(self):
        """Have the node leave."""
        self.drained = True
        self.node.leave()
        self._ready.set()

    def kill(self):
        """End the process; what it has sent is on its way."""
        self.process.dead = True

    # What it does between them.

    async def _crawl(self):
        while True:
            await happens(self._ready, 0.5)
            self._ready.clear()
            self._see_ends()
            if self.finished or self.drained or self.failures:
                if not self._active or self.failures:
                    return
                continue
            while len(self._active) < SLOTS:
                reservation = self.take()
                if reservation is None:
                    break
                self._active.add(reservation.key)
                asyncio.get_running_loop().create_task(self._fetch(reservation))

    async def _fetch(self, reservation):
        site, tree = self._trial.site, reservation.delivery
        page = tree.request
        if not tree.is_adopted:
            url = decode(reservation.item, reservation.queue)["url"]
            page = int(url.rpartition("/")[2])
        life = (self._trial.site.url(page), CLOCK.now)
        self._trial.lives[self.process.name, reservation.key] = life
        await asyncio.sleep(self._draw.choice((0.0, 0.1, 0.5, 2.0)))
        is_sent = False
        if await self._covered(reservation):
            self.node.inbox.sent(reservation, self._trial.delay)
            self.about_to_write += 1
            await asyncio.sleep(self._draw.choice((0.0, 0.01, 0.4)))
            self.about_to_write -= 1
            if not self.last_look or await self._covered(reservation):
                await site.ask(page, self.process)
                await asyncio.sleep(self._draw.choice((0.0, 0.01, 0.3)))
                await self._compute(reservation, page)
                for child in site.links[page]:
                    if child in site.local and (page, child) not in site.plain:
                        self.adopt(child, tree)
                    else:
                        self.enqueue(child)
                is_sent = True
        if tree.is_adopted and not is_sent:
            await self.node.acks.put_back(reservation)
        else:
            self.done(reservation)
        self._through.append((reservation, is_sent))
        self._ready.set()

    def _see_ends(self):
        """Free the slots of what is acked or lost, and note when its tree is over."""
        through, self._through = self._through, []
        for reservation, is_sent in through:
            if reservation.key in self.node.inbox.open:
                self._through.append((reservation, is_sent))
                continue
            self._active.discard(reservation.key)
            if is_sent and not self.closed and self._stands(reservation.delivery):
                self._through.append((reservation, is_sent))
            else:
                self._trial.end(self.process.name, reservation.key)

    async def _compute(self, reservation, page):
        """Keep the process busy, if this page's callback is one that computes.

        What keeps it busy for too long is given up, so it leads to nothing.
        """
        seconds, trial = self.computes, self._trial
        is_long, url = seconds > trial.busy_max, trial.site.url(page)
        if not seconds or reservation.id < 0 or (is_long and trial.site.links[page]):
            return
        self.computes = 0.0
        name, now = self.process.name if is_long else "of no", CLOCK.now
        trial.note(f"compute {seconds:.3f}", name, now, now + seconds + 3 * TTL)
        if is_long:
            trial.given_up.add(url)
        watchdog, loop = self.node.watchdog, asyncio.get_running_loop()
        lease = reservation.lease
        ran = Ran(lease.partition, lease.token, reservation.id)
        before = watchdog.enter(watchdog.record(ran, url))
        self.process.busy = True
        loop.call_later(seconds, self.process.calm, loop, context=NOBODY)
        await asyncio.sleep(0)
        watchdog.leave(before)

    def _stands(self, tree):
        """Whether something is left of *tree* here."""
        if tree.is_adopted:
            return tree in self.node.deliveries._claimed.values()
        return tree in self.node.deliveries.kept.values()

    async def _covered(self, reservation):
        while not self.node.covers(reservation):
            if self.node.has_lost(reservation):
                return False
            await asyncio.sleep(PATIENCE)
        return True

    # What the node tells its owner.

    def on_ready(self):
        self._ready.set()

    def on_end(self, end):
        if end == ORDERS["drain"]:
            self.drain()
        elif end.error is not None or end == UNDONE:
            self.failures.append(end.error or "its end is not done")
        elif end not in ORDERS.values():
            self.finished = self.finished or CLOCK.now
        self._ready.set()

    def busy(self):
        return bool(self._active) or not self._begun or self._trial.goes_on

    def ended(self, reservations):
        self._ready.set()

    # What parts that the simulator has not got make a node wait for.

    async def before_ack(self, reservations):
        await asyncio.sleep(self._draw.choice((0.0, 0.0, 0.3)))

    async def leaving(self):
        await asyncio.sleep(self._draw.choice((0.0, 0.3)))


class Trial:
    """One crawl with the faults of one seed, on a cluster if there are *servers*."""

    def __init__(self, server, seed, *servers):
        self.seed, self.server, self.url = seed, server, server.url
        self.goes_on = False
        """Whether the crawl does not end, even if nothing is left."""
        self._draw = draw = random.Random(seed)
        CLOCK.now = BEGAN
        DRAWN.seed(seed)
        random.seed(seed)  # the nodes' jitter
        server.clear()
        if servers:
            server.cluster(*servers)
            places = ",".join(f"{name}:1" for name in servers)
            self.url = f"redis+cluster://{places}"
        self.site = Site(draw)
        self.journals = None
        if not servers:  # what a failover may cost: docs/cluster.md
            self._losing = random.Random(f"{seed} journal")
            if self._losing.random() < REBUILDS:
                self.journals = Path(tempfile.mkdtemp(dir=server.directory))
            else:  # no journal has what cannot be stored
                self._choose_local(random.Random(f"{seed} local"))
        self.wire = Wire(draw, draw.choice((0.0, 0.0, 0.003, 0.02)))
        SimStore.wire, SimStore.server = self.wire, server
        SimStore.at = address_of({"REDIS_URL": self.url})
        watched = random.Random(f"{seed} watchdog").random() < WATCHED
        self.busy_max = BUSY_MAX if watched else 0.0
        self.given_up = set()
        """URLs of pages whose callbacks compute for longer."""
        self.delay = draw.choice((0.0, 0.3))
        """For which others leave a host alone; nobody judges whether they do."""
        self.lives, self._ended = {}, []
        self.engines, self.processes, self._tasks = [], [], []
        self.happened = []
        self._forgotten = []
        """From when to when the server has forgotten all, an end too."""

    def _choose_local(self, draw):
        """Have some pages of some trials be made by one process alone.

        Others may find the same in the plain way.
        """
        part = draw.choice((0.0, 0.2, 0.7))
        count = len(self.site.hosts)
        self.site.local = {p for p in range(1, count) if draw.random() < part}
        part = draw.choice((0.0, 0.0, 0.5))
        links = ((p, to) for p in range(count) for to in self.site.links[p])
        self.site.plain = {link for link in links if draw.random() < part}

    def end(self, name, key):
        """A page is not under way any more."""
        self._ended.append(Life(name, *self.lives.pop((name, key)), CLOCK.now))

    def start(self, node_id=None):
        """One node more."""
        name = f"n{len(self.engines)}"
        engine = Engine(self, name, node_id or name)
        self.engines.append(engine)
        self.processes.append(engine.process)
        self._tasks.append(engine.spawn(engine.open()))
        return engine

    @property
    def _alive(self):
        return [
            e
            for e in self.engines
            if not (e.process.dead or e.drained or e.closed or e.finished)
        ]

    def note(self, what, name, since, until):
        """It befell the process *name*; all of them, if that is empty."""
        self.happened.append(f"{CLOCK.now - BEGAN:.3f} {what} {name}")
        self.wire.windows.append((name, since, until))

    async def run(self):
        """Crawl, break things, and return what is wrong."""
        draw, loop = self._draw, asyncio.get_running_loop()
        for _ in range(draw.randint(2, 3)):
            self.start()
        if self.journals is not None:
            await asyncio.sleep(self._losing.uniform(0.2, FAULTS))
            await self._lose_the_store()
        least = draw.choice((0.0, 0.0, 0.0, MOVES))
        if self.server.owners:
            least = RESTARTS  # what is lost if who pushed it goes too, is lost
        breaking = [
            loop.create_task(
                self._break(draw.uniform(0.2, FAULTS), draw.uniform(least, 1.0))
            )
            for _ in range(draw.randint(1, 4))
        ]
        for task in breaking:
            await task
        self.wire.quiet = True
        while CLOCK.now < BEGAN + LIMIT and not all(
            t.done() or e.process.dead
            for t, e in zip(self._tasks, self.engines, strict=True)
        ):
            await asyncio.sleep(0.5)
        return self._judge()

    async def _lose_the_store(self):
        """Lose all that the server has, and all nodes; rebuild the crawl, and go on."""
        if self.is_over() or not any(e._begun for e in self._alive):
            return
        # What was done just before may be in no journal.
        self.note("lose the store", "", CLOCK.now - 2 * UNWRITTEN, CLOCK.now)
        for engine in self.engines:
            engine.kill()
        self.server.restart([])
        await asyncio.sleep(TTL)
        Rebuild(blocking(SimStore.at), "sim", "c", [self.journals]).run()
        self.start()
        self.start()

    async def _break(self, after, lot):
        await asyncio.sleep(after)
        draw, alive = self._draw, self._alive
        if not alive:
            return
        now, engine = CLOCK.now, draw.choice(alive)
        process = engine.process
        seconds = draw.choice((0.3, TTL / 2, TTL, 2 * TTL)) * draw.uniform(0.8, 1.3)
        ends = now + seconds + 3 * TTL
        if self.busy_max and draw.random() < 0.5:
            engine.computes = draw.choice((TTL / 2, TTL, 2 * TTL, 3 * TTL))
        elif lot < 0.25:
            if lot < 0.15:
                # The worst moment; it wakes up just after others have its partitions.
                while not engine.about_to_write and CLOCK.now < now + 2.0:
                    await asyncio.sleep(0.01)
                seconds = TTL * draw.uniform(1.0, 1.5)
                ends += 2.0 + seconds
            self.note(f"freeze {seconds:.3f}", process.name, now, ends)
            process.frozen = True
            await asyncio.sleep(seconds)
            process.thaw(asyncio.get_running_loop())
        elif lot < 0.45:
            self.note("kill", process.name, now, now + 3 * TTL)
            engine.kill()
            self.start()
        elif lot < RESTARTS:
            self.note(f"cut {seconds:.3f}", process.name, now, ends)
            process.cut = True
            await asyncio.sleep(seconds)
            process.cut = False
        elif lot < 0.7 and any(e._begun for e in alive):
            oldest = 1.0 if self.server.owners else draw.choice((1.0, OLDEST))
            snapshot, age = self.server.snapshot(), draw.uniform(0.0, oldest)
            await asyncio.sleep(age)
            if self.is_over():
                return
            self.note(f"restart {age:.3f}", "", now, CLOCK.now + HEARD)
            if self.server.owners:
                old, *_ = draw.choice(self.server.owners)
                self.server.take_over(old, f"{old}'", snapshot)
            else:
                self.server.restart(snapshot)
                self.server.ahead -= draw.choice((0.0, age))  # its machine's snapshot
            self._forgotten.append((now, CLOCK.now))
        elif lot < MOVES:
            step = draw.choice((-1, 1)) * draw.uniform(0.5, 2 * TTL)
            self.note(f"step {step:.3f}", "", now, now + abs(step) + 3 * TTL)
            self.server.ahead += step
        elif lot < 0.9 and engine._begun and not self.server.owners:
            self.note("drain", process.name, now, now)
            if len(alive) == 1:
                self.start()
            engine.drain()
        else:
            self.note("open", "", now, now)
            self.start()

    def _staying(self):
        return [
            engine.process.name
            for task, engine in zip(self._tasks, self.engines, strict=True)
            if not (task.done() or engine.process.dead)
        ]

    def is_over(self):
        """Whether the store says that the crawl has ended."""
        metas = {e.node.keys.meta for e in self.engines if e._begun}
        return any(self.server.state(meta) == b"finished" for meta in metas)

    def _without_forgotten(self, entry):
        """*entry*; without its length, if the server had just forgotten who has what.

        Who had a lease hears of that with its next heartbeat.
        """
        at = entry.start - EPOCH + BEGAN
        if any(a - 1 <= at <= b + HEARD for a, b in self._forgotten):
            return replace(entry, end=entry.start)
        return entry

    def _dead(self):
        """The URLs that were given up."""
        begun = [engine for engine in self.engines if engine._begun]
        if not self.busy_max or not begun:
            return set()
        store, keys = blocking(SimStore.at), begun[0].node.keys
        counts = counted(store, keys, PARTITIONS)
        return {letter.url for letter in letters(store, keys, counts)}

    def _judge(self):
        lives = self._ended + [
            Life(name, url, since, CLOCK.now)
            for (name, _), (url, since) in self.lives.items()
        ]
        excused = {}
        for name, url, since, until in lives:
            if any(
                since <= to and until >= at and who in ("", name)
                for who, at, to in self.wire.windows
            ):
                excused[url] = excused.get(url, 0) + 1
        stays = self._staying()
        told = [e.finished for e in self.engines if e.finished]
        if not told and self.is_over():  # the last that was drained has ended it
            told = [CLOCK.now]
        ends = [
            at for at in told if not any(a <= at <= b + 1 for a, b in self._forgotten)
        ] or told[-1:]
        facts = Facts(
            expected=set(map(self.site.url, range(len(self.site.hosts)))),
            log=RequestLog(map(self._without_forgotten, self.site.entries)),
            in_flight=excused,
            dead=self._dead() - self.given_up,
            finished=EPOCH - BEGAN + min(ends) if ends and not stays else None,
            crashed=tuple(
                f"{e.process.name}: {f!r}" for e in self.engines for f in e.failures
            )
            + tuple(
                f"{e.process.name}: {t.exception()!r}"
                for t, e in zip(self._tasks, self.engines, strict=True)
                if t.done() and not t.cancelled() and t.exception()
            ),
            errors=tuple(ERRORS.take()),
        )
        return [f"{f.wrong}: {f.what}" for f in judge(facts)] + [
            f"stays: {name}" for name in stays
        ]


class Errors(logging.Handler):
    """Keeps what nodes have logged with a traceback."""

    def __init__(self):
        super().__init__()
        self._found = []

    def emit(self, record):
        if record.exc_info:
            self._found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def take(self):
        """What was logged since it was asked last."""
        found, self._found = self._found, []
        return found


ERRORS = Errors()


def lines(trace):
    """A line about each round trip of *trace*."""
    for now, who, commands, replies in trace:
        done = [
            (command, "of the moment" if command[0] == "INFO" else reply)
            for command, reply in zip(commands, replies, strict=True)
            if command[0] != "SCRIPT LOAD"
        ]
        said = hashlib.sha1(repr(done).encode()).hexdigest()[:8]
        names = ",".join(command[0] for command, _ in done)
        yield f"{now:.6f} {who} {names} {said}"


def digest_of(trace):
    """Another one if anything in *trace* is another."""
    return hashlib.sha1("\n".join(lines(trace)).encode()).hexdigest()[:12]


def trial(server, seed):
    """What is wrong with the trial of *seed*, what happened, and the trace of it."""
    is_cluster = random.Random(f"{seed} servers").random() < CLUSTERS
    made = Trial(server, seed, *(("a", "b", "c") if is_cluster else ()))
    try:
        wrong = Loop().run(made.run(), made.processes)
    finally:
        ERRORS.take()
        if made.journals is not None:
            shutil.rmtree(made.journals)
    return wrong, made.happened, made.wire.trace


def listen(is_shown):
    """Keep what nodes log with a traceback; write all that they log, if *is_shown*."""
    logging.basicConfig(handlers=[ERRORS])
    if is_shown:
        logging.getLogger().addHandler(logging.StreamHandler())
    logging.getLogger("frontier").setLevel(logging.INFO)


def main():
    """Run trials; end with 1 if one of them is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="try each N-th of these")
    parser.add_argument("--workers", type=int, default=1, help="processes that share")
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    parser.add_argument("--until", action="store_true", help="end with the first fault")
    parser.add_argument("--twice", action="store_true", help="and compare traces")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--log", action="store_true")
    asked = parser.parse_args()
    if asked.workers > 1:
        return shared(asked.seed, asked.seeds, asked.workers)
    listen(asked.log)
    if asked.mutant:
        MUTANTS[asked.mutant](Engine)
    tried = failed = 0
    with Server() as server:
        for seed in range(asked.seed, asked.seed + asked.seeds, asked.every):
            tried += 1
            wrong, happened, trace = trial(server, seed)
            if asked.trace:
                print(*lines(trace), sep="\n")
            if wrong or asked.seeds == 1:
                count, digest = len(trace), digest_of(trace)
                print(f"seed {seed}: {count} round trips, trace {digest}")
                print(*happened, *wrong, sep="\n  ", flush=True)
            if asked.twice and digest_of(trace) != digest_of(trial(server, seed)[2]):
                wrong = [*wrong, "another trace"]
                print(f"seed {seed}: another trace the second time", flush=True)
            failed += bool(wrong)
            if wrong and asked.until:
                break
    print(f"{tried} seeds, {failed} wrong")
    return 1 if failed else 0


def shared(first, count, workers):
    """Have *workers* processes try *count* seeds; 1 if one of them is wrong.

    One alone leaves a core idle half of the time: it waits for its server, or that
    for it.
    """
    words = [sys.executable, "-m", "tests.harness.sim", "--every", str(workers)]
    running = [
        subprocess.Popen([*words, "--seed", f"{first + n}", "--seeds", f"{count - n}"])
        for n in range(workers)
    ]
    codes = [each.wait() for each in running]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    same_hashes("tests.harness.sim")
    sys.exit(main())
