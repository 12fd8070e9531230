"""What nodes and commands read in the environment, such as ``REDIS_URL``."""

import json
import re
import sys

import pytest
import warm
from conftest import Cluster
from scrapy.settings import Settings

from frontier.session.launch import server_of
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite

NOBODY = "redis://127.0.0.1:1/0"
SETTINGS = """
ROBOTSTXT_OBEY = False
"""
SPIDER = """
import scrapy


class One(scrapy.Spider):
    name = "one"
"""


@pytest.fixture
def site():
    made = RawSite({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"})
    yield made
    made.close()


@pytest.fixture
def nodes(tmp_path, site, monkeypatch, unique):
    """Nodes of a project, which are told of no server but by the environment."""

    def made(*settings, url):
        start = f"    start_urls = [{site.url('/')!r}]\n"
        scrapy_project(tmp_path, SPIDER + start, SETTINGS + "\n".join(settings))
        monkeypatch.setenv("REDIS_URL", url)
        monkeypatch.setenv("FRONTIER_NAMESPACE", unique)
        return nodes

    def start(**settings):
        settings = {"FRONTIER_NAMESPACE": unique, **settings}
        nodes.start("a", spider="one", cwd=tmp_path, **settings)

    nodes = Cluster(tmp_path)
    nodes.run = start
    nodes.made = made
    yield nodes
    for process in nodes.nodes.values():
        process.kill()
        process.wait()


def test_a_node_and_a_command_find_the_same_store_above_the_projects(nodes, servers):
    nodes.made(f"REDIS_URL = {NOBODY!r}", url=servers("any").url).run()

    nodes.finish()
    line = "REDIS_URL in the environment overrides the settings: the store is "
    assert line + servers("any").url in nodes.text_of("a")
    assert not nodes.store_dir.exists()
    words = [sys.executable, "-m", "frontier", "crawl", "status", "--json"]
    told = warm.run(
        words, check=True, capture_output=True, text=True, cwd=nodes.directory
    )
    found = json.loads(told.stdout)
    (crawl_id,) = re.findall(r"is in crawl (\S+)", nodes.text_of("a"))
    assert (found["crawl_id"], found["state"]) == (crawl_id, "finished")


def test_a_node_names_the_variables_that_it_does_not_read(nodes, servers, monkeypatch):
    monkeypatch.setenv("FRONTIER_RUNID", "monday")
    monkeypatch.setenv("FRONTIER_HOST_SHARDS", "4")
    nodes.made(url=servers("any").url).run()

    nodes.finish()
    told = re.findall(r"(\S+) in the environment is not read(.*)", nodes.text_of("a"))
    assert told == [
        ("FRONTIER_HOST_SHARDS", ": give it as a setting"),
        ("FRONTIER_RUNID", "; did you mean FRONTIER_RUN_ID?"),
    ]


@pytest.mark.parametrize(
    ("priority", "name", "found"),
    [
        ("project", "REDIS_URL", NOBODY),
        ("spider", "REDIS_HOST", NOBODY),
        ("cmdline", "REDIS_URL", ""),
        ("cmdline", "REDIS_HOST", ""),
    ],
)
def test_only_the_command_line_is_above_the_environment(priority, name, found):
    settings = Settings()
    settings.set(name, "other", priority)

    assert server_of(settings, {"REDIS_URL": NOBODY}) == found
    assert server_of(settings, {}) == ""
