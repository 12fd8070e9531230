"""Commands import no library that they do not use: most of their time is imports."""

import asyncio
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from frontier.cli import NOUNS
from frontier.cluster.crawls import enter
from frontier.cluster.shared_settings import crawl_settings
from frontier.settings.config import Config
from tests.harness.commands import printed

ROOT = Path(__file__).parents[2]
HEAVY = ("scrapy", "twisted", "lxml", "tldextract", "re2", "rich.live", "rich.progress")
RUN = """
import sys
from frontier.cli import main

heavy, *lines = sys.stdin.read().splitlines()
for line in lines:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as left:
        ended = left.code or 0
    loaded = [name for name in heavy.split() if name in sys.modules]
    if ended or loaded:
        raise SystemExit(f"{line}: ended with {ended}, imported {loaded}")
"""


@pytest.fixture
def here(server, blocking, unique):
    """The options that lead to an open crawl, `site-1`."""
    store = blocking()

    async def run(calls):
        return store.run(calls)

    namespace = f"imports-{unique}"
    asyncio.run(enter(run, namespace, "site", "", crawl_settings(Config())))
    return f"--redis-url {server.url}", f"--namespace {namespace}"


def run_all(lines, where, heavy=HEAVY):
    printed(RUN, cwd=where, input="\n".join([" ".join(heavy), *lines]))


def test_commands_that_look_into_a_store_do_without_scrapy(here, tmp_path):
    server, namespace = here
    commands = [
        "crawl list",
        "crawl status --crawl site-1",
        "crawl dead",
        "crawl repair --crawl site-1",
        "crawl status --nodes",
        "crawl end --discard --crawl site-1 --yes",
    ]
    lines = [f"{command} {server} {namespace}" for command in commands]
    run_all(lines, tmp_path)


def test_a_redis_that_is_too_old_is_named_with_the_one_that_will_do(tmp_path):
    (tmp_path / "redis.py").touch()  # one without redis.asyncio, as 2.10 is
    command = [sys.executable, "-m", "frontier", "crawl", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = (w for w in project["dependencies"] if w.startswith("redis>"))
    assert done.returncode == 2
    line = f"frontier: the package redis is too old here: pip install '{wanted}'\n"
    assert done.stderr.decode() == line


def test_commands_that_need_no_store_do_without_scrapy(tmp_path):
    commands = [
        "--help",
        "--version",
        "crawl run --help",
        "seen plan --urls 1M",
        "canon explain http://a.example/",
    ]
    run_all(commands, tmp_path)


def test_a_list_of_feeds_needs_no_parser_and_no_database(tmp_path):
    (tmp_path / "feeds.toml").write_text('[[site]]\nname = "a"\n')
    others = ("sqlalchemy", "tomlkit", "feedparser", "psycopg")
    run_all(["feeds list --feeds feeds.toml"], tmp_path, (*HEAVY, *others))


def test_help_speaks_to_no_store(tmp_path):
    lines = ["--help", *(f"{noun} --help" for noun in NOUNS)]
    run_all(lines, tmp_path, (*HEAVY, "redis", "asyncio"))
