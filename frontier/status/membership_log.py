"""The membership log of a crawl: who joined, left, died, was removed or replaced.

The scripts that change the map write it (`frontier.cluster.membership`), so it also
tells what happened before anybody looked. What always holds:

1.  Reading it changes nothing, and at most `KEPT` entries are read.
2.  Nothing in it is trusted: an entry that these scripts would not write is left out
    and counted, and the others have only digits and the characters of node ids.
3.  Times are the server's. The newest entry comes first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from frontier.model import frozen
from frontier.store.client import Call

if TYPE_CHECKING:
    from frontier.store.keys import CrawlKeys

KEPT = 500
"""Entries that the scripts keep."""
SHOWN = 200
"""The newest entries, which a watch reads."""
JOINED, LEFT, DIED, REMOVED = "joined", "left", "died", "removed"
REPLACED, TWICE, WEIGHT = "replaced", "twice", "weight"
KINDS = {JOINED, LEFT, DIED, REMOVED, REPLACED, TWICE, WEIGHT}
LOST = {DIED, REMOVED}
_LONGEST = 200
_ENTRY = re.compile(
    rb"([0-9]{1,15}) ([0-9]{1,15}) ([a-z]{1,20}) ([0-9]{1,5}) "
    rb"([A-Za-z0-9][A-Za-z0-9._-]{0,99})"
)


@frozen
class MemberEvent:
    """Something that has happened to a node's place among the nodes of a crawl."""

    at_ms: int
    """When, on the store's clock."""
    epoch: int
    """The epoch of the membership since then."""
    node_id: str
    what: str
    """``joined``, ``left``, ``died`` (it was silent for longer than a lease),
    ``removed`` (by an operator), ``replaced`` (another process started under its id),
    ``twice`` (the same, but the first process still lives; it stops) or ``weight``."""
    weight: int = 0
    """Its weight in the ring, if it joined, was replaced or changed its weight; 0 if
    it takes no more partitions."""


def log_call(keys: CrawlKeys) -> Call:
    """The call whose reply `read_log` reads."""
    return Call.command("LRANGE", keys.membership, -SHOWN, -1)


def read_log(reply: Any) -> tuple[tuple[MemberEvent, ...], int]:
    """The events in the *reply* to `log_call`, newest first; how many are left out.

    A log of another type counts as one entry that is left out.
    """
    if not isinstance(reply, list):
        return (), 1
    found = [_entry(value) for value in reversed(reply[-KEPT:])]
    events = tuple(event for event in found if event is not None)
    return events, len(found) - len(events)


def said_of(event: MemberEvent) -> str:
    """*event* in words, for people."""
    name = event.node_id
    if event.what == WEIGHT:
        if not event.weight:
            return f"{name} is leaving, and takes no partitions any more"
        return f"{name} has the weight {event.weight:,}"
    return {
        JOINED: f"{name} joined",
        LEFT: f"{name} left",
        DIED: f"{name} is lost: no heartbeat for longer than a lease",
        REMOVED: f"{name} was removed by an operator",
        REPLACED: f"{name} was started again, as another process",
        TWICE: f"two live processes had the id {name}: the first stops",
    }[event.what]


def _entry(value: Any) -> MemberEvent | None:
    """The entry *value*; ``None`` if these scripts did not write it."""
    if not isinstance(value, bytes) or len(value) > _LONGEST:
        return None
    found = _ENTRY.fullmatch(value)
    if found is None or found[3].decode() not in KINDS:
        return None
    epoch, at_ms, what, weight, name = found.groups()
    return MemberEvent(
        int(at_ms), int(epoch), name.decode(), what.decode(), int(weight)
    )
