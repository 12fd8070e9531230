from concurrent.futures import Future

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from frontier.model import Stored
from frontier.pipelines import ItemOriginMiddleware, WarcPipeline
from frontier.requests.spider_output import ORIGIN, PARENT
from frontier.session.session import session_of

STORED = Stored("a.warc.gz", 1, 2, "<urn:uuid:1>", "2026-01-01", "sha256:0", None)


@pytest.fixture
def crawler():
    return Crawler(Spider, {})


@pytest.fixture
def archived(crawler):
    """A request whose response is in the archive."""
    request, stored = Request("http://a.example/"), Future()
    stored.set_result(STORED)
    session_of(crawler).requests.of(request).stored = stored
    return request


def test_no_item_is_looked_at_unless_it_gets_a_field_for_its_origin(crawler):
    with pytest.raises(NotConfigured):
        ItemOriginMiddleware.from_crawler(crawler)


async def test_an_item_that_replaced_another_learns_where_its_response_is(
    crawler, archived
):
    pipeline = WarcPipeline.from_crawler(crawler)
    ORIGIN.set(archived)
    PARENT.set(Request("http://a.example/image"))  # a pipeline has downloaded it

    item = await pipeline.process_item({"made by": "a pipeline"})

    assert item["warc"]["file"] == STORED.file


async def test_an_item_of_no_response_passes_unchanged(crawler, archived):
    pipeline = WarcPipeline.from_crawler(crawler)

    assert await pipeline.process_item({"of": "start"}) == {"of": "start"}
