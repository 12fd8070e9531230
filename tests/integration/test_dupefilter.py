"""Crawls with the duplicate filter alone do what crawls with Scrapy's own do."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest
import warm
from conftest import DEADLINE, ROOT, after, until

from frontier.store.embedded import EmbeddedStore
from tests.embedded_store import server_in

OURS = {"DUPEFILTER_CLASS": "frontier.dupefilter.RedisDupeFilter"}
SCRAPY_REDIS = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler", **OURS}
LINE = re.compile(r"\[scrapy\.dupefilters\] DEBUG: (.*)")
ONE_SERVER = pytest.mark.one_server("scrapy-redis's scheduler knows no other")


class Run:
    """One crawl of a site in a process of its own, outside of any project."""

    def __init__(self, directory, name, seeds, settings):
        self._log = directory / f"{name}.log"
        chosen = {
            "ROBOTSTXT_OBEY": True,
            "COOKIES_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "DOWNLOAD_DELAY": 0,
            "FRONTIER_STORE_DIR": directory / "store",
            **settings,
        }
        options = [f"-s{key}={value}" for key, value in chosen.items()]
        # Not runspider: there is another module called "site".
        (directory / "bare.py").write_text('SPIDER_MODULES = ["spiders"]\n')
        spider = ["crawl", "site"]
        with self._log.open("ab") as log:
            self.process = warm.Popen(
                [sys.executable, "-m", "scrapy", *spider, "-aseeds=" + seeds, *options],
                cwd=directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{directory}:{ROOT}",
                    "SCRAPY_SETTINGS_MODULE": "bare",
                },
            )

    def wait(self):
        return self.process.wait(DEADLINE)

    @property
    def text(self):
        return self._log.read_text("utf-8", "replace")

    @property
    def stats(self):
        dump = re.search(r"Dumping Scrapy stats:\n(\{.*?\})\n", self.text, re.DOTALL)
        pairs = re.findall(r"'([^']+)': (\d+)[,}\n]", dump[1] + "\n")
        return {name: ast.literal_eval(value) for name, value in pairs}

    @property
    def filtered(self):
        """What the filter logged."""
        return LINE.findall(self.text)


@pytest.fixture
def run(tmp_path, chosen):
    """Start crawls; those that still run at the end are killed."""
    made = []
    shared = chosen()
    given = {"REDIS_URL": shared.url} if shared else {}

    def run(name, server, **settings):
        settings = given | settings
        made.append(Run(tmp_path, name, ",".join(server.seeds), settings))
        return made[-1]

    yield run
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
    if (tmp_path / "store").exists():
        EmbeddedStore.join(tmp_path / "store").leave()


@pytest.fixture
def crawl(run, serve):
    """Crawl a site from nothing; return the run and what it fetched.

    The site is always at the same addresses, so that logs can be compared.
    """
    ports = []

    def crawl(name, **settings):
        port = ports[0] if ports else 0
        log = f"{name}.jsonl"
        server = serve(log, port=port, urls=80, hosts=2, calendar_months=6)
        ports.append(int(server.hosts[0].rpartition(":")[2]))
        done = run(name, server, **settings)
        assert done.wait() == 0, done.text
        fetched = Counter((e.method, e.url) for e in server.requests().entries)
        server.stop()
        return done, fetched

    return crawl


def urls(lines):
    """How often each URL was filtered, whatever linked to it."""
    return Counter(re.search(r"<GET (\S+)>", line)[1] for line in lines)


@ONE_SERVER
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


def test_dupefilter_seen_set_survives_a_restart_as_with_jobdir(run, serve, tmp_path):
    server = serve(urls=150, hosts=2, calendar_months=6, delay=0.05, until=after(30))
    settings = {**OURS, "JOBDIR": tmp_path / "job"}
    first = run("first", server, **settings)
    until(lambda: len(server.answered) >= 30, "some pages")
    first.process.send_signal(signal.SIGTERM)
    until(lambda: "Closing spider (shutdown)" in first.text, "its end")
    server.go_on()
    assert first.wait() == 0
    assert "Spider closed (shutdown)" in first.text
    assert not server_in(tmp_path / "store").running

    assert run("second", server, **settings).wait() == 0

    log = server.requests()
    assert log.missing(server.expected) == set()
    fetched = Counter(entry.url for entry in log.entries if not entry.aborted)
    starts = {*server.seeds, *(f"{base}/robots.txt" for base in server.site.bases)}
    assert {url for url, times in fetched.items() if times > 1} <= starts
