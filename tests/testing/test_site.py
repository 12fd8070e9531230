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
