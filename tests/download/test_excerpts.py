"""No more is made of an answer than is wanted."""

import gzip
import zlib

import pytest
from scrapy import Request
from scrapy.http import Response

from frontier.download.handler import excerpt_of
from frontier.download.hops import EXCERPT
from tests.harness.cases import each

LINE = b"Disallow: /private\n"


def excerpt(body, coding, wanted=1_000):
    request = Request("http://host/robots.txt", meta={EXCERPT: wanted})
    headers = {"Content-Encoding": coding} if coding else {}
    return excerpt_of(request, Response(request.url, headers=headers, body=body))


@each(
    ("coding", "bits"),
    [("gzip", 31), ("X-GZIP", 31), ("deflate", 15), ("deflate", -15)],
)
def test_a_small_answer_does_not_become_a_large_one(coding, bits):
    deflate = zlib.compressobj(1, zlib.DEFLATED, bits)
    packed = deflate.compress(LINE * 1_000_000) + deflate.flush()
    response = excerpt(packed, coding)

    assert response.body == (LINE * 60)[:1_000]
    assert "excerpt" in response.flags
    assert b"Content-Encoding" not in response.headers


def test_all_of_a_small_one_is_there():
    response = excerpt(gzip.compress(b"User-agent: *\n"), "gzip")

    assert response.body == b"User-agent: *\n"
    assert response.flags == []


def test_truncated_gzip_body_is_flagged_as_an_excerpt():
    response = excerpt(gzip.compress(b"User-agent: *\n")[:-4], "gzip")

    assert response.body == b"User-agent: *\n"
    assert response.flags == ["excerpt"]


def test_plain_body_declared_as_gzip_is_read_unchanged():
    response = excerpt(b"User-agent: *\nDisallow: /\n", "gzip")

    assert response.body == b"User-agent: *\nDisallow: /\n"
    assert response.flags == []


@pytest.mark.parametrize("coding", ["", "br"])
def test_body_without_a_known_coding_is_left_unchanged(coding):
    assert excerpt(b"body", coding).body == b"body"
