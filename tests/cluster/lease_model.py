"""The leases of the second design as a model, all of whose ways are tried.

Two nodes, one partition. The rules are those of sections 2 and 3 of the protocol: the
map of members and the lease lie on servers of their own, a lease has no expiry, and is
taken by comparing what it was. What can go wrong is a step like any other: a node
stands still or dies, a call is executed late or twice, its reply is lost, a server is
replaced by a copy that lacks the last writes.

Time is in one assumption: **a name leaves the map by silence only when the node under
that name counts itself as silent**, as its deadline is 0.8 of the time after which it
is dropped, and counts from before its beat was sent.

What is tried is what `steps` yields, from `START`, until nothing new is found. States
from which the same can happen are one: what nobody can see any more is left out
(`tidy`), and which of the nodes is the first (`one_of_two`).

    python -m tests.cluster.lease_model   all ways of three calls: two minutes
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = tuple[int, int]
"""A node and the number of its incarnation: never used again."""
NAMES = 2
"""Incarnations that a node may have."""


class Lease(NamedTuple):
    """What a partition's server has of its lease."""

    holder: Name | None = None
    token: int = 0


class Acquire(NamedTuple):
    """A call that takes the lease, if it is as *seen*."""

    name: Name
    seen: Lease
    keeps: bool = False
    """Whether the token stays: only the name of the same holder is another."""
    is_awaited: bool = True
    """Whether its node waits for the reply: to one call at a time."""


class Release(NamedTuple):
    """A call that gives the lease of *token* back."""

    token: int


class Reply(NamedTuple):
    """What became of the call that node *place* waits for: the lease as it is now."""

    place: int
    lease: Lease
    is_granted: bool


class Node(NamedTuple):
    """What a process knows."""

    name: Name
    is_there: bool = True
    """Whether it has not died."""
    is_live: bool = True
    """Whether its deadline has not passed."""
    lease: Lease | None = None
    """What it was granted, under the name that it had."""
    seen: Lease = Lease()
    """The lease as a reply has told it last."""
    members: frozenset[Name] = frozenset()
    """The map as of its last beat."""
    met: frozenset[Name] = frozenset()
    """Names that it has seen on the map, since its server went back."""
    asks: bool = False
    """Whether it waits for a reply."""
    is_ahead: bool = False
    """Whether the copy of the map's server lacks its last beat."""

    @property
    def covers(self) -> bool:
        """Whether it may send a request now."""
        lease = self.lease
        return (
            self.is_there
            and self.is_live
            and lease is not None
            and lease.holder == self.name
        )


class State(NamedTuple):
    """Both nodes, both servers with a copy of each, and what is under way."""

    nodes: tuple[Node, Node]
    members: frozenset[Name]
    members_copy: frozenset[Name]
    lease: Lease = Lease()
    lease_copy: Lease = Lease()
    next_token: int = 1
    """Greater than all before, also after a server went back: it is of its clock."""
    calls: int = 0
    """Calls of `acquire` so far."""
    under_way: frozenset[Acquire | Release | Reply] = frozenset()
    is_replaced: bool = False
    """Whether a server was, by its copy. One of them is, once."""


class Rules(NamedTuple):
    """Rules that can be left out, to see what each of them is for."""

    renames: bool = True
    """A node whose deadline has passed takes a new name."""
    waits: bool = True
    """A node that has not met a holder takes its lease only after a whole time to live:
    its name may be missing on a map that went back."""
    forgets: bool = True
    """Nodes forget their leases as soon as the lease's server went back."""
    calls: int = 3
    """Calls of `acquire` that are made in all."""
    replaced: str = ""
    """Whose server may be replaced by its copy, once: of the `map`, or the `lease`."""


ALL = Rules()
NOBODY: frozenset[Name] = frozenset()
FIRST: tuple[Name, Name] = ((0, 1), (1, 1))
START = State(
    (
        Node(FIRST[0], members=frozenset({FIRST[1]}), met=frozenset({FIRST[1]})),
        Node(FIRST[1], members=frozenset({FIRST[0]}), met=frozenset({FIRST[0]})),
    ),
    frozenset(FIRST),
    frozenset(FIRST),
)


def tidy(state: State, rules: Rules) -> State:
    """*state* without what changes nothing any more, so that fewer states differ.

    Tokens only grow, but for one replacement by the copy. A reply is for who waits for
    it. A name that no lease has and no call asks for, and that is no process's, is
    never again that of a holder: whether it is on a map says nothing.
    """
    lowest = state.lease.token
    if not state.is_replaced and rules.replaced == "lease":
        lowest = min(lowest, state.lease_copy.token)
    nodes = [_without_a_past(node, rules) for node in state.nodes]
    under_way = set()
    for message in state.under_way:
        if isinstance(message, Reply):
            if nodes[message.place].asks:
                under_way.add(message)
        elif isinstance(message, Release):
            if message.token >= lowest:
                under_way.add(message)
        elif message.is_awaited and nodes[message.name[0]].asks:
            under_way.add(message)
        elif message.seen.token >= lowest:
            under_way.add(message._replace(is_awaited=False))
    holders = {state.lease.holder, state.lease_copy.holder}
    for node in nodes:
        holders |= {node.seen.holder, node.lease and node.lease.holder}
        holders.add(node.name if node.is_there else None)
    for message in under_way:
        if isinstance(message, Acquire):
            holders |= {message.name, message.seen.holder}
        elif isinstance(message, Reply):
            holders.add(message.lease.holder)
    one, two = (
        node._replace(members=node.members & holders, met=node.met & holders)
        for node in nodes
    )
    return state._replace(
        nodes=(one, two),
        members=state.members & holders,
        members_copy=state.members_copy & holders,
        under_way=frozenset(under_way),
    )


def _without_a_past(node: Node, rules: Rules) -> Node:
    """What a dead process knew is gone; one without names left is as dead.

    One that stands still will read the map anew.
    """
    is_over = not node.is_live and node.name[1] == NAMES
    if not node.is_there or is_over:
        return Node(node.name, is_there=False, is_live=False)
    if not node.is_live and rules.renames:
        return node._replace(members=NOBODY, met=NOBODY)
    return node


def is_wrong(state: State) -> bool:
    """Whether two nodes may send requests to a host of the partition."""
    return all(node.covers for node in state.nodes)


def steps(state: State, rules: Rules = ALL) -> Iterator[tuple[str, State]]:
    """All that can happen next, by name."""
    for place in (0, 1):
        for what, after in _of_node(state, place, rules):
            yield f"{what} {place}", after
    for message in state.under_way:
        for what, after in _of_message(state, message):
            yield f"{what} {message}", after
    yield from _of_servers(state, rules)


def _with(state: State, place: int, node: Node, **changes: object) -> State:
    nodes = (node, state.nodes[1]) if place == 0 else (state.nodes[0], node)
    return state._replace(nodes=nodes, **changes)


def _of_node(state: State, place: int, rules: Rules) -> Iterator[tuple[str, State]]:
    node = state.nodes[place]
    if not node.is_there or not node.is_live:
        if rules.renames or not node.is_there:
            yield from _come_back(state, place)
        else:
            yield "wake", _with(state, place, node._replace(is_live=True))
        return
    yield "stand still", _with(state, place, node._replace(is_live=False))
    yield "die", _with(state, place, node._replace(is_there=False))
    if node.name in state.members:
        met = frozenset() if node.is_ahead and state.is_replaced else node.met
        others = _others(state.members, node)
        is_ahead = rules.replaced == "map" and not state.is_replaced
        beaten = node._replace(members=others, met=met | others, is_ahead=is_ahead)
        yield "beat", _with(state, place, beaten)
    if node.asks:
        yield "give up a reply", _with(state, place, node._replace(asks=False))
    elif state.calls < rules.calls:
        yield from _ask(state, place, rules)
    if node.covers and node.lease is not None:
        under_way = state.under_way | {Release(node.lease.token)}
        gone = node._replace(lease=None)
        yield "release", _with(state, place, gone, under_way=under_way)


def _come_back(state: State, place: int) -> Iterator[tuple[str, State]]:
    """Under a new name, which replaces what the same process had."""
    node = state.nodes[place]
    node_id, number = node.name
    if number == NAMES:
        return
    name = (node_id, number + 1)
    members = state.members | {name}
    if node.is_there:
        members -= {node.name}
        back = node._replace(name=name, is_live=True, asks=False)
    else:
        back = Node(name)
    others = _others(members, back)
    back = back._replace(members=others, met=others)  # the map may have gone back
    yield "come back", _with(state, place, back, members=members)


def _others(members: frozenset[Name], node: Node) -> frozenset[Name]:
    """Names of the other node, which are all that a node has to know."""
    return frozenset(name for name in members if name[0] != node.name[0])


def _ask(state: State, place: int, rules: Rules) -> Iterator[tuple[str, State]]:
    node = state.nodes[place]
    seen, keeps = node.seen, False
    if node.lease is not None:
        if node.covers:
            return
        seen, keeps = node.lease, True
    elif not _may_take(state, node, seen.holder, rules):
        return
    under_way = state.under_way | {Acquire(node.name, seen, keeps)}
    asking, calls = node._replace(asks=True), state.calls + 1
    yield "ask", _with(state, place, asking, calls=calls, under_way=under_way)


def _may_take(state: State, node: Node, holder: Name | None, rules: Rules) -> bool:
    if holder is None or holder == node.name:
        return True
    if holder in node.members:
        return False
    if holder in node.met or not rules.waits:
        return True
    # It waits for a whole time to live. A node under that name that cannot beat, as the
    # map lacks it, counts itself as silent by then.
    other = state.nodes[holder[0]]
    return not (other.is_there and other.is_live and other.name == holder)


def _of_message(
    state: State, message: Acquire | Release | Reply
) -> Iterator[tuple[str, State]]:
    """It arrives, and may do so again. One that is lost is one that stays under way."""
    lease = state.lease
    if isinstance(message, Release):
        if lease.token == message.token:
            yield "execute", state._replace(lease=lease._replace(holder=None))
    elif isinstance(message, Acquire):
        is_granted, next_token = lease == message.seen, state.next_token
        if is_granted:
            token = lease.token if message.keeps else next_token
            lease, next_token = Lease(message.name, token), next_token + 1
        under_way = state.under_way
        if message.is_awaited:
            place = message.name[0]
            others = (one for one in under_way if not _answers(one, place))
            under_way = frozenset({*others, Reply(place, lease, is_granted)})
        yield (
            "execute",
            state._replace(lease=lease, next_token=next_token, under_way=under_way),
        )
    else:
        told = _told(state.nodes[message.place], message)
        yield "hear", _with(state, message.place, told)


def _answers(one: Acquire | Release | Reply, place: int) -> bool:
    return isinstance(one, Reply) and one.place == place


def _told(node: Node, reply: Reply) -> Node:
    told = node._replace(asks=False, seen=reply.lease)
    if reply.is_granted:
        return told._replace(lease=reply.lease)
    return told._replace(lease=None)  # what it had is another's, or has a new token


def _of_servers(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    for name in state.members:
        node = state.nodes[name[0]]
        if node.name != name or not node.is_there or not node.is_live:
            yield f"drop {name}", state._replace(members=state.members - {name})
    if state.is_replaced:
        return
    one, two = (node._replace(is_ahead=False) for node in state.nodes)
    after = state._replace(is_replaced=True, members_copy=NOBODY, lease_copy=Lease())
    if rules.replaced == "map":
        copied = state._replace(members_copy=state.members, nodes=(one, two))
        yield "copy the map", copied
        yield "replace the map's server", after._replace(members=state.members_copy)
    if rules.replaced == "lease":
        yield "copy the lease", state._replace(lease_copy=state.lease)
        if rules.forgets:
            one, two = (n._replace(lease=None, asks=False) for n in (one, two))
        back = after._replace(lease=state.lease_copy, nodes=(one, two))
        yield "replace the lease's server", back


def one_of_two(state: State) -> State:
    """*state*, or the same with the nodes in each other's place: always the same one.

    Which one does not matter. It is decided by the first node if that is enough.
    """
    mine, other = hash(state.nodes[0]), hash(_mirrored(state.nodes[1]))
    if mine < other:
        return state
    changed = {name: _mirrored(getattr(state, name)) for name in MIRRORED}
    one, two = map(_mirrored, state.nodes)
    under_way = frozenset(map(_mirrored, state.under_way))
    after = state._replace(nodes=(two, one), under_way=under_way, **changed)
    return after if mine > other or hash(after) < hash(state) else state


MIRRORED = ("members", "members_copy", "lease", "lease_copy")


@cache
def _mirrored(part: object) -> object:
    """*part* of a state, with each node's names as the other's."""
    if isinstance(part, frozenset):
        return frozenset(map(_of_the_other, part))
    if isinstance(part, Lease):
        return part._replace(holder=_of_the_other(part.holder))
    if isinstance(part, Reply):
        return part._replace(place=1 - part.place, lease=_mirrored(part.lease))
    if isinstance(part, Acquire):
        name = _of_the_other(part.name)
        return part._replace(name=name, seen=_mirrored(part.seen))
    if isinstance(part, Node):
        names = ("lease", "seen", "members", "met")
        changed = {name: _mirrored(getattr(part, name)) for name in names}
        return part._replace(name=_of_the_other(part.name), **changed)
    return part


def _of_the_other(name: Name | None) -> Name | None:
    return name and (1 - name[0], name[1])


def explore(rules: Rules = ALL) -> tuple[int, list[str]]:
    """How many states there are, and the steps to the first that is wrong, if any."""
    before: dict[State, State | None] = {START: None}
    front = [START]
    while front:
        found = []
        for state in front:
            for _, step in steps(state, rules):
                after = one_of_two(tidy(step, rules))
                if after in before:
                    continue
                before[after] = state
                if is_wrong(after):
                    return len(before), _way_to(after, before, rules)
                found.append(after)
        front = found
    return len(before), []


def _way_to(state: State, before: dict[State, State | None], rules: Rules) -> list[str]:
    """The names of the steps to *state*, with each node in its place."""
    goals = []
    at: State | None = state
    while at is not None:
        goals.append(at)
        at = before[at]
    way, here = [], START
    for goal in goals[-2::-1]:
        tried = ((what, tidy(step, rules)) for what, step in steps(here, rules))
        what, here = next(one for one in tried if one_of_two(one[1]) == goal)
        way.append(what)
    return way


LEFT_OUT = (
    Rules(renames=False),
    Rules(waits=False),
    Rules(forgets=False, replaced="lease"),
)
"""Each is wrong."""


def main() -> int:
    """Try all ways, and show what each rule is for; 0 if it is as it should be."""
    wrong = False
    gc.disable()  # it would look at all states again and again, and free none
    for rules in (Rules(), Rules(replaced="lease"), Rules(replaced="map"), *LEFT_OUT):
        count, way = explore(rules)
        wrong |= bool(way) != (rules in LEFT_OUT)
        print(rules, f"{count:,} states", *way, sep="\n  ", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
