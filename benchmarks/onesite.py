"""``onesite``: one big site on several nodes.

The site has one host without a delay and takes `RESPONSE` for each page; a node
has `CONCURRENT` requests on the way at most, so it is the site that is waited
for. Three crawls of it: by one node, by four with the default, where a host has
one node, and by four with shards.

What counts is the pace from when each node that fetches has fetched a page, as
four starts take longer than one on two CPUs, and until most pages are
fetched, as the last ones are found one after the other.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Figures, Report, alternate, environment
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.chaos.nodes import Process

if TYPE_CHECKING:
    from benchmarks.harness import Options
    from benchmarks.server import Server

NODES, SHARDS = 4, 256
SPIDER = "benchmarks/links_spider.py"
CONCURRENT = 1
PER_HOST = 16
"""Requests to the host at once that are allowed: more than the nodes make."""
RESPONSE = 0.05
URLS, QUICK_URLS = 1_000, 400
LAST = 0.05
"""Part of the pages, at the end, that is not counted."""
DEADLINE = 300.0


def run(server: Server, options: Options) -> Report:
    """Crawl the site with one node and with four, by turns."""
    urls = QUICK_URLS if options.quick else URLS
    figures = Figures()
    competitors = {
        "one_node": partial(_crawl, server, urls, 1, 1),
        "four_nodes": partial(_crawl, server, urls, NODES, 1),
        "four_nodes_shards": partial(_crawl, server, urls, NODES, SHARDS),
    }
    for name, metrics in alternate(1 if options.quick else 3, competitors):
        figures.add(name, metrics)
    about = environment(server.info()) | {
        "urls": urls,
        "nodes": NODES,
        "shards": SHARDS,
        "requests_of_a_node": CONCURRENT,
        "seconds_per_page": RESPONSE,
    }
    pace = "pages_per_s"
    ratios = {
        f"{name}_vs_one": figures.ratio((name, pace), ("one_node", pace))
        for name in ("four_nodes", "four_nodes_shards")
    }
    return Report("onesite", about, figures.results(), ratios)


def _crawl(server: Server, urls: int, nodes: int, shards: int) -> dict[str, float]:
    server.empty()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        log = home / "requests.jsonl"
        with SiteServer(Site(urls=urls, hosts=1), log=log, delay=RESPONSE) as site:
            processes = [
                _start(server, site, home, f"node-{n}", shards) for n in range(nodes)
            ]
            deadline = time.monotonic() + DEADLINE
            while any(node.runs for node in processes):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the crawl takes longer than {DEADLINE} s")
                time.sleep(0.1)
            found = RequestLog.read(log)
        missing = found.missing(expected_urls(site.site))
    if missing or any(node.crashed for node in processes):
        raise AssertionError(f"{len(missing)} URLs of {urls} were not fetched")
    return _pace(found)


def _pace(found: RequestLog) -> dict[str, float]:
    """Pages per second while all nodes fetch, and of the whole crawl."""
    pages = sorted(found.entries, key=lambda entry: entry.end)
    first: dict[str | None, float] = {}
    for page in pages:
        first.setdefault(page.node, page.end)
    end = pages[int(len(pages) * (1 - LAST))].end
    ends = [page.end for page in pages if max(first.values()) <= page.end <= end]
    whole = pages[-1].end - pages[0].start
    return {
        "pages_per_s": (len(ends) - 1) / (ends[-1] - ends[0]),
        "pages_per_s_whole": len(pages) / whole,
        "nodes_that_fetch": len(first),
        "counted": len(ends) / len(pages),
    }


def _start(
    server: Server, site: SiteServer, home: Path, name: str, shards: int
) -> Process:
    settings = {
        "REDIS_URL": server.url,
        "FRONTIER_CRAWL_ID": "onesite",
        "FRONTIER_NODE_ID": name,
        "FRONTIER_HOST_SHARDS": shards,
        "FRONTIER_WARC_ENABLED": False,
        "CONCURRENT_REQUESTS": CONCURRENT,
        "CONCURRENT_REQUESTS_PER_DOMAIN": PER_HOST,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "FEEDS": json.dumps({}),
    }
    seeds = ["-a", f"seeds={','.join(site.seeds)}"]
    return Process(name, name, ["runspider", SPIDER, *seeds], settings, home)
