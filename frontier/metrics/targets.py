"""Where nodes serve their metrics, as Prometheus asks for it (``http_sd``).

What always holds:

1.  Only nodes on the membership map are named: one that has left, or that the others
    have taken off the map, is not waited for.
2.  A node is named by an address that leads to it from here. One that is not named is
    reported as left out, with the reason.
3.  What is in the store is not trusted: an address is only a host and a port, and
    labels are cut.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from frontier.errors import OtherSchema
from frontier.metrics.exposition import label
from frontier.settings.values import HOST
from frontier.status.snapshot import Nodes, list_crawls, node_calls
from frontier.store.keys import SCHEMA, CrawlKeys

if TYPE_CHECKING:
    from frontier.status.figures import Figures
    from frontier.store.client import BlockingStore

MOST_NODES = 10_000
"""Nodes of one crawl that are named."""


def find(
    store: BlockingStore, namespace: str, machine: str
) -> tuple[list[dict[str, object]], list[str]]:
    """The nodes of all open crawls, as ``http_sd_configs`` reads them.

    Their addresses are those by which *machine* reaches them. Also return those that
    are left out, each with the reason.

    Raises:
        StoreError: The store does not answer, or with an error.
    """
    groups: list[dict[str, object]] = []
    left_out: list[str] = []
    for summary in list_crawls(store, namespace):
        if summary.state != "open" or summary.kind != "crawl":
            continue
        if summary.schema != f"{SCHEMA}":
            other = OtherSchema(summary.crawl_id, summary.schema, SCHEMA)
            left_out.append(f"nodes: {other}")
            continue
        calls = node_calls(CrawlKeys(namespace, summary.crawl_id))
        nodes = Nodes.of(*store.run(calls, tolerant=True))
        for node in sorted(nodes.beats)[:MOST_NODES]:
            told = nodes.figures.get(node)
            name = f"node {node} of crawl {summary.crawl_id}"
            if told is None or not told.metrics_port:
                left_out.append(f"{name} serves no metrics (FRONTIER_METRICS_PORT)")
            elif not (host := reachable(told, machine)):
                where = f"{name} serves its metrics on {told.machine} alone"
                left_out.append(f"{where} (FRONTIER_METRICS_HOST)")
            else:
                where = f"[{host}]" if ":" in host else host
                labels = {"crawl": summary.crawl_id, "spider": summary.spider}
                labels |= {"node": node, "machine": told.machine}
                groups.append(
                    {
                        "targets": [f"{where}:{told.metrics_port}"],
                        "labels": {one: label(text) for one, text in labels.items()},
                    }
                )
    return groups, left_out


def reachable(told: Figures, machine: str) -> str:
    """The host by which *machine* reaches that node's metrics; empty if it cannot."""
    host = told.metrics_host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        is_own = host.lower() == "localhost"
        return host if not is_own or told.machine == machine else ""
    if address.is_unspecified:
        return told.machine if HOST.fullmatch(told.machine) else ""
    return host if not address.is_loopback or told.machine == machine else ""
