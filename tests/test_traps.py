import pytest

from frontier import traps
from frontier.traps import Traps, repeats


@pytest.mark.parametrize(
    ("path", "times"),
    [
        ("", 0),
        ("/", 0),
        ("/a", 1),
        ("/a/b/a/b", 2),
        ("/a/a/a", 3),
        ("/x/a/b/a/b/a/b/y", 3),
        ("/a/b/c/a", 1),
        ("/a//a/a/", 3),
        ("/" + "x/" * 201, 201),
    ],
)
def test_a_path_that_repeats_itself(path, times):
    assert repeats(path) == times


def test_a_path_may_repeat_itself_as_often_as_it_is_said():
    some = Traps(2, 0)

    assert some.catches("http://a.example/b/c/b/c/d") is None
    assert some.catches("http://a.example/b/c/b/c/b/c") == "path"


def test_a_page_may_have_so_many_urls_of_one_shape():
    some = Traps(0, 2)
    month = "http://a.example/calendar?month={}&view=all"

    assert [some.catches(month.format(n)) for n in range(4)] == [
        None,
        None,
        "query",
        "query",
    ]
    assert some.catches("http://a.example/calendar?view=1&month=9") == "query"
    assert some.catches("http://a.example/calendar?month=9") is None
    assert some.catches("http://b.example/calendar?month=9&view=all") is None
    assert some.catches("http://a.example/plain") is None
    assert some.catches("http://[a.example/?x=1") is None


def test_what_is_not_met_again_is_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(traps, "MAX_SHAPES", 4)
    some = Traps(0, 1)
    assert some.catches("http://a.example/0?x=1") is None
    assert some.catches("http://a.example/0?x=2") == "query"
    for n in range(1, 6):
        some.catches(f"http://a.example/{n}?x=1")

    assert some.catches("http://a.example/0?x=2") is None


def test_without_limits_there_are_no_traps():
    assert not Traps(0, 0)
