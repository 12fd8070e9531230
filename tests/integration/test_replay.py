"""Forms, PUT and HEAD of a crawl, replayed by pywb and by wabac."""

import contextlib

import pytest
import test_wacz
from conftest import Cluster

from frontier.cdx.lines import parse
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer
from tests.warc.judges import read_warcio

FORM = "application/x-www-form-urlencoded"
SPIDER = """
import scrapy


class Forms(scrapy.Spider):
    name = "forms"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    async def start(self):
        base = self.base
        yield scrapy.Request(base, priority=9)  # without a slash
        for value, text in ("1", "\\u00fc"), ("2", "\\u00fc"), ("3", "x"):
            form = {"a": value, "b": text}
            yield scrapy.FormRequest(f"{base}/form", formdata=form)
        yield scrapy.http.JsonRequest(f"{base}/put?x=1", method="PUT", data={"c": 3})
        for method in ("HEAD", "GET"):
            yield scrapy.Request(f"{base}/page", method=method)

    def parse(self, response):
        yield response.follow("/page")  # and so an outlink of each
"""


def said(path, request):
    """The body tells what was asked; that to a HEAD is empty."""
    words, _, body = request.partition(b"\r\n\r\n")
    method = words.split(b" ")[0]
    text = b"<p>" + b" ".join([method, path.encode(), body])
    whole = answer(text, "Content-Type: text/html")
    return whole.removesuffix(text) if method == b"HEAD" else whole


@pytest.fixture(scope="module")
def crawled(tmp_path_factory, chosen):
    """A WACZ of a crawl with all of these; and what was asked, in order."""
    directory = tmp_path_factory.mktemp("forms")
    scrapy_project(directory, SPIDER)
    cluster = Cluster(directory, chosen())
    site = RawSite({}, answer=said)
    with contextlib.closing(cluster), contextlib.closing(site):
        cluster.start(
            "n1",
            *("-a", f"base={site.origin}"),
            spider="forms",
            cwd=directory,
            FRONTIER_WACZ_DIR=directory,
            FRONTIER_WARC_OUTLINKS="True",
        )
        cluster.finish()
    (wacz,) = directory.glob("*.wacz")
    return site.origin, wacz, sorted(cluster.warc_dir.glob("*.cdxj"))


def asked_of(origin):
    """What a browser asks on replay, and what it is to get."""
    headers = {"Content-Type": FORM}
    for body in ("a=2&b=%C3%BC", "a=3&b=x", "a=1&b=%C3%BC"):
        yield "POST", f"{origin}/form", headers, body, f"POST /form {body}"
    body = '{"c": 3}'
    put = {"Content-Type": "application/json"}
    yield "PUT", f"{origin}/put?x=1", put, body, f"PUT /put?x=1 {body}"
    yield "GET", f"{origin}/page", {}, None, "GET /page "
    yield "GET", f"{origin}/", {}, None, "GET / "


def test_each_is_filed_under_its_method(crawled):
    origin, _, (index,) = crawled

    lines = [parse(line) for line in index.read_bytes().splitlines()]

    paths = [line.key.partition(")")[2] for line in lines]
    assert paths == [
        "/",
        "/form?__wb_method=post&a=1&b=%c3%bc",
        "/form?__wb_method=post&a=2&b=%c3%bc",
        "/form?__wb_method=post&a=3&b=x",
        "/page",
        "/page?__wb_method=head",
        "/put?__wb_method=put&c=3&x=1",
    ]
    assert lines[0].url == f"{origin}/"
    warc = index.with_suffix(".warc.gz")
    kinds = [kind for kind, *_ in read_warcio(warc)]
    assert kinds.count("response") == kinds.count("request") == 7
    assert kinds.count("metadata") == 2 * 7 + 1  # of the outlinks; of the rules


@pytest.mark.compat
def test_pywb_replays_forms_and_does_not_mix_methods(crawled, tmp_path):
    origin, wacz, _ = crawled
    with test_wacz.replay(tmp_path / "pywb", wacz) as ask:
        for method, url, headers, body, told in asked_of(origin):
            assert ask.of(url, method, headers, body) == (200, f"<p>{told}".encode())
        # HEAD is answered with the head of the page, never the page with HEAD's.
        assert ask.of(f"{origin}/page", "HEAD") == (200, b"")
        assert ask.of(origin) == (307, b"")  # to the same with a slash


@pytest.mark.compat
def test_wabac_replays_forms_and_does_not_mix_methods(crawled, wabac):
    origin, wacz, _ = crawled
    # Of a form that is not ASCII wabac 2.27 spells the URL in two ways, for HTML.
    asked = [each for each in asked_of(origin) if "%" not in (each[3] or "")]
    assert len(asked) == 4
    lookups = [
        {"method": method, "url": url, "headers": headers, "body": body}
        for method, url, headers, body, _ in asked
    ]
    lookups.append({"url": f"{origin}/form"})

    _, found = wabac(wacz, lookups)

    assert found == [
        *({"status": 200, "body": f"<p>{told}"} for *_, told in asked),
        None,
    ]
