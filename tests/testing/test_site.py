import pytest

from frontier.errors import ConfigurationError
from frontier.testing.oracle import expected_urls
from frontier.testing.site import Site

SITE = Site()


def answers(site):
    urls = sorted(expected_urls(site))
    hosts = {base: number for number, base in enumerate(site.bases)}
    for url in urls:
        base = next(base for base in site.bases if url.startswith(f"{base}/"))
        yield url, site.resource(hosts[base], url.removeprefix(base))


def test_equal_sites_serve_equal_bytes():
    assert list(answers(Site())) == list(answers(Site()))


@pytest.mark.parametrize(
    "target",
    [
        "/calendar?month=01",
        "/calendar?month=",
        "/calendar?month=1&x=1",
        "/calendar",
        "/post/00",
        "/post/" + "9" * 5000,
        "/post/0?x=1",
        "/article/0",
        "/article/0?sid=0",
        "/article/x?sid=0",
        "/about?x=1",
        "//",
    ],
)
def test_other_spellings_of_a_url_are_404(target):
    assert all(SITE.resource(host, target).status == 404 for host in range(5))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"urls": 123}, "the least is 124"),
        ({"hosts": 0}, "1 to 200"),
        ({"hosts": 201, "urls": 99999}, "1 to 200"),
    ],
)
def test_invalid_parameters_are_refused(parameters, reason):
    with pytest.raises(ConfigurationError, match=reason):
        Site(**parameters)
