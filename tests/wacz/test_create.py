import gzip
import hashlib
import io
import json
import os
import random
import sys
import zipfile
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator

from frontier.cdx.lines import parse
from frontier.errors import BadWacz, BadWarc, FileTaken
from frontier.wacz.check import check
from frontier.wacz.create import Options, create, warc_files
from frontier.wacz.layout import index_lines
from frontier.warc.cdxj_sidecar import Listing
from tests.harness import commands

SCRIPTS = Path(sys.executable).parent
PAGES = [b"<title>One &amp; two</title>", b"<p>two</p>", b"<p>three</p>"]


def test_created_wacz_passes_our_check_and_the_official_validator(tmp_path, write_warc):
    warcs = warc_files([write_warc("c-1", PAGES, "a"), write_warc("c-1", PAGES, "b")])
    out = tmp_path / "c-1.wacz"

    made = create(out, warcs, Options(seeds=frozenset({"http://example.com/0"})))

    assert (made.captures, made.pages, made.requires) == (6, 6, [])
    assert check(out) == []
    judged = commands.output_of([SCRIPTS / "wacz", "validate", "-f", out])
    assert "Validation succeeded" in judged
    with zipfile.ZipFile(out) as archive:
        first = json.loads(archive.read("pages/pages.jsonl").splitlines()[1])
        stored = {i.filename: i for i in archive.infolist() if "archive/" in i.filename}
    assert first["title"] == "One & two"
    assert first["seed"] is True
    assert len(stored) == 2  # the files of both nodes
    assert all(i.compress_type == zipfile.ZIP_STORED for i in stored.values())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c-1.wacz", "warcs"]


def test_the_index_leads_to_the_records(tmp_path, write_warc):
    out = tmp_path / "c.wacz"
    create(out, warc_files([write_warc("c-1", [*PAGES, PAGES[0]])]))

    with zipfile.ZipFile(out) as archive:
        lines = [parse(raw) for raw in index_lines(archive)]
        for line in lines:
            with archive.open("archive/" + line.filename) as stream:
                stream.seek(line.offset)
                member = stream.read(line.length)
            (record,) = ArchiveIterator(io.BytesIO(member))
            assert record.headers["WARC-Target-URI"] == line.url
            assert record.headers["WARC-Payload-Digest"] == line.digest
    assert [line.kind for line in lines] == ["response"] * 3 + ["revisit"]


def test_a_file_may_be_without_compression_as_its_name_says(tmp_path, write_warc):
    (packed,) = write_warc("c-1", [*PAGES, PAGES[0]]).glob("*.warc.gz")
    directory, out = tmp_path / "given", tmp_path / "c.wacz"
    data = packed.read_bytes()
    directory.mkdir()
    (directory / "a.warc").write_bytes(data)
    with pytest.raises(BadWarc, match="gzip, which a .warc is not"):
        create(out, warc_files([directory]))
    (directory / "a.warc").write_bytes(gzip.decompress(data))

    made = create(out, warc_files([directory]), Options(strict=True))

    assert (made.captures, check(out)) == (4, [])
    with zipfile.ZipFile(out) as archive:
        stored = archive.read("archive/a.warc")
        lines = [parse(raw) for raw in index_lines(archive)]
    for line in lines:
        (record,) = ArchiveIterator(io.BytesIO(stored[line.offset :][: line.length]))
        assert record.headers["WARC-Target-URI"] == line.url


def test_a_file_that_no_reader_would_look_for_is_refused(tmp_path, write_warc):
    (path,) = write_warc("c-1", PAGES).glob("*.warc.gz")

    with pytest.raises(BadWacz, match="its name ends in none of"):
        create(tmp_path / "c.wacz", [path.rename(tmp_path / "a.gz")])


def test_requires_names_the_file_with_the_originals(tmp_path, write_warc):
    first, other, second = (tmp_path / f"{name}.wacz" for name in ("1", "x", "2"))
    directory = write_warc("c-1", PAGES)
    create(first, warc_files([directory], crawl_id="c-1"))
    write_warc("x-1", [b"nothing of it"])
    create(other, warc_files([directory], crawl_id="x-1"))
    write_warc("c-2", [PAGES[0], b"<p>changed</p>", PAGES[2]])
    warcs = warc_files([directory], crawl_id="c-2")
    for path in warcs:  # what is noted of the revisits is as good as their records
        Listing().write(path)

    made = create(second, warcs, Options(against=(other, first)))
    assert made.read == 0

    digest = hashlib.sha256(first.read_bytes()).hexdigest()
    needed = {"filename": "1.wacz", "hash": digest, "size": first.stat().st_size}
    assert made.requires == [needed]
    assert made.missing == 0
    assert check(second, [first]) == []

    for path in directory.glob("*.cdxj"):
        path.unlink()
    alone = tmp_path / "alone.wacz"
    assert create(alone, warcs).missing == 2
    assert [text[:10] for text in check(alone)] == ["unresolved"] * 2

    write_warc("d-1", [b"something else"])
    create(first, warc_files([directory], crawl_id="d-1"), Options(replace=True))
    complaints = check(second, [first])
    assert any("another hash" in text for text in complaints)
    assert sum(text.startswith("unresolved") for text in complaints) == 2


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_that_changes_while_it_is_copied_is_named(tmp_path, write_warc, change):
    (path,) = write_warc("c-1", [random.Random(1).randbytes(3 << 20)]).iterdir()
    size = path.stat().st_size

    def changed(_):
        os.truncate(path, size + change)

    with pytest.raises(BadWacz, match="changes its size while it is copied") as error:
        create(tmp_path / "c.wacz", [path], progress=changed)

    assert path.name in str(error.value)
    assert [each.name for each in tmp_path.iterdir()] == ["warcs"]


def test_two_files_of_one_name_are_refused(tmp_path, write_warc):
    (path,) = write_warc("c-1", PAGES).iterdir()
    twin = tmp_path / path.name
    twin.write_bytes(path.read_bytes())

    with pytest.raises(BadWacz, match="has the same name"):
        warc_files([path, twin])


def test_existing_wacz_is_not_overwritten_without_force(tmp_path, write_warc):
    directory, out = write_warc("c-1", PAGES), tmp_path / "c.wacz"
    out.write_bytes(b"dear")
    words = ["wacz", "create", out, directory]

    refused = commands.run(*words)

    assert refused.returncode == 2
    assert refused.stderr == f"frontier: {out} exists; add --force to overwrite it\n"
    assert out.read_bytes() == b"dear"
    with pytest.raises(FileTaken):  # as a node does whose settings want a WACZ
        create(out, warc_files([directory]))
    forced = commands.run(*words, "--force")
    assert forced.returncode == 0, forced.stderr
    assert check(out) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.wacz", "warcs"]


def test_while_it_is_made_nobody_else_reads_a_file_of_it(write_warc, tmp_path):
    out, seen = tmp_path / "made" / "a.wacz", {}

    def look(_):
        for path in out.parent.iterdir():
            seen[path.name] = path.stat().st_mode & 0o777

    before = os.umask(0)
    try:
        warcs = warc_files([write_warc("c-1", PAGES, "a")])
        create(out, warcs, Options(mode=0o600), look)
    finally:
        os.umask(before)

    assert seen == {"a.wacz.open": 0o600}


def test_open_file_of_a_killed_node_is_skipped_and_sets_the_exit_code(
    tmp_path, write_warc
):
    directory, out = write_warc("c-1", PAGES, "a"), tmp_path / "c.wacz"
    write_warc("c-1", [b"<p>four</p>"], "b")
    (left,) = directory.glob("*-b.warc.gz")
    left = left.rename(f"{left}.open")
    words = ["wacz", "create", out, directory]
    done = commands.run(*words)

    assert done.returncode == 6
    why = "it is still being written, or to be repaired (frontier warc repair)"
    assert done.stderr == f"frontier: {left} is skipped: {why}\n"
    assert done.stdout.startswith(f"{out}: 3 captures, 3 pages\n")
    checked = commands.run("wacz", "check", out)
    assert checked.returncode == 7
    why = f"incomplete: {left.name} was left out when it was made"
    assert checked.stdout == f"{out}: {why}\n"
    assert commands.run(*words, "--force", "--strict").returncode == 6
    other = commands.run(*words, "--force", "--crawl", "d-1")
    assert "is skipped" not in other.stderr
    left.rename(directory / "c.warc.gz")
    assert commands.run(*words, "--force").returncode == 0
    assert commands.run("wacz", "check", out).stdout == f"{out}: sound\n"
