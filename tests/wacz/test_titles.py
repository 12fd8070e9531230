"""The title that is noted of a page, whatever its server sends."""

import zlib

import pytest

from frontier.cdx.lines import TITLE_LIMIT, capture_of
from frontier.warc.reader import Found, Head, Source

HTML = "Content-Type: text/html"


def response(body, *headers, status=200):
    lines = "\r\n".join((f"HTTP/1.1 {status} OK", *headers))
    return f"{lines}\r\n\r\n".encode() + body


def title_in(block):
    head = Head(b"WARC/1.1\r\nWARC-Type: response", len(block))
    return capture_of(Found(0, head, Source("", [block]))).title


@pytest.mark.parametrize(
    ("block", "title"),
    [
        (response(b"<TITLE lang=x> a\n b </Title>", HTML), "a b"),
        (response(b"<title>a", HTML), ""),
        (response(b"<p>", HTML), ""),
        (response(b"<title>a</title>", HTML, status=404), None),
        (response(b"<title>a</title>", "Content-Type: text/plain"), None),
        (b"<title>a</title>", None),
        (response(b"<title>\xe9</title>", HTML + "; charset=latin-1"), "\u00e9"),
        (response(b"<title>\xe9</title>", HTML + "; charset=idna"), "\ufffd"),
        (response(b"<title>\xe9</title>", HTML + "; charset=undefined"), "\ufffd"),
        (response(b"<title>&#xd800;</title>", HTML), "\ufffd"),
        (response(b"<title>%b</title>" % (b"x" * 999), HTML), "x" * TITLE_LIMIT),
        (response(b"<title>%b</title>" % (b"x" * 9999), HTML), ""),
        (response(b"x" * 200_000 + b"<title>a</title>", HTML), ""),
        (response(b"no gzip", HTML, "Content-Encoding: gzip"), ""),
        (response(b"<title>a</title>", HTML, "Content-Encoding: br"), ""),
        (
            response(
                zlib.compress(b"<p>" * 20_000 + b"<title>a</title>"),
                HTML,
                "Content-Encoding: deflate",
            ),
            "a",
        ),
    ],
)
def test_title_is_extracted_from_html_pages_only(block, title):
    assert title_in(block) == title
