"""Claims: what is queued for requests that only one process can make."""

import pytest

from frontier.errors import CodecError
from frontier.queue.item import Claim, Origin, claim_of, decode, encode
from frontier.queue.priority import queue_name, split_name
from frontier.queue.push import CLAIM, FORCE, GONE, MARK, TEST, Push
from frontier.seen.config import SeenLayout
from frontier.urls.fingerprint import seen_hash

PROCESS = "0123456789ab"
URL = b"https://a.example/"
QUEUE = queue_name("a.example:81", 3, PROCESS)
TESTED = ["set", "bloom+set", "bloom"]
FROM = "0:b.example"
ORIGIN = Origin(3, FROM, encode({"url": "https://b.example/"}, FROM))
CLAIMED = Claim(
    PROCESS, 5, "https://a.example/", (ORIGIN,), ((2, seen_hash(b"x")),), "seeds"
)


def claim(url=URL):
    return Push(CLAIM, seen_hash(url), QUEUE, 3, b"0claim")


def gone(url=URL, tries=0):
    return Push(GONE[tries], seen_hash(url), "", 0, b"")


def plain(url=URL, mode=TEST, item=b"0plain"):
    return Push(mode, seen_hash(url), "0:a.example", 0, item)


def test_a_queue_has_the_name_of_its_process_and_the_key_of_its_host():
    assert QUEUE == "3@0123456789ab:a.example:81"
    assert split_name(QUEUE) == (3, "a.example:81")
    for wrong in ("3@:a", "3@0123:a", "3@0123456789aX:a", "@0123456789ab:a"):
        with pytest.raises(CodecError):
            split_name(wrong)


def test_a_claim_comes_back_as_it_was():
    assert claim_of(decode(CLAIMED.item()), 4) == CLAIMED
    assert decode(CLAIMED.item())["url"] == "https://a.example/"
    assert claim_of({"url": "https://a.example/"}, 4) is None


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [PROCESS, 5, [], []],
        ["elsewhere", 5, [], [], ""],
        [PROCESS, "5", [], [], ""],
        [PROCESS, 5, [[4, "0:a", ORIGIN.item]], [], ""],
        [PROCESS, 5, [[3, "a", ORIGIN.item]], [], ""],
        [PROCESS, 5, [[3, "0:a", b"xy"]], [], ""],
        [PROCESS, 5, [[3, "0:a", CLAIMED.item()]], [], ""],
        [PROCESS, 5, [], [[4, seen_hash(b"x")]], ""],
        [PROCESS, 5, [], [[3, 1]], ""],
        [PROCESS, 5, [], [[3, seen_hash(b"x")]] * 10_001, ""],
    ],
)
def test_what_is_no_claim_is_none(parts):
    with pytest.raises(CodecError):
        claim_of(decode(encode({"url": "https://a.example/", "_claim": parts})), 4)


@pytest.mark.parametrize("shape", TESTED)
def test_a_claim_is_queued_once_and_is_seen_as_claimed(client, db, keys, shape):
    first, second = client(shape), client(shape)

    assert first.push([claim(), claim()]).verdicts == "nc"
    assert second.push([plain(), claim()]).verdicts == "cc"
    assert db("LRANGE", keys.ready(QUEUE), 0, -1) == [b"0claim"]
    assert first.scan().ready == first.scan().pushed == 1


@pytest.mark.parametrize("shape", TESTED)
@pytest.mark.parametrize("tries", [0, 2])
def test_the_next_push_takes_what_is_gone_once_with_its_deliveries(
    client, db, keys, shape, tries
):
    node = client(shape)
    node.push([claim()])

    assert node.push([gone(tries=tries), gone(tries=tries)]).verdicts == "oo"
    assert node.push([plain(), plain()]).verdicts == "nc"
    assert db("LRANGE", keys.ready("0:a.example"), 0, -1) == [b"%dplain" % tries]
    assert node.push([gone(), claim()]).verdicts == "on"
    assert node.push([plain()]).verdicts == "c"
    assert node.scan().pushed == 3


@pytest.mark.parametrize("shape", TESTED)
def test_claims_make_no_difference_to_others(client, db, keys, shape):
    node = client(shape)
    node.push([claim()])
    other = b"https://a.example/other"
    seen = "b" if shape == "bloom" else "s"

    assert node.push([plain(other), plain(other)]).verdicts == "n" + seen
    assert node.push([plain(mode=FORCE), plain(mode=MARK)]).verdicts == "ff"
    count = node.layout.count
    node.push([gone(), plain()])
    assert node.layout.count == count, "it was counted when it was claimed"


def test_a_crawl_without_claims_has_no_key_for_them(client, db, keys):
    node = client()
    node.push_urls([URL, URL])

    assert db("EXISTS", keys.claimed) == 0
    assert db("HGET", keys.seen, "claims") is None


def test_without_shared_tiers_claims_are_queued_like_others(client):
    assert client("none").push([claim(), claim(), gone()]).verdicts == "nno"


def test_a_claim_is_done_only_in_its_own_queue(client, grant):
    node, lease = client(), grant()
    assert node.layout == SeenLayout()
    node.push([claim()])

    assert node.reserve(lease) == []
    (reservation,) = node.reserve(lease, queue=QUEUE)
    assert node.requeue(lease, [(reservation.id, QUEUE)], delivered=True) == (1, 0)
    (again,) = node.reserve(lease, queue=QUEUE)
    assert again.item == b"1claim"
    assert node.ack(lease, again) == 1
