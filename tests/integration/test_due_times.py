"""Requests with a time: real nodes, of which one is killed, and a real site."""

import contextlib
import json
import re
import time
from itertools import pairwise

import pytest

from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, redirect

SPIDER = """
import datetime as dt
import json

import scrapy


class DueSpider(scrapy.Spider):
    name = "due"
    custom_settings = {"RETRY_TIMES": 1, "REDIRECT_ENABLED": True}

    def __init__(self, site="", **kwargs):
        super().__init__(**kwargs)
        self.site = site

    async def start(self):
        yield scrapy.Request(self.site + "/start")

    def parse(self, response):
        for url, seconds in json.loads(response.text):
            due = seconds
            if isinstance(due, (int, float)) and url.endswith("at"):
                due = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=due)
            yield scrapy.Request(url, self.page, meta={"frontier_due": due, "mine": 1})

    def page(self, response):
        if "again" in response.url and "more" not in response.url:
            yield response.follow("/more-again", self.page, meta=response.meta)
        assert "frontier_due" not in response.meta
        assert response.meta["mine"] == 1


class AgainSpider(scrapy.Spider):
    name = "again"

    def __init__(self, site="", **kwargs):
        super().__init__(**kwargs)
        self.site = site

    async def start(self):
        yield scrapy.Request(self.site + "/page", cb_kwargs={"visit": 1})

    def parse(self, response, visit):
        from frontier.session.session import session_of
        if visit < 4:
            after = response.request.replace(cb_kwargs={"visit": visit + 1})
            assert session_of(self.crawler).fetch_again(response.request, 0.5, after)
"""
HOSTS = [f"127.0.0.{n}" for n in range(2, 10)]


class Pages(RawSite):
    """The pages of a test, and when each was asked for."""

    def __init__(self):
        self.asked, self.start, self.redirects = [], "[]", {}
        super().__init__({}, answer=self._say, address="0.0.0.0")

    def _say(self, path, received):
        host = re.search(rb"(?i)host: (\S+)", received)[1].decode()
        self.asked.append((f"http://{host}{path}", time.time()))
        said = answer(
            self.start if path == "/start" else "[]", "Content-Type: text/plain"
        )
        to = self.redirects.get(path)
        return redirect(to) if to else said


@pytest.fixture
def site():
    with contextlib.closing(Pages()) as made:
        yield made
        made.open.set()


@pytest.fixture
def crawl(site, cluster, tmp_path):
    """Start nodes with the spider above on the pages of *dues*, by URL."""
    root = scrapy_project(tmp_path / "project", SPIDER, "ROBOTSTXT_OBEY = False\n")

    class Crawl:
        port = site.port

        def url(self, number, path):
            return f"http://{HOSTS[number % len(HOSTS)]}:{self.port}/{path}"

        def start(self, *node_ids, spider="due", **settings):
            site.start = json.dumps(self.dues)
            where = f"site=http://127.0.0.1:{self.port}"
            for node_id in node_ids:
                words = ("-a", where)
                cluster.start(node_id, *words, spider=spider, cwd=root, **settings)

        def times(self):
            found = {}
            for url, at in list(site.asked):
                found.setdefault(url, []).append(at)
            return found

    made = Crawl()
    made.dues = []
    return made


def test_a_due_time_does_not_travel_and_a_wrong_one_is_said_once(cluster, crawl, site):
    site.redirects["/moved"] = "/target"
    waits = [
        (crawl.url(0, "moved"), 0.6),
        (crawl.url(1, "at"), 0.6),
        (crawl.url(2, "again"), 0.6),
        (crawl.url(3, "wrong"), "tomorrow"),
        (crawl.url(4, "worse"), None),
        (crawl.url(5, "past"), -3),
    ]
    crawl.dues = waits
    crawl.start("node-1")

    cluster.finish("node-1")
    times = {url.rpartition("/")[2]: at for url, at in crawl.times().items()}
    assert {path: len(at) for path, at in times.items()} == dict.fromkeys(
        ["start", "moved", "target", "at", "again", "more-again", "wrong", "worse"], 1
    ) | {"past": 1}
    began = times["start"][0]
    for path in ("moved", "at", "again"):
        assert times[path][0] >= began + 0.6
    text = cluster.text_of("node-1")
    assert text.count("is fetched at once: its meta['frontier_due']") == 1
    assert "'frontier/queue/due_refused': 2" in text
    assert "Traceback" not in text


def test_a_page_is_fetched_again_with_what_its_callback_says(cluster, crawl, site):
    crawl.start("node-1", spider="again")

    cluster.finish("node-1")
    at = [when for _, when in site.asked]
    assert len(at) == 4
    assert all(b - a >= 0.5 for a, b in pairwise(at))
    queue = snapshot(cluster.store, "frontier", "again-1").queue
    assert (queue.pushed, queue.acked, queue.waiting) == (4, 4, 0)
