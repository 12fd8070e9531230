"""Every request that waits for a robots.txt obeys it."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess

base, middleware = sys.argv[1:]


class Eager(scrapy.Spider):
    name = "eager"
    fetched = []

    async def start(self):
        for n in range(6):
            yield scrapy.Request(f"{base}/private/{n}", dont_filter=True)

    def parse(self, response):
        self.fetched.append(response.url)


process = AsyncCrawlerProcess({
    "ROBOTSTXT_OBEY": True, "LOG_ENABLED": False, "COOKIES_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        middleware: 100,
    },
})
process.crawl(Eager)
process.start()
print(json.dumps(len(Eager.fetched)))
"""


@pytest.fixture
def base(tmp_path):
    from frontier.testing.server import SiteServer
    from frontier.testing.site import Site

    with SiteServer(Site(urls=130), log=tmp_path / "log", delay=0.1) as server:
        yield server.seeds[0].rstrip("/")


def fetched(base, middleware):
    arguments = [sys.executable, "-c", SCRIPT, base, middleware]
    done = subprocess.run(arguments, check=True, capture_output=True, timeout=60)
    return json.loads(done.stdout)


def test_requests_that_wait_for_robots_txt_obey_it(base):
    assert fetched(base, "frontier.robots.RobotsTxtMiddleware") == 0


def test_scrapys_own_middleware_still_needs_ours(base):
    """Delete `frontier.robots` when this fails: Scrapy has mended it."""
    scrapys = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"

    assert fetched(base, scrapys) > 0
