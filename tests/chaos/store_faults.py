"""What happens to the store, and to the way there."""

import itertools
import signal
import time
from collections import deque

from tests.chaos.plan import Way
from tests.chaos.several import DurableCluster, DurableService
from tests.chaos.stage import NO_ANSWER, Stage

EXTRA_DELAY = 0.1
"""Seconds by which a slow wire makes bytes late, in each direction."""
BEHIND = 0.5
"""Seconds for which a replica falls behind before its primary fails."""
UNACKED = 0.25
"""Seconds that it takes from the end of an answer to its ack on the replica."""
UNWATCHED = 2.0
"""Seconds that Sentinel takes from the last answer of a primary to its end."""
NOTICED = 2.0
"""Seconds after a promotion by which all nodes have left a primary that lives on."""


class StoreFaults(Stage):
    """Has a method for each kind of event that is not a node's."""

    def __init__(self, plan):
        super().__init__(plan)
        self._forgotten = []
        """Faults injected into the store: from when to when what was fetched may
        have been in flight, in seconds of the epoch; and what was reserved then."""
        self._asked = 0.0
        self._lately = deque(maxlen=100)
        """What was reserved when, where a replica may be behind."""

    def _sample(self):
        """See what is reserved, and whether Sentinel did what nobody asked it to."""
        store = self._store
        if self._away or not isinstance(store, DurableService):
            return
        now = time.monotonic()
        if now - self._asked > 0.2:
            self._asked = now
            if store.promoted():
                self._note("Sentinel took the primary for dead: the machine is busy")
                self._note_failover(time.time() - UNWATCHED, NOTICED)
                return
        urls = itertools.chain(*self._witness.reserved().values())
        self._lately.append((time.time(), frozenset(urls)))

    def _restart(self, event):
        if not self._lose_the_store():
            return
        self._note(f"kill the store for {event.seconds:.2f} s")
        self._store.kill(event.pick)

        def start():
            self._store.revive(event.pick)
            self._when(self._store.whole, go_on)

        def go_on():
            # Meanwhile other servers of a cluster gave out URLs, in flight as well:
            # acks wait for the links, and these for the server.
            self._note_fault()
            self._regain_the_store()

        self._in(event.seconds, start)

    def _pause(self, event):
        if not self._lose_the_store():
            return
        self._note(f"pause the store for {event.seconds:.2f} s")
        self._store.signal(signal.SIGSTOP, event.pick)
        self._note_fault()

        def resume():
            self._store.signal(signal.SIGCONT, event.pick)
            self._when(self._store.whole, self._regain_the_store)

        self._in(event.seconds, resume)

    def _slow(self, event):
        self._note(f"slow wire for {event.seconds:.2f} s")
        self._slow_down(EXTRA_DELAY)

        def restore():
            self._note("the wire is quick again")
            self._slow_down(0.0)

        self._in(event.seconds, restore)

    def _cut(self, _):
        self._note("cut all connections")
        self._cut_wires()

    def _migrate(self, event):
        store = self._store
        assert isinstance(store, DurableCluster)
        tags = self._witness.tags
        first = event.pick * len(tags) // 12
        self._note(f"move slots for {event.seconds:.2f} s, {event.gap:.2f} s each")
        store.migrate(tags[first:] + tags[:first], event.seconds, event.gap)

        def look():
            self._note(f"{store.moved} slots with {store.keys_moved} keys are moved")

        self._in(event.seconds, look)

    def _failover(self, event):
        store = self._store
        assert isinstance(store, DurableService)
        if not store.whole():
            self._note("there is no replica that could be promoted")
        elif event.gap:
            store.fall_behind(event.gap)
            self._in(BEHIND, lambda: self._fail(store, event))
        else:
            self._fail(store, event)

    def _fail(self, store, event):
        assert event.way is not None
        if not self._lose_the_store():
            return
        failed = time.time() - event.gap
        self._note(f"the primary fails by {event.way}, {event.gap:.2f} s ahead")
        store.fail(event.way)
        begin = time.monotonic()

        def go_on():
            seconds = time.monotonic() - begin
            self._note(f"the replica is promoted after {seconds:.2f} s")
            lives = event.way is not Way.KILL
            self._note_failover(failed, NOTICED if lives else 0.0)
            self._regain_the_store()
            self._in(event.seconds, come_back)

        def come_back():
            self._note("the old primary is there")
            store.come_back()
            self._when(
                store.whole, lambda: self._note("it follows the new one"), vital=False
            )

        self._when(store.promoted, go_on)

    # What they have in common.

    def _slow_down(self, seconds):
        for wire in self._store.wires:
            wire.delay = seconds

    def _cut_wires(self, name=""):
        for wire in self._store.wires:
            wire.cut(name)

    def _lose_the_store(self):
        """Remember what is reserved; whether the store was there."""
        if self._away:
            self._note("the store is away already")
            return False
        self._store.hold()
        self._looked = time.time()
        self._reserved_before = self._witness.reserved()
        self._in_flight.update(itertools.chain(*self._reserved_before.values()))
        self._away += 1
        return True

    def _note_failover(self, failed, lasts):
        """Acks may be lost of what was not acked at *failed*, and until *lasts* s."""
        since = failed - UNACKED
        before = frozenset().union(*(u for at, u in self._lately if at >= since))
        reserved = frozenset[str]()
        if self._away:
            reserved = frozenset(itertools.chain(*self._reserved_before.values()))
        self._in_flight.update(before - reserved)  # the others are excused already
        self._forgotten.append((since, time.time() + lasts, reserved | before))

    def _note_fault(self):
        """What was fetched since the store was looked at was in flight as well."""
        reserved = frozenset(itertools.chain(*self._reserved_before.values()))
        self._forgotten.append((self._looked, time.time(), reserved))

    def _regain_the_store(self):
        self._away -= 1
        self._store.release()
        self._note("the store is back")
        if not self._away:
            try:
                self._excuse_the_rest()
            except NO_ANSWER as error:
                self._note(f"the store does not answer: {error}")

    def _excuse_forgotten(self, log):
        """What was in flight at a fault of the store may be fetched once more.

        And what was done, but not copied at a failover. What was reserved is excused
        already.
        """
        for since, until, reserved in self._forgotten:
            late = {e.url for e in log.entries if e.end >= since and e.start <= until}
            self._in_flight.update(late - reserved)
