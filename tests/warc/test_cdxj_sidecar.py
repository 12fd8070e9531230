import gc
from dataclasses import replace

import pytest

from frontier.cdx.lines import parse
from frontier.model import Exchange, Stored
from frontier.warc.cdxj_sidecar import YOUNG, Listing, beside_of

FILE = "crawl-1.warc.gz"
RUN = 100


def capture(number):
    url = f"http://a.example/{number * 7919 % 10_000}"
    exchange = Exchange(
        url=url,
        started=0.0,
        request_head=b"",
        request_body=b"",
        response_head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        response_body=b"",
        status=200,
        ip=None,
    )
    date = "2026-01-02T03:04:05.678Z"
    return exchange, Stored(FILE, number, 10, "", date, "sha256:00", None)


@pytest.fixture
def listing(tmp_path):
    made = Listing(directory=tmp_path, run=RUN)
    yield made
    del made
    gc.collect()


def offsets(directory):
    lines = beside_of(directory / FILE).read_bytes().splitlines(keepends=True)
    assert lines == sorted(lines)
    return sorted(parse(line).offset for line in lines)


def test_many_lines_wait_on_disk_and_are_sorted_in_the_end(listing, tmp_path):
    most = 0
    for number in range(3 * YOUNG):
        listing.note(*capture(number))
        most = max(most, len(listing._lines[FILE]))
    assert most <= YOUNG + RUN
    for number in range(64):  # a batch that is rolled back
        listing.forget(capture(3 * YOUNG - 1 - number)[1])
    listing.write(tmp_path / FILE)

    assert offsets(tmp_path) == list(range(3 * YOUNG - 64))
    listing.write(tmp_path / FILE)  # as after an error of the disk
    assert offsets(tmp_path) == list(range(3 * YOUNG - 64))
    listing.drop(tmp_path / FILE)
    assert [path.name for path in tmp_path.iterdir()] == ["crawl-1.cdxj"]
    assert not listing._lines
    assert not listing._runs


def test_lines_for_which_there_is_no_room_on_disk_stay_in_memory(tmp_path):
    listing = Listing(directory=tmp_path / "gone", run=RUN)
    for number in range(2 * YOUNG):
        listing.note(*capture(number))
    listing.write(tmp_path / FILE)

    assert offsets(tmp_path) == list(range(2 * YOUNG))


def test_of_an_index_for_which_there_is_no_room_nothing_is_left(tmp_path, monkeypatch):
    listing = Listing(directory=tmp_path)
    listing.note(*capture(1))
    full = OSError(28, "No space left on device")

    def fail(_):
        raise full

    with monkeypatch.context() as patched:
        patched.setattr("frontier.warc.cdxj_sidecar.os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            listing.write(tmp_path / FILE)
    listing.drop(tmp_path / FILE)  # the file itself is whole, and was closed

    assert list(tmp_path.iterdir()) == []

    exchange, stored = capture(2)
    listing.note(exchange, replace(stored, file="crawl-2.warc.gz"))
    listing.write(tmp_path / "crawl-2.warc.gz")
    assert offsets(tmp_path) == [1]  # with the next index, that of the first
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "crawl-1.cdxj",
        "crawl-2.cdxj",
    ]
