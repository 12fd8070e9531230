import pytest

from frontier.errors import ConfigurationError
from frontier.urls.scope import KINDS, Scope, domain_of
from tests.harness.cases import rows
from tests.harness.growth import grows_with

SEEDS = ["http://www.a.org/docs/index.html", "https://b.co.uk:8080/x/"]


INSIDE = rows("""
    host    http://www.a.org/ https://WWW.A.ORG/other http://user@www.a.org/
    host    http://b.co.uk:8080/
    domain  http://a.org/ http://x.y.a.org/ http://b.co.uk/
    prefix  http://www.a.org/docs/ https://www.a.org/docs/a/b?q http://b.co.uk:8080/x/y
    all     http://anything.example/
""")
OUTSIDE = rows("""
    host    http://a.org/ http://b.co.uk/ http://www.a.org.evil.example/
    host    http://evil.example/?www.a.org http://www.a.org@evil.example/
    domain  http://c.co.uk/ http://aa.org/
    prefix  http://www.a.org/doc http://www.a.org/docsx http://www.a.org/
    prefix  http://b.co.uk:8080/x
    all     ftp://anything.example/
""")


def test_a_url_is_in_scope_or_not():
    for table, allowed in ((INSIDE, True), (OUTSIDE, False)):
        for kind, *urls in table:
            for url in urls:
                assert Scope(kind, SEEDS).allows(url) is allowed, (kind, url)


def test_invalid_or_non_http_url_is_in_no_scope():
    others = ["mailto:x@www.a.org", "//www.a.org/", "/docs/", "", "http://"]
    others += ["http://[::1", "http://www.a.org:99999/docs/", "data:text/html,x"]
    for kind in KINDS:
        assert not any(map(Scope(kind, SEEDS).allows, others))


def test_seeds_are_in_their_own_scope():
    for kind in KINDS:
        assert all(map(Scope(kind, SEEDS).allows, SEEDS))


def test_a_default_port_is_the_same_host_with_or_without_it():
    for kind in ("host", "prefix"):
        assert Scope(kind, ["http://a.org:80/"]).allows("http://a.org/x")
        assert Scope(kind, ["https://a.org/"]).allows("https://a.org:443/x")
        assert not Scope(kind, ["http://a.org:81/"]).allows("http://a.org/x")


def test_a_scope_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ConfigurationError, match="'site' does not exist.*host, domain"):
        Scope("site", SEEDS)


def test_the_registered_domain_of_a_host():
    for host in ("a.org", "b.co.uk", "co.uk", "localhost", "127.0.0.1", ""):
        assert domain_of(host) == host
    assert domain_of("www.a.org") == "a.org"
    assert domain_of("a.b.co.uk") == "b.co.uk"


def test_a_url_takes_no_more_time_among_fifty_thousand_prefixes():
    def match(scope):
        for n in range(500):
            assert scope.allows(f"http://a.org/{n}/x")
            assert not scope.allows(f"http://a.org/x{n}/")

    def scope_of(count):
        return Scope("prefix", [f"http://a.org/{n}/" for n in range(count)])

    assert grows_with(match, scope_of, 500, times=100)
