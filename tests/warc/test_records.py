import io
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest
from fastwarc.warc import ArchiveIterator

from frontier.dedupe.digest import digest_of
from frontier.dedupe.digest_index import decode, encode
from frontier.model import Original
from frontier.warc.records import (
    MAX_HEAD,
    MAX_URL,
    OCTETS,
    capture,
    is_too_long,
    record_id,
    target_uri,
    warcinfo,
)
from tests.warc.samples import an_exchange, warc_headers

INFO = "<urn:uuid:00000000-0000-0000-0000-000000000000>"
BODY = b"<p>hello</p>"
DIGEST = digest_of(BODY)
ORIGINAL = Original("http://example.com/old", "2025-12-31T23:59:59.000Z", "crawl", 99)


def golden(name):
    return (Path(__file__).parent / "data" / f"{name}.warc").read_bytes()


def as_bytes(exchange, original=None):
    digest = digest_of(exchange.response_body)
    return [
        b"".join(record.parts)
        for record in capture(exchange, digest, INFO, "crawl", original)
    ]


def test_an_exchange_becomes_these_bytes():
    assert as_bytes(an_exchange()) == [golden("response"), golden("request")]


def test_a_revisit_has_the_head_and_points_at_the_original():
    assert as_bytes(an_exchange(), ORIGINAL) == [golden("revisit"), ANY]


def test_an_original_of_another_crawl_is_named_by_its_crawl():
    other = Original("http://example.com/old", "2020-01-01T00:00:00Z", "a b/ü", 99)
    headers = warc_headers(as_bytes(an_exchange(), other)[0])

    assert headers["WARC-Refers-To-Container"] == "urn:crawl:a%20b%2F%C3%BC"
    assert headers["WARC-Refers-To-Target-URI"] == "http://example.com/old"
    assert headers["WARC-Refers-To-Date"] == "2020-01-01T00:00:00Z"
    assert "WARC-Refers-To" not in headers  # its id is not ours to know


def test_an_original_that_was_recorded_with_a_fragment_is_named_as_it_is():
    known = decode(encode("2026-01-01T00:00:00Z", "http://a/b#part", 9))
    headers = warc_headers(as_bytes(an_exchange(), known)[0])

    assert headers["WARC-Refers-To-Target-URI"] == "http://a/b#part"


def test_record_ids_never_change():
    assert (
        record_id("http://example.com/", "2026-01-01T00:00:00.123Z", DIGEST)
        == "<urn:uuid:983dcdcb-421f-52a6-a5c0-88737904bea7>"
    )


def test_an_empty_payload_is_never_a_revisit():
    with pytest.raises(ValueError, match="empty payload"):
        as_bytes(an_exchange(body=b""), ORIGINAL)


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("http://a/?x=%20&y=é", "http://a/?x=%20&y=%C3%A9"),
        ("http://a/b c\r\nEvil: 1\x00", "http://a/b%20c%0D%0AEvil:%201%00"),
        ("http://a/{}|\\^`<>\"'%zz", "http://a/{}|\\^`<>\"'%zz"),
        ("http://a/\udce9", "http://a/%ED%B3%A9"),
        ("", ""),
        ("http://a", "http://a/"),
        ("https://a:8443?q=http://b", "https://a:8443/?q=http://b"),
        ("urn:x", "urn:x"),
        ("http://a/b#part", "http://a/b"),  # a fragment is not sent
    ],
)
def test_a_target_uri_cannot_leave_its_line(url, uri):
    assert target_uri(url) == uri
    assert target_uri(uri) == uri
    headers = warc_headers(as_bytes(an_exchange(url=url))[0])
    assert headers["WARC-Target-URI"] == uri
    assert "Evil" not in headers


def test_no_value_can_leave_its_line():
    exchange = an_exchange(ip="::1\r\nEvil: 1", truncated="x\nEvil: 1")
    headers = warc_headers(as_bytes(exchange)[0])

    assert "Evil" not in headers
    assert headers["WARC-IP-Address"] == "::1%0D%0AEvil:%201"


def test_warcinfo_tells_who_wrote_the_file_and_how():
    fields = {
        "software": "frontier-crawl/1",
        "isPartOf": "Sammlung Süd",
        "http-header-user-agent": "bot\r\n(evil: 1)",
        "bad name:": "x",
    }
    record = warcinfo("a.warc.gz", "2026-01-01T00:00:00.123Z", fields)

    assert b"".join(record.parts) == golden("warcinfo")


@pytest.mark.parametrize("beyond", [0, 1])
def test_no_head_is_longer_than_others_read(beyond):
    head = b"HTTP/1.1 200 OK\r\nX: " + b"x" * (MAX_HEAD - 24 + beyond) + b"\r\n\r\n"
    exchange = an_exchange(
        url="http://example.com/".ljust(MAX_URL, "x"),
        request_head=head.replace(b"HTTP/1.1 200 OK", b"GET / HTTP/1.1 "),
        response_head=head,
    )
    source = f"http://a.example/{'x' * 100_000}"
    original = replace(ORIGINAL, url=exchange.url, crawl_id="", source=source)
    written = b"".join(as_bytes(exchange, original))

    records = [
        (record.record_type, record.headers["Content-Type"])
        for record in ArchiveIterator(io.BytesIO(written))
    ]
    kinds = ["application/http; msgtype=response", "application/http; msgtype=request"]
    assert [kind for _, kind in records] == ([OCTETS, OCTETS] if beyond else kinds)
    assert b"WARC-Refers-To-Container" not in written


def test_a_url_is_too_long_as_it_is_written():
    assert not is_too_long("http://a/".ljust(MAX_URL, "x"))
    assert is_too_long("http://a/".ljust(MAX_URL + 1, "x"))
    assert is_too_long("http://a/".ljust(MAX_URL // 6 + 9, "\u00fc"))
    assert not is_too_long("http://a/#".ljust(2 * MAX_URL, "x"))
