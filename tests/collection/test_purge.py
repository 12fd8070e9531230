"""Crawls are taken out of a collection, or nothing happens."""

import json

import pytest

from frontier.collection.purge import (
    Captures,
    plan,
    purge,
    remove_captures,
)
from frontier.errors import CollectionInUse
from tests.collection.samples import digest, line, make_manifest, make_wacz, resource


@pytest.fixture
def three(index, tmp_path):
    """Three crawls, that share payload 1; the manifest that lists them all."""
    found = []
    for name, lines in {
        "a": [line(1, size=3000), line("only-a")],
        "b": [line(1, size=4000), line("b")],
        "c": [line(1, size=5000), line("c")],
    }.items():
        wacz = make_wacz(tmp_path / f"{name}.wacz", lines)
        found.append(resource(wacz, name))
    path = make_manifest(tmp_path / "all.json", found)
    index.put(path)
    return path


def without(manifest, *crawls):
    found = json.loads(manifest.read_text())["resources"]
    kept = [each for each in found if each["crawlId"] not in crawls]
    return make_manifest(manifest.parent / "kept.json", kept)


def test_a_purge_keeps_what_the_others_have(index, three):
    sizes = {
        each["crawlId"]: each["size"]
        for each in json.loads(three.read_text())["resources"]
    }

    code, out, err = index.run("purge", without(three, "a"), "--yes", "--json")

    assert code == 0, err
    assert json.loads(out) == {
        "kept": ["b", "c"],
        "removed": ["a"],
        "unknown": [],
        "digests_before": 4,
        "digests": 3,
    }
    found = index.everything()
    assert found["alldupes"] == {digest(1): "b", digest("b"): "b", digest("c"): "c"}
    assert found["allcrawls"] == {"b", "c"}
    assert found["src:d"] == {"b.wacz", "c.wacz"}
    assert found["allcounts"] == {
        "totalUrls": "4",
        "totalCrawlSize": str(sizes["b"] + sizes["c"]),
        "updateProgress": "1",
    }
    assert not [key for key in found if ":a" in key or key.startswith("purge:")]


def test_a_purge_tells_its_plan_and_waits_for_yes(index, three):
    before = index.everything()

    code, out, err = index.run("purge", without(three, "a", "b"))

    assert code == 2
    assert "a b" in out
    assert "--yes" in err
    assert index.everything() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        '{"resources": []}',
        '{"resources": [{"path": "x.wacz", "crawlId": "other"}]}',
        '{"resources": [{"path": "b.wacz", "crawlId": "b"}, {"crawlId": "c"}]}',
    ],
)
def test_a_manifest_that_would_wipe_the_index_is_refused(index, three, text, tmp_path):
    before = index.everything()
    path = tmp_path / "broken.json"
    path.write_text(text)

    code, _, err = index.run("purge", path, "--yes")

    assert code == 2
    assert "broken.json" in err or "--force" in err
    assert index.everything() == before


def test_with_force_everything_goes(index, three, tmp_path):
    path = make_manifest(tmp_path / "none.json", [])

    code, _, err = index.run("purge", path, "--force", "--yes")

    assert code == 0, err
    assert set(index.everything()) == {"allcounts"}


def test_purge_is_refused_while_a_crawl_runs(index, three):
    before = index.everything()
    planned = plan(index.store, index.keys, {"b"})
    index("SADD", index.keys.uncommitted, "running-1")

    code, _, err = index.run("purge", without(three, "a"), "--yes")
    with pytest.raises(CollectionInUse, match="running-1"):
        purge(index.store, index.keys, planned)

    assert code == 5
    assert "running-1 is not committed" in err
    index("SREM", index.keys.uncommitted, "running-1")
    assert index.everything() == before


def test_a_crawl_that_begins_meanwhile_stops_the_purge(index, three):
    before = index.everything("frontier:committer")
    planned = plan(index.store, index.keys, {"b"})

    def begin(looked):
        index("SADD", index.keys.uncommitted, "running-1")

    with pytest.raises(CollectionInUse, match="running-1"):
        purge(index.store, index.keys, planned, progress=begin)

    index("SREM", index.keys.uncommitted, "running-1")
    after = index.everything("frontier:committer")
    assert before.pop("alldupes") != after.pop("alldupes")  # some lead nowhere
    assert after == before
    purge(index.store, index.keys, planned)
    assert index.members(index.keys.committed) == {"b"}


def test_a_crawl_that_was_committed_since_the_plan_keeps_its_digests(index, three):
    planned = plan(index.store, index.keys, {"b"})
    wacz = make_wacz(three.parent / "d.wacz", [line("d"), line("only-a")])
    index.put(make_manifest(three.parent / "more.json", [resource(wacz, "d")]))

    purge(index.store, index.keys, planned)

    found = index.everything()
    assert found["allcrawls"] == {"b", "d"}
    assert found["alldupes"] == {
        digest(1): "b",
        digest("b"): "b",
        digest("d"): "d",
        digest("only-a"): "d",
    }
    assert found["allcounts"]["totalUrls"] == "4"


def test_capture_removal_fails_when_a_crawl_begins_meanwhile(index, three):
    class Beginning(Captures):
        def has(self, url, date):
            index("SADD", index.keys.uncommitted, "running-1")
            index("SET", index.keys.committer, "another", "NX")
            return super().has(url, date)

    captures = Beginning(frozenset({"http://example.com/b"}), frozenset())
    with pytest.raises(CollectionInUse, match="running-1"):
        remove_captures(index.store, index.keys, captures)

    assert not index("EXISTS", index.keys.committer), "it was held meanwhile"


def test_a_purge_leaves_the_counts_of_a_crawl_that_stays(index, tmp_path):
    wacz = make_wacz(tmp_path / "b.wacz", [line(1)])
    manifest = make_manifest(tmp_path / "all.json", [resource(wacz, "b")])
    index.put(manifest)
    before = index.counts("b")
    index("SADD", index.keys.committed, "b:counts")  # by another tool

    code, _, err = index.run("purge", manifest, "--yes")

    assert code == 0, err
    assert index.counts("b") == before
    assert index.members(index.keys.committed) == {"b"}


@pytest.mark.parametrize("verb", ["commit", "cancel"])
def test_what_is_called_like_the_counts_of_a_crawl_is_no_crawl(index, tmp_path, verb):
    wacz = make_wacz(tmp_path / "b.wacz", [line(1)])
    index.put(make_manifest(tmp_path / "all.json", [resource(wacz, "b")]))
    before = index.counts("b")
    index("SADD", index.keys.uncommitted, "b:counts")  # by another tool

    code, _, err = index.run(verb, "--crawl", "b:counts", "--yes")

    assert (code, "no crawl has the id 'b:counts'" in err) == (2, True), err
    assert index.counts("b") == before
