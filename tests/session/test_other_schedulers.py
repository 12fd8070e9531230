"""What the settings of others mean under the frontier."""

import logging

import pytest
from scrapy import Spider
from scrapy.settings import Settings
from scrapy_redis.spiders import RedisSpider

from frontier.errors import ConfigurationError
from frontier.session.other_schedulers import SCHEDULER, stand_back, take_over
from tests.harness.cases import each

NO_FILTER = "scrapy.dupefilters.BaseDupeFilter"
SELECT = "twisted.internet.selectreactor.SelectReactor"
REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}


@pytest.fixture
def said(caplog):
    """Take over from settings; return those there are now, and what was said."""

    def said(given, *, spider=Spider, priority="project"):
        settings = Settings()
        settings.setdict(given, priority)
        caplog.clear()
        with caplog.at_level(logging.INFO, "frontier.session.other_schedulers"):
            take_over(settings, spider)
        return settings, [(r.levelname, r.getMessage()) for r in caplog.records]

    return said


def test_project_without_settings_logs_nothing(said):
    settings, lines = said({})

    assert settings["SCHEDULER"] == SCHEDULER
    assert lines == []
    assert "REDIS_URL" not in settings


@pytest.mark.parametrize("priority", ["project", "spider", "cmdline"])
def test_scrapy_redis_is_taken_over_wherever_it_was_set(said, priority):
    settings, lines = said(REDIS, priority=priority)

    assert settings["SCHEDULER"] == SCHEDULER
    assert settings["REDIS_URL"] == "redis://localhost:6379"
    ((level, line),) = lines
    assert (level, line.endswith("as with scrapy-redis")) == ("INFO", True)


def test_a_class_is_as_good_as_its_path(said):
    from scrapy_redis.scheduler import Scheduler

    settings, _ = said({"SCHEDULER": Scheduler})

    assert settings["SCHEDULER"] == SCHEDULER


@pytest.mark.parametrize(
    "server",
    [
        {"REDIS_URL": "redis://h"},
        {"REDIS_HOST": "h"},
        {"REDIS_PORT": 1},
        {"REDIS_PARAMS": {"host": "h"}},
    ],
)
def test_the_server_of_the_project_stays(said, server):
    settings, lines = said({**REDIS, **server})

    assert {name: settings[name] for name in server} == server
    assert "localhost" not in str(lines)
    assert settings.get("REDIS_URL") == server.get("REDIS_URL")


@pytest.mark.parametrize(
    ("queue", "order"),
    [
        ("PriorityQueue", None),
        ("SpiderPriorityQueue", None),
        ("FifoQueue", "bfs"),
        ("SpiderQueue", "bfs"),
        ("LifoQueue", "dfs"),
        ("SpiderStack", "dfs"),
    ],
)
def test_a_queue_of_scrapy_redis_is_an_order(said, queue, order):
    chosen = {"SCHEDULER_QUEUE_CLASS": f"scrapy_redis.queue.{queue}"}
    settings, _ = said({**REDIS, **chosen})

    assert settings.get("FRONTIER_ORDER") == order


@pytest.mark.parametrize("persists", [True, False])
def test_scheduler_persist_becomes_keep_frontier(said, persists):
    settings, _ = said({**REDIS, "SCHEDULER_PERSIST": persists})

    assert settings["FRONTIER_KEEP_FRONTIER"] is persists


def test_settings_of_the_frontier_stand_above_those_of_others(said):
    mine = {
        "FRONTIER_ORDER": "bfs",
        "FRONTIER_KEEP_FRONTIER": True,
        "FRONTIER_KEEP_ALIVE": False,
    }
    others = {
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.LifoQueue",
        "SCHEDULER_PERSIST": False,
    }
    settings, _ = said({**REDIS, **others, **mine}, spider=RedisSpider)

    assert {name: settings[name] for name in mine} == mine


def test_a_spider_that_is_fed_waits_for_start_urls(said):
    settings, lines = said({}, spider=RedisSpider)

    assert settings["FRONTIER_KEEP_ALIVE"] is True
    assert len(lines) == 1


@pytest.mark.parametrize(
    "ignored",
    [
        {"SCHEDULER_FLUSH_ON_START": True},
        {"SCHEDULER_IDLE_BEFORE_CLOSE": 10},
        {"SCHEDULER_QUEUE_KEY": "shared"},
        {"SCHEDULER_DUPEFILTER_KEY": "shared"},
        {"SCHEDULER_SERIALIZER": "json"},
        {"SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue"},
        {"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"},
        {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
        {"STATS_CLASS": "scrapy_redis.stats.RedisStatsCollector"},
    ],
)
def test_ignored_setting_logs_a_warning(said, ignored):
    _, lines = said(ignored)

    ((level, text),) = lines
    assert level == "WARNING"
    assert text.startswith(tuple(ignored))


@pytest.mark.parametrize(
    "idle",
    [
        {"SCHEDULER_FLUSH_ON_START": False},
        {"SCHEDULER_IDLE_BEFORE_CLOSE": 0},
        {"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter"},
        {"DUPEFILTER_CLASS": "frontier.dupefilter.RedisDupeFilter"},
        {"SCHEDULER": SCHEDULER},
    ],
)
def test_harmless_setting_of_another_scheduler_logs_nothing(said, idle):
    assert said(idle)[1] == []


@each(
    ("name", "value", "priority", "place", "hint"),
    [
        ("SCHEDULER", "nowhere.Scheduler", "cmdline", "on the command", "has its own"),
        ("SCHEDULER", "a.B", "project", "in the project's", "has its own"),
        ("DUPEFILTER_CLASS", NO_FILTER, "cmdline", "on the command", "dont_filter="),
        ("SCHEDULER_QUEUE_CLASS", "my.Queue", "project", "in the", "FRONTIER_ORDER"),
        ("TWISTED_REACTOR", SELECT, "spider", "by the spider (custom", "asyncio"),
        ("TWISTED_REACTOR_ENABLED", "False", "cmdline", "on the command", "asyncio"),
    ],
)
def test_a_refusal_says_what_was_set_where_and_changes_nothing(
    name, value, priority, place, hint
):
    settings = Settings(REDIS)
    settings.set(name, value, priority)
    before = settings.copy_to_dict()

    with pytest.raises(ConfigurationError) as refused:
        take_over(settings, Spider)
    assert f"{name} = {value!r}, set {place}" in str(refused.value)
    assert hint in str(refused.value)
    assert "Delete the setting" in str(refused.value)
    assert settings.copy_to_dict() == before


def test_standing_back_leaves_what_needs_no_store():
    settings = Settings({**REDIS, "JOBDIR": "x"})
    stand_back(settings)

    assert settings["SCHEDULER"] == "scrapy.core.scheduler.Scheduler"
    assert settings["DUPEFILTER_CLASS"] == "scrapy.dupefilters.RFPDupeFilter"


def test_standing_back_leaves_the_classes_of_others():
    settings = Settings({"SCHEDULER": "my.Scheduler", "DUPEFILTER_CLASS": "my.Filter"})
    stand_back(settings)

    assert settings["SCHEDULER"] == "my.Scheduler"
    assert settings["DUPEFILTER_CLASS"] == "my.Filter"
