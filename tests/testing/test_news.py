"""The feeds of the built-in site."""

import pytest

from frontier.feeds.parse import parse
from frontier.testing import news
from frontier.testing.site import Site

SITE = Site(urls=120, hosts=1, published=50)
BASE = SITE.bases[0]


def items(path, site=SITE):
    found = site.resource(0, path)
    kind = found.header(b"Content-Type").decode()
    return parse(found.body, kind, BASE + path).items


@pytest.mark.parametrize(("path", "parity"), [(news.FEEDS[0], 0), (news.FEEDS[1], 1)])
def test_a_feed_has_its_last_items_each_with_a_page_and_a_picture(path, parity):
    found = items(path)

    numbers = [n for n in range(50) if n % 2 == parity][-news.SHOWN :][::-1]
    assert [item.link for item in found] == [news.item_url(BASE, n) for n in numbers]
    assert found[-1].dates[0] > news.FIRST.timestamp()
    for number in numbers:
        page = SITE.resource(0, f"/news/{number}")
        assert news.image_path(number).encode() in page.body
        assert SITE.resource(0, news.image_path(number)).status == 200


def test_unpublished_item_is_404():
    assert SITE.resource(0, "/news/50").status == 404
    assert SITE.resource(0, "/img/news-50.png").status == 404
    assert items(news.FEEDS[0], Site(urls=120, hosts=1)) == []


def test_site_serves_broken_feeds():
    statuses = {path: SITE.resource(0, path).status for path in news.ODD}

    assert statuses == dict.fromkeys(news.ODD, 301)
    assert SITE.resource(0, "/feed/page.xml").is_html
    assert SITE.resource(0, "/feed/broken.xml").status == 500
