"""What an operator wants of the crawl, in force on one node.

What always holds:

1.  What a heartbeat has brought is in force when its round ends, and before a node that
    joins reserves anything.
2.  A paused node starts nothing, and loses nothing: what it has reserved stays so, and
    its leases and heartbeats go on.
3.  Each entry of the crawl's control log is once in the crawl log of this node,
    including those from before it joined. Those made since then are in its own log too.
4.  If what the store has of it cannot be read, the node ends: it may say what to leave
    out.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.cluster import controls as wanted
from frontier.cluster.controls import Controls, Entry
from frontier.errors import KeyDamaged
from frontier.model import Attempt
from frontier.node.context import Part

if TYPE_CHECKING:
    from frontier.node.node import Node

logger = logging.getLogger(__name__)

NOT_A_FETCH = 0
"""The status of the crawl log's lines about what an operator did."""


class Controlling(Part):
    """Learns what an operator wants, and logs it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.wanted = Controls()
        self.version = ""
        """The version that is in force; empty if nothing was ever wanted."""
        self._logged = 0
        """The version of the last entry that this node has logged."""

    @property
    def paused(self) -> bool:
        """Whether nothing may be started."""
        return self.wanted.paused is not None

    @override
    def room(self) -> bool:
        """Whether the crawl is not paused."""
        return not self.paused

    @override
    def report(self) -> dict[str, Any]:
        """What is in force, if anything was ever wanted."""
        return {"controls": self.version} if self.version else {}

    async def heed(self, version: str) -> None:
        """Read what is wanted as of *version*, put it into force, and pass it on.

        Raises:
            KeyDamaged: What is wanted cannot be read: it may say what to leave out.
            StoreUnavailable: The store does not answer.
        """
        calls = wanted.calls(self._node.keys)
        replies = await self._node.outage_retry.call(calls)
        self.wanted = wanted.read(self._node.keys, replies)
        for fault in self.wanted.faults:
            raise KeyDamaged("", *fault)
        self._tell()
        await self._node.parts.wait(Part.learn)
        self._node.parts.call(Part.steered)
        self.version = version

    def _tell(self) -> None:
        """Log what is new."""
        joins = self._logged == 0
        for entry in self.wanted.log:
            if entry.version > self._logged:
                self._node.parts.call(Part.note, attempt_of(entry))
                if not joins:
                    logger.warning("%s", described(entry))
                if entry.verb == wanted.RETRIED:  # a node that joins knows no host yet
                    self._node.hosts.retry(entry.what)
        self._logged = max([self._logged, *(e.version for e in self.wanted.log)])
        if joins and (by := self.wanted.paused) is not None:
            logger.warning(
                "the crawl is paused since %s by %s: this node sends nothing until "
                "frontier crawl resume",
                when(by.at_ms),
                by.who,
            )


def when(at_ms: int) -> str:
    """*at_ms*, milliseconds since the Unix epoch, for people."""
    return (
        f"{datetime.fromtimestamp(min(at_ms, 10**14) / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    )


def described(entry: Entry) -> str:
    """*entry* for people, in one line."""
    what = f" {entry.what}" if entry.what else ""
    return f"{entry.who} has {entry.verb}{what or ' the crawl'} at {when(entry.at_ms)}"


def attempt_of(entry: Entry) -> Attempt:
    """The line of the crawl log about *entry*, which is not a fetch."""
    notes = [f"control:{entry.verb}", f"by:{entry.who}"]
    if entry.what:
        notes.append(f"what:{entry.what}")
    return Attempt(
        f"frontier:{entry.verb}",
        NOT_A_FETCH,
        0.0,
        entry.at_ms / 1000,
        notes=tuple(one.replace(",", "%2C") for one in notes),
    )
