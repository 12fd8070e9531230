"""One split of a URL, compared with Python's."""

from urllib.parse import urlsplit

from hypothesis import example, given, strategies as st

from frontier.urls.split import NO_PORT, split


def test_a_url_has_its_parts():
    assert split("HTTP://u:p@A.example.:80/x?y#z")[1:] == (
        *("a.example", None, "a.example"),
        *("/x", "y"),
    )
    assert split("https://[::1]:80/").authority == "[::1]:80"
    assert split("http://a.example:99999/").port == NO_PORT
    assert not split("http://a.example:99999/").is_web
    for none in ("http://[::1", "", "mailto:a@b.example", "//a.example/", "http:///x"):
        assert not split(none).is_web


@given(st.text("htps:/.?#@[]%aA1- \t\né&=", max_size=20).map("http:".__add__))
@example("http://a.example/x?y?z")
@example("https://a-.example/?#")
def test_the_parts_are_pythons(url):
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        assert split(url).host == ""
        return
    found = split(url)
    assert (found.host, found.path, found.query) == (host, parts.path, parts.query)
