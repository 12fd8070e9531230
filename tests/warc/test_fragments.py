"""A fragment is not sent, so no record, key or line of an index has it."""

import hashlib

from frontier.cdx.lines import parse
from frontier.dedupe.digest_index import decode, encode
from frontier.model import Original
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from frontier.warc.records import capture
from tests.warc.samples import NOON, an_exchange, warc_headers

WITH, WITHOUT = "http://example.com/a#part", "http://example.com/a"
INFO = "<urn:uuid:00000000-0000-0000-0000-000000000000>"


def test_records_and_their_index_are_without_the_fragment(tmp_path):
    writer = WarcWriter(WarcConfig(tmp_path, "c", "n", listing=Listing()), lambda: NOON)
    exchange = an_exchange(url=WITH)
    stored = writer.append(exchange, hashlib.sha256(b"<p>hello</p>").hexdigest())
    writer.close()

    (line,) = beside_of(tmp_path / stored.file).read_bytes().splitlines()
    assert parse(line).url == WITHOUT
    for record in capture(exchange, "0" * 64, INFO, "c"):
        headers = warc_headers(b"".join(record.parts))
        assert headers["WARC-Target-URI"] == WITHOUT


def test_an_original_that_was_recorded_with_one_is_named_as_it_is():
    known = decode(encode("2026-01-01T00:00:00Z", WITH, 9))
    assert known is not None
    original = Original(known.url, known.date, "c", known.length)

    revisit = capture(an_exchange(url=WITH), "0" * 64, INFO, "c", original)[0]

    headers = warc_headers(b"".join(revisit.parts))
    assert headers["WARC-Refers-To-Target-URI"] == WITH
