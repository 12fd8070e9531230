"""The zip of a WACZ, byte by byte, as readers with shortcuts see it."""

import hashlib
import os
import struct
import zipfile
import zlib

import pytest

from frontier.wacz.create import Options, create, warc_files
from frontier.wacz.packing import Pack
from frontier.warc.reader import BLOCK

GIB = 1 << 30
MOMENT = (2026, 1, 1, 0, 0, 0)
LOCAL = struct.Struct("<4s5H3L2H")


def entries(path):
    """The members, and whether each has an extra field in its own header.

    One that the directory lacks is not seen by wabac (`ziprangereader.ts`), which takes
    the data to begin behind the name.
    """
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset)
            own = LOCAL.unpack(file.read(LOCAL.size))
            assert own[0] == b"PK\3\4"
            yield info, own[-1] > 0


def test_a_reader_that_looks_at_the_directory_alone_finds_each_member(
    tmp_path, write_warc
):
    out = tmp_path / "c.wacz"
    log = tmp_path / "büch.log"
    log.write_text("".join(f"line {n}\n" for n in range(300_000)))
    warcs = warc_files([write_warc("c-1", [b"one", b"two"])])
    create(out, warcs, Options(logs=[log]))

    found = list(entries(out))

    assert len(found) == 7
    assert not any(has_own for _, has_own in found)


class Holes:
    """A file in which zeros become a hole, so that no gigabytes are written."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        if len(data) < BLOCK:
            return self._file.write(data)
        self._file.seek(len(data), os.SEEK_CUR)
        return len(data)


class Zeros:
    """A file of *size* zeros."""

    def __init__(self, size):
        self._size, self._at = size, 0
        self._block = memoryview(bytes(BLOCK))

    def seek(self, at, whence=os.SEEK_SET):
        self._at = at + (self._size if whence == os.SEEK_END else 0)
        return self._at

    def read(self, size):
        block = self._block[: min(size, self._size - self._at)]
        self._at += len(block)
        return block


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A zip with members of all sizes that matter, most of it a hole."""

    whole = hashlib.sha256

    class Quick:  # of what is large, none is read
        def __init__(self, data=b""):
            self._sum = whole(data)
            self.hexdigest = self._sum.hexdigest

        def update(self, data):
            if len(data) < BLOCK:
                self._sum.update(data)

    def quick(data, value=0):
        return value if len(data) == BLOCK else zlib.crc32(data, value)

    monkeypatch.setattr("zipfile.crc32", quick)
    monkeypatch.setattr("frontier.wacz.packing.hashlib.sha256", Quick)
    path = tmp_path / "large.zip"
    sizes = {
        "a": 1,
        "b": 2 * GIB - (1 << 26),  # zipfile alone would have ZIP64 in one header
        "c": 2 * GIB - 1,
        "d": 2 * GIB,
        "e": 4 * GIB - 1,
        "f": 5 * GIB + 3,
        "g": 7,
    }
    with path.open("wb+") as file, Pack(Holes(file), str(path), MOMENT) as pack:
        for name, size in sizes.items():
            pack.copy(name, Zeros(size))
        pack.add("h", [b"text"])
        pack.finish({})
    return path, sizes


def test_members_beyond_4_gib_are_found(large):
    path, sizes = large

    found = {info.filename: (info, has_own) for info, has_own in entries(path)}

    for name, size in sizes.items():
        info, has_own = found[name]
        assert (info.file_size, info.compress_size) == (size, size)
        assert info.extra or not has_own
    assert found["g"][0].header_offset > 4 * GIB
    with zipfile.ZipFile(path) as archive:
        assert archive.read("a") == bytes(1)
        assert archive.read("g") == bytes(7)
        assert archive.read("h") == b"text"
