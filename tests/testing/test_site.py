import gzip
import re

import pytest

from frontier.errors import ConfigurationError
from frontier.testing.oracle import expected_urls
from frontier.testing.site import HUB_LINKS, VARIANTS, Site

SITE = Site()


def answers(site):
    urls = sorted(expected_urls(site))
    hosts = {base: number for number, base in enumerate(site.bases)}
    for url in urls:
        base = next(base for base in site.bases if url.startswith(f"{base}/"))
        yield url, site.resource(hosts[base], url.removeprefix(base))


def test_equal_sites_serve_equal_bytes():
    assert list(answers(Site())) == list(answers(Site()))


def test_the_address_changes_only_links():
    moved = SITE.served_at(f"http://127.0.0.1:{8000 + n}" for n in range(5))

    here = SITE.resource(1, "/post/0").body
    there = moved.resource(1, "/post/0").body

    for old, new in zip(SITE.bases, moved.bases, strict=True):
        here = here.replace(old.partition("//")[2].encode(), new[7:].encode())
    assert here == there


def test_variants_of_an_article_have_one_body():
    paths = [SITE.article_path(2, 3, variant) for variant in range(VARIANTS)]
    bodies = {SITE.resource(2, path).body for path in paths}

    assert len(set(paths)) == 4
    assert len(bodies) == 1
    assert all(re.fullmatch(r"/article/3\?sid=[0-9a-z]{32}", path) for path in paths)


def test_gzip_bodies_have_no_time_in_them():
    resource = SITE.resource(0, "/gzip")

    assert resource.body[4:8] == b"\0\0\0\0"
    assert gzip.decompress(resource.body) == resource.decoded
    assert b"<title>Gzip of host 0</title>" in resource.decoded


def test_calendar_ends_at_its_last_month():
    site = Site(calendar_months=3)
    host = site.hosts - 1
    last = site.resource(host, "/calendar?month=2")

    assert b'href="?month=2"' in site.resource(host, "/calendar?month=1").body
    assert b"month=3" not in last.body
    assert site.resource(host, "/calendar?month=3").status == 404


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


def test_the_hub_has_several_hundred_links_and_an_end():
    assert count_items(SITE.resource(0, "/hub")) == 276
    assert count_items(Site(urls=2000).resource(0, "/hub")) == HUB_LINKS


def count_items(resource):
    return resource.body.count(b"<li>")


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
