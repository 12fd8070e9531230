"""What a page says of a crawl, as plain values that templates show.

No I/O and no clock. All text is text here: templates escape it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from frontier.dashboard.ring_picture import (
    COLOURS,
    NOBODY,
    held_by,
    ranges,
    sparkline,
)
from frontier.status.document import requeue_command
from frontier.status.durations import duration
from frontier.status.membership_log import lost_since
from frontier.status.views import Figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.dashboard.history import CrawlHistory
    from frontier.errors import FrontierError
    from frontier.status.schedules import SiteView
    from frontier.status.views import LimitProgress, NodeView, Tiers
    from frontier.status.watch import HostView, Watched

UNITS = ("kB", "MB", "GB", "TB", "PB")
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
MOST_SHARES = 8
"""Hosts, and media types, by which bytes were saved."""
LEAST_LEFT = re.compile(r"(at least|about) ([0-9][^:]{0,30}): (.*)", re.DOTALL)
"""What a basis says of the time left before there is a trend."""
LOST_MS = 3_600_000
"""For so long after a node was lost it is said above all else."""
MOST_LOST = 3
"""Nodes of these that are named."""
KINDS = {
    "dns": "name unknown",
    "refused": "refused",
    "timeout": "timeout",
    "tls": "TLS",
    "reset": "reset",
    "http_429": "429",
    "http_5xx": "5xx",
}
"""Kinds of errors, for people."""


def number(value: float, digits: int = 0) -> str:
    """*value* with separators."""
    return f"{value:,.{digits}f}"


def rate(value: float) -> str:
    """*value*, per second, with as many digits as say something."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 1 or not value else 2}f}"


def size(value: float) -> str:
    """*value*, of bytes, for people."""
    if value < 1000:
        return f"{value:,.0f} B"
    for unit in UNITS:
        value /= 1000
        if value < 999.5 or unit == UNITS[-1]:
            break
    return f"{value:,.{0 if value >= 99.5 else 1}f} {unit}"


def moment(at_ms: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """*at_ms*, milliseconds since the Unix epoch, as a time in UTC."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)
    except (OverflowError, OSError, ValueError):
        return "-"


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
        "alerts": alerts(seen, error),
        "tiles": tiles(seen, known),
        "limits": [_limit(one) for one in crawl.limits],
    }


def tiles(seen: Watched, known: CrawlHistory) -> list[dict[str, Any]]:
    """The numbers of the headline."""
    crawl, totals, rates = seen.crawl, seen.crawl.totals, seen.rates
    ended = crawl.state != "open"
    now = totals.rate if ended else rates.pages if rates.seconds else totals.lately
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
            chips=_answers(seen),
        ),
        _tile("Queue", number(crawl.queue.ready), "ready", notes=_queue(seen)),
        _found_tile(totals),
        _tile(
            "Errors",
            number(totals.errors),
            notes=[
                f"{_percent(totals.errors, totals.requests)} of requests",
                f"{rate(rates.errors)}/s" if rates.errors and not ended else "",
            ],
            kind="bad" if rates.errors and not ended else "",
        ),
        _tile("Time left", value, unit, notes=[basis]),
    ]


def _found_tile(totals: Figures) -> dict[str, Any]:
    """How many URLs were found, and how many of them had been seen."""
    known = totals.seen.recent + totals.seen.bloom + totals.seen.set
    found = totals.new + known
    notes = [f"{totals.new:,} new, {known:,} seen ({_percent(known, found)})"]
    return _tile("URLs found", number(found), notes=notes)


def _answers(seen: Watched) -> list[tuple[str, int]]:
    """The most frequent HTTP statuses, and how many answers had them."""
    statuses = seen.crawl.totals.statuses.items()
    return sorted(statuses, key=lambda one: (-one[1], one[0]))[:5]


def _queue(seen: Watched) -> list[str]:
    queue = seen.crawl.queue
    return [
        f"{queue.reserved:,} reserved, {queue.acked:,} done",
        f"{queue.waiting:,} wait until they are due" if queue.waiting else "",
        f"{queue.dead:,} given up" if queue.dead else "",
    ]


def _limit(one: LimitProgress) -> dict[str, Any]:
    value, limit = number(one.value), number(one.limit)
    if one.name == "bytes":
        value, limit = size(one.value), size(one.limit)
    elif one.name == "time":
        value, limit = duration(one.value / 1000), duration(one.limit / 1000)
    text = f"{value} of {limit} ({one.share:.0%})"
    return {"name": f"{one.name}: {one.setting}", "text": text, "share": one.share}


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


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "0%"


def alerts(seen: Watched, error: FrontierError | None) -> list[dict[str, str]]:
    """What a person should know first."""
    crawl, found = seen.crawl, []

    def add(level: str, text: str, command: str = "") -> None:
        found.append({"level": level, "text": text, "command": command})

    if error is not None:
        add("bad", f"This is what was seen last: {error}")
    by = crawl.controls.paused
    if by is not None and crawl.state == "open":
        text = f"Paused since {moment(by.at_ms)} by {by.who}."
        add("warn", text, f"frontier crawl resume --crawl {crawl.crawl_id}")
    if crawl.ended_at:
        add("info", f"It {crawl.ended_at}")
    if crawl.has_failed:
        add("bad", "It has ended without one page.")
    if crawl.harm:
        add("bad", crawl.harm)
    if crawl.lost:
        add("bad", f"The store has lost {crawl.lost:,} partitions.")
    if crawl.state == "open" and not any(n.state == "live" for n in crawl.nodes):
        add("warn", "No node is live: nothing is fetched until one starts.")
    for text in crawl.waits if crawl.state == "open" else ():
        add("bad", f"{text}.")
    for node in crawl.nodes:
        if node.state == "silent":
            add("warn", f"{node.node_id} is silent: the others take its partitions.")
    if crawl.state == "open":
        found += _lost(seen)
    if crawl.twice:
        text = f"Two processes had the id {crawl.twice} at {moment(crawl.twice_ms)}: "
        text += "the first was stopped. Give each node a FRONTIER_NODE_ID of its own."
        add("warn", text)
    return found


def _lost(seen: Watched) -> list[dict[str, str]]:
    """The nodes that were lost in the last hour, and did not come back."""
    now = seen.crawl.taken_ms
    lost = {node.node_id for node in seen.crawl.nodes if node.state == "lost"}
    names = [
        f"{event.node_id} {ago(max(0, now - event.at_ms))}"
        for event in lost_since(seen.membership, now - LOST_MS, MOST_EVENTS)
        if event.node_id in lost
    ]
    if not names:
        return []
    more = len(names) - MOST_LOST
    text = ", ".join(names[:MOST_LOST]) + (f" and {more:,} more" if more > 0 else "")
    free = sum(not holder for holder in seen.holders)
    then = f"{free:,} partitions are held by nobody" if free else "others hold all"
    return [{"level": "warn", "text": f"Lost: {text}; {then}.", "command": ""}]


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
        "rate": blank or rate(seen.rates.nodes.get(node.node_id, f.lately)),
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


def ago(milliseconds: int) -> str:
    """*milliseconds* since something, for people."""
    return "now" if milliseconds < 2000 else f"{duration(milliseconds / 1000)} ago"


def hosts(seen: Watched) -> dict[str, Any]:
    """A row for each host that has most queued, or fails, or is left alone, or slow."""
    crawl = seen.crawl
    about = f"{seen.queued_hosts:,} have something queued"
    if crawl.back_offs.hosts:
        about += f", {crawl.back_offs.hosts:,} are left alone"
    kinds = crawl.totals.error_kinds.items()
    most = max((one.queued for one in seen.hosts), default=0)
    return {
        "about": about,
        "kinds": [(_kind(kind), count) for kind, count in kinds if count],
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
        "kinds": [(_kind(kind), count) for kind, count in one.error_kinds.items()],
        "mean": f"{one.seconds:.2f} s" if one.requests else "",
    }


def _kind(kind: str) -> str:
    return KINDS.get(kind, kind.replace("_", " "))


def seen_test(seen: Watched) -> dict[str, Any]:
    """How full the tiers of the seen test are, how wrong, and where they go."""
    totals, tiers = seen.crawl.totals, seen.crawl.tiers
    hits = totals.seen
    rows = [_tier("recent", "on each node", None, f"{hits.recent:,} called seen")]
    forecast = None
    if tiers is not None:
        state, limit = tiers.state, totals.set_limit_bytes
        if tiers.has_set:
            text = f"{state.set_urls:,} URLs, {size(state.set_bytes)}"
            part = share(state.set_bytes, limit) if limit else None
            text += f" of {size(limit)}" if limit else ""
            note = f"{hits.set:,} called seen, error {state.set_error:.1g}"
            if state.given_up:
                note += f"; {state.given_up:,} URLs given up to Bloom"
            rows.append(_tier("set", text, part, note))
        if tiers.has_bloom:
            rows.append(_bloom(tiers, hits.bloom))
        if tiers.outlook is not None:
            later = tiers.outlook
            text = f"{later.urls:,} URLs"
            text += f", set {size(later.set_bytes)}" if tiers.has_set else ""
            if state.generations:
                text += f", Bloom error {later.bloom_error:.1g}"
            when = f"In {later.seconds / 3600:.0f} h, at this pace"
            forecast = {"when": when, "text": text}
    return {"tiers": rows, "forecast": forecast}


def _bloom(tiers: Tiers, hits: int) -> dict[str, Any]:
    state = tiers.state
    if not state.generations:
        text = "nothing, until a set is given up" if tiers.has_set else "nothing yet"
        return _tier("bloom", text, None, f"{hits:,} called seen")
    text = f"{state.bloom_urls:,} URLs at most, {state.bloom_fill:.0%} full"
    if not tiers.native:
        text += f", {state.generations:,} generations, {size(state.bloom_bytes)}"
    note = f"{hits:,} called seen, error {state.bloom_error:.1g} at most"
    return _tier("bloom", text, state.bloom_fill, note)


def _tier(name: str, text: str, part: float | None, note: str) -> dict[str, Any]:
    level = "" if part is None or part < 0.85 else "warn" if part < 0.97 else "bad"
    return {
        "name": name,
        "text": text,
        "share": part,
        "label": text,
        "level": level,
        "note": note,
    }


def archive(seen: Watched) -> dict[str, Any]:
    """What was written, what was not written again, and what room is left."""
    totals, found = seen.crawl.totals, seen.crawl.totals.archive
    volume = found.original_bytes + found.revisit_bytes
    payloads = found.originals + found.revisits
    facts = [
        _fact(
            "Payloads",
            f"{found.originals:,} originals, {found.revisits:,} revisits "
            f"({_percent(found.revisits, payloads)})",
        ),
        _fact(
            "Bytes saved",
            f"{size(found.revisit_bytes)} of {size(volume)}",
            share(found.revisit_bytes, volume) if volume else None,
        ),
        _fact("Written", f"{size(found.written_bytes)} in {_files(found.files)}"),
    ]
    least = min(
        (
            n
            for n in seen.crawl.nodes
            if n.figures and n.figures.disk_total_bytes and n.state == "live"
        ),
        key=lambda n: n.figures.disk_free_bytes if n.figures else 0,
        default=None,
    )
    if least is not None and least.figures is not None:
        disk = _disk(least.figures) or {}
        text = f"{disk['text']} on {least.figures.machine or least.node_id}"
        facts.append(_fact("Least disk left", text, disk["share"], disk["level"]))
    shares = []
    for name, kind in (("host", "hosts"), ("media type", "mimes")):
        hits = {n: s for n, s in totals.shares.get(kind, {}).items() if s.hits}
        most = sorted(hits, key=lambda n: (-hits[n].hit_bytes, n))[:MOST_SHARES]
        rows = [{"name": n, **asdict(hits[n])} for n in most]
        if rows:
            shares.append({"name": name, "rows": rows})
    return {"facts": facts, "shares": shares}


def _files(count: int) -> str:
    return f"{count:,} WARC file{'s' * (count != 1)}"


def _fact(
    name: str, text: str, part: float | None = None, level: str = ""
) -> dict[str, Any]:
    return {"name": name, "text": text, "share": part, "level": level}


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
