"""What no server sent is archived as a document, with what is known of its maker."""

import json
import zipfile

import pytest
from conftest import Cluster
from test_wacz import replay
from test_wire import Captured

from frontier.cdx.lines import parse
from frontier.wacz.check import check
from frontier.wacz.create import create
from tests.rawsite import RawSite
from tests.warc.judges import assert_sound, listed, read_listing, read_warcio

SENT = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nsent"
PAGES = {
    "/sent": SENT,
    "/changed": SENT,
    "/replaced": SENT,
    "/half": SENT.replace(b"Length: 4", b"Length: 9"),
    "/nothing": lambda connection: connection.close(),
}
PROJECT = """
import gzip

import scrapy
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.http import HtmlResponse, Response

BOT_NAME = "made"
SPIDER_MODULES = ["settings"]
ROBOTSTXT_OBEY = False
RETRY_TIMES = 0
ADDONS = {"frontier.addon.Addon": 1}
DOWNLOADER_MIDDLEWARES = {"settings.Middleware": 990}
DOWNLOAD_HANDLERS = {"https": "settings.Foreign", "ftp": "settings.Missing"}
PAGE = b"<title>Made</title>made of %b"


class Foreign(BaseDownloadHandler):
    async def download_request(self, request):
        if request.url.endswith("/moved"):
            return HtmlResponse("https://foreign.example/to", 404, body=PAGE % b"it")
        return HtmlResponse(request.url, body=PAGE % b"f", headers={
            "Content-Type": "text/html; charset=utf-8", "X-From": "foreign"})


class Rendering(HTTP11DownloadHandler):
    async def download_request(self, request):
        response = await super().download_request(request)
        if request.meta.get("render"):
            flags = request.meta.get("flags", [])
            protocol = response.protocol if flags else None
            return HtmlResponse(
                request.url, body=PAGE % b"DOM", protocol=protocol, flags=flags,
                headers={"Content-Type": "text/html"})
        return response


class Middleware:
    def process_request(self, request):
        if "/given" in request.url:
            coding = request.meta["coding"]
            headers = {"Content-Type": "text/html", "Content-Encoding": coding}
            body = gzip.compress(PAGE % b"given") if coding == "gzip" else b"?!"
            return HtmlResponse(request.url, body=body, headers=headers)

    def process_response(self, request, response):
        if request.url.endswith("/changed"):
            return response.replace(status=418, body=b"changed")
        if request.url.endswith("/replaced"):
            return Response(request.url, body=b"replaced")
        return response

    def process_exception(self, request, exception):
        return HtmlResponse(request.url, body=PAGE % b"an error")


class Made(scrapy.Spider):
    name = "made"

    async def start(self):
        for url in self.urls.split(","):
            meta = {"handle_httpstatus_all": True}
            if "/given" in url:
                meta["coding"] = "gzip" if url.endswith("/given") else "rot13"
            if "/rendered" in url:
                meta["render"] = True
            if "/rendered-flag" in url:
                meta["flags"] = ["playwright"]
            yield scrapy.Request(url, meta=meta)

    def parse(self, response):
        yield {"url": response.url, "body": response.text}
"""
MIDDLEWARE = "a downloader middleware"


def files(cluster):
    return sorted(cluster.warc_dir.glob("*.warc.gz"))


def crawl(directory, store, paths, foreign, **settings):
    (directory / "settings.py").write_text(PROJECT)
    (directory / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    cluster = Cluster(directory, store)
    pages = PAGES | {path: SENT for path in paths if path.startswith("/rendered")}
    site = RawSite(pages)
    urls = [*map(site.url, paths), *(f"https://foreign.example{p}" for p in foreign)]
    urls.append("ftp://foreign.example/unloaded")
    settings["FRONTIER_REVISIT_STATUSES"] = "599"  # they have one body
    options = ("-a", f"urls={','.join(urls)}", "-o", "items.jsonl")
    try:
        cluster.start("n1", *options, spider="made", cwd=directory, **settings)
        cluster.finish()
    finally:
        cluster.close()
        site.close()
    for path in files(cluster):
        assert_sound(path)
    return cluster, Captured(cluster, "n1")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory, chosen):
    """A crawl with our handler for http, and one that is not Scrapy's for https."""
    directory = tmp_path_factory.mktemp("made")
    paths = [*PAGES, "/given", "/given-coded"]
    return crawl(directory, chosen(), paths, ["/foreign", "/moved"])


def body_of(captured, path, kind="resource"):
    headers, block, _ = captured[path, kind]
    return headers, block


def kinds(captured, path):
    return {kind for at, kind in captured.records if at == path}


RESOURCES = {  # body, type and maker
    "/foreign": (b"made of f", "text/html; charset=utf-8", "settings.Foreign"),
    "/given": (b"made of given", "text/html", MIDDLEWARE),
    "/given-coded": (b"?!", "application/octet-stream", MIDDLEWARE),
    "/half": (b"made of an error", "text/html; charset=cp1252", MIDDLEWARE),
    "/nothing": (b"made of an error", "text/html; charset=cp1252", MIDDLEWARE),
}


@pytest.mark.parametrize("path", RESOURCES)
def test_what_no_server_sent_is_a_resource_with_its_maker(crawled, path):
    _, captured = crawled
    headers, block = body_of(captured, path)
    body, content_type, maker = RESOURCES[path]

    assert block.removeprefix(b"<title>Made</title>") == body
    assert headers["Content-Type"] == content_type
    assert headers["X-Frontier-Made-By"] == maker
    sent = {"response", "request"} if path == "/half" else set()
    assert kinds(captured, path) == {"resource"} | sent


def test_what_makes_pages_is_told_once(crawled):
    for maker in ("settings.Foreign", MIDDLEWARE):
        line = f"what {maker} returns is archived as resource"
        assert crawled[1].log.count(line) == 1


def test_unchecked_lease_of_a_foreign_handler_is_reported_once(crawled):
    _, captured = crawled
    said = "sends https requests by itself: the lease on a host is checked before it is"
    assert captured.log.count(f"settings.Foreign {said}") == 1
    assert 'Loading "settings.Missing" for scheme "ftp"' in captured.log
    assert captured.log.count("by itself") == 1


def test_resource_has_the_url_of_the_response_and_not_of_the_request(crawled):
    cluster, captured = crawled

    assert kinds(captured, "/moved") == set()
    assert kinds(captured, "/to") == {"resource"}
    about = metadata(cluster, "https://foreign.example/to")
    assert b"status: 404\r\nrequested: https://foreign.example/moved\r\n" in about


def metadata(cluster, url):
    """The block of the metadata record about *url*."""
    (block,) = [
        body
        for path in files(cluster)
        for kind, headers, _, body in read_warcio(path)
        if kind == "metadata" and headers["WARC-Target-URI"] == url
    ]
    return block


@pytest.mark.parametrize("path", ["/sent", "/changed", "/replaced"])
def test_server_response_is_archived_unchanged_by_a_middleware(crawled, path):
    _, captured = crawled
    _, block = body_of(captured, path, "response")

    assert block == SENT
    assert kinds(captured, path) == {"response", "request"}


def test_half_an_answer_is_archived_though_a_page_was_made_for_it(crawled):
    headers, block = body_of(crawled[1], "/half", "response")

    assert block.endswith(b"\r\n\r\nsent")
    assert headers["WARC-Truncated"] == "disconnect"


def test_indexes_have_resources_as_reading_finds_them(crawled):
    cluster, _ = crawled
    lines = [line for path in files(cluster) for line in listed(path)]

    assert lines == [line for path in files(cluster) for line in read_listing(path)]
    made = [line for line in map(parse, lines) if not line.status]
    assert len(made) == 6
    assert sum(line.title == "Made" for line in made) == 5


def test_resources_are_pages_of_a_wacz(crawled, tmp_path):
    cluster, _ = crawled
    listed_pages = []
    for name in ("with", "without"):
        path = tmp_path / f"{name}.wacz"
        create(path, files(cluster))
        assert list(check(path)) == []
        with zipfile.ZipFile(path) as wacz:
            lines = wacz.read("pages/pages.jsonl").splitlines()[1:]
        listed_pages.append(sorted(json.loads(line)["url"] for line in lines))
        for beside in cluster.warc_dir.glob("*.cdxj"):
            beside.unlink()  # so that the second one reads the records
    assert listed_pages[0] == listed_pages[1]
    assert "https://foreign.example/foreign" in listed_pages[0]


@pytest.mark.compat
def test_pywb_serves_resources(crawled, tmp_path):
    cluster, _ = crawled
    create(tmp_path / "made.wacz", files(cluster))
    with replay(tmp_path / "pywb", tmp_path / "made.wacz") as ask:
        for path, about in (("foreign", b"f"), ("to", b"it")):
            answer = ask.of(f"https://foreign.example/{path}")
            assert answer == (200, b"<title>Made</title>made of " + about)


def test_handler_listed_as_http_is_archived_as_response(tmp_path, chosen):
    paths = ["/sent", "/rendered", "/rendered-flag"]
    _, captured = crawl(
        tmp_path,
        chosen(),
        paths,
        ["/foreign"],
        DOWNLOADER_MIDDLEWARES="{}",
        DOWNLOAD_HANDLERS=json.dumps(
            {
                "http": "settings.Rendering",
                "https": "settings.Foreign",
                "ftp": "settings.Missing",
            }
        ),
        FRONTIER_WARC_HTTP_HANDLERS="settings.Foreign",
    )

    for path in ("/sent", "/foreign"):
        assert kinds(captured, path) == {"response", "request"}
    for path in ("/rendered", "/rendered-flag"):
        headers, block = body_of(captured, path)
        assert block == b"<title>Made</title>made of DOM"
        assert headers["X-Frontier-Made-By"] == "settings.Rendering"
        assert kinds(captured, path) == {"resource"}
