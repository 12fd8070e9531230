"""Claims: the marks of requests that one process alone can make."""

import pytest

from frontier.queue.push import CLAIM, FORCE, MARK, TEST, Push
from frontier.urls.fingerprint import seen_hash

URL = b"https://a.example/"
TESTED = ["set", "bloom+set", "bloom"]


def claim(url=URL, owner=7):
    return Push(CLAIM, seen_hash(url), "", 3, b"", forced=owner)


def plain(url=URL, mode=TEST, item=b"0plain"):
    return Push(mode, seen_hash(url), "0:a.example", 0, item)


@pytest.mark.parametrize("shape", TESTED)
def test_a_url_is_new_to_its_owner_and_claimed_to_all_others(client, db, keys, shape):
    first, second = client(shape), client(shape)

    assert first.push([claim(), claim()]).verdicts == "nn"
    assert second.push([plain(), claim(owner=8), claim()]).verdicts == "ccn"
    assert db("HGETALL", keys.claimed) == {b"%d" % seen_hash(URL): b"7"}
    assert first.scan().ready == first.scan().pushed == 0


@pytest.mark.parametrize("shape", TESTED)
def test_a_url_without_an_owner_goes_to_the_first_that_finds_it(client, shape):
    node, nobody = client(shape), claim(owner=0)

    assert node.push([nobody, nobody, plain(), plain(), nobody]).verdicts == "nnncc"
    other = b"https://a.example/other"
    taken = [claim(other, owner=0), claim(other)]
    assert node.push(taken * 2).verdicts == "nncn"


@pytest.mark.parametrize("shape", TESTED)
def test_a_url_that_was_seen_is_claimed_by_nobody(client, db, keys, shape):
    node = client(shape)
    node.push([plain()])
    seen = "b" if shape == "bloom" else "s"

    assert node.push([claim(), claim()]).verdicts == 2 * seen
    assert db("EXISTS", keys.claimed) == 0


@pytest.mark.parametrize("shape", TESTED)
def test_claims_make_no_difference_to_others(client, shape):
    node = client(shape)
    node.push([claim()])
    other = b"https://a.example/other"
    seen = "b" if shape == "bloom" else "s"

    assert node.push([plain(other), plain(other)]).verdicts == "n" + seen
    assert node.push([plain(mode=FORCE), plain(mode=MARK)]).verdicts == "ff"
    count = node.layout.count
    node.push([claim()])
    assert node.layout.count == count, "it was counted when it was claimed"


def test_an_owner_is_no_id_of_a_forced_push(client, db, keys):
    node = client()
    node.push([claim(), plain(mode=FORCE)._replace(forced=9)])

    assert db("SMEMBERS", keys.forced) == {b"9"}


def test_without_shared_tiers_what_is_claimed_is_new(client):
    assert client("none").push([claim(), claim()]).verdicts == "nn"
