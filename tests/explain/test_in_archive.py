"""Indexes are searched where they are sorted, and read where they are not."""

import random

import pytest

from frontier.cdx.lines import Capture, sort_key
from frontier.explain.files import find
from frontier.explain.in_archive import BLOCK, look_into
from frontier.explain.in_logs import read_logs
from frontier.explain.in_store import Subject
from frontier.model import Attempt
from frontier.status.snapshot import Nodes
from frontier.store.keys import CrawlKeys
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.crawl_log import CrawlLog, line_of as logged
from frontier.warc.file_rotation import WarcConfig
from tests.postcrawl.test_remote_files import Server
from tests.warc.samples import NOON, an_exchange, members, written

URL = "http://a.example/x"
COUNT = 20_000


def line_of(number, url="", date="20260101000000"):
    return Capture(
        url or f"http://h{number % 97}.example/{number}",
        date,
        mime="text/html",
        status="200",
        length=9,
        offset=number,
        filename="f.gz",
    ).encode()


@pytest.fixture(scope="module")
def lines():
    return sorted(line_of(number) for number in range(COUNT))


def subject(url):
    return Subject(
        *(url, url, url, "", "scrapy", True, "h.example", 0, b"", 0),
        same=lambda other: other == url,
    )


def found_in(path, url):
    facts = look_into(subject(url), [], {path: None})
    return [(one.line.url, one.line.offset) for one in facts.records], facts


def test_a_sorted_index_has_what_a_search_finds(lines, tmp_path):
    index = tmp_path / "f.cdxj"
    index.write_bytes(b'!meta 0 {"canonicalization": "x"}\n' + b"".join(lines))
    drawn = random.Random(5)

    for number in [0, COUNT - 1, *drawn.sample(range(COUNT), 20)]:
        url = f"http://h{number % 97}.example/{number}"
        assert found_in(index, url)[0] == [(url, number)]
    for url in ("http://a.example/", "http://zz.example/", "http://h5.example/x"):
        assert found_in(index, url)[0] == []


def test_all_captures_of_a_url_are_found_though_they_fill_many_blocks(lines, tmp_path):
    url = "http://h7.example/often"
    often = [
        line_of(n, url, f"2026010100{n // 60:02}{n % 60:02}") for n in range(3_000)
    ]
    assert sum(map(len, often)) > 5 * BLOCK
    index = tmp_path / "f.cdxj"
    index.write_bytes(b"".join(sorted([*lines, *often])))

    found, facts = found_in(index, url)

    assert facts.count == 3_000
    assert found[0] == (url, 0)
    assert found[-1] == (url, 2_999)
    assert len(found) == 21


def test_an_index_that_is_not_sorted_is_refused(lines, tmp_path):
    index = tmp_path / "f.cdxj"
    index.write_bytes(b"".join(random.Random(7).sample(lines, len(lines))))

    found, facts = found_in(index, "http://h3.example/3")

    assert found == []
    assert facts.unread[0].startswith(f"{index}: its lines are not sorted")


def test_hostile_indexes_are_named_and_cost_no_memory(tmp_path):
    url = "http://h.example/"
    wrong = {
        "long.cdxj": b"example,h)/ " + b"x" * (3 << 20),
        "bad.cdxj": sort_key(url).encode() + b" 20260101000000 {nonsense\n",
        "binary.cdxj": bytes(range(256)) * 2_000,
        "empty.cdxj": b"",
        "newlines.cdxj": b"\n" * 300_000,
    }
    for name, data in wrong.items():
        (tmp_path / name).write_bytes(data)

        found, facts = found_in(tmp_path / name, url)

        assert found == []
        assert bool(facts.unread) == (name in ("long.cdxj", "binary.cdxj")), name


def test_files_that_are_elsewhere_are_looked_into_by_ranges(tmp_path):
    files = WarcConfig(tmp_path, "one-1", "n", listing=Listing())
    warc = written(files, [an_exchange(url=URL)])
    log = CrawlLog(files, lambda: NOON)
    log.write([logged(Attempt(URL, 200, NOON, NOON))])
    log.close()
    server = Server(tmp_path)
    try:
        urls = [server.url(path.name) for path in sorted(tmp_path.iterdir())]
        files = find([], urls, CrawlKeys("frontier", "one-1"), Nodes.of({}, {}))
        facts = look_into(subject(URL), files.warcs, files.indexes)
        logs = read_logs(files.logs, subject(URL))
    finally:
        server.close()

    (record,) = facts.records
    assert (
        record.source == f"{server.url(warc.name)}:{members(warc.read_bytes())[1][0]}"
    )
    assert (facts.unread, files.gaps) == ([], [])
    assert logs.count == 1
