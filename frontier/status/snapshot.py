"""A crawl as it looks from outside: its nodes, its queue, its dead letters.

What always holds:

1.  Looking changes nothing: no lease is taken and nobody counts as a node.
2.  What the store says is not trusted. A value of another type or size than
    this version writes is left out, and text is made printable; of the crawl
    itself only its number of partitions must be right.
3.  A snapshot is not one instant. A node's stats are those of its last
    heartbeat, and the partitions are looked at one batch after the other.

It also lists all crawls of a store (`list_crawls`): those that are registered.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frontier.cluster import controls
from frontier.cluster.controls import Controls, is_paused
from frontier.cluster.crawls import BY_FINGERPRINT
from frontier.cluster.membership import own_ttl_of
from frontier.cluster.ring import Ring
from frontier.errors import CodecError, KeyDamaged, UnknownCrawl
from frontier.model import Member, frozen
from frontier.queue.reserve import Scan
from frontier.settings.values import NAME
from frontier.status import back_offs
from frontier.status.figures import Figures, figures_of, sum_of, together
from frontier.status.forecast import SPENT, limits_of
from frontier.status.partitions import PartitionLook, dead_letters, look_at
from frontier.status.reports import read_reports, without_sum
from frontier.status.seen_tiers import tiers_in, tiers_of
from frontier.status.validate import mapping, printable, real, text, whole
from frontier.status.views import (
    ControlsView,
    CrawlSnapshot,
    CrawlSummary,
    DeadLetter,
    Harmed,
    NodeView,
)
from frontier.store.calls import milliseconds
from frontier.store.client import BlockingStore, Call, memory_share
from frontier.store.keys import (
    CrawlKeys,
    RegistryKeys,
    check_schema,
    schema_said,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from frontier.seen.config import SeenConfig


MAX_LETTERS = 5
"""Dead letters that a snapshot shows."""
MAX_PARTITIONS = 16384
SUMMARY = (
    *("state", "spider", "created_ms", "finished_ms"),
    *("shape", "paused", "deleting_ms", "schema"),
)
"""Fields of ``meta`` that are in a crawl's summary."""
MORE = ("removed_ms", "limit", "born", "marked", "fetched", "twice")
"""Fields of ``meta`` that are not in a crawl's summary."""
DAMAGED = "damaged"
"""The state of a crawl whose ``meta`` cannot be read."""


def list_crawls(store: BlockingStore, namespace: str) -> list[CrawlSummary]:
    """The crawls of *namespace*, the newest first."""
    names = store.command("SMEMBERS", RegistryKeys(namespace).crawls)
    crawl_ids = sorted(name.decode("utf-8", "replace") for name in names)
    replies = store.run(
        [
            call
            for crawl_id in crawl_ids
            for call in _summary_calls(CrawlKeys(namespace, crawl_id))
        ],
        tolerant=True,
    )
    pairs = zip(replies[::2], replies[1::2], strict=True)
    found = [
        _summary(crawl_id, meta, nodes)
        for crawl_id, (meta, nodes) in zip(crawl_ids, pairs, strict=True)
        if isinstance(meta, KeyDamaged) or meta[0] is not None
    ]
    return sorted(found, key=lambda crawl: crawl.created_ms, reverse=True)


def newest_crawl(store: BlockingStore, namespace: str) -> str:
    """The id of the crawl that was created last.

    A crawl of the duplicate filter alone counts only if there are no others: it is open
    for ever, and seldom what is meant.

    Raises:
        UnknownCrawl: There is none.
    """
    crawls = list_crawls(store, namespace)
    if not crawls:
        raise UnknownCrawl(namespace, "")
    with_queue = [crawl for crawl in crawls if crawl.kind == "crawl"]
    return (with_queue or crawls)[0].crawl_id


def crawl_entered(
    store: BlockingStore,
    namespace: str,
    spider: str,
    node_ids: Collection[str],
    since: float,
) -> str | None:
    """The crawl of *spider* that one of *node_ids* entered after *since*, if any did.

    *since* is seconds since the Unix epoch, on the store's clock. Nodes of different
    spiders may have the same names.
    """
    ours = [one for one in list_crawls(store, namespace) if one.spider == spider]
    keys = [CrawlKeys(namespace, crawl.crawl_id) for crawl in ours]
    calls = [Call.command("HMGET", one.reports, *node_ids) for one in keys]
    replies = store.run(calls, tolerant=True)
    for crawl, reports in zip(ours, replies, strict=True):
        opened = [real(mapping(one).get("opened")) for one in known(reports, ())]
        if any(at >= since for at in opened):
            return crawl.crawl_id
    return None


def snapshot(store: BlockingStore, namespace: str, crawl_id: str) -> CrawlSnapshot:
    """What the crawl looks like now.

    Raises:
        UnknownCrawl: There is no such crawl.
        OtherSchema: Another version of this package made it.
        CodecError: Its number of partitions cannot be read.
        StoreError: The store does not answer, or with an error.
    """
    keys = CrawlKeys(namespace, crawl_id)
    crawl = read_crawl(store, keys)
    partitions = range(crawl.view.partitions)
    looks = list(look_at(store, keys, partitions, crawl.tiers))
    return assembled(crawl, looks, dead_letters(store, keys, looks, MAX_LETTERS))


def assembled(
    crawl: WholeCrawl,
    looks: Sequence[PartitionLook],
    letters: tuple[DeadLetter, ...],
) -> CrawlSnapshot:
    """What *crawl* looks like, given its partitions and dead letters."""
    view, nodes = crawl.view, crawl.nodes
    held = Counter(look.holder for look in looks)
    marks = [look.mark for look in looks if look.mark is not None]
    return replace(
        view,
        nodes=_views(crawl, held),
        totals=nodes.totals,
        gone=nodes.gone,
        gone_lost=nodes.gone_lost,
        queue=_queue([look.scan for look in looks]),
        dead_letters=letters,
        tiers=tiers_of(crawl.tiers, looks),
        lost=sum(mark != crawl.mark for mark in marks) if crawl.mark else 0,
        harmed=(*view.harmed, *(one for look in looks for one in look.harmed)),
        controls=ControlsView.of(crawl.controls),
        limits=limits_of(crawl.spent, crawl.settings) if crawl.spent else (),
        back_offs=back_offs.together(
            [(look.scan, look.left_alone) for look in looks], view.taken_ms
        ),
    )


def _queue(scans: Sequence[Scan]) -> Scan:
    """The sums over all partitions; the next due time is the earliest of all."""
    due = min((scan.due for scan in scans if scan.waiting and scan.due), default=0)
    together: Scan = sum_of(Scan, scans)
    return replace(together, due=due)


@frozen
class Nodes:
    """Which nodes a crawl has, and what they report."""

    beats: Mapping[str, tuple[int, int, int]]
    """The last beat and the weight of each node on the membership map."""
    figures: Mapping[str, Figures]
    """The figures of single nodes, also of some that are gone."""
    rest: Figures | None
    """The sum of the figures of other gone nodes; ``None`` if there are none."""
    gone: int
    """How many nodes are in that sum."""
    gone_lost: int
    """How many of these were lost."""

    @classmethod
    def of(cls, members: Any, reports: Any) -> Nodes:
        """The nodes in the store's replies about its map and its reports."""
        single, gone = without_sum(known(reports, {}))
        beats, figures = beats_of(known(members, {})), read_reports(single)
        rest = figures_of(gone) if gone else None
        count = whole(gone.get("nodes"))
        return cls(beats, figures, rest, count, whole(gone.get("lost")))

    @property
    def totals(self) -> Figures:
        """What all of them did, and what those on the map have now."""
        every = [*self.figures.values(), *([self.rest] if self.rest else [])]
        there = [self.figures[name] for name in self.beats if name in self.figures]
        return together(every, there)

    @property
    def own(self) -> Mapping[str, str]:
        """The changeable settings that the node that came last was started with."""
        every = self.figures.values()
        return max(every, key=lambda one: one.opened, default=Figures()).own


@frozen
class WholeCrawl:
    """What the store says of a crawl as a whole."""

    view: CrawlSnapshot
    """Without its nodes, and without what is in its partitions."""
    tiers: SeenConfig | None
    """The tiers of its seen test; ``None`` if they are not this version's."""
    nodes: Nodes
    mark: bytes
    """The mark of each partition that is not lost; empty if not all were marked."""
    controls: Controls
    spent: Sequence[Any]
    """The values of the fields `SPENT`; empty without a limit."""

    @property
    def live(self) -> frozenset[str]:
        """The nodes on the map whose heartbeats arrive."""
        now = self.view.taken_ms
        return frozenset(
            name
            for name, (beat, _, own) in self.nodes.beats.items()
            if beat >= now - own
        )

    @property
    def settings(self) -> dict[str, str]:
        """The changeable settings for all hosts: as changed, or as at the start."""
        changed = self.controls.settings.items()
        return {
            **self.nodes.own,
            **{name: value for (name, host), (value, _) in changed if not host},
        }


def node_calls(keys: CrawlKeys) -> list[Call]:
    """The calls whose replies `Nodes.of` reads."""
    return [Call.command("HGETALL", key) for key in (keys.nodes, keys.reports)]


def _crawl_calls(keys: CrawlKeys) -> list[Call]:
    """The calls whose replies `read_crawl` reads."""
    return [
        *_summary_calls(keys),
        Call.command("HMGET", keys.spent, *SPENT),
        *node_calls(keys),
        Call.command("TIME"),
        Call.command("INFO", "memory"),
        Call.command("HMGET", keys.meta, *MORE),
        *controls.calls(keys),
    ]


def read_crawl(store: BlockingStore, keys: CrawlKeys) -> WholeCrawl:
    """What the store says of a crawl as a whole; raises as `snapshot` does."""
    replies = store.run(_crawl_calls(keys), tolerant=True)
    meta, nodes, spent, members, reports, *rest = replies
    time, memory, more, *wanted = rest
    if isinstance(meta, KeyDamaged):
        raise meta
    if meta[0] is None:
        raise UnknownCrawl(keys.namespace, keys.crawl_id)
    check_schema(printable(keys.crawl_id), meta[-1])
    shape = meta[SUMMARY.index("shape")]
    settings, partitions = _shape(keys.crawl_id, shape)
    removed, limit, born, marked, fetched, twice = more
    twice_ms, _, twice_id = text(twice).partition(" ")
    reached, _, value = text(limit).partition(" ")
    summary = _summary(keys.crawl_id, meta, nodes)
    view = CrawlSnapshot(
        crawl_id=summary.crawl_id,
        spider=summary.spider,
        state=summary.state,
        kind=summary.kind,
        created_ms=summary.created_ms,
        finished_ms=summary.finished_ms,
        taken_ms=milliseconds(time),
        shape=settings,
        partitions=partitions,
        nodes=(),
        totals=Figures(),
        queue=Scan(),
        dead_letters=(),
        limit=reached,
        limit_value=whole(value.encode()),
        fetched=fetched is not None,
        removed_ms=whole(removed),
        twice=twice_id if NAME.fullmatch(twice_id) else "",
        twice_ms=whole(twice_ms.encode()),
        memory_share=memory_share(memory),
        harmed=_harmed_keys(keys, replies),
    )
    return WholeCrawl(
        view=view,
        tiers=tiers_in(mapping(shape)),
        nodes=Nodes.of(members, reports),
        mark=born if born and marked else b"",
        controls=controls.read(keys, wanted),
        spent=spent if any(known(spent, ())) else (),
    )


def _harmed_keys(keys: CrawlKeys, replies: Sequence[Any]) -> tuple[Harmed, ...]:
    """The crawl's own keys that are damaged, by *replies*."""
    start = keys.meta.removesuffix("meta")
    bad = [reply for reply in replies if isinstance(reply, KeyDamaged)]
    reasons = {one.key.removeprefix(start): one.reason for one in bad}
    return tuple(Harmed(None, *one) for one in reasons.items())


def _summary_calls(keys: CrawlKeys) -> list[Call]:
    return [
        Call.command("HMGET", keys.meta, *SUMMARY),
        Call.command("HLEN", keys.nodes),
    ]


def _summary(
    crawl_id: str, meta: Sequence[bytes | None] | KeyDamaged, nodes: int | KeyDamaged
) -> CrawlSummary:
    if isinstance(meta, KeyDamaged):
        return CrawlSummary(printable(crawl_id), "", DAMAGED, 0, 0, 0)
    state, spider, created, finished, shape, paused, deleting, schema = meta
    is_alone = mapping(shape).get("FRONTIER_QUEUE_KEY") == BY_FINGERPRINT
    return CrawlSummary(
        crawl_id=printable(crawl_id),
        spider=text(spider),
        state=text(state) if deleting is None else "deleting",
        created_ms=whole(created),
        finished_ms=whole(finished),
        nodes=0 if isinstance(nodes, KeyDamaged) else whole(nodes),
        kind="dupefilter" if is_alone else "crawl",
        schema=schema_said(schema),
        paused=state == b"open" and is_paused(paused),
    )


def _shape(crawl_id: str, value: bytes | None) -> tuple[dict[str, Any], int]:
    stored = mapping(value)
    partitions = whole(stored.get("FRONTIER_PARTITIONS"))
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise CodecError(
            f"the crawl {printable(crawl_id)} was not created by this version: "
            "its settings in the store have no number of partitions"
        )
    settings = {
        printable(name): printable(shown) if isinstance(shown, str) else shown
        for name, shown in stored.items()
    }
    return settings, partitions


def beats_of(reply: Mapping[bytes, bytes]) -> dict[str, tuple[int, int, int]]:
    """The last beat, the weight and the lease time of each node on the membership map.

    Times are in milliseconds.
    """
    found = {}
    for name, value in reply.items():
        node_id, words = text(name), value[:100].split()
        if NAME.fullmatch(node_id) and 3 <= len(words) <= 6:
            weight = min(whole(words[1]), 1000)
            found[node_id] = (whole(words[0]), weight, own_ttl_of(value))
    return found


def _views(crawl: WholeCrawl, holders: Mapping[str, int]) -> tuple[NodeView, ...]:
    beats, figures = crawl.nodes.beats, crawl.nodes.figures
    live = tuple(Member(name, beats[name][1]) for name in sorted(crawl.live))
    shares = _shares(live, crawl.view.partitions)
    views = []
    for node_id in sorted({*beats, *figures}, key=_natural):
        if node_id in shares:
            stays = beats[node_id][1] and crawl.view.state == "open"
            state = "live" if stays else "leaving"
        elif node_id in beats:
            state = "silent"
        else:
            state = "left" if figures[node_id].left else "lost"
        views.append(
            NodeView(
                node_id=node_id,
                state=state,
                weight=beats[node_id][1] if node_id in beats else 0,
                owned=shares.get(node_id, 0),
                held=holders.get(node_id, 0),
                figures=figures.get(node_id),
                beat_ms=_last_beat(node_id, beats, figures),
            )
        )
    return tuple(views)


def _last_beat(
    node_id: str,
    beats: Mapping[str, tuple[int, int, int]],
    figures: Mapping[str, Figures],
) -> int:
    """When the node was heard of last; 0 if it never was."""
    if node_id in beats:
        return beats[node_id][0]
    own = figures.get(node_id)
    return 0 if own is None else whole((own.opened + own.seconds) * 1000)


@functools.lru_cache(maxsize=16)
def _shares(live: tuple[Member, ...], partitions: int) -> Mapping[str, int]:
    """How many partitions each of the *live* nodes owns; a ring is slow to make."""
    return Ring(live, partitions).shares()


def _natural(node_id: str) -> tuple[str, int, str]:
    """A key that puts node-2 before node-10."""
    name = node_id.rstrip("0123456789")
    return (name, len(node_id), node_id)


def known(reply: Any, other: Any) -> Any:
    """*reply*, or *other* if its key is damaged."""
    return other if isinstance(reply, KeyDamaged) else reply
