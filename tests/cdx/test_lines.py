"""Lines of an index, as this package and others write them."""

import pytest

from frontier.cdx.lines import Capture, read_line

URLS = (
    "http://a.example/x{y",
    "http://a.example/x%20{y}?q={1}",
    'http://a.example/?{"a":1}',
    "http://a.example/{",
)


@pytest.mark.parametrize("url", URLS)
def test_a_key_may_have_a_brace(url):
    """Common Crawl has such URLs; their lines were taken for CDX of four columns."""
    of = {"mime": "text/html", "status": "200", "length": 9, "filename": "a.warc.gz"}
    line = Capture(url, "2026-01-02T03:04:05Z", **of).encode()

    found = read_line(line)

    assert found is not None
    assert (found.url, found.length) == (url, 9)
    assert found.key.encode() == line.split(b" ")[0]


@pytest.mark.parametrize("url", URLS)
def test_a_column_may_have_a_brace(url):
    key = "com,example)/{x"
    raw = f"{key} 20260102030405 {url} text/html 200 ABC - - 9 7 a.warc.gz"

    found = read_line(raw.encode())

    assert found is not None
    assert (found.key, found.url, found.offset) == (key, url, 7)
