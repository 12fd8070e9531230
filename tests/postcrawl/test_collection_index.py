"""Copies of what a collection's crawls have stored, which its index in Redis knows."""

import pytest

from frontier.cli.output import ExitCode
from tests.collection.conftest import index, make_index
from tests.postcrawl.conftest import OTHER, PAGE, Written, date
from tests.postcrawl.test_dedupe import blocks, revisits, run

__all__ = ("index", "make_index")
CRAWLED = "http://crawled.example/"


@pytest.fixture
def crawls(index, tmp_path):
    """The files of a crawl that is in the index: it has one page of the collection."""
    directory = tmp_path / "crawls"
    directory.mkdir()
    warc = Written(directory / "crawl.warc.gz")
    warc.response(CRAWLED, 5, PAGE)
    warc.response(f"{CRAWLED}alone", 6, b"what only the crawl has")
    index.put(warc.close(), crawl_id="crawl-1")
    return directory


@pytest.fixture
def words(index, crawls):
    return [
        *("--collection", index.name, "--redis-url", index.url),
        *("--originals", crawls),
    ]


def test_copies_of_what_a_crawl_has_stored_become_revisits(
    before, crawls, words, tmp_path
):
    out, crawled = tmp_path / "after", (crawls / "crawl.warc.gz").read_bytes()

    done = run("dedupe", before, "-o", out, *words)

    assert (done["indexed"], done["unreachable"], done["replaced"]) == (1, 0, 4)
    assert revisits(out) == {
        ("http://a.example/", date(1)): (CRAWLED, date(5)),
        ("http://a.example/", date(10)): (CRAWLED, date(5)),
        ("http://b.example/", date(11)): (CRAWLED, date(5)),
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2)),
    }
    assert (crawls / "crawl.warc.gz").read_bytes() == crawled
    assert not (out / "crawl.warc.gz").exists()
    proof = run("verify", before, out, "--originals", crawls)
    assert (proof["faults"], proof["revisits"]) == (0, 4)
    again = tmp_path / "again"
    run("restore", out, "-o", again, "--originals", crawls)
    assert blocks(again) == blocks(before)


def test_what_the_index_has_stays_what_it_is(index, before, tmp_path):
    """Crawls refer to it, though an earlier capture has its payload."""
    index.put(before / "two.warc.gz", crawl_id="crawl-1")
    out = tmp_path / "after"

    done = run(
        *("dedupe", before, "-o", out, "--originals", before),
        *("--collection", index.name, "--redis-url", index.url),
    )

    assert (done["indexed"], done["unreachable"]) == (3, 0)
    assert revisits(out) == {
        ("http://a.example/", date(1)): ("http://a.example/", date(10)),
        ("http://b.example/", date(11)): ("http://a.example/", date(10)),
        ("http://a.example/other", date(2)): ("http://b.example/other", date(13)),
    }
    assert run("verify", before, out)["faults"] == 0


def test_an_original_that_is_in_no_file_makes_no_copy(before, crawls, words, tmp_path):
    other = Written(crawls / "other.warc.gz")
    other.response(CRAWLED, 7, PAGE)  # not the capture that the index has
    other.close()
    (crawls / "crawl.warc.gz").unlink()
    out = tmp_path / "after"

    done = run("dedupe", before, "-o", out, *words, code=ExitCode.INCOMPLETE)

    assert (done["indexed"], done["unreachable"], done["replaced"]) == (1, 1, 3)
    assert done["records_left"] == [
        f"the original that the index has is in no file: {CRAWLED} of {date(5)}"
    ]
    assert run("verify", before, out)["faults"] == 0


@pytest.mark.parametrize("how", ["other payload", "cut off", "gone"])
def test_an_original_is_read_before_its_copy_goes(before, crawls, words, tmp_path, how):
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    run("manifest", before, "-o", manifests)
    assert run("plan", manifests, *words)["copies"] == 4
    path = crawls / "crawl.warc.gz"
    if how == "other payload":
        warc = Written(path)
        warc.response(CRAWLED, 5, OTHER)
        warc.close()
    elif how == "cut off":
        path.write_bytes(path.read_bytes()[:300])
    else:
        path.unlink()

    done = run("apply", manifests, "-o", out, code=ExitCode.INCOMPLETE)

    assert (done["replaced"], len(done["records_left"])) == (1, 3)
    assert "crawl.warc.gz" in done["records_left"][0]
    assert run("verify", before, out)["faults"] == 0


def test_a_name_of_two_payloads_in_the_crawls_files_is_no_original(
    before, crawls, words, tmp_path
):
    warc = Written(crawls / "other.warc.gz")
    warc.response(CRAWLED, 5, OTHER)
    warc.close()

    done = run("dedupe", before, "-o", tmp_path / "after", *words)

    assert done["indexed"] == 1
    assert revisits(tmp_path / "after") == {
        ("http://a.example/", date(10)): ("http://a.example/", date(1)),
        ("http://b.example/", date(11)): ("http://a.example/", date(1)),
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2)),
    }


def test_another_state_of_the_index_is_another_plan(
    index, before, crawls, words, tmp_path
):
    manifests = tmp_path / "manifests"
    run("manifest", before, "-o", manifests)
    first = run("plan", manifests, *words)
    assert run("plan", manifests, *words)["id"] == first["id"]
    warc = Written(crawls / "second.warc.gz")
    warc.response(f"{CRAWLED}other", 8, OTHER)
    index.put(warc.close(), crawl_id="crawl-2")

    second = run("plan", manifests, *words)

    assert (first["copies"], second["copies"]) == (4, 5)
    assert first["id"] != second["id"]
    assert run("plan", manifests)["indexed"] is None
