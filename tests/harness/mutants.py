"""Faults that nodes once had, or that a part of them prevents, put back one at a time.

Each takes the simulator's `Engine`, and changes this process for good.
"""

from frontier.node.failover import Failover
from frontier.node.heartbeat import Heartbeat
from frontier.node.inbox import Inbox


def given_up_while_started(engine):
    """A partition was released with a request that had just been started in it."""

    async def hand_over(self, partitions):
        fresh = partitions - self._inbox.handing_over
        self._inbox.handing_over |= partitions
        if fresh:
            await self._inbox.give_back(fresh)
        done = partitions - self._inbox.busy_partitions()
        if done and self._before_release is not None:
            await self._before_release()
        await self._leases.release(done)

    Heartbeat._hand_over = hand_over


def written_after_a_thaw(engine):
    """A request was written after its lease had ended in a freeze."""
    engine.last_look = False


def stays_unserved(engine):
    """What was handed over, and stayed after all, was looked at by nobody."""
    take_over = Heartbeat._take_over

    async def forgetful(self, acquired, staying=()):
        await take_over(self, acquired)

    Heartbeat._take_over = forgetful


def never_recovers(engine):
    """What a lost reply had reserved stayed reserved."""

    async def recover(self):
        self._unsure.clear()

    Inbox._recover = recover


def never_reclaims(engine):
    """What a dead node had reserved was put back by nobody."""

    async def reclaim(self, taken):
        pass

    Heartbeat._reclaim = reclaim


def never_compares(engine):
    """A server that had forgotten its last writes was taken for the same."""

    async def examine(self):
        pass

    Failover.examine = examine


MUTANTS = {
    made.__name__: made
    for made in (
        given_up_while_started,
        written_after_a_thaw,
        stays_unserved,
        never_recovers,
        never_reclaims,
        never_compares,
    )
}
