"""Spiders and middlewares of before Scrapy 2.13, which have `start_requests`."""

import json

import pytest

from tests.harness.project import scrapy_project

SPIDER = """
import scrapy


class OldMiddleware:
    def process_start_requests(self, start_requests, spider):
        return start_requests


class Old(scrapy.Spider):
    name = "old"
    custom_settings = {
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
        "SPIDER_MIDDLEWARES": {OldMiddleware: 500},
    }

    def parse(self, response):
        yield {"from": response.url}
"""
ALONE = """
    def start_requests(self):
        yield scrapy.Request(f"{self.base}/about", cb_kwargs={})
        self.start_urls = [f"{self.base}/landing"]
        yield from super().start_requests()
"""
BOTH = """
    async def start(self):
        yield scrapy.Request(f"{self.base}/about")

    def start_requests(self):
        raise AssertionError("start() is there")
"""


@pytest.mark.parametrize(
    ("methods", "pages"),
    [
        pytest.param(ALONE, ["/about", "/landing"], id="alone"),
        pytest.param(BOTH, ["/about"], id="both"),
    ],
)
def test_start_requests_is_called_and_old_methods_are_reported(
    serve, cluster, tmp_path, methods, pages
):
    root = scrapy_project(tmp_path / "project", SPIDER + methods)
    base = serve(urls=30, hosts=1, calendar_months=0).seeds[0].rstrip("/")
    output = tmp_path / "items.jsonl"
    words = ("-a", f"base={base}", "-o", str(output))
    cluster.start("node-1", *words, spider="old", cwd=root)
    cluster.finish()

    items = [json.loads(line)["from"] for line in output.read_text().splitlines()]
    assert sorted(items) == [base + page for page in pages]
    log = cluster.text_of("node-1")
    assert ("has start_requests() and no start()" in log) == (methods == ALONE)
    assert log.count("OldMiddleware has process_start_requests() and no process_") == 1
