"""Files of zstd frames, as FastWARC writes them, with a dictionary and without."""

import gzip
import random

import pytest
from fastwarc.stream_io import ZstdWriter, zstd_train_dictionary_from_samples

from frontier.cli.output import ExitCode
from tests.postcrawl.conftest import OTHER, PAGE
from tests.postcrawl.test_convert import convert
from tests.postcrawl.test_dedupe import blocks, run
from tests.postcrawl.test_manifest import contents, manifest, rows
from tests.warc.judges import records_in
from tests.warc.samples import members

try:
    from compression.zstd import get_frame_info
except ImportError:  # before Python 3.14
    from backports.zstd import get_frame_info

LONG = random.Random(5).randbytes(3 << 20)
FRAME = b"\x28\xb5\x2f\xfd"
EXTENSION = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"table"
EMPTY = FRAME + b"\x20\x00\x01\x00\x00"


def trained(seed):
    drawn = random.Random(seed)
    samples = [drawn.randbytes(9) + PAGE[n % 50 :][:90] for n in range(300)]
    return zstd_train_dictionary_from_samples(samples, 1024)


KNOWN = {"dictionary": trained(1)}


def frames(parts, path, **how):
    """Write *path*, with a frame of each of *parts*."""
    with path.open("wb") as file:
        writer = ZstdWriter(file, **how)
        for part in parts:
            writer.write(part)
            writer.finish()
        writer.flush()
    return path


def records(path):
    """The records of *path*, which warcio has packed, each with its headers."""
    return [content for _, _, content in members(path.read_bytes())]


@pytest.fixture
def two(new_warc):
    """Two files packed with gzip, of which the second repeats what the first has."""
    made = []
    for name, second in (("one.warc.gz", 1), ("two.warc.gz", 10)):
        warc = new_warc(name)
        warc.response("http://a.example/", second, PAGE)
        warc.response(f"http://a.example/{second}", second, OTHER + b"%d" % second)
        warc.response("http://a.example/long", second, LONG)
        made.append(warc.close())
    return made


@pytest.fixture(
    params=[{}, KNOWN, KNOWN | {"compress_dictionary_frame": True}],
    ids=["none", "dictionary", "packed dictionary"],
)
def packed(request, two, tmp_path):
    """The two files again, of zstd frames."""
    out = tmp_path / "zstd"
    out.mkdir()
    for path in two:
        frames(records(path), out / f"{path.stem}.zst", **request.param)
    return out


def test_zstd_file_is_deduplicated_by_frame_and_restored(two, packed, tmp_path):
    out, again = tmp_path / "after", tmp_path / "again"

    assert run("dedupe", packed, "-o", out)["replaced"] == 2
    assert run("verify", packed, out)["revisits"] == 2

    name = "one.warc.zst"
    assert (out / name).read_bytes() == (packed / name).read_bytes()
    before, after = ((of / "two.warc.zst").read_bytes() for of in (packed, out))
    kinds = [headers["WARC-Type"] for headers, _ in records_in([out / "two.warc.zst"])]
    assert kinds == ["warcinfo", "revisit", "response", "revisit"]
    (row, _) = [row for row in rows_of(out, tmp_path) if row["type"] == "revisit"]
    at = row["record_offset"]
    assert after[:at] == before[:at]  # its dictionary, too
    info = get_frame_info(after[at : at + row["record_length"]])
    kept = get_frame_info(before[before.rindex(FRAME) :])
    assert info.decompressed_size
    assert info.dictionary_id == kept.dictionary_id
    assert after[at + 4] & 0b100  # Content_Checksum

    assert run("restore", out, "-o", again)["replaced"] == 2
    assert blocks(again) == blocks(packed) == blocks(two[0].parent)


def rows_of(directory, tmp_path):
    manifest(directory / "two.warc.zst", "-o", tmp_path / "rows")
    return rows(tmp_path / "rows")


def test_a_record_in_several_frames_and_frames_that_are_no_record(two, tmp_path):
    """As the specification allows, which says nothing of what extensions are of."""
    parts = records(two[0])
    many = [part[at : at + 99] for part in parts for at in range(0, len(part), 99)]
    path = frames(many, tmp_path / "one.warc.zst")
    last = frames(parts[-1:], tmp_path / "last").read_bytes()
    path.write_bytes(path.read_bytes() + EXTENSION + EMPTY + last + EMPTY + EXTENSION)
    manifest(two[0], "-o", tmp_path / "m")

    manifest(path, "-o", tmp_path / "n")

    expected, found = contents(rows(tmp_path / "m")), rows(tmp_path / "n")
    assert contents(found)[:3] == expected
    data = path.read_bytes()
    at, size = found[-1]["record_offset"], found[-1]["record_length"]
    assert data[at : at + size] == last
    done = run("dedupe", path, "-o", tmp_path / "after")
    assert done["copies"] == 0  # of the same URL in the same second
    assert (tmp_path / "after" / path.name).read_bytes() == data


@pytest.mark.parametrize("size", [1 << 30, 60_000])
def test_records_that_share_a_frame_are_converted_first(two, tmp_path, size):
    data = gzip.decompress(two[0].read_bytes())
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    path = frames(parts, tmp_path / "whole.warc.zst")
    manifest(two[0], "-o", tmp_path / "m")
    manifest(path, "-o", tmp_path / "n")

    assert contents(rows(tmp_path / "n")) == contents(rows(tmp_path / "m"))
    done = run("dedupe", path, "-o", tmp_path / "out", code=ExitCode.INCOMPLETE)
    assert done["files_left"] == []
    (left,) = done["records_left"]
    assert "records share a zstd frame (try frontier warc convert)" in left
    assert convert(path, "-o", tmp_path / "gzip")["records"] == 4
    made = (tmp_path / "gzip" / "whole.warc.gz").read_bytes()
    assert gzip.decompress(made) == data


def dictionary(data):
    return b"\x5d\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize(
    ("change", "reason", "left"),
    [
        (lambda data: data[:-100], "the last record is cut off at byte", 2),
        (lambda data: data + b"more", "not a zstd frame", 3),
        (
            lambda data: dictionary(b"none") + data,
            "a dictionary that cannot be used",
            0,
        ),
        (lambda data: dictionary(b"")[:4] + b"\xff" * 4 + data, "too large", 0),
        (lambda data: dictionary(FRAME + b"\x00" * 99) + data, "cannot be used", 0),
        (lambda data: b"", "", 0),
    ],
    ids=["cut", "more", "none", "large", "damaged", "empty"],
)
def test_unreadable_zstd_file_is_reported_with_the_reason(
    two, tmp_path, change, reason, left
):
    path = frames(records(two[0]), tmp_path / "one.warc.zst")
    path.write_bytes(change(path.read_bytes()))
    code = ExitCode.INCOMPLETE if reason else ExitCode.OK

    done = manifest(path, "-o", tmp_path / "m", code=code)

    assert done["records"] == left
    for told in done["files_left"]:
        assert told.startswith(f"{path}: ")
        assert reason in told


@pytest.mark.parametrize("other", [b"", dictionary(trained(2))], ids=["none", "other"])
def test_a_frame_of_another_dictionary_is_not_read_as_something_else(
    two, tmp_path, other
):
    path = frames(records(two[0]), tmp_path / "one.warc.zst", **KNOWN)
    data = path.read_bytes()
    path.write_bytes(other + data[8 + int.from_bytes(data[4:8], "little") :])

    done = manifest(path, "-o", tmp_path / "m", code=ExitCode.INCOMPLETE)

    assert done["records"] == 0
    assert "not a zstd frame (" in done["files_left"][0]
    assert "ictionary" in done["files_left"][0]
