"""What is wrong in an index is found, and mended where there is one right answer."""

import json

import pytest

from frontier.collection.check import Check, Fault
from tests.collection.samples import (
    digest,
    line,
    make_manifest,
    make_wacz,
    resource,
    revisit,
)


@pytest.fixture
def filled(index, tmp_path):
    a = make_wacz(tmp_path / "a.wacz", [line(1), line(2), revisit(9, of=1)])
    b = make_wacz(tmp_path / "b.wacz", [line(1), line(3)])
    index.put(make_manifest(tmp_path / "m.json", [resource(a, "a"), resource(b, "b")]))
    return index


def check(index, *, repair=False):
    return Check(index.store, index.keys, repair=repair).run()


def faults(found):
    return {fault: count for fault, count in found.faults.items() if count}


def test_imported_index_is_sound(filled):
    found = check(filled)

    assert faults(found) == {}
    assert found.sound
    assert found.digests == 3 + 4  # of all, and of each crawl
    assert filled.run("check")[0] == 0


def test_every_fault_is_found_and_mended(filled):
    keys = filled.keys
    filled("HSET", keys.alldupes, digest("ghost"), "gone")
    filled("HDEL", keys.crawl("a"), digest(1))  # b has it too
    filled("HDEL", keys.alldupes, digest(3))
    filled("HINCRBY", keys.allcounts, "totalUrls", 100)
    before = filled.everything()

    found = check(filled)

    assert faults(found) == {
        Fault.DANGLING: 2,
        Fault.MISSING: 1,
        Fault.COUNTS: 1,
    }
    assert not found.sound
    assert filled.everything() == before  # to look changes nothing

    assert check(filled, repair=True).sound

    assert faults(check(filled)) == {}
    after = filled.everything()
    assert after["alldupes"] == {digest(1): "b", digest(2): "a", digest(3): "b"}
    assert after["allcounts"]["totalUrls"] == "5"


def test_unreadable_entry_is_reported_and_not_repaired(filled):
    filled("HSET", filled.keys.crawl("a"), digest(1), "not a value")

    code, out, _ = filled.run("check", "--json")

    said = json.loads(out)
    assert code == 7
    assert said["faults"] == {"unreadable": 1}
    assert not said["sound"]
    assert filled.run("check", "--repair")[0] == 7


def test_repair_is_refused_while_a_crawl_runs(filled):
    filled("SADD", filled.keys.uncommitted, "running-1")

    assert filled.run("check")[0] == 0
    code, _, err = filled.run("check", "--repair")

    assert code == 5
    assert "running-1" in err
    assert "running-1 is not committed" in filled.run("check")[1]
