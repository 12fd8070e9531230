"""A log of JSON: each line of what real nodes write, whatever they have to say."""

import json
import re

import pytest

from frontier.cli.node_processes import NodeProcess
from frontier.json_log import line
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, page

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LEAST = {"timestamp", "level", "logger", "message", "node", "crawl"}
SPIDER = r"""
import asyncio
import logging
import pathlib
import threading
import time
import warnings

import scrapy
from twisted.internet import defer


class Unspoken:
    def __str__(self):
        raise RuntimeError("no words")


class Left:
    def __del__(self):
        raise RuntimeError("left behind")


class NoisySpider(scrapy.Spider):
    name = "noisy"

    async def start(self):
        for name in ("says", "raises", "blocks"):
            yield scrapy.Request(f"{self.site}/{name}", getattr(self, name))

    def says(self, response):
        self.logger.info("two\nlines, a \x1b[31mcolour\x1b[0m, a \x00 and \u2028")
        self.logger.warning("half a character: \ud800")
        self.logger.info("%d sheep", "many")
        self.logger.info(Unspoken())
        print("printed\nin two lines")
        warnings.warn("mind\nthe gap", UserWarning, stacklevel=1)
        thread = threading.Thread(target=self.fail, name="a thread of ours")
        thread.start()
        thread.join()
        defer.fail(ValueError("of nobody"))
        asyncio.ensure_future(self.fail_later())
        Left()
        self.logger.error("with a stack", stack_info=True)
        try:
            self.fail()
        except KeyError:
            logging.getLogger("theirs").exception("caught")

    def raises(self, response):
        raise ArithmeticError("in a\ncallback")

    def blocks(self, response):
        while not any(
            "frontier.watchdog" in log.read_text("utf-8")
            for log in pathlib.Path(self.logs).rglob("logs/*.log")
        ):
            time.sleep(0.05)

    def fail(self):
        raise KeyError("in a thread")

    async def fail_later(self):
        raise LookupError("in a task")
"""


@pytest.fixture
def project(tmp_path):
    settings = (
        'ROBOTSTXT_OBEY = False\nFRONTIER_LOG_FORMAT = "json"\nLOG_STDOUT = True\n'
        # The watchdog says that the node is busy after so long, unless the node was
        # lost before: if it came too late to say that it lives, nothing would be said.
        "FRONTIER_LEASE_TTL = 8\n"
    )
    return scrapy_project(tmp_path / "project", SPIDER, settings)


def test_every_line_of_a_node_is_one_json_object(cluster, project, tmp_path):
    site = RawSite({f"/{name}": page() for name in ("says", "raises", "blocks")})
    words = ["--spider", "noisy", "--nodes", "1"]
    words += ["-a", f"site={site.origin}", "-a", f"logs={tmp_path}"]
    words += ["--warc-dir", str(cluster.warc_dir)]
    done = cluster.crawl(*words, cwd=project)
    site.close()

    assert done.returncode == 0, done.stderr
    (log,) = tmp_path.rglob("logs/*.log")  # beside the store, if that is of its own
    records = [json.loads(line) for line in log.read_text("ascii").splitlines()]
    assert [one for one in records if not one.keys() >= LEAST] == []
    assert all(TIME.fullmatch(one["timestamp"]) for one in records)
    times = [
        one["timestamp"] for one in records if one["logger"] == "scrapy.core.engine"
    ]
    assert times == sorted(times)

    told = {one["message"]: one for one in records}
    assert "Scrapy " in records[0]["message"]  # the first line that there is
    assert "two\nlines, a \x1b[31mcolour\x1b[0m, a \x00 and \u2028" in told
    assert "half a character: ?" in told
    assert any(text.startswith("%d sheep (cannot be formatted") for text in told)
    assert any("Unspoken (cannot be formatted: no words)" in text for text in told)
    assert told["printed"]["logger"] == "stdout"
    assert any("mind\nthe gap" in text for text in told)
    assert "Traceback" in told["caught"]["exception"]
    assert told["caught"]["logger"] == "theirs"
    assert "NoisySpider" not in told["with a stack"]["message"]
    assert "own.py" in told["with a stack"]["stack"]
    raised = [one for one in records if "exception" in one]
    for text in ("in a\ncallback", "in a thread", "in a task", "left behind"):
        assert any(text in one["exception"] for one in raised), text
    assert any("a thread of ours" in one["message"] for one in raised)
    assert any(
        "of nobody" in one["message"] + one.get("exception", "") for one in records
    )
    of_watchdog = [one for one in records if one["logger"] == "frontier.watchdog"]
    assert of_watchdog
    names = {(one["node"], one["crawl"]) for one in of_watchdog}
    ((node, crawl),) = names
    assert (node[-2:], crawl) == ("-1", "noisy-1")  # its own name on a shared server
    of_spider = [one for one in records if one["logger"] == "noisy"]
    assert {one["spider"] for one in of_spider} == {"noisy"}
    assert {(one["node"], one["crawl"]) for one in of_spider} == names


def test_errors_and_warnings_of_a_node_are_read_from_its_json_log(tmp_path):
    log = tmp_path / "log"
    text = (
        "Error while reading start items\nTraceback\n  one\nZeroDivisionError: by 0\n"
    )
    records = [
        line(0.0, "WARNING", "a", "mind this", node="n", crawl=""),
        line(0.0, "ERROR", "b", "caught", exception="Traceback:\n  x\nKeyError: 'k'"),
        line(0.0, "INFO", "b", "nothing of note"),
        line(0.0, "CRITICAL", "b", text),
        line(0.0, "ERROR", "b", "in one line"),
    ]
    log.write_text("".join(f"{record}\n" for record in records))
    node = NodeProcess("node-1", log, None)

    assert node.news() == [
        "mind this",
        "caught: KeyError: 'k'",
        "Error while reading start items: ZeroDivisionError: by 0",
        "in one line",
    ]
    assert node.news() == []
