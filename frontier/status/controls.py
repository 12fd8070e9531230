"""What an operator wants of a crawl, and which of its nodes do it already."""

from __future__ import annotations

import time

from frontier.cluster.controls import Controls, calls, read
from frontier.cluster.crawls import ENDED
from frontier.errors import UnknownCrawl
from frontier.model import frozen
from frontier.status.snapshot import Nodes, node_calls
from frontier.store.calls import milliseconds
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, check_schema

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


def wanted_of(store: BlockingStore, keys: CrawlKeys) -> Controls:
    """What operators want of the crawl.

    Raises:
        UnknownCrawl: There is no such crawl.
        OtherSchema: Another version of this package made it.
    """
    meta = Call.command("HMGET", keys.meta, "state", "schema")
    (state, schema), *replies = store.run([meta, *calls(keys)], tolerant=True)
    if state is None:
        raise UnknownCrawl(keys.namespace, keys.crawl_id)
    check_schema(keys.crawl_id, schema)
    return read(keys, replies)


def own_settings(store: BlockingStore, keys: CrawlKeys) -> dict[str, dict[str, str]]:
    """The changeable settings that each node on the map was started with."""
    nodes = Nodes.of(*store.run(node_calls(keys), tolerant=True))
    there = sorted(nodes.beats.keys() & nodes.figures.keys())
    return {name: nodes.figures[name].own for name in there}


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
