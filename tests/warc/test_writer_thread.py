import logging
import queue
import threading
import time

import pytest

from frontier.dedupe.digest import digest_of
from frontier.errors import WriterStopped
from frontier.model import Outlinks
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from frontier.warc.writer_thread import BATCH_SIZE, ArchiveThread
from tests.warc.judges import assert_sound, read_warcio
from tests.warc.samples import DictIndex, an_exchange, names

NAME = "crawl-20260101000000123-00000-node.warc.gz"
DIGEST = digest_of(an_exchange().response_body)
SOON = 120  # seconds; how long a test waits for what happens at once


@pytest.fixture
def archive(writer, index):
    archive = ArchiveThread(writer, index)
    yield archive
    index.down.clear()
    archive.close()


class Gate:
    """Holds the archive's thread in its next lookup until it is opened."""

    def __init__(self, index):
        self.reached = threading.Event()
        self.opened = threading.Event()
        self._lookup = index.lookup
        index.lookup = self

    def __call__(self, digests):
        self.reached.set()
        assert self.opened.wait(SOON)
        return self._lookup(digests)


def kinds(tmp_path, name=NAME):
    return [kind for kind, *_ in read_warcio(tmp_path / name)][1:]


def test_nothing_is_durable_while_its_file_is_moved_away(archive, tmp_path, caplog):
    archive.submit(an_exchange())[1].result(SOON)
    elsewhere = (tmp_path / f"{NAME}.open").rename(tmp_path / "elsewhere")
    _, future = archive.submit(an_exchange(1))
    while not archive.batches.blocked:
        assert not future.done()

    elsewhere.rename(tmp_path / f"{NAME}.open")

    assert future.result(SOON).file == NAME
    assert "is not there any more" in caplog.text


def test_a_barrier_completes_after_what_it_waits_for_is_indexed(archive, index):
    gate = Gate(index)
    sequence, future = archive.submit(an_exchange())
    barrier = archive.durable(sequence)
    assert gate.reached.wait(SOON)
    assert not barrier.done()
    assert not future.done()
    seen = queue.SimpleQueue()  # callbacks come after `result` may have returned
    barrier.add_done_callback(lambda _: seen.put((future.done(), *index.originals)))

    gate.opened.set()

    assert seen.get(timeout=SOON) == (True, DIGEST)


def test_a_barrier_waits_for_the_links_of_a_page(archive, index, tmp_path):
    gate = Gate(index)
    _, page = archive.submit(an_exchange())
    assert gate.reached.wait(SOON)
    _, copy = archive.submit(an_exchange(1))  # of the same batch as its links
    link = (("http://example.com/x", "L"),)
    archive.submit(Outlinks(page, link))
    sequence, _ = archive.submit(Outlinks(copy, link))
    barrier = archive.durable(sequence)
    assert not barrier.done()
    assert archive.pending == 4

    gate.opened.set()
    barrier.result(SOON)

    assert archive.pending_bytes == 0
    archive.close()
    assert kinds(tmp_path) == [
        *["response", "request", "revisit", "request"],
        *["metadata", "metadata"],
    ]


def test_a_batch_costs_one_lookup_and_has_a_limit(archive, index):
    gate = Gate(index)
    archive.submit(an_exchange(0, b"first"))
    assert gate.reached.wait(SOON)
    futures = [
        archive.submit(an_exchange(n, b"%d" % n))[1] for n in range(BATCH_SIZE + 1)
    ]
    assert archive.pending == BATCH_SIZE + 2
    assert archive.pending_bytes > BATCH_SIZE * 100

    gate.opened.set()
    for future in futures:
        future.result(SOON)

    sizes = [len(step[1]) for step in index.log if step[0] == "lookup"]
    assert sizes == [1, BATCH_SIZE, 1]
    assert archive.pending == archive.pending_bytes == 0
    assert archive.batches.counters.exchanges == BATCH_SIZE + 2


def test_exchange_is_not_acked_while_the_index_is_down(archive, index, caplog):
    caplog.set_level(logging.INFO)
    index.down.set()
    sequence, future = archive.submit(an_exchange())
    barrier = archive.durable(sequence)
    for _ in range(3):
        index.asked_in_vain.clear()
        assert index.asked_in_vain.wait(SOON)
    assert not future.done()
    assert not barrier.done()

    index.down.clear()
    barrier.result(SOON)

    assert DIGEST in index.originals
    messages = [record.getMessage() for record in caplog.records]
    assert [m for m in messages if "trying again" in m] == messages[:1]
    assert "index can be used again" in messages[1]


def test_close_gives_up_what_an_index_that_is_down_would_need(archive, index):
    index.down.set()
    futures = [archive.submit(an_exchange(n))[1] for n in range(2)]
    barrier = archive.durable(2)
    assert index.asked_in_vain.wait(SOON)

    archive.close()

    for future in (*futures, barrier):
        assert isinstance(future.exception(0), WriterStopped)
    assert index.originals == {}


def test_what_comes_after_close_is_given_up(archive):
    archive.close()
    archive.close()  # twice is once

    number, stored = archive.submit(an_exchange())
    for future in (stored, archive.durable(number)):
        with pytest.raises(WriterStopped):
            future.result(0)


def test_an_unexpected_error_ends_the_thread_and_fails_every_future(
    archive, index, tmp_path
):
    _, stored = archive.submit(an_exchange(0, b"stored"))
    stored.result(SOON)

    def broken(entries):
        raise LookupError("a bug")

    index.add = broken

    with pytest.raises(WriterStopped, match="a bug"):
        archive.submit(an_exchange(1))[1].result(SOON)
    archive.close()
    assert_sound(tmp_path / NAME)


def test_a_file_that_cannot_be_closed_is_left_to_repair(
    archive, writer, tmp_path, caplog
):
    archive.submit(an_exchange())[1].result(SOON)

    def broken():
        raise OSError(5, "Input/output error")

    writer.close = broken
    archive.close()

    assert names(tmp_path) == [f"{NAME}.open"]
    assert "left open" in caplog.text
    assert isinstance(archive.failure, OSError)


def test_an_old_file_that_cannot_be_closed_is_tried_again_and_named_once(
    tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    closed, tries = queue.SimpleQueue(), []
    writer = WarcWriter(
        WarcConfig(tmp_path, "crawl", "node", max_seconds=0.2), time.time, closed.put
    )
    close = writer.close

    def fails_at_first():
        tries.append(None)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")
        close()

    writer.close = fails_at_first
    archive = ArchiveThread(writer, DictIndex(tmp_path))
    try:
        archive.submit(an_exchange())[1].result(SOON)
        path = closed.get(timeout=SOON)
    finally:
        archive.close()

    assert names(tmp_path) == [path.name]
    failed, works = (m for m in caplog.messages if "closed" in m)
    assert "cannot be closed: [Errno 28] No space left on device" in failed
    assert "can be closed again" in works
