"""A part of a collection is restored, or taken out with what it needs."""

import re

import pytest

from frontier.cli.output import ExitCode
from frontier.wacz.create import create
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import blocks, revisits, run, sha1
from tests.postcrawl.test_removal import unnamed

SIZES = re.compile(rb"(PK\x01\x02.{16}).{8}", re.DOTALL)
FLAGS = re.compile(rb"(PK\x01\x02.{4}|PK\x03\x04..)\0", re.DOTALL)
"""Of the members of a zip file."""


@pytest.fixture
def deduplicated(before, tmp_path):
    out = tmp_path / "after"
    run("dedupe", before, "-o", out)
    return out


def test_records_listed_in_a_cdx_index_are_restored(before, deduplicated, tmp_path):
    index, again = tmp_path / "some.cdxj", tmp_path / "again"
    lines = (deduplicated / "two.cdxj").read_text().splitlines(keepends=True)
    (chosen,) = [line for line in lines if "b.example/other" in line]
    index.write_text(f"!meta\n{chosen}")

    done = run("restore", deduplicated, "-o", again, "--cdx", index)

    assert done["replaced"] == 1
    left = [("http://a.example/", date(10)), ("http://b.example/", date(11))]
    assert list(revisits(again)) == left
    assert blocks(before)[-1] == blocks(again)[-1]
    index.write_text("com,example)/ 2020 {}\n")
    words = ["restore", deduplicated, "-o", again, "--cdx", index]
    refused = commands.run("warc", *words)
    assert f"{index}:1: " in refused.stderr


def test_output_of_another_selection_is_not_taken_for_done(deduplicated, tmp_path):
    words = ("restore", deduplicated, "-o", tmp_path / "again", "--url-prefix")
    run(*words, "http://a.example/")

    done = run(*words, "http://b.example/", code=ExitCode.INCOMPLETE)

    (reason,) = done["files_left"]
    assert "two.warc.gz exists" in reason


def test_originals_may_be_in_a_wacz(before, deduplicated, tmp_path):
    first, second = (deduplicated / f"{n}.warc.gz" for n in ("one", "two"))
    wacz, again = tmp_path / "packages" / "one.wacz", tmp_path / "again"
    create(wacz, [first])
    first.unlink()
    was = wacz.read_bytes()
    alone = run("restore", second, "-o", tmp_path / "alone", code=ExitCode.INCOMPLETE)
    assert (alone["replaced"], len(alone["records_left"])) == (0, 3)

    done = run("restore", second, "-o", again, "--originals", wacz.parent)

    assert (done["written"], done["replaced"]) == (1, 3)
    assert blocks(again) == blocks(before)[3:]
    assert wacz.read_bytes() == was
    # A directory's WARC files are not those that were taken out of the WACZ.
    assert run("manifest", again, "-o", tmp_path / "manifests")["files"] == 1
    proof = run("verify", tmp_path / "again", deduplicated, "--originals", wacz)
    assert (proof["faults"], proof["revisits"]) == (0, 3)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-30], "not a sound zip file"),
        (lambda data: b"no zip", "not a sound zip file"),
        (lambda data: SIZES.sub(rb"\1" + b"\xff\xff\xff\0" * 2, data), "is cut off"),
        (lambda data: FLAGS.sub(b"\\1\1", data), "is encrypted"),
        (lambda data: data.replace(b"archive/one", b"archive/../"), "leads out of"),
    ],
)
def test_a_wacz_that_cannot_be_used_is_named(deduplicated, tmp_path, damage, reason):
    first, second = (deduplicated / f"{n}.warc.gz" for n in ("one", "two"))
    wacz, again = tmp_path / "one.wacz", tmp_path / "again"
    create(wacz, [first])
    wacz.write_bytes(damage(wacz.read_bytes()))

    done = run(
        *("restore", second, "-o", again, "--originals", wacz), code=ExitCode.INCOMPLETE
    )

    assert any(reason in each for each in done["files_left"]), done["files_left"]
    assert done["replaced"] == 0


def test_an_extract_carries_the_originals_that_it_needs(before, deduplicated, tmp_path):
    extract = tmp_path / "extract"
    prefix = ("--url-prefix", "http://b.example/other")
    done = run("restore", deduplicated, "-o", extract, *prefix, "--with-originals")

    found = [(record_id, len(block)) for record_id, block in blocks(extract)]
    whole = {record_id: len(block) for record_id, block in blocks(deduplicated)}
    assert all(whole[record_id] == size for record_id, size in found)
    # Two warcinfos, the original and its revisit.
    assert (len(found), done["left_out"]) == (4, 4)
    assert revisits(extract) == {
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2))
    }
    # By itself it can be taken apart.
    run("restore", extract, "-o", tmp_path / "again")
    assert blocks(tmp_path / "again")[-1] == blocks(before)[-1]
    again = run("restore", deduplicated, "-o", extract, *prefix, "--with-originals")
    assert again == done


def test_an_extract_names_what_it_needs_and_does_not_have(new_warc, tmp_path):
    """Of three revisits one has an original, whose date is more precise."""
    warc = new_warc("one.warc", packed=False)
    warc.revisit("http://b.example/digest", 8, sha1(PAGE), "http://a.example/", 1)
    unnamed(warc.close())
    warc = new_warc("two.warc.gz")
    warc.response("http://a.example/", 1, PAGE, Date=date(1).replace("Z", ".123456Z"))
    warc.response("http://a.example/", 2, OTHER)
    warc.revisit("http://b.example/", 9, sha1(PAGE), "http://a.example/", 1)
    warc.revisit("http://b.example/gone", 9, sha1(PAGE), "http://gone.example/", 2)
    warc.close()
    words = ("--with-originals", "--url-prefix", "http://b.example/")
    out = tmp_path / "extract"

    done = run(
        *("restore", tmp_path / "before", "-o", out, *words), code=ExitCode.INCOMPLETE
    )

    names_none, gone = done["records_left"]
    assert "names no capture" in names_none
    assert f"http://gone.example/ of {date(2)}" in gone
    assert done["left_out"] == 1
    assert len(blocks(out)) == 2 + 4
