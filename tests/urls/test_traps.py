from frontier.settings.config import Config
from frontier.urls import traps
from frontier.urls.traps import HOST, ON_FOR_SITE, QUERY, SETTINGS, Traps, repeats


def traps_of(**limits):
    return Traps(Config(**{f"trap_{name}": most for name, most in limits.items()}))


def crowd(some, url, count=1):
    """Count *url* as new, as often; return what the store is told."""
    return [told for _ in range(count) for told in some.note(url)]


def test_a_path_that_repeats_itself():
    times = {"": 0, "/": 0, "/a": 1, "/a/b/a/b": 2, "/a/a/a": 3, "/a/b/c/a": 1}
    times |= {"/x/a/b/a/b/a/b/y": 3, "/a//a/a/": 3, "/" + "x/" * 201: 201}
    for path, count in times.items():
        assert repeats(path) == count


def test_a_url_is_caught_by_its_form():
    for limit, most, inside, outside in (
        ("url_length", 20, "123", "1234"),
        ("path_segments", 2, "1/2?a/b", "1/2/3"),
        ("path_repeats", 2, "a/a/b", "a/a/a"),
        ("path_repeats", 2, "b/c/b/c/d", "b/c/b/c/b/c"),
    ):
        some = traps_of(**{limit: most})
        assert some.catches(f"http://a.example/{inside}") is None
        assert some.catches(f"http://a.example/{outside}") in limit


def test_a_url_is_caught_by_how_far_it_is():
    some = traps_of(hops=20)

    assert some.catches("http://a.example/", 20) is None
    assert some.catches("http://a.example/", 21) == "hops"


def test_a_page_may_have_so_many_urls_of_one_shape():
    some = traps_of(query_urls=2)
    month = "http://a.example/calendar?month={}&view=all"
    for n in range(2):
        assert some.catches(month.format(n)) is None
        crowd(some, month.format(n))

    assert some.catches(month.format(3)) == "query"
    assert some.catches("http://a.example/calendar?view=1&month=9") == "query"
    assert some.catches("http://a.example/calendar?month=9") is None
    assert some.catches("http://b.example/calendar?month=9&view=all") is None
    assert some.catches("http://a.example/plain") is None


def test_a_directory_and_a_host_may_have_so_many_urls():
    some = traps_of(directory_urls=3, host_urls=5)
    for n in range(3):
        crowd(some, f"http://a.example/d/{n}")

    assert some.catches("http://a.example/d/9?x=1") == "directory"
    assert some.catches("http://a.example/d/e/9") is None
    crowd(some, "http://a.example/", 2)
    assert some.catches("http://a.example/d/e/9") == "host"
    assert some.catches("http://b.example/d/e/9") is None


def test_trap_check_alone_does_not_count_a_url():
    some = traps_of(query_urls=2)
    for _ in range(5):
        assert some.catches("http://a.example/?x=1") is None


def test_trap_counts_are_reported_in_portions_and_stored_sums_count():
    some, other = traps_of(host_urls=200), traps_of(host_urls=200)
    url = "http://a.example/x"
    told = crowd(some, url, 10)

    assert [(group.kind, count) for group, count in told] == [(HOST, 4), (HOST, 4)]
    other.learn(told[0][0], 199)
    assert other.catches(url) is None
    crowd(other, url)
    assert other.catches(url) == "host"
    other.learn(told[0][0], 3)  # an older answer
    assert other.catches(url) == "host"


def test_least_recently_met_trap_groups_are_forgotten(monkeypatch):
    monkeypatch.setattr(traps, "MAX_GROUPS", 4)
    some = traps_of(query_urls=1)
    crowd(some, "http://a.example/0?x=1")
    for n in range(1, 6):
        assert some.catches("http://a.example/0?x=2") == QUERY
        crowd(some, f"http://a.example/{n}?x=1")

    for n in range(6, 12):
        crowd(some, f"http://a.example/{n}?x=1")
    assert some.catches("http://a.example/0?x=2") is None


def test_each_limit_of_the_site_spider_is_a_setting_of_a_trap():
    assert sorted(ON_FOR_SITE) == sorted(SETTINGS.values())
    assert {Config().as_settings()[name] for name in ON_FOR_SITE} == {"0"}
