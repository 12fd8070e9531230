"""``feeds.toml``: what it says, what is wrong with it, and what is added to it."""

import pytest

from frontier.errors import InputBroken
from frontier.feeds.feeds_toml import toml_sites
from frontier.feeds.model import Feed, Site
from frontier.settings import live_source
from tests.harness.cases import each
from tests.harness.sites import site_of, write_toml

WRITTEN = """\
# What we follow. Ask Anna before you change it.

[[site]]  # the first
name = "Example News"   # as readers know it
wait = "1h30m"  # not less
wait_max = "1d"
feeds = [
  "https://news.example/rss",  # all
  # the desk wants this one
  { url = "https://news.example/sport.xml", implied = ["https://news.example/"] },
]

# About the weather.
[[site]]
name = 'Weather'
feeds = ["https://weather.example/feed"]

# Tables, as people write them who like tables.
[[site]]
name = "Blog"
wait = 90
paused = true
[[site.feeds]]
url = "https://blog.example/atom.xml"  # main
[[site.feeds]]
url = "https://blog.example/comments"
implied = ["https://blog.example/"]
# the end
"""
NEWS = Site(
    "Example News",
    (
        Feed("https://news.example/rss"),
        Feed("https://news.example/sport.xml", ("https://news.example/",)),
    ),
    5400,
    86_400,
)
WEATHER = Site("Weather", (Feed("https://weather.example/feed"),), 3600, 3600)
BLOG = Site(
    "Blog",
    (
        Feed("https://blog.example/atom.xml"),
        Feed("https://blog.example/comments", ("https://blog.example/",)),
    ),
    90,
    90,
    paused=True,
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "feeds.toml"
    path.write_text(WRITTEN, "utf-8")
    return path


def test_a_file_says_sites_in_each_of_its_forms(file):
    sites = toml_sites(file).read()

    assert sites == {"Example News": NEWS, "Weather": WEATHER, "Blog": BLOG}


@each(
    ("text", "line", "said"),
    [
        ('[[site]]\nname = "a"\nwiat = "1h"\n', 3, "no 'wiat'; did you mean 'wait'?"),
        (
            (
                '[[site]]\nname = "a"\nfeeds = [\n "http://a/1",\n'
                ' {url="http://a/2", implid=[]}\n]\n'
            ),
            5,
            "a feed has no 'implid'; did you mean 'implied'?",
        ),
        ('[[site]]\nname = "a"\nwait = 0\n', 3, "the wait 0 must be from 1 to"),
        ('[[site]]\nname = "a"\nwait = "1d"\nwait_max = "1h"\n', 4, "is shorter"),
        (
            '[[site]]\nname = "a"\nwait = 1.5\n',
            3,
            "the wait 1.5 must be of whole seconds",
        ),
        ("[[site]]\nname = 5\n", 2, "a site needs a name"),
        ('[[site]]\nname = "a"\npaused = "soon"\n', 3, "must be True or False"),
        ('[[site]]\nname = "a"\nfeeds = "http://a/1"\n', 3, "write a list"),
        ('[[site]]\nname = "a"\nfeeds = [{}]\n', 3, "None is not a URL"),
        (
            '[[site]]\nname = "a"\n[[site.feeds]]\nurl = "http://a/1"\nimplied = "x"\n',
            5,
            "write a list",
        ),
        (
            '[[site]]\nname = "a"\n\n[[site]]\nname = "b"\n\n[[site]]\nname = "a"\n',
            8,
            "there is a site 'a' already",
        ),
        (
            (
                '[[site]]\nname = "a"\nfeeds = [\n"http://a/feed"\n]\n'
                '[[site]]\nname = "b"\nfeeds = [\n"http://a/feed"\n]\n'
            ),
            9,
            "the feed http://a/feed is listed already",
        ),
        (
            '[[site]]\nname = "a"\nfeeds = ["http://a/feed", "http://A:80/feed"]\n',
            3,
            "the feed http://a/feed is listed already",
        ),
        ("x = " + "[" * 5000 + "\n", 0, "is not TOML"),
        ("x = " + "9" * 5000 + "\n", 0, "is not TOML"),
    ],
)
def test_invalid_feeds_toml_is_reported_with_file_and_line(tmp_path, text, line, said):
    path = tmp_path / "feeds.toml"
    path.write_text(text, "utf-8")

    with pytest.raises(InputBroken) as caught:
        toml_sites(path).read()

    assert said in caught.value.reason
    assert caught.value.line == line
    assert str(caught.value).startswith(str(path))


def test_a_file_is_parsed_when_it_has_changed(file):
    source = toml_sites(file)
    first = source.read()

    assert source.read() is first
    file.write_text(WRITTEN.replace("90", "91"), "utf-8")
    assert source.read()["Blog"].wait_s == 91


def test_a_file_that_is_being_written_is_read_when_it_is_whole(file, monkeypatch):
    source = toml_sites(file)
    known = source.read()
    parts = [WRITTEN.replace('"1d"', '"2d"'), WRITTEN[:40]]

    def pause(_):  # between two looks, in which an editor writes on
        if parts:
            file.write_text(parts.pop(), "utf-8")

    monkeypatch.setattr(live_source.time, "sleep", pause)
    file.write_text("", "utf-8")
    sites = source.read()

    assert not parts
    assert len(sites) == 3
    assert sites != known


def test_written_sites_are_read_back_unchanged(tmp_path):
    feed = Feed("https://new.example/", ("https://new.example/a", "http://b.example/"))
    sites = [
        NEWS,
        WEATHER,
        BLOG,
        site_of('The "N"\\one', [feed], "1h", "2h", ended=True),
    ]
    write_toml(tmp_path / "feeds.toml", *sites)

    assert list(toml_sites(tmp_path / "feeds.toml").read().values()) == sites
