import logging

import pytest
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from frontier.pipelines import ItemOriginMiddleware, WarcPipeline

ITEM_SIGNALS = (signals.item_scraped, signals.item_dropped, signals.item_error)


class Own(WarcPipeline):
    """A pipeline of a project's."""


class Holder:
    """A pipeline that makes one of ours itself."""


@pytest.fixture
def crawler():
    def crawler(pipelines):
        return Crawler(Spider, {"ITEM_PIPELINES": pipelines})

    return crawler


def listeners(crawler):
    return [
        receiver
        for signal in ITEM_SIGNALS
        for receiver in crawler.signals.send_catch_log(signal, item={})
    ]


@pytest.mark.parametrize(
    "pipelines",
    [{}, {Holder: 1}, {WarcPipeline: None}, {"frontier.pipelines.WarcPipeline": None}],
)
def test_item_origins_cost_nothing_unless_wanted(crawler, pipelines):
    made = crawler(pipelines)
    with pytest.raises(NotConfigured):
        ItemOriginMiddleware.from_crawler(made)

    assert listeners(made) == []


@pytest.mark.parametrize("pipeline", [WarcPipeline, Own, f"{__name__}.Own"])
def test_item_origins_are_kept_for_a_pipeline_that_wants_them(crawler, pipeline):
    made = crawler({pipeline: 1})
    ItemOriginMiddleware.from_crawler(made)
    WarcPipeline.from_crawler(made)

    assert len(listeners(made)) == len(ITEM_SIGNALS)


def test_pipeline_without_item_origins_warns(crawler, caplog):
    with caplog.at_level(logging.WARNING):
        WarcPipeline.from_crawler(crawler({Holder: 1}))

    assert "put frontier.pipelines.WarcPipeline" in caplog.text
