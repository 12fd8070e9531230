"""Membership: which nodes are alive, and the ring that follows from it.

What always holds:

1.  There is one membership map, in the store, and only the server's clock is
    in it. Nodes have no opinion of their own about who is alive.
2.  A join, a leave, a death and a change of weight raise the epoch. Nodes that
    know the same epoch have the same ring.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.cluster.crawls import STATES
from frontier.cluster.ring import Ring
from frontier.errors import CrawlLost, KeyDamaged, NodeReplaced
from frontier.model import Member
from frontier.store.client import Argument, Call
from frontier.store.scripts import NODE_BEAT, NODE_LEAVE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from frontier.store.keys import CrawlKeys

    Run = Callable[[Sequence[Call]], Awaitable[list[Any]]]


@dataclass(frozen=True, slots=True)
class View:
    """The membership as of one heartbeat."""

    epoch: int
    state: str
    """Of it: ``open``, ``finished``, ``incomplete``, ``canceled`` or ``limit``."""
    members: tuple[Member, ...]
    order: str = ""
    """What an operator wants of this node: ``drain``, ``remove`` or nothing."""


class Membership:
    """This node's place among the live nodes of a crawl."""

    def __init__(
        self, run: Run, keys: CrawlKeys, member: Member, partitions: int, *, ttl: float
    ) -> None:
        self._run = run
        self._keys = keys
        self._member = member
        self._partitions = partitions
        self._ttl_ms = int(ttl * 1000)
        self._epoch = -1
        self._process = secrets.token_hex(4)
        self.ring = Ring([], partitions)
        """Replaced, never changed, when the epoch does."""
        self._members: tuple[Member, ...] = ()
        self.said: tuple[list[str], list[Argument]] | None = None
        """Keys and arguments of a beat that says what the last one said, to be sent by
        another process in this one's place."""
        self.leaving = False
        """Whether this node wants no partitions any more: its weight becomes 0."""

    async def beat(self, *, busy: bool, report: Mapping[str, Any] | None) -> View:
        """Say that this node lives; swap the ring if the epoch has changed.

        *busy* keeps the crawl open: the node has work that is not in the store.

        Raises:
            CrawlLost: The crawl is not in the store any more.
            NodeReplaced: Another process beats under this node's id by now.
            KeyDamaged: A key of the crawl cannot be read.
        """
        keys = self._keys
        node_id = self._member.node_id
        names = [keys.nodes(), keys.epoch(), keys.reports(), keys.meta()]
        names.append(keys.order(node_id))
        args: list[Argument] = [
            node_id,
            0 if self.leaving else self._member.weight,
            self._ttl_ms,
            int(busy),
            json.dumps(report) if report is not None else "",
            self._epoch,
            keys.born,
            self._process,
        ]
        (reply,) = await self._run([Call.to(NODE_BEAT, names, args)])
        if reply[0] == -1:
            raise CrawlLost(keys.crawl_id)
        if reply[0] == -2:
            raise NodeReplaced(keys.crawl_id, node_id)
        epoch, state, order, *pairs = reply
        if state not in STATES:
            raise KeyDamaged("", keys.meta(), f"its state is {state[:40]!r}")
        if int(epoch) != self._epoch:
            members = (
                Member(pairs[i].decode(), int(pairs[i + 1]))
                for i in range(0, len(pairs), 2)
            )
            self._members = tuple(members)
            self.ring = Ring(self._members, self._partitions)
            self._epoch = int(epoch)
        self.said = (names, [*args[:5], self._epoch, *args[6:]])
        return View(self._epoch, state.decode(), self._members, order.decode())

    @property
    def nodes(self) -> int:
        """How many were alive at the last beat, this one included."""
        return len(self._members)

    @property
    def rank(self) -> int:
        """How many live nodes that take partitions come before this one, by name."""
        me = self._member.node_id
        return sum(member.node_id < me for member in self._members if member.weight)

    async def leave(self, report: Mapping[str, Any]) -> int:
        """Leave the map; return how many nodes are left.

        Raises:
            CrawlLost: The crawl is not in the store any more.
        """
        keys = self._keys
        node_id = self._member.node_id
        names = [keys.nodes(), keys.epoch(), keys.reports(), keys.hints(node_id)]
        names += [keys.order(node_id), keys.meta()]
        last = json.dumps({**report, "left": True})
        args = [node_id, last, keys.born, self._process]
        (left,) = await self._run([Call.to(NODE_LEAVE, names, args)])
        if left < 0:
            raise CrawlLost(keys.crawl_id)
        return int(left)
