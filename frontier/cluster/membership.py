"""Membership: which nodes are alive, the ring that follows, and orders to nodes.

An order is what an operator wants of a node, from outside the crawl.

What always holds:

1.  There is one membership map, in the store, and all times in it are by the server's
    clock. Nodes have no opinion of their own about who is alive.
2.  A join, a leave, a death and a change of weight raise the epoch. Nodes that
    know the same epoch have the same ring.
3.  A node reads its order with a heartbeat. The first heartbeat of a process discards
    orders to an earlier process with its id.
4.  A process is on the map under a *name*: its node id, itself and a number. A node
    relies on being there until its *deadline*, `LIFE` of the time to live after it sent
    the last heartbeat that was answered, by its own clock. A name whose deadline has
    passed is never used again, whatever the map says, which may have forgotten that it
    was dropped: the process comes back under its next name.
5.  A name that was met on the map, in an unbroken sequence of heartbeats, and is no
    longer there, sends nothing. Any other that is not there sends nothing after a whole
    time to live: the map that a node knows is as old as its last heartbeat, and may
    have gone back (docs/decisions/leases.md).
6.  When a crawl has ended, a node leaves only if no other is on the map, or if one is
    that has sent a heartbeat since: that one knows of the end, and leaves later. So one
    of the live nodes finds itself to be the last, whoever was killed before.
7.  Whatever changes the map also notes it, in the same script, in a log of the last 500
    entries. A heartbeat that changes nothing notes nothing.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from typing import TYPE_CHECKING, Any

from frontier.cluster.crawls import STATES
from frontier.cluster.ring import Ring
from frontier.errors import CrawlLost, InUse, KeyDamaged, NodeReplaced, NotFound
from frontier.model import Member, frozen
from frontier.store.client import Argument, BlockingStore, Call
from frontier.store.damage import number_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from frontier.store.calls import Run
    from frontier.store.keys import CrawlKeys


LIFE = 0.8
"""The fraction of the time to live for which a node relies on its last heartbeat. The
rest is for what a copy of the map may lack unnoticed; see `sweeps.lua`."""
NO_NODE = "the crawl {} has no node {}"
DRAIN_S = 3600
"""Seconds after which an order to drain expires if the node has not read it."""
REMOVE_S = 60
"""Seconds for which a node that wakes up is told that it was removed."""


def drain(store: BlockingStore, keys: CrawlKeys, node_id: str) -> None:
    """Have *node_id* finish what it has started, hand everything over, and exit.

    Raises:
        NotFound: It is not a member of the crawl.
    """
    is_member = [(("HEXISTS", keys.nodes, node_id), 1)]
    wanted = ("SET", keys.order(node_id), "drain", "EX", DRAIN_S)
    if not store.call(Call.txn(is_member, [wanted])):
        raise NotFound(NO_NODE.format(keys.crawl_id, node_id))


USUAL_TTL_MS = 15_000
"""Milliseconds of silence after which a node is dead, if no node has beaten yet."""
MOST_TTL_MS = 3_600_000


def ttl_of(stored: bytes | None) -> int:
    """After how many milliseconds of silence a node is dead: ``ttl_ms`` of `meta`."""
    is_number = stored is not None and stored.isdigit() and len(stored) < 10
    found = int(stored or 0) if is_number else 0
    return min(found, MOST_TTL_MS) or USUAL_TTL_MS


def live_in(members: Mapping[bytes, bytes], now_ms: int) -> list[str]:
    """The ids of *members*, as on the map, that beat in their own lease time."""
    return sorted(
        name.decode("utf-8", "replace")
        for name, value in members.items()
        if abs(now_ms - number_in(value.partition(b" ")[0])) <= own_ttl_of(value)
    )


def own_ttl_of(value: bytes) -> int:
    """For how many milliseconds the node of *value*, on the map, may be silent.

    That is the setting of the node, not of who asks.
    """
    words = value[:100].split()
    return ttl_of(words[5] if len(words) == 6 else None)


def remove(
    store: BlockingStore,
    keys: CrawlKeys,
    node_id: str,
    *,
    partitions: int,
    force: bool,
) -> int:
    """Take *node_id* off the map and end its leases; return how many it had.

    A live node is removed only with *force*: it stops when its next heartbeat tells it,
    and until then two nodes may fetch from one of its hosts. What it had in flight is
    fetched again.

    Raises:
        NotFound: It is not a member of the crawl.
        InUse: It sent a heartbeat within its lease time.
    """
    names = [keys.nodes, keys.epoch, keys.hints(node_id), keys.order(node_id)]
    names.append(keys.membership)
    found = store.call(Call.to("node_remove", names, [node_id, int(force), REMOVE_S]))
    if found == 0:
        raise NotFound(NO_NODE.format(keys.crawl_id, node_id))
    if found == -1:
        raise InUse(
            f"the node {node_id} of the crawl {keys.crawl_id} is alive; drain it, "
            "or remove it with --force"
        )
    leases = [keys.partition(number).lease for number in range(partitions)]
    asked = [Call.command("HMGET", lease, "holder", "token") for lease in leases]
    calls = [
        Call.to("lease_release", [lease], [token])
        for lease, (holder, token) in zip(leases, store.run(asked), strict=True)
        if holder and holder.startswith(f"{node_id}/".encode())
    ]
    store.run(calls)
    return len(calls)


@frozen
class View:
    """The membership as of one heartbeat."""

    epoch: int
    state: str
    """The crawl's: ``open``, ``finished``, ``canceled`` or ``limit``."""
    members: tuple[Member, ...]
    order: str = ""
    """What an operator wants of this node: ``drain``, ``remove`` or nothing."""
    controls: str = ""
    """The version of what operators want of the crawl; empty if they want nothing."""
    now_ms: int = 0
    """By the clock of the server that has the map."""
    went_back: bool = False
    """Whether the map has forgotten this node's last heartbeat."""


@frozen
class Departure:
    """What a node learns as it leaves."""

    left: int
    """How many nodes are left on the map."""
    state: str
    """The crawl's; see `View`."""
    silent: tuple[str, ...] = ()
    """Nodes silent since the crawl ended; if there are any, the caller has not left."""


class Membership:
    """This node's place among the live nodes of a crawl."""

    def __init__(
        self,
        run: Run,
        keys: CrawlKeys,
        member: Member,
        partitions: int,
        *,
        ttl: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._keys = keys
        self._member = member
        self._partitions = partitions
        self._ttl = ttl
        self.life = LIFE * ttl
        """Seconds for which a node relies on its last heartbeat."""
        self._clock = clock
        self.epoch = -1
        """The epoch of the ring; -1 before the first beat."""
        self._known = -1
        """The epoch of the map as it was read; 0 if it is to be read again."""
        self._process = secrets.token_hex(4)
        self._number = 0
        self._began = self._beaten = -math.inf
        """When the first heartbeat of this name, and the last that was answered, were
        sent."""
        self._is_spent = True
        """Whether this name must not be used any more."""
        self._ended = -1
        """The number of the last name that was ended before its time."""
        self._at = 0
        """When the map had the last heartbeat of this name, by the server's clock."""
        self._names: set[str] = set()
        self._met: set[str] = set()
        """Names that are on the map, or were at any time since this name is."""
        self._missed: dict[str, float] = {}
        """Names that were not met, and since when they have been looked for."""
        self.stand_in: Callable[[], float] = lambda: -math.inf
        """When another process last sent a heartbeat in this one's place."""
        self.ring = Ring([], partitions)
        """Replaced, never changed, when the epoch does."""
        self._members: tuple[Member, ...] = ()
        self.said: tuple[float, list[str], list[Argument]] | None = None
        """When the last beat was sent, and keys and arguments of one that says the
        same, for another process to send in this one's place."""
        self.said_busy = False
        """Whether the last beat kept the crawl open."""
        self.leaving = False
        """Whether this node wants no partitions any more: its weight becomes 0."""
        self.away = self.hands_over = False
        """Whether it wants none for a time, and whether it leaves them to others."""

    @property
    def process(self) -> str:
        """What the names of this process begin with."""
        return f"{self._member.node_id}/{self._process}"

    @property
    def name(self) -> str:
        """The name that this process has on the map."""
        return f"{self.process}/{self._number}"

    @property
    def deadline(self) -> float:
        """Until when nobody takes this name for dead, on the monotonic clock."""
        if self._is_spent or self._ended == self._number:
            return -math.inf
        beaten = self._beaten
        if self._clock() >= beaten + self.life:
            stood_in = self.stand_in()
            # A heartbeat under an earlier name says nothing about this one.
            beaten = max(beaten, stood_in if stood_in >= self._began else beaten)
        return beaten + self.life

    @property
    def is_live(self) -> bool:
        """Whether nobody takes this name for dead."""
        now = self._clock()
        until = self._beaten + self.life
        is_usable = not self._is_spent and self._ended != self._number
        return is_usable and (now < until or now < self.deadline)

    def end_name(self) -> None:
        """Take another name with the next beat, and rely on nothing until then."""
        self._ended = self._number

    def is_own(self, holder: str) -> bool:
        """Whether *holder* is a name that this process has, or had."""
        return holder.rpartition("/")[0] == self.process

    def is_dead(self, holder: str) -> bool:
        """Whether the process that had the name *holder* sends nothing any more."""
        if holder in self._names or holder in self._met:
            return holder not in self._names
        since = self._missed.setdefault(holder, self._clock())
        return self._beaten >= since + self._ttl

    def _is_away(self) -> bool:
        """Whether this node leaves its partitions to others, until it is back.

        It begins to when another node takes partitions; until then it keeps its own.
        """
        me = self._member.node_id
        others = any(one.weight and one.node_id != me for one in self._members)
        self.hands_over = self.away and (self.hands_over or others)
        return self.hands_over

    async def beat(self, *, busy: bool, report: Mapping[str, Any] | None) -> View:
        """Say that this node is alive; swap the ring if the epoch has changed.

        *busy* keeps the crawl open: the node has work that is not in the store.

        Raises:
            CrawlLost: The crawl is not in the store any more.
            NodeReplaced: Another process now beats under this node's id.
            KeyDamaged: A key of the crawl cannot be read.
        """
        limit = self.deadline
        sent = self._clock()
        adds = sent >= limit
        if adds:
            self._take_name(sent)
        names, args = self._saying(busy=busy, report=report, adds=adds)
        (reply,) = await self._run([Call.to("node_beat", names, args)])
        if reply[0] == -2:
            raise NodeReplaced(self._keys.crawl_id, self._member.node_id)
        if reply[0] == -3:  # it was dropped, or its server has forgotten it
            self._is_spent = True
            return await self.beat(busy=busy, report=report)
        view = self._view(reply, adds=adds)
        # An answer that comes after the deadline may be from a map that has forgotten
        # that the name was dropped. A watchdog may have moved the deadline meanwhile.
        self._is_spent = not adds and self._clock() >= self.deadline
        self._beaten = sent
        self.said_busy = busy
        said_args = [*args[:5], max(self.epoch, 0), *args[6:9], 0]
        self.said = (sent, names, said_args)
        return view

    def _take_name(self, now: float) -> None:
        """Use another name from now on, and forget the names that were met before."""
        self._number += 1
        self._began = now
        self._at = 0
        self._met.clear()
        self._missed.clear()

    def _saying(
        self, *, busy: bool, report: Mapping[str, Any] | None, adds: bool
    ) -> tuple[list[str], list[Argument]]:
        """Keys and arguments of a heartbeat."""
        keys, node_id = self._keys, self._member.node_id
        names = [keys.nodes, keys.epoch, keys.reports, keys.meta]
        names += [keys.order(node_id), keys.membership, keys.former]
        args: list[Argument] = [
            node_id,
            0 if self.leaving or self._is_away() else self._member.weight,
            int(self._ttl * 1000),
            int(busy),
            json.dumps(report) if report is not None else "",
            min(self._known, 0) if adds else self._known,  # the whole map is read
            keys.born,
            self._process,
            self._number,
            int(adds),
        ]
        return names, args

    def _view(self, reply: list[Any], *, adds: bool) -> View:
        """The view in *reply*; the ring is replaced if the epoch has changed."""
        keys = self._keys
        if reply[0] == -1:
            raise CrawlLost(keys.crawl_id)
        epoch, state, order, controls, had, now, *members = reply
        if state not in STATES:
            raise KeyDamaged("", keys.meta, f"its state is {state[:40]!r}")
        is_there = not adds and order != b"remove"
        went_back = is_there and int(had) < self._at
        if went_back:
            self._met.clear()
            self._missed.clear()
        self._at = int(now)
        former = self._members
        if members:
            self._read_map(members)
        self._known = int(epoch) if members or not went_back else 0
        # A map that has lost its last writes counts the same epochs with other members.
        if int(epoch) != self.epoch or self._members != former:
            self.epoch = int(epoch)
            self.ring = Ring(self._members, self._partitions)
        return View(
            self.epoch,
            state.decode(),
            self._members,
            order.decode(),
            controls.decode("utf-8", "replace"),
            self._at,
            went_back,
        )

    def _read_map(self, told: Sequence[bytes]) -> None:
        """Learn who is on the map from *told*: ids, weights and names in turn."""
        members, self._names = [], set()
        for node_id, weight, name in zip(*[iter(told)] * 3, strict=True):
            if weight == b"-1":  # it was there until this heartbeat
                self._met.add(name.decode("utf-8", "replace"))
                continue
            self._names.add(name.decode("utf-8", "replace"))
            if node_id:
                members.append(Member(node_id.decode(), int(weight)))
        self._met |= self._names
        for name in self._names:
            self._missed.pop(name, None)
        self._members = tuple(members)

    @property
    def nodes(self) -> int:
        """How many nodes were alive at the last beat, including this one."""
        return len(self._members)

    @property
    def rank(self) -> int:
        """How many live nodes that take partitions come before this one, by name."""
        me = self._member.node_id
        return sum(member.node_id < me for member in self._members if member.weight)

    async def leave(self, report: Mapping[str, Any]) -> Departure:
        """Leave the map.

        It does not leave yet if the crawl has ended and every other node there has been
        silent since: they may be dead, and the last node has something to do. Call it
        again then.

        Raises:
            CrawlLost: The crawl is not in the store any more.
        """
        keys = self._keys
        node_id = self._member.node_id
        names = [keys.nodes, keys.epoch, keys.reports, keys.meta]
        names += [keys.order(node_id), keys.membership, keys.hints(node_id)]
        last = json.dumps({**report, "left": True})
        args: list[Argument] = [node_id, last, keys.born, self._process]
        args.append(int(self._ttl * 1000))
        (reply,) = await self._run([Call.to("node_leave", names, args)])
        if reply[0] < 0:
            raise CrawlLost(keys.crawl_id)
        left, state, *silent = reply
        self._is_spent = not silent
        return Departure(
            int(left),
            state.decode("utf-8", "replace"),
            tuple(each.decode("utf-8", "replace") for each in silent),
        )
