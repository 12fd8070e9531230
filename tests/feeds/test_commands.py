"""``frontier feeds``: a file, SQLite and PostgreSQL."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm

from frontier.feeds.feeds_toml import TomlSites
from frontier.feeds.live_sites import source_of
from frontier.feeds.model import Feed, site_of
from frontier.feeds.model import Site as FeedSite
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.harness import commands

ROOT = Path(__file__).parents[2]
RSS, SPORT = "https://news.example/rss", "https://news.example/sport.xml"


@pytest.fixture(params=["toml", "sqlite", "postgres"])
def config(request, tmp_path):
    """A configuration that is not there yet, of each kind."""
    if request.param == "toml":
        return str(tmp_path / "feeds.toml")
    return request.getfixturevalue(request.param).url


@pytest.fixture
def feeds(tmp_path):
    """Run ``frontier feeds`` with a configuration in the environment."""
    clean = {
        k: v for k, v in os.environ.items() if k not in {"COLUMNS", "FRONTIER_FEEDS"}
    }

    def run(config, *arguments, code=0, stdin=""):
        env = clean | {"FRONTIER_FEEDS": config}
        done = commands.run("feeds", *arguments, cwd=tmp_path, env=env, given=stdin)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def test_the_life_of_a_site(feeds, config):
    feeds(config, "add", RSS, SPORT, "--site", "News", "--wait", "1h 30m",
          "--wait-max", "2d", "--implied", "https://news.example/")  # fmt: skip
    added = source_of(config).read()
    pages = ("https://news.example/",)
    both = (Feed(RSS, pages), Feed(SPORT, pages))
    assert added == {"News": FeedSite("News", both, 5400, 172_800)}

    feeds(config, "pause", "News")
    assert source_of(config).read()["News"].paused
    feeds(config, "resume", "News")
    assert source_of(config).read() == added

    feeds(config, "remove", RSS, "--yes")
    assert source_of(config).read()["News"].feeds == both[1:]
    feeds(
        config,
        "add",
        SPORT,
        "--site",
        "News",
        "--wait",
        "40d",
        "--implied",
        "http://p/",
    )
    site = source_of(config).read()["News"]
    assert site.feeds == (Feed(SPORT, (*pages, "http://p/")),)
    assert (site.wait_s, site.wait_max_s) == (40 * 86_400, 40 * 86_400)

    feeds(config, "remove", "News", "--yes")
    assert source_of(config).read() == {}


def test_a_site_that_has_ended_goes_on(feeds, config):
    ended = site_of("News", [Feed(RSS)], ended=True)
    for words in (["resume", "News"], ["add", SPORT, "--site", "News"]):
        source_of(config).edit(lambda _: {"News": ended})
        feeds(config, *words)
        assert not source_of(config).read()["News"].ended


def test_what_is_printed_is_data_if_that_is_wanted(feeds, config):
    done = feeds(config, "add", RSS, "--json")
    said = json.loads(done.stdout)
    listed = json.loads(feeds(config, "list", "--json").stdout)

    assert said["added"] == ["news.example"]
    assert said["changed"] == said["removed"] == said["left_out"] == []
    assert "s3cret" not in done.stdout + done.stderr
    assert listed["sites"] == [
        {
            "name": "news.example",
            "state": "active",
            "wait_s": 3600,
            "wait_max_s": 3600,
            "feeds": [{"url": RSS, "implied": []}],
        }
    ]
    assert "says so already" in feeds(config, "add", RSS).stdout


def test_opml_goes_out_and_comes_in(feeds, config, tmp_path):
    source_of(config).edit(
        lambda _: {
            "News": FeedSite(
                "News", (Feed(RSS, ("https://news.example/",)),), 60, 3600
            ),
            "Old": site_of("Old", [Feed(SPORT)], paused=True, ended=True),
        }
    )
    feeds(config, "export-opml", "out.opml")
    assert (
        "out.opml is there" in feeds(config, "export-opml", "out.opml", code=2).stderr
    )
    feeds(config, "export-opml", "out.opml", "--force")
    before = source_of(config).read()
    copy = str(tmp_path / "copy.toml")

    feeds(copy, "import-opml", "out.opml")
    assert source_of(copy).read() == before
    assert feeds(copy, "export-opml").stdout.count("xmlUrl") == 2


def test_an_import_that_is_not_whole_says_so(feeds, tmp_path):
    (tmp_path / "in.opml").write_text(
        '<opml><body><outline xmlUrl="http://a.example/feed"/>'
        '<outline xmlUrl="gopher://b"/></body></opml>'
    )
    done = feeds("feeds.toml", "import-opml", "in.opml", code=6)

    assert "'gopher://b' is not a URL of http or https" in done.stderr
    assert "a.example: new" in done.stdout


def test_removing_asks_first(feeds, tmp_path):
    feeds("feeds.toml", "add", RSS)
    done = feeds("feeds.toml", "remove", "news.example", code=2)
    assert "1 site, 1 feed" in done.stderr
    assert "nothing was removed; to remove them add --yes" in done.stderr

    ours, theirs = pty.openpty()
    with warm.Popen(
        [sys.executable, "-m", "frontier", "feeds", "remove", RSS],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "FRONTIER_FEEDS": "feeds.toml"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        os.write(ours, b"y\n")
        while True:
            try:
                if not os.read(ours, 4096):
                    break
            except OSError:  # what a closed terminal raises
                break
    os.close(ours)
    assert process.returncode == 0
    assert source_of(str(tmp_path / "feeds.toml")).read()["news.example"].feeds == ()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["add", "ftp://a/"], 2, "'ftp://a/' is not a URL of http or https"),
        (["add", SPORT, "--wait", "1h30"], 2, "'1h30' is not a wait"),
        (["add", SPORT, "--wait", "0"], 2, "the wait '0' is too short"),
        (["add", RSS, "--site", "Other"], 2, "is in the site 'News' already"),
        (["pause", "Nws"], 4, "there is no site 'Nws'"),
        (["resume", "Nws"], 4, "there is no site 'Nws'"),
        (["remove", "http://b/", "--yes"], 4, "there is no site 'http://b/'"),
        (["import-opml", "none.opml"], 2, "none.opml: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(feeds, config, words, code, said):
    source_of(config).edit(lambda _: {"News": site_of("News", [Feed(RSS)])})
    before = source_of(config).read()
    done = feeds(config, *words, code=code)

    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert source_of(config).read() == before


def test_a_configuration_that_is_broken_is_said_with_its_line(feeds, tmp_path):
    (tmp_path / "feeds.toml").write_text('[[site]]\nname = "a"\nwiat = "1h"\n')
    for words in (["list"], ["add", RSS], ["pause", "a"], ["export-opml"]):
        done = feeds("feeds.toml", *words, code=2)
        assert "feeds.toml:3: a site has no 'wiat'; did you mean 'wait'?" in done.stderr


def test_rows_that_are_left_out_are_said(feeds, postgres):
    source_of(postgres.url).edit(lambda _: {"News": site_of("News", [Feed(RSS)])})
    postgres.run("update site set minwaitperiod = 'x'")
    done = feeds(postgres.url, "list", code=6)

    assert "'x' is not a wait" in done.stderr
    assert "News" in done.stdout


def test_a_database_that_cannot_be_reached_is_said_without_its_password(feeds):
    url = "postgresql://me:s3cret@127.0.0.1:1/db"
    done = feeds(url, "list", code=2)

    assert "postgresql+psycopg://me:***@127.0.0.1:1/db: " in done.stderr
    assert "s3cret" not in done.stderr
    assert "s3cret" not in feeds("nosuch://me:s3cret@h/db", "list", code=2).stderr


def test_many_commands_at_once_lose_nothing(feeds, config, tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT), "FRONTIER_FEEDS": config}
    words = [sys.executable, "-m", "frontier", "feeds", "add", "--site", "all"]
    running = [
        warm.Popen(
            [*words, f"http://a.example/{n}"],
            cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for n in range(4)
    ]  # fmt: skip
    said = [process.communicate(timeout=120)[1] for process in running]

    assert [process.returncode for process in running] == [0] * 4, said
    assert len(source_of(config).read()["all"].feeds) == 4


def test_sites_are_followed_from_any_directory(tmp_path):
    (tmp_path / "here").mkdir()
    log = tmp_path / "requests.jsonl"
    wanted = [f"/news/{number}" for number in (0, 2, 4)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    words = ["crawl", "run", "--feeds", "feeds.toml", "--nodes", "1"]
    with SiteServer(Site(urls=120, hosts=1, published=6), log=log) as server:
        base = server.site.bases[0]
        config = TomlSites(tmp_path / "here" / "feeds.toml")
        config.edit(lambda _: {"a": site_of("a", [Feed(f"{base}/feed/rss.xml")], 1)})
        with subprocess.Popen(
            [sys.executable, "-m", "frontier", *words, "-sDOWNLOAD_DELAY=0"],
            cwd=tmp_path / "here",
            env=env,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as process:
            limit = time.monotonic() + 120
            while not all(path in log.read_text() for path in wanted):
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < limit
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)
        assert process.returncode == 130


def test_what_cannot_be_followed_is_said_before_anything_starts(tmp_path):
    (tmp_path / "feeds.toml").write_text("x = 1")
    for given, said in (
        ("feeds.toml", "feeds.toml:1: a file has no 'x'"),
        ("none.toml", "none.toml: cannot be read: No such file"),
        ("nosuch://me:s3cret@h/db", "SQLAlchemy knows no such database"),
    ):
        done = commands.run("crawl", "run", "--feeds", given, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert "s3cret" not in done.stderr


def test_no_command_imports_what_it_does_not_need(tmp_path):
    heavy = (
        "sqlalchemy",
        "tomlkit",
        "feedparser",
        "scrapy",
        "twisted",
        "lxml",
        "psycopg",
    )
    (tmp_path / "feeds.toml").write_text('[[site]]\nname = "a"\n')
    code = (
        "import sys\nfrom frontier.cli import main\n"
        f"sys.argv[1:] = {['feeds', 'list', '--feeds', 'feeds.toml']}\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code\n"
        f"sys.exit(repr([name for name in {heavy} if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr.strip() == "[]"
