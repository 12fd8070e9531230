"""Where a plan happens: the store, the nodes, and what is to happen later.

`store_faults` and `trial` are what happens there.
"""

import heapq
import itertools
import os
import shutil
import time
from collections import Counter

import redis

from frontier.errors import StoreError
from tests.chaos.durable import DurableStore
from tests.chaos.outcome import Outcome
from tests.chaos.plan import StoreKind
from tests.chaos.several import DurableCluster, DurableService

VARIABLE = "CHAOS_LEASE"
"""Of the environment: how many seconds a lease lasts."""
LEASE = float(os.environ.get(VARIABLE, "2"))
"""Seconds; a machine that has more to do than these trials needs longer ones."""
PARTITIONS = 64
PATIENCE = 60.0
"""Seconds after which it is no longer waited for what should happen by itself."""
NO_ANSWER = (redis.RedisError, StoreError)
"""What says that a server is not there."""


class Stage:
    """A store and nodes, and actions that are due later, for one trial of *plan*."""

    def __init__(self, plan):
        self._plan = plan
        self._outcome = Outcome(plan.seed, plan.lines(), store=str(plan.store))
        self._nodes = []
        self._begin = time.monotonic()
        self._later = []
        self._serial = itertools.count()
        self._in_flight = Counter()
        self._away = 0
        """How many reasons there are for the store not to answer."""
        self._reserved_before = {}
        """What was reserved when the store went away, or just before."""
        self._hit_meanwhile = []
        """Nodes that something has happened to since then."""

    def _make_store(self, home):
        """The store of the plan, not started yet."""
        if self._plan.store is StoreKind.SINGLE:
            return DurableStore(home)
        binary = shutil.which("redis-server") if self._plan.redis else None
        if self._plan.redis and binary is None:
            self._note("there is no redis-server here: the servers are Valkey")
        if self._plan.store is StoreKind.CLUSTER:
            return DurableCluster(binary)
        return DurableService(binary, careful=self._plan.careful)

    def _served(self):
        """How many requests the site has answered."""
        if not self._requests.exists():
            return 0
        with self._requests.open("rb") as lines:
            return sum(1 for _ in lines)

    def _excuse(self, node_id):
        """What *node_id* has reserved now may be fetched once more."""
        reserved = self._reserved_before if self._away else self._witness.reserved()
        if self._away:
            self._hit_meanwhile.append(node_id)
        urls = reserved.get(node_id, [])
        self._note(f"{len(urls)} URLs are reserved by {node_id}")
        self._in_flight.update(urls)

    def _excuse_the_rest(self):
        """What was reserved after the last look at the store and before it was away."""
        reserved = self._witness.reserved() if self._hit_meanwhile else {}
        for node_id in self._hit_meanwhile:
            known = self._reserved_before.get(node_id, ())
            urls = set(reserved.get(node_id, ())).difference(known)
            self._note(f"{len(urls)} more were reserved by {node_id}")
            self._in_flight.update(urls)
        self._hit_meanwhile.clear()

    def _when_the_store_is_back(self, action):
        self._when(lambda: not self._away, action)

    def _when(
        self,
        condition,
        action,
        *,
        vital=True,
    ):
        """Do *action* as soon as *condition* holds; or when patience has ended."""
        limit = time.monotonic() + PATIENCE

        def look():
            if condition() or time.monotonic() > limit:
                action()
            else:
                self._in(0.05, look, vital=vital)

        look()

    def _in(self, seconds, action, *, vital=True):
        """Do *action* later; the trial does not end before, if that is *vital*."""
        due = time.monotonic() + seconds
        heapq.heappush(self._later, (due, next(self._serial), action, vital))

    @property
    def _is_due(self):
        return bool(self._later) and self._later[0][0] <= time.monotonic()

    @property
    def _is_awaited(self):
        """Whether something vital is to happen yet."""
        return any(vital for *_, vital in self._later)

    def _do_next(self):
        heapq.heappop(self._later)[2]()

    def _note(self, text):
        seconds = time.monotonic() - self._begin
        at = f"{seconds:6.2f} s, {self._served()} served"
        self._outcome.happened.append(f"{at}: {text}")
