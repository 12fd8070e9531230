"""A crawl as it looks from outside: its nodes, its queue, its dead letters.

What always holds:

1.  Looking changes nothing: no lease is taken and nobody counts as a node.
2.  What the store says is not trusted. A value of another type or size than
    this version writes is left out, and text is made printable; of the crawl
    itself only its number of partitions must be right.
3.  A snapshot is not one instant. A node's stats are those of its last
    heartbeat, and the partitions are looked at one batch after the other.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from frontier.cluster.crawls import BY_FINGERPRINT
from frontier.cluster.ring import Ring
from frontier.cluster.set_aside import ASIDE, faults_of
from frontier.errors import CodecError, KeyDamaged, UnknownCrawl
from frontier.model import Member
from frontier.queue.item import decode
from frontier.queue.reserve import Scan, scan_call
from frontier.settings.values import NAME
from frontier.status.seen_tiers import look_at_tiers
from frontier.status.validate import (
    MAX_TEXT,
    mapping,
    printable,
    real,
    text,
    whole,
)
from frontier.status.views import (
    ArchiveFigures,
    CrawlSnapshot,
    CrawlSummary,
    DeadLetter,
    Figures,
    Harmed,
    NodeView,
    SeenFigures,
    ShareFigures,
)
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, RegistryKeys, check_schema, schema_said
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from frontier.status.views import Shares
    from frontier.store.client import BlockingStore

BATCH = 128
"""Partitions per round trip."""
FIGURES = len(fields(Scan))
"""Those of a partition; the mark of the crawl comes behind them."""
MAX_LETTERS = 5
"""Dead letters that a snapshot shows."""
MAX_PARTITIONS = 16384
MORE = ("removed_ms", "limit", "born", "marked", "fetched")
"""Fields of ``meta`` that are not in a crawl's summary."""
DAMAGED = "damaged"
"""The state of a crawl whose ``meta`` cannot be read."""
COUNTS = (
    "pages",
    "requests",
    "bytes",
    "items",
    "errors",
    "forbidden",
    "refused",
    "trapped",
    "new",
    "local",
    "dead",
    "reclaimed",
    "partitions",
)
"""Numbers that the report of a node has, and which are added up."""
SHARES = ("hosts", "mimes")
MOST_SHARES = 50
"""Of each kind, from one node."""
NAME_LIMIT = 255
STATUS = re.compile(r"[0-9]{1,3}", re.ASCII)
MOST_STATUSES = 1000
MAX_LIMIT = 20
"""Characters of a limit that are shown."""

T = TypeVar("T")


def list_crawls(store: BlockingStore, namespace: str) -> list[CrawlSummary]:
    """The crawls of *namespace*, the newest first."""
    names = store.call(Call.command("SMEMBERS", RegistryKeys(namespace).crawls()))
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

    One of the duplicate filter alone only if there are no others: it is open for
    ever, and seldom what is meant.

    Raises:
        UnknownCrawl: There is none.
    """
    crawls = list_crawls(store, namespace)
    if not crawls:
        raise UnknownCrawl(namespace, "")
    with_queue = [crawl for crawl in crawls if crawl.kind == "crawl"]
    return (with_queue or crawls)[0].crawl_id


def open_crawl(store: BlockingStore, namespace: str, spider: str) -> str | None:
    """The crawl that a node of *spider* would join now, if there is one."""
    key = RegistryKeys(namespace).spider(spider)
    crawl_id = store.call(Call.command("HGET", key, "open"))
    return None if crawl_id is None else crawl_id.decode("utf-8", "replace")


def crawl_entered(
    store: BlockingStore,
    namespace: str,
    spider: str,
    node_ids: Collection[str],
    since: float,
) -> str | None:
    """The crawl of *spider* that one of *node_ids* entered after *since*, if any did.

    *since* is seconds since the Unix epoch, on the nodes' clock. Nodes of different
    spiders may have the same names.
    """
    for crawl in list_crawls(store, namespace):
        if crawl.spider != spider:
            continue
        keys = CrawlKeys(namespace, crawl.crawl_id)
        reports = read_reports(store.call(Call.command("HGETALL", keys.reports())))
        for node_id in node_ids:
            if node_id in reports and reports[node_id].opened >= since:
                return crawl.crawl_id
    return None


def snapshot(
    store: BlockingStore, namespace: str, crawl_id: str, *, lease_ttl: float = 15.0
) -> CrawlSnapshot:
    """What the crawl looks like now.

    *lease_ttl* is the number of seconds after which a silent node counts as dead.

    Raises:
        UnknownCrawl: There is no such crawl.
        OtherSchema: Another version of this package made it.
        CodecError: Its number of partitions cannot be read.
        StoreError: The store does not answer, or with an error.
    """
    keys = CrawlKeys(namespace, crawl_id)
    crawl = _read(store, keys, namespace)
    summary, look = crawl.summary, _look(store, keys, crawl.partitions)
    figures = read_reports(crawl.reports)
    running_ms = 0 if summary.finished_ms else crawl.taken_ms - summary.created_ms
    return CrawlSnapshot(
        crawl_id=summary.crawl_id,
        spider=summary.spider,
        state=summary.state,
        created_ms=summary.created_ms,
        finished_ms=summary.finished_ms,
        taken_ms=crawl.taken_ms,
        shape=crawl.settings,
        partitions=crawl.partitions,
        nodes=_views(crawl, figures, look.holders, lease_ttl),
        totals=together(figures.values()),
        queue=sum_of(Scan, look.scans),
        dead_letters=_letters(store, keys, look.scans),
        tiers=look_at_tiers(store, keys, mapping(crawl.shape), running_ms / 1000),
        kind=summary.kind,
        limit=crawl.limit,
        limit_value=crawl.limit_value,
        fetched=crawl.fetched,
        removed_ms=crawl.removed_ms,
        lost=sum(mark != crawl.mark for mark in look.marks) if crawl.mark else 0,
        harmed=(*crawl.harmed, *look.harmed),
    )


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the store says of a crawl as a whole."""

    summary: CrawlSummary
    shape: bytes | None
    settings: dict[str, Any]
    """What that says, for people."""
    partitions: int
    members: Mapping[bytes, bytes]
    reports: Mapping[bytes, bytes]
    taken_ms: int
    removed_ms: int
    limit: str
    limit_value: int
    mark: bytes
    """What each partition has that is not lost; empty if not all were marked."""
    fetched: bool
    harmed: tuple[Harmed, ...]


def _read(store: BlockingStore, keys: CrawlKeys, namespace: str) -> _Stored:
    calls = [
        *_summary_calls(keys),
        Call.command("HGET", keys.meta(), "shape"),
        Call.command("HGETALL", keys.nodes()),
        Call.command("HGETALL", keys.reports()),
        Call.command("TIME"),
        Call.command("HMGET", keys.meta(), *MORE),
    ]
    replies = store.run(calls, tolerant=True)
    meta, nodes, shape, members, reports, time, more = replies
    if isinstance(meta, KeyDamaged):
        raise meta
    if meta[0] is None:
        raise UnknownCrawl(namespace, keys.crawl_id)
    check_schema(printable(keys.crawl_id), meta[-1])
    settings, partitions = _shape(keys.crawl_id, shape)
    removed, limit, born, marked, fetched = more
    reached, _, value = text(limit).partition(" ")
    return _Stored(
        summary=_summary(keys.crawl_id, meta, nodes),
        shape=shape,
        settings=settings,
        partitions=partitions,
        members={} if isinstance(members, KeyDamaged) else members,
        reports={} if isinstance(reports, KeyDamaged) else reports,
        taken_ms=int(time[0]) * 1000 + int(time[1]) // 1000,
        removed_ms=whole(removed),
        limit=reached,
        limit_value=whole(value.encode()),
        mark=born if born and marked else b"",
        fetched=fetched is not None,
        harmed=_harmed_keys(keys, replies),
    )


def _harmed_keys(keys: CrawlKeys, replies: Sequence[Any]) -> tuple[Harmed, ...]:
    """The crawl's own keys that are damaged, as *replies* tell."""
    start = keys.meta().removesuffix("meta")
    bad = [reply for reply in replies if isinstance(reply, KeyDamaged)]
    reasons = {one.key.removeprefix(start): one.reason for one in bad}
    return tuple(Harmed(None, *one, aside=False) for one in reasons.items())


def _summary_calls(keys: CrawlKeys) -> list[Call]:
    names = ("state", "spider", "created_ms", "finished_ms", "shape", "schema")
    return [
        Call.command("HMGET", keys.meta(), *names),
        Call.command("HLEN", keys.nodes()),
    ]


def _summary(
    crawl_id: str, meta: Sequence[bytes | None] | KeyDamaged, nodes: int | KeyDamaged
) -> CrawlSummary:
    if isinstance(meta, KeyDamaged):
        return CrawlSummary(printable(crawl_id), "", DAMAGED, 0, 0, 0)
    state, spider, created, finished, shape, schema = meta
    is_alone = mapping(shape).get("FRONTIER_QUEUE_KEY") == BY_FINGERPRINT
    return CrawlSummary(
        crawl_id=printable(crawl_id),
        spider=text(spider),
        state=text(state),
        created_ms=whole(created),
        finished_ms=whole(finished),
        nodes=0 if isinstance(nodes, KeyDamaged) else whole(nodes),
        kind="dupefilter" if is_alone else "crawl",
        schema=schema_said(schema),
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


@dataclass(frozen=True, slots=True)
class _Partitions:
    """What the partitions of a crawl are like."""

    scans: list[Scan] = field(default_factory=list)
    """Of each; of one that is damaged, an empty one."""
    holders: Counter[str] = field(default_factory=Counter)
    """How many leases each node holds."""
    marks: list[bytes] = field(default_factory=list)
    """Of those that are not damaged."""
    harmed: list[Harmed] = field(default_factory=list)


def _look(store: BlockingStore, keys: CrawlKeys, partitions: int) -> _Partitions:
    found = _Partitions()
    for first in range(0, partitions, BATCH):
        batch = [
            keys.partition(p) for p in range(first, min(first + BATCH, partitions))
        ]
        calls = [scan_call(partition) for partition in batch]
        calls += [Call.command("HGET", p.lease, "holder") for p in batch]
        replies = store.run(calls, tolerant=True)
        for number, reply in enumerate(replies[: len(batch)], first):
            if isinstance(reply, KeyDamaged) or reply[0] == ASIDE:
                found.harmed.extend(_harmed(keys, number, reply))
                found.scans.append(Scan())
                continue
            found.scans.append(Scan(*map(whole, reply[:FIGURES])))
            found.marks.append(reply[-1])
        held = [one for one in replies[len(batch) :] if isinstance(one, bytes) and one]
        found.holders.update(map(text, held))
    return found


def _harmed(keys: CrawlKeys, number: int, reply: Any) -> list[Harmed]:
    """What is wrong with a partition, as the *reply* to its scan tells."""
    if isinstance(reply, KeyDamaged):
        what = reply.key.removeprefix(keys.partition(number).tag + ":")
        return [Harmed(number, printable(what), printable(reply.reason), False)]
    return [
        Harmed(number, printable(fault.key), printable(fault.reason), True)
        for fault in faults_of(reply[1])
    ]


def _beats(reply: Mapping[bytes, bytes]) -> dict[str, tuple[int, int]]:
    """Of each node on the membership map, its last beat and its weight."""
    found = {}
    for name, value in reply.items():
        node_id, words = text(name), value[:100].split()
        if NAME.fullmatch(node_id) and 3 <= len(words) <= 4:
            found[node_id] = (whole(words[0]), min(whole(words[1]), 1000))
    return found


def _views(
    crawl: _Stored,
    figures: Mapping[str, Figures],
    holders: Mapping[str, int],
    lease_ttl: float,
) -> tuple[NodeView, ...]:
    beats, oldest_beat = _beats(crawl.members), crawl.taken_ms - lease_ttl * 1000
    live = [
        Member(node_id, weight)
        for node_id, (beat, weight) in beats.items()
        if beat >= oldest_beat
    ]
    shares = Ring(live, crawl.partitions).shares()
    views = []
    for node_id in sorted({*beats, *figures}, key=_natural):
        if node_id in shares:
            state = "live" if beats[node_id][1] else "leaving"
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
            )
        )
    return tuple(views)


def _natural(node_id: str) -> tuple[str, int, str]:
    """A key that puts node-2 before node-10."""
    name = node_id.rstrip("0123456789")
    return (name, len(node_id), node_id)


def _letters(
    store: BlockingStore, keys: CrawlKeys, scans: Sequence[Scan]
) -> tuple[DeadLetter, ...]:
    filled = [p for p, scan in enumerate(scans) if scan.dead][:MAX_LETTERS]
    replies = store.run(
        [
            Call.command("LRANGE", keys.partition(p).dead, 0, MAX_LETTERS - 1)
            for p in filled
        ],
        tolerant=True,
    )
    known = [reply for reply in replies if not isinstance(reply, KeyDamaged)]
    values = [value for reply in known for value in reply]
    return tuple(_letter(value) for value in values[:MAX_LETTERS])


def _letter(value: bytes) -> DeadLetter:
    reason, _, rest = value.partition(b"\n")
    queue, _, item = rest.partition(b"\n")
    try:
        url = printable(decode(item, queue.decode("utf-8", "replace"))["url"])
    except CodecError:
        url = ""
    return DeadLetter(url, text(reason))


def read_reports(reply: Mapping[bytes, bytes]) -> dict[str, Figures]:
    """The reports that can be read."""
    found = {}
    for name, value in reply.items():
        node_id, report = text(name), mapping(value)
        if NAME.fullmatch(node_id) and report:
            found[node_id] = _figures(report)
    return found


def _figures(report: Mapping[str, Any]) -> Figures:
    known = {name: whole(report.get(name)) for name in COUNTS}
    seconds = real(report.get("seconds"))
    busy = report.get("busy")
    blocked = busy if isinstance(busy, dict) else {}
    return Figures(
        **known,
        opened=real(report.get("opened")),
        seconds=seconds,
        rate=known["pages"] / seconds if seconds else 0.0,
        seen=_read_figures(SeenFigures, report.get("seen")),
        archive=_read_figures(ArchiveFigures, report.get("archive")),
        shares=_read_shares(report.get("shares")),
        traps=_read_traps(report.get("traps")),
        statuses=_read_statuses(report.get("statuses")),
        busy_seconds=real(blocked.get("seconds")),
        busy_url=printable(str(blocked.get("url", ""))[:MAX_TEXT]),
        set_limit=printable(str(report.get("set_limit", ""))[:MAX_LIMIT]),
        set_limit_bytes=whole(report.get("set_limit_bytes")),
        left=report.get("left") is True,
    )


def together(every: Collection[Figures]) -> Figures:
    """What all nodes did, given what *every* one did."""
    if not every:
        return Figures()
    sums = {name: sum(getattr(f, name) for f in every) for name in COUNTS}
    statuses: Counter[str] = Counter()
    traps: Counter[str] = Counter()
    for figures in every:
        traps.update(figures.traps)
        statuses.update(figures.statuses)
    opened = min(figures.opened for figures in every)
    seconds = max(figures.opened + figures.seconds for figures in every) - opened
    limits = [figures for figures in every if figures.set_limit_bytes]
    limit = max(limits, key=lambda one: one.opened, default=Figures())
    return Figures(
        **sums,
        opened=opened,
        seconds=seconds,
        rate=sums["pages"] / seconds if seconds else 0.0,
        seen=sum_of(SeenFigures, [figures.seen for figures in every]),
        archive=sum_of(ArchiveFigures, [figures.archive for figures in every]),
        shares=_sum_shares([figures.shares for figures in every]),
        traps=dict(traps.most_common()),
        statuses=dict(sorted(statuses.items())),
        set_limit=limit.set_limit,
        set_limit_bytes=limit.set_limit_bytes,
    )


def _read_statuses(value: Any) -> dict[str, int]:
    known = value if isinstance(value, dict) else {}
    return {
        status: whole(count)
        for status, count in list(known.items())[:MOST_STATUSES]
        if STATUS.fullmatch(str(status))
    }


def _read_traps(value: Any) -> dict[str, int]:
    known = value if isinstance(value, dict) else {}
    return {trap: whole(known[trap]) for trap in SETTINGS if trap in known}


def _read_shares(value: Any) -> Shares:
    """What *value* says of hosts and media types, and no more than `MOST_SHARES`."""
    known = value if isinstance(value, dict) else {}
    found: Shares = {}
    for kind in SHARES:
        shares = known.get(kind)
        found[kind] = {
            str(name)[:NAME_LIMIT]: ShareFigures(*map(whole, numbers))
            for name, numbers in list(
                (shares if isinstance(shares, dict) else {}).items()
            )[:MOST_SHARES]
            if isinstance(numbers, list) and len(numbers) == len(fields(ShareFigures))
        }
    return found


def _sum_shares(every: Iterable[Shares]) -> Shares:
    values = list(every)
    found: Shares = {}
    for kind in SHARES:
        kinds = [value.get(kind, {}) for value in values]
        names = {name for shares in kinds for name in shares}
        summed = {
            name: sum_of(ShareFigures, [s[name] for s in kinds if name in s])
            for name in names
        }
        most = sorted(summed, key=lambda name: (-summed[name].hit_bytes, name))
        found[kind] = {name: summed[name] for name in most}
    return found


def _read_figures(cls: type[T], value: Any) -> T:
    """A *cls*, a dataclass of whole numbers, with what *value* has of them."""
    known = value if isinstance(value, dict) else {}
    names = [f.name for f in fields(cast("Any", cls))]
    return cls(**{name: whole(known.get(name)) for name in names})


def sum_of(cls: type[T], every: Iterable[T]) -> T:
    """The sums, field by field, of *every* one of a dataclass of whole numbers."""
    values = list(every)
    names = [f.name for f in fields(cast("Any", cls))]
    return cls(**{name: sum(getattr(v, name) for v in values) for name in names})
