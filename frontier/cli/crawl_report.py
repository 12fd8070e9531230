"""What an operator asks of a crawl: how far, how long, which hosts, which machines.

No I/O, no clock. What always holds: a figure that is not known is said to be so, and
what follows from something says from what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from frontier.cli.report import (
    ERRORS,
    Rows,
    alone,
    back_offs,
    busy_nodes,
    dead_letters,
    facts,
    node_table,
    said,
    table,
    warc_files,
)
from frontier.status import sections
from frontier.status.text import duration, percent, size
from frontier.status.text import local_moment as when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from frontier.cli.report import WarcFiles
    from frontier.status.figures import Figures
    from frontier.status.quotas import Had
    from frontier.status.views import CrawlSnapshot
    from frontier.status.watch import HostView, Watched

FEW = 3
"""Hosts that one line names."""


def crawl_report(
    seen: CrawlSnapshot,
    files: WarcFiles,
    watched: Watched | None = None,
    quotas: Sequence[Had] = (),
) -> Iterator[RenderableType]:
    """The whole report of *seen*, of somebody who has *watched* it, if anybody has.

    Its WARC files are *files*.
    """
    if seen.kind == "dupefilter":
        yield from alone(seen)
        return
    yield from headline(seen, watched)
    yield Text()
    yield node_table(seen)
    if seen.gone:
        yield Text(f"The sum has {seen.gone:,} more nodes, which are gone")
    if seen.totals.errors:
        yield Text(ERRORS)
    yield from busy_nodes(seen)
    yield Text()
    rows = [*progress_rows(seen, watched), *quota_rows(quotas)]
    rows += error_rows(seen.totals)
    if watched is not None:
        rows += host_rows(watched)
    rows += said(sections.room(seen)) + request_rows(seen)
    rows += said(sections.seen_test(seen.tiers, seen.totals))
    yield facts(rows + said(sections.archive(seen.totals)))
    yield from back_offs(seen)
    yield from dead_letters(seen)
    yield from warc_files(files, has_ended=seen.state != "open")


def headline(
    seen: CrawlSnapshot, watched: Watched | None = None
) -> Iterator[RenderableType]:
    """How it is with the crawl, in a few lines."""
    lasted = f"{'in' if seen.finished_ms else 'for'} {duration(seen.seconds)}"
    yield Text(f"Crawl {seen.crawl_id}, spider {seen.spider}: {seen.state} {lasted}")
    yield from alert_lines(seen, watched)


def alert_lines(seen: CrawlSnapshot, watched: Watched | None = None) -> Iterator[Text]:
    """What a person should know first, a line for each."""
    known = () if watched is None else (watched.membership, watched.holders)
    for one in sections.alerts(seen, when, *known):
        text = f"{one.text}: {one.command}" if one.command else one.text
        if one.level == sections.INFO:
            yield Text(text)
        else:
            yield Text(f"WARNING: {text}", style="bold")


def request_rows(seen: CrawlSnapshot) -> Rows:
    """What became of the requests, and what servers answered."""
    rows = said(sections.requests(seen, when))
    answers = [f"{count:,} x {code}" for code, count in sections.statuses(seen.totals)]
    return rows + ([("HTTP statuses", ", ".join(answers))] if answers else [])


def progress_rows(seen: CrawlSnapshot, watched: Watched | None = None) -> Rows:
    """How far the crawl is, and how long it will go on."""
    said_of = [sections.limit(one).text for one in seen.limits]
    rows = [("" if n else "Limits", text) for n, text in enumerate(said_of)]
    if watched is None or seen.state != "open":
        return rows
    left = watched.time_left
    text = left.basis
    if left.seconds is not None:
        text = f"about {duration(left.seconds)}: {left.basis}"
    return [("Time left", text), *rows]


def quota_rows(every: Sequence[Had]) -> Rows:
    """How near hosts are to their quotas, the nearest first."""
    if not every:
        return []
    one = every[0]
    each = [
        *([f"{one.max_pages:,} pages"] if one.max_pages else []),
        *([size(one.max_bytes)] if one.max_bytes else []),
    ]
    rows = [("Quota of hosts", " and ".join(each))]
    for has in every[:FEW]:
        parts = [
            *([f"{has.pages:,} pages"] if has.max_pages else []),
            *([size(has.bytes)] if has.max_bytes else []),
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
    return ", ".join(f"{count:,} {kind}" for kind, count in sections.errors(counts))


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

    def about(one: HostView) -> str:
        parts = [_by_kind(one.error_kinds)] if one.error_kinds else []
        if one.left_alone:
            parts.append(f"left alone until {when(one.until_ms)}: {one.left_alone}")
        return "; ".join(parts)

    return table(
        "host",
        ">queued",
        ">delay",
        ">took",
        ">errors",
        "",
        rows=[
            (
                one.host,
                f"{one.queued:,}",
                f"{one.delay_ms / 1000:g} s" if one.delay_ms else "-",
                f"{one.seconds:.2g} s" if one.requests else "-",
                f"{one.errors:,}",
                about(one),
            )
            for one in hosts
        ],
    )


def _part(volume: int, whole: int) -> str:
    """*volume*, and which part of the *whole* that is, if there is one."""
    if not volume and not whole:
        return "-"
    return f"{size(volume)}{f' ({percent(volume, whole)})' if whole else ''}"


def room_table(seen: CrawlSnapshot) -> Table:
    """A row for each node on the map: where it runs, and what it has left."""
    numbers = ("pid", "memory", "disk left", "in flight", "inbox", "lag", "cpu")
    return table(
        "node",
        "machine",
        *(f">{number}" for number in numbers),
        rows=[
            (
                node.node_id,
                figures.machine or "-",
                f"{figures.pid or '-'}",
                _part(figures.memory_bytes, figures.memory_limit_bytes),
                _part(figures.disk_free_bytes, figures.disk_total_bytes),
                f"{figures.in_flight:,}",
                f"{figures.inbox:,}",
                f"{figures.lag_ms:,} ms",
                duration(figures.cpu_seconds),
            )
            for node, figures in sections.on_the_map(seen)
        ],
    )
