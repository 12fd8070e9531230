"""What a page says of a crawl, as plain values that templates show.

No I/O and no clock. All text is text here: templates escape it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from frontier.dashboard.ring_picture import (
    COLOURS,
    NOBODY,
    held_by,
    ranges,
    sparkline,
)
from frontier.status import sections
from frontier.status.document import requeue_command
from frontier.status.figures import Figures
from frontier.status.text import ago, duration, moment, number, percent, rate, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frontier.dashboard.history import CrawlHistory
    from frontier.errors import FrontierError
    from frontier.status.schedules import SiteView
    from frontier.status.views import NodeView
    from frontier.status.watch import HostView, Watched

STATES = ("live", "leaving", "silent", "lost", "left")
"""Of nodes, in the order in which they are counted."""
PLACES = {"silent": 0, "lost": 1, "live": 2, "leaving": 2, "left": 3}
"""Of nodes in the table: who needs somebody comes first."""
LATE_MS = 1000
"""Lag of a node that is shown as too much."""
MOST_NAMED = 48
"""Nodes in the legend of the ring."""
MOST_EVENTS = 100
"""Events of the membership log."""
MOST_STATUSES = 5
MOST_SHARES = 8
"""Hosts, and media types, by which bytes were saved."""
LEAST_LEFT = re.compile(r"(at least|about) ([0-9][^:]{0,30}): (.*)", re.DOTALL)
"""What a basis says of the time left before there is a trend."""


def share(part: float, whole: float) -> float:
    """*part* of *whole*, from 0 to 1."""
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


def headline(
    seen: Watched, known: CrawlHistory, error: FrontierError | None
) -> dict[str, Any]:
    """How the crawl is, in a few numbers."""
    crawl = seen.crawl
    state = "paused" if crawl.controls.paused and crawl.state == "open" else crawl.state
    lasts = duration(crawl.seconds)
    counts = Counter(node.state for node in crawl.nodes)
    there = ", ".join(
        f"{counts[word]:,} {word}" for word in STATES[:-1] if counts[word]
    )
    return {
        "crawl_id": crawl.crawl_id,
        "spider": crawl.spider,
        "state": state,
        "lasted": f"{'took' if crawl.finished_ms else 'for'} {lasts}",
        "sentence": f"{crawl.crawl_id} is {state}; nodes: {there or 'none'}",
        "alerts": [*_unread(error), *_alerts(seen)],
        "tiles": tiles(seen, known),
        "limits": [sections.limit(one) for one in crawl.limits],
    }


def _unread(error: FrontierError | None) -> list[sections.Alert]:
    """That the page is older than it should be."""
    if error is None:
        return []
    return [sections.Alert(sections.BAD, f"This is what was seen last: {error}")]


def _alerts(seen: Watched) -> Iterator[sections.Alert]:
    return sections.alerts(seen.crawl, _when, seen.membership, seen.holders)


def _when(at_ms: float) -> str:
    return f"{moment(at_ms)} UTC"


def tiles(seen: Watched, known: CrawlHistory) -> list[dict[str, Any]]:
    """The numbers of the headline."""
    crawl, totals = seen.crawl, seen.crawl.totals
    errors = totals.lately.errors
    ended = crawl.state != "open"
    now = totals.rate if ended else totals.lately.pages
    about = f"{rate(totals.rate)}/s from its start"
    left, unit, basis = seen.time_left, "", seen.time_left.basis
    if left.seconds is None and (found := LEAST_LEFT.match(basis)):
        unit, value, basis = found.groups()
    else:
        value = "-" if left.seconds is None else duration(left.seconds)
    return [
        _tile(
            "Pages per second",
            rate(now),
            notes=["from its start to its end" if ended else f"in a minute; {about}"],
            chart=known.trend,
        ),
        _tile(
            "Pages",
            number(totals.pages),
            notes=[size(totals.bytes)],
            chips=sections.statuses(totals)[:MOST_STATUSES],
        ),
        _tile("Queue", number(crawl.queue.ready), "ready", notes=_queue(seen)),
        _found_tile(totals),
        _tile(
            "Errors",
            number(totals.errors),
            notes=[
                f"{percent(totals.errors, totals.requests)} of requests",
                f"{rate(errors)}/s" if errors and not ended else "",
            ],
            kind="bad" if errors and not ended else "",
        ),
        _tile("Time left", value, unit, notes=[basis]),
    ]


def _found_tile(totals: Figures) -> dict[str, Any]:
    """How many URLs were found, and how many of them had been seen."""
    new, known = sections.found(totals)
    notes = [f"{new:,} new, {known:,} seen ({percent(known, new + known)})"]
    return _tile("URLs found", number(new + known), notes=notes)


def _queue(seen: Watched) -> list[str]:
    queue = seen.crawl.queue
    return [
        f"{queue.reserved:,} reserved, {queue.acked:,} done",
        f"{queue.waiting:,} wait until they are due" if queue.waiting else "",
        f"{queue.dead:,} given up" if queue.dead else "",
    ]


def _tile(
    name: str,
    value: str,
    unit: str = "",
    *,
    notes: Sequence[str],
    kind: str = "",
    chips: Sequence[tuple[str, int]] = (),
    chart: Sequence[float] | None = None,
) -> dict[str, Any]:
    most = rate(max(chart, default=0.0)) if chart else "0"
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "notes": [note for note in notes if note],
        "kind": kind,
        "chips": chips,
        "path": None if chart is None else sparkline(chart),
        "chart": f"{name} in the last {len(chart or ())} seconds, at most {most}",
    }


def ring(seen: Watched, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Who holds which partitions."""
    crawl, states = seen.crawl, {n.node_id: n.state for n in seen.crawl.nodes}
    held: dict[str, list[int]] = {}
    for number_, holder in enumerate(seen.holders):
        held.setdefault(holder if holder in numbers else "", []).append(number_)
    free = held.pop("", [])
    nodes = [
        {
            "id": name,
            "number": numbers[name],
            "state": states.get(name, "lost"),
            "held": len(held[name]),
            "ranges": ranges(held[name]),
        }
        for name in numbers
        if name in held
    ]
    return {
        "live": sum(state == "live" for state in states.values()),
        "partitions": crawl.partitions,
        "nodes": nodes,
        "shown": MOST_NAMED,
        "free": len(free),
        "free_ranges": ranges(free),
    }


def cell_classes(seen: Watched, numbers: Mapping[str, int]) -> list[str]:
    """The classes of each cell of the ring."""
    states = {n.node_id: n.state for n in seen.crawl.nodes}
    classes = {
        number_: f"c{number_ % COLOURS} k{number_} {states.get(name, 'lost')}"
        for name, number_ in numbers.items()
    }
    classes[NOBODY] = "free"
    places = held_by(seen.holders, numbers, seen.crawl.partitions)
    return [classes[place] for place in places]


def nodes(seen: Watched, numbers: Mapping[str, int]) -> dict[str, Any]:
    """A row for each node."""
    crawl = seen.crawl
    order = {state: place for place, state in enumerate(STATES)}
    every = sorted(crawl.nodes, key=lambda n: PLACES[n.state])
    counts = Counter(node.state for node in every)
    words = [f"{counts[s]:,} {s}" for s in order if counts[s]]
    if crawl.gone:
        words.append(f"{crawl.gone:,} more are gone")
    return {
        "counts": ", ".join(words),
        "rows": [_node(seen, node, numbers.get(node.node_id)) for node in every],
    }


def _node(seen: Watched, node: NodeView, number_: int | None) -> dict[str, Any]:
    f = node.figures or Figures()
    is_there = node.state in {"live", "leaving", "silent"}
    blank = "" if is_there else "-"
    what = f.busy_url or "something that is not a callback"
    return {
        "id": node.node_id,
        "number": number_,
        "state": node.state,
        "where": f"{f.machine}, process {f.pid}" if f.machine and f.pid else f.machine,
        "busy": f"busy for {duration(f.busy_seconds)} with {what}"
        if is_there and f.busy_seconds
        else "",
        "rate": blank or rate(f.lately.pages),
        "pages": number(f.pages),
        "in_flight": blank or number(f.in_flight),
        "inbox": blank or number(f.inbox),
        "lag": blank or f"{f.lag_ms:,} ms",
        "late": "late" if is_there and f.lag_ms >= LATE_MS else "",
        "errors": number(f.errors),
        "held": number(node.held),
        "memory": _memory(f) if is_there else None,
        "disk": _disk(f) if is_there else None,
        "beat": ago(seen.crawl.taken_ms - node.beat_ms) if node.beat_ms else "-",
    }


def _memory(f: Figures) -> dict[str, Any] | None:
    if not f.memory_bytes:
        return None
    part = share(f.memory_bytes, f.memory_limit_bytes)
    return {
        "text": size(f.memory_bytes),
        "share": part if f.memory_limit_bytes else None,
        "label": f"{part:.0%} of {size(f.memory_limit_bytes)}",
        "level": "bad" if part > 0.9 else "warn" if part > 0.75 else "",
    }


def _disk(f: Figures) -> dict[str, Any] | None:
    if not f.disk_total_bytes:
        return None
    used = 1 - share(f.disk_free_bytes, f.disk_total_bytes)
    return {
        "text": size(f.disk_free_bytes),
        "share": used,
        "label": f"{used:.0%} of {size(f.disk_total_bytes)} is used",
        "level": "bad" if used > 0.95 else "warn" if used > 0.85 else "",
    }


def hosts(seen: Watched) -> dict[str, Any]:
    """A row for each host that has most queued, or fails, or is left alone, or slow."""
    crawl = seen.crawl
    about = f"{seen.queued_hosts:,} have something queued"
    if crawl.back_offs.hosts:
        about += f", {crawl.back_offs.hosts:,} are left alone"
    most = max((one.queued for one in seen.hosts), default=0)
    return {
        "about": about,
        "kinds": sections.errors(crawl.totals.error_kinds),
        "rows": [_host(one, crawl.taken_ms, most) for one in seen.hosts],
    }


def _host(one: HostView, now_ms: int, most: int) -> dict[str, Any]:
    alone = ""
    if one.left_alone:
        left = duration(max(0, one.until_ms - now_ms) / 1000)
        times = f", {one.failures:,} times in a row" if one.failures > 1 else ""
        alone = f"{left} more: {one.left_alone}{times}"
    return {
        "name": one.host,
        "queued": number(one.queued) if one.queued else "",
        "share": share(one.queued, most),
        "delay": f"{one.delay_ms / 1000:g} s" if one.delay_ms else "",
        "alone": alone,
        "kinds": sections.errors(one.error_kinds),
        "mean": f"{one.seconds:.2f} s" if one.requests else "",
    }


def requests(seen: Watched) -> list[sections.Row]:
    """What became of the requests, and what was left out."""
    return [*sections.requests(seen.crawl, _when)]


def seen_test(seen: Watched) -> list[sections.Row]:
    """How full the tiers of the seen test are, how wrong, and where they go."""
    return [*sections.seen_test(seen.crawl.tiers, seen.crawl.totals)]


def archive(seen: Watched) -> dict[str, Any]:
    """What was written, what was not written again, and what room is left."""
    totals = seen.crawl.totals
    shares = []
    for name, kind in (("host", "hosts"), ("media type", "mimes")):
        hits = {n: s for n, s in totals.shares.get(kind, {}).items() if s.hits}
        most = sorted(hits, key=lambda n: (-hits[n].hit_bytes, n))[:MOST_SHARES]
        rows = [{"name": n, **asdict(hits[n])} for n in most]
        if rows:
            shares.append({"name": name, "rows": rows})
    rows_of_all = [*sections.archive(totals), *sections.room(seen.crawl)]
    return {"facts": rows_of_all, "shares": shares}


def dead(seen: Watched) -> dict[str, Any]:
    """What was given up, and the commands that list it and put it back."""
    crawl_id = shlex.quote(seen.crawl.crawl_id)
    return {
        "count": seen.crawl.queue.dead,
        "letters": [
            {
                "url": one.url,
                "reason": one.reason,
                "command": requeue_command(seen.crawl.crawl_id, one.url),
            }
            for one in seen.crawl.dead_letters
        ],
        "list": f"frontier crawl dead --crawl {crawl_id}",
        "requeue": f"frontier crawl requeue --crawl {crawl_id}",
    }


def log(known: CrawlHistory, seen: Watched) -> list[dict[str, Any]]:
    """What has happened to the members of the crawl."""
    today = moment(seen.crawl.taken_ms, "%Y-%m-%d")
    return [
        {
            "key": event.number,
            "kind": event.kind,
            "text": event.text,
            "at": moment(event.at_ms, "%Y-%m-%d %H:%M:%S").removeprefix(f"{today} "),
            "iso": moment(event.at_ms, "%Y-%m-%dT%H:%M:%SZ"),
        }
        for event in list(known.events)[:MOST_EVENTS]
    ]


def later(seen: Watched) -> dict[str, Any]:
    """What waits until it is due, and the sites of feeds, where there are any."""
    made: list[dict[str, str]] = []

    def add(name: str, text: str) -> None:
        made.append({"name": name, "text": text})

    recrawl, feeds = seen.recrawl, seen.feeds
    if recrawl is not None:
        add("Wait until they are due", f"{recrawl.waiting:,} URLs")
        add("Due within an hour", number(recrawl.next_hour))
        add("Overdue", number(recrawl.overdue))
        if recrawl.mean_s:
            every = f"{duration(recrawl.mean_s)}, from {duration(recrawl.least_s)} "
            add("Visited every", f"{every}to {duration(recrawl.most_s)}, by a sample")
    if feeds is not None:
        resting = f", {feeds.resting:,} paused or ended" if feeds.resting else ""
        add("Sites of feeds", f"{feeds.sites:,}, {feeds.due:,} due{resting}")
    return {
        "facts": made,
        "hosts": [
            {"name": one.host, "pages": one.pages, "every": duration(one.mean_s)}
            for one in (recrawl.hosts if recrawl is not None else ())
        ],
        "sites": [
            _site(one, seen.crawl.taken_ms)
            for one in (feeds.named if feeds is not None else ())
        ],
    }


def _site(one: SiteView, now_ms: int) -> dict[str, Any]:
    left = (one.next_ms - now_ms) / 1000
    due = f"in {duration(left)}" if left > 0 else "now"
    return {
        "name": one.name,
        "state": one.state,
        "round": one.round,
        "urls": one.urls,
        "found": one.items,
        "next": due if one.next_ms else "never",
    }
