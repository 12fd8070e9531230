"""``feeds.toml``: what it says, what is wrong with it, and how it is edited."""

import os
import threading
import time

import pytest

from frontier.errors import FeedConfigError
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


def change(path, **sites):
    TomlSites(path).edit(
        lambda _: {name.replace("_", " "): s for name, s in sites.items()}
    )
    return path.read_text("utf-8")


def comments(text):
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


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
        ('[[site]]\nname = "a"\npaused = "yes"\n', 3, "paused is true or false"),
        ('[[site]]\nname = "a"\nfeeds = "http://a/1"\n', 3, "feeds are a list"),
        ('[[site]]\nname = "a"\nfeeds = [1]\n', 3, "a feed is a URL"),
        ('[[site]]\nname = "a"\nfeeds = ["ftp://a/feed"]\n', 3, "URL of http or https"),
        ('[[site]]\nname = "a"\nfeeds = [{}]\n', 3, "None is not a URL"),
        (
            '[[site]]\nname = "a"\n[[site.feeds]]\nurl = "http://a/1"\nimplied = "x"\n',
            5,
            "implied is a list",
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
        ("[[site]]\nname = '" + "x" * 9000 + "'\n", 2, "a line of more than 8,192"),
        ("a" + ".a" * 4000 + " = 1\n", 1, "a key of three parts"),
        ("x = " + "[" * 5000 + "\n", 0, "is not TOML"),
        ("x = " + "9" * 5000 + "\n", 0, "is not TOML"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else None,
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, text, line, said):
    path = tmp_path / "feeds.toml"
    path.write_text(text, "utf-8")

    with pytest.raises(FeedConfigError) as caught:
        TomlSites(path).read()

    assert said in caught.value.reason
    assert caught.value.line == line
    assert str(caught.value).startswith(str(path))


def test_bytes_that_are_no_text_are_said_with_their_line(tmp_path):
    path = tmp_path / "feeds.toml"
    path.write_bytes(b"[[site]]\nname = '\xff'\n")

    with pytest.raises(FeedConfigError, match=r"feeds.toml:2: is not UTF-8"):
        TomlSites(path).read()


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(FeedConfigError, match="a FIFO"):
        TomlSites(tmp_path / "fifo").read()
    with pytest.raises(FeedConfigError, match="cannot be read: No such file"):
        TomlSites(tmp_path / "none").read()


def test_a_file_that_is_hostile_is_read_in_linear_time(tmp_path):
    path = tmp_path / "feeds.toml"
    path.write_text(('"a"' + '."a"' * 2000 + " = 1\n") * 500, "utf-8")
    began = time.thread_time()

    with pytest.raises(FeedConfigError):
        TomlSites(path).read()

    assert time.thread_time() - began < 2


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


def test_an_edit_changes_a_value_and_nothing_else(file):
    text = change(
        file, Example_News=site_of(NEWS.name, NEWS.feeds, "2h", "1d"), Weather=WEATHER
    )

    assert text == WRITTEN.replace('"1h30m"', '"2h"')


def test_a_key_that_is_new_is_put_behind_the_name(file):
    text = change(file, Weather=site_of("Weather", WEATHER.feeds, "1h", paused=True))

    assert text == WRITTEN.replace(
        "name = 'Weather'\n", "name = 'Weather'\npaused = true\n"
    )


def test_a_pause_that_ends_is_written_where_it_was(file):
    text = change(file, Blog=site_of("Blog", BLOG.feeds, 90))

    assert text == WRITTEN.replace("paused = true", "paused = false")


def test_a_wait_that_is_fixed_again_has_no_longest_one(file):
    text = change(file, Example_News=site_of(NEWS.name, NEWS.feeds, "1h30m"))

    assert text == WRITTEN.replace('wait_max = "1d"\n', "")


def test_feeds_come_and_go_in_each_form_and_comments_stay(file):
    more = Feed("https://x.example/more", ("https://x.example/",))
    text = change(
        file,
        Example_News=site_of(NEWS.name, [NEWS.feeds[1], more], "1h30m", "1d"),
        Weather=site_of("Weather", [*WEATHER.feeds, Feed("https://weather.example/2")]),
        Blog=site_of(
            "Blog",
            [Feed("https://blog.example/comments"), Feed("https://blog.example/3")],
            90,
            paused=True,
        ),
    )

    kept = [c for c in comments(WRITTEN) if c.strip() not in {"all", "main"}]
    assert comments(text) == kept
    assert '"https://weather.example/feed", "https://weather.example/2"' in text
    assert "https://blog.example/atom.xml" not in text


def test_a_site_that_goes_leaves_comments_about_others(file):
    text = change(file, Example_News=None)

    left = WRITTEN[WRITTEN.index("# About the weather.") :]
    assert text == "# What we follow. Ask Anna before you change it.\n\n" + left


def test_the_last_site_may_go(file):
    change(file, Example_News=None, Weather=None)
    text = change(file, Blog=None)

    assert TomlSites(file).read() == {}
    assert "Ask Anna" in text


def test_a_site_that_is_new_is_put_at_the_end(file):
    feed = Feed("https://new.example/", ("https://new.example/a", "http://b.example/"))
    site = site_of('The "New"\\one', [feed], "1h", "2h", ended=True)
    TomlSites(file).edit(lambda _: {site.name: site})

    text = file.read_text("utf-8")
    assert text.startswith(WRITTEN + "\n[[site]]\n")
    assert TomlSites(file).read()[site.name] == site


def test_a_file_that_is_not_there_is_made(tmp_path):
    path = tmp_path / "feeds.toml"
    text = change(path, Weather=WEATHER, Blog=BLOG)

    assert TomlSites(path).read() == {"Weather": WEATHER, "Blog": BLOG}
    assert text.startswith('[[site]]\nname = "Weather"\nwait = "1h"\n')
    assert path.stat().st_mode & 0o777 == 0o640


def test_line_ends_and_the_mark_at_the_start_stay(tmp_path):
    path = tmp_path / "feeds.toml"
    path.write_bytes(b"\xef\xbb\xbf" + WRITTEN.encode().replace(b"\n", b"\r\n"))
    feeds = [*WEATHER.feeds, Feed("https://weather.example/2")]
    new = site_of("Weather", feeds, "2h", "3h", paused=True)
    TomlSites(path).edit(
        lambda _: {"Weather": new, "b": site_of("b", []), "Blog": None}
    )

    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf# What")
    assert data.count(b"\n") == data.count(b"\r\n")
    assert TomlSites(path).read()["Weather"] == new


def test_what_cannot_be_edited_stays_as_it_is(tmp_path):
    path = tmp_path / "feeds.toml"
    text = 'site = [{name = "a"}, {name = "b"}]\n'
    path.write_text(text, "utf-8")

    with pytest.raises(FeedConfigError, match="cannot edit"):
        TomlSites(path).edit(lambda _: {"a": None})
    assert path.read_text("utf-8") == text


def test_a_file_that_is_wrong_is_not_edited(file):
    file.write_text(WRITTEN + "x = 1\n", "utf-8")

    with pytest.raises(FeedConfigError, match="no 'x'"):
        TomlSites(file).edit(lambda _: {"Blog": None})
    assert file.read_text("utf-8") == WRITTEN + "x = 1\n"


def test_mode_and_link_stay(file, tmp_path):
    file.chmod(0o604)
    link = tmp_path / "link.toml"
    link.symlink_to(file.name)
    change(link, Blog=None)

    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o604
    assert "Blog" not in TomlSites(file).read()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["feeds.toml", "link.toml"]


def test_edits_at_once_wait_for_each_other(tmp_path):
    path = tmp_path / "feeds.toml"
    names = [f"site {n}" for n in range(12)]
    threads = [
        threading.Thread(
            target=TomlSites(path).edit,
            args=[lambda _, name=name: {name: site_of(name, [])}],
        )
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(TomlSites(path).read()) == sorted(names)
