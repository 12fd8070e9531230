"""``frontier crawl run --spider``, in a project that ``scrapy startproject`` makes."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm

from frontier.cli.node_processes import NodeProcess, NodeProcesses
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.harness.commands import one_line

ROOT = Path(__file__).parents[2]
SPIDER = """
import scrapy
from scrapy.linkextractors import LinkExtractor


class WalkSpider(scrapy.Spider):
    name = "walk"
    links = LinkExtractor(tags=("a", "link", "img"), attrs=("href", "src"))

    def __init__(self, seeds="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = seeds.split(",")

    def parse(self, response):
        yield {"url": response.url, "tag": self.settings["MY_TAG"]}
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in self.links.extract_links(response):
                yield response.follow(link)
"""
ODD = """
import scrapy


class OddSpider(scrapy.Spider):
    name = "odd"
    {}

    def __init__(self, seed, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [seed]

    def parse(self, response):
        assert self.crawler.stats.get_value("scheduler/enqueued") >= 0
        yield {{"a": b"x"}}
        yield {{"a": 1}}
"""
PIPELINE = """
import json
import os


class MinePipeline:
    def open_spider(self):
        self.file = open(f"items-{os.getpid()}.jsonl", "w")

    def close_spider(self):
        self.file.close()

    def process_item(self, item):
        self.file.write(json.dumps(item) + "\\n")
        return item
"""
ADDON = 'ADDONS = {"frontier.addon.Addon": 100}\n'
QUICK = ["-s", "DOWNLOAD_DELAY=0", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=8"]


@pytest.fixture
def project(tmp_path):
    """What ``scrapy startproject mine .`` writes, and a spider of one's own."""
    words = [sys.executable, "-m", "scrapy", "startproject", "mine", "."]
    warm.run(words, cwd=tmp_path, capture_output=True, check=True)
    mine = tmp_path / "mine"
    (mine / "spiders" / "walk.py").write_text(SPIDER)
    (mine / "pipelines.py").write_text(PIPELINE)

    def add(*lines):
        with (mine / "settings.py").open("a") as file:
            file.writelines(lines)

    add(ADDON, 'ITEM_PIPELINES = {"mine.pipelines.MinePipeline": 300}\n')
    add("ROBOTSTXT_OBEY = False\n")
    return add


@pytest.fixture
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("site") / "log.jsonl"


@pytest.fixture
def site(log):
    with SiteServer(Site(urls=90, hosts=2, slow_seconds=0.0), log=log) as server:
        yield server


def items(directory):
    files = sorted(directory.glob("items-*.jsonl"))
    assert len(files) == 2, "one for each node"
    return [
        json.loads(line) for file in files for line in file.read_text().splitlines()
    ]


@pytest.mark.one_server("the nodes share the embedded store")
def test_a_spider_of_a_project_is_run_with_its_arguments(
    frontier, project, site, log, tmp_path
):
    project('FRONTIER_STORE_DIR = "state"\n')
    project('FEEDS = {"of-%(frontier_node)s.csv": {}, "shared.jl": {}}\n')
    seeds = ",".join(site.seeds)
    done = frontier(
        "crawl", "run", "--spider", "walk", "--nodes", "2",
        "-a", f"seeds={seeds}", "-s", "MY_TAG=mine", *QUICK,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Crawl walk-1, spider walk: finished" in done.stdout
    found = items(tmp_path)
    assert f"\nItems             {len(found)} " in done.stdout
    fetched = set(expected_urls(site.site)) & {item["url"] for item in found}
    assert len(fetched) > 50
    assert {item["tag"] for item in found} == {"mine"}
    assert not RequestLog.read(log).repeated()
    assert (tmp_path / "state" / "store").is_dir()
    assert "the feed shared.jl of this node has its id in its name" in done.stderr
    feeds = sorted(path.name for path in tmp_path.glob("*-node-*"))
    names = [f"{name}-node-{i}" for name in ("of", "shared") for i in (1, 2)]
    assert feeds == [f"{n}.csv" if "of" in n else f"{n}.jl" for n in names]
    shared = [(tmp_path / f"shared-node-{i}.jl").read_text() for i in (1, 2)]
    assert len("".join(shared).splitlines()) == len(found)
    assert list((tmp_path / "warcs").glob("walk-1-*.warc.gz"))


@pytest.mark.one_server("the nodes share the embedded store")
def test_a_feed_that_cannot_be_opened_and_items_that_cannot_be_exported_are_no_success(
    frontier, project, site, log, tmp_path
):
    mine = 'custom_settings = {"LOG_FILE": "elsewhere.log"}'
    (tmp_path / "mine" / "spiders" / "odd.py").write_text(ODD.format(mine))
    project("ITEM_PIPELINES = {}\n")
    words = ("crawl", "run", "--spider", "odd", "--nodes", "1", *QUICK)
    words = (*words, "-a", f"seed={site.seeds[0]}", "-o")

    done = frontier(*words, "typo-%(frontier_nod)s.jl")
    assert done.returncode != 0
    assert "typo-%(frontier_nod)s.jl cannot be opened: KeyError" in done.stderr
    assert not RequestLog.read(log).entries

    done = frontier(*words, "odd.jl")
    assert done.returncode == 1
    assert "1 items are in no feed: their export failed" in done.stderr
    assert (tmp_path / "odd.jl").read_text() == '{"a": 1}\n'
    assert not (tmp_path / "elsewhere.log").exists()


def test_commands_at_once_have_nodes_feeds_and_reports_of_their_own(
    project, site, tmp_path
):
    run = [sys.executable, "-m", "frontier", "crawl", "run", "--nodes", "1"]
    words = [*run, "--spider", "walk", "-o", "of-%(frontier_node)s.jsonl"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    commands = {
        tag: warm.Popen(
            [*words, "-a", f"seeds={seed}", "-s", f"MY_TAG={tag}", *QUICK],
            cwd=tmp_path,
            **pipes,
        )
        for tag, seed in zip("ab", site.seeds, strict=True)
    }
    said = {tag: process.communicate()[0] for tag, process in commands.items()}

    assert [process.returncode for process in commands.values()] == [0, 0], said
    found = [re.search(r"Crawl (\S+), spider walk: finished", t) for t in said.values()]
    assert {one and one[1] for one in found} == {"walk-1", "walk-2"}
    feeds = sorted(tmp_path.glob("of-*.jsonl"))
    assert [feed.name for feed in feeds] == ["of-node-1.jsonl", "of-node-2.jsonl"]
    tags = [
        {json.loads(line)["tag"] for line in feed.read_text().splitlines()}
        for feed in feeds
    ]
    assert sorted(map(sorted, tags)) == [["a"], ["b"]]


@pytest.mark.store
@pytest.mark.parametrize("told", ["settings", "option"])
def test_nodes_and_report_are_of_the_server_that_is_named(
    frontier, project, server, site, unique, told
):
    project(f'FRONTIER_NAMESPACE = "{unique}"\n')
    option = ["--redis-url", server.url]
    if told == "settings":
        project(f'REDIS_URL = "{server.url}"\n')
        option = []
    done = frontier(
        "crawl", "run", "--spider", "walk", "--nodes", "1", *option,
        "-a", f"seeds={site.seeds[0]}empty", *QUICK,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    # The server's collection may have had a walk-1, of another namespace.
    assert re.search(r"Crawl walk-\d+, spider walk: finished", done.stdout)
    options = ["--redis-url", server.url, "--namespace", unique, "--json"]
    seen = json.loads(frontier("crawl", "status", *options).stdout)
    assert seen["queue"]["acked"] == seen["queue"]["pushed"] == 1
    (node,) = (each["node_id"] for each in seen["nodes"])
    machine = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
    # Two commands that start at once, on two machines, have no node in common.
    assert re.fullmatch(rf"{re.escape(machine)}-\d+-[0-9a-f]{{4}}-1", node)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--spider", "nope"], "it has walk"),
        (["--spider", "walk", "--scope", "host"], "-a"),
        (["--spider", "walk", "--seeds", "http://h/"], "--seeds"),
        ([], "--spider"),
        (["--spider", "walk", "-a", "nonsense"], "-a nonsense"),
        (["--spider", "walk", "-s", "ADDONS={}"], "ADDONS = "),
        (["--spider", "walk", "-s", "FRONTIER_PARTITIONS=x"], "must be a whole number"),
        (["--spider", "walk", "-s", "SPIDER_MODULES=gone"], "gone"),
        (["--spider", "walk", "-s", "DOWNLOAD_DELAY=fast"], "DOWNLOAD_DELAY = 'fast'"),
        (["--spider", "walk", "-s", "RETRY_ENABLED=often"], "RETRY_ENABLED = 'often'"),
        (
            ["--spider", "walk", "-s", 'DOWNLOADER_MIDDLEWARES={"mine.gone.M": 5}'],
            "DOWNLOADER_MIDDLEWARES: mine.gone.M cannot be loaded: ModuleNotFoundError",
        ),
    ],
)
def test_invalid_run_argument_is_reported_before_anything_starts(
    frontier, project, tmp_path, arguments, named
):
    done = frontier("crawl", "run", *arguments)

    assert done.returncode == 2
    assert named in one_line(done)
    assert not (tmp_path / ".frontier").exists()


def test_add_ons_that_are_set_again_further_down_are_named(frontier, project):
    project("ADDONS = {}\n")
    said = one_line(frontier("crawl", "run", "--spider", "walk"))

    assert "its ADDONS are {} (line " in said
    assert "settings.py, which overrides line " in said
    assert ADDON.strip() in said


HANGS = """
import pathlib
import scrapy


class HangSpider(scrapy.Spider):
    name = "hang"
    start_urls = ["data:,x"]

    def parse(self, response):
        pathlib.Path("hangs").touch()
        while True:
            pass
"""


def test_a_third_signal_kills_a_node_that_hangs_and_each_says_what_it_did(
    project, tmp_path
):
    (tmp_path / "mine" / "spiders" / "hang.py").write_text(HANGS)
    words = [sys.executable, "-m", "frontier", "crawl", "run", "--spider", "hang"]
    with subprocess.Popen(
        [*words, "--nodes", "1"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "REDIS_URL"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        while not (tmp_path / "hangs").exists():
            assert process.poll() is None
            time.sleep(0.01)
        for said in ("the nodes finish what is in flight", "the nodes stop at once"):
            process.send_signal(signal.SIGTERM)
            assert any(said in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()

    assert process.returncode == 130, out + err
    line = "killed node-1: what was in flight there is fetched again when the crawl"
    assert line in " ".join(err.split())


def running_in(directory):
    """The nodes of ``crawl run`` that run in *directory*."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_node = b"frontier.session.process" in words
            if is_node and (process / "cwd").readlink() == directory:
                found.append(int(process.name))
    return found


def test_no_node_stays_behind_if_one_of_them_cannot_be_started(
    frontier, project, tmp_path
):
    logs = tmp_path / ".frontier" / "logs"
    now = time.time()
    for second in range(120):  # a directory stands where the log of the third would be
        stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(now + second))
        (logs / f"{stamp}-node-3.log").mkdir(parents=True)
    done = frontier(
        "crawl", "run", "--spider", "walk", "--nodes", "3", "-a", "seeds=data:,x"
    )
    left = running_in(tmp_path)

    assert done.returncode == 8
    assert left == []
    assert "node-3 cannot be started; stopping the 2 that run" in done.stderr
    assert "node-3.log: Is a directory" in done.stderr


WARNS = """
import asyncio
import pathlib
import scrapy


class WarnSpider(scrapy.Spider):
    name = "warn"

    async def start(self):
        yield scrapy.Request("data:,x")

    async def parse(self, response):
        self.logger.warning("mind the gap")
        self.logger.warning("mind the gap")
        self.logger.info("nothing of note")
        pathlib.Path("warned").touch()
        while not pathlib.Path("go").exists():
            await asyncio.sleep(0.01)
"""


@pytest.mark.one_server("the nodes share the embedded store")
def test_what_nodes_warn_of_is_shown_and_nodes_that_take_part_already_are_named(
    project, tmp_path
):
    (tmp_path / "mine" / "spiders" / "warn.py").write_text(WARNS)
    words = [sys.executable, "-m", "frontier", "crawl", "run", "--spider", "warn"]
    words += ["--nodes", "1"]
    env = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(words, cwd=tmp_path, env=env, text=True, **pipes) as first:
        assert any("node-1: mind the gap\n" in line for line in first.stderr)
        first.kill()
    assert len(running_in(tmp_path)) == 1
    with subprocess.Popen(words, cwd=tmp_path, env=env, text=True, **pipes) as second:
        line = "node-1 takes part in warn-1 already, started elsewhere\n"
        assert any(line in said for said in second.stderr)
        (tmp_path / "go").touch()
        _, err = second.communicate()

    assert second.returncode == 0, err
    assert "node-1: " not in err


def test_why_a_node_failed_is_shown_however_much_nodes_have_warned_of(tmp_path):
    many = "".join(f"- - [x] WARNING: {'x' * n}\n" for n in range(1, 300))
    log, said = tmp_path / "log", []
    log.write_text(f"{many}- - [x] CRITICAL: it is broken\n- - [x] INFO: closed\n")
    nodes = NodeProcesses(said.append, said.append)
    nodes.every = [NodeProcess("a", log, SimpleNamespace(poll=lambda: 7))]
    nodes.complain()

    assert said[-2:] == [
        f"a failed with exit code 7; its log is {log}",
        "  it is broken",
    ]
    assert len(nodes.news) < len(said) < 110
