"""Cookies that one node was given, as another sends them."""

import asyncio
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.cookies import (
    CookiesMiddleware as ScrapysCookiesMiddleware,
)
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.spiders import Spider
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from frontier.addon import Addon
from frontier.download import cookies as shared
from frontier.download.cookies import Cookies, CookiesMiddleware, Jar
from frontier.session.session import session_of
from tests.harness.crawls import node_of

WWW = "http://www.example.com/"


@pytest.fixture(scope="module")
def shared_server(servers):
    """One kind of server: the script that merges has nothing that others lack."""
    return servers("any")


class Node:
    """A middleware, and what its node has of the store."""

    def __init__(self, store, crawl):
        crawler = get_crawler(Spider)
        self.middleware = CookiesMiddleware()
        self.middleware.crawler = crawler
        self.shared = Cookies(node_of(store, crawl))
        session = self.middleware._session = session_of(crawler)
        session.opened = True
        session.node = SimpleNamespace(parts={Cookies: self.shared})
        self.stats = crawler.stats

    async def given(self, url, *cookies, **meta):
        """Have *url* answer with *cookies*."""
        request = Request(url, meta=meta)
        response = Response(url, headers={"Set-Cookie": list(cookies)})
        assert await self.middleware.process_response(request, response) is response

    async def sends(self, url, cookies=None, **meta):
        """The cookies that *url* is asked for with."""
        request = Request(url, meta=meta, cookies=cookies)
        assert await self.middleware.process_request(request) is None
        header = request.headers.get("Cookie", b"").decode()
        return set(header.split("; ")) - {""}


@pytest.fixture
def node(store, crawl):
    return lambda: Node(store, crawl)


async def test_a_login_serves_the_other_hosts_of_its_domain_and_no_others(node):
    a, b = node(), node()
    await a.given("http://accounts.example.com/", "s=1; Domain=example.com", "own=1")

    assert await b.sends(WWW) == {"s=1"}
    assert await b.sends("http://accounts.example.com/") == {"s=1", "own=1"}
    assert await b.sends("http://example.org/") == set()
    assert await b.sends("http://127.0.0.1/") == set()


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://one/"])
async def test_a_host_without_a_domain_has_its_own(node, url):
    a, b = node(), node()
    await a.given(url, "s=1")

    assert await b.sends(url) == {"s=1"} == await a.sends(url)


async def test_names_below_a_private_suffix_share_nothing(node):
    a, b = node(), node()
    await a.given("http://a.github.io/", "s=1", "t=1; Domain=github.io")

    assert await b.sends("http://a.github.io/") == {"s=1"}
    assert await b.sends("http://b.github.io/") == set()


async def test_attributes_are_those_that_were_given(node):
    a, b = node(), node()
    later = "Expires=Wed, 01 Jan 2098 00:00:00 GMT"
    await a.given(
        "https://www.example.com/",
        "secure=1; Secure",
        "path=1; Path=/below",
        f"late=1; {later}; HttpOnly",
        "empty=",
        'quoted="a b"',
        "name-alone",
    )

    for url in (WWW, "https://www.example.com/", "https://www.example.com/below/x"):
        assert await b.sends(url) == await a.sends(url) != set()
    theirs, ours = (
        {
            (c.name, c.value, c.expires, c.secure, c.discard, c.domain_specified)
            for c in each.middleware.jars[None]
        }
        for each in (a, b)
    )
    assert theirs == ours
    assert len(ours) == 6


async def test_a_logout_is_one_for_all(node):
    a, b = node(), node()
    await a.given(WWW, "s=1", "t=1")
    assert await b.sends(WWW) == {"s=1", "t=1"}
    await b.given(WWW, "s=; Max-Age=0")

    assert await b.sends(WWW) == {"t=1"} == await a.sends(WWW)
    await node().given(WWW, "t=2", "u=1")  # by one that has not looked
    await a.given(WWW, "t=; Max-Age=0")
    assert await b.sends(WWW) == {"u=1"} == await a.sends(WWW)


async def test_jars_do_not_mix(node):
    a, b = node(), node()
    for jar in (None, 1, "1"):
        await a.given(WWW, f"s={jar!r}", cookiejar=jar)

    for jar in (None, 1, "1"):
        assert await b.sends(WWW, cookiejar=jar) == {f"s={jar!r}"}


async def test_a_requests_own_cookies_are_shared_as_scrapy_keeps_them(node):
    a, b = node(), node()
    assert await a.sends(WWW, {"s": "1"}, dont_merge_cookies=True) == set()
    assert await b.sends(WWW) == set()
    assert await a.sends(WWW, {"s": "1"}) == {"s=1"}

    assert await b.sends(WWW) == {"s=1"}
    await a.given(WWW, "t=1", dont_merge_cookies=True)
    assert await b.sends(WWW) == {"s=1"} == await a.sends(WWW)


async def test_requests_are_sent_with_what_those_before_them_had(node):
    a = node()
    both = asyncio.gather(a.sends(WWW, {"s": "1"}), a.sends(WWW))

    assert await both == [{"s=1"}] * 2


async def test_a_response_that_changes_nothing_writes_nothing(node, db, crawl):
    a = node()
    for _ in range(3):
        await a.given(WWW, "s=1; Path=/")
        await a.given(WWW)

    await node().given(WWW, "s=1; Path=/")
    assert a.stats.get_value("frontier/cookies/written") == 1
    stored = db("ZRANGE", crawl.cookies, 0, -1, "WITHSCORES")
    assert stored == [[b'[null,"example.com"]', 1.0]]


async def test_the_spider_sees_a_login_when_every_node_would_send_it(node):
    """No wait here: what follows from the response is sent with what it set."""
    a, b = node(), node()
    assert await b.sends(WWW) == set()
    for n in range(20):
        await a.given(WWW, f"s={n}")
        assert await b.sends(WWW) == {f"s={n}"}


async def test_a_jar_that_only_one_process_can_name_stays_there(node, caplog):
    a, b = node(), node()
    jar = ("a", "tuple")
    for _ in range(2):
        await a.given(WWW, "s=1", cookiejar=jar)
        assert await a.sends(WWW, cookiejar=jar) == {"s=1"}

    assert await b.sends(WWW) == set()
    assert caplog.text.count("not shared") == 1
    assert "a cookiejar that is tuple" in caplog.text
    assert a.stats.get_value("frontier/cookies/local") == 2


async def test_a_site_that_sets_too_many_or_too_large_ones(node, db, crawl, caplog):
    a, b = node(), node()
    await a.given(WWW, "large=" + "x" * shared.MAX_BYTES, "s=1")
    await a.given(WWW, *(f"c{n}=1" for n in range(10_000)))

    kept = shared.MAX_COOKIES - 1  # the large one has its place
    assert db("HLEN", crawl.jar('[null,"example.com"]')) == kept
    sent = await b.sends(WWW)
    assert len(sent) == kept
    assert "s=1" in sent
    assert len(await a.sends(WWW)) == 10_002
    assert caplog.text.count("a cookie of over") == 1
    assert caplog.text.count("of one domain") == 1


async def test_expired_cookies_make_room_and_a_crawl_has_room_for_so_many_jars(
    node, db, crawl, monkeypatch
):
    monkeypatch.setattr(shared, "MAX_JARS", 1)
    jars = node().shared
    many = {str(n): "1 old" if n < 2 else "0 x" for n in range(shared.MAX_COOKIES)}
    assert await jars.write(Jar("x"), many) == (True, 0)
    assert await jars.write(Jar("x"), dict.fromkeys("abc", "0 y")) == (True, 1)
    assert await jars.write(Jar("x"), {"5": "0 z"}) == (True, 0), "it had its room"

    assert await jars.write(Jar("y"), dict.fromkeys("ab", "0 y")) == (False, 2)
    db("DEL", crawl.meta)
    assert await jars.write(Jar("x"), {"a": "0 z"}) == (False, 0)


async def test_an_index_of_many_pages_is_read_whole_and_once(node, monkeypatch):
    monkeypatch.setattr(shared, "PAGE", 3)
    sites = [f"http://{n}.{n}.example/" for n in range(7)]
    a, b, asked = node(), node(), []
    for site in sites:
        await a.given(site, "s=1")
    monkeypatch.setattr(shared, "FRESH", 60.0)
    look = Cookies._do_look

    async def counted(self):
        asked.append(self)
        await look(self)

    monkeypatch.setattr(Cookies, "_do_look", counted)
    assert await asyncio.gather(*map(b.sends, sites)) == [{"s=1"}] * 7
    assert len(asked) == 1


FIELD = '["www.example.com", "/", "s"]'
VALUE = '0 ["1", false, false, false, true, null, false]'


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('["www.example.org", "/", "s"]', VALUE),
        ('["com", "/", "s"]', VALUE),
        ('["notexample.com", "/", "s"]', VALUE),
        ('["www.example.com", "/", "s\\r\\nX: y"]', VALUE),
        (FIELD, VALUE.replace('"1"', '"1\\nX: y"')),
        (FIELD, VALUE.replace('"1"', "1")),
        (FIELD, VALUE.replace('"1"', f'"{"x" * shared.MAX_BYTES}"')),
        (FIELD, "x " + VALUE),
        (FIELD, "0 " + "[" * 2_000),
        (FIELD, "0 null"),
        (FIELD, VALUE.replace("0 ", "9" * 5_000 + " ")),
        ("[[], {}, 1]", VALUE),
        ("7", VALUE),
        ("[" * 100_000, VALUE),
        ("\udcff", VALUE),
    ],
)
async def test_invalid_cookie_in_the_store_is_skipped(
    node, db, crawl, caplog, field, value
):
    name = '[null,"example.com"]'
    good = '["www.example.com", "/", "good"]'
    raw = field.encode("utf-8", "surrogateescape")
    db("HSET", crawl.jar(name), raw, value, good, VALUE)
    db("ZADD", crawl.cookies, 1, name)
    a = node()

    assert await a.sends(WWW) == {"good=1"}
    assert caplog.text.count("not a cookie of its jar") == 1
    await a.given(WWW, "t=1")
    assert await node().sends(WWW) == {"good=1", "t=1"}


async def test_cookies_lost_by_the_store_are_written_again(node, db, crawl):
    a, b = node(), node()
    await a.given(WWW, "s=1")
    db("DEL", crawl.cookies)
    db("DEL", crawl.jar('[null,"example.com"]'))
    await b.given(WWW, "t=1")
    a.shared.went_back()

    assert await a.sends(WWW) == {"s=1", "t=1"}
    await asyncio.sleep(shared.FRESH)
    assert await b.sends(WWW) == {"s=1", "t=1"}


async def test_a_node_forgets_that_it_has_looked_where_there_is_nothing(
    node, monkeypatch
):
    a = node()
    monkeypatch.setattr("frontier.download.cookies.MAX_KNOWN", 3)
    a.middleware._most = 3
    await a.given("http://kept.example/", "s=1")
    for n in range(10):
        await a.sends(f"http://{n}.{n}.example/")

    assert len(a.middleware._shared) < 6
    assert await a.sends("http://kept.example/") == {"s=1"}


SCRAPYS = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, {CookiesMiddleware: 700}),
        ({"FRONTIER_COOKIES_SHARED": False}, {ScrapysCookiesMiddleware: 700}),
        (
            {"DOWNLOADER_MIDDLEWARES": {SCRAPYS: 650}},
            {ScrapysCookiesMiddleware: 650},
        ),
        ({"DOWNLOADER_MIDDLEWARES": {SCRAPYS: None}}, {}),
    ],
)
def test_the_project_chooses(chosen, expected):
    settings = Settings(chosen)
    Addon(Crawler(Spider, settings)).update_settings(settings)

    places = settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")
    found = {load_object(name): at for name, at in places.items() if at is not None}
    ours = {c: p for c, p in found.items() if issubclass(c, ScrapysCookiesMiddleware)}
    assert ours == expected


def test_disabled_cookies_disable_the_middleware():
    crawler = get_crawler(Spider, {"COOKIES_ENABLED": False})

    with pytest.raises(NotConfigured):
        CookiesMiddleware.from_crawler(crawler)
