"""The ring: which live node owns which partition. No I/O, no clock.

What always holds:

1.  Every partition has exactly one owner, and every node computes the same.
2.  No node owns more than `LOAD` times its share by weight, rounded up: the
    walk along the ring goes past a node that is full ("Consistent Hashing with
    Bounded Loads", Mirrokni et al., 2017).
3.  A member of weight 0, which is about to leave, owns nothing.
4.  A ring never changes. Another membership is another ring.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from uhashring import HashRing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Member

LOAD = 1.05


class Ring:
    """The owners of *partitions* partitions among *members*."""

    def __init__(self, members: Sequence[Member], partitions: int) -> None:
        self.members = tuple(sorted(members, key=lambda m: m.node_id))
        self.owners: tuple[str, ...] = ()
        """The owner of each partition; empty if no member wants any."""
        if any(member.weight for member in self.members):
            self.owners = tuple(_owners(self.members, partitions))

    def owner(self, partition: int) -> str:
        """The node that owns *partition*."""
        return self.owners[partition]

    def owned_by(self, node_id: str) -> list[int]:
        """The partitions of *node_id*, ascending."""
        return [p for p, owner in enumerate(self.owners) if owner == node_id]

    def shares(self) -> dict[str, int]:
        """How many partitions each member owns."""
        counts = Counter(self.owners)
        return {member.node_id: counts[member.node_id] for member in self.members}


def _owners(everybody: Sequence[Member], partitions: int) -> list[str]:
    members = [member for member in everybody if member.weight]
    total = sum(member.weight for member in members)
    room = {
        member.node_id: math.ceil(partitions * member.weight / total * LOAD)
        for member in members
    }
    ring = HashRing({member.node_id: member.weight for member in members})
    owners = []
    for partition in range(partitions):
        owner = ring.get_node(f"p{partition}")
        if room[owner] == 0:
            candidates = (n["nodename"] for n in ring.range(f"p{partition}"))
            owner = next(node for node in candidates if room[node] > 0)
        room[owner] -= 1
        owners.append(owner)
    return owners
