import pytest

from frontier.errors import ConfigurationError
from frontier.urls.scope import KINDS, Scope, domain_of
from tests.harness.growth import grows_with, repeated

SEEDS = ["http://www.a.org/docs/index.html", "https://b.co.uk:8080/x/"]


@pytest.mark.parametrize(
    ("kind", "url", "allowed"),
    [
        ("host", "http://www.a.org/", True),
        ("host", "https://WWW.A.ORG/other", True),
        ("host", "http://user@www.a.org/", True),
        ("host", "http://a.org/", False),
        ("host", "http://b.co.uk:8080/", True),
        ("host", "http://b.co.uk/", False),
        ("host", "http://www.a.org.evil.example/", False),
        ("host", "http://evil.example/?www.a.org", False),
        ("host", "http://www.a.org@evil.example/", False),
        ("domain", "http://a.org/", True),
        ("domain", "http://x.y.a.org/", True),
        ("domain", "http://b.co.uk/", True),
        ("domain", "http://c.co.uk/", False),
        ("domain", "http://aa.org/", False),
        ("prefix", "http://www.a.org/docs/", True),
        ("prefix", "https://www.a.org/docs/a/b?q", True),
        ("prefix", "http://www.a.org/doc", False),
        ("prefix", "http://www.a.org/docsx", False),
        ("prefix", "http://www.a.org/", False),
        ("prefix", "http://b.co.uk:8080/x/y", True),
        ("prefix", "http://b.co.uk:8080/x", False),
        ("all", "http://anything.example/", True),
        ("all", "ftp://anything.example/", False),
    ],
)
def test_a_url_is_in_scope_or_not(kind, url, allowed):
    assert Scope(kind, SEEDS).allows(url) is allowed


def test_invalid_or_non_http_url_is_in_no_scope():
    others = ["mailto:x@www.a.org", "//www.a.org/", "/docs/", "", "http://"]
    others += ["http://[::1", "http://www.a.org:99999/docs/", "data:text/html,x"]
    for kind in KINDS:
        assert not any(map(Scope(kind, SEEDS).allows, others))


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_are_in_their_own_scope(kind):
    scope = Scope(kind, SEEDS)

    assert all(map(scope.allows, SEEDS))


@pytest.mark.parametrize("kind", ["host", "prefix"])
def test_a_default_port_is_the_same_host_with_or_without_it(kind):
    assert Scope(kind, ["http://a.org:80/"]).allows("http://a.org/x")
    assert Scope(kind, ["https://a.org/"]).allows("https://a.org:443/x")
    assert not Scope(kind, ["http://a.org:81/"]).allows("http://a.org/x")


def test_a_scope_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ConfigurationError, match="'site' does not exist.*host, domain"):
        Scope("site", SEEDS)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.a.org", "a.org"),
        ("a.b.co.uk", "b.co.uk"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_the_registered_domain_of_a_host(host, domain):
    assert domain_of(host) == domain


def test_a_url_takes_no_more_time_among_fifty_thousand_prefixes():
    def match(scope):
        for n in range(500):
            assert scope.allows(f"http://a.org/{n}/x")
            assert not scope.allows(f"http://a.org/x{n}/")

    def scope_of(count):
        return Scope("prefix", [f"http://a.org/{n}/" for n in range(count)])

    assert grows_with(match, scope_of, 500, times=100)


def test_a_url_of_many_directories_takes_time_in_proportion():
    scope = Scope("prefix", ["http://a.org/1/"])

    assert grows_with(scope.allows, repeated("/", "http://a.org"), 1 << 14)
