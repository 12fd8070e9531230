"""Crawls with the duplicate filter alone do what crawls with Scrapy's own do."""

import ast
import re
from collections import Counter

import pytest
from conftest import ROOT

from tests.harness.project import scrapy_project

OURS = {"DUPEFILTER_CLASS": "frontier.dupefilter.RedisDupeFilter"}
SCRAPY_REDIS = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler", **OURS}
LINE = re.compile(r"\[scrapy\.dupefilters\] DEBUG: (.*)")


class Log:
    """What a crawl has logged."""

    def __init__(self, text):
        self.text = text
        dump = re.search(r"Dumping Scrapy stats:\n(\{.*?\})\n", text, re.DOTALL)
        pairs = re.findall(r"'([^']+)': (\d+)[,}\n]", dump[1] + "\n")
        self.stats = {name: ast.literal_eval(value) for name, value in pairs}
        self.filtered = LINE.findall(text)


@pytest.fixture
def crawl(cluster, serve, tmp_path, monkeypatch):
    """Crawl a site from nothing; return the log and what it fetched.

    The project has no add-on. The site is always at the same addresses, so that logs
    can be compared.
    """
    monkeypatch.setenv("EXTRA", str(ROOT))
    root, ports = tmp_path / "bare", []
    scrapy_project(root, "", 'SPIDER_MODULES = ["spiders"]\nADDONS = {}\n')

    def crawl(name, **settings):
        port = ports[0] if ports else 0
        log = f"{name}.jsonl"
        server = serve(log, port=port, urls=80, hosts=2, calendar_months=6)
        ports.append(int(server.hosts[0].rpartition(":")[2]))
        words = ("-a", f"seeds={','.join(server.seeds)}")
        bare = {"COOKIES_ENABLED": False, "ROBOTSTXT_OBEY": True, **settings}
        cluster.start(name, *words, cwd=root, **bare)
        cluster.finish(name)
        fetched = Counter((e.method, e.url) for e in server.requests().entries)
        server.stop()
        return Log(cluster.text_of(name)), fetched

    return crawl


def urls(lines):
    """How often each URL was filtered, whatever linked to it."""
    return Counter(re.search(r"<GET (\S+)>", line)[1] for line in lines)


@pytest.mark.one_server("scrapy-redis's scheduler knows no other")
def test_the_same_is_fetched_dropped_and_logged_as_with_scrapys_own(
    crawl, servers, unique
):
    both = {"DUPEFILTER_DEBUG": True, "CONCURRENT_REQUESTS": 1}
    redis = {
        "REDIS_URL": servers("any").url,
        "FRONTIER_CRAWL_ID": unique,
        "SCHEDULER_QUEUE_KEY": f"{unique}:requests",
    }
    scrapys, fetched = crawl("scrapys", **both)
    ours, ours_fetched = crawl("ours", **OURS, **both)
    under, under_fetched = crawl("under", **SCRAPY_REDIS, **both, **redis)

    assert ours_fetched == under_fetched == fetched
    dropped = scrapys.stats["dupefilter/filtered"]
    assert dropped > 500
    assert ours.stats["dupefilter/filtered"] == dropped
    assert under.stats["dupefilter/filtered"] == dropped
    assert ours.filtered == scrapys.filtered
    assert urls(under.filtered).total() == dropped
    assert urls(under.filtered) == urls(scrapys.filtered)
    for each in (ours, under):
        seen = {k: v for k, v in each.stats.items() if k.startswith("frontier/seen/")}
        assert sum(seen.values()) == dropped
        assert seen["frontier/seen/recent"] > 0
        assert " ERROR: " not in each.text
        assert "Traceback" not in each.text
