"""The report of a crawl, as something to print. No I/O, no clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from frontier.status.durations import duration
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from frontier.cluster.controls import Entry
    from frontier.status.views import CrawlSnapshot, Excluded, Figures, NodeView, Tiers

MAX_FILES = 6
"""WARC files that are listed; the others are counted."""

PACE = "pages/s"
COLUMNS = (
    "node",
    "state",
    "share",
    "pages",
    PACE,
    "bytes",
    "new URLs",
    "errors",
)
ERRORS = "errors: requests without an answer, and answers 429 and 5xx; each try counts"
MAX_EXCLUDED = 5
"""Exclusions that are named."""
MAX_LEFT_ALONE = 10
"""Hosts that are left alone and named."""
MAX_SHARES = 4
"""Hosts, and media types, that are named."""

Rows = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class WarcFiles:
    """The WARC files of a crawl on this machine."""

    directory: Path
    sizes: tuple[tuple[str, int], ...]
    """Name and bytes of each, by name."""

    @classmethod
    def of(cls, directory: Path, crawl_id: str) -> WarcFiles:
        """Those of *crawl_id* in *directory*, finished or not."""
        found: list[tuple[str, int]] = []
        if directory.is_dir():
            found = sorted(
                (path.name, path.stat().st_size)
                for path in directory.glob("*.warc.gz*")
                if path.name.startswith(f"{crawl_id}-") and path.is_file()
            )
        return cls(directory, tuple(found))


def report(
    seen: CrawlSnapshot,
    files: WarcFiles,
    more: Rows | None = None,
    lines: Iterable[RenderableType] = (),
) -> Iterator[RenderableType]:
    """The report of *seen*, whose WARC files are *files*.

    *lines* come after its nodes, and *more* before its other facts.
    """
    if seen.kind == "dupefilter":
        yield from _alone(seen)
        return
    yield from headline(seen)
    yield Text()
    yield node_table(seen)
    if seen.gone:
        yield Text(f"The sum has {seen.gone:,} more nodes, which are gone")
    if seen.totals.errors:
        yield Text(ERRORS)
    yield from busy_nodes(seen)
    yield from lines
    yield Text()
    yield facts(
        (more or [])
        + queue_rows(seen)
        + _statuses(seen.totals)
        + _seen(seen.totals)
        + _tiers(seen.tiers, seen.totals)
        + _archive(seen.totals)
    )
    yield from _back_offs(seen)
    yield from _dead_letters(seen)
    yield from _files(files, has_ended=seen.state != "open")


def headline(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """How it is with the crawl, in a few lines."""
    lasted = f"{'in' if seen.finished_ms else 'for'} {duration(seen.seconds)}"
    yield Text(f"Crawl {seen.crawl_id}, spider {seen.spider}: {seen.state} {lasted}")
    yield from _controls(seen)
    if seen.ended_at:
        yield Text(f"It {seen.ended_at}")
    if seen.harmed:
        yield Text(f"It has {seen.harm}")
    if seen.has_failed:
        yield Text(f"It has fetched nothing: {_unfetched(seen)}")


def _controls(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """What an operator wants of *seen* that is not what it began with."""
    by = seen.controls.paused
    if by is not None and seen.state == "open":
        lasts = duration(max(0, seen.taken_ms - by.at_ms) / 1000)
        yield Text(
            f"PAUSED for {lasts}, since {when(by.at_ms)} by {by.who}; "
            f"frontier crawl resume --crawl {seen.crawl_id} goes on"
        )
    excluded = seen.controls.excluded
    if excluded:
        named = ", ".join(f"{one.kind} {one.value}" for one in excluded[:MAX_EXCLUDED])
        more = len(excluded) - MAX_EXCLUDED
        yield Text(f"Excluded: {named}{f' and {more:,} more' if more > 0 else ''}")
    changed = seen.controls.changed
    if changed:
        named = ", ".join(
            f"{one.name} = {one.value}{f' for {one.host}' * bool(one.host)}"
            for one in changed[:MAX_EXCLUDED]
        )
        more = len(changed) - MAX_EXCLUDED
        yield Text(f"Changed: {named}{f' and {more:,} more' if more > 0 else ''}")


def settings_table(rows: Sequence[tuple[str, ...]]) -> Table:
    """A row for each setting: its name, for whom, its value, and from where."""
    table = _table("setting", "host", "is", "from")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def excluded_table(excluded: Sequence[Excluded]) -> Table:
    """A row for each of *excluded*."""
    table = _table("excluded", "", "since", "by")
    for one in excluded:
        table.add_row(one.kind, Text(one.value), when(one.at_ms), one.who)
    return table


def controls_table(log: Sequence[Entry]) -> Table:
    """A row for each entry of *log*: when, who, and what was done."""
    table = _table("when", "who", "has", "what")
    for entry in log:
        table.add_row(when(entry.at_ms), entry.who, entry.verb, Text(entry.what))
    return table


def _alone(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """What there is to say of what a duplicate filter alone has seen."""
    yield Text(f"Crawl {seen.crawl_id}, spider {seen.spider}: a duplicate filter's")
    yield Text()
    yield facts(
        [
            ("begun", f"{duration(seen.seconds)} ago; it has no end"),
            ("nodes, queue", "none: its processes use another scheduler"),
            ("in the set", f"{seen.queue.seen:,} URLs"),
        ]
    )


def node_table(seen: CrawlSnapshot, *, ring: bool = False) -> Table:
    """A row for each node, and their sum. Names may be cut, numbers are not.

    The share is that of the pages, or with *ring* of the partitions.
    """
    share = _share_of_ring if ring else _share
    lately = seen.state == "open"
    rows = [
        (
            node.node_id,
            node.state,
            share(node, seen),
            *_columns(node.figures, _pace(node.figures, node.state, lately=lately)),
        )
        for node in seen.nodes
    ]
    pace = _pace(seen.totals, "live", lately=lately)
    total = ("together", "", "", *_columns(seen.totals, pace))
    if len(rows) != 1 or seen.gone:
        rows.append(total)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(COLUMNS):
        heading = f"{name} (1 min)" if lately and name == PACE else name
        words = [*heading.split(), *(row[place] for row in rows)]
        table.add_column(
            heading,
            justify="left" if place < 2 else "right",
            overflow="ellipsis",
            min_width=max(map(len, words)) if place else len(total[0]),
        )
    for row in rows:
        table.add_row(*row)
    return table


def busy_nodes(seen: CrawlSnapshot) -> Iterator[Text]:
    """A line for each live node that a callback blocks, as its watchdog says."""
    for node in seen.nodes:
        figures = node.figures
        if node.state == "live" and figures is not None and figures.busy_seconds:
            what = figures.busy_url or "something that is not a callback"
            lasts = duration(figures.busy_seconds)
            yield Text(f"{node.node_id} has been busy for {lasts} with {what}")


def facts(rows: Rows) -> Table:
    """Names and what there is to say about them."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def when(at_ms: int) -> str:
    """*at_ms*, milliseconds since the Unix epoch, as a time of this place."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return "-"
    return f"{at:%Y-%m-%d %H:%M:%S}"


def percent(part: int, whole: int) -> str:
    """*part* of *whole* in percent."""
    return f"{part / whole:.0%}" if whole else "0%"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _share(node: NodeView, seen: CrawlSnapshot) -> str:
    """The part of the crawl's pages that the node fetched."""
    pages = 0 if node.figures is None else node.figures.pages
    return percent(pages, seen.totals.pages)


def _share_of_ring(node: NodeView, seen: CrawlSnapshot) -> str:
    """The part of the partitions that are a live node's now."""
    return percent(node.owned, seen.partitions) if node.state == "live" else "-"


def _pace(figures: Figures | None, state: str, *, lately: bool) -> str:
    """Pages per second: in the last minute, or else from the start to the end."""
    if figures is None:
        return "-"
    if not lately:
        return f"{figures.rate:,.1f}"
    is_there = state in {"live", "leaving"} and figures.lately_seconds
    return f"{figures.lately:,.1f}" if is_there else "-"


def _columns(figures: Figures | None, pace: str) -> list[str]:
    if figures is None:
        return ["-"] * 5
    return [
        f"{figures.pages:,}",
        pace,
        decimal(figures.bytes),
        f"{figures.new:,}",
        f"{figures.errors:,}",
    ]


def _unsent_rows(totals: Figures) -> Rows:
    """Which requests were taken from the queue and not sent."""
    rows: Rows = []
    if totals.forbidden:
        rows.append(("", f"{totals.forbidden:,} of them disallowed by robots.txt"))
    if totals.refused:
        text = "not sent: out of scope, or to addresses not allowed"
        rows.append(("", f"{totals.refused:,} of them {text}"))
    if totals.given_up:
        text = "not sent: their hosts were left alone too often without an answer"
        rows.append(("", f"{totals.given_up:,} of them {text}"))
    return rows


def queue_rows(seen: CrawlSnapshot) -> Rows:
    """What became of the requests, and what is left."""
    queue, totals = seen.queue, seen.totals
    parts = [
        f"{queue.pushed:,} queued: {queue.acked:,} done",
        f"{queue.ready:,} ready",
        f"{queue.reserved:,} reserved",
        f"{queue.dead:,} given up",
    ]
    rows = [("Queue", ", ".join(parts))]
    if queue.waiting:
        text = f"{queue.waiting:,} wait until they are due"
        rows.append(("", f"{text}, the next {when(queue.due)}"))
    if queue.skipped:
        excluded = totals.excluded or seen.controls.excluded
        why = "excluded, or their host had" if excluded else "their host had"
        rows.append(("", f"{queue.skipped:,} not fetched: {why} its quota"))
    if totals.excluded:
        text = "links and queued requests dropped: an operator excluded them"
        rows.append(("", f"{totals.excluded:,} {text}"))
    if seen.removed_ms:
        rows.append(("", "the queues and what was seen are removed from the store"))
    if seen.lost:
        rows.append(("", f"{seen.lost:,} of {seen.partitions:,} partitions are lost"))
    rows += _unsent_rows(totals)
    if totals.trapped:
        rows.append(("", f"{totals.trapped:,} more links left out{_by_trap(totals)}"))
    if totals.reclaimed:
        rows.append(("", f"{totals.reclaimed:,} taken back from nodes that died"))
    if totals.local:
        rows.append(("", f"{totals.local:,} could not be stored, sent by one process"))
    return rows


def _unfetched(seen: CrawlSnapshot) -> str:
    """What became of the requests of a crawl that has no page."""
    queue, totals = seen.queue, seen.totals
    requests = "1 request" if queue.pushed == 1 else f"{queue.pushed:,} requests"
    parts = [
        f"{count:,} {what}"
        for count, what in (
            (queue.dead, "given up"),
            (totals.forbidden, "disallowed by robots.txt"),
            (totals.refused, "out of scope or at addresses not allowed"),
            (queue.skipped, "of hosts that had their quota"),
        )
        if count
    ]
    return ", ".join([requests, *parts])


def _by_trap(totals: Figures) -> str:
    """By which limits links were left out."""
    kinds = [f"{count:,} over {SETTINGS[trap]}" for trap, count in totals.traps.items()]
    return f": {', '.join(kinds)}" if kinds else ""


def _statuses(totals: Figures) -> Rows:
    """What servers answered, most frequent first."""
    most = sorted(totals.statuses.items(), key=lambda entry: (-entry[1], entry[0]))
    text = ", ".join(f"{count:,} x {status}" for status, count in most)
    return [("HTTP statuses", text)] if text else []


def _seen(totals: Figures) -> Rows:
    seen = totals.seen
    every = seen.recent + seen.bloom + seen.set + seen.imported
    new = max(0, totals.new - seen.imported)  # they were queued before they were asked
    tiers = [
        f"{count:,} {tier} ({percent(count, every)})"
        for tier, count in asdict(seen).items()
        if count or tier != "imported"
    ]
    return [
        ("URLs found", f"{new + every:,}: {new:,} new, {every:,} seen"),
        ("Seen, by tier", ", ".join(tiers)),
    ]


def _tiers(tiers: Tiers | None, figures: Figures) -> Rows:
    """What the shared tiers hold, how wrong they are, and where they are going."""
    if tiers is None or not tiers.state.urls:
        return []
    state = tiers.state
    rows: Rows = []
    if tiers.has_set:
        text = f"{state.set_urls:,} URLs of {tiers.set_bits} bits"
        text += f", {decimal(state.set_bytes)}"
        if figures.set_limit_bytes:
            text += f" of {decimal(figures.set_limit_bytes)} at most"
            if figures.set_limit.endswith("%"):
                text += f" ({figures.set_limit} of maxmemory)"
        if state.given_up:
            text += f"; {state.given_up:,} were given up to Bloom"
        rows.append(("Set", f"{text}; error {state.set_error:.1g}"))
    if tiers.has_bloom and not state.generations:
        rows.append(("Bloom", "nothing, until a set is given up"))
    elif tiers.has_bloom:
        text = f"{state.bloom_urls:,} URLs at most, {state.bloom_fill:.0%} full"
        if not tiers.native:
            many = "generations" if state.generations > 1 else "generation"
            text += f", {state.generations} {many}, {decimal(state.bloom_bytes)}"
        rows.append(("Bloom", f"{text}; error {state.bloom_error:.1g}"))
    if state.given_up or not tiers.has_set:
        rows.append(("URLs lost", f"{state.lost:,.1f} new ones called seen, expected"))
    if tiers.outlook is not None:
        later = tiers.outlook
        text = f"{later.urls:,} URLs at this pace"
        if tiers.has_set:
            text += f", set {decimal(later.set_bytes)}"
        if state.generations:
            text += f", Bloom error {later.bloom_error:.1g}"
        rows.append((f"In {later.seconds / 3600:.0f} h", text))
    return rows


def _archive(totals: Figures) -> Rows:
    archive = totals.archive
    share = percent(archive.revisits, archive.originals + archive.revisits)
    volume = archive.original_bytes + archive.revisit_bytes
    saved = f"{decimal(archive.revisit_bytes)} of {decimal(volume)}"
    return [
        (
            "Payloads",
            f"{archive.originals:,} originals, {archive.revisits:,} revisits ({share})",
        ),
        ("Bytes saved", f"{saved} ({percent(archive.revisit_bytes, volume)})"),
        *_hits(totals),
    ]


def _hits(totals: Figures) -> Rows:
    """By what the originals were found, and where most bytes were saved."""
    archive = totals.archive
    if not archive.handled:
        return []
    canonical, canonical_bytes = archive.canonical_url, archive.canonical_url_bytes
    kinds = [
        f"{count:,} {name} ({decimal(size)})"
        for name, count, size in (
            ("of the same URL", archive.exact_url, archive.exact_url_bytes),
            ("of an equivalent one", canonical, canonical_bytes),
            ("of another", archive.digest, archive.digest_bytes),
        )
    ]
    each = archive.lookup_us / archive.handled
    rows = [
        ("Originals found", ", ".join(kinds)),
        ("Looked up", f"{archive.handled:,} payloads, {each:,.0f} us each"),
    ]
    if archive.unmodified:
        rows.append(("Not modified", f"{archive.unmodified:,} that servers were asked"))
    if archive.cdx_asked:
        asked = f"{archive.cdx_found:,} found, of {archive.cdx_asked:,} asked for"
        each = archive.cdx_us / archive.cdx_asked / 1000
        failed = f"{archive.cdx_failed:,} failed, {each:,.0f} ms each"
        rows.append(("At CDX servers", f"{asked}; {failed}"))
    for kind, title in (("mimes", "Saved, by type"), ("hosts", "Saved, by host")):
        most = [
            f"{name} {decimal(share.hit_bytes)} of {decimal(share.handled_bytes)}"
            for name, share in list(totals.shares.get(kind, {}).items())[:MAX_SHARES]
            if share.hit_bytes
        ]
        if most:
            rows.append((title, ", ".join(most)))
    return rows


def _back_offs(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """The hosts that are left alone."""
    told = seen.back_offs
    if not told.hosts:
        return
    yield Text()
    yield Text(
        f"Hosts left alone ({told.hosts:,}, {told.unreachable:,} cannot be reached):"
    )
    table = _table("host", "until", "why", "in a row")
    for one in told.named[:MAX_LEFT_ALONE]:
        table.add_row(Text(one.host), when(one.until_ms), one.why, f"{one.failures:,}")
    yield table
    more = told.hosts - min(len(told.named), MAX_LEFT_ALONE)
    if more:
        yield Text(f"and {more:,} more")


def _dead_letters(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    if not seen.dead_letters:
        return
    yield Text()
    yield Text(f"Given up ({seen.queue.dead:,}):")
    for letter in seen.dead_letters:
        yield Text(f"  {letter.url or '(unreadable request)'}: {letter.reason}")
    if seen.queue.dead > len(seen.dead_letters):
        yield Text(f"  and {seen.queue.dead - len(seen.dead_letters):,} more")


def _files(files: WarcFiles, *, has_ended: bool) -> Iterator[RenderableType]:
    yield Text()
    if not files.sizes:
        yield Text(f"No WARC files of this crawl in {files.directory}")
        return
    volume = decimal(sum(size for _, size in files.sizes))
    yield Text(f"WARC files in {files.directory} ({len(files.sizes):,}, {volume}):")
    for name, size in files.sizes[:MAX_FILES]:
        yield Text(f"  {name}  {decimal(size)}")
    if len(files.sizes) > MAX_FILES:
        yield Text(f"  and {len(files.sizes) - MAX_FILES:,} more")
    left = sum(name.endswith(".open") for name, _ in files.sizes)
    if left and has_ended:
        yield Text(
            f"{left:,} of these were left open by nodes that were killed: frontier "
            f"warc repair {files.directory} closes them"
        )


def crawl_table(rows: Sequence[Sequence[str]]) -> Table:
    """A row for each crawl."""
    table = _table("crawl", "spider", "state", "created", "lasted", "nodes")
    for row in rows:
        table.add_row(*row)
    return table
