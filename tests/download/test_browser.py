"""What of a browser's answers is known to be what a server sent."""

import pytest

from frontier.dedupe.digest import digest_of
from frontier.dedupe.revisit_policy import may_be_revisit
from frontier.download.browser import AS_TEXT, as_sent, lacking
from frontier.download.capture import request_head, response_head
from frontier.model import Exchange
from frontier.warc.records import capture
from tests.warc.samples import NOON, warc_headers

MAKER = "scrapy_playwright.handler.Handler"
INFO = "<urn:uuid:00000000-0000-0000-0000-000000000000>"


def exchange(kind, body, size, *lines, method="GET", sent=b"", reason="Fine", **more):
    """Of an answer of type *kind* whose body had *size* bytes on the wire."""
    url = "http://example.com/a?b"
    came = Exchange(
        url=url,
        started=NOON,
        request_head=request_head(method, url, [(b"Accept", b"*/*")], len(sent)),
        request_body=sent,
        response_head=response_head(
            200, [(b"Content-Type", kind.encode()), *lines], reason
        ),
        response_body=body,
        status=200,
        **more,
    )
    return as_sent(came, size, MAKER)


def kinds(made):
    digest = digest_of(made.response_body)
    records = capture(made, digest, INFO, "c")
    return [warc_headers(b"".join(x.parts))["WARC-Type"] for x in records]


GZIP = (b"Content-Encoding", b"gzip")
LATIN = "text/css; charset=iso-8859-1"
UTF_8 = "text/css; Charset = UTF-8"


@pytest.mark.parametrize(
    ("kind", "body", "size", "lines"),
    [
        (LATIN, b"a", 1, []),
        ("text/html", b"<p>", 3, []),
        ("image/png", b"\x89PNG", 99, [GZIP]),
        ("image/png", b"\x89PNG", 99, [(b"Transfer-Encoding", b"chunked")]),
        ("application/pdf", b"%PDF", -1, []),
        ("text/css", b"", 0, []),
    ],
)
def test_a_body_that_is_what_was_sent_is_a_response(kind, body, size, lines):
    made = exchange(kind, body, size, *lines)

    assert kinds(made) == ["response", "request"]
    assert not made.framing
    assert may_be_revisit(made) == bool(body)


@pytest.mark.parametrize("lines", [[GZIP], [(b"Transfer-Encoding", b"chunked")]])
def test_text_that_was_declared_to_be_utf_8_is_one_and_says_so(lines):
    made = exchange(UTF_8, "é".encode(), 30, *lines)

    assert kinds(made) == ["response", "request"]
    assert made.framing == AS_TEXT
    assert not may_be_revisit(made)  # a mark at its start may be lost


@pytest.mark.parametrize(
    ("kind", "body", "size", "lines"),
    [
        (LATIN, "é".encode(), 1, []),
        (LATIN, b"ascii", 30, [GZIP]),
        ("text/html", b"<p>", 30, [GZIP]),
        ("image/svg+xml", b"<svg>", 30, [GZIP]),
        (UTF_8, "a\ufffd".encode(), 2, []),
    ],
)
def test_text_of_which_that_is_not_known_is_a_resource_of_utf_8(
    kind, body, size, lines
):
    made = exchange(kind, body, size, *lines)

    assert kinds(made) == ["resource"]
    assert made.made.by == MAKER
    (record,) = capture(made, digest_of(body), INFO, "c")
    mime = kind.partition(";")[0]
    assert warc_headers(b"".join(record.parts))["Content-Type"] == (
        f"{mime}; charset=utf-8"
    )


def test_a_size_says_nothing_where_a_coding_was_undone():
    made = exchange(LATIN, b"ascii", 5, GZIP)

    assert kinds(made) == ["resource"]


def test_the_head_says_what_the_stored_body_would_make_untrue():
    made = exchange(
        "image/png",
        b"\x89PNG",
        99,
        GZIP,
        (b"content-length", b"99"),
        (b"X-oDD", b"1"),
        (b"X-oDD", b"2"),
    )

    assert made.response_head == (
        b"HTTP/1.1 200 Fine\r\n"
        b"Content-Type: image/png\r\n"
        b"X-Archive-Orig-Content-Encoding: gzip\r\n"
        b"X-Archive-Orig-content-length: 99\r\n"
        b"X-oDD: 1\r\n"
        b"X-oDD: 2\r\n"
        b"Content-Length: 4\r\n\r\n"
    )


def test_a_length_that_is_still_true_stays():
    made = exchange("image/png", b"\x89PNG", 4, (b"Content-Length", b"4"))

    assert made.response_head.endswith(b"\r\nContent-Length: 4\r\n\r\n")
    assert made.response_head.count(b"Length") == 1


def test_a_form_is_a_request_with_its_body():
    made = exchange("text/html", b"x", 1, method="POST", sent=b"a=1")

    assert made.request_head == (
        b"POST /a?b HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n"
        b"Content-Length: 3\r\n\r\n"
    )
    assert made.request_body == b"a=1"


@pytest.mark.parametrize(
    ("facts", "truncated"),
    [
        (("GET", 302, 10), "unspecified"),
        (("GET", 200, 1_001), "length"),
        (("GET", 200, -1), "unspecified"),
        (("GET", 302, 0), None),
        (("GET", 204, -1), None),
        (("GET", 304, -1), None),
        (("HEAD", 200, -1), None),
    ],
)
def test_a_body_that_could_not_be_had_is_cut(facts, truncated):
    assert lacking(*facts, most=1_000) == truncated

    made = exchange("text/html", b"", 0, truncated=truncated)
    assert kinds(made) == ["response", "request"]


def test_a_line_break_in_a_header_makes_no_header():
    made = exchange("text/html", b"x", 1, (b"X-Bad", b"a\r\nX-More: b"))

    assert b"\nX-More" not in made.response_head


def test_http_2_has_no_reason_and_gets_the_standard_one():
    made = exchange("text/html", b"x", 1, reason="", protocols=("h2", "tls/1.3"))

    assert made.response_head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert made.protocols == ("h2", "tls/1.3")
