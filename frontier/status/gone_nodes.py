"""The reports of nodes that are gone, in one sum: a crawl may have had thousands.

A node's report stays in the store when the node is gone, so that the crawl's report
has all that was done. What always holds:

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
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from frontier.errors import StoreUnavailable
from frontier.settings.values import NAME
from frontier.status.validate import MAX_JSON, mapping, real, text, whole
from frontier.store.client import Call
from frontier.store.scripts import REPORTS_FOLD

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from frontier.store.keys import CrawlKeys

GONE = b"*"
"""The field of their sum; no node has such a name."""
KEPT = 32
"""Reports of gone nodes that stay as they are."""
LOST_S = 86_400.0
"""Seconds after its last report from which a node that did not leave is gone for good.
One that was frozen for longer and goes on is counted twice in the totals."""
EVERY_S = 30.0
"""Seconds between two looks of the first node by name."""
AT_ONCE = 64
"""Reports that one call takes away."""
MOST_SHARES = 200
"""Hosts, and media types, in the sum."""
LATEST = {"set_limit_bytes", "controls"}
"""Numbers that are no counts."""
_APART = {"opened", "seconds", "left", "nodes", "busy", "shares", "partitions"}
OF_A_PROCESS = {
    "memory_bytes",
    "memory_limit_bytes",
    "disk_free_bytes",
    "disk_total_bytes",
    "in_flight",
    "inbox",
    "lag_ms",
    "machine",
    "pid",
    "metrics_host",
    "metrics_port",
    "dashboard_port",
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
    """The nodes of *reports* that are to be summed up, the first that were gone first.

    None that is among *members*; *now_s* is in seconds since the Unix epoch.
    """
    there, gone = set(members), []
    for name, value in reports.items():
        if name in there or not NAME.fullmatch(text(name)):
            continue
        report = mapping(value)
        end = real(report.get("opened")) + real(report.get("seconds"))
        if report.get("left") is True or end < now_s - LOST_S:
            gone.append((end, name))
    return [name for _, name in sorted(gone)[: max(0, len(gone) - KEPT)]]


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
        calls = [Call.command("HLEN", reports_key), Call.command("HLEN", nodes)]
        told, live = await self._run(calls)
        if told - live <= KEPT:
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
    single = {name: value for name, value in reports.items() if name != GONE}
    return single, mapping(reports.get(GONE))
