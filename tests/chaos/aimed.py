"""A cut just before one push of one node, made to happen to a crawl.

The server is killed as soon as the node has the reply, its file is cut, and it is
started again. The node is stopped meanwhile, or dead. While it is stopped, a command
pushes as many new URLs into the same partitions as were forgotten.
"""

import os
import subprocess
import sys
import time

from frontier.node.outbox import KEPT
from frontier.settings.config import Config
from frontier.testing.oracle import RequestLog
from frontier.urls.fingerprint import of_plain_get
from frontier.urls.partition import QueueAddresses
from tests.chaos.aim import RARE, Aim, Tail, tail_of
from tests.chaos.durable import DurableStore
from tests.chaos.nodes import ROOT
from tests.chaos.oracle import Wrong, judge
from tests.chaos.plan import Event, Kind, Plan, StoreKind
from tests.chaos.several import DurableCluster
from tests.chaos.stage import LEASE, PARTITIONS
from tests.chaos.trial import CRAWL, Trial

SHARDS = 16
"""Parts of a host on a cluster, so that a page and its links are on two servers."""
BEFORE = 1.0
"""Seconds before the cut, for an answer whose ack may be forgotten."""
HELD = 4
"""Usual leases that a lease lasts here: one that ends while a node is stopped brings
its page back, whatever the node finds out."""
MORE = 5
"""URLs pushed beyond those that were forgotten: some are seen."""
FORGIVEN = (Wrong.OVERLAP, Wrong.HASTE)
"""A divided host is asked by several nodes at once."""


class AimedTrial(Trial):
    """Makes the cut of *aimed* happen to a crawl, once."""

    def __init__(self, aimed):
        event = Event(Kind.RESTART, aimed.at)
        super().__init__(Plan(aimed.seed, 3, (event,), aimed.store))
        self._aimed = aimed
        self._outcome.plan = aimed.lines()
        self._tail = Tail(frozenset(), {})
        self._struck = 0.0
        self._died = ""
        self._in_time = True
        """Whether the node went on while it still had what it pushed before."""

    def _settings(self, node_id):
        found = {**super()._settings(node_id), "FRONTIER_LEASE_TTL": HELD * LEASE}
        if self._aimed.journals:
            found["FRONTIER_JOURNAL_DIR"] = self._home / "journals"
        if isinstance(self._store, DurableCluster):
            found["FRONTIER_HOST_SHARDS"] = SHARDS
        return found

    def _restart(self, _):
        """Wait for the push; called when the share of the plan is served."""
        store = self._store
        assert isinstance(store, DurableStore | DurableCluster)

        def strike(name, wire):
            self._struck = time.time()
            node = self._named(name)
            if self._aimed.dies:
                self._died = name
                node.kill()
            else:
                node.freeze()
            store.kill(store.wires.index(wire))

        def size(wire):
            return store.file_before(wire).stat().st_size

        aim = Aim(size, strike, acked=self._aimed.acked)
        self._note("wait for a push")
        for wire in store.wires:
            wire.ear = aim
        self._when(aim.hit.is_set, lambda: self._cut_off(aim))

    def _named(self, name):
        return next(node for node in self._nodes if node.name == name)

    def _cut_off(self, aim):
        store = self._store
        assert isinstance(store, DurableStore | DurableCluster)
        for wire in store.wires:
            wire.ear = None
        if not aim.hit.is_set() or aim.wire is None:
            self._note("nobody has pushed anything that is rare")
            return
        node = self._named(aim.name)
        self._away += 1
        self._outcome.aimed += 1
        self._outcome.kills += self._aimed.dies
        path = store.file_before(aim.wire)
        with path.open("r+b") as file:
            file.seek(aim.cut)
            self._tail = tail_of(file.read())
            file.truncate(aim.cut)
        pick = store.wires.index(aim.wire)
        new = sum(self._tail.new.values())
        urls = len(self._tail.urls)
        self._note(f"server {pick} loses {urls} URLs of {node.name}, {new} marks")
        store.revive(pick)
        self._when(store.whole, lambda: self._go_on(node))

    def _go_on(self, node):
        self._away -= 1
        self._note("the store is back")
        if self._aimed.dies:
            self._cut_wires(node.name)
            self._start(node.node_id)
        pushing = self._push_as_much() if self._aimed.hides else None
        if pushing is None:
            self._in(0.0 if self._aimed.dies else LEASE / 2, lambda: self._end(node))
        else:
            self._when(lambda: pushing.poll() is not None, lambda: self._end(node))

    def _push_as_much(self):
        """Have new URLs pushed into the partitions that have forgotten some."""
        served = set(RequestLog.read(self._requests).fetched())
        wanted = {p: count + MORE for p, count in self._tail.new.items()}
        shards = SHARDS if isinstance(self._store, DurableCluster) else 1
        shape = {"FRONTIER_PARTITIONS": PARTITIONS, "FRONTIER_HOST_SHARDS": shards}
        places, chosen = QueueAddresses(Config.from_settings(shape)), []
        left = self._expected - served - self._tail.urls
        # Most are queued by now; of the rare ones few.
        for url in sorted(left, key=lambda url: (RARE.decode() not in url, url)):
            place = places.of(url, of_plain_get(url) or b"")
            partition = place.partition if place is not None else -1
            if wanted.get(partition, 0) > 0:
                wanted[partition] -= 1
                chosen.append(url)
        self._note(f"{len(chosen)} other URLs are pushed")
        words = [sys.executable, "-m", "frontier", "crawl", "seed", "-"]
        words += ["--crawl", CRAWL, "--redis-url", self._store.direct]
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=(self._home / "seed.log").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write("".join(f"{url}\n" for url in chosen))
        process.stdin.close()
        return process

    def _end(self, node):
        if not self._aimed.dies:
            stopped = time.time() - self._struck
            self._in_time = stopped < KEPT  # on a busy machine it may not be
            self._note(f"{node.name} goes on after {stopped:.1f} s")
            node.thaw()
        # It may have lost its leases while it was stopped, and before that its acks.
        since, until = self._struck - BEFORE, time.time() + LEASE
        self._forgotten += [(since, until, frozenset())] * 2

    def _conclude(self, facts):
        super()._conclude(facts)
        outcome = self._outcome
        kept = [(str(wrong), what) for wrong, what in judge(facts)]
        divided = self._aimed.store is StoreKind.CLUSTER
        outcome.faults = [
            fault for fault in kept if not (divided and fault[0] in FORGIVEN)
        ]
        # Nodes keep for `KEPT` seconds what they pushed, and log an error beyond.
        if not (self._aimed.safe and self._in_time):
            lost = [
                (wrong, what)
                for wrong, what in outcome.faults
                if wrong == Wrong.LOST
                or (wrong == Wrong.UNARCHIVED and self._is_forgotten(what, facts.log))
            ]
            early = "pages were not fetched"
            outcome.expected_losses = len(lost)
            outcome.faults = [
                fault
                for fault in outcome.faults
                if fault not in lost and early not in fault[1]
            ]

    def _is_forgotten(self, url, log):
        """Whether the store forgot *url*, and only who died then had fetched it."""
        nodes = {entry.node for entry in log.entries if entry.url == url}
        return url in self._tail.urls and nodes == {self._died}
