"""What nodes report, read and added up.

What always holds:

1.  Nothing that a report says is trusted: what is of another type or size than this
    version writes is 0 or left out, and names are cut and made printable.
2.  What is a sum of all nodes counts each of them once, those included that are gone.
    What a node has now is summed up of those on the map alone.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from frontier.settings.live import LIVE
from frontier.settings.values import HOST, NAME
from frontier.status.validate import MAX_TEXT, mapping, printable, real, text, whole
from frontier.status.views import (
    ArchiveFigures,
    Figures,
    HostSeconds,
    SeenFigures,
    ShareFigures,
)
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from frontier.status.views import Shares

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
    "seen_lost",
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
PORTS = ("metrics_port", "dashboard_port")
MAX_PORT = 65_535
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
    found = {name: known[name] for name in LIVE if isinstance(known.get(name), str)}
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
