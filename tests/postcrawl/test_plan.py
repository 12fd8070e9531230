"""How a plan chooses originals, and what it leaves out."""

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, Written, date
from tests.postcrawl.test_dedupe import blocks, revisits, run


def planned(before, manifests, *words, algorithm="sha256", code=ExitCode.OK):
    run("manifest", before, "-o", manifests, "--digest", algorithm)
    return run("plan", manifests, *words, code=code)


def test_manifests_of_several_digest_algorithms_are_reported(
    before, new_warc, tmp_path
):
    manifests = tmp_path / "manifests"
    run("manifest", before, "-o", manifests)
    warc = new_warc("three.warc.gz")
    warc.response("http://a.example/", 20, PAGE)
    run("manifest", warc.close(), "-o", manifests, "--digest", "sha512")

    done = run("plan", manifests, code=ExitCode.INCOMPLETE)

    assert done["copies"] == 3
    assert "digests of sha256, sha512" in done["records_left"][0]


def test_a_policy_leaves_out_what_a_crawl_would(new_warc, tmp_path):
    kinds = [
        (PAGE, "200 OK", []),
        (OTHER, "200 OK", []),
        (b"png" * 100, "200 OK", [("Content-Type", "Image/PNG")]),
        (b"gif" * 1000, "200 OK", [("Content-Type", "image/gif; q=1")]),
        (b"gone" * 100, "404 Not Found", []),
    ]
    copies = {
        (): 4,
        ("--status", "2xx,404"): 5,
        ("--status", "404"): 1,
        ("--mime-include", "image/*"): 2,
        ("--mime-exclude", "image/*,text/css"): 2,
        ("--min-text-bytes", "1181"): 3,
        ("--min-binary-bytes", "901"): 3,
    }
    warc = new_warc("one.warc.gz")
    for second, (body, status, headers) in enumerate(kinds * 2, 1):
        warc.response("http://a.example/", second, body, status=status, headers=headers)
    warc.close()
    before, manifests = tmp_path / "before", tmp_path / "manifests"

    found = {words: planned(before, manifests, *words)["copies"] for words in copies}

    assert found == copies
    for words in (("--status", ""), ("--status", "ok")):
        done = commands.run("warc", "plan", manifests, *words)
        assert words[0] in done.stderr, words


def test_a_file_that_changed_before_the_plan_is_named(before, tmp_path):
    manifests = tmp_path / "manifests"
    run("manifest", before, "-o", manifests)
    (before / "one.warc.gz").unlink()

    done = run("plan", manifests, code=ExitCode.INCOMPLETE)

    assert ["one.warc.gz" in reason for reason in done["records_left"]] == [True]
    assert done["copies"] == 1  # within the other file


def test_output_of_another_plan_is_not_taken_for_done(before, tmp_path):
    """A second plan to the same directory: files that are there are of the first."""
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    planned(before, manifests, "--min-text-bytes", str(len(PAGE) + 1))
    assert run("apply", manifests, "-o", out)["replaced"] == 1
    planned(before, manifests)

    done = run("apply", manifests, "-o", out, code=ExitCode.INCOMPLETE)

    (reason,) = done["files_left"]  # nothing was to be done with the other
    assert "two.warc.gz exists" in reason


def test_output_of_a_file_that_has_changed_since_is_not_taken_for_done(
    before, new_warc, tmp_path
):
    """Nothing was to be done with the file, and nothing is."""
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    planned(before, manifests)
    run("apply", manifests, "-o", out)
    longer = new_warc("one.warc.gz")
    longer.response("http://a.example/third", 3, b"third")
    longer.close()
    planned(before, manifests)

    done = run("apply", manifests, "-o", out, code=ExitCode.INCOMPLETE)

    assert any("one.warc.gz exists" in reason for reason in done["files_left"])


def test_originals_directory_is_read_and_never_changed(before, tmp_path):
    """As of crawls that have stored the payload: it is read before a copy goes."""
    (tmp_path / "crawls").mkdir()
    crawled = Written(tmp_path / "crawls" / "crawl.warc.gz")
    url = "http://crawled.example/"
    for second in (5, 6):
        crawled.response(url, second, PAGE)
    path = crawled.close()
    was, out = path.read_bytes(), tmp_path / "after"
    words = ("--originals", path.parent)

    done = run("dedupe", before, "-o", out, *words)

    assert done["replaced"] == 4
    assert revisits(out) == {
        ("http://a.example/", date(1)): (url, date(5)),
        ("http://a.example/", date(10)): (url, date(5)),
        ("http://b.example/", date(11)): (url, date(5)),
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2)),
    }
    assert path.read_bytes() == was
    assert not (out / path.name).exists()
    proof = run("verify", before, out, *words)
    assert (proof["faults"], proof["revisits"]) == (0, 4)
    again = tmp_path / "again"
    run("restore", out, "-o", again, *words)
    assert blocks(again) == blocks(before)

    manifests = out / "manifests"
    path.write_bytes(was[:300])
    done = run("apply", manifests, "-o", tmp_path / "other", code=ExitCode.INCOMPLETE)
    assert (done["replaced"], len(done["records_left"])) == (1, 3)
    assert "crawl.warc.gz" in done["records_left"][0]
