"""Spiders of before Scrapy 2.13, which have `start_requests`."""

import json

import pytest
import scrapy

from tests.harness.project import scrapy_project

HEAD = """
import scrapy


class Old(scrapy.Spider):
    name = "old"
    custom_settings = {"ROBOTSTXT_OBEY": False, "COOKIES_ENABLED": False}

    def parse(self, response):
        yield {"from": response.url}
"""
ALONE = """
    def start_requests(self):
        yield scrapy.Request(f"{self.base}/about", cb_kwargs={})
"""
BOTH = """
    async def start(self):
        yield scrapy.Request(f"{self.base}/about")

    def start_requests(self):
        raise AssertionError("start() is there")
"""


MIDDLEWARE = """
class OldMiddleware:
    def process_start_requests(self, start_requests, spider):
        return start_requests
"""
START = """
    async def start(self):
        yield scrapy.Request(f"{self.base}/about")
"""


def test_a_middleware_with_process_start_requests_alone_is_named(
    serve, cluster, tmp_path
):
    settings = 'SPIDER_MIDDLEWARES = {"own.OldMiddleware": 500}\n'
    scrapy_project(tmp_path, HEAD + START + MIDDLEWARE, settings)
    base = serve(urls=30, hosts=1, calendar_months=0).seeds[0].rstrip("/")
    cluster.start("node-1", "-a", f"base={base}", spider="old", cwd=tmp_path)

    is_refused = scrapy.version_info < (2, 16)  # by Scrapy itself
    # Of plain Scrapy 2.14 the exit code is 0 as well.
    is_told = is_refused and scrapy.version_info[:2] != (2, 14)
    assert cluster.wait() == [1 if is_told else 0]
    log = cluster.text_of("node-1")
    if is_refused:
        assert "only define the deprecated process_start_requests()" in log
    else:
        told = "own.OldMiddleware has process_start_requests() and no process_start()"
        assert log.count(told) == 1


@pytest.mark.parametrize(
    ("methods", "is_told"),
    [
        pytest.param(ALONE, True, id="alone"),
        pytest.param(BOTH, False, id="both"),
    ],
)
def test_start_requests_is_called_and_told_of(
    serve, cluster, tmp_path, methods, is_told
):
    root = scrapy_project(tmp_path / "project", HEAD + methods)
    base = serve(urls=30, hosts=1, calendar_months=0).seeds[0].rstrip("/")
    output = tmp_path / "items.jsonl"
    cluster.start(
        "node-1", "-a", f"base={base}", "-o", str(output), spider="old", cwd=root
    )
    assert cluster.wait() == [0]
    items = [json.loads(line) for line in output.read_text().splitlines()]
    assert items == [{"from": f"{base}/about"}]
    log = cluster.text_of("node-1")
    assert ("start_requests()" in log) == is_told
