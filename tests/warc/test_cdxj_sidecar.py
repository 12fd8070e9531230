"""The index beside a WARC file lists what is in it, whatever its disk and node do."""

import pytest

from frontier.cdx.lines import parse
from frontier.dedupe.digest import digest_of
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.warc.samples import NOON, an_exchange, names


@pytest.fixture
def writer(tmp_path):
    writer = WarcWriter(WarcConfig(tmp_path, "c", "n", listing=Listing()), lambda: NOON)
    yield writer
    writer.abandon()


def append(writer, number):
    exchange = an_exchange(number, b"%d" % number)
    return writer.append(exchange, digest_of(exchange.response_body))


def urls(path):
    lines = beside_of(path).read_bytes().splitlines(keepends=True)
    assert lines == sorted(lines)
    return [parse(line).url.rpartition("/")[2] for line in lines]


def test_sidecar_omits_rolled_back_records_and_equals_a_rebuilt_one(writer, tmp_path):
    for number in (3, 1):
        append(writer, number)
    writer.sync()
    append(writer, 7)
    writer.rollback()
    path = tmp_path / append(writer, 2).file
    writer.close()

    assert urls(path) == ["1", "2", "3"]
    made = beside_of(path).read_bytes()
    Listing().write(path)
    assert beside_of(path).read_bytes() == made


def test_a_file_stays_open_while_there_is_no_room_for_its_index(
    writer, tmp_path, monkeypatch
):
    path = tmp_path / append(writer, 1).file
    write = Listing.write
    monkeypatch.setattr(Listing, "write", lambda *_: (tmp_path / "no" / "x").open("w"))
    with pytest.raises(OSError, match="No such"):
        writer.close()
    writer.rollback()
    assert names(tmp_path) == [f"{path.name}.open"]

    monkeypatch.setattr(Listing, "write", write)
    writer.close()

    assert names(tmp_path) == [beside_of(path).name, path.name]
    assert urls(path) == ["1"]
