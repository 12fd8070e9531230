import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier.errors import ConfigurationError, SeenFileBroken, SeenFileMismatch
from frontier.seen.export import (
    BLOCK_ENTRIES,
    MAGIC,
    MAX_GENERATIONS,
    Header,
    SeenFile,
    SeenFileWriter,
)
from frontier.urls.fingerprint import seen_hash

HEADER = Header("scrapy.X", "site-1", "site", {"FRONTIER_PARTITIONS": 4})
SPACE = HEADER.space
ENTRIES = sorted(SPACE.entry(seen_hash(b"%d" % n)) for n in range(20_000))


def write(path, parts, header=HEADER):
    with SeenFileWriter(path, header) as file:
        for partition, members in parts:
            file.add(partition, members)
    return file.urls


def read(path):
    file = SeenFile(path)
    try:
        counts = file.verified()
        found = {}
        for block in file.blocks():
            found.setdefault(block.partition, []).extend(block.entries)
    finally:
        file.close()
    assert counts == {p: len(members) for p, members in found.items()}
    return file.header, found


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "whole.seen"
    write(path, [(0, ENTRIES[:10]), (3, ENTRIES[:9_000]), (3, ENTRIES[9_000:])])
    return path


def test_what_was_written_is_read(whole, tmp_path):
    header, found = read(whole)

    assert found == {0: ENTRIES[:10], 3: ENTRIES}
    assert (header.urls, header.crawl_id, header.shape) == (
        20_010,
        "site-1",
        {"FRONTIER_PARTITIONS": 4},
    )
    assert list(tmp_path.iterdir()) == [whole]
    assert whole.stat().st_size < 7.2 * 20_010


@given(
    st.dictionaries(
        st.integers(0, 9), st.sets(st.integers(0, SPACE.end - 1), min_size=1)
    )
)
def test_any_members_come_back(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("any") / "x"
    parts = {p: sorted(parts[p]) for p in sorted(parts)}
    write(path, parts.items())

    assert read(path)[1] == parts


def test_blocks_are_bounded(whole):
    file = SeenFile(whole)

    assert max(len(block.entries) for block in file.blocks()) == BLOCK_ENTRIES
    file.close()


def test_every_truncation_is_an_error_with_the_place(whole, tmp_path):
    data, path = whole.read_bytes(), tmp_path / "cut"
    chance = random.Random(1)
    for size in [0, 1, 13, 14, 20, *chance.sample(range(len(data)), 60), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(SeenFileBroken, match="cut") as caught:
            read(path)
        assert 0 <= caught.value.offset <= size


def test_every_changed_byte_is_an_error(whole, tmp_path):
    data, path = whole.read_bytes(), tmp_path / "changed"
    chance = random.Random(2)
    for at in [*range(40), *chance.sample(range(len(data)), 100), len(data) - 1]:
        broken = bytearray(data)
        broken[at] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        with pytest.raises((SeenFileBroken, SeenFileMismatch), match="changed"):
            read(path)


def test_what_follows_the_end_is_an_error(whole):
    whole.write_bytes(whole.read_bytes() + b"x")

    with pytest.raises(SeenFileBroken, match="more after the end"):
        read(whole)


@pytest.mark.parametrize("data", [b"", b"{}", b"\x1f\x8b" * 40, MAGIC, b"\0" * 999])
def test_a_foreign_file_is_an_error(tmp_path, data):
    (tmp_path / "foreign").write_bytes(data)

    with pytest.raises(SeenFileBroken, match="foreign: it is not an exported seen-set"):
        SeenFile(tmp_path / "foreign")


def test_another_version_is_refused(whole):
    data = bytearray(whole.read_bytes())
    data[9] = 1
    whole.write_bytes(data)

    with pytest.raises(SeenFileMismatch, match="version 1, but 2"):
        SeenFile(whole)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="none"):
        SeenFile(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="none/x"):
        write(tmp_path / "none" / "x", [])
    (tmp_path / "dir").mkdir()
    with pytest.raises(ConfigurationError, match="dir"):
        write(tmp_path / "dir", [])
    assert [path.name for path in tmp_path.iterdir()] == ["dir"]


def test_an_export_that_fails_leaves_no_file(tmp_path):
    def failing():
        yield (0, ENTRIES)
        raise KeyError

    with pytest.raises(KeyError):
        write(tmp_path / "x", failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("blooms", [0, MAX_GENERATIONS + 1])
def test_a_number_of_filters_that_cannot_be_is_named(tmp_path, blooms):
    with SeenFileWriter(tmp_path / "f", HEADER) as file:
        file.add_layout(0, blooms, 5)

    with pytest.raises(SeenFileBroken, match="invalid filters"):
        read(tmp_path / "f")
