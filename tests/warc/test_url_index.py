"""Matches, digests and buckets, over real servers and real files."""

import threading

import pytest

from frontier.collection.rounds import Collection
from frontier.dedupe.revisit_policy import Match, Rules
from frontier.dedupe.url_history import MatchedIndex
from frontier.warc.batch import ArchiveConfig, BatchWriter
from tests.warc.judges import assert_sound
from tests.warc.samples import NOON, an_exchange, members, warc_headers


@pytest.fixture
def crawls(blocking, unique, new_writer, tmp_path):
    """Write exchanges as a crawl; return what was stored, each with its headers."""
    store = blocking()

    def crawl(
        crawl_id, *exchanges, name="a", read=(), commit=True, judge=False, **rules
    ):
        own = Collection(store, f"{unique}{name}", crawl_id, revisits=True)
        own.begin()
        further = [
            Collection(store, f"{unique}{each}", crawl_id, revisits=True)
            for each in read
        ]
        index = MatchedIndex(
            store, f"{unique}{name}", crawl_id, own, further, lambda: crawl_id
        )
        index.begin()
        writer = new_writer(tmp_path / name / crawl_id, crawl_id=crawl_id)
        batches = BatchWriter(
            writer, index, threading.Event(), ArchiveConfig(rules=Rules(**rules))
        )
        stored = [batches.write([each])[0] for each in exchanges]
        if commit:
            own.commit()
        writer.close()
        found = []
        for at in stored:
            headers = {}
            if at.file:
                path = tmp_path / name / crawl_id / at.file
                if judge:
                    assert_sound(path)
                data = path.read_bytes()[at.offset : at.offset + at.length]
                headers = warc_headers(members(data)[0][2])
            found.append((at, headers))
        return found

    return crawl


def urls(found):
    return [at.original and at.original.url for at, _ in found]


ONE = "http://example.com/0"
TWO = "http://example.com/1"


@pytest.mark.parametrize(
    ("match", "originals"),
    [
        (Match.DIGEST, [None, ONE, ONE]),
        (Match.URL, [None, None, TWO]),
        (Match.CANONICAL, [None, None, TWO]),
        (Match.SAME_URL, [None, ONE, ONE]),
    ],
)
def test_a_match_says_what_has_to_be_equal(crawls, match, originals):
    found = crawls("c", an_exchange(0), an_exchange(1), an_exchange(1), match=match)

    assert urls(found) == originals


def test_an_url_of_a_crawl_that_is_not_committed_is_nobody_elses(crawls):
    crawls("c", an_exchange(0), match=Match.URL, commit=False)

    assert urls(crawls("d", an_exchange(0), match=Match.URL)) == [None]
    assert urls(crawls("e", an_exchange(0), match=Match.URL)) == [ONE]


def test_a_revisit_names_its_original_across_crawls_if_we_wrote_it(crawls):
    [(first, _)] = crawls("c", an_exchange(0), judge=True, algorithm="sha1")

    [(_, headers)] = crawls("d", an_exchange(1), algorithm="sha1")

    assert headers["WARC-Refers-To"] == first.record_id
    assert headers["WARC-Refers-To-Container"] == "urn:crawl:c"


def test_revisit_of_a_record_by_another_tool_names_no_record_id(
    crawls, db, keys_of, unique
):
    [(first, _)] = crawls("c", an_exchange(0))
    db("DEL", keys_of(f"{unique}a").minted)

    [(at, headers)] = crawls("d", an_exchange(1))

    assert at.original.crawl_id == "c"
    assert "WARC-Refers-To" not in headers
    assert headers["WARC-Refers-To-Date"] == first.date


def test_a_bucket_that_is_only_read_is_not_written_to(crawls, db, unique):
    [(first, _)] = crawls("c", an_exchange(0), name="old")
    before = db("HGETALL", f"{unique}old:alldupes")

    found = crawls("d", an_exchange(1), an_exchange(2, b"new"), read=["old"])

    assert urls(found) == [ONE, None]
    assert found[0][1]["WARC-Refers-To"] == first.record_id
    assert db("HGETALL", f"{unique}old:alldupes") == before
    assert db("EXISTS", f"{unique}old:h:d") == 0


@pytest.mark.parametrize("match", [Match.DIGEST, Match.URL, Match.SAME_URL])
def test_an_original_with_another_digest_is_found_by_that(crawls, match):
    [(first, _)] = crawls("c", an_exchange(0), match=match, algorithm="sha1")

    again, new, newer = crawls(
        "d",
        an_exchange(0, started=NOON + 99),
        an_exchange(0, b"new"),
        an_exchange(0, b"new", started=NOON + 9),
        match=match,
        further=("blake3", "sha1"),
        judge=True,
    )

    assert again[1]["WARC-Type"] == "revisit"
    assert again[1]["WARC-Payload-Digest"] == first.payload_digest
    assert again[1]["WARC-Refers-To"] == first.record_id
    assert [at.original and at.original.crawl_id for at, _ in (new, newer)] == [
        None,
        "d",
    ]
    assert newer[1]["WARC-Payload-Digest"] == new[1]["WARC-Payload-Digest"]
    assert new[1]["WARC-Payload-Digest"].startswith("sha256:")


def test_invalid_url_index_entry_is_ignored(crawls, db, keys_of, unique):
    crawls("c", an_exchange(0), match=Match.URL)
    key = keys_of(f"{unique}a").urls
    for value in (b"c", b"c x y z", b"\xff 20260101000000 u 1", b"c 1 2 3 4 5"):
        for field in db("HKEYS", key):
            db("HSET", key, field, value)

        assert urls(crawls("d", an_exchange(0), match=Match.URL)) == [None]
