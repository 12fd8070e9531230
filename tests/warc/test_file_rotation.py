import gzip
import os
from io import FileIO
from types import SimpleNamespace

import pytest

from frontier import append_file, files
from frontier.dedupe.digest import digest_of
from frontier.model import Original
from frontier.warc.file_rotation import (
    WarcConfig,
    WarcWriter,
    compress,
    file_name,
    safe_name,
)
from tests.warc.judges import assert_sound, read_fastwarc, read_warcio
from tests.warc.samples import NOON, an_exchange, members, names, warc_headers

NAME = "crawl-20260101000000123-00000-node.warc.gz"


def append(writer, exchange, original=None):
    return writer.append(exchange, digest_of(exchange.response_body), original)


def original_of(exchange, stored):
    return Original(exchange.url, stored.date, "crawl", stored.length)


def test_each_record_is_a_gzip_member_and_warcinfo_is_first(writer, tmp_path):
    stored = append(writer, an_exchange())
    writer.close()

    data = (tmp_path / NAME).read_bytes()
    found = members(data)
    kinds = [warc_headers(content)["WARC-Type"] for _, _, content in found]
    assert kinds == ["warcinfo", "response", "request"]
    assert found[1][:2] == (stored.offset, stored.length)
    assert data[4:8] == bytes(4)  # no time of writing: the same input, the same file
    info = warc_headers(found[0][2])
    assert info["WARC-Filename"] == NAME
    for _, _, content in found[1:]:
        assert warc_headers(content)["WARC-Warcinfo-ID"] == info["WARC-Record-ID"]


EXCHANGES = {
    "page": an_exchange(),
    "latin-1": an_exchange(
        response_head=b"HTTP/1.1 200 Tr\xe8s bien\r\nX-Name: caf\xe9\r\n\r\n"
    ),
    "two cookies": an_exchange(
        response_head=b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"
    ),
    "folded": an_exchange(response_head=b"HTTP/1.0 200 \r\nx-CASE:a\r\n b\r\n\r\n"),
    "empty": an_exchange(body=b""),
    "gzip": an_exchange(
        body=gzip.compress(b"x" * 1000, mtime=0),
        response_head=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
    ),
    "post": an_exchange(request_body=b"a=1&b=2\r\n\r\n"),
    "binary": an_exchange(body=bytes(range(256)) * 40),
    "large": an_exchange(body=os.urandom(3 << 20)),
    "odd url": an_exchange(url="http://example.com/a b\r\n?q=é"),
    "truncated": an_exchange(truncated="time"),
}


AS_REVISIT = [name for name in EXCHANGES if name != "empty"]


@pytest.mark.parametrize(
    ("name", "as_revisit"),
    [(name, False) for name in EXCHANGES] + [(name, True) for name in AS_REVISIT],
)
def test_other_readers_get_back_what_was_written(writer, tmp_path, name, as_revisit):
    exchange = EXCHANGES[name]
    original = None
    if as_revisit:
        first = an_exchange(100, body=exchange.response_body)
        original = original_of(first, append(writer, first))
    append(writer, exchange, original)
    writer.close()

    path = tmp_path / NAME
    assert_sound(path)
    kind, block = read_fastwarc(path)[-2]
    assert kind == ("revisit" if as_revisit else "response")
    body = b"" if as_revisit else exchange.response_body
    assert block == exchange.response_head + body
    assert read_fastwarc(path)[-1][1] == exchange.request_head + exchange.request_body
    kind, _, _, payload = read_warcio(path)[-2]
    assert kind == ("revisit" if as_revisit else "response")
    assert payload == body


def test_a_full_file_is_closed_before_the_next_exchange(new_writer, tmp_path):
    closed = []
    writer = new_writer(max_bytes=1000, closed=lambda path: closed.append(path.name))
    stored = [append(writer, an_exchange(n, os.urandom(300))) for n in range(6)]
    writer.close()
    writer.close()

    files = names(tmp_path)
    assert len(files) > 1
    assert closed == files
    assert sorted({at.file for at in stored}) == files
    assert [name.split("-")[2] for name in files] == [
        f"{serial:05}" for serial in range(len(files))
    ]
    for name in files:
        assert_sound(tmp_path / name)
        kinds = [kind for kind, *_ in read_warcio(tmp_path / name)]
        assert kinds == ["warcinfo"] + ["response", "request"] * (len(kinds) // 2)


def test_rollback_undoes_what_no_sync_has_settled(writer, tmp_path):
    kept = append(writer, an_exchange(0))
    writer.sync()
    before = (tmp_path / f"{NAME}.open").read_bytes()
    tally = writer.tally.bytes, writer.tally.records
    lost = append(writer, an_exchange(1))
    assert writer.keeps(kept)
    assert not writer.keeps(lost)

    writer.rollback()

    assert (tmp_path / f"{NAME}.open").read_bytes() == before
    assert (writer.tally.bytes, writer.tally.records) == tally == (len(before), 3)
    assert append(writer, an_exchange(1)) == lost
    writer.close()
    assert_sound(tmp_path / NAME)


def test_a_failed_rename_is_tried_again(writer, tmp_path, monkeypatch):
    append(writer, an_exchange())
    real = append_file.sync_directory
    failures = iter([OSError("the directory is gone for a moment")])

    def fails_once(directory):
        for failure in failures:
            raise failure
        real(directory)

    monkeypatch.setattr(append_file, "sync_directory", fails_once)
    with pytest.raises(OSError, match="for a moment"):
        writer.close()
    second = append(writer, an_exchange(1))  # must not go into the published file
    writer.close()

    assert names(tmp_path) == [NAME, second.file]
    assert_sound(tmp_path / NAME)


def test_a_file_whose_warcinfo_fails_leaves_nothing(writer, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            append(writer, an_exchange())
        writer.rollback()

    assert names(tmp_path) == []
    assert writer.tally.bytes == writer.tally.records == 0


def test_no_file_is_overwritten(new_writer, tmp_path):
    (tmp_path / NAME).write_bytes(b"precious")
    other = NAME.replace("00000-node", "00001-node")
    (tmp_path / f"{other}.open").write_bytes(b"precious")

    stored = append(new_writer(), an_exchange())

    assert stored.file == NAME.replace("00000-node", "00002-node")
    assert (tmp_path / NAME).read_bytes() == b"precious"
    assert not (tmp_path / f"{NAME}.open").exists()
    assert (tmp_path / f"{other}.open").read_bytes() == b"precious"


def test_names_are_sane():
    assert safe_name("../x y") == "_._x_y"
    assert safe_name("-rf") == "_rf"
    assert safe_name("") == "_"
    assert len(file_name("c" * 500, 1e9, 123456, "n" * 500) + ".open") < 255


def test_a_large_record_is_compressed_in_pieces():
    record = SimpleNamespace(record_id="x", parts=(os.urandom(5 << 20),))
    blocks = list(compress(record))

    assert max(map(len, blocks)) < 3 << 20
    assert gzip.decompress(b"".join(blocks)) == record.parts[0]


def test_failed_write_is_completed_by_the_next_close(writer, tmp_path, monkeypatch):
    failures = []

    class Fails(FileIO):
        def write(self, data):
            if failures and len(data) <= 1000:
                raise failures.pop()
            return super().write(bytes(data[:1000]))

    monkeypatch.setattr(files, "FileIO", Fails)
    append(writer, an_exchange())
    writer.sync()
    append(writer, an_exchange(1, os.urandom(5000)))
    failures.append(OSError("no space for a moment"))
    with pytest.raises(OSError, match="for a moment"):
        writer.close()
    writer.close()

    assert len(members((tmp_path / NAME).read_bytes())) == 5
    assert_sound(tmp_path / NAME)


def test_an_old_file_is_closed_before_the_next_exchange(tmp_path):
    now = [NOON]
    writer = WarcWriter(WarcConfig(tmp_path, "c", "n", max_seconds=60), lambda: now[0])
    assert writer.seconds_left() is None
    first = append(writer, an_exchange())
    now[0] += 59
    assert append(writer, an_exchange(1)).file == first.file
    assert writer.seconds_left() == pytest.approx(1)
    now[0] += 1
    assert writer.seconds_left() == 0
    assert append(writer, an_exchange(2)).file != first.file
    writer.close()

    assert len(names(tmp_path)) == 2
