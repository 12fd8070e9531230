"""What an operator asks of a crawl: how far, how long, which hosts, which machines.

No I/O, no clock. What always holds: a figure that is not known is said to be so, and
what follows from something says from what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from frontier.cli.report import Rows, percent, report, when
from frontier.status.durations import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from frontier.cli.report import WarcFiles
    from frontier.status.quotas import Had
    from frontier.status.views import CrawlSnapshot, Figures, LimitProgress, NodeView
    from frontier.status.watch import HostView, Watched

KINDS = {
    "dns": "name not known",
    "refused": "connection refused",
    "timeout": "time-out",
    "tls": "TLS",
    "reset": "connection broken",
    "http_429": "answer 429",
    "http_5xx": "answer 5xx",
    "other": "other",
}
"""Kinds of errors, for people."""
FEW = 3
"""Hosts that one line names, and nodes that were lost."""
RECENT_MS = 3_600_000
"""For so long a node that was lost is named."""
MOST_MEMORY = 0.9
"""The part of its limit from which on a node has little memory left."""
LEAST_DISK = 0.05
LEAST_DISK_BYTES = 2_000_000_000
"""A disk with less than either is said to be nearly full."""


def crawl_report(
    seen: CrawlSnapshot,
    files: WarcFiles,
    watched: Watched | None = None,
    quotas: Sequence[Had] = (),
) -> Iterator[RenderableType]:
    """The whole report of *seen*, of somebody who has *watched* it, if anybody has."""
    rows = [*progress_rows(seen, watched), *quota_rows(quotas)]
    rows += error_rows(seen.totals)
    if watched is not None:
        rows += host_rows(watched)
        rows += lost_rows(watched)
    yield from report(seen, files, [*rows, *room_rows(seen)], [*warnings(seen)])


def lost_rows(watched: Watched) -> Rows:
    """The nodes that were lost, or removed, in the last hour."""
    from frontier.status.membership_log import lost_since, said_of

    since = watched.crawl.taken_ms - RECENT_MS
    found = lost_since(watched.membership, since, FEW)
    said = [f"{when(event.at_ms)} {said_of(event)}" for event in found]
    return [("" if n else "Lost lately", text) for n, text in enumerate(said)]


def progress_rows(seen: CrawlSnapshot, watched: Watched | None = None) -> Rows:
    """How far the crawl is, and how long it will go on."""
    rows = [("", _limit(one)) for one in seen.limits]
    if rows:
        rows[0] = ("Limits", rows[0][1])
    if watched is None or seen.state != "open":
        return rows
    left = watched.time_left
    text = left.basis
    if left.seconds is not None:
        text = f"about {duration(left.seconds)}: {left.basis}"
    return [("Time left", text), *rows]


def _limit(one: LimitProgress) -> str:
    value, limit = f"{one.value:,}", f"{one.limit:,}"
    if one.name == "time":
        value, limit = duration(one.value / 1000), duration(one.limit / 1000)
    elif one.name == "bytes":
        value, limit = decimal(one.value), decimal(one.limit)
    return f"{one.name} {value} of {limit} ({percent(one.value, one.limit)})"


def quota_rows(every: Sequence[Had]) -> Rows:
    """How near hosts are to their quotas, the nearest first."""
    if not every:
        return []
    one = every[0]
    each = [
        *([f"{one.max_pages:,} pages"] if one.max_pages else []),
        *([decimal(one.max_bytes)] if one.max_bytes else []),
    ]
    rows = [("Quota of hosts", " and ".join(each))]
    for has in every[:FEW]:
        parts = [
            *([f"{has.pages:,} pages"] if has.max_pages else []),
            *([decimal(has.bytes)] if has.max_bytes else []),
        ]
        rows.append(("", f"{has.host} has had {' and '.join(parts)} ({has.share:.0%})"))
    return rows


def error_rows(totals: Figures) -> Rows:
    """The errors by kind, and the hosts that have most of them."""
    kinds = _by_kind(totals.error_kinds)
    if not kinds:
        return []
    rows = [("Errors", kinds)]
    most = list(totals.host_errors.items())[:FEW]
    if most:
        hosts = [f"{host} {sum(counts.values()):,}" for host, counts in most]
        left = len(totals.host_errors) - len(most)
        more = f", and {left:,} hosts more" if left else ""
        rows.append(("Errors, by host", f"{', '.join(hosts)}{more}"))
    return rows


def _by_kind(counts: dict[str, int]) -> str:
    every = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{count:,} {KINDS.get(k, k)}" for k, count in every if count)


def host_rows(watched: Watched) -> Rows:
    """The longest queues, and the slowest hosts."""
    queued = [one for one in watched.hosts if one.queued][:FEW]
    slow = sorted(watched.hosts, key=lambda one: -one.seconds)[:FEW]
    rows: Rows = []
    if queued:
        longest = ", ".join(f"{one.host} {one.queued:,}" for one in queued)
        rows.append(("Longest queues", longest))
    slowest = ", ".join(
        f"{one.host} {one.seconds:.2g} s" for one in slow if one.seconds >= 1
    )
    return [*rows, *([("Slowest hosts", slowest)] if slowest else [])]


def hosts_table(hosts: Sequence[HostView]) -> Table:
    """A row for each of *hosts*: those with the longest queues first."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("host", overflow="fold")
    for heading in ("queued", "delay", "took", "errors"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in hosts:
        about = [_by_kind(one.error_kinds)] if one.error_kinds else []
        if one.left_alone:
            about.append(f"left alone until {when(one.until_ms)}: {one.left_alone}")
        table.add_row(
            Text(one.host),
            f"{one.queued:,}",
            f"{one.delay_ms / 1000:g} s" if one.delay_ms else "-",
            f"{one.seconds:.2g} s" if one.requests else "-",
            f"{one.errors:,}",
            Text("; ".join(about)),
        )
    return table


def _there(seen: CrawlSnapshot) -> list[tuple[NodeView, Figures]]:
    """Nodes that are on the map, and what they report."""
    states = {"live", "leaving", "silent"}
    return [
        (node, node.figures)
        for node in seen.nodes
        if node.figures is not None and node.state in states
    ]


def room_rows(seen: CrawlSnapshot) -> Rows:
    """The node that has most of its memory in use, and that with the fullest disk."""
    nodes = _there(seen)
    rows: Rows = []
    used = max(nodes, key=lambda one: _memory(one[1]), default=None)
    if used is not None and used[1].memory_bytes:
        rows.append(("Memory", f"at most {_memory_text(used[1])}, {used[0].node_id}"))
    disks = [one for one in nodes if one[1].disk_total_bytes]
    fullest = min(disks, key=lambda one: one[1].disk_free_bytes, default=None)
    if fullest is not None:
        text = f"at least {_disk_text(fullest[1])}, {fullest[0].node_id}"
        rows.append(("Disk left", text))
    return rows


def _memory(figures: Figures) -> float:
    """By what a node's memory is compared with that of others."""
    limit = figures.memory_limit_bytes
    return figures.memory_bytes / limit if limit else figures.memory_bytes / 1e15


def _memory_text(figures: Figures) -> str:
    text = decimal(figures.memory_bytes)
    limit = figures.memory_limit_bytes
    return f"{text} of {decimal(limit)}" if limit else text


def _disk_text(figures: Figures) -> str:
    return f"{decimal(figures.disk_free_bytes)} of {decimal(figures.disk_total_bytes)}"


def warnings(seen: CrawlSnapshot) -> Iterator[Text]:
    """A line for each node that waits or has little room, and an id that two had."""
    yield from map(_warning, seen.waits)
    for node, figures in _there(seen):
        limit = figures.memory_limit_bytes
        if limit and figures.memory_bytes > MOST_MEMORY * limit:
            text = f"{node.node_id} has little memory left: it has"
            yield _warning(f"{text} {_memory_text(figures)}")
        total, free = figures.disk_total_bytes, figures.disk_free_bytes
        if total and free < max(LEAST_DISK * total, LEAST_DISK_BYTES):
            yield _warning(
                f"{node.node_id} has little disk left: {_disk_text(figures)}"
            )
    if seen.twice:
        there = {n.node_id: f for n, f in _there(seen)}.get(seen.twice)
        where = ""
        if there is not None and there.machine:
            where = f"; the other runs as process {there.pid} on {there.machine}"
        yield _warning(
            f"two processes had the id {seen.twice} at {when(seen.twice_ms)}: the "
            f"first was stopped{where}. Give each node a FRONTIER_NODE_ID of its own, "
            "or none"
        )


def _warning(text: str) -> Text:
    return Text(f"WARNING: {text}", style="bold")


def _part(size: int, whole: int) -> str:
    """*size*, and which part of the *whole* that is, if there is one."""
    if not size and not whole:
        return "-"
    return f"{decimal(size)}{f' ({percent(size, whole)})' if whole else ''}"


def room_table(seen: CrawlSnapshot) -> Table:
    """A row for each node on the map: where it runs, and what it has left."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("node", overflow="ellipsis")
    table.add_column("machine", overflow="ellipsis")
    for heading in ("pid", "memory", "disk left", "in flight", "inbox", "lag", "cpu"):
        table.add_column(heading, justify="right", no_wrap=True)
    for node, figures in _there(seen):
        table.add_row(
            node.node_id,
            Text(figures.machine or "-"),
            f"{figures.pid or '-'}",
            _part(figures.memory_bytes, figures.memory_limit_bytes),
            _part(figures.disk_free_bytes, figures.disk_total_bytes),
            f"{figures.in_flight:,}",
            f"{figures.inbox:,}",
            f"{figures.lag_ms:,} ms",
            duration(figures.cpu_seconds),
        )
    return table
