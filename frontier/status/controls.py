"""What an operator wants of a crawl, and which of its nodes do it already."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frontier.cluster.crawls import ENDED
from frontier.model import frozen
from frontier.status.snapshot import Nodes, node_calls
from frontier.store.calls import milliseconds
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from frontier.store.keys import CrawlKeys

WAIT = 10.0
"""Seconds within which heartbeats should tell each live node, and bring its report."""
SILENT = 3.0
"""Seconds without a heartbeat after which a node is not waited for."""
LOOK = 0.1


@frozen
class Reach:
    """On which nodes of a crawl something is in force."""

    nodes: tuple[str, ...]
    """Those that have said so."""
    lacking: tuple[str, ...]
    """Those on the map that have not."""
    ended: bool
    """Whether the crawl has ended meanwhile: nodes that knew of it may have left."""


def reach(store: BlockingStore, keys: CrawlKeys, version: int) -> Reach:
    """Wait until all nodes that beat have *version* in force, for `WAIT` at most."""
    until = time.monotonic() + WAIT
    while True:
        state = Call.command("HGET", keys.meta, "state")
        calls = [*node_calls(keys), Call.command("TIME"), state]
        members, reports, now, found = store.run(calls, tolerant=True)
        nodes = Nodes.of(members, reports)
        beats, known = nodes.beats, nodes.figures
        has = {
            name for name in beats if name in known and known[name].controls >= version
        }
        oldest = milliseconds(now) - SILENT * 1000
        awaited = any(beats[name][0] >= oldest for name in beats.keys() - has)
        if not awaited or time.monotonic() >= until:
            lacking = tuple(sorted(beats.keys() - has))
            ended = (found or b"").decode("latin-1") in ENDED
            return Reach(tuple(sorted(has)), lacking, ended)
        time.sleep(LOOK)
