"""What a project may have set for others, and every way to start Scrapy in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

from tests.harness.project import scrapy_project

ROOT = Path(__file__).parents[2]
REDIS_SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SELECT = "twisted.internet.selectreactor.SelectReactor"
CAPTURE = "frontier.downloadermiddlewares.CaptureMiddleware"
SPIDER = """
import os

import scrapy


class OtherSpider(scrapy.Spider):
    name = "other"
    start_urls = [os.environ.get("SITE", "http://127.0.0.1:1/")]
    custom_settings = {"ROBOTSTXT_OBEY": False, **%r}

    def parse(self, response):
        '''Check a page.

        @url %s
        @returns items 1 1
        '''
        state = getattr(self, "state", {})
        state["pages"] = state.get("pages", 0) + 1
        yield {"url": response.url, "pages": state["pages"]}

    def parse_again(self, response):
        '''Check the same page.

        @url %s
        @returns items 2 2
        '''
        yield {"url": response.url}


class OtherScheduler:
    pass
"""
SCRIPT = """
import sys
%s
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.utils.project import get_project_settings
process = %s(get_project_settings())
process.crawl("other")
process.start()
print("went on")
"""
INSTALLED = "from twisted.internet import selectreactor; selectreactor.install()"


@pytest.fixture
def project(tmp_path, serve):
    """Make a project with the add-on; run Python in it."""
    server = serve(urls=100, hosts=1, calendar_months=12)
    page = f"{server.seeds[0]}about"
    root = tmp_path / "project"

    def project(*lines, custom=None):
        spider = SPIDER % (custom or {}, page, page)
        scrapy_project(root, spider, "\n".join(lines))
        return run

    def run(*words, **env):
        done = warm.run(
            [sys.executable, *words],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "SITE": page, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        done.made = {path.name for path in root.iterdir()} & {".frontier", "warcs"}
        return done

    project.page = page
    project.root = root
    project.fetched = lambda: server.requests().fetched()[page]
    return project


def refusal(done):
    """The one line that says why a crawl was refused, with nothing left behind."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "CRITICAL" in line]
    assert done.made == set()
    return line


@pytest.mark.parametrize(
    ("process", "first", "settings"),
    [
        ("AsyncCrawlerProcess", "", {"SCHEDULER": "a.B"}),
        ("CrawlerProcess", "", {"TWISTED_REACTOR": SELECT}),
        ("CrawlerProcess", INSTALLED, {}),
        ("CrawlerProcess", "", {"CONCURRENT_REQUESTS": 2_000_000_000}),
        ("CrawlerProcess", "", {"DOWNLOADER_MIDDLEWARES": {CAPTURE: None}}),
        (
            "AsyncCrawlerProcess",
            "",
            {"REDIS_URL": "redis://127.0.0.1:1", "FRONTIER_STORE_WAIT": 1},
        ),
    ],
    ids=["scheduler", "reactor", "installed", "files", "capture", "store"],
)
def test_a_program_whose_crawl_cannot_begin_does_not_end_with_0(
    project, process, first, settings
):
    done = project(custom=settings)("-c", SCRIPT % (first, process))

    refusal(done)
    assert "went on" in done.stdout


LOOKING = """
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings
process = CrawlerProcess(get_project_settings())
crawler = process.create_crawler("other")
process.crawl(crawler)
process.start()
print(crawler.spider.name, crawler.stats.get_value("finish_reason"))
"""


def test_a_program_may_look_at_a_spider_that_has_fetched_nothing(project):
    project("RETRY_ENABLED = False")
    # Its own process: a warm one has imported what `scrapy` does.
    done = subprocess.run(
        [sys.executable, "-c", LOOKING],
        cwd=project.root,
        env={
            **os.environ,
            "PYTHONPATH": f"{project.root}:{ROOT}",
            "SITE": "http://127.0.0.1:1/",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "other frontier_nothing_fetched\n", done.stderr
    assert "has ended without one page" in done.stderr


def test_a_project_without_scrapys_middlewares_has_seeds_too(project):
    """Scrapy's own ones say which requests are start requests, and how deep one is."""
    run = project("SPIDER_MIDDLEWARES_BASE = {}")
    done = run("-m", "scrapy", "crawl", "other")

    assert done.returncode == 0, done.stderr
    assert project.fetched() == 1


def test_runspider_is_a_crawl(project):
    run = project(custom={"SCHEDULER": "a.B"})
    assert "SCHEDULER = 'a.B'" in refusal(run("-m", "scrapy", "runspider", "own.py"))

    done = project()("-m", "scrapy", "runspider", "own.py")
    assert done.returncode == 0, done.stderr
    assert done.made == {".frontier", "warcs"}


def test_an_addon_that_comes_later_cannot_set_another_scheduler(project):
    run = project('ADDONS["later.Later"] = 200')
    (project.root / "later.py").write_text(
        "class Later:\n"
        "    def update_settings(self, settings):\n"
        "        settings.set('SCHEDULER', 'scrapy.core.scheduler.Scheduler', 30)\n"
    )

    assert "SCHEDULER" in refusal(run("-m", "scrapy", "crawl", "other"))


DEVELOPERS = {
    "fetch": (["fetch", "{page}"], "</html>"),
    "shell of a spider": (
        ["shell", "--spider=other", "-c", "response.status", "{page}"],
        "200",
    ),
    "parse": (["parse", "--spider=other", "--pipelines", "{page}"], "'pages': 1"),
    "list": (["list"], "other"),
}


@pytest.mark.parametrize("kind", DEVELOPERS)
def test_a_command_of_a_developer_opens_no_crawl(project, kind):
    words, said = DEVELOPERS[kind]
    run = project(
        'REDIS_URL = "redis://127.0.0.1:1"',  # nobody is there
        f"SCHEDULER = {REDIS_SCHEDULER!r}",
        'DUPEFILTER_CLASS = "frontier.dupefilter.RedisDupeFilter"',
        'ITEM_PIPELINES = {"frontier.pipelines.WarcPipeline": 1}',
    )
    words = [word.format(page=project.page) for word in words]
    done = run("-m", "scrapy", *words, BROWSER="true")

    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert done.made == set()
    assert "Traceback" not in done.stderr


def test_check_runs_every_contract_even_of_one_page(project):
    run = project('REDIS_URL = "redis://127.0.0.1:1"')  # nobody is there
    done = run("-m", "scrapy", "check", "-v")

    assert (done.returncode, done.made) == (1, set())
    assert "[other] parse (@returns post-hook) ... ok" in done.stderr
    assert "[other] parse_again (@returns post-hook) ... FAIL" in done.stderr
    assert "Ran 2 contracts" in done.stderr
    assert project.fetched() == 2


def test_jobdir_keeps_the_state_of_the_spider_and_says_so(project, tmp_path):
    run = project("FRONTIER_KEEP_ALIVE = False")
    for number in (1, 2):
        output = tmp_path / f"{number}.jsonl"
        words = ["crawl", "other", "-sJOBDIR=job", "-o", str(output)]
        done = run("-m", "scrapy", *words)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("JOBDIR keeps the state of this node's spider") == 1
        assert json.loads(output.read_text())["pages"] == number
