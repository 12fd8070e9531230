import logging
import os
import random
import shutil
import stat
import threading
from concurrent.futures import Future

import pytest

from frontier.dedupe.digest import digest_of
from frontier.errors import WriterStopped
from frontier.model import Original, Outlinks
from frontier.warc.batch import ArchiveConfig, BatchWriter
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.disk_space import Room
from tests.warc.judges import assert_sound, read_warcio
from tests.warc.samples import an_exchange, names

NAME = "crawl-20260101000000123-00000-node.warc.gz"
DIGEST = digest_of(an_exchange().response_body)


@pytest.fixture
def stopping():
    return threading.Event()


@pytest.fixture
def new_batches(writer, index, stopping):
    def make(writer=writer, **options):
        return BatchWriter(writer, index, stopping, ArchiveConfig(**options))

    return make


@pytest.fixture
def batches(new_batches):
    return new_batches()


@pytest.fixture
def fsyncs(index, monkeypatch):
    """Put each fsync of a file into the index's log; fail as often as is asked."""
    failures = []
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            if failures:
                raise failures.pop()
            index.log.append(("fsync",))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return failures


def steps(index):
    return [step[0] for step in index.log]


def kinds(tmp_path, name=NAME):
    return [kind for kind, *_ in read_warcio(tmp_path / name)][1:]


def test_no_more_is_unpacked_at_a_time_than_fits_into_memory(
    new_batches, index, monkeypatch
):
    monkeypatch.setattr("frontier.warc.batch.LIMIT", 1000)
    stored = new_batches().write([an_exchange(n, b"%d" % n * 600) for n in range(5)])

    assert len({each.offset for each in stored}) == 5
    lookups = [step[1] for step in index.log if step[0] == "lookup"]
    assert [*map(len, lookups)] == [2, 2, 1]


def test_a_digest_is_indexed_after_its_response_is_on_disk(batches, index, fsyncs):
    batches.write([an_exchange(0, b"a"), an_exchange(1, b"b")])

    # the first fsync is that of the warcinfo record; the index looks at the file
    assert steps(index) == ["lookup", "fsync", "fsync", "add"]
    assert index.log[0][1] == index.log[-1][1] == [digest_of(b"a"), digest_of(b"b")]


def test_files_are_synced_when_they_are_closed_if_so_asked(
    new_batches, index, fsyncs, writer
):
    batches = new_batches(fsync="close")
    batches.write([an_exchange(0, b"a")])
    batches.write([an_exchange(1, b"b")])
    assert steps(index) == ["lookup", "fsync", "add", "lookup", "add"]

    writer.close()
    assert steps(index)[5:] == ["fsync"]


def test_a_payload_is_stored_once_per_batch(batches, index, writer, tmp_path):
    stored = batches.write([an_exchange(n) for n in range(3)])
    writer.close()

    assert [at.original is None for at in stored] == [True, False, False]
    expected = Original(
        "http://example.com/0", stored[0].date, "crawl", stored[0].length
    )
    assert stored[1].original == stored[2].original == expected
    assert index.log == [("lookup", [DIGEST]), ("add", [DIGEST])]
    assert kinds(tmp_path) == ["response", "request"] + ["revisit", "request"] * 2
    assert_sound(tmp_path / NAME)


def test_payload_outside_the_policy_is_not_looked_up_or_indexed(batches, index):
    stored = batches.write(
        [an_exchange(0, status=404), an_exchange(1, status=404), an_exchange(2, b"")]
    )

    assert [at.original for at in stored] == [None] * 3
    assert index.log == []
    assert batches.counters.originals == batches.counters.revisits == 0


def test_a_failed_sync_is_undone_and_written_again(
    new_batches, new_writer, fsyncs, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    writer = new_writer(listing=Listing())
    batches = new_batches(writer)
    (first,) = batches.write([an_exchange(0, b"first")])
    fsyncs.append(OSError(28, "No space left on device"))
    fsyncs.append(OSError(28, "No space left on device"))

    stored = batches.write([an_exchange(1), an_exchange(2)])
    writer.close()

    assert stored[0].offset > first.offset + first.length
    assert stored[1].original is not None
    assert kinds(tmp_path) == ["response", "request"] * 2 + ["revisit", "request"]
    assert_sound(tmp_path / NAME)
    assert len(beside_of(tmp_path / NAME).read_bytes().splitlines()) == 3
    assert batches.counters.written_bytes == (tmp_path / NAME).stat().st_size
    failures = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert len(failures) == 1
    assert str(tmp_path) in failures[0].getMessage()
    assert "No space left" in failures[0].getMessage()
    assert "written again" in caplog.records[-1].getMessage()


def outlinks_of(stored, *links, left_out=0):
    page = Future()
    page.set_result(stored)
    return Outlinks(page, links, left_out), stored


def test_outlinks_are_written_once_whatever_the_disk_does(
    batches, writer, fsyncs, tmp_path
):
    (stored,) = batches.write([an_exchange()])
    links = ("http://example.com/a#part", "L"), ("http://example.com/\u00fc x", "M")
    fsyncs.append(OSError(28, "No space left on device"))

    batches.write_outlinks([outlinks_of(stored, *links, left_out=7)])
    batches.write([an_exchange(1)])
    writer.close()

    found = read_warcio(tmp_path / NAME)[1:]
    assert [kind for kind, *_ in found] == [
        *["response", "request", "metadata"],
        *["revisit", "request"],
    ]
    _, headers, _, block = found[2]
    assert headers["WARC-Target-URI"] == "http://example.com/0"
    assert headers["WARC-Concurrent-To"] == stored.record_id
    assert block == (
        b"outlink: http://example.com/a L =NAVLINK_MISC\r\n"
        b"outlink: http://example.com/%C3%BC%20x M =MANIFEST_MISC\r\n"
        b"outlinksLeftOut: 7\r\n"
    )
    assert_sound(tmp_path / NAME)
    assert batches.counters.written_bytes == (tmp_path / NAME).stat().st_size


def test_failed_sync_does_not_rewrite_a_closed_file(new_writer, new_batches, tmp_path):
    # Given two exchanges in two files, and a disk that fails when the second syncs
    writer = new_writer(max_bytes=1)
    real = writer.sync

    def fails_once():
        writer.sync = real
        raise OSError("no")

    writer.sync = fails_once
    stored = new_batches(writer).write([an_exchange(0), an_exchange(1)])
    writer.close()

    assert [at.file.split("-")[2] for at in stored] == ["00000", "00001"]
    assert kinds(tmp_path, stored[0].file) == ["response", "request"]
    assert kinds(tmp_path, stored[1].file) == ["revisit", "request"]
    assert len(names(tmp_path)) == 2


def test_a_disk_that_fails_while_stopping_ends_it(batches, stopping, fsyncs):
    stopping.set()
    fsyncs.append(OSError(28, "No space left on device"))

    with pytest.raises(WriterStopped, match="No space left"):
        batches.write([an_exchange()])


def test_write_over_the_quota_waits_until_files_are_removed(
    writer, index, tmp_path, caplog
):
    class Waiting(threading.Event):
        def wait(self, timeout=None):
            waits.append((batches.blocked, names(tmp_path)))
            if len(waits) == 2:
                # the node's own file is closed by now: it can be moved, or sent
                (tmp_path / NAME).rename(taken)
            return False

    waits = []
    taken = tmp_path.with_name(f"{tmp_path.name}-taken.warc.gz")
    room = Room(tmp_path, max_bytes=20_000)
    batches = BatchWriter(writer, index, Waiting(), ArchiveConfig(room=room))
    batches.write([an_exchange(0, random.randbytes(10_000))])
    assert not batches.blocked
    second = an_exchange(1, random.randbytes(15_000))
    (stored,) = batches.write([second])
    writer.close()

    assert waits == [(True, [NAME])] * 2
    assert not batches.blocked
    assert stored.original is None
    assert caplog.text.count("FRONTIER_WARC_MAX_TOTAL_BYTES is 20,000") == 1
    assert_sound(taken)
    assert_sound(tmp_path / stored.file)


def test_write_below_the_minimum_free_space_is_refused(new_batches, stopping, tmp_path):
    disk = shutil.disk_usage(tmp_path)
    new_batches(room=Room(tmp_path, min_free=disk.free // 2)).write([an_exchange()])
    stopping.set()
    with pytest.raises(WriterStopped, match="FRONTIER_WARC_MIN_FREE_BYTES"):
        new_batches(room=Room(tmp_path, min_free=2 * disk.total)).write([an_exchange()])
    assert len(list(tmp_path.rglob("*.warc.gz*"))) == 1


def test_a_payload_is_counted_by_what_it_shares_with_its_original(batches):
    counters = batches.counters
    known = set(counters.kinds)
    for url in ("http://a/", "http://a/", "http://a/?", "http://b/"):
        batches.write([an_exchange(url=url)])
    report = counters.report()

    kinds = ("new_payloads", "exact_url", "canonical_url", "digest")
    assert [report[kind] for kind in (*kinds, "handled")] == [1, 1, 1, 1, 4]
    assert report["handled_bytes"] == 4 * report["digest_bytes"] == 48
    assert known == set(counters.kinds), "the node may be reading them"
