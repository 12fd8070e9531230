"""Where the metrics of nodes are, as Prometheus asks for it (``http_sd``).

What always holds:

1.  Only nodes on the membership map are named: one that has left, or that the others
    have taken off the map, is not waited for.
2.  A node is named by an address that leads to it from here. One that is not named is
    said to be left out, with the reason.
3.  What is in the store is not trusted: an address is that of a host and a port, and
    labels are cut.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.errors import CodecError, KeyDamaged, OtherSchema
from frontier.metrics.exposition import label
from frontier.settings.values import HOST
from frontier.status.reports import read_reports
from frontier.status.snapshot import beats_of, list_crawls, read_crawl
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from frontier.status.figures import Figures
    from frontier.status.snapshot import StoredCrawl
    from frontier.store.client import BlockingStore

MOST_NODES = 10_000
"""Nodes of one crawl that are named."""


@dataclass(frozen=True, slots=True)
class Target:
    """A node, and where its metrics are."""

    address: str
    """``host:port``."""
    crawl: str
    spider: str
    node: str
    machine: str


@dataclass(frozen=True, slots=True)
class Found:
    """What is to be scraped, and what is not."""

    targets: tuple[Target, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes and crawls, each with the reason."""

    def groups(self) -> list[dict[str, object]]:
        """The targets, as ``http_sd_configs`` reads them."""
        return [
            {
                "targets": [target.address],
                "labels": {
                    "crawl": label(target.crawl),
                    "node": label(target.node),
                    "spider": label(target.spider),
                    "machine": label(target.machine),
                },
            }
            for target in self.targets
        ]


def find(store: BlockingStore, namespace: str, machine: str) -> Found:
    """The nodes of all open crawls, as *machine* may reach them.

    Raises:
        StoreError: The store does not answer, or with an error.
    """
    every = []
    for summary in list_crawls(store, namespace):
        if summary.state != "open" or summary.kind != "crawl":
            continue
        try:
            crawl = read_crawl(store, CrawlKeys(namespace, summary.crawl_id))
        except (CodecError, KeyDamaged, OtherSchema) as error:
            every.append(Found(left_out=(str(error),)))
        else:
            every.append(of_crawl(crawl, machine))
    return Found(
        tuple(target for one in every for target in one.targets),
        tuple(line for one in every for line in one.left_out),
    )


def of_crawl(crawl: StoredCrawl, machine: str) -> Found:
    """Those of the nodes of *crawl*."""
    figures = read_reports(crawl.single)
    targets, left_out = [], []
    for node in sorted(beats_of(crawl.members))[:MOST_NODES]:
        told = figures.get(node)
        name = f"node {node} of crawl {crawl.summary.crawl_id}"
        if told is None or not told.metrics_port:
            left_out.append(f"{name} serves no metrics (FRONTIER_METRICS_PORT)")
        elif not (host := reachable(told, machine)):
            left_out.append(
                f"{name} serves its metrics on {told.machine} alone "
                "(FRONTIER_METRICS_HOST)"
            )
        else:
            where = f"[{host}]" if ":" in host else host
            address = f"{where}:{told.metrics_port}"
            summary = crawl.summary
            targets.append(
                Target(address, summary.crawl_id, summary.spider, node, told.machine)
            )
    return Found(tuple(targets), tuple(left_out))


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
