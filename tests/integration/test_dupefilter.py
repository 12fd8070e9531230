"""Crawls with the duplicate filter alone do what crawls with Scrapy's own do."""

import ast
import re
import signal
from collections import Counter

import pytest
from conftest import ROOT, after, says, until

from tests.harness.project import scrapy_project

OURS = {"DUPEFILTER_CLASS": "frontier.dupefilter.RedisDupeFilter"}
SCRAPY_REDIS = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler", **OURS}
LINE = re.compile(r"\[scrapy\.dupefilters\] DEBUG: (.*)")


@pytest.fixture
def start(cluster, tmp_path, monkeypatch):
    """Start a crawl of a site in a project without the add-on."""
    monkeypatch.setenv("EXTRA", str(ROOT))
    root = scrapy_project(tmp_path / "bare", "", 'SPIDER_MODULES = ["spiders"]')

    def start(name, server, **settings):
        words = ("-a", f"seeds={','.join(server.seeds)}")
        bare = {"ADDONS": "{}", "COOKIES_ENABLED": False, "ROBOTSTXT_OBEY": True}
        return cluster.start(name, *words, cwd=root, **bare, **settings)

    return start


class Log:
    """What a crawl has logged."""

    def __init__(self, text):
        self.text = text
        dump = re.search(r"Dumping Scrapy stats:\n(\{.*?\})\n", text, re.DOTALL)
        pairs = re.findall(r"'([^']+)': (\d+)[,}\n]", dump[1] + "\n")
        self.stats = {name: ast.literal_eval(value) for name, value in pairs}
        self.filtered = LINE.findall(text)


@pytest.fixture
def crawl(start, cluster, serve):
    """Crawl a site from nothing; return the log and what it fetched.

    The site is always at the same addresses, so that logs can be compared.
    """
    ports = []

    def crawl(name, **settings):
        port = ports[0] if ports else 0
        log = f"{name}.jsonl"
        server = serve(log, port=port, urls=80, hosts=2, calendar_months=6)
        ports.append(int(server.hosts[0].rpartition(":")[2]))
        start(name, server, **settings)
        assert cluster.wait(name) == [0]
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


def test_dupefilter_seen_set_survives_a_restart_as_with_jobdir(
    start, cluster, serve, tmp_path
):
    server = serve(urls=150, hosts=2, calendar_months=6, delay=0.05, until=after(30))
    settings = {**OURS, "JOBDIR": tmp_path / "job"}
    first = start("first", server, **settings)
    until(lambda: len(server.answered) >= 30, "some pages")
    first.send_signal(signal.SIGTERM)
    says(cluster, "Closing spider (shutdown)", "first")
    server.go_on()
    assert cluster.wait("first") == [0]
    assert "Spider closed (shutdown)" in cluster.text_of("first")

    start("second", server, **settings)
    assert cluster.wait("second") == [0]

    log = server.requests()
    assert log.missing(server.expected) == set()
    fetched = Counter(entry.url for entry in log.entries if not entry.aborted)
    starts = {*server.seeds, *(f"{base}/robots.txt" for base in server.site.bases)}
    assert {url for url, times in fetched.items() if times > 1} <= starts
