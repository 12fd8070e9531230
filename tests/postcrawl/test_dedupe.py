"""Deduplication after the crawl, of files that warcio has written."""

import base64
import hashlib
import json
import os
import random
import shutil

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator as Warcio

from frontier.cli.output import ExitCode
from frontier.postcrawl.plan import PLAN
from frontier.warc.reader import HEAD_LIMIT
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.warc.judges import records_in

LONG = random.Random(5).randbytes(600_000)


def run(*words, code=ExitCode.OK):
    """What the command printed as JSON."""
    if words[0] != "plan" and "--workers=2" not in words:
        words = (*words, "--workers=1")
    done = commands.run("warc", *words, "--json")
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def revisits(directory):
    """URL, date, and what each revisit in *directory* refers to."""
    found = {}
    for path in sorted(directory.glob("*.warc*")):
        with path.open("rb") as file:
            for record in Warcio(file, check_digests="raise"):
                headers = record.rec_headers
                record.content_stream().read()
                if record.rec_type == "revisit":
                    at = headers["WARC-Target-URI"], headers["WARC-Date"]
                    to = headers["WARC-Refers-To-Target-URI"]
                    found[at] = to, headers["WARC-Refers-To-Date"]
    return found


def blocks(directory):
    """All records of *directory* as FastWARC reads them: headers and block."""
    found = records_in(sorted(directory.glob("*.warc*")))
    return [(headers["WARC-Record-ID"], block) for headers, block in found]


def test_copies_become_revisits_of_the_earliest_and_responses_again(before, tmp_path):
    out, again, part = (tmp_path / name for name in ("after", "again", "part"))
    done = run("dedupe", before, "-o", out)

    assert (done["files"], done["records"], done["copies"]) == (2, 6, 3)
    assert done["replaced"] == 3
    assert done["copied_bytes"] == 2 * len(PAGE) + len(OTHER)
    assert revisits(out) == {
        ("http://a.example/", date(10)): ("http://a.example/", date(1)),
        ("http://b.example/", date(11)): ("http://a.example/", date(1)),
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2)),
    }
    # What is no copy is the bytes that it was.
    first = "one.warc.gz"
    assert (out / first).read_bytes() == (before / first).read_bytes()
    lines = (out / "two.cdxj").read_text().splitlines()
    mimes = [json.loads(line.split(" ", 2)[2])["mime"] for line in lines]
    assert mimes == ["warc/revisit", "warc/revisit", "text/html", "warc/revisit"]
    # That is proved, and undone.
    proof = run("verify", before, out)
    table = commands.run("warc", "verify", before, out, "--workers=1").stdout
    assert [line.split()[:3] for line in table.splitlines()] == [
        ["records", str(proof["records"])],
        ["as", "before", str(proof["identical"])],
        ["now", "revisits", str(proof["revisits"])],
        ["faults", "0"],
    ]
    assert (proof["identical"], proof["revisits"], proof["faults"]) == (5, 3, 0)
    assert run("restore", out, "-o", again)["replaced"] == 3
    assert blocks(again) == blocks(before)
    assert run("verify", before, again)["faults"] == 0
    assert run("verify", out, again)["restored"] == 3
    # Or a part of it.
    run("restore", out, "-o", part, "--url-prefix", "http://b.example/")
    assert list(revisits(part)) == [("http://a.example/", date(10))]


@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
def test_payloads_of_which_the_second_is_longer_than_what_is_kept_of_a_record(
    new_warc, tmp_path, ending
):
    """It is read again at its place, behind others."""
    for name, second in (("one", 1), ("two", 9)):
        packed = ending == "warc.gz"
        warc = new_warc(f"{name}.{ending}", packed=packed, version="WARC/1.0")
        warc.response("http://a.example/", second, PAGE)
        warc.response(f"http://a.example/{second}", second, OTHER + b"%d" % second)
        warc.response("http://a.example/long", second, LONG * 5)
        warc.close()
    before, out = tmp_path / "before", tmp_path / "after"

    assert run("dedupe", before, "-o", out)["replaced"] == 2
    assert run("verify", before, out)["revisits"] == 2
    again = tmp_path / "again"
    run("restore", out, "-o", again)
    assert blocks(again) == blocks(before)
    if packed:
        return
    # A payload other than the revisit states is not the one that it had.
    path = again / "two.warc"
    path.write_bytes(path.read_bytes().replace(b"one page", b"any page"))
    proof = run("verify", out, again, code=ExitCode.FAULTY)
    assert ["is another" in fault for fault in proof["named"]] == [True]


def test_in_place_an_original_may_have_moved(new_warc, tmp_path):
    """It stands behind a copy, in a file that is written before its copies are."""
    of_files = {"a": {1: PAGE}, "b": {2: PAGE, 3: OTHER}, "c": {4: OTHER}}
    for name, bodies in of_files.items():
        warc = new_warc(f"{name}.warc.gz")
        for second, body in bodies.items():
            warc.response(f"http://a.example/{len(body)}", second, body)
        warc.close()
    files, manifests = tmp_path / "before", tmp_path / "manifests"
    was = blocks(files)
    run("manifest", files, "-o", manifests)
    run("plan", manifests)
    done = run("apply", manifests, "--in-place", "--workers=1")

    assert (done["replaced"], done["records_left"]) == (2, [])
    # A process that was killed just before its last rename leaves this.
    (files / "a.warc.gz.open").write_bytes((files / "a.warc.gz").read_bytes())
    assert run("apply", manifests, "--in-place")["replaced"] == 2
    assert not list(files.glob("*.open"))
    again = tmp_path / "again"
    run("restore", files, "-o", again)
    assert blocks(again) == was


def test_captures_not_eligible_as_revisits_are_kept(new_warc, tmp_path):
    """A status, a part, an answer to a form, and what would be of its own name."""
    warc = new_warc("one.warc.gz")
    warc.response("http://a.example/", 1, PAGE)
    warc.response("http://a.example/", 7, PAGE, status="404 Not Found")
    warc.response("http://a.example/", 8, PAGE, Truncated="length")
    warc.post("http://a.example/", 9, PAGE)
    warc.response("http://a.example/", 1, PAGE)
    warc.close()

    assert run("dedupe", tmp_path / "before", "-o", tmp_path / "after")["copies"] == 0


def test_capture_with_a_wrong_payload_digest_is_kept(new_warc, tmp_path):
    warc = new_warc("one.warc", packed=False)
    warc.response("http://a.example/", 1, PAGE)
    warc.response("http://a.example/", 9, PAGE)
    path = warc.close()
    was, wrong = sha1(PAGE).encode(), b"sha1:" + b"A" * 32
    first, last = path.read_bytes().rsplit(was, 1)
    path.write_bytes(first + wrong + last)

    done = run("dedupe", tmp_path / "before", "-o", tmp_path / "after")

    assert (done["copies"], done["wrong"]) == (0, 1)


def sha1(payload):
    digest = hashlib.sha1(payload, usedforsecurity=False).digest()
    return f"sha1:{base64.b32encode(digest).decode()}"


def chunked(body, size):
    parts = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("body", [PAGE, LONG], ids=["short", "longer than is kept"])
def test_bodies_in_other_chunks_are_no_copies(new_warc, tmp_path, body):
    """With the other's body behind its head, a capture would not be what it was.

    Some tools undo the chunks but leave the header: such a body is one without them.
    """
    warc = new_warc("one.warc.gz")
    coded = [("Transfer-Encoding", "chunked")]
    for second, size in ((1, 100), (2, 70), (3, 100)):
        warc.response(
            "http://a.example/",
            second,
            chunked(body, size),
            headers=coded,
        )
    warc.response("http://a.example/plain", 4, body)
    warc.response("http://a.example/undone", 5, body, headers=coded)
    warc.close()
    before, out, again = (tmp_path / name for name in ("before", "after", "again"))

    assert run("dedupe", before, "-o", out)["replaced"] == 2
    assert run("verify", before, out)["faults"] == 0
    run("restore", out, "-o", again)
    assert blocks(again) == blocks(before)


def test_capture_that_a_revisit_refers_to_is_the_original(new_warc, tmp_path):
    first = new_warc("one.warc.gz")
    first.response("http://a.example/", 1, PAGE)
    first.response("http://b.example/", 2, PAGE)
    first.revisit("http://c.example/", 3, sha1(PAGE), "http://b.example/", 2)
    first.response("http://d.example/", 4, PAGE)
    first.close()
    before, out = tmp_path / "before", tmp_path / "after"

    run("dedupe", before, "-o", out)

    # The one that is referred to is the original: one is enough for all.
    assert revisits(out) == {
        ("http://a.example/", date(1)): ("http://b.example/", date(2)),
        ("http://c.example/", date(3)): ("http://b.example/", date(2)),
        ("http://d.example/", date(4)): ("http://b.example/", date(2)),
    }
    assert run("verify", before, out)["faults"] == 0


def test_a_name_of_two_payloads_is_no_original(new_warc, tmp_path):
    warc = new_warc("one.warc.gz")
    warc.response("http://a.example/", 1, PAGE)
    warc.response("http://a.example/", 1, OTHER)
    warc.response("http://b.example/", 2, PAGE)
    warc.response("http://c.example/", 3, PAGE)
    warc.close()
    out = tmp_path / "after"

    run("dedupe", tmp_path / "before", "-o", out)

    of_b = ("http://b.example/", date(2))
    assert set(revisits(out).values()) == {of_b}
    assert len(revisits(out)) == 2


@pytest.mark.parametrize("url", ["http://b.example/new", "http://a.example/other"])
def test_equal_digests_of_different_payloads_are_found_out(
    before, planned, tmp_path, url
):
    """As if the digest had collided: the plan has another original, or a longer one."""
    out = tmp_path / "after"
    captures = [row for place in planned.glob("*.manifest*") for row in rows_of(place)]
    original = next(row for row in captures if row["url"] == url)
    names = {"file": "file", "id": "record_id", "offset": "record_offset"}
    other = {f"original_{ours}": original[its] for ours, its in names.items()}
    collide(planned, "http://b.example/", lambda _: other)

    done = run("apply", planned, "-o", out, code=ExitCode.INCOMPLETE)

    assert done["replaced"] == 2
    (reason,) = done["records_left"]
    assert "its payload is not that of" in reason
    assert run("verify", before, out)["faults"] == 0


def rows_of(place):
    return pq.read_table(place, partitioning=None).to_pylist()


def collide(manifests, url, other):
    """Have the plan give the copy at *url* what *other* makes of all copies."""
    (part,) = (manifests / PLAN).glob("part=*/*.parquet")  # of the one file with copies
    plan = {row["url"]: row for row in rows_of(part)}
    plan[url] |= other(plan)
    table = pq.read_table(part, partitioning=None)
    pq.write_table(table.from_pylist([*plan.values()], table.schema), part)


def test_a_body_behind_a_head_that_fills_what_is_kept_of_a_record_is_compared(
    new_warc, tmp_path
):
    """As if the digest had collided."""
    around = len("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX: \r\n\r\n")
    headers = {"X": "x" * (HEAD_LIMIT - around)}
    for name, second in (("one", 1), ("two", 10)):
        warc = new_warc(f"{name}.warc.gz")
        warc.response(f"http://{name}.example/", second, PAGE, headers=headers)
        warc.response(f"http://{name}.example/other", second, OTHER, headers=headers)
        warc.close()
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    run("manifest", tmp_path / "before", "-o", manifests)
    run("plan", manifests)
    site = "http://two.example/"

    def other(plan):
        right = plan[f"{site}other"]
        return {name: right[name] for name in right if name.startswith("original_")}

    collide(manifests, site, other)

    done = run("apply", manifests, "-o", out, code=ExitCode.INCOMPLETE)

    assert done["replaced"] == 1
    assert "its payload is not that of" in done["records_left"][0]


def test_verify_misses_a_file_though_another_has_the_same_records(before, tmp_path):
    files, after = tmp_path / "files", tmp_path / "after"
    for name in ("a", "b"):
        (files / name).mkdir(parents=True)
        shutil.copy(before / "one.warc.gz", files / name)
    shutil.copytree(files / "a", after)

    assert run("verify", files, after, code=ExitCode.FAULTY)["faults"] == 3


def test_verify_finds_records_in_whatever_directory_they_are(new_warc, tmp_path):
    """Also if AFTER has more, and other captures of a URL in the same second."""
    runs, turned, out = (tmp_path / name for name in ("runs", "turned", "out"))
    for crawl, second in (("a", 2), ("b", 3)):
        warc = new_warc(f"{crawl}.warc", packed=False)
        warc.response("http://a.example/", 1, b"%d" % second)
        warc.response("http://a.example/", second, PAGE)
        (runs / crawl).mkdir(parents=True)
        shutil.copy(warc.close(), runs / crawl / "same.warc")
    run("dedupe", runs / "a", runs / "b", "-o", out)
    turned.mkdir()
    (out / "a").rename(turned / "b")
    (out / "b").rename(turned / "a")
    before = tmp_path / "before"

    for given, *found in ((runs / "a", 3, 3), (runs / "b", 3, 3), (before, 6, 0)):
        proof = run("verify", given, turned)
        assert [proof["records"], proof["further"]] == found
    # A loss among them is found, and what it does to others.
    (turned / "b" / "same.warc").unlink()
    proof = run("verify", before, turned, code=ExitCode.FAULTY)
    ends = [fault.rpartition(": ")[2] for fault in proof["named"]]
    assert sorted(ends) == ["a revisit of nothing"] + ["the record is gone"] * 3


def test_verify_says_how_many_faults_it_does_not_name(new_warc, tmp_path):
    new_warc("one.warc").close()
    warc = new_warc("two.warc")
    for second in range(120):
        warc.response("http://a.example/", second, PAGE)
    lost = warc.close()
    kept = shutil.copytree(lost.parent, tmp_path / "kept")
    lost.unlink()

    done = commands.run("warc", "verify", kept, lost.parent)

    assert done.stderr.count("the record is gone") == 100
    assert done.stderr.splitlines()[-1] == "and 21 more"


def test_verify_names_a_record_that_was_not_there_before(before, tmp_path):
    after = tmp_path / "after"
    shutil.copytree(before, after)
    with (after / "one.warc.gz").open("ab") as file:
        file.write((after / "two.warc.gz").read_bytes())

    proof = run("verify", before, after, code=ExitCode.FAULTY)

    assert proof["faults"] == len(proof["named"]) == 5
    for fault in proof["named"]:
        assert fault.startswith("one.warc.gz at byte ")
        assert fault.endswith(" after: a record that was not there before")


def state(directory):
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.name.endswith((".warc.gz", ".cdxj"))
    }


def test_files_are_not_written_over_those_that_were_given(before, planned):
    was = state(before)
    for command in ("dedupe", "restore"):
        done = commands.run("warc", command, before, "-o", before)
        assert done.returncode == ExitCode.USAGE, done.stdout
    done = commands.run("warc", "apply", planned, "-o", before)

    assert "--in-place" in done.stderr
    assert state(before) == was


def test_verify_needs_an_original_that_can_be_read(new_warc, tmp_path):
    """Its chunks are broken in AFTER, in a record that is whole."""
    coded = [("Transfer-Encoding", "chunked")]
    for name, second in (("one.warc", 1), ("two.warc", 2)):
        warc = new_warc(name, packed=False)
        warc.response("http://a.example/", second, chunked(PAGE, 100), headers=coded)
        warc.close()
    before, out = tmp_path / "before", tmp_path / "after"
    assert run("dedupe", before, "-o", out)["replaced"] == 1
    path = out / "one.warc"
    path.write_bytes(b"\r\nzz\r\n".join(path.read_bytes().rsplit(b"\r\n64\r\n", 1)))

    proof = run("verify", before, out, code=ExitCode.FAULTY)

    assert any("another payload" in fault for fault in proof["named"]), proof


def test_a_header_cannot_bring_another(new_warc, tmp_path):
    warc = new_warc("one.warc", packed=False)
    warc.response("http://a.example/", 1, PAGE)
    warc.response("http://a.example/", 2, PAGE)
    path = warc.close()
    data = path.read_bytes()
    first = data.index(b"WARC-Type: response")
    at = data.index(b"WARC-Record-ID: <urn:uuid:", first) + 26
    path.write_bytes(data[:at] + b"\nX-Odd: " + data[at + 8 :])

    done = run(
        "dedupe",
        tmp_path / "before",
        "-o",
        tmp_path / "after",
        code=ExitCode.INCOMPLETE,
    )

    (reason,) = done["records_left"]
    assert "a header has a line break in it" in reason
    assert done["replaced"] == 0


def test_written_files_have_the_mode_of_frontier_file_mode(
    before, tmp_path, monkeypatch
):
    monkeypatch.setenv("FRONTIER_FILE_MODE", "0600")
    umask = os.umask(0)
    try:
        run("dedupe", before, "-o", tmp_path / "after")
    finally:
        os.umask(umask)

    files = [path for path in (tmp_path / "after").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
