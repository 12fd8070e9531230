import functools
import sys

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.spiders import CrawlSpider, CSVFeedSpider, SitemapSpider, XMLFeedSpider
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider

from frontier.errors import CodecError, NotSerializable
from frontier.queue.item import decode, encode
from frontier.requests.stored_request import (
    STEERING,
    Allowed,
    Recorder,
    from_record,
    is_callback,
)
from tests.harness.cases import each

URL = "http://a.example/path?q=1"


class Site(Spider):
    name = "site"
    text = "not a method"

    def parse_page(self, response):
        pass

    def on_error(self, failure):
        pass

    def _private(self, response):
        pass

    @classmethod
    def of_class(cls, response):
        pass

    @staticmethod
    def static(response):
        pass

    __mangled = _private
    alias = parse_page

    class Within(Request):
        pass


class Other(Request):
    attributes = (*Request.attributes, "depth")

    def __init__(self, *args, depth=0, **kwargs):
        self.depth = depth
        super().__init__(*args, **kwargs)


@pytest.fixture
def spider():
    return Site()


@pytest.fixture
def there_and_back(spider):
    """What a request is after it was on the store, at another node."""

    def there_and_back(request):
        item = encode(Recorder(spider).record(request))
        return from_record(decode(item), Site())

    return there_and_back


def facts(request):
    names = [n for n in type(request).attributes if n not in ("callback", "errback")]
    found = {name: getattr(request, name) for name in names}
    found["headers"] = dict(request.headers)
    return found


REQUESTS = [
    Request(URL),
    Request("http://a.example"),
    Request("http://a.example/ü?ä=ö"),
    Request(URL, method="HEAD"),
    Request(URL, method="POST", body=b"\x00\xff", encoding="latin-1"),
    Request(URL, headers={"X-A": ["1", "2"], "Accept": b"\xff"}),
    Request(URL, cookies={"a": "b"}),
    Request(URL, cookies=[{"name": "a", "value": "b", "domain": "x", "path": "/"}]),
    Request(URL, meta={"depth": 3, "t": (1, 2), "b": b"\x00", "n": None}),
    Request(URL, cb_kwargs={"page": 2}),
    Request(URL, priority=-7, dont_filter=True, flags=["x"]),
    JsonRequest(URL, data={"a": [1, None]}),
    JsonRequest(URL, data={"b": 1}, dumps_kwargs={"sort_keys": True}),
    FormRequest(URL, formdata={"a": "1", "b": ["2", "3"]}),
    XmlRpcRequest(URL, params=(1, "x"), methodname="m"),
    Other(URL, depth=4),
]


@each("request", REQUESTS)
def test_a_request_is_the_same_after_the_store(there_and_back, request):
    again = there_and_back(request)

    assert type(again) is type(request)
    assert facts(again) == facts(request)


def test_callbacks_are_methods_of_the_spider_there(there_and_back, spider):
    again = there_and_back(
        Request(URL, callback=spider.parse_page, errback=spider.on_error)
    )

    assert again.callback.__func__ is Site.parse_page
    assert again.errback.__func__ is Site.on_error
    assert again.callback.__self__ is not spider


@pytest.mark.parametrize("cls", [Request, FormRequest])
@pytest.mark.parametrize("name", ["of_class", "static", "alias", "_Site__mangled"])
def test_class_methods_and_static_methods_are_callbacks(
    there_and_back, spider, name, cls
):
    method = getattr(spider, name)
    again = there_and_back(cls(URL, callback=method, errback=method))

    code = getattr(method, "__func__", method)
    for found in (again.callback, again.errback):
        assert getattr(found, "__func__", found) is code


def test_a_function_that_only_this_spider_has_cannot_be_stored(spider):
    def later(response):
        pass

    spider.later = later
    with pytest.raises(NotSerializable, match="is not one of the spider's"):
        Recorder(spider).record(Request(URL, callback=later))


def test_a_class_of_requests_that_its_name_does_not_lead_to_cannot_be_stored(spider):
    class Local(Request):
        pass

    for cls in (Local, Site.Within):
        with pytest.raises(NotSerializable, match="is not found by its name") as caught:
            Recorder(spider).record(cls(URL, callback=spider.parse_page))
        assert caught.value.where == "its class"


@pytest.mark.parametrize("part", ["callback", "errback"])
@pytest.mark.parametrize("function", [lambda response: None, print, Site().parse_page])
@pytest.mark.parametrize("cls", [Request, FormRequest])
def test_a_callback_that_is_not_the_spiders_cannot_be_stored(
    spider, part, function, cls
):
    given = {"callback": spider.parse_page, part: function}

    with pytest.raises(NotSerializable) as caught:
        Recorder(spider).record(cls(URL, **given))
    assert caught.value.url == URL


def test_a_method_of_another_spider_cannot_be_stored_though_its_name_was(spider):
    recorder = Recorder(spider)
    recorder.record(Request(URL, callback=spider.parse_page))

    with pytest.raises(NotSerializable):
        recorder.record(Request(URL, callback=Site().parse_page))


@pytest.mark.parametrize(
    "record",
    [
        {"callback": "gone"},
        {"errback": "gone"},
        {"callback": "text"},
        {"callback": 5},
        {"_class": "os.system"},
        {"_class": "os.PathLike"},
        {"_class": "Request"},
        {"_class": ""},
        {"_class": "scrapy"},
        {"_class": "no.such.Thing"},
        {"_class": 5},
        {"_class": "builtins.eval"},
        {"url": "not a url"},
        {"encoding": "no-such-encoding", "body": "text"},
        {"encoding": "no-such-encoding", "url": "http://a.example/ü"},
        {"priority": "high"},
        {"headers": 5},
        {"body": 5},
        {"meta": 5},
        {"cb_kwargs": [1]},
        {"flags": 5},
    ],
)
def test_a_record_that_makes_no_request_is_refused(spider, record):
    with pytest.raises(CodecError):
        from_record({"url": URL, **record}, spider)


def test_a_class_that_was_not_imported_is_not_imported(spider):
    name = "this"  # printing a poem when it is imported
    assert name not in sys.modules

    with pytest.raises(CodecError, match=r"this\.Request is not a class of requests"):
        from_record({"url": URL, "_class": f"{name}.Request"}, spider)
    assert name not in sys.modules


def test_fields_that_no_request_has_are_left_out(spider):
    assert from_record({"url": URL, "evil": 1, "__class__": "x"}, spider).url == URL


class Mixin:
    def of_mixin(self, response):
        pass


def decorated(function):
    @functools.wraps(function)
    def within(*args, **kwargs):
        return function(*args, **kwargs)

    return within


class Hostile(Site, Mixin):
    @classmethod
    def update_settings(cls, settings):
        pass

    def closed(self, reason):
        pass

    def start_requests(self):
        yield Request(URL)

    @decorated
    def decorated(self, response):
        pass

    async def slow(self, response):
        pass

    partial = functools.partialmethod(Site.parse_page)
    made = property(lambda self: self.parse_page)

    class Inner:
        pass


@each("part", ["callback", "errback"])
@each(
    "name",
    [
        *sorted(set(dir(Spider)) - {"parse", "_parse"}),
        *("closed", "start_requests", "partial", "made", "Inner", "text", "later"),
        *("missing", "", b"parse", 7),
    ],
)
def test_stored_callback_name_outside_the_spiders_callbacks_is_refused(part, name):
    spider = Hostile()
    spider.later = spider.parse_page

    with pytest.raises(CodecError, match=f"its {part} .* is not a callback"):
        from_record({"url": URL, part: name}, spider)


@pytest.mark.parametrize(
    "name",
    [
        *("parse", "_parse", "parse_page", "_private", "_Site__mangled", "alias"),
        *("of_class", "static", "of_mixin", "decorated", "slow"),
    ],
)
def test_stored_callback_name_of_a_spider_method_is_accepted(name):
    assert from_record({"url": URL, "callback": name}, Hostile()).callback is not None


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (CrawlSpider, {"_callback", "_errback", "parse_with_rules"}),
        (SitemapSpider, {"_parse_sitemap"}),
        (XMLFeedSpider, {"parse_nodes", "parse_node", "adapt_response"}),
        (CSVFeedSpider, {"parse_rows", "parse_row", "adapt_response"}),
        (RedisCrawlSpider, {"_callback", "_errback"}),
        (RedisSpider, set()),
    ],
)
def test_only_response_and_failure_methods_of_base_spiders_are_callbacks(cls, names):
    class Mine(cls):
        name = "mine"

    found = {name for name in dir(Mine) if is_callback(Mine, name)}
    assert set(names) | {"parse", "_parse"} <= found
    for name in found:
        first = getattr(Mine, name).__code__.co_varnames[1]
        assert first in ("response", "failure")


def test_a_request_whose_callback_would_not_come_back_is_not_stored():
    spider = Hostile()
    for function in (spider.closed, spider.log, Hostile.update_settings):
        with pytest.raises(NotSerializable, match="not one that a stored request may"):
            Recorder(spider).record(Request(URL, callback=function))


@pytest.mark.parametrize("url", ["FILE:///etc/hostname", "ftp://a.example/", "data:,x"])
def test_schemes_are_those_that_are_allowed(spider, url):
    with pytest.raises(CodecError, match="not one of FRONTIER_SCHEMES"):
        from_record({"url": url}, spider)
    with pytest.raises(NotSerializable, match="FRONTIER_SCHEMES"):
        Recorder(spider).record(Request(url))

    allowed = Allowed(frozenset({"ftp", "file", "data"}))
    record = Recorder(spider, allowed).record(Request(url))
    assert from_record(record, spider, allowed).url == Request(url).url


@each(
    "name",
    sorted(
        {
            "bindaddress",
            "ftp_local_filename",
            "playwright_context_kwargs",
            "playwright_page_event_handlers",
            "proxy",
            *STEERING,
        }
    ),
)
def test_steering_meta_is_refused_unless_allowed(spider, name):
    record = {"url": URL, "meta": {name: "http://127.0.0.1:1/", "depth": 1}}
    with pytest.raises(CodecError, match=f"its meta {name} .*FRONTIER_STORED_META"):
        from_record(record, spider)
    with pytest.raises(NotSerializable, match="FRONTIER_STORED_META"):
        Recorder(spider).record(Request(**record))

    allowed = Allowed(meta=frozenset({name}))
    assert from_record(record, spider, allowed).meta == record["meta"]
