"""How what was asked with another method is filed, against cdxj-indexer itself."""

import json
from io import StringIO
from zipfile import ZipFile

import pytest
from cdxj_indexer.main import CDXJIndexer

from frontier.cdx.lines import QUERY_LIMIT, asked, parse
from frontier.dedupe.digest import digest_of
from frontier.wacz.check import check
from frontier.wacz.create import create
from frontier.wacz.layout import index_lines
from frontier.warc.cdxj_sidecar import Listing, beside_of
from tests.warc.samples import an_exchange

FORM = "application/x-www-form-urlencoded"
PARTS = (
    b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1 \xc3\xbc\r\n'
    b'--B\r\nContent-Disposition: form-data; name="f"; filename="x.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n\x00\xff\r\n--B--\r\n"
)
MULTIPART = "multipart/form-data; boundary=B"
BODIES = {
    "form": (FORM, b"a=1&b=%C3%BC"),
    "form with spaces": (FORM + "; charset=utf-8", b"q=two+words&b=%0Aline"),
    "form that is not UTF-8": (FORM, b"a=\xff"),
    "form without end": (FORM, b"a=" + b"x" * 10_000),
    "empty form": (FORM, b""),
    "json": (
        "application/json",
        b'{"a": {"b": [1, 2.0, null, true]}, "c": "\xc3\xbc"}',
    ),
    "json lines": ("application/json", b'{"a": 1}\n{"a": 2}\n{"a": 3}'),
    "json that is none": ("application/json", b"{a"),
    "json that is nested": ("application/json", b"[" * 9000),
    "json of half characters": ("application/json", b'{"\\ud800": "\\udc00"}'),
    "plain json": ("text/plain;charset=UTF-8", b'{"a": "b c"}'),
    "plain text": ("text/plain", b"some text"),
    "binary": ("application/octet-stream", bytes(range(256)) * 20),
    "no type": ("", b"bytes"),
    "multipart": (MULTIPART, PARTS),
    "multipart without boundary": ("multipart/form-data", PARTS),
    "multipart that is none": ("multipart/form-data; boundary=C", b"x"),
}


def exchange(method, mime, body, number=0, url="http://example.com/form", **changes):
    head = f"{method} /form HTTP/1.1\r\nHost: example.com\r\n"
    head += f"Content-Type: {mime}\r\n" if mime else ""
    head += f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
    return an_exchange(
        number,
        b"answer %d" % number,
        url=url,
        request_head=head.encode() + b"\r\n",
        request_body=body,
        **changes,
    )


@pytest.fixture
def listed(new_writer):
    """Write exchanges; return the WARC file, with its index beside it."""

    def write(*exchanges):
        writer = new_writer(listing=Listing())
        for each in exchanges:
            writer.append(each, digest_of(each.response_body))
        (path,) = writer.config.directory.glob("*.open")
        writer.close()
        return path.with_suffix("")

    return write


def lines_of(path):
    return beside_of(path).read_text().splitlines(keepends=True)


def theirs(path):
    out = StringIO()
    CDXJIndexer(out, [str(path)], sort=True, post_append=True).process_all()
    return out.getvalue().splitlines(keepends=True)


def bare(line):
    """*line* without what is noted for ourselves."""
    key, stamp, text = line.split(" ", 2)
    facts = json.loads(text)
    for noted in ("date", "title"):
        facts.pop(noted, None)
    return f"{key} {stamp} {json.dumps(facts)}\n"


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("name", BODIES)
def test_a_line_is_that_of_cdxj_indexer(listed, name, method):
    mime, body = BODIES[name]
    path = listed(
        exchange(method, mime, body, 0),
        exchange(method, mime, body, 1, url="http://127.0.0.1:8080/a?B=2"),
        an_exchange(2),
    )

    ours = lines_of(path)

    if name in {"multipart that is none", "json of half characters"}:
        assert len(ours) == 3  # there cdxj-indexer ends with an exception
        return
    assert [bare(line) for line in ours] == theirs(path)
    for line in ours:
        assert parse(line.encode()).encode().decode() == line


ODD = {
    "chunks": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"4\r\nsome\r\n0\r\n\r\n",
    ),
    "an answer": (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain", b"some"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    "mime", ["text/html charset=utf-8", "text/html; charset=utf-8"]
)
def test_a_line_of_what_others_have_recorded_is_that_of_cdxj_indexer(
    listed, name, mime
):
    """Its own test data and py-wacz's has such requests and such a type."""
    head, body = ODD[name]
    answer = f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\n\r\n".encode()
    path = listed(
        an_exchange(
            0,
            b"<title>a</title>",
            request_head=head + b"\r\n\r\n",
            request_body=body,
            response_head=answer,
        )
    )

    ours = lines_of(path)

    assert [bare(line) for line in ours] == theirs(path)
    assert ("title" in ours[0]) == (name == "an answer")


def test_an_index_from_the_records_is_the_one_of_the_writer(listed):
    path = listed(
        *(
            exchange("POST", mime, body, number)
            for number, (mime, body) in enumerate(BODIES.values())
        ),
        exchange("PUT", "application/json", b'{"a": "%s"}' % (b"x" * 500_000), 50),
        exchange("HEAD", "", b"", 60),
        an_exchange(70),
    )
    written = lines_of(path)
    beside_of(path).unlink()

    Listing().write(path)

    assert lines_of(path) == written


def test_a_wacz_has_the_same_lines_with_or_without_an_index(listed, tmp_path):
    path = listed(
        exchange("POST", FORM, b"a=1"),
        exchange("HEAD", "", b"", 1, url="http://example.com/2"),
        exchange("OPTIONS", "", b"", 1, url="http://example.com/2"),
        an_exchange(2, status=200),
    )
    made = []
    for name in ("with", "without"):
        out = tmp_path / f"{name}.wacz"
        assert create(out, [path]).pages == 1  # neither form nor HEAD is one
        assert check(out) == []
        with ZipFile(out) as archive:
            made.append(list(index_lines(archive)))
        beside_of(path).unlink(missing_ok=True)

    assert made[0] == made[1]
    assert [line.split(b" ")[0] for line in made[0]] == [
        b"com,example)/2",
        b"com,example)/2?__wb_method=head",
        b"com,example)/2?__wb_method=options",
        b"com,example)/form?__wb_method=post&a=1",
    ]


def test_a_query_is_bounded_and_hostile_bodies_end():
    head = b"POST / HTTP/1.1\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    for mime in (FORM, "application/json", "text/plain", MULTIPART, "x/y"):
        for body in (
            b'{"a":' * 50_000,
            b"--B\r\n" * 50_000,
            b"\n" * 100_000,
            b"a&" * 99,
        ):
            found = asked(head % (mime.encode(), len(body)), body)
            assert found.method == "POST"
            assert len(found.body) <= QUERY_LIMIT
    assert asked(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"").body is None
    assert asked(b"", b"") == asked(b"GET / HTTP/1.1\r\n\r\n", b"") == ("", "")
