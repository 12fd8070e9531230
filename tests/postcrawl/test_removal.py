"""Captures leave files, and what refers to them keeps what it was."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from frontier.cli.output import ExitCode
from frontier.dedupe.digest import in_hex
from frontier.postcrawl import rewriting
from frontier.warc.records import RULES_URN
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import (
    blocks,
    revisits,
    run,
    sha1,
    state,
)
from tests.warc.judges import records_in

TARGET = "http://a.example/"


@pytest.fixture
def collection(before, new_warc, tmp_path):
    rules, out = new_warc("rules.warc.gz"), tmp_path / "after"
    rules.fields(RULES_URN, 1, "rules: scrapy")
    rules.close()
    run("dedupe", before, "-o", out)
    shutil.rmtree(out / "manifests")
    return out


def everything(directory):
    """All bytes of the files, unpacked."""
    found = records_in(sorted(directory.glob("*.warc*")))
    return b"".join(str(headers).encode() + block for headers, block in found)


def listed(directory):
    texts = [path.read_text() for path in directory.glob("*.cdxj")]
    lines = [line for text in texts for line in text.splitlines()]
    return sorted(json.loads(line.split(" ", 2)[2])["url"] for line in lines)


def test_a_url_leaves_and_its_revisits_become_responses_first(before, collection):
    was, files = dict(blocks(before)), state(collection)
    words = ["remove", collection, "--url", TARGET, "--reason", "case 7"]
    told = run(*words, code=ExitCode.USAGE)
    assert (len(told["records"]), told["dependent"], told["written"]) == (2, 1, 0)
    asked = commands.run("warc", *words)
    assert "2 records to remove" in asked.stdout
    assert asked.stderr == "frontier: nothing was removed; add --yes to remove them\n"
    assert state(collection) == files

    done = run(*words, "--yes")

    assert [(one["type"], one["url"], one["date"]) for one in done["records"]] == [
        ("response", TARGET, date(1)),
        ("revisit", TARGET, date(10)),
    ]
    assert done["dependent"] == 1
    assert f"{TARGET}'" not in str(everything(collection))
    now = dict(blocks(collection))
    stayed = [record_id for record_id in was if record_id in now]
    # Two have left; a third is a revisit, of what stays.
    assert len(stayed) == len(was) - 3
    assert all(now[record_id] == was[record_id] for record_id in stayed)
    assert revisits(collection) == {
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2))
    }
    assert listed(collection) == [
        "http://a.example/other",
        "http://b.example/",
        "http://b.example/new",
        "http://b.example/other",
    ]
    # All else is what it was.
    proof = run("verify", before, collection, code=ExitCode.FAULTY)
    assert (proof["faults"], proof["revisits"]) == (2, 1)
    # A tombstone tells which record it was, and why.
    files = sorted(collection.glob("*.warc.gz"))
    found = [
        (headers["WARC-Refers-To"], headers["WARC-Date"], block)
        for headers, block in records_in(files)
        if headers["WARC-Type"] == "metadata" and "WARC-Refers-To" in headers
    ]
    for path in files:
        words = [Path(sys.executable).parent / "warcio", "check", path]
        assert subprocess.run(words, check=False).returncode == 0
    assert found == [
        (one["record_id"], one["date"],
         f"removed: {one['type']}\r\nreason: case 7\r\n".encode())
        for one in done["records"]
    ]  # fmt: skip


def test_a_record_leaves_with_its_request(new_warc, tmp_path):
    warc = new_warc("one.warc.gz")
    first = warc.response(TARGET, 1, PAGE)
    warc.post("http://a.example/form", 2, OTHER)
    second = warc.response(TARGET, 3, PAGE)
    warc.close()
    before = tmp_path / "before"
    ids = [record_id for record_id, _ in blocks(before)]
    index = tmp_path / "list"
    index.write_text(f"# a case\n{first}\n{ids[2].strip('<>')}\n")

    done = run("remove", before, "--list", index, "--yes")

    assert [one["type"] for one in done["records"]] == [
        "response",
        "response",
        "request",
    ]
    left = [record_id for record_id, _ in blocks(before)]
    assert [record_id in left for record_id in (first, second, *ids[2:4])] == [
        False,
        True,
        False,
        False,
    ]


def test_unreadable_file_stops_the_removal(collection):
    two = collection / "two.warc.gz"
    two.write_bytes(two.read_bytes()[:-20])
    was = state(collection)

    done = run("remove", collection, "--url", TARGET, "--yes", code=ExitCode.INCOMPLETE)

    assert (done["records"], len(done["files_left"])) == ([], 1)
    assert state(collection) == was


def unnamed(path):
    """Take away what the revisits of *path* refer to: a header of another name."""
    data = path.read_bytes()
    for header in (b"WARC-Refers-To-Target-URI", b"WARC-Refers-To-Date"):
        data = data.replace(header, b"X" * len(header))
    path.write_bytes(data)


@pytest.mark.parametrize("named", ["a digest", "a date that is less precise"])
def test_a_revisit_that_does_not_name_all_becomes_a_response_first(
    new_warc, tmp_path, named
):
    """As crawlers before WARC 1.1 wrote them, and others."""
    warc = new_warc("one.warc", packed=False)
    warc.response(TARGET, 1, PAGE, Date=date(1).replace("Z", ".123456Z"))
    warc.revisit("http://b.example/", 9, sha1(PAGE), TARGET, 1)
    path, before = warc.close(), tmp_path / "before"
    if named == "a digest":
        unnamed(path)

    done = run("remove", before, "--url", TARGET, "--yes")

    assert (len(done["records"]), done["dependent"]) == (1, 1)
    assert PAGE in everything(before)
    assert (revisits(before), listed(before)) == ({}, ["http://b.example/"])


@pytest.mark.parametrize("names", [True, False], ids=["capture", "digest"])
def test_original_is_kept_if_its_revisit_cannot_be_restored(new_warc, tmp_path, names):
    """The capture that it names has another payload, or is one of those that are read
    to find which has the digest that it names alone."""
    warc = new_warc("one.warc", packed=False)
    warc.response(TARGET, 1, PAGE)
    warc.response(TARGET, 2, OTHER)
    md5 = hashlib.md5(PAGE, usedforsecurity=False).hexdigest()
    digest = sha1(b"something else") if names else f"md5:{md5}"
    warc.revisit("http://b.example/", 9, digest, TARGET, 1)
    path, before = warc.close(), tmp_path / "before"
    if not names:
        unnamed(path)
    words = ["remove", before, "--url", TARGET, "--yes"]

    done = run(*words, code=ExitCode.INCOMPLETE)

    assert [one["date"] for one in done["records"]] == [date(2)]
    assert f"{TARGET} of {date(1)} stays" in done["records_left"][-1]
    assert PAGE in everything(before)
    assert OTHER not in everything(before)


@pytest.mark.parametrize("how", ["cut off", "gone"])
def test_file_damaged_during_a_removal_stops_it(collection, monkeypatch, how):
    """It is damaged while others' revisits become responses."""
    one = collection / "one.warc.gz"

    perform = rewriting.perform

    def damaging(*given, **more):
        done = perform(*given, **more)
        if how == "gone":
            one.rename(one.with_suffix(".away"))
        else:
            one.write_bytes(one.read_bytes()[:-20])
        return done

    monkeypatch.setattr(rewriting, "perform", damaging)

    done = run(
        "remove",
        collection,
        "--url",
        TARGET,
        "--yes",
        "--workers=1",
        code=ExitCode.INCOMPLETE,
    )

    assert (done["records"], done["dependent"], done["written"]) == ([], 1, 1)
    assert "one.warc.gz" in str(done["files_left"])


def test_urls_equal_in_replay_are_reported_as_near_misses(new_warc, tmp_path):
    near = [
        "http://a.example/p?b=1#top",
        "http://www.A.example/p?b=1",
        "https://a.example/p?b=1",
    ]
    warc = new_warc("one.warc.gz")
    for second, url in enumerate(["http://a.example/p?b=1", *near], 1):
        warc.response(url, second, PAGE)
    warc.response("http://a.example/p?b=2", 9, PAGE)
    warc.close()
    words = ["remove", tmp_path / "before", "--url", "http://a.example/p?b=1"]

    done = run(*words, "--yes")
    assert (len(done["records"]), done["near_misses"]) == (1, near)
    again = run(*words[:2], "--replay", "http://a.example/p?b=1", "--yes")
    assert (len(again["records"]), again["near_misses"]) == (3, [])


def test_removal_reports_only_the_records_that_left(new_warc, tmp_path):
    """Where one of two files would be written is a directory."""
    for name in ("kept", "open"):
        warc = new_warc(f"{name}.warc.gz")
        warc.response(TARGET, 1 + len(name), PAGE + name.encode())
        warc.response(f"{TARGET}{name}", 1, PAGE)
        warc.close()
    before = tmp_path / "before"
    (before / "kept.warc.gz.open").mkdir()

    done = run("remove", before, "--url", TARGET, "--yes", code=ExitCode.INCOMPLETE)

    assert [Path(one["file"]).name for one in done["records"]] == ["open.warc.gz"]
    assert "kept.warc.gz" in str(done["files_left"])
    (before / "kept.warc.gz.open").rmdir()
    assert PAGE + b"kept" in everything(before)


def test_removal_of_an_unknown_url_is_reported(collection):
    words = ["remove", collection, "--url", "http://nowhere.example/"]
    told = "frontier: nothing to remove was found in the files given"
    for more in ([], ["--yes"]):
        done = commands.run("warc", *words, *more)
        assert done.returncode == ExitCode.NOT_FOUND
        assert done.stderr.splitlines() == [told]


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (["--url-prefix", TARGET], {f"{TARGET}other"}),
        (["--host", "A.example"], {f"{TARGET}other"}),
        (["--replay", "HTTPS://www.a.example"], set()),
    ],
)
def test_a_takedown_names_more_than_one_url(collection, words, others):
    left = set(listed(collection))
    done = run("remove", collection, *words, "--yes")
    assert {one["url"] for one in done["records"]} == {TARGET} | others
    assert set(listed(collection)) == left - {TARGET} - others


def test_a_takedown_that_makes_no_sense_is_refused(collection):
    """Of everything by mistake, or of a payload that is none."""
    was, both = state(collection), (sha1(PAGE), hashlib.sha256(PAGE).hexdigest())
    refused = [
        ["--url-prefix", "http"],
        ["--host", ""],
        ["--replay", ""],
        ["--payload", "sha1:nothing"],
        ["--payload", sha1(b"")],
        ["--payload", both[0], "--payload", both[1]],
    ]
    for words in refused:
        done = commands.run("warc", "remove", collection, *words, "--yes")
        assert words[0] in done.stderr, words
    assert state(collection) == was


@pytest.mark.parametrize("spell", ["sha1", "sha256", "hex"])
def test_a_takedown_names_a_payload(new_warc, tmp_path, spell):
    """Revisits leave with it: by their digest, or where that is another or missing."""
    warc = new_warc("one.warc", packed=False)
    warc.response(TARGET, 1, PAGE)
    warc.post("http://a.example/form", 2, PAGE)
    md5 = hashlib.md5(PAGE, usedforsecurity=False).hexdigest()
    for second, digest in enumerate((sha1(PAGE), f"md5:{md5}", "none"), 10):
        warc.revisit(f"http://b.example/{digest}", second, digest, TARGET, 1)
    warc.revisit("http://b.example/last", 19, "none", "http://b.example/none", 12)
    stays = warc.response(TARGET, 20, OTHER)
    warc.revisit("http://b.example/other", 21, sha1(OTHER), TARGET, 20)
    warc.close()
    before = tmp_path / "before"
    sha256 = hashlib.sha256(PAGE).hexdigest()
    digest = {"sha1": sha1(PAGE), "sha256": f"sha256:{sha256}", "hex": sha256}[spell]

    done = run("remove", before, "--payload", digest, "--yes")

    assert len(done["records"]) == 7
    assert done["payloads_left"] == {}
    assert PAGE not in everything(before)
    left = [one for one in captures(before) if one[1] != "request"]
    assert [kind for _, kind in left] == ["response", "revisit"]
    assert left[0][0] == stays
    run("remove", before, "--payload", digest, code=ExitCode.NOT_FOUND)


def captures(directory):
    """Id and type of all records that are no tombstones and no warcinfo."""
    return [
        (headers["WARC-Record-ID"], headers["WARC-Type"])
        for headers, _ in records_in(sorted(directory.glob("*.warc*")))
        if headers["WARC-Type"] not in {"metadata", "warcinfo"}
    ]


@pytest.mark.parametrize("more", [[], ["--yes"]])
def test_captures_left_with_the_removed_payload_are_counted(collection, more):
    code = ExitCode.OK if more else ExitCode.USAGE
    done = run("remove", collection, "--url", TARGET, *more, code=code)
    assert done["payloads_left"] == {in_hex(sha1(PAGE)): 1}
    if more:
        run("remove", collection, "--payload", sha1(PAGE), "--yes")
        assert "http://b.example/" not in listed(collection)
