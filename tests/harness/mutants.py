"""Faults that nodes once had, or that a part of them prevents, put back one at a time.

Each takes the simulator's `Engine`, and changes this process for good.
"""

import math
from types import SimpleNamespace
from unittest.mock import patch

from frontier.cluster import crawls
from frontier.cluster.membership import Membership
from frontier.node import outbox, reclaim
from frontier.node.context import Part
from frontier.node.deliveries import Deliveries
from frontier.node.heartbeat import Heartbeat
from frontier.node.inbox import Inbox
from frontier.node.node import Node
from frontier.node.ready_queues import ReadyQueues
from frontier.node.reclaim import Reclaim
from frontier.store import cluster_router
from frontier.store.client import Store
from frontier.store.scripts import SCRIPTS
from frontier.watchdog.process import Watch
from tests.harness.virtual import rewrite


def _rewrite(script, old, new):
    """Have *script* do *new* instead of *old*."""
    assert old in script.source
    rewrite(script, old, new)
    cluster_router.LOADING = tuple(("SCRIPT LOAD", s.source) for s in SCRIPTS.values())


def given_up_while_started(engine):
    """A partition was released with a request that had just been started in it."""

    async def hand_over(self, partitions):
        fresh = partitions - self._ready.handing_over
        self._ready.handing_over |= partitions
        if fresh:
            await self._inbox.give_back(fresh)
        done = partitions - self._inbox.busy_partitions()
        await self._node.parts.wait(Part.leaving)
        await self._leases.release(done)

    Heartbeat._hand_over = hand_over


def written_after_a_thaw(engine):
    """A request was written after its lease had ended in a freeze."""
    engine.last_look = False


def stays_unserved(engine):
    """What was handed over, and stayed after all, was looked at by nobody."""
    take_over, knows, stayed = Heartbeat._take_over, ReadyQueues.knows, {}

    async def forgetful(self, acquired, staying=()):
        left = stayed.get(self._ready, set()) | set(staying)
        stayed[self._ready] = left - {taken.lease.partition for taken in acquired}
        await take_over(self, acquired)

    def unasked(self, partition):
        return partition in stayed.get(self, ()) or knows(self, partition)

    Heartbeat._take_over, ReadyQueues.knows = forgetful, unasked


def never_recovers(engine):
    """What a lost reply had reserved stayed reserved."""
    put_back = Reclaim.put_back

    async def some(self, leases):
        await put_back(self, {one: leases[one] for one in leases if leases[one]})

    Reclaim.put_back = some


def never_starts_over(engine):
    """A server that had forgotten its last writes was taken for the same."""

    Node.start_over = lambda self, servers=None: None


def hands_over_what_is_started(engine):
    """A partition was released while a request of it was on the wire."""
    Inbox.busy_partitions = lambda self: set()


def waits_for_what_is_kept(engine):
    """A partition was not handed over before what it had led to was done."""
    busy = Inbox.busy_partitions
    Inbox.busy_partitions = lambda self: (
        busy(self) | {p for p, _ in self._node.deliveries.kept}
    )


def adopts_what_it_has(engine):
    """All that a tree has claimed was new to it, also what was under way."""
    Deliveries._has = lambda self, delivery: False


def acks_before_what_it_adopts(engine):
    """A page was acked before what it had adopted was done with."""

    def through(self, reservation):
        self._acks.complete(reservation)

    Deliveries.through = through


def counts_what_is_kept(engine):
    """What a dead node had kept counted as delivered, whatever ended the node."""
    weighed = reclaim.weighed

    def counted(partition, entries, started, former, notes):
        kept = [b"%d" % entry.id for entry in entries if entry.keeper]
        bare = [entry._replace(keeper="") for entry in entries]
        return weighed(partition, bare, [*started, *kept], former, notes)

    reclaim.weighed = counted


def acks_before_its_links(engine):
    """A page was acked before its links were stored."""

    async def flush(self):
        pass

    outbox.Outbox.flush = flush


def claims_for_what_is_lost(engine):
    """After a restart of the server pages that were lost claimed what they had had."""
    outbox.Outbox._without_lost = lambda self, batches: batches


def keeps_nothing(engine):
    """What a failover had forgotten was not pushed again."""
    outbox.MAX_KEPT = 0


def keeps_for_a_moment(engine):
    """What was pushed to a cluster was kept for 5 s."""
    outbox.KEPT_BY_CLUSTER = outbox.KEPT


def keeps_whatever_the_server(engine):
    """What one server of a cluster was pushed was let go as others stored more."""
    keep = outbox.Outbox._keep

    def kept(self, *pushed):
        with patch.object(Store, "server_of", lambda self, key: None):
            keep(self, *pushed)

    outbox.Outbox._keep = kept


def takes_without_comparing(engine):
    """A call that was late took a lease which was another than it had been."""
    _rewrite(
        SCRIPTS["lease_acquire"],
        "if token ~= ARGV[4] or holder ~= ARGV[3] then",
        "if false then",
    )


def drops_after_an_outage(engine):
    """After an outage the first node that beat took all others for dead."""
    _rewrite(SCRIPTS["node_beat"], " and resumed < now - ttl", "")


def lets_in_its_double(engine):
    """A process whose node id another has taken went on."""
    _rewrite(SCRIPTS["node_beat"], "process and not is_same then", "false then")


def marks_crawls_alike(engine):
    """A crawl could not be told from an earlier one of its name."""
    crawls.secrets = SimpleNamespace(token_hex=lambda count: "0" * count)


def takes_from_whom_it_never_met(engine):
    """Who is not on the map was dead, though a node may have an older map."""
    Membership.is_dead = lambda self, holder: holder not in self._names


def counts_on_for_ever(engine):
    """A node counted on its leases however long ago its last heartbeat was.

    It would give them up if it saw that the server went back.
    """
    never_starts_over(engine)
    Membership.deadline = property(
        lambda self: -math.inf if self._is_spent else math.inf
    )


def takes_what_was_emptied(engine):
    """A partition whose contents were lost was taken like a new one."""
    _rewrite(SCRIPTS["lease_acquire"], "if born ~= ARGV[2] then", "if false then")


def never_stands_in(engine):
    """A watchdog sent no heartbeat for a node that computes."""
    Watch._beat = lambda self: True


def adds_up_callbacks(engine):
    """A page was given up for the time that callbacks before its own had taken."""
    Watch._busy = property(lambda self: self._silent, lambda self, seconds: None)


MUTANTS = {
    made.__name__: made
    for made in (
        given_up_while_started,
        written_after_a_thaw,
        stays_unserved,
        never_recovers,
        never_starts_over,
        hands_over_what_is_started,
        acks_before_its_links,
        waits_for_what_is_kept,
        adopts_what_it_has,
        acks_before_what_it_adopts,
        counts_what_is_kept,
        claims_for_what_is_lost,
        keeps_nothing,
        keeps_for_a_moment,
        keeps_whatever_the_server,
        takes_without_comparing,
        drops_after_an_outage,
        lets_in_its_double,
        marks_crawls_alike,
        takes_from_whom_it_never_met,
        counts_on_for_ever,
        takes_what_was_emptied,
        never_stands_in,
        adds_up_callbacks,
    )
}
