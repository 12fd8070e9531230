"""The index of a deduplicated file is the one that reading the file would give."""

import gzip

import pytest

from frontier.cdx.lines import captures_in
from frontier.dedupe.revisit_policy import Policy
from frontier.postcrawl.manifest import Options, make
from frontier.postcrawl.plan import applying, make_plan
from frontier.postcrawl.rewriting import perform
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.reader import records_in
from tests.postcrawl.conftest import PAGE
from tests.postcrawl.test_files_of_others import record

HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


@pytest.fixture
def applied(tmp_path):
    """Indexes of a file: as `apply` has written it, and as of reading that file."""

    def both(path):
        manifests, out = tmp_path / "manifests", tmp_path / "after" / path.name
        manifests.mkdir()
        make(path, manifests, Options())
        make_plan(manifests, Policy())
        perform(applying(manifests), path, out)
        index = beside_of(out).read_bytes()
        beside_of(out).unlink()
        with out.open("rb") as file:
            found = captures_in(records_in(file, "x"), out.name, lambda _: None)
            Listing().write(out, [capture.encode() for capture in found])
        return index, beside_of(out).read_bytes()

    return both


def odd(path, *blocks, kind="response", **headers):
    """Add records of *kind* to *path*, with *headers* in place of the usual."""
    with path.open("ab") as file:
        for number, block in enumerate(blocks):
            url = f"http://odd.example/{kind}/{number}"
            made = record(url, 50 + number, block, kind=kind, **headers)
            file.write(gzip.compress(made, mtime=0))


def test_index_after_dedupe_equals_a_reread_for_each_kind_of_record(new_warc, applied):
    warc = new_warc("one.warc.gz")
    page = b"<html><title>A &amp; B, \xc3\xa9</title>" + PAGE
    warc.response("http://a.example/", 1, page)
    warc.response("http://a.example/b?b=2&a=1", 2, page)
    warc.response("http://www.a.example/image", 3, PAGE, headers=[("Content-Type", "")])
    warc.response("http://a.example/image", 4, PAGE)
    warc.response("http://a.example/gone", 5, page, status="404 Not Found")
    warc.response(
        "http://a.example/packed",
        6,
        gzip.compress(page, mtime=0),
        headers=[("Content-Encoding", "gzip")],
    )
    warc.post("http://a.example/form", 7, page)
    warc.revisit("http://a.example/", 8, f"sha1:{'A' * 32}", "http://a.example/", 1)
    warc.close()
    odd(warc.path, page, kind="resource", Content_Type="text/html; charset=utf-8")
    odd(warc.path, b"a text", kind="resource", Content_Type="Text/Plain")
    odd(warc.path, b"converted", kind="conversion", Content_Type="text/plain")
    odd(warc.path, HTTP.replace(b"text/", b"TEXT/") + page + b"!")

    index, read = applied(warc.path)

    assert index == read
    assert index.count(b'"mime": "warc/revisit"') == 3
    assert b"A & B, \\u00e9" in index
    assert b'"method": "POST"' in index
    assert b"TEXT/html" in index


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        (HTTP.replace(b" 200 ", b" 0200 "), {}),
        (HTTP.replace(b" 200 ", b" 20000 "), {}),
        (HTTP, {"Content-Type": "text/plain"}),
        (HTTP, {"WARC-Payload-Digest": "sha1:" + "A" * 300}),
        (HTTP.replace(b"html", b"html; charset=utf-7") + b"<title>+2AA-</title>", {}),
        (HTTP.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 150_000 + b"\r\n\r\n"), {}),
        (b"no HTTP", {}),
        (HTTP, {"WARC-Target-URI": ""}),
        (HTTP, {"WARC-Date": "2020"}),
        (HTTP, {"WARC-Target-URI": "http://a.example/\x00\xc3 b"}),
        (HTTP.replace(b"text/html", b"x/" + b"y" * 200), {}),
    ],
)
def test_index_after_dedupe_equals_a_reread_for_odd_records(
    new_warc, applied, block, headers
):
    warc = new_warc("one.warc.gz")
    warc.response("http://a.example/", 1, PAGE)
    warc.response("http://b.example/", 2, PAGE)
    warc.close()
    odd(warc.path, block, **headers)

    index, read = applied(warc.path)

    assert index == read
    assert b"warc/revisit" in index
