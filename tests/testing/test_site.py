import gzip
import re
import struct
import zlib

import pytest

from frontier.errors import ConfigurationError
from frontier.testing.oracle import expected_urls, links
from frontier.testing.site import HUB_LINKS, VARIANTS, Site

SITE = Site()


def answers(site):
    urls = sorted(expected_urls(site))
    hosts = {base: number for number, base in enumerate(site.bases)}
    for url in urls:
        base = next(base for base in site.bases if url.startswith(f"{base}/"))
        yield url, site.resource(hosts[base], url.removeprefix(base))


def test_equal_sites_are_equal_bytes():
    assert list(answers(Site())) == list(answers(Site()))


def test_where_it_is_served_changes_links_only():
    moved = SITE.served_at(f"http://127.0.0.1:{8000 + n}" for n in range(5))

    here = SITE.resource(1, "/post/0").body
    there = moved.resource(1, "/post/0").body

    for old, new in zip(SITE.bases, moved.bases, strict=True):
        here = here.replace(old.partition("//")[2].encode(), new[7:].encode())
    assert here == there


def test_the_variants_of_an_article_are_one_body():
    paths = [SITE.article_path(2, 3, variant) for variant in range(VARIANTS)]
    bodies = {SITE.resource(2, path).body for path in paths}

    assert len(set(paths)) == 4
    assert len(bodies) == 1
    assert all(re.fullmatch(r"/article/3\?sid=[0-9a-z]{32}", path) for path in paths)


def test_other_articles_are_other_bodies():
    pages = {
        SITE.resource(host, SITE.article_path(host, number, 0)).body
        for host in range(SITE.hosts)
        for number in range(SITE.articles(host))
    }

    assert len(pages) == sum(map(SITE.articles, range(SITE.hosts)))


@pytest.mark.parametrize(
    "path", ["/about", "/static/style.css", "/static/app.js", "/static/logo.png"]
)
def test_some_pages_are_identical_on_all_hosts(path):
    assert len({SITE.resource(host, path).body for host in range(SITE.hosts)}) == 1


@pytest.mark.parametrize(
    ("path", "copy", "start"),
    [
        ("/img/photo.png", "/img/copy/photo.png", b"\x89PNG\r\n"),
        ("/files/report.pdf", "/files/2024/report-final.pdf", b"%PDF-1.4"),
    ],
)
def test_files_appear_under_two_urls_per_host(path, copy, start):
    one, two = SITE.resource(1, path), SITE.resource(1, copy)

    assert one.body == two.body
    assert one.body.startswith(start)
    assert one.body != SITE.resource(2, path).body


def test_pictures_are_png_files():
    data = SITE.resource(0, "/static/logo.png").body
    position, kinds = 8, []
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        body = data[position + 8 : position + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, position + 8 + length)
        assert checksum == zlib.crc32(kind + body)
        kinds.append(kind)
        position += length + 12

    assert kinds == [b"IHDR", b"IDAT", b"IEND"]


def test_documents_have_a_right_reference_table():
    data = SITE.resource(0, "/files/report.pdf").body
    start = int(data.split()[-2])
    offsets = re.findall(rb"(\d{10}) 00000 n ", data[start:])

    assert data[start:].startswith(b"xref\n")
    for number, offset in enumerate(offsets, start=1):
        assert data[int(offset) :].startswith(b"%d 0 obj" % number)


def test_gzip_bodies_have_no_time_in_them():
    resource = SITE.resource(0, "/gzip")

    assert resource.body[4:8] == b"\0\0\0\0"
    assert gzip.decompress(resource.body) == resource.decoded
    assert b"<title>Gzip of host 0</title>" in resource.decoded


def test_the_calendar_ends_where_it_is_told_to():
    site = Site(calendar_months=3)
    host = site.hosts - 1
    last = site.resource(host, "/calendar?month=2")

    assert b'href="?month=2"' in site.resource(host, "/calendar?month=1").body
    assert b"month=3" not in last.body
    assert site.resource(host, "/calendar?month=3").status == 404


def test_the_calendar_may_be_endless():
    site = Site(calendar_months=None)

    page = site.resource(site.hosts - 1, "/calendar?month=31415926")

    assert b'href="?month=31415927"' in page.body


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
def test_nothing_has_a_second_spelling(target):
    assert all(SITE.resource(host, target).status == 404 for host in range(5))


def test_the_hub_has_several_hundred_links_and_an_end():
    assert count_items(SITE.resource(0, "/hub")) == 276
    assert count_items(Site(urls=2000).resource(0, "/hub")) == HUB_LINKS


def count_items(resource):
    return resource.body.count(b"<li>")


def test_links_are_written_in_all_ways():
    found = b"".join(resource.decoded for _, resource in answers(SITE))
    hrefs = re.findall(rb'href="([^"]*)"', found)

    for start in (b"http://", b"//", b"/", b"../", b"?", b"mailto:", b"/about#top"):
        assert any(href.startswith(start) for href in hrefs), start
    assert b"1" in hrefs


def test_pages_are_linked_from_many_places():
    found = [
        link
        for url, resource in answers(SITE)
        for link in set(links(url, resource))
        if link == f"{SITE.bases[0]}/"
    ]

    assert len(found) > 200


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"urls": 123}, "the least is 124"),
        ({"hosts": 0}, "1 to 200"),
        ({"hosts": 201, "urls": 99999}, "1 to 200"),
        ({"calendar_months": -1}, "less than 0"),
        ({"bases": ("http://a",)}, "not 1"),
    ],
)
def test_parameters_that_cannot_work_are_refused(parameters, reason):
    with pytest.raises(ConfigurationError, match=reason):
        Site(**parameters)
