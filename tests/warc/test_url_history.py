"""What a URL answered last: who may use it, and what is not believed."""

import json
from dataclasses import replace

import pytest

from frontier.dedupe.digest import digest_of
from frontier.dedupe.url_history import History, last_capture_of
from frontier.model import Original
from frontier.warc.readback import is_here, read_back
from tests.warc.samples import an_exchange

HEAD = b'HTTP/1.1 200 OK\r\netag: "1"\r\nLast-Modified: yesterday\r\n\r\n'
DIGEST = digest_of(an_exchange().response_body)


@pytest.fixture
def write(writer):
    def write(exchange, crawl_id="crawl"):
        stored = writer.append(exchange, DIGEST)
        writer.flush()
        original = Original(exchange.url, stored.date, crawl_id, stored.length, True)
        return last_capture_of(exchange, DIGEST, stored, original)

    return write


@pytest.fixture
def history(blocking, unique):
    def history(crawl_id, round_id=None):
        return History(blocking(), unique, crawl_id, lambda: round_id or crawl_id)

    return history


def test_an_entry_is_for_its_crawl_until_that_is_committed(
    history, write, db, keys_of, unique
):
    past = write(an_exchange(response_head=HEAD))
    history("crawl").add([past])

    assert history("crawl").lookup(past.url) == past
    assert history("other").lookup(past.url) is None
    db("SADD", keys_of(unique).committed, "crawl")
    found = history("other").lookup(past.url)
    assert (found, found.original.minted) == (past, True)
    assert history("other").lookup(past.url + "x") is None


def test_an_entry_counts_as_soon_as_its_round_is_committed(
    history, write, db, keys_of, unique
):
    past, keys = write(an_exchange(response_head=HEAD)), keys_of(unique)
    history("crawl", "crawl~2").add([past])
    db("SADD", keys.committed, "crawl")
    for last, found in ((1, None), (2, past)):
        db("HSET", keys.commit_rounds("crawl"), "committed", last)
        assert history("other").lookup(past.url) == found


def test_only_a_get_with_a_validator_is_remembered(write):
    assert write(an_exchange(response_head=HEAD)).etag == '"1"'
    assert write(an_exchange()) is None
    post = an_exchange(response_head=HEAD, request_head=b"POST / HTTP/1.1\r\n\r\n")
    assert write(post) is None
    odd = an_exchange(response_head=b"HTTP/1.1 200 OK\r\nETag: \xff\r\n\r\n")
    assert write(odd) is None


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../../etc/passwd.warc.gz"},
        {"file": "/etc/passwd"},
        {"etag": "a\r\nX: y"},
        {"modified": "\u00fc"},
        {"digest": "crc32:00"},
        {"original": "0 x y"},
        {"url": "http://example.com/other"},
        {"offset": "many"},
        {"crawl": None, "file": None},
        {"etag": "x" * 20_000},
    ],
)
def test_invalid_history_entry_is_ignored(history, write, db, keys_of, unique, change):
    past = write(an_exchange(response_head=HEAD))
    history("crawl").add([past])
    key = keys_of(unique).history
    [(field, value)] = [(f, db("HGET", key, f)) for f in db("HKEYS", key)]
    db("HSET", key, field, json.dumps({**json.loads(value), **change}))

    assert history("crawl").lookup(past.url) is None


def test_a_body_is_read_back_from_an_open_file_and_its_digest_compared(write, tmp_path):
    past = write(an_exchange(response_head=HEAD))
    other = write(an_exchange(1, b"another", response_head=HEAD))

    assert is_here(tmp_path, past)
    kept = read_back(tmp_path, past)
    assert (kept.status, kept.body) == (200, an_exchange().response_body)
    assert ("etag", '"1"') in kept.headers
    assert read_back(tmp_path, other) is None  # it says DIGEST, and is not
    for size in (32, 96, 128):  # MD5, SHA-384, SHA-512: not computed here
        assert read_back(tmp_path, replace(past, digest="0" * size)) is None
    assert not is_here(tmp_path / "elsewhere", past)
    assert read_back(tmp_path / "elsewhere", past) is None
