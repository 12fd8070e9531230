"""``frontier feeds``: what it lists, and what it adds."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frontier.feeds.model import Feed
from frontier.feeds.sources import source_of
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.harness import commands
from tests.harness.sites import make_tables, site_of, write_rows, write_toml
from tests.topologies import until

ROOT = Path(__file__).parents[2]
RSS, PAGE = "https://news.example/rss", "https://news.example/"


@pytest.fixture
def feeds(tmp_path):
    """Run ``frontier feeds`` with a configuration in the environment."""
    clean = {
        k: v for k, v in os.environ.items() if k not in {"COLUMNS", "FRONTIER_FEEDS"}
    }

    def run(*arguments, config="feeds.toml", code=0, stdin=""):
        env = clean | {"FRONTIER_FEEDS": config}
        done = commands.run("feeds", *arguments, cwd=tmp_path, env=env, given=stdin)
        assert done.returncode == code, done.stderr
        return done

    return run


def test_feeds_list_prints_sites_as_json(feeds, tmp_path):
    write_toml(tmp_path / "feeds.toml", site_of("News", [Feed(RSS, (PAGE,))], 60, "1h"))

    assert json.loads(feeds("list", "--json").stdout)["sites"] == [
        {
            "name": "News",
            "state": "active",
            "wait_s": 60,
            "wait_max_s": 3600,
            "feeds": [{"url": RSS, "implied": [PAGE]}],
        }
    ]


def test_opml_becomes_sites_and_what_is_left_out_is_said(feeds, tmp_path):
    (tmp_path / "in.opml").write_text(
        '<opml><body><outline xmlUrl="http://a.example/feed"/>'
        '<outline xmlUrl="gopher://b"/></body></opml>'
    )
    done = feeds("import-opml", "in.opml", "--wait", "2h", code=6)

    assert "'gopher://b' is not a URL of http or https" in done.stderr
    (tmp_path / "feeds.toml").write_text(done.stdout)
    site = site_of("a.example", ["http://a.example/feed"], "2h")
    assert source_of(str(tmp_path / "feeds.toml")).read() == {"a.example": site}
    again = feeds("import-opml", "in.opml", code=6)
    assert again.stdout.strip() == ""
    (tmp_path / "in.opml").write_text('<opml><outline url="http://a.example/"/></opml>')
    empty = feeds("import-opml", "in.opml", code=6)
    assert "names no feed" in empty.stderr


def test_rows_that_are_left_out_are_said(feeds, postgres):
    make_tables(postgres.run)
    write_rows(postgres.run, site_of("News", [Feed(RSS)]))
    postgres.run("update site set minwaitperiod = 'x'")
    done = feeds("list", config=postgres.url, code=6)

    assert "the wait 'x' must be a time" in done.stderr
    assert "News" in done.stdout


def test_sites_are_followed_from_any_directory(tmp_path):
    (tmp_path / "here").mkdir()
    log = tmp_path / "requests.jsonl"
    wanted = [f"/news/{number}" for number in (0, 2, 4)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    words = ["crawl", "run", "--feeds", "feeds.toml", "--nodes", "1"]
    with SiteServer(Site(urls=120, hosts=1, published=6), log=log) as server:
        base = server.site.bases[0]
        followed = site_of("a", [Feed(f"{base}/feed/rss.xml")], 1)
        write_toml(tmp_path / "here" / "feeds.toml", followed)
        with subprocess.Popen(
            [sys.executable, "-m", "frontier", *words, "-sDOWNLOAD_DELAY=0"],
            cwd=tmp_path / "here",
            env=env,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as process:
            until(lambda: all(path in log.read_text() for path in wanted))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=240)
        assert process.returncode == 130


def test_invalid_feeds_source_is_reported_before_anything_starts(tmp_path):
    (tmp_path / "feeds.toml").write_text("x = 1")
    for given, said in (
        ("feeds.toml", "feeds.toml:1: a file has no 'x'"),
        ("none.toml", "none.toml: cannot be read: No such file"),
        ("nosuch://me:s3cret@h/db", "is not a URL that SQLAlchemy knows"),
    ):
        done = commands.run("crawl", "run", "--feeds", given, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert "s3cret" not in done.stderr
