"""How a plan chooses originals, and what it leaves out."""

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from frontier.cli import app
from frontier.cli.output import ExitCode
from frontier.dedupe.digest import PayloadDigest
from frontier.postcrawl.plan import PLAN_FILES
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import blocks, chunked, revisits, run, sha1, state


def planned(before, manifests, *words, algorithm="sha256", code=ExitCode.OK):
    run("manifest", before, "-o", manifests, "--digest", algorithm)
    return run("plan", manifests, *words, code=code)


@pytest.fixture
def short_digests(monkeypatch):
    """All digests of an algorithm are the same, as if all payloads collided."""
    monkeypatch.setattr(PayloadDigest, "in_hex", lambda one: f"{one.algorithm}:00")


@pytest.fixture
def colliding(new_warc, tmp_path, short_digests):
    """Three contents of one length, and of one digest."""
    warc = new_warc("one.warc.gz")
    for second, body in enumerate(
        [b"aaaa" * 50, b"bbbb" * 50, b"aaaa" * 50, b"cccc" * 50, b"bbbb" * 50], 1
    ):
        warc.response(f"http://a.example/{second}", second, body)
    warc.close()
    return tmp_path / "before"


def test_different_payloads_of_one_digest_are_told_apart_when_one_is_to_go(
    colliding, tmp_path
):
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    done = planned(colliding, manifests, algorithm="md5")
    assert done["copies"] == 4

    done = run("apply", manifests, "-o", out, code=ExitCode.INCOMPLETE)

    assert (done["replaced"], len(done["records_left"])) == (1, 3)
    assert all("its payload is not that of" in why for why in done["records_left"])
    assert revisits(out) == {
        ("http://a.example/3", date(3)): ("http://a.example/1", date(1))
    }
    assert run("verify", colliding, out)["faults"] == 0


def test_several_algorithms_are_told(before, new_warc, tmp_path):
    manifests = tmp_path / "manifests"
    run("manifest", before, "-o", manifests)
    warc = new_warc("three.warc.gz")
    warc.response("http://a.example/", 20, PAGE)
    run("manifest", warc.close(), "-o", manifests, "--digest", "sha512")

    done = run("plan", manifests, code=ExitCode.INCOMPLETE)

    assert done["copies"] == 3
    assert "digests of sha256, sha512" in done["records_left"][0]


def test_the_original_may_be_the_first_of_the_input(new_warc, tmp_path):
    for name, second in (("a.warc.gz", 9), ("b.warc.gz", 1)):
        warc = new_warc(name)
        warc.response(f"http://{name[0]}.example/", second, PAGE)
        warc.close()
    manifests, found = tmp_path / "manifests", []
    for order in ("earliest", "input"):
        out = tmp_path / order
        planned(tmp_path / "before", manifests, "--order", order)
        run("apply", manifests, "-o", out)
        assert run("verify", tmp_path / "before", out)["faults"] == 0
        found.append(set(revisits(out).values()))

    first, last = ("http://a.example/", date(9)), ("http://b.example/", date(1))
    assert found == [{last}, {first}]


def test_of_originals_that_stay_one_of_the_same_url_is_preferred(new_warc, tmp_path):
    """Both have a revisit already, so that both stay what they are."""
    warc = new_warc("one.warc.gz")
    for second, host in ((1, "a"), (2, "b")):
        warc.response(f"http://{host}.example/", second, PAGE)
        of = f"http://{host}.example/", second
        warc.revisit("http://r.example/", second + 2, sha1(PAGE), *of)
    later = ((10, "a"), (11, "b"), (12, "c"))
    for second, host in later:
        warc.response(f"http://{host}.example/", second, PAGE)
    warc.close()
    before, manifests, found = tmp_path / "before", tmp_path / "manifests", []
    for prefer in ("first", "same-url"):
        assert planned(before, manifests, "--prefer", prefer)["copies"] == 3
        out = tmp_path / prefer
        run("apply", manifests, "-o", out)
        assert run("verify", before, out)["faults"] == 0
        made = revisits(out)
        found.append(
            [made[f"http://{host}.example/", date(second)] for second, host in later]
        )

    a, b = ("http://a.example/", date(1)), ("http://b.example/", date(2))
    assert found == [[a, a, a], [a, b, a]]


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
    senseless = [("--order", "last"), ("--prefer", "x")]
    for words in (*senseless, ("--status", ""), ("--status", "ok")):
        done = CliRunner().invoke(app, ["warc", "plan", str(manifests), *words])
        assert words[0] in str(done.exception), words


def test_a_name_of_two_stored_bodies_is_no_original(new_warc, tmp_path):
    """The same payload in other chunks: a revisit of that name would mean either."""
    warc = new_warc("one.warc.gz")
    coded = [("Transfer-Encoding", "chunked")]
    for host, second, size in (
        ("a", 1, 100),
        ("a", 1, 70),
        ("b", 2, 100),
        ("c", 3, 70),
    ):
        body = chunked(PAGE, size)
        warc.response(f"http://{host}.example/", second, body, headers=coded)
    warc.close()
    before, out = tmp_path / "before", tmp_path / "after"

    done = run("dedupe", before, "-o", out)

    assert done["copies"] == 2
    assert run("verify", before, out)["faults"] == 0
    run("restore", out, "-o", tmp_path / "again")
    assert blocks(tmp_path / "again") == blocks(before)


def test_what_each_file_would_lose_is_told(before, new_warc, tmp_path):
    warc = new_warc("three.warc.gz")
    warc.response("http://c.example/", 20, PAGE)
    third = warc.close()
    manifests = tmp_path / "manifests"
    done = planned(before, manifests)

    second = before / "two.warc.gz"
    told = {one["file"]: (one["copies"], one["payload_bytes"]) for one in done["most"]}
    assert told == {
        str(second): (3, 2 * len(PAGE) + len(OTHER)),
        str(third): (1, len(PAGE)),
    }
    assert pq.read_table(manifests / PLAN_FILES).to_pylist() == done["most"]
    shown = CliRunner().invoke(app, ["warc", "plan", str(manifests)])
    assert f"{second}: 3 records of" in shown.stdout


@pytest.mark.parametrize("packed", [True, False], ids=["gzip", "plain"])
def test_a_dry_run_tells_what_apply_does(new_warc, tmp_path, packed):
    name = "one.warc.gz" if packed else "one.warc"
    warc = new_warc(name, packed=packed)
    for second in range(1, 5):
        warc.response("http://a.example/", second, PAGE)
    warc.close()
    before, manifests = tmp_path / "before", tmp_path / "manifests"
    planned(before, manifests)
    was = state(before), sorted(manifests.iterdir())

    dry = run("apply", manifests, "--dry-run")

    assert (state(before), sorted(manifests.iterdir())) == was
    assert run("apply", manifests, "-o", tmp_path / "after") == dry
    assert dry["bytes_after"] == (tmp_path / "after" / name).stat().st_size


def test_a_file_that_changed_before_the_plan_is_named(before, tmp_path):
    manifests = tmp_path / "manifests"
    run("manifest", before, "-o", manifests)
    (before / "one.warc.gz").unlink()

    done = run("plan", manifests, code=ExitCode.INCOMPLETE)

    assert ["one.warc.gz" in reason for reason in done["records_left"]] == [True]
    assert done["copies"] == 1  # within the other file


def test_another_plan_is_not_taken_for_done(before, tmp_path):
    """A second plan to the same directory: files that are there are of the first."""
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    planned(before, manifests, "--min-text-bytes", str(len(PAGE) + 1))
    assert run("apply", manifests, "-o", out)["replaced"] == 1
    planned(before, manifests)

    done = run("apply", manifests, "-o", out, code=ExitCode.INCOMPLETE)

    assert ["is there" in reason for reason in done["files_left"]] == [True, True]
