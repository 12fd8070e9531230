import gzip
import importlib
import sys
import zlib

import brotli
import pytest

from frontier.warc import content_coding as coding
from frontier.warc.content_coding import decoded
from tests.warc.samples import an_exchange

TEXT = b"hello " * 5000
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
zstd = importlib.import_module(ZSTD)


def coded(body, name=b"gzip"):
    head = (
        b"HTTP/1.1 200 OK\r\nContent-encoding: %s\r\nContent-Length: %d\r\nA: b\r\n\r\n"
    )
    return an_exchange(body=body, response_head=head % (name, len(body)))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (gzip.compress(TEXT, mtime=0), b"gzip"),
        (gzip.compress(TEXT, mtime=0), b"X-GZIP"),
        (zlib.compress(TEXT), b"deflate"),
        (zlib.compress(TEXT)[2:-4], b"deflate"),
        (brotli.compress(TEXT), b"br"),
        (brotli.compress(gzip.compress(TEXT, mtime=0)), b"gzip, br"),
        (zstd.compress(TEXT), b"zstd"),
        (zstd.compress(TEXT[:7]) + zstd.compress(TEXT[7:]), b"zstd"),
    ],
)
def test_a_body_is_decoded_and_its_head_says_so(body, name):
    found = decoded(coded(body, name))

    assert found.response_body == TEXT
    assert found.response_head == (
        b"HTTP/1.1 200 OK\r\nX-Archive-Orig-Content-encoding: " + name + b"\r\n"
        b"X-Archive-Orig-Content-Length: %d\r\nA: b\r\n"
        b"Content-Length: 30000\r\n\r\n" % len(body)
    )


@pytest.mark.parametrize(
    "exchange",
    [
        an_exchange(),
        coded(b""),
        coded(gzip.compress(TEXT, mtime=0)[:-9]),
        coded(gzip.compress(TEXT, mtime=0) + b"more"),
        coded(b"no gzip"),
        coded(brotli.compress(TEXT)[:-1], b"br"),
        coded(zstd.compress(TEXT)[:-1], b"zstd"),
        coded(zstd.compress(TEXT) + b"more", b"zstd"),
        coded(TEXT, b"unheard-of"),
    ],
)
def test_body_that_cannot_be_decoded_is_left_unchanged(exchange):
    assert decoded(exchange) is exchange


@pytest.mark.parametrize("name", [b"gzip", b"br", b"zstd"])
def test_a_bomb_is_stored_unexploded(monkeypatch, name):
    monkeypatch.setattr(coding, "LIMIT", 1_000_000)
    compress = {b"gzip": gzip, b"br": brotli, b"zstd": zstd}[name].compress
    small = coded(compress(bytes(900_000)), name)
    bomb = coded(compress(bytes(1_100_000)), name)

    assert len(decoded(small).response_body) == 900_000
    assert decoded(bomb) is bomb
