"""The node's own way to the web: is one host dead, or does none answer?

A host that is dead is left alone, and given up in time (`frontier.node.hosts`). If
the uplink, the name server or the proxy of a node is dead, all hosts look dead, and
giving them up would empty the frontier. So each node judges its own uplink.

What always holds:

1.  A node doubts its uplink when most of the hosts that it asked in the last minute
    have failed, and none has answered since.
2.  While it doubts, only probes are sent, and what fails goes back to its queue
    uncounted. Hosts that have answered this node or another before are probed together
    with those that fail: if one answers, the others are dead hosts, and failures count
    for two intervals before the next doubt. They also count if the node knows fewer
    than `SEVERAL` hosts; but with a proxy one host is enough, as the failures may be
    the proxy's.
3.  If none answers, the node *pauses*: it logs that, forgives hosts what was counted
    since the last answer, gives its partitions to nodes that have not paused, and
    probes until a host answers. Then it goes on by itself.
4.  A probe asks for a robots.txt, and never asks a host that wants to be left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.errors import FrontierError
from frontier.node.context import Part, Target, happens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.node.node import Node

logger = logging.getLogger(__name__)

SEVERAL = 3
"""Failures without an answer before a node doubts its uplink, and hosts that it must
know of before it pauses."""
LATELY = 60.0
"""Seconds for which a host counts as asked lately."""
KEPT = 8
"""Hosts that have answered and are remembered for probes."""
ASKED = 3
"""Hosts of each kind that are probed at once."""


class Uplink(Part):
    """Judges one node's own way to the web."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._interval = node.config.uplink_probe
        self._asked: OrderedDict[str, float] = OrderedDict()
        """Hosts that had an outcome lately, and when; the latest last."""
        self._silent: dict[str, Target] = {}
        """Hosts that have failed since any host last answered."""
        self._silent_since = math.inf
        self._failures = 0
        """How many requests have failed since then."""
        self._good: OrderedDict[Target, None] = OrderedDict()
        """Hosts that have answered, the latest last."""
        self._trusted_until = -math.inf
        self._doubt = asyncio.Event()
        self._answer = asyncio.Event()
        self.waits = False
        """Whether only probes may be sent."""
        self.since: float | None = None
        """When the node paused, on the monotonic clock; ``None`` if it has not."""
        self.back_at = -math.inf
        """When it last went on after a pause, on the same clock."""

    @property
    def seconds(self) -> float:
        """For how long it has paused; 0 if it has not."""
        return 0.0 if self.since is None else time.monotonic() - self.since

    def answered(self, target: Target) -> None:
        """Note that a server has answered, whatever it said."""
        if not self._interval:
            return
        if self._silent:
            self._forget()
        self._note(target.origin, time.monotonic())
        self._good[target] = None
        self._good.move_to_end(target)
        if len(self._good) > KEPT:
            self._good.popitem(last=False)
        if self.waits:
            self._answer.set()

    def failed(self, target: Target) -> None:
        """Note that a request to *target* has ended without an answer."""
        if not self._interval:
            return
        now = time.monotonic()
        self._note(target.origin, now)
        self._silent_since = min(self._silent_since, now)
        self._failures += 1
        self._silent[target.origin] = target
        is_most = 2 * len(self._silent) >= len(self._asked)
        is_doubtful = is_most and self._failures >= SEVERAL
        if is_doubtful and not self.waits and now >= self._trusted_until:
            self.waits = True
            self._answer.clear()
            self._doubt.set()
            self._steer()

    def _note(self, origin: str, now: float) -> None:
        """Note that a request to *origin* has an outcome, and forget old ones."""
        asked = self._asked
        asked[origin] = now
        asked.move_to_end(origin)
        while next(iter(asked.values())) < now - LATELY:
            asked.popitem(last=False)

    @override
    def room(self) -> bool:
        """Whether requests other than probes may be sent."""
        return not self.waits

    @override
    def report(self) -> dict[str, Any]:
        """For how long it has paused."""
        return {"uplink_seconds": round(self.seconds, 1)}

    @override
    async def run(self) -> None:
        """Probe whenever there is doubt; if no host answers, pause until one does."""
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            silent = list(self._silent.values())
            good = await self._known_others(silent)
            hosts = len(silent) + len(good)
            can_judge = hosts >= SEVERAL or any(target.proxy for target in silent)
            if can_judge and not await self._is_up(silent, good):
                self._pause(len(silent))
                while not await self._is_up(silent, good):
                    # or until what is still on its way is answered
                    await happens(self._answer, self._interval)
            self._go_on()

    async def _known_others(self, silent: Sequence[Target]) -> list[Target]:
        """Hosts that have answered before, and are not among the *silent* ones."""
        found = {target.origin: target for target in reversed(self._good)}
        with contextlib.suppress(FrontierError):  # the store may not say
            for origin in await self._node.fetched.origins():
                found.setdefault(origin, Target(origin))
        for target in silent:
            found.pop(target.origin, None)
        return list(found.values())

    async def _is_up(self, silent: Sequence[Target], good: Sequence[Target]) -> bool:
        """Whether any of a few of these hosts, chosen at random, answers."""
        if self._answer.is_set():
            return True
        asked = random.sample(good, min(ASKED, len(good)))
        asked += random.sample(silent, min(ASKED, len(silent)))
        # Probes that take longer than the first answer end by themselves.
        for answer in asyncio.as_completed(
            [self._node.owner.probe(target) for target in asked]
        ):
            if await answer:
                return True
        return self._answer.is_set()

    def _pause(self, hosts: int) -> None:
        self.since = time.monotonic()
        logger.warning(
            "no host answers: neither the last %d that were asked, nor any that "
            "answered before. The uplink of this node, its name server or its proxy "
            "may be down. The node pauses, asks some of them again every %g s "
            "(FRONTIER_UPLINK_PROBE), and goes on by itself when one answers",
            hosts,
            self._interval,
        )
        self._node.hosts.forgive(self._silent_since)
        self._steer()

    def _go_on(self) -> None:
        now = time.monotonic()
        if self.since is not None:
            logger.warning(
                "hosts answer again: this node goes on after a pause of %.0f s",
                now - self.since,
            )
            self.back_at = now
        self.waits, self.since = False, None
        self._trusted_until = now + 2 * self._interval
        self._forget()
        self._answer.clear()
        self._steer()

    def _steer(self) -> None:
        """Start nothing while no host answers, and leave the crawl to other nodes."""
        self._node.membership.away = self.since is not None
        self._node.heartbeat.hurry()
        self._node.parts.call(Part.steered)

    def _forget(self) -> None:
        """Forget all failures."""
        self._silent.clear()
        self._silent_since, self._failures = math.inf, 0
