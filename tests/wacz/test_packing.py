"""The zip of a WACZ, byte by byte, as readers with shortcuts see it."""

import hashlib
import os
import struct
import zipfile
import zlib
from typing import NamedTuple

import pytest

from frontier.wacz.create import Options, create, warc_files
from frontier.wacz.packing import Pack
from frontier.warc.reader import BLOCK

GIB = 1 << 30
MOMENT = (2026, 1, 1, 0, 0, 0)
CENTRAL = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
FULL = 0xFFFFFFFF


class Entry(NamedTuple):
    """A member as its directory has it, and where its data begin."""

    packed: int
    size: int
    header: int
    hurried: int
    """Where wabac takes the data to begin: behind the name, if there is no extra."""
    start: int
    """Where they do."""


def entries(path):
    """Read the directory as wabac does (`ziprangereader.ts`), and each own header."""
    with zipfile.ZipFile(path) as archive:
        count, start = len(archive.infolist()), archive.start_dir
    found = {}
    with path.open("rb") as file:
        file.seek(start)
        for _ in range(count):
            said = CENTRAL.unpack(file.read(CENTRAL.size))
            packed, size, name_size, extra_size = said[8:12]
            header = said[-1]
            name = file.read(name_size).decode()
            extra = file.read(extra_size)
            end = file.tell()
            if extra:
                kind, length = struct.unpack("<HH", extra[:4])
                wide = iter(struct.unpack(f"<{length // 8}Q", extra[4 : 4 + length]))
                size, packed, header = (
                    next(wide) if value == FULL else value
                    for value in (size, packed, header)
                )
                assert kind == 1
                assert next(wide, None) is None  # nothing that is not asked for
            file.seek(header)
            own = LOCAL.unpack(file.read(LOCAL.size))
            assert own[0] == b"PK\3\4"
            assert file.read(own[-2]).decode() == name
            start = header + LOCAL.size + own[-2] + own[-1]
            hurried = start if extra else header + LOCAL.size + len(name.encode())
            found[name] = Entry(packed, size, header, hurried, start)
            file.seek(end)
    return found


def test_a_reader_that_looks_at_the_directory_alone_finds_each_member(
    tmp_path, write_warc
):
    out = tmp_path / "c.wacz"
    log = tmp_path / "büch.log"
    log.write_text("".join(f"line {n}\n" for n in range(300_000)))
    warcs = warc_files([write_warc("c-1", [b"one", b"two"])])
    create(out, warcs, Options(logs=[log]))

    found = entries(out)

    assert len(found) == 7
    for name, entry in found.items():
        assert entry.hurried == entry.start, name


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

    found = entries(path)

    for name, size in sizes.items():
        entry = found[name]
        assert (entry.size, entry.packed) == (size, size)
        assert entry.hurried == entry.start
    assert found["g"].header > 4 * GIB
    with zipfile.ZipFile(path) as archive:
        assert archive.read("a") == bytes(1)
        assert archive.read("g") == bytes(7)
        assert archive.read("h") == b"text"
