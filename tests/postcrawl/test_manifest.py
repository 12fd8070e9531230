"""What a manifest has, of files as others write them and of damaged ones."""

import gzip
import hashlib
import json
import random
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import run
from tests.warc.samples import change_members

manifest = partial(run, "manifest")


def rows(directory):
    """All rows of all manifests in *directory*."""
    found = []
    for place in sorted(directory.glob("*.manifest.parquet")):
        found += pq.read_table(place).to_pylist()
    return found


def said(directory, name):
    """What the manifest of the file *name* says of it."""
    (place,) = directory.glob(f"{name}.*.manifest.parquet")
    return json.loads(pq.read_metadata(place).metadata[b"frontier"])


def contents(found):
    """The rows without the places that a container has."""
    own = {"file", "record_offset", "record_length", "cdxj"}
    return [{k: v for k, v in row.items() if k not in own} for row in found]


@pytest.fixture
def written(new_warc):
    """A file of warcio's, with a record that is longer than what is kept of one."""
    warc = new_warc("one.warc.gz")
    warc.response("http://a.example/", 1, PAGE)
    warc.post("http://a.example/form", 2, OTHER)
    warc.response("http://a.example/long", 3, random.Random(1).randbytes(3 << 20))
    warc.response("http://a.example/empty", 4, b"")
    return warc.close()


def test_a_file_has_the_same_rows_however_it_is_packed(written, tmp_path):
    data = gzip.decompress(written.read_bytes())
    packed = {
        "plain.warc": data,
        "whole.warc.gz": gzip.compress(data),
        "blocks.warc.gz": b"".join(
            gzip.compress(data[at : at + 60_000]) for at in range(0, len(data), 60_000)
        ),
        "empty.warc.gz": gzip.compress(b"").join([b"", written.read_bytes(), b""]),
    }
    for name, content in packed.items():
        (written.parent / name).write_bytes(content)
    out = tmp_path / "m"

    done = manifest(written.parent, "-o", out)

    assert (done["files"], done["records"]) == (5, 20)
    by_file = {
        name: [row for row in rows(out) if row["file"].endswith(f"/{name}")]
        for name in [*packed, "one.warc.gz"]
    }
    expected = contents(by_file["one.warc.gz"])
    assert [row["method"] for row in expected] == ["GET", "POST", "GET", "GET"]
    long = hashlib.sha256(random.Random(1).randbytes(3 << 20)).hexdigest()
    assert expected[2]["payload_digest"] == f"sha256:{long}"
    assert all(row["agrees"] for row in expected)
    for name in packed:
        assert contents(by_file[name]) == expected, name
    shared = {name for name in by_file if said(out, name)["unwritable"]}
    assert shared == {"whole.warc.gz", "blocks.warc.gz"}
    for name in ("plain.warc", "whole.warc.gz"):  # by the place in what is unpacked
        for row in by_file[name]:
            start = row["record_offset"]
            record = data[start : start + row["record_length"]]
            assert record.startswith(b"WARC/1.1\r\n")
            assert row["record_id"].encode() in record


def test_directories_are_looked_through(before, tmp_path):
    deep = before / "2019" / "may"
    deep.mkdir(parents=True)
    (before / "one.warc.gz").rename(deep / "one.warc.gz")
    (deep / "half.warc.gz.open").write_bytes(b"")
    (before / "loop").symlink_to(before)

    done = commands.run("warc", "manifest", before, "-o", tmp_path / "m")

    assert done.returncode == ExitCode.INCOMPLETE, done.stdout
    assert {Path(row["file"]).name for row in rows(tmp_path / "m")} == {
        "one.warc.gz",
        "two.warc.gz",
    }
    assert "half.warc.gz.open is not closed" in done.stderr
    assert f"{before / 'loop'}: it is a link" in done.stderr


def damaged(path, how):
    """Have *how* change the second record of *path*; where that begins."""
    packed = change_members(path, lambda n, record: how(record) if n == 1 else record)
    return len(packed[0])


ODD = {
    "length": (
        lambda r: r.replace(b"Content-Length: ", b"Content-Length: 1", 1),
        "a record that says",
    ),
    "two": (lambda r: r + r, "records share a gzip member"),
    "none": (lambda r: b"\r\n", "no WARC record"),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_record_that_is_wrong_is_named_and_the_others_are_read(
    new_warc, tmp_path, odd
):
    warc = new_warc("one.warc.gz")
    for second in range(1, 5):
        warc.response("http://a.example/", second, PAGE)
    path = warc.close()
    how, reason = ODD[odd]
    at = damaged(path, how)

    done = manifest(path, "-o", tmp_path / "m", code=ExitCode.INCOMPLETE)

    (told,) = done["files_left"]
    assert str(path) in told
    assert reason in told
    assert told.endswith(f"at byte {at:,}")
    assert [row["date"] for row in rows(tmp_path / "m")] == [date(2), date(3), date(4)]

    commands.run("warc", "plan", tmp_path / "m")
    applied = commands.run("warc", "apply", tmp_path / "m", "-o", tmp_path / "out")
    assert (applied.returncode, told in applied.stderr) == (ExitCode.INCOMPLETE, True)


def test_manifest_is_made_only_for_new_and_changed_files(before, tmp_path):
    out = tmp_path / "m"
    manifest(before / "one.warc.gz", "-o", out)
    (first,) = out.glob("one*")
    was = first.stat().st_ino

    done = manifest(before, "-o", out)

    assert (done["files"], done["records"]) == (2, 6)
    assert first.stat().st_ino == was
    path = before / "one.warc.gz"
    path.write_bytes((before / "two.warc.gz").read_bytes())
    assert manifest(before, "-o", out)["records"] == 8
    assert first.stat().st_ino != was
