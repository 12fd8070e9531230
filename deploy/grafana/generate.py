"""Writes the Grafana dashboard: ``python deploy/grafana/generate.py``.

``provisioning/dashboards/frontier.json`` is what this makes, and is not edited by hand:
a test compares. Panels are one line each here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "provisioning" / "dashboards" / "frontier.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH, HEIGHT = 24, 8
CRAWL = '{crawl=~"$crawl"}'
NODE = '{crawl=~"$crawl",node=~"$node"}'

Query = tuple[str, str]
"""PromQL, and the legend of its series."""


def rate(metric: str, labels: str) -> str:
    """How much of a counter there is per second."""
    return f"rate({metric}{labels}[$__rate_interval])"


def crawl_rate(metric: str, by: str = "crawl") -> str:
    """The same of a crawl's totals, added up by a label."""
    return f"sum by ({by}) ({rate(metric, CRAWL)})"


def node_rate(metric: str, by: str = "node") -> str:
    """The same of nodes."""
    return f"sum by ({by}) ({rate(metric, NODE)})"


def stat_rate(stats: str) -> str:
    """The rate of *stats*, a pattern, of nodes."""
    chosen = NODE.replace("{", f'{{stat=~"{stats}",')
    return f"sum by (node, stat) ({rate('frontier_stat', chosen)})"


ROWS: list[tuple[str, list[tuple[str, str, list[Query]]]]] = [
    (
        "Crawls",
        [
            (
                "Pages per second",
                "reqps",
                [(crawl_rate("frontier_crawl_pages_total"), "{{crawl}}")],
            ),
            (
                "Queue",
                "short",
                [
                    (
                        f"sum by (state) (frontier_crawl_queue_urls{CRAWL})",
                        "{{state}}",
                    ),
                    (f"sum(frontier_crawl_dead_letters{CRAWL})", "dead letters"),
                ],
            ),
            (
                "URLs per second",
                "reqps",
                [
                    (crawl_rate("frontier_crawl_urls_queued_total", ""), "queued"),
                    (crawl_rate("frontier_crawl_urls_done_total", ""), "done"),
                ],
            ),
            (
                "Responses by status",
                "reqps",
                [(crawl_rate("frontier_crawl_responses_total", "code"), "{{code}}")],
            ),
            (
                "Errors by kind",
                "reqps",
                [(crawl_rate("frontier_crawl_errors_total", "kind"), "{{kind}}")],
            ),
            (
                "Nodes by state",
                "short",
                [(f"sum by (state) (frontier_crawl_nodes{CRAWL})", "{{state}}")],
            ),
            (
                "Links seen before, by tier",
                "reqps",
                [(crawl_rate("frontier_crawl_urls_seen_total", "tier"), "{{tier}}")],
            ),
            (
                "Network and archive",
                "Bps",
                [
                    (
                        crawl_rate("frontier_crawl_response_bytes_total", ""),
                        "received",
                    ),
                    (
                        crawl_rate("frontier_crawl_archive_written_bytes_total", ""),
                        "written",
                    ),
                    (
                        crawl_rate("frontier_crawl_archive_revisit_bytes_total", ""),
                        "not stored again",
                    ),
                ],
            ),
            (
                "Payloads",
                "reqps",
                [
                    (
                        crawl_rate("frontier_crawl_archive_originals_total", ""),
                        "originals",
                    ),
                    (
                        crawl_rate("frontier_crawl_archive_revisits_total", ""),
                        "revisits",
                    ),
                ],
            ),
            (
                "Hosts left alone",
                "short",
                [(f"frontier_crawl_hosts_left_alone{CRAWL}", "{{crawl}}")],
            ),
            (
                "Links left out as traps",
                "reqps",
                [
                    (
                        crawl_rate("frontier_crawl_links_trapped_total", "trap"),
                        "{{trap}}",
                    )
                ],
            ),
            (
                "Memory of the store",
                "bytes",
                [
                    ("frontier_store_memory_used_bytes", "used"),
                    ("frontier_store_memory_limit_bytes", "maxmemory"),
                ],
            ),
        ],
    ),
    (
        "Nodes",
        [
            (
                "Pages per second",
                "reqps",
                [(node_rate("frontier_pages_total"), "{{node}}")],
            ),
            (
                "In flight",
                "short",
                [(f"frontier_requests_in_flight{NODE}", "{{node}}")],
            ),
            (
                "Waiting on the node",
                "short",
                [
                    (f"frontier_inbox_requests{NODE}", "{{node}} to be sent"),
                    (f"frontier_outbox_requests{NODE}", "{{node}} to be stored"),
                ],
            ),
            (
                "Lag of the event loop",
                "s",
                [
                    (f"frontier_node_lag_seconds{NODE}", "{{node}}"),
                    (f"frontier_figures_age_seconds{NODE}", "{{node}} blocked"),
                ],
            ),
            (
                "CPU",
                "percentunit",
                [(rate("process_cpu_seconds_total", NODE), "{{node}}")],
            ),
            (
                "Memory",
                "bytes",
                [
                    (f"process_resident_memory_bytes{NODE}", "{{node}}"),
                    (
                        f"frontier_node_memory_limit_bytes{NODE} > 0",
                        "{{node}} at most",
                    ),
                ],
            ),
            (
                "Free disk of the WARC files",
                "bytes",
                [(f"frontier_archive_disk_free_bytes{NODE}", "{{node}}")],
            ),
            (
                "Partitions",
                "short",
                [(f"frontier_partitions_held{NODE}", "{{node}}")],
            ),
            (
                "Time left of the first lease",
                "s",
                [(f"frontier_lease_seconds{NODE}", "{{node}}")],
            ),
            (
                "The writer waits for the index",
                "percentunit",
                [
                    (node_rate("frontier_archive_lookup_seconds_total"), "{{node}}"),
                    (node_rate("frontier_archive_cdx_seconds_total"), "{{node}} CDX"),
                ],
            ),
            (
                "Recrawls by what was found",
                "reqps",
                [
                    (
                        stat_rate("recrawl/(first|changed|unchanged|failed|gone)"),
                        "{{stat}}",
                    )
                ],
            ),
            (
                "New items of feeds",
                "reqps",
                [(stat_rate("feeds/items"), "{{node}}")],
            ),
        ],
    ),
    (
        "Hosts",
        [
            (
                "Hosts with most errors",
                "reqps",
                [
                    (
                        "topk(10, "
                        + node_rate("frontier_host_errors_total", "host, kind")
                        + ")",
                        "{{host}} {{kind}}",
                    )
                ],
            ),
            (
                "Slowest hosts",
                "s",
                [
                    (
                        "topk(10, "
                        + node_rate("frontier_host_request_seconds_total", "host")
                        + " / "
                        + node_rate("frontier_host_requests_total", "host")
                        + ")",
                        "{{host}}",
                    )
                ],
            ),
            (
                "Requests that were not sent",
                "reqps",
                [
                    (
                        stat_rate("refused/.*"),
                        "{{stat}}",
                    ),
                    (
                        f"sum({rate('frontier_requests_forbidden_total', NODE)})",
                        "robots.txt",
                    ),
                ],
            ),
        ],
    ),
]


def panel(number: int, place: tuple[int, int], title: str, unit: str) -> dict[str, Any]:
    """An empty panel of a time series."""
    x, y = place
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": WIDTH // 3, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def target(number: int, query: Query) -> dict[str, Any]:
    """A query of a panel."""
    expression, legend = query
    return {
        "refId": chr(ord("A") + number),
        "datasource": SOURCE,
        "expr": expression,
        "legendFormat": legend,
    }


def variable(name: str, metric: str) -> dict[str, Any]:
    """What a viewer chooses: some, or all, values of a label."""
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": f"label_values({metric}, {name})",
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    """All of it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for name, rows in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": name,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
        )
        y += 1
        for index, (title, unit, queries) in enumerate(rows):
            place = (index % 3 * (WIDTH // 3), y + index // 3 * HEIGHT)
            made = panel(len(panels) + 1, place, title, unit)
            made["targets"] = [target(i, query) for i, query in enumerate(queries)]
            panels.append(made)
        y += -(-len(rows) // 3) * HEIGHT
    source = {
        "name": "source",
        "label": "Source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    }
    return {
        "uid": "frontier",
        "title": "Frontier",
        "tags": ["frontier"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                source,
                variable("crawl", "frontier_node_info"),
                variable("node", "frontier_node_info"),
            ]
        },
        "panels": panels,
    }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
