"""What nodes report, read and added up.

What always holds:

1.  Nothing that a report says is trusted: what is of another type or size than this
    version writes is 0 or left out, and names are cut and made printable.
2.  What is a sum of all nodes counts each of them once, those included that are gone.
    What a node has now is summed up of those on the map alone.

The reports of nodes that are gone, in one sum: a crawl may have had thousands.

A node's report stays in the store when the node is gone, so that the crawl's report
has all that was done. Of that always holds:

1.  What is summed up is taken away in the same step, and only if it is still what was
    read: nothing is lost, and nothing counts twice.
2.  A node that may come back with the same report is not summed up: only one that has
    left, or that was off the map for `LOST_S`.
3.  The last `KEPT` that are gone stay as they are, for people.
4.  The sum has a bounded size. Of hosts and media types it has those with most hits,
    and hosts with most errors, and the slowest.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import json
import re
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from frontier.errors import StoreUnavailable
from frontier.settings.live import BACK_OFF, LIVE
from frontier.settings.values import HOST, NAME
from frontier.status.validate import (
    MAX_JSON,
    MAX_TEXT,
    mapping,
    printable,
    real,
    text,
    whole,
)
from frontier.status.views import (
    ArchiveFigures,
    Figures,
    HostSeconds,
    SeenFigures,
    ShareFigures,
    Taken,
)
from frontier.store.client import Call
from frontier.store.scripts import REPORTS_FOLD
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from frontier.status.views import Shares
    from frontier.store.keys import CrawlKeys


COUNTS = (
    "pages",
    "requests",
    "bytes",
    "items",
    "errors",
    "forbidden",
    "refused",
    "excluded",
    "trapped",
    "new",
    "given_up",
    "local",
    "dead",
    "reclaimed",
    "partitions",
)
"""Numbers that the report of a node has, and which are added up."""
OF_NOW = ("memory_bytes", "in_flight", "inbox")
"""The same, but only of nodes that are on the map."""
OF_NODE = ("memory_limit_bytes", "disk_free_bytes", "disk_total_bytes", "lag_ms", "pid")
"""Numbers that are a node's own."""
PORTS = ("metrics_port",)
MAX_PORT = 65_535
MOST_TAKEN = 8
"""Times at which a node took partitions."""
HOLDS = re.compile(r"(?:[0-9]{1,5}(?:-[0-9]{1,5})?)(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
MAX_HOLDS = 4_000
KINDS = ("dns", "refused", "timeout", "tls", "reset", "http_429", "http_5xx", "other")
"""Kinds of errors, see `frontier.session.request_stats`."""
SHARES = ("hosts", "mimes")
MOST_SHARES = 200
"""Of each kind, from one node, or from those that are gone."""
NAME_LIMIT = 255
STATUS = re.compile(r"[0-9]{1,3}", re.ASCII)
MOST_STATUSES = 1000
MAX_LIMIT = 20
"""Characters of a limit that are shown."""


T = TypeVar("T")


def read_reports(reply: Mapping[bytes, bytes]) -> dict[str, Figures]:
    """The reports that can be read."""
    found = {}
    for name, value in reply.items():
        node_id, report = text(name), mapping(value)
        if NAME.fullmatch(node_id) and report:
            found[node_id] = figures_of(report)
    return found


def figures_of(report: Mapping[str, Any]) -> Figures:
    """What *report*, of a node or of many that are gone, says."""
    known = {name: whole(report.get(name)) for name in COUNTS}
    seconds = real(report.get("seconds"))
    busy = report.get("busy")
    blocked = busy if isinstance(busy, dict) else {}
    lately = real(report.get("lately_seconds"))
    return Figures(
        **known,
        lately=whole(report.get("lately_pages")) / lately if lately else 0.0,
        lately_seconds=lately,
        taken=_read_taken(report.get("taken")),
        opened=real(report.get("opened")),
        seconds=seconds,
        rate=known["pages"] / seconds if seconds else 0.0,
        seen=_read_figures(SeenFigures, report.get("seen")),
        archive=_read_figures(ArchiveFigures, report.get("archive")),
        shares=_read_shares(report.get("shares")),
        traps=_read_traps(report.get("traps")),
        statuses=_read_statuses(report.get("statuses")),
        busy_seconds=real(blocked.get("seconds")),
        uplink_seconds=real(report.get("uplink_seconds")),
        disk_full=report.get("disk_full") is True,
        busy_url=printable(str(blocked.get("url", ""))[:MAX_TEXT]),
        set_limit=printable(str(report.get("set_limit", ""))[:MAX_LIMIT]),
        set_limit_bytes=whole(report.get("set_limit_bytes")),
        controls=whole(report.get("controls")),
        own=_read_own(report.get("own")),
        left=report.get("left") is True,
        **{name: whole(report.get(name)) for name in (*OF_NOW, *OF_NODE)},
        **{name: _read_port(report.get(name)) for name in PORTS},
        cpu_seconds=real(report.get("cpu_seconds")),
        machine=printable(str(report.get("machine", ""))[:NAME_LIMIT]),
        metrics_host=_read_host(report.get("metrics_host")),
        holds=_read_holds(report.get("holds")),
        error_kinds=_read_kinds(report.get("error_kinds")),
        host_errors=_read_host_errors(report.get("host_errors")),
        host_seconds=_read_host_seconds(report.get("host_seconds")),
    )


def together(every: Collection[Figures], there: Collection[Figures] = ()) -> Figures:
    """What all nodes did, given what *every* one did.

    What they have now is that of those *there*: they are on the map.
    """
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
        lately=round(sum(figures.lately for figures in there), 3),
        lately_seconds=max((figures.lately_seconds for figures in there), default=0.0),
        **{name: sum(getattr(f, name) for f in there) for name in OF_NOW},
        cpu_seconds=round(sum(figures.cpu_seconds for figures in every), 2),
        **_sum_outcomes(every),
    )


def _sum_outcomes(every: Iterable[Figures]) -> dict[str, Any]:
    """The errors of *every* one by kind and host, and the seconds of hosts."""
    kinds: Counter[str] = Counter()
    errors: dict[str, dict[str, int]] = {}
    seconds: dict[str, tuple[int, float]] = {}
    for figures in every:
        kinds.update(figures.error_kinds)
        for host, counts in figures.host_errors.items():
            sums = errors.setdefault(host, {})
            for kind, count in counts.items():
                sums[kind] = sums.get(kind, 0) + count
        for host, one in figures.host_seconds.items():
            requests, took = seconds.get(host, (0, 0.0))
            seconds[host] = (requests + one.requests, took + one.seconds)
    most = heapq.nsmallest(
        MOST_SHARES, ((-sum(counts.values()), host) for host, counts in errors.items())
    )
    slow = heapq.nsmallest(
        MOST_SHARES, ((-took / max(1, n), host) for host, (n, took) in seconds.items())
    )
    return {
        "error_kinds": {kind: kinds[kind] for kind in KINDS if kind in kinds},
        "host_errors": {host: errors[host] for _, host in most},
        "host_seconds": {
            host: HostSeconds(seconds[host][0], round(seconds[host][1], 3))
            for _, host in slow
        },
    }


def _read_taken(value: Any) -> tuple[Taken, ...]:
    known = value[-MOST_TAKEN:] if isinstance(value, list) else []
    return tuple(
        Taken(whole(one[0]), whole(one[1]))
        for one in known
        if isinstance(one, list) and len(one) == 2 and whole(one[0]) and whole(one[1])
    )


def _read_port(value: Any) -> int:
    port = whole(value)
    return port if port <= MAX_PORT else 0


def _read_holds(value: Any) -> str:
    """What *value* says of partitions that are held; empty if it is nothing of that."""
    if not isinstance(value, str) or len(value) > MAX_HOLDS:
        return ""
    return value if HOLDS.fullmatch(value.removesuffix(",...")) else ""


def _read_host(value: Any) -> str:
    return value if isinstance(value, str) and HOST.fullmatch(value) else ""


def _read_kinds(value: Any) -> dict[str, int]:
    known = value if isinstance(value, dict) else {}
    return {kind: whole(known[kind]) for kind in KINDS if kind in known}


def _first(value: Any) -> list[tuple[str, Any]]:
    """Names and values of the first hosts in *value*."""
    known = value if isinstance(value, dict) else {}
    first = itertools.islice(known.items(), MOST_SHARES)
    return [(printable(str(name)[:NAME_LIMIT]), told) for name, told in first]


def _read_host_errors(value: Any) -> dict[str, dict[str, int]]:
    found = {host: _read_kinds(kinds) for host, kinds in _first(value)}
    return {host: kinds for host, kinds in found.items() if kinds}


def _read_host_seconds(value: Any) -> dict[str, HostSeconds]:
    return {
        host: HostSeconds(whole(told[0]), real(told[1]))
        for host, told in _first(value)
        if isinstance(told, list) and len(told) == 2 and whole(told[0])
    }


def _read_statuses(value: Any) -> dict[str, int]:
    known = value if isinstance(value, dict) else {}
    return {
        status: whole(count)
        for status, count in list(known.items())[:MOST_STATUSES]
        if STATUS.fullmatch(str(status))
    }


def _read_own(value: Any) -> dict[str, str]:
    known = value if isinstance(value, dict) else {}
    names = (*LIVE, *BACK_OFF)
    found = {name: known[name] for name in names if isinstance(known.get(name), str)}
    return {name: printable(text[:MAX_LIMIT]) for name, text in found.items()}


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
            printable(str(name)[:NAME_LIMIT]): ShareFigures(*map(whole, numbers))
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
        alike: dict[str, list[ShareFigures]] = {}
        for value in values:
            for name, share in value.get(kind, {}).items():
                alike.setdefault(name, []).append(share)
        summed = {
            name: some[0] if len(some) == 1 else sum_of(ShareFigures, some)
            for name, some in alike.items()
        }
        most = heapq.nsmallest(
            MOST_SHARES, summed, key=lambda name: (-summed[name].hit_bytes, name)
        )
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


SCRAPYS = {
    "response_received_count": "pages",
    "downloader/request_count": "requests",
    "downloader/response_bytes": "bytes",
    "item_scraped_count": "items",
}
"""Stat of Scrapy's to what a report says while its node runs."""
STATUS_COUNT = "downloader/response_status_count/"
MOST_STATS = 500
STATS_SIZE = 12_000
"""Characters of all stats of a report, which has to stay below `MAX_JSON`."""
STAT_LIMIT = 100
"""Characters of a stat's name."""


def counts_in(stats: Mapping[str, Any]) -> dict[str, int]:
    """What of *stats* can be added up: whole numbers, but no maxima or start values."""
    found = {
        name: value
        for name, value in stats.items()
        if type(value) is int and len(name) <= STAT_LIMIT
        if not name.endswith(("max", "startup"))
    }
    size, kept = 0, {}
    for name, value in itertools.islice(sorted(found.items()), MOST_STATS):
        size += len(name) + len(str(value)) + len('"": , ')
        if size > STATS_SIZE:
            break
        kept[name] = value
    return kept


def _stats_of(report: Mapping[str, Any], *, summed: bool = False) -> dict[str, int]:
    """What the node of *report* has counted; of one that was killed, the main things.

    As far as its last heartbeat has them. What is to be *summed* up stays short.
    """
    known = report.get("stats")
    if isinstance(known, dict):
        some = itertools.islice(known.items(), MOST_STATS)
        return {printable(str(name)[:STAT_LIMIT]): whole(count) for name, count in some}
    found = {name: whole(report.get(figure)) for name, figure in SCRAPYS.items()}
    statuses = {} if summed else _read_statuses(report.get("statuses"))
    found |= {f"{STATUS_COUNT}{status}": count for status, count in statuses.items()}
    return {name: count for name, count in found.items() if count}


def stats_of_all(reports: Mapping[bytes, bytes]) -> dict[str, int]:
    """The sums of what all nodes have counted, with the number of *nodes*."""
    sums: Counter[str] = Counter()
    for report in map(mapping, reports.values()):
        if report:
            sums.update(_stats_of(report))
            sums["nodes"] += max(1, whole(report.get("nodes")))
    return dict(sums)


GONE = b"*"
"""The field of their sum; no node has such a name."""
REPLACED = b"~"
"""In the field of a process that another one with its node id has replaced."""
KEPT = 32
"""Reports of gone nodes that stay as they are."""
LOST_S = 86_400.0
"""Seconds after its last report from which a node that did not leave is gone for good.
One that was frozen for longer and goes on is counted twice in the totals."""
EVERY_S = 30.0
"""Seconds between two looks of the first node by name."""
AT_ONCE = 64
"""Reports that one call takes away."""
LATEST = {"set_limit_bytes", "controls"}
"""Numbers that are no counts."""
_APART = {"opened", "seconds", "left", "nodes", "busy", "shares", "partitions", "stats"}
OF_A_PROCESS = {
    "memory_bytes",
    "memory_limit_bytes",
    "disk_free_bytes",
    "disk_total_bytes",
    "in_flight",
    "inbox",
    "lag_ms",
    "lately_pages",
    "lately_seconds",
    "taken",
    "machine",
    "pid",
    "metrics_host",
    "metrics_port",
    "holds",
}
"""What went with the node."""
_HOSTS = {"host_errors", "host_seconds"}


def folded(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report of nodes that had *reports*, as if it were of one, with their number.

    It ran from the first start to the last report. What is a text, as a setting, is
    that of the node that was started last.
    """
    known = [one for one in reports if one]  # else it cannot be read
    every = sorted(known, key=lambda one: real(one.get("opened")))
    apart = _APART | OF_A_PROCESS | _HOSTS
    sums = _added([{k: v for k, v in one.items() if k not in apart} for one in every])
    starts = [real(one.get("opened")) for one in every]
    ends = [real(one.get("opened")) + real(one.get("seconds")) for one in every]
    opened = min(starts, default=0.0)
    return {
        **sums,
        "opened": opened,
        "seconds": max(ends, default=0.0) - opened,
        "shares": _shares([one.get("shares") for one in every]),
        "stats": _stats([_stats_of(one, summed=True) for one in every]),
        "host_errors": _host_errors([one.get("host_errors") for one in every]),
        "host_seconds": _host_seconds([one.get("host_seconds") for one in every]),
        "partitions": sum(whole(one.get("partitions")) for one in every),
        "nodes": sum(max(1, whole(one.get("nodes"))) for one in every),
        "left": True,
    }


def _added(every: list[dict[str, Any]]) -> dict[str, Any]:
    """The sums of numbers, name by name; of anything else the last."""
    sums: dict[str, Any] = {}
    for report in every:
        for name, value in report.items():
            before = sums.get(name)
            if isinstance(value, dict):
                sums[name] = _added([before if isinstance(before, dict) else {}, value])
            elif name in LATEST or isinstance(value, bool | str):
                sums[name] = value
            elif isinstance(value, int | float):
                sums[name] = (before if isinstance(before, int | float) else 0) + value
    return sums


def _stats(every: list[dict[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for stats in every:
        sums.update(stats)
    return counts_in(sums)


def _shares(every: list[Any]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = {}
    for shares in every:
        for kind, named in (shares if isinstance(shares, dict) else {}).items():
            kinds = found.setdefault(kind, {})
            for name, numbers in (named if isinstance(named, dict) else {}).items():
                if isinstance(numbers, list):
                    known = kinds.get(name) or [0] * len(numbers)
                    new = map(whole, numbers)
                    kinds[name] = [a + b for a, b in zip(known, new, strict=False)]
    return {
        kind: dict(sorted(named.items(), key=_weight, reverse=True)[:MOST_SHARES])
        for kind, named in found.items()
    }


def _host_errors(every: list[Any]) -> dict[str, dict[str, int]]:
    """The errors of the hosts that have most, by kind."""
    found: dict[str, Counter[str]] = {}
    for host, kinds in _named(every):
        if isinstance(kinds, dict):
            counts = {kind: whole(count) for kind, count in kinds.items()}
            found.setdefault(host, Counter()).update(counts)
    most = sorted(found, key=lambda host: (-found[host].total(), host))
    return {host: dict(found[host]) for host in most[:MOST_SHARES]}


def _host_seconds(every: list[Any]) -> dict[str, list[float]]:
    """Requests and seconds of the hosts that took longest on average."""
    found: dict[str, list[float]] = {}
    for host, told in _named(every):
        if isinstance(told, list) and len(told) == 2 and whole(told[0]):
            known = found.setdefault(host, [0, 0.0])
            known[0] += whole(told[0])
            known[1] = round(known[1] + real(told[1]), 3)
    slowest = sorted(found, key=lambda host: (-found[host][1] / found[host][0], host))
    return {host: found[host] for host in slowest[:MOST_SHARES]}


def _named(every: list[Any]) -> Iterator[tuple[str, Any]]:
    for told in every:
        if isinstance(told, dict):
            yield from told.items()


def _weight(item: tuple[str, list[int]]) -> tuple[int, int]:
    numbers = item[1]
    return (numbers[3], numbers[1]) if len(numbers) > 3 else (0, 0)


def _encoded(report: dict[str, Any]) -> bytes:
    """*report* as JSON that is read again, with as many hosts as fit in."""
    most = MOST_SHARES
    while len(made := json.dumps(report).encode()) > MAX_JSON and most:
        most //= 2
        shares = {kind: list(named.items()) for kind, named in report["shares"].items()}
        report["shares"] = {kind: dict(named[:most]) for kind, named in shares.items()}
        for name in _HOSTS:
            report[name] = dict(list(report[name].items())[:most])
    return made


def to_fold(
    reports: Mapping[bytes, bytes], members: Iterable[bytes], now_s: float
) -> list[bytes]:
    """The fields of *reports* that are to be summed up, the first that were gone first.

    None that is among *members*; *now_s* is in seconds since the Unix epoch.
    """
    there, gone = set(members), []
    replaced = [name for name in reports if REPLACED in name]
    for name, value in reports.items():
        if name in there or not NAME.fullmatch(text(name)):
            continue
        report = mapping(value)
        end = real(report.get("opened")) + real(report.get("seconds"))
        if report.get("left") is True or end < now_s - LOST_S:
            gone.append((end, name))
    return [*replaced, *(name for _, name in sorted(gone)[: max(0, len(gone) - KEPT)])]


class GoneNodes:
    """Sums up the reports of nodes that are gone, while its node is the first."""

    def __init__(
        self,
        run: Callable[[Sequence[Call]], Awaitable[list[Any]]],
        keys: CrawlKeys,
        rank: Callable[[], int],
    ) -> None:
        self._run = run
        self._keys = keys
        self._rank = rank

    async def run(self) -> None:
        """Look at once, for short-lived nodes, and again and again, until cancelled."""
        while True:
            if self._rank() == 0:
                with contextlib.suppress(StoreUnavailable):
                    await self.fold()
            await asyncio.sleep(EVERY_S)

    async def fold(self) -> int:
        """Sum up what can be; return how many nodes that were."""
        keys, done = self._keys, 0
        reports_key, nodes = keys.reports(), keys.nodes()
        calls = [Call.command("HKEYS", reports_key), Call.command("HLEN", nodes)]
        told, live = await self._run(calls)
        if len(told) - live <= KEPT and not any(REPLACED in name for name in told):
            return 0
        reports, members, time = await self._run(
            [
                Call.command("HGETALL", reports_key),
                Call.command("HKEYS", nodes),
                Call.command("TIME"),
            ]
        )
        names = to_fold(reports, members, float(time[0]))
        before = reports.get(GONE, b"")
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            every = [mapping(before)] if before else []
            every += [mapping(reports[name]) for name in some]
            after = _encoded(folded(every))
            flat = [part for name in some for part in (name, reports[name])]
            call = Call.to(
                REPORTS_FOLD, [reports_key, nodes], [GONE, before, after, *flat]
            )
            (is_done,) = await self._run([call])
            if not is_done:  # one is back, or another node was quicker
                break
            before, done = after, done + len(some)
        return done


def without_sum(
    reports: Mapping[bytes, bytes],
) -> tuple[dict[bytes, bytes], dict[str, Any]]:
    """*reports* of single nodes, and the sum of others; empty if there is none."""
    apart = {n: v for n, v in reports.items() if n == GONE or REPLACED in n}
    single = {name: value for name, value in reports.items() if name not in apart}
    if len(apart) <= (GONE in apart):
        return single, mapping(reports.get(GONE))
    return single, folded([mapping(value) for value in apart.values()])
