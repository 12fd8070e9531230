"""What people are told of a crawl; the terminal and the status page only show it.

No I/O and no clock. Times are spelled by *when*, which each of the two brings: a page
is read in any time zone, a terminal in its own.

What always holds: a figure that is not known is left out, and nothing here is HTML or
anything that a terminal would obey.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict, field
from itertools import islice
from typing import TYPE_CHECKING

from frontier.model import frozen
from frontier.status.figures import ERROR_KINDS
from frontier.status.forecast import time_left
from frontier.status.text import ago, counted, duration, first_of, percent, rate, size
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from frontier.status.figures import Figures
    from frontier.status.views import CrawlSnapshot, LimitProgress, NodeView, Tiers
    from frontier.status.watch import HostView, Watched

    When = Callable[[float], str]

BAD, WARN, INFO = "bad", "warn", "info"
"""Levels of alerts, and of what fills up."""
ON_THE_MAP = frozenset({"live", "leaving", "silent"})
"""States of nodes that are on the membership map."""
MOST_EXCLUDED = 5
"""Exclusions, and changed settings, that are named."""
LOST_MS = 3_600_000
"""Milliseconds for which a node that was lost is named above all else."""
MOST_LOST = 3
"""Lost nodes that are named."""
OLD_S = 10.0
"""Seconds from which on the age of the lengths of queues is shown."""
FEW = 3
"""Hosts that one line names."""
MOST_EVENTS = 100
"""Events of the membership log that are shown."""
MUCH_MEMORY = 0.9
"""The share of its limit above which a node has little memory left."""
LITTLE_DISK, LITTLE_DISK_BYTES = 0.05, 2_000_000_000
"""A disk that has less left than either, share or bytes, is nearly full."""
PLACES = {"silent": 0, "lost": 1, "live": 2, "leaving": 2, "left": 3}
"""The order of nodes in the table: those that need attention come first."""
NODE_COLUMNS = (
    "node",
    "state",
    ">pages/s",
    ">pages",
    ">new URLs",
    ">errors",
    ">holds",
    ">in flight",
    ">lag",
    ">memory",
    ">disk left",
    ">heartbeat",
)
HOST_COLUMNS = ("host", ">queued", ">delay", ">took", ">errors", "")
SITE_COLUMNS = ("site", "state", ">rounds", ">URLs", ">new items", "next")
LATE_MS = 1000
"""Milliseconds of lag from which on a node is too late."""


@frozen
class Alert:
    """What a person should know first."""

    level: str
    """`BAD`, `WARN` or `INFO`."""
    text: str
    command: str = ""
    """The command that does something about it; empty if none does."""


@frozen
class Row:
    """One fact, or a cell of a table."""

    name: str
    """Empty if it belongs to the row before."""
    text: str
    share: float | None = None
    """How full its subject is, from 0 to 1; ``None`` if that does not fill up."""
    level: str = ""
    note: str = ""
    """A remark in small letters."""
    command: str = ""


@frozen
class Section:
    """What is said of one thing: facts, and a table where there is one."""

    name: str
    title: str
    about: str = ""
    """Text after the title."""
    rows: Sequence[Row] = ()
    columns: Sequence[str] = ()
    """Headings; a column of numbers has one that begins with >."""
    table: Sequence[Sequence[Row | str]] = field(default=())


def sections(watched: Watched, when: When) -> list[Section]:
    """All that is said of a crawl, below its alerts, in order."""
    crawl = watched.crawl
    return [
        Section("progress", "Progress", rows=[*progress(watched)]),
        nodes(crawl),
        hosts(watched, when),
        Section("requests", "Requests", rows=[*requests(crawl, when)]),
        Section("seen", "Seen test", rows=[*seen_test(crawl.tiers, crawl.totals)]),
        Section("archive", "Archive", rows=[*archive(crawl.totals)]),
        dead(crawl),
        membership(watched, when),
        *later(watched),
    ]


def one_line(crawl: CrawlSnapshot) -> str:
    """How *crawl* is doing, in one line."""
    totals, left = crawl.totals, time_left(crawl)
    live = sum(node.state == "live" for node in crawl.nodes)
    text = left.basis
    if left.seconds is not None:
        text = f"{duration(left.seconds)} ({text})"
    pace = f"{rate(totals.lately.pages)} pages/s"
    parts = [
        f"{crawl.crawl_id} {crawl.state}",
        *([first_of(crawl.waits, 1)] if crawl.waits else []),
        counted(live, "node"),
        f"{totals.pages:,} pages",
        pace if totals.lately_seconds else "no pace yet",
        f"{crawl.queue.ready + crawl.queue.reserved:,} queued",
        f"{totals.errors:,} errors",
        *([f"left: {text}"] if crawl.state == "open" else []),
    ]
    return ", ".join(parts)


def progress(watched: Watched) -> Iterator[Row]:
    """How far the crawl is, and how long it will go on: numbers, then limits."""
    crawl, totals, queue = watched.crawl, watched.crawl.totals, watched.crawl.queue
    is_open = crawl.state == "open"
    now, note = totals.rate, "while its nodes ran"
    if is_open:
        now = totals.lately.pages
        note = f"in a minute; {rate(totals.rate)}/s from its start"
    yield Row("Pages per second", rate(now), note=note)
    yield Row("Pages", f"{totals.pages:,}", note=size(totals.bytes))
    if totals.items:
        yield Row("Items", f"{totals.items:,}")
    yield Row("Ready", f"{queue.ready:,}", note=f"{queue.reserved:,} reserved")
    new, known = found(totals)
    note = f"{new:,} new, {known:,} seen ({percent(known, new + known)})"
    yield Row("URLs found", f"{new + known:,}", note=note)
    notes, errors = list[str](), ""
    if totals.errors <= totals.requests:  # a page whose robots.txt fails is not sent
        notes.append(f"{percent(totals.errors, totals.requests)} of requests")
    if totals.lately.errors and is_open:
        errors = BAD
        notes.append(f"{rate(totals.lately.errors)}/s")
    yield Row("Errors", f"{totals.errors:,}", None, errors, ", ".join(notes))
    if is_open:
        left = watched.time_left
        text = "unknown" if left.seconds is None else duration(left.seconds)
        yield Row("Time left", text, note=left.basis.removeprefix("unknown: "))
    for one in crawl.limits:
        yield limit(one)
    for n, had in enumerate(watched.quotas[:FEW]):
        parts = []
        if had.max_pages:
            parts.append(f"{had.pages:,} of {had.max_pages:,} pages")
        if had.max_bytes:
            parts.append(f"{size(had.bytes)} of {size(had.max_bytes)}")
        text = f"{had.host} has had {' and '.join(parts)} ({had.share:.0%})"
        yield Row("" if n else "Quota of hosts", text, min(1.0, had.share))


def nodes(crawl: CrawlSnapshot) -> Section:
    """A row for each node: what it did, and how it is now."""
    every = sorted(crawl.nodes, key=lambda node: PLACES[node.state])
    words = [f"{n:,} {state}" for state, n in Counter(n.state for n in every).items()]
    if crawl.gone:
        words.append(f"{crawl.gone:,} gone before")
    rows = [_node(crawl, node) for node in every]
    return Section("nodes", "Nodes", ", ".join(words), (), NODE_COLUMNS, rows)


def _node(crawl: CrawlSnapshot, node: NodeView) -> list[Row | str]:
    figures, is_there = node.figures, node.state in ON_THE_MAP
    if figures is None:
        return [node.node_id, node.state, *["-"] * (len(NODE_COLUMNS) - 2)]
    where = f"{figures.machine}, process {figures.pid}" if figures.machine else ""
    is_at_work = is_there and crawl.state == "open"
    shown: list[Row | str] = [
        Row("", node.node_id, note=where),
        node.state,
        rate(figures.lately.pages if is_at_work else figures.rate),
        *(f"{n:,}" for n in (figures.pages, figures.new, figures.errors, node.held)),
    ]
    if not is_there:
        return [*shown, *["-"] * (len(NODE_COLUMNS) - len(shown))]
    late = WARN if figures.lag_ms >= LATE_MS else ""
    memory, used = memory_used(figures), disk_used(figures)
    free = "-" if used is None else size(figures.disk_free_bytes)
    return [
        *shown,
        f"{figures.in_flight:,}",
        Row("", f"{figures.lag_ms:,} ms", None, late),
        Row("", size(figures.memory_bytes), memory, _level(memory)),
        Row("", free, used, _level(used)),
        ago(crawl.taken_ms - node.beat_ms) if node.beat_ms else "-",
    ]


def hosts(watched: Watched, when: When) -> Section:
    """Hosts that fail, have most queued, are slow, or are left alone."""
    totals, every = watched.crawl.totals, watched.hosts
    rows, alone = [], watched.crawl.back_offs
    if kinds := _by_kind(totals.error_kinds):
        rows.append(Row("Errors, by kind", kinds))
    failing = {h: sum(kinds.values()) for h, kinds in totals.host_errors.items()}
    slow = sorted(every, key=lambda one: -one.seconds)
    named = {
        "Errors, by host": [f"{host} {count:,}" for host, count in failing.items()],
        "Longest queues": [f"{one.host} {one.queued:,}" for one in every if one.queued],
        "Slowest hosts": [
            f"{h.host} {h.seconds:.2g} s" for h in slow if h.seconds >= 1
        ],
        "Left alone": [
            f"{one.host} until {when(one.until_ms)}: {one.why}, "
            f"{counted(one.failures, 'time')}"
            for one in alone.named
        ],
    }
    for name, known in named.items():
        if known:
            rows.append(Row(name, first_of(known, FEW)))
    about = f"queues with requests: {watched.queued_hosts:,}"
    if watched.queues_s >= OLD_S:
        about += f", by lengths of {duration(watched.queues_s)} ago"
    if alone.hosts:
        about += f"; hosts left alone: {alone.hosts:,}"
    most = max((one.queued for one in every), default=0)
    table = [_host(one, when, most) for one in every]
    return Section("hosts", "Hosts", about, rows, HOST_COLUMNS, table)


def _host(one: HostView, when: When, most: int) -> list[Row | str]:
    parts = [_by_kind(one.error_kinds)] if one.error_kinds else []
    if one.left_alone:
        parts.append(f"left alone until {when(one.until_ms)}: {one.left_alone}")
    return [
        one.host,
        Row("", f"{one.queued:,}", _share(one.queued, most)),
        f"{one.delay_ms / 1000:g} s" if one.delay_ms else "-",
        f"{one.seconds:.2g} s" if one.requests else "-",
        f"{one.errors:,}",
        "; ".join(parts),
    ]


def dead(crawl: CrawlSnapshot) -> Section:
    """What was given up, and the commands that list it and put it back."""
    count, name = crawl.queue.dead, shlex.quote(crawl.crawl_id)
    rows = [
        Row("Given up", one.url or "a request that cannot be read", note=one.reason)
        for one in crawl.dead_letters
    ]
    if count:
        more = f"frontier crawl dead --crawl {name}"
        rows.append(Row("List them", "", command=more))
        again = f"frontier crawl requeue --all --crawl {name}"
        rows.append(Row("Put all back", "", command=again))
    return Section("dead", "Dead letters", f"{count:,}", rows)


def membership(watched: Watched, when: When) -> Section:
    """What has happened to the members of the crawl, the newest first."""
    from frontier.status.membership_log import said_of

    some = islice(watched.membership, MOST_EVENTS)
    rows = [Row(when(one.at_ms), said_of(one)) for one in some]
    if watched.membership_unread:
        text = f"{watched.membership_unread} entries that cannot be read are left out"
        rows.append(Row("", text))
    return Section("log", "Membership", rows=rows)


def later(watched: Watched) -> Iterator[Section]:
    """What waits until it is due, and the sites of feeds, where there are any."""
    due, feeds, rows = watched.recrawl, watched.feeds, []
    if due is not None:
        text = f"{due.waiting:,} URLs, {due.next_hour:,} within an hour"
        rows.append(Row("Wait", f"{text}, {due.overdue:,} overdue"))
        if due.intervals.pages:
            least, most = duration(due.intervals.least), duration(due.intervals.most)
            text = f"{duration(due.intervals.mean)}, from {least} to {most}"
            rows.append(Row("Visited every", f"{text}, by a sample"))
        often = [
            f"{host} {duration(one.mean)} ({one.pages:,} pages)"
            for host, one in due.largest(MOST_EXCLUDED)
        ]
        if often:
            rows.append(Row("By host", ", ".join(often)))
    table: list[list[Row | str]] = []
    if feeds is not None:
        resting = f", {feeds.resting:,} paused or ended" if feeds.resting else ""
        text = f"{feeds.sites:,}, {feeds.due:,} due{resting}"
        rows.append(Row("Sites of feeds", text))
        for one in feeds.named:
            left = (one.next_ms - watched.crawl.taken_ms) / 1000
            due_in = f"in {duration(left)}" if left > 0 else "now"
            counts = (f"{n:,}" for n in (one.round, one.urls, one.items))
            table.append([one.name, one.state, *counts, due_in if one.next_ms else "-"])
    if rows:
        title = "Recrawl and feeds"
        yield Section("later", title, "", rows, SITE_COLUMNS, table)


def alerts(watched: Watched, when: When) -> Iterator[Alert]:
    """What a person should know first of a crawl."""
    crawl = watched.crawl
    is_open = crawl.state == "open"
    by = crawl.controls.paused
    if by is not None and is_open:
        lasts = duration(max(0, crawl.taken_ms - by.at_ms) / 1000)
        text = f"PAUSED for {lasts}, since {when(by.at_ms)} by {by.who}"
        yield Alert(WARN, text, f"frontier crawl resume --crawl {crawl.crawl_id}")
    excluded = [f"{one.kind} {one.value}" for one in crawl.controls.excluded]
    if excluded:
        yield Alert(INFO, f"Excluded: {first_of(excluded, MOST_EXCLUDED)}")
    changed = [
        f"{one.name} = {one.value}{f' for {one.host}' * bool(one.host)}"
        for one in crawl.controls.changed
    ]
    if changed:
        yield Alert(INFO, f"Changed: {first_of(changed, MOST_EXCLUDED)}")
    if crawl.ended_at:
        yield Alert(INFO, f"It {crawl.ended_at}")
    if crawl.has_failed:
        yield Alert(BAD, f"It has fetched nothing: {_unfetched(crawl)}")
    if crawl.harmed:
        yield Alert(BAD, f"It has {crawl.harm}")
    if crawl.lost:
        text = f"{crawl.lost:,} of {crawl.partitions:,} partitions are lost"
        yield Alert(BAD, f"The store was emptied or went back: {text}")
    if is_open and not any(node.state == "live" for node in crawl.nodes):
        yield Alert(WARN, "No node is live: nothing is fetched until one starts")
    if is_open:
        yield from (Alert(BAD, text) for text in crawl.waits)
        yield from _missing(watched, when)
    yield from _short_of_room(crawl)
    if crawl.twice:
        yield Alert(WARN, _twice(crawl, when))


def _missing(watched: Watched, when: When) -> Iterator[Alert]:
    """Nodes that do not answer, and those that were lost and did not come back."""
    # Imports the client of Redis, which most commands start without.
    from frontier.status.membership_log import LOST, said_of

    crawl = watched.crawl
    others = any(node.state == "live" for node in crawl.nodes)
    then = "the others take its partitions" if others else "no heartbeat arrives"
    for node in crawl.nodes:
        if node.state == "silent":
            yield Alert(WARN, f"{node.node_id} is silent: {then}")
        figures = node.figures
        if node.state == "live" and figures is not None and figures.busy_seconds:
            what = figures.busy_url or "something that is not a callback"
            lasts = duration(figures.busy_seconds)
            text = f"{node.node_id} has been busy for {lasts} with {what}"
            yield Alert(INFO, text)
    there = {node.node_id for node in crawl.nodes if node.state in ON_THE_MAP}
    since = crawl.taken_ms - LOST_MS
    lost: dict[str, str] = {}
    for one in watched.membership:
        if one.what in LOST and one.at_ms >= since and one.node_id not in there:
            lost.setdefault(one.node_id, f"{when(one.at_ms)} {said_of(one)}")
    if not lost:
        return
    text = f"Lost lately: {first_of([*lost.values()], MOST_LOST, '; ')}"
    free = sum(holder not in there for holder in watched.holders)
    many = counted(free, "partition")
    who = f"{many} without a new holder" if free else "Others hold all partitions"
    yield Alert(WARN, f"{text}. {who}")


def _short_of_room(crawl: CrawlSnapshot) -> Iterator[Alert]:
    """Nodes that have little memory or disk left."""
    for node, figures in on_the_map(crawl):
        limit = figures.memory_limit_bytes
        if limit and figures.memory_bytes > MUCH_MEMORY * limit:
            used = f"{size(figures.memory_bytes)} of {size(limit)}"
            yield Alert(WARN, f"{node.node_id} has little memory left: it has {used}")
        total, free = figures.disk_total_bytes, figures.disk_free_bytes
        if total and free < max(LITTLE_DISK * total, LITTLE_DISK_BYTES):
            left = f"{size(free)} of {size(total)}"
            yield Alert(WARN, f"{node.node_id} has little disk left: {left}")


def _twice(crawl: CrawlSnapshot, when: When) -> str:
    there = {node.node_id: figures for node, figures in on_the_map(crawl)}
    other, where = there.get(crawl.twice), ""
    if other is not None and other.machine:
        where = f"; the other runs as process {other.pid} on {other.machine}"
    return (
        f"two processes had the id {crawl.twice} at {when(crawl.twice_ms)}: the first "
        f"was stopped{where}. Give each node a FRONTIER_NODE_ID of its own, or none"
    )


def on_the_map(crawl: CrawlSnapshot) -> list[tuple[NodeView, Figures]]:
    """The nodes of *crawl* that are on the map and have reported, and their figures."""
    return [
        (node, node.figures)
        for node in crawl.nodes
        if node.figures is not None and node.state in ON_THE_MAP
    ]


def limit(one: LimitProgress) -> Row:
    """How close a crawl is to one of its limits."""
    value, most = f"{one.value:,}", f"{one.limit:,}"
    if one.name == "time":
        value, most = duration(one.value / 1000), duration(one.limit / 1000)
    elif one.name == "bytes":
        value, most = size(one.value), size(one.limit)
    text = f"{one.name} {value} of {most} ({percent(one.value, one.limit)})"
    return Row(one.setting, text, one.share)


def requests(crawl: CrawlSnapshot, when: When) -> Iterator[Row]:
    """What became of the requests, what is left, and what was not requested."""
    queue, totals = crawl.queue, crawl.totals
    parts = [
        f"{queue.pushed:,} queued: {queue.acked:,} done",
        f"{queue.ready:,} ready",
        f"{queue.reserved:,} reserved",
        f"{queue.dead:,} given up",
    ]
    yield Row("Queue", ", ".join(parts))
    has_excluded = totals.excluded or crawl.controls.excluded
    why = "excluded, or their host had" if has_excluded else "their host had"
    for count, text in (
        (queue.waiting, f"wait until they are due, the next {when(queue.due)}"),
        (queue.skipped, f"not fetched: {why} its quota"),
        (
            totals.excluded,
            "links and queued requests dropped: an operator excluded them",
        ),
        (totals.forbidden, "done without being sent: robots.txt disallows them"),
        (
            totals.refused,
            "done without being sent: out of scope, excluded, or at addresses refused",
        ),
        (
            min(totals.given_up, queue.dead),  # less what was requeued
            "not sent: their hosts did not answer again and again",
        ),
        (totals.trapped, f"more links left out{_by_trap(totals)}"),
        (totals.reclaimed, "reservations taken back: no node had them any more"),
        (totals.local, "could not be stored, sent by one process"),
    ):
        if count:
            yield Row("", f"{count:,} {text}")
    lost = [node.node_id for node in crawl.nodes if node.state == "lost"]
    if crawl.gone_lost:
        lost.append(f"{crawl.gone_lost:,} gone before")
    if lost:
        text = "the sums lack what was done after the last report; the queue is exact"
        yield Row("Lost nodes", f"{first_of(lost, MOST_LOST)}: {text}")
    if crawl.removed_ms:
        yield Row("", "the queues and what was seen are removed from the store")
    if totals.statuses:
        yield Row("HTTP statuses", ", ".join(_statuses(totals)))


def _unfetched(crawl: CrawlSnapshot) -> str:
    """What became of the requests of a crawl that has no page."""
    queue, totals = crawl.queue, crawl.totals
    parts = [
        f"{count:,} {what}"
        for count, what in (
            (queue.dead, "given up"),
            (totals.forbidden, "disallowed by robots.txt"),
            (totals.refused, "out of scope, excluded, or at addresses not allowed"),
            (queue.skipped, "of hosts that had their quota"),
        )
        if count
    ]
    return ", ".join([counted(queue.pushed, "request"), *parts])


def _by_trap(totals: Figures) -> str:
    """By which limits links were left out."""
    most = _most_first(totals.traps)
    kinds = [f"{count:,} over {SETTINGS[trap]}" for trap, count in most]
    return f": {', '.join(kinds)}" if kinds else ""


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """What was counted, the most frequent first."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _statuses(totals: Figures) -> list[str]:
    """How many answers had which HTTP status."""
    most = _most_first(totals.statuses)
    return [f"{count:,} x {code}" for code, count in most]


def _by_kind(counts: Mapping[str, int]) -> str:
    """The kinds of errors, the most frequent first."""
    most = _most_first(counts)
    return ", ".join(f"{n:,} {ERROR_KINDS[kind]}" for kind, n in most if n)


def found(totals: Figures) -> tuple[int, int]:
    """How many URLs were new, and how many had been seen.

    URLs that another scheduler had seen were queued as new before the imported filter
    was asked, so they are subtracted from the new ones.
    """
    tiers = totals.seen
    every = tiers.recent + tiers.bloom + tiers.set + tiers.imported
    return max(0, totals.new - tiers.imported), every


def seen_test(tiers: Tiers | None, totals: Figures) -> Iterator[Row]:
    """What was found, by tier, and what the shared tiers hold."""
    _, every = found(totals)
    by_tier = [
        f"{count:,} {tier} ({percent(count, every)})"
        for tier, count in asdict(totals.seen).items()
        if count
    ]
    if by_tier:
        yield Row("Seen, by tier", ", ".join(by_tier))
    if tiers is None or not tiers.state.urls:
        return
    state = tiers.state
    if tiers.has_set:
        yield _set(tiers, totals)
    if tiers.has_bloom:
        yield _bloom(tiers)
    if state.given_up or not tiers.has_set:
        yield Row("URLs lost", f"{state.lost:,.1f} new ones called seen, expected")


def _set(tiers: Tiers, totals: Figures) -> Row:
    state, most = tiers.state, totals.set_limit_bytes
    text = f"{state.set_urls:,} URLs"
    text += f", {size(state.set_bytes)}"
    if most:
        text += f" of {size(most)} at most"
    if state.given_up:
        text += f"; {state.given_up:,} were given up to Bloom"
    share = _share(state.set_bytes, most) if most else None
    return Row("Set", text, share, _level(share))


def _bloom(tiers: Tiers) -> Row:
    state = tiers.state
    if not state.generations:
        return Row("Bloom", "nothing yet")
    text = f"{state.bloom_urls:,} URLs at most, {state.bloom_fill:.0%} full"
    many = "generations" if state.generations > 1 else "generation"
    text += f", {state.generations} {many}, {size(state.bloom_bytes)}"
    text += f"; error {state.bloom_error:.1g}"
    return Row("Bloom", text, state.bloom_fill, _level(state.bloom_fill))


def archive(totals: Figures) -> Iterator[Row]:
    """What was stored, what was not stored again, and how its original was found."""
    had = totals.archive
    share = percent(had.revisits, had.originals + had.revisits)
    text = f"{had.originals:,} originals, {had.revisits:,} revisits ({share})"
    yield Row("Payloads", text)
    volume, saved = had.original_bytes + had.revisit_bytes, had.revisit_bytes
    share = percent(saved, volume)
    text = f"{size(saved)} of {size(volume)} of payloads ({share}); headers are kept"
    yield Row("Bytes saved", text, _share(saved, volume) if volume else None)
    if had.files:
        files = counted(had.files, "WARC file")
        yield Row("Written", f"{size(had.written_bytes)} in {files}")
    if not had.handled:
        return
    kinds = [
        f"{count:,} {name} ({size(volume)})"
        for name, count, volume in (
            ("of the same URL", had.exact_url, had.exact_url_bytes),
            ("of an equivalent one", had.canonical_url, had.canonical_url_bytes),
            ("of another", had.digest, had.digest_bytes),
        )
        if count
    ]
    if kinds:
        yield Row("Originals found", ", ".join(kinds))
    each = had.lookup_us / had.handled
    yield Row("Looked up", f"{had.handled:,} payloads, {each:,.0f} us each")
    if had.unmodified:
        yield Row("Not modified", f"{had.unmodified:,} that servers were asked")
    if had.cdx_asked:
        asked = f"{had.cdx_found:,} found, of {had.cdx_asked:,} asked for"
        each = had.cdx_us / had.cdx_asked / 1000
        failed = f"{had.cdx_failed:,} failed, {each:,.0f} ms each"
        yield Row("At CDX servers", f"{asked}; {failed}")


def memory_used(figures: Figures) -> float | None:
    """The part of a node's memory that is used; ``None`` without a limit."""
    limit = figures.memory_limit_bytes
    return _share(figures.memory_bytes, limit) if limit else None


def disk_used(figures: Figures) -> float | None:
    """The part of a node's disk that is used; ``None`` without an archive."""
    total = figures.disk_total_bytes
    return 1 - _share(figures.disk_free_bytes, total) if total else None


def _share(part: float, whole: float) -> float:
    """*part* of *whole*, from 0 to 1."""
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


def _level(share: float | None) -> str:
    """How bad it is that something is so full."""
    if share is None or share < 0.85:
        return ""
    return BAD if share > 0.95 else WARN
