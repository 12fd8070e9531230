"""The reports of nodes as the store has them, and their sums.

A node's report stays in the store when the node is gone, so that the crawl's report
has all that was done; `frontier.node.gone_nodes` adds up the reports of such nodes.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from frontier.settings.values import NAME
from frontier.status.figures import (
    MOST_HOSTS,
    Figures,
    figures_of,
    report_of,
    together,
)
from frontier.status.validate import MAX_JSON, mapping, printable, text, whole


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
"""Stats of Scrapy, and the figures that a report has for them while its node runs."""
STATUS_COUNT = "downloader/response_status_count/"
MOST_STATS = 500
STATS_SIZE = 12_000
"""Characters of all stats of a report, which has to stay below `MAX_JSON`."""
STAT_LIMIT = 100
"""Characters of a stat's name."""


def counts_in(stats: Mapping[str, Any]) -> dict[str, int]:
    """Those *stats* that can be added up: whole numbers, not maxima or start values."""
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
    """What the node of *report* has counted; if it was killed, the main things.

    These are as of its last heartbeat. If they are to be *summed* up, statuses are left
    out, to keep them few.
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
    """The sums of what all nodes have counted, and their number, as ``nodes``."""
    sums: Counter[str] = Counter()
    for name, report in _known(reports).items():
        sums.update(_stats_of(report))
        sums["nodes"] += _nodes_in(name, report)
    return dict(sums)


def _known(reports: Mapping[bytes, bytes]) -> dict[bytes, dict[str, Any]]:
    """Those of *reports* that can be read."""
    found = {name: mapping(value) for name, value in reports.items()}
    return {name: report for name, report in found.items() if report}


def _nodes_in(name: bytes, report: Mapping[str, Any]) -> int:
    """How many nodes *report*, in the field *name*, is of.

    An earlier process of a node is none: that node has a report of its own.
    """
    return 0 if REPLACED in name else whole(report.get("nodes", 1))


GONE = b"*"
"""The field of the sum of gone nodes' reports; no node has such a name."""
REPLACED = b"~"
"""Part of the field of a process that another with the same node id has replaced."""


def folded(reports: Mapping[bytes, bytes]) -> dict[str, Any]:
    """*reports* added up as if they were one node's, with the numbers of nodes.

    That one ran from the first start to the last report.
    """
    known = _known(reports)
    stats: Counter[str] = Counter()
    for one in known.values():
        stats.update(_stats_of(one, summed=True))
    return {
        **report_of(together([figures_of(one) for one in known.values()])),
        "stats": counts_in(stats),
        "nodes": sum(_nodes_in(name, one) for name, one in known.items()),
        "lost": sum(  # those of which this is not the last report
            whole(one.get("lost")) if "nodes" in one else one.get("left") is not True
            for one in known.values()
        ),
        "left": True,
    }


def encoded(report: dict[str, Any]) -> bytes:
    """*report* as JSON, short enough to be read again: with fewer hosts if need be."""
    most = MOST_HOSTS
    while len(made := json.dumps(report).encode()) > MAX_JSON and most:
        most //= 2
        for name in ("host_errors", "host_seconds"):
            report[name] = dict(itertools.islice(report.get(name, {}).items(), most))
    return made


def without_sum(
    reports: Mapping[bytes, bytes],
) -> tuple[dict[bytes, bytes], dict[str, Any]]:
    """The *reports* of single nodes, and the sum of others; empty if there are none."""
    apart = {n: v for n, v in reports.items() if n == GONE or REPLACED in n}
    single = {name: value for name, value in reports.items() if name not in apart}
    if len(apart) <= (GONE in apart):
        return single, mapping(reports.get(GONE))
    return single, folded(apart)
