import pytest

from frontier.errors import ConfigurationError
from frontier.scope import KINDS, Scope, domain_of

SEEDS = ["http://www.a.example/docs/index.html", "https://b.co.uk:8080/x/"]


@pytest.mark.parametrize(
    ("kind", "url", "allowed"),
    [
        ("host", "http://www.a.example/", True),
        ("host", "https://WWW.A.EXAMPLE/other", True),
        ("host", "http://user@www.a.example/", True),
        ("host", "http://a.example/", False),
        ("host", "http://b.co.uk:8080/", True),
        ("host", "http://b.co.uk/", False),
        ("host", "http://www.a.example.evil.example/", False),
        ("host", "http://evil.example/?www.a.example", False),
        ("host", "http://www.a.example@evil.example/", False),
        ("domain", "http://a.example/", True),
        ("domain", "http://x.y.a.example/", True),
        ("domain", "http://b.co.uk/", True),
        ("domain", "http://c.co.uk/", False),
        ("domain", "http://aa.example/", False),
        ("prefix", "http://www.a.example/docs/", True),
        ("prefix", "https://www.a.example/docs/a/b?q", True),
        ("prefix", "http://www.a.example/doc", False),
        ("prefix", "http://www.a.example/docsx", False),
        ("prefix", "http://www.a.example/", False),
        ("prefix", "http://b.co.uk:8080/x/y", True),
        ("prefix", "http://b.co.uk:8080/x", False),
        ("all", "http://anything.example/", True),
        ("all", "ftp://anything.example/", False),
    ],
)
def test_a_url_is_in_scope_or_not(kind, url, allowed):
    assert Scope(kind, SEEDS).allows(url) is allowed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "url",
    [
        "mailto:x@www.a.example",
        "javascript:void(0)",
        "//www.a.example/",
        "/docs/",
        "",
        "http://",
        "http://[::1",
        "http://www.a.example:99999/docs/",
        "data:text/html,x",
    ],
)
def test_what_is_no_url_of_the_web_is_in_no_scope(kind, url):
    assert Scope(kind, SEEDS).allows(url) is False


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_are_in_their_own_scope(kind):
    scope = Scope(kind, SEEDS)

    assert all(map(scope.allows, SEEDS))


@pytest.mark.parametrize("kind", ["host", "prefix"])
def test_a_default_port_is_the_same_host_with_or_without_it(kind):
    assert Scope(kind, ["http://a.example:80/"]).allows("http://a.example/x")
    assert Scope(kind, ["https://a.example/"]).allows("https://a.example:443/x")
    assert not Scope(kind, ["http://a.example:81/"]).allows("http://a.example/x")


def test_a_scope_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ConfigurationError, match="'site' does not exist.*host, domain"):
        Scope("site", SEEDS)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.a.example", "a.example"),
        ("a.b.co.uk", "b.co.uk"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_the_registered_domain_of_a_host(host, domain):
    assert domain_of(host) == domain
