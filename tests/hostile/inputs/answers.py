"""Answers that are hardly HTTP, too much of it, or none."""

import gzip
import struct
import zlib
from functools import reduce

import brotli

from tests.hostile.crawling import html, moved, page, pieces

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def zeros(megabytes, window=31):
    """That many as gzip, or as zlib with *window* 15: one block again and again."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(MEGABYTE) + deflate.flush(zlib.Z_FULL_FLUSH)
    body = block * megabytes + deflate.flush()
    if window == 15:
        check = reduce(grown(zlib.adler32), range(megabytes), 1)
        return b"\x78\xda" + body + struct.pack(">I", check)
    check = reduce(grown(zlib.crc32), range(megabytes), 0)
    size = megabytes * len(MEGABYTE)
    head = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"
    return head + body + struct.pack("<II", check, size)


def grown(checksum):
    return lambda made, _: checksum(MEGABYTE, made)


MEGABYTE = bytes(1 << 20)
BOMB = zeros(200)


def is_stored(came):
    """As it came over the wire."""
    assert came.codes("/") == [200]


def is_stored_unread(came):
    is_stored(came)
    assert came.items == []


def is_cut_off(came):
    assert came.record("/")[0]["WARC-Truncated"] in {"length", "time"}


def fails(came):
    assert came.codes("/")[0] < 0


def fails_and_is_cut_off(came):
    fails(came)
    is_cut_off(came)


def is_told_once(came):
    assert len(came.codes("/")) == 1


def is_followed(came):
    assert "/x" in came.asked


def sets_no_cookie(came):
    assert "cookie:" not in came.heads[-1]


@page("answers/a-gzip-bomb", html(BOMB, b"Content-Encoding: gzip"))
def _(came):
    is_stored_unread(came)
    assert came.record("/")[1] > len(BOMB)


@page(
    "answers/a-byte-each-second",
    {"/": lambda c: pieces(b"x", times=60, pause=1.0)(c)},
)
def _(came):
    assert came.codes("/") in ([-4], [-3], [-2]), came.codes("/")


@page(
    "answers/a-body-of-a-byte-each-second",
    {
        "/": pieces(OK + b"\r\n", times=1, then=b"")
        and (lambda c: (c.sendall(OK + b"\r\n"), pieces(b"x", times=60, pause=1.0)(c)))
    },
)
def _(came):
    assert came.record("/")[0]["WARC-Truncated"] == "time"


@page(
    "answers/a-length-of-10-to-the-13", OK + b"Content-Length: 10000000000000\r\n\r\nx"
)
def _(came):
    assert came.codes("/")[0] != 0
    assert all(size < 10**6 for _, _, size, _ in came.lines)


@page("answers/no-http-at-all", b"<html><a href=/x>x</a></html>")
def _(came):
    assert came.codes("/")
    assert "/x" not in came.asked


@page("answers/headers-with-escapes", OK + b"X-\x1b]0;owned\x07: \x1b[2J\r\n\r\nx")
def _(came):
    assert came.codes("/") == [200]
    assert "\x1b" not in came.log


@page("answers/a-reason-with-escapes", b"HTTP/1.1 404 \x1b]0;owned\x07\r\n\r\n")
def _(came):
    assert came.codes("/") == [404]
    assert "\x1b" not in came.log


@page(
    "answers/a-status-of-999",
    b"HTTP/1.1 999 Request Denied\r\nContent-Length: 0\r\n\r\n",
)
def _(came):
    assert came.codes("/") == [999]


@page(
    "answers/five-thousand-cookies",
    html(
        "<a href=/x>x</a>",
        *(b"Set-Cookie: c%d=%b" % (n, b"v" * 50) for n in range(5_000)),
    ),
)
def _(came):
    """They are more than is shared; the next page is asked for all the same."""
    assert "/x" in came.asked
    assert "cookies that are not shared" in came.log


ALIKE = {  # check to pages, name to answer
    is_stored_unread: {
        "a-deflate-bomb": html(zeros(200, 15), b"Content-Encoding: deflate"),
        "a-gzip-bomb-in-gzip": html(
            gzip.compress(BOMB), b"Content-Encoding: gzip, gzip"
        ),
        "a-brotli-bomb": html(
            brotli.compress(bytes(200 << 20), quality=1), b"Content-Encoding: br"
        ),
    },
    is_stored: {
        "a-coding-that-it-has-not": html("<a href=/x>x</a>", b"Content-Encoding: gzip"),
        "a-coding-a-thousand-times": html(
            "x", b"Content-Encoding: " + b"gzip," * 1_000
        ),
        "a-transfer-coding-of-a-bomb": OK
        + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n" % len(BOMB)
        + BOMB
        + b"\r\n0\r\n\r\n",
        "fifty-thousand-equal-headers": OK + b"X: y\r\n" * 50_000 + b"\r\nx",
        "a-charset-of-a-codec-that-runs": html(
            "<a href=/x>x</a>", kind="text/html; charset=zlib"
        ),
        "utf-16-that-is-ascii": html(
            "<a href=/x>x</a>" * 100, kind="text/html; charset=utf-16"
        ),
        "utf-7-in-ascii": html(
            "+ADw-a href=/x+AD4-x+ADw-/a+AD4-", kind="text/html; charset=utf-7"
        ),
        "an-image-that-is-html": html("<a href=/x>x</a>", kind="image/png"),
        "html-that-is-an-image": html(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 1_000),
        "a-type-of-a-megabyte": html("<a href=/x>x</a>", kind="text/" + "h" * 10**5),
    },
    is_cut_off: {
        "chunks-without-end": pieces(
            OK + b"Transfer-Encoding: chunked\r\n\r\n",
            then=(b"10000\r\n" + b"x" * 65536 + b"\r\n") * 120,
        ),
        "a-body-without-end": pieces(OK + b"\r\n", then=bytes(8 << 20)),
    },
    fails: {
        "nothing-at-all": pieces(),
        "100-continues-without-end": pieces(
            b"HTTP/1.1 100 Continue\r\n\r\n" * 100, times=300
        ),
    },
    is_told_once: {
        "a-length-of-10-to-the-5000": OK
        + b"Content-Length: "
        + b"9" * 5_000
        + b"\r\n\r\nx",
        "ten-thousand-100-continues": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000
        + html("x"),
        "a-status-of-0": b"HTTP/1.1 0 Nothing\r\nContent-Length: 0\r\n\r\n",
        "a-status-of-5000-digits": b"HTTP/1.1 " + b"9" * 5_000 + b" x\r\n\r\n",
    },
    fails_and_is_cut_off: {
        "a-header-of-a-megabyte": OK + b"X: " + b"y" * (1 << 20) + b"\r\n\r\nx",
        "a-hundred-thousand-headers": OK
        + b"".join(b"X-%d: y\r\n" % n for n in range(100_000))
        + b"\r\nx",
    },
    is_followed: {
        "a-charset-that-there-is-not": html(
            "<a href=/x>x</a>", kind="text/html; charset=\x1b[31m"
        ),
        "a-cookie-of-100-kb": html(
            "<a href=/x>x</a>", b"Set-Cookie: a=" + b"v" * 100_000
        ),
    },
    sets_no_cookie: {
        "set-cookie-for-a-suffix": html(
            "<a href=/x>x</a>", b"Set-Cookie: a=b; Domain=.com"
        ),
        "set-cookie-for-another-host": html(
            "<a href=/x>x</a>", b"Set-Cookie: a=b; Domain=127.2.0.1"
        ),
    },
}
for _check, _pages in ALIKE.items():
    for _name, _answer in _pages.items():
        page(f"answers/{_name}", _answer)(_check)


COOKIES = {
    "empty": b"",
    "an-equals-sign": b"=",
    "semicolons": b";" * 10_000,
    "a-nul": b"a=b\0c",
    "an-escape": b"a=\x1b[31m",
    "a-name-of-latin-1": b"\xff\xfe=b",
    "a-value-of-latin-1": b"a=\xff\xfe",
    "expires-of-5000-digits": b"a=b; Expires=" + b"9" * 5_000,
    "max-age-of-5000-digits": b"a=b; Max-Age=" + b"9" * 5_000,
    "a-path-of-10-kb": b"a=b; Path=" + b"/" * 10_000,
    "a-domain-of-10-kb": b"a=b; Domain=" + b"a." * 5_000,
    "a-name-of-blanks": b" \t = b",
    "a-port-of-words": b'a=b; Version=1; Port="many"',
}


for _name, _value in COOKIES.items():
    page(
        f"answers/a-cookie-of-{_name}",
        html("<a href=/x>x</a>", b"Set-Cookie: " + _value),
    )(is_followed)


LONG = "/" + "x" * 900_000


@page("answers/a-redirect-to-a-url-of-900-kb", moved("{origin}" + LONG))
def _(came):
    assert came.asked == ["/robots.txt", "/"]
    assert came.codes("/") == [302]
    assert came.codes(LONG) == [-7]
    assert "is not fetched: its URL has more than 15,000 characters" in came.log
    assert "'frontier/refused/length': 2" in came.log


@page(
    "answers/a-redirect-to-a-url-that-is-long-when-escaped",
    moved("{origin}/" + "\u00fc" * 3_000),
)
def _(came):
    assert came.asked == ["/robots.txt", "/"]
    assert -7 in [line[1] for line in came.lines]


@page("answers/a-redirect-to-a-url-of-14-kb", moved("{origin}/" + "x" * 14_000))
def _(came):
    assert came.codes("/") == [302]
    assert came.codes("/" + "x" * 14_000) == [404]


@page("answers/a-header-of-100-kb", html("a long header", b"X: " + b"x" * 100_000))
def _(came):
    headers, size = came.record("/")
    assert headers["WARC-Type"] == "response"
    assert headers["Content-Type"] == "application/octet-stream"
    assert size > 100_000
    assert came.codes("/") == [200]


@page(
    "answers/a-base-that-is-no-url",
    {"/": html("<base href='http://[::1/'><a href='/2'>x</a>"), "/2": html("y")},
)
def _(came):
    assert came.codes("/") == [200]
    assert came.codes("/2") == [200]


@page(
    "answers/a-refresh-to-no-url",
    {
        "/": html(
            "<meta http-equiv=refresh content='0;url=http://[::1/'><a href=/2>x</a>"
        ),
        "/2": html("y"),
    },
)
def _(came):
    assert came.codes("/2") == [200]
