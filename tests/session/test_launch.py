import pytest
import scrapy

from frontier.errors import ConfigurationError
from frontier.session.launch import job_of, launched, run_of
from tests.harness.commands import printed


class Site(scrapy.Spider):
    name = "site"


def test_the_environment_may_name_a_run():
    assert launched({}) == launched({"FRONTIER_RUN_ID": ""}) == ""
    assert launched({"FRONTIER_RUN_ID": "nightly 7"}) == "nightly 7"


@pytest.mark.parametrize("value", ["x" * 201, "two\nlines", "\0"])
def test_invalid_run_id_is_refused_naming_the_variable(value):
    with pytest.raises(ConfigurationError, match="FRONTIER_RUN_ID = "):
        launched({"FRONTIER_RUN_ID": value})


def test_scrapyd_says_it_as_an_argument_of_the_spider():
    assert run_of(Site(_job="abc"), "") == "scrapyd abc"
    assert run_of(Site(_job="abc"), "mine") == "mine"
    assert run_of(Site(), "") == ""


def test_scrapyd_job_argument_does_not_change_the_job_id():
    one, other = job_of(Site(), {"_job": "abc"}), job_of(Site(), {"_job": "def"})

    assert one.id == other.id == job_of(Site(), {}).id
    assert job_of(Site(), {"cat": "a"}).id != one.id
    assert job_of(Site(start_urls=["http://a.example/"]), {}).id != one.id


def test_a_job_is_what_was_asked_for_and_not_what_the_spider_made_of_it():
    assert job_of(Site(began=1), {}).id == job_of(Site(began=2), {}).id
    given = [Site(start_urls=urls) for urls in (["a", "b"], ("b", "a"), {"a", "b"})]
    assert len({job_of(spider, {"x": object()}).id for spider in given}) == 1
    once = Site(start_urls=iter("ab"))
    assert job_of(once, {}).id == job_of(Site(), {}).id
    assert list(once.start_urls) == ["a", "b"]


@pytest.mark.parametrize("way", ["crawl", "crawl_async"])
def test_the_arguments_are_those_that_the_crawler_was_given(way):
    code = (
        "import os, sys, scrapy\n"
        "from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess\n"
        "from frontier.session.session import Session\n"
        "class Own(scrapy.Spider):\n"
        "    name = 'own'\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__('own')\n"
        "class Addon:\n"
        "    @classmethod\n"
        "    def from_crawler(cls, crawler):\n"
        "        print(Session(crawler)._arguments)\n"
        "        sys.stdout.flush()\n"
        "        os._exit(0)\n"
        f"ways = {{'crawl': CrawlerProcess, 'crawl_async': AsyncCrawlerProcess}}\n"
        f"made = ways[{way!r}]({{'LOG_ENABLED': False, 'ADDONS': {{Addon: 1}}}})\n"
        "made.crawl(Own, 7, cat='b')\n"
        "made.start()\n"
    )

    assert "{'0': 7, 'cat': 'b'}" in printed(code)
