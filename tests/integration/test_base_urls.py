"""A page whose base, or refresh, is no URL reaches its spider, and so do its links."""

import pytest

from tests.harness.project import scrapy_project
from tests.rawsite import RawSite

SPIDER = """
import scrapy
from scrapy.linkextractors import LinkExtractor


class Walk(scrapy.Spider):
    name = "walk"
    handle_httpstatus_list = [302]

    def parse(self, response):
        print("parsed", response.url.rpartition("/")[2] or "start")
        for link in LinkExtractor().extract_links(response):
            yield response.follow(link)
"""
SETTINGS = """
ROBOTSTXT_OBEY = False
"""


def page(text, kind="text/html"):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}"
    return f"{head}\r\n\r\n{text}".encode()


def refresh(url):
    return f"<meta http-equiv=refresh content='0;url={url}'>"


PAGES = {
    "/": page("<base href='http://[::1/'><a href='/refreshed'>x</a>"),
    "/refreshed": page(refresh("http://[::1/") + "<a href='/port'>x</a>"),
    "/port": page(refresh("http://a:b:c/") + "<a href='/both'>x</a>"),
    "/both": page("<base href='//['>" + refresh("//[") + "<a href='/xml'>x</a>"),
    "/xml": page("<r><base href='http://[::1/'/><a href='/last'/></r>", "text/xml"),
    "/last": page("end"),
}


@pytest.fixture
def site():
    made = RawSite(PAGES)
    yield made
    made.close()


def test_every_page_is_parsed_and_archived(cluster, tmp_path, site):
    start = f"    start_urls = [{site.url('/')!r}]\n"
    named = '    name = "walk"\n'
    scrapy_project(tmp_path, SPIDER.replace(named, named + start), SETTINGS)
    cluster.start("a", spider="walk", cwd=tmp_path)

    assert cluster.wait() == [0]
    text = cluster.text_of("a")
    for path in PAGES:
        assert f"parsed {path[1:] or 'start'}\n" in text
    assert "has a base or a refresh that is no URL" in text
    assert "Traceback" not in text
    (log,) = cluster.warc_dir.glob("*.crawl.log")
    lines = [line.split() for line in log.read_text().splitlines()]
    assert {each[3] for each in lines if each[1] == "200"} == {*map(site.url, PAGES)}
