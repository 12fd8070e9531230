"""What is read from an archive in which something is wrong."""

import fcntl
import gzip

import pytest

from frontier.dedupe.digest import digest_of
from frontier.model import Original
from frontier.testing.oracle import RequestLog
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.chaos.oracle import Facts, Wrong, judge
from tests.chaos.records import read_archive
from tests.warc.samples import NOON, an_exchange


def write(directory, *exchanges, node="node", close=True):
    """Write *exchanges* as responses; return the file."""
    writer = WarcWriter(WarcConfig(directory, "crawl", node), lambda: NOON)
    for exchange in exchanges:
        writer.append(exchange, digest_of(exchange.response_body))
    if close:
        writer.close()
    else:
        writer.sync()
        writer.abandon()
    (path,) = directory.glob(f"*-{node}.warc.gz*")
    return path


@pytest.fixture
def warcs(tmp_path):
    return tmp_path


def test_a_file_that_a_dead_node_left_is_repaired(warcs):
    path = write(warcs, an_exchange(0), close=False)
    with path.open("ab") as file:
        file.write(gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\n")[:20])

    records = read_archive(warcs)

    assert (records.repaired, records.broken) == (1, [])
    assert records.urls == {"http://example.com/0"}


def test_a_log_that_a_dead_node_left_is_closed_and_one_of_a_live_node_is_open(warcs):
    for node in ("dead", "live"):
        name = f"crawl-20260102030405678-00000-{node}.crawl.log.open"
        (warcs / name).write_bytes(b"a line\n")

    with (warcs / name).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert read_archive(warcs).broken == [f"{name} is still open"]


def test_a_closed_file_that_is_cut_or_changed_is_broken(warcs):
    path = write(warcs, an_exchange(0), an_exchange(1))
    whole = path.read_bytes()
    half = len(whole) // 2
    changed = whole[:half] + bytes([whole[half] ^ 0xFF]) + whole[half + 1 :]
    for data in (whole[:-7], changed):
        path.write_bytes(data)
        assert read_archive(warcs).broken


def test_a_revisit_whose_original_is_in_no_file_dangles(warcs):
    away = Original("http://example.com/9", "2026-01-01T00:00:00.123Z", "crawl", 100)
    exchange = an_exchange(0)
    writer = WarcWriter(WarcConfig(warcs, "crawl", "node"), lambda: NOON)
    writer.append(exchange, digest_of(exchange.response_body), away)
    writer.close()

    facts = Facts(frozenset(), RequestLog([]), {}, read_archive(warcs), finished=1.0)

    assert [fault.wrong for fault in judge(facts)] == [Wrong.DANGLING]
