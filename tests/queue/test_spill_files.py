import os
import struct
from pathlib import Path

import pytest

from frontier.errors import CodecError
from frontier.queue import spill_files as module
from frontier.queue.spill_files import SpillFiles, is_address, pack, sizes_of

BLOCK = pack([b"01", b"02"])


@pytest.fixture
def spill_files(tmp_path):
    return SpillFiles(tmp_path / "spill" / "crawl")


def test_what_was_put_is_got_and_every_file_has_a_name_of_its_own(spill_files):
    addresses = [spill_files.put(BLOCK, 7, 99) for _ in range(3)]

    assert len(set(addresses)) == len(list(spill_files.directory.iterdir())) == 3
    assert [spill_files.get(address) for address in addresses] == [BLOCK] * 3
    assert all(map(is_address, addresses))
    assert sizes_of(addresses[0]) == (2, len(BLOCK))
    assert not is_address(BLOCK)


def test_a_block_and_its_name_are_on_disk_before_its_address_is_known(
    spill_files, monkeypatch
):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    spill_files.put(BLOCK, 7, 99)
    (path,) = spill_files.directory.iterdir()

    unfinished, directory = synced
    assert unfinished.name.startswith(path.name)
    assert directory == spill_files.directory


def address(name, size=10, version=2):
    return struct.pack(">BIQ32s", version, 2, size, bytes(32)) + name


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\x02",
        address(b""),
        address(b"../7-99-0123456789abcdef.block"),
        address(b"/etc/passwd"),
        address(b"7-99-0123456789abcdef.block\n"),
        address(b"7-99-0123456789abcdef.block", size=2**62),
        address(b"7-99-0123456789abcdef.block", version=3),
    ],
)
def test_what_is_no_address_leads_nowhere(spill_files, wrong):
    with pytest.raises(CodecError, match="address"):
        spill_files.get(wrong)


def test_a_file_that_is_not_what_was_put_there_is_refused(spill_files):
    made = spill_files.put(BLOCK, 7, 99)
    (path,) = spill_files.directory.iterdir()
    path.write_bytes(BLOCK + b"x")

    with pytest.raises(CodecError, match=path.name):
        spill_files.get(made)


def test_a_file_is_kept_for_a_while_after_its_block_was_put_back(
    spill_files, monkeypatch
):
    made = [spill_files.put(BLOCK, 7, 99) for _ in range(2)]
    spill_files.forget(made[0])
    assert spill_files.get(made[0]) == BLOCK, (
        "a store that went back in time asks for it"
    )

    monkeypatch.setattr(module, "KEPT", -1.0)
    spill_files.forget(made[1])
    assert list(spill_files.directory.iterdir()) == []
