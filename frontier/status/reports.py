"""The reports of nodes that are gone, in one sum: a crawl may have had thousands.

A node's report stays in the store when the node is gone, so that the crawl's report
has all that was done. Of that always holds:

1.  What is summed up is taken away in the same step, and only if it is still what was
    read: nothing is lost, and nothing counts twice.
2.  A node that may come back with the same report is not summed up: only one that has
    left, or that was off the map for `LOST_S`.
3.  The last `KEPT` that are gone stay as they are, for people.
4.  The sum has a bounded size.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.settings.values import NAME
from frontier.status.figures import MOST_SHARES, figures_of, report_of, together
from frontier.status.validate import MAX_JSON, mapping, printable, real, text, whole
from frontier.store.client import Call
from frontier.store.scripts import REPORTS_FOLD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from frontier.status.figures import Figures
    from frontier.store.keys import CrawlKeys


def read_reports(reply: Mapping[bytes, bytes]) -> dict[str, Figures]:
    """The reports that can be read."""
    found = {}
    for name, value in reply.items():
        node_id, report = text(name), mapping(value)
        if NAME.fullmatch(node_id) and report:
            found[node_id] = figures_of(report)
    return found


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
    statuses = {} if summed else figures_of(report).statuses
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


def folded(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report of nodes that had *reports*, as if it were of one, with their number.

    It ran from the first start to the last report.
    """
    known = [one for one in reports if one]  # else it cannot be read
    stats: Counter[str] = Counter()
    for one in known:
        stats.update(_stats_of(one, summed=True))
    return {
        **report_of(together([figures_of(one) for one in known])),
        "stats": counts_in(stats),
        "nodes": sum(max(1, whole(one.get("nodes"))) for one in known),
        "left": True,
    }


def _encoded(report: dict[str, Any]) -> bytes:
    """*report* as JSON that is read again, with as many hosts as fit in."""
    most = MOST_SHARES
    while len(made := json.dumps(report).encode()) > MAX_JSON and most:
        most //= 2
        shares = report.get("shares", {}).items()
        report["shares"] = {kind: _first(named, most) for kind, named in shares}
        for name in ("host_errors", "host_seconds"):
            report[name] = _first(report.get(name, {}), most)
    return made


def _first(named: Mapping[str, Any], most: int) -> dict[str, Any]:
    return dict(itertools.islice(named.items(), most))


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


class GoneNodes(Part):
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

    @override
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
