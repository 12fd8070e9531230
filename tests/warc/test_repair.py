import os
import tracemalloc
from pathlib import Path

import pytest

from frontier.dedupe.digest import digest_of
from frontier.model import Made
from frontier.warc.repair import Repaired, repair
from tests.warc.judges import assert_sound
from tests.warc.samples import an_exchange, members, names

ROOT = Path(__file__).parents[2]
NAME = "crawl-20260101000000123-00000-node.warc.gz"


def append(writer, exchange):
    return writer.append(exchange, digest_of(exchange.response_body))


def leave_open(writer, count=2):
    """Write exchanges, and die."""
    for number in range(count):
        append(writer, an_exchange(number))
    writer.flush()
    writer.abandon()


def test_a_file_cut_anywhere_keeps_its_longest_prefix_of_whole_exchanges(
    writer, tmp_path
):
    leave_open(writer)
    (left,) = tmp_path.iterdir()
    data = left.read_bytes()
    left.unlink()
    ends = [offset + length for offset, length, _ in members(data)]
    assert len(ends) == 5
    for cut in range(len(data) + 1):
        name = f"crawl-20260101000000123-{cut:05}-node.warc.gz"
        (tmp_path / f"{name}.open").write_bytes(data[:cut])

    repaired = repair(tmp_path)

    assert len(repaired) == len(data) + 1
    for cut, outcome in enumerate(repaired):
        whole = [end for end in ends if end <= cut]
        if len(whole) in {2, 4}:
            whole.pop()  # a response whose request is cut off
        kept = max(whole, default=0)
        assert outcome == Repaired(
            f"crawl-20260101000000123-{cut:05}-node.warc.gz",
            records=len(whole),
            cut_bytes=cut - kept,
            removed=not whole,
        )
        path = tmp_path / outcome.file
        assert path.exists() != outcome.removed
        if not outcome.removed:
            assert path.read_bytes() == data[:kept]
            path.unlink()
    assert names(tmp_path) == []


@pytest.mark.parametrize("cut", [b"", b"cut"])
def test_a_document_that_no_server_sent_stays_without_a_request(writer, tmp_path, cut):
    append(writer, an_exchange(0))
    made = Made("browser.Handler", "http://example.com/1")
    append(writer, an_exchange(1, b"x" * 300_000, made=made))
    writer.sync()
    writer.abandon()
    (left,) = tmp_path.iterdir()
    data = left.read_bytes()
    left.write_bytes(data + cut)

    (outcome,) = repair(tmp_path)

    assert (outcome.records, (tmp_path / NAME).stat().st_size) == (4, len(data))
    assert_sound(tmp_path / NAME)


def test_a_record_that_was_damaged_is_not_whole(writer, tmp_path):
    leave_open(writer)
    (left,) = tmp_path.iterdir()
    data = bytearray(left.read_bytes())
    offset, length, _ = members(bytes(data))[3]
    data[offset + length - 6] ^= 1  # in the checksum
    left.write_bytes(data)

    (outcome,) = repair(tmp_path)

    assert (outcome.records, (tmp_path / NAME).stat().st_size) == (3, offset)


def test_a_file_of_a_live_writer_is_left_alone(writer, tmp_path):
    append(writer, an_exchange())
    writer.flush()
    (left,) = tmp_path.iterdir()
    before = left.read_bytes()

    assert repair(tmp_path) == []
    assert left.read_bytes() == before

    writer.abandon()
    (outcome,) = repair(tmp_path)
    assert (outcome.records, outcome.file) == (3, left.name.removesuffix(".open"))
    assert_sound(tmp_path / outcome.file)


def test_other_files_are_left_alone(writer, tmp_path, caplog):
    leave_open(writer, 1)
    theirs = ["warcprox-1.warc.gz.open", "notes.open", NAME.replace("0123-", "0124-")]
    for name in theirs:
        (tmp_path / name).write_bytes(b"theirs")
    (tmp_path / f"{NAME.replace('00000', '00001')}.open").symlink_to(theirs[0])
    os.mkfifo(tmp_path / f"{NAME.replace('00000', '00002')}.open")
    taken = NAME.replace("00000", "00003")
    for name in (taken, f"{taken}.open"):  # of a writer killed before it saw the other
        (tmp_path / name).touch()

    one, empty = repair(tmp_path)

    assert (one.file, empty.removed) == (NAME, True)
    assert (tmp_path / taken).exists()
    assert (tmp_path / NAME).exists()
    said = [record.getMessage() for record in caplog.records]
    assert any("was not repaired: it is a link" in line for line in said)
    assert any("was not repaired: it is a FIFO" in line for line in said)
    for name in theirs:
        assert (tmp_path / name).read_bytes() == b"theirs"


def test_a_file_is_cut_on_disk_before_it_has_its_name_and_the_name_is_too(
    writer, tmp_path, synced
):
    append(writer, an_exchange())
    writer.flush()
    kept = (tmp_path / f"{NAME}.open").stat().st_size
    append(writer, an_exchange(1))
    writer.flush()
    writer.abandon()
    os.truncate(tmp_path / f"{NAME}.open", kept + 10)
    synced.clear()

    assert [one.cut_bytes for one in repair(tmp_path)] == [10]
    assert synced == [(f"{NAME}.open", kept), (tmp_path.name, [NAME])]


def test_a_record_larger_than_memory_should_be_is_streamed(writer, tmp_path):
    append(writer, an_exchange(body=bytes(64 << 20)))  # shrinks a thousandfold
    append(writer, an_exchange(body=os.urandom(8 << 20)))
    writer.flush()
    writer.abandon()

    tracemalloc.start()
    try:
        (outcome,) = repair(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert outcome.records == 5
    assert outcome.cut_bytes == 0
    assert peak < 4 << 20
