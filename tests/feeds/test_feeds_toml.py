"""``feeds.toml``: what it says, what is wrong with it, and what is added to it."""

import os

import pytest

from frontier.errors import InputBroken
from frontier.feeds import feeds_toml
from frontier.feeds.feeds_toml import TomlSites
from frontier.feeds.model import Feed, Site, site_of

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
    sites = TomlSites(file).read()

    assert sites == {"Example News": NEWS, "Weather": WEATHER, "Blog": BLOG}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[[site]]\nname = "a"\nwiat = "1h"\n', 3, "no 'wiat'; did you mean 'wait'?"),
        ('[[site]]\nname = "a"\nfeed = []\n', 3, "did you mean 'feeds'?"),
        ('[[sites]]\nname = "a"\n', 1, "no 'sites'; did you mean 'site'?"),
        ("x = 1\n", 1, "a file has no 'x': it has site"),
        (
            (
                '[[site]]\nname = "a"\nfeeds = [\n "http://a/1",\n'
                ' {url="http://a/2", implid=[]}\n]\n'
            ),
            5,
            "a feed has no 'implid'; did you mean 'implied'?",
        ),
        ('[[site]]\nname = "a"\nwait = "1h30"\n', 3, "'1h30' is not a wait"),
        ('[[site]]\nname = "a"\nwait = 0\n', 3, "the wait 0 is too short"),
        ('[[site]]\nname = "a"\nwait = "1d"\nwait_max = "1h"\n', 4, "is shorter"),
        ('[[site]]\nname = "a"\nwait = 1.5\n', 3, "1.5 is not a wait"),
        ('[[site]]\nwait = "1h"\n', 1, "a site needs a name"),
        ('[[site]]\nname = ""\n', 2, "a site needs a name"),
        ("[[site]]\nname = 5\n", 2, "a site needs a name"),
        ('[[site]]\nname = "a"\npaused = "yes"\n', 3, "write true or false"),
        ('[[site]]\nname = "a"\nfeeds = "http://a/1"\n', 3, "write a list"),
        ('[[site]]\nname = "a"\nfeeds = [1]\n', 3, "a feed is a URL"),
        ('[[site]]\nname = "a"\nfeeds = ["ftp://a/feed"]\n', 3, "URL of http or https"),
        ('[[site]]\nname = "a"\nfeeds = [{}]\n', 3, "None is not a URL"),
        (
            '[[site]]\nname = "a"\n[[site.feeds]]\nurl = "http://a/1"\nimplied = "x"\n',
            5,
            "write a list",
        ),
        (
            '[[site]]\nname = "a"\n\n[[site]]\nname = "b"\n\n[[site]]\nname = "a"\n',
            8,
            "there is a site 'a' in line 2 already",
        ),
        (
            (
                '[[site]]\nname = "a"\nfeeds = [\n"http://a/feed"\n]\n'
                '[[site]]\nname = "b"\nfeeds = [\n"http://a/feed"\n]\n'
            ),
            9,
            "the feed http://a/feed is in line 4 already",
        ),
        (
            '[[site]]\nname = "a"\nfeeds = ["http://a/feed", "http://A:80/feed"]\n',
            3,
            "the feed http://a/feed is in the site twice",
        ),
        ("site = 5\n", 1, "write each site as [[site]]"),
        ('[[site]]\nname = "a"\nname = "b"\n', 3, "is not TOML"),
        ('[[site]]\nname = "a\n', 2, "is not TOML"),
        ("x = " + "[" * 5000 + "\n", 0, "is not TOML"),
        ("x = " + "9" * 5000 + "\n", 0, "is not TOML"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else None,
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, text, line, said):
    path = tmp_path / "feeds.toml"
    path.write_text(text, "utf-8")

    with pytest.raises(InputBroken) as caught:
        TomlSites(path).read()

    assert said in caught.value.reason
    assert caught.value.line == line
    assert str(caught.value).startswith(str(path))


def test_bytes_that_are_no_text_are_said_with_their_line(tmp_path):
    path = tmp_path / "feeds.toml"
    path.write_bytes(b"[[site]]\nname = '\xff'\n")

    with pytest.raises(InputBroken, match=r"feeds.toml:2: is not UTF-8"):
        TomlSites(path).read()


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(InputBroken, match="a FIFO"):
        TomlSites(tmp_path / "fifo").read()
    with pytest.raises(InputBroken, match="cannot be read: No such file"):
        TomlSites(tmp_path / "none").read()


def test_a_file_is_parsed_when_it_has_changed(file):
    source = TomlSites(file)
    first = source.read()

    assert source.read() is first
    file.write_text(WRITTEN.replace("90", "91"), "utf-8")
    assert source.read()["Blog"].wait_s == 91


def test_a_file_that_is_being_written_is_read_when_it_is_whole(file, monkeypatch):
    source = TomlSites(file)
    known = source.read()
    parts = [WRITTEN.replace('"1d"', '"2d"'), WRITTEN[:40]]

    def pause(_):  # between two looks, in which an editor writes on
        if parts:
            file.write_text(parts.pop(), "utf-8")

    monkeypatch.setattr(feeds_toml.time, "sleep", pause)
    file.write_text("", "utf-8")
    sites = source.read()

    assert not parts
    assert len(sites) == 3
    assert sites != known


def add(path, *sites):
    TomlSites(path).add({site.name: site for site in sites})
    return path.read_text("utf-8")


def test_feeds_and_sites_are_added_in_each_form_and_all_else_stays(file):
    more = Feed("https://x.example/more", ("https://x.example/",))
    feed = Feed("https://new.example/", ("https://new.example/a", "http://b.example/"))
    wanted = [
        site_of(NEWS.name, [*NEWS.feeds, more], "1h30m", "1d"),
        site_of("Weather", [*WEATHER.feeds, Feed("https://weather.example/2")]),
        site_of("Blog", [*BLOG.feeds, Feed("https://blog.example/3")], 90, paused=True),
        site_of('The "New"\\one', [feed], "1h", "2h", ended=True),
    ]

    text = add(file, *wanted)

    assert list(TomlSites(file).read().values()) == wanted
    lines = text.splitlines()
    assert [line for line in WRITTEN.splitlines() if line not in lines] == [
        'feeds = ["https://weather.example/feed"]'
    ]


def test_a_file_that_is_not_there_is_made(tmp_path):
    path = tmp_path / "feeds.toml"
    text = add(path, WEATHER, BLOG)

    assert TomlSites(path).read() == {"Weather": WEATHER, "Blog": BLOG}
    assert text.startswith('[[site]]\nname = "Weather"\nwait = "1h"\n')
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_of_windows_is_added_to(tmp_path):
    path = tmp_path / "feeds.toml"
    path.write_bytes(b"\xef\xbb\xbf" + WRITTEN.encode().replace(b"\n", b"\r\n"))
    new = site_of("Weather", [*WEATHER.feeds, Feed("https://weather.example/2")])
    add(path, new)

    assert TomlSites(path).read()["Weather"] == new


def test_what_cannot_be_added_to_stays_as_it_is(tmp_path):
    path = tmp_path / "feeds.toml"
    for text, said in (
        (WRITTEN + "x = 1\n", "no 'x'"),
        ('site = [{name = "a"}, {name = "b"}]\n', "cannot add"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(InputBroken, match=said):
            add(path, WEATHER)
        assert path.read_text("utf-8") == text


def test_mode_and_link_stay(file, tmp_path):
    file.chmod(0o604)
    link = tmp_path / "link.toml"
    link.symlink_to(file.name)
    add(link, site_of("New", []))

    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o604
    assert "New" in TomlSites(file).read()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["feeds.toml", "link.toml"]
