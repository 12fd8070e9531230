"""The crawl log: whole lines whatever happens to its node and its disk."""

import errno
from io import FileIO
from pathlib import Path

import pytest

from frontier import files
from frontier.collection.captures_of import of_log
from frontier.model import Attempt, Found, Original, Stored
from frontier.warc import crawl_log
from frontier.warc.crawl_log import CrawlLog, line_of, logs_of, repair_logs
from frontier.warc.file_rotation import WarcConfig
from tests.warc.samples import NOON, an_exchange

DIGEST = "ab" * 32


def attempt(number, status=-2):
    return line_of(Attempt(f"http://a.example/{number}", status, 0.0, NOON))


def a_log(directory, **options):
    return CrawlLog(WarcConfig(directory, "c-1", "n"), lambda: NOON, **options)


@pytest.fixture
def small(monkeypatch):
    """A file is full with a few lines."""
    monkeypatch.setattr(crawl_log, "MAX_BYTES", 300)


def test_a_line_has_heritrix_columns():
    found = Found("http://a.example/ü", "LLR", "http://a.example/")
    exchange = an_exchange(
        url="http://a.example/x y#z", found=found, fetch_ms=1234, notes=("2t",)
    )
    digest = f"blake3:{DIGEST}"
    stored = Stored("f", 0, 9, "", "", digest, Original("u", "d", "c", 1))

    line = line_of(exchange, stored).decode()

    assert line.split() == [
        "2026-01-01T00:00:01.357Z",
        "200",
        "12",
        "http://a.example/x%20y",
        "LLR",
        "http://a.example/%C3%BC",
        "text/html",
        "#001",
        "20260101000000123+1234",
        digest,
        "http://a.example/",
        "2t,warcRevisit:digest",
    ]


def test_hostile_fields_add_no_line_or_column_to_the_crawl_log():
    found = Found("http://a.example/\n\r a", "L", "http://b \t")
    url = "http://a.example/\nb c"

    line = line_of(Attempt(url, 200, NOON, NOON, found, 1, "x y\r\n"))

    assert line.count(b"\n") == 1
    assert len(line.split()) == 12


def test_a_file_is_closed_when_it_is_full_and_at_the_end(tmp_path, small):
    told = []
    log = a_log(tmp_path, closed=told.append)
    for number in range(4):
        log.write([attempt(number), attempt(number)])
    log.close()

    assert told == logs_of(tmp_path, "c-1") == sorted(tmp_path.iterdir())
    lines = b"".join(path.read_bytes() for path in told).splitlines()
    assert [line.split()[3][-1:] for line in lines] == [
        b"%d" % (n // 2) for n in range(8)
    ]
    assert logs_of(tmp_path, "c") == []


def test_each_file_begins_with_the_mark_of_its_crawl_in_a_line_of_twelve_columns(
    tmp_path, small
):
    log = a_log(tmp_path, born="ab12")
    for number in range(4):
        log.write([attempt(number)])
    log.close()

    for path in logs_of(tmp_path, "c-1"):
        first, *others = path.read_bytes().splitlines()
        assert first.split()[1:4] == [b"0", b"-", b"frontier:born"]
        assert first.split()[11:] == [b"born:ab12"]
        assert of_log(first) is None  # our import of such logs passes over it
        assert others


def test_a_crawl_log_that_was_left_open_is_repaired_to_whole_lines(
    tmp_path, monkeypatch
):
    log = a_log(tmp_path)
    log.write([attempt(number) for number in range(3)])
    (left,) = tmp_path.iterdir()
    assert repair_logs(tmp_path) == []  # its writer lives
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: Path("/none/x").touch())
        with pytest.raises(OSError, match="No such file"):
            log.close()
    log.abandon()
    with left.open("ab") as file:
        file.write(b"2026-01-01T00:00:00.000Z 200 half a li")

    (closed,) = repair_logs(tmp_path)

    lines = closed.read_bytes().splitlines()
    assert [line.split()[3][-1:] for line in lines] == [b"0", b"1", b"2"]
    assert repair_logs(tmp_path) == []


def test_a_disk_that_takes_nothing_costs_no_line(tmp_path, monkeypatch):
    class Disk(FileIO):
        is_full = False

        def write(self, data):
            if not Disk.is_full:
                return super().write(data)
            super().write(data[:10])  # some of it fits
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "FileIO", Disk)
    log = a_log(tmp_path)
    log.write([attempt(0)])
    Disk.is_full = True
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            log.write([attempt(1), attempt(2)])
    Disk.is_full = False
    log.write([attempt(1), attempt(2)])
    log.write([attempt(3)])
    log.close()

    (path,) = logs_of(tmp_path, "c-1")
    numbers = [line.split()[3][-1:] for line in path.read_bytes().splitlines()]
    assert numbers == [b"0", b"1", b"2", b"3"]
