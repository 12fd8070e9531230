import math

import pytest
from hypothesis import given, settings, strategies as st

from frontier.cluster.ring import LOAD, Ring
from frontier.model import Member


def members(count, weight=1):
    return [Member(f"node-{n}", weight) for n in range(count)]


MEMBERSHIPS = st.dictionaries(
    st.text("abcdef0123456789-", min_size=1, max_size=12),
    st.integers(1, 5),
    min_size=1,
    max_size=12,
).map(lambda weights: [Member(*pair) for pair in weights.items()])


@settings(max_examples=60)
@given(MEMBERSHIPS, st.integers(1, 300))
def test_every_partition_has_one_owner_and_nobody_more_than_its_load(nodes, partitions):
    ring = Ring(nodes, partitions)
    total = sum(node.weight for node in nodes)

    owned = [ring.owned_by(node.node_id) for node in nodes]
    assert sorted(p for each in owned for p in each) == list(range(partitions))
    assert all(p in ring.owned_by(ring.owner(p)) for p in range(partitions))
    for node in nodes:
        most = math.ceil(partitions * node.weight / total * LOAD)
        assert ring.shares()[node.node_id] <= most


@settings(max_examples=30)
@given(MEMBERSHIPS, st.randoms(use_true_random=False))
def test_every_node_computes_the_same_ring_in_whatever_order_it_heard(nodes, random):
    shuffled = list(nodes)
    random.shuffle(shuffled)

    assert Ring(shuffled, 128).owners == Ring(nodes, 128).owners


@pytest.mark.parametrize("count", [2, 5, 20])
def test_a_node_that_joins_takes_about_its_share_and_little_else_moves(count):
    before, after = Ring(members(count), 1024), Ring(members(count + 1), 1024)
    moved = [p for p in range(1024) if before.owner(p) != after.owner(p)]
    ideal = 1024 / (count + 1)

    assert len(after.owned_by(f"node-{count}")) > 0.5 * ideal
    assert len(moved) < 2 * ideal


@pytest.mark.parametrize("count", [3, 6, 20])
def test_leaving_node_moves_few_partitions_of_other_nodes(count):
    before, after = Ring(members(count), 1024), Ring(members(count)[:-1], 1024)
    moved = {p for p in range(1024) if before.owner(p) != after.owner(p)}

    assert moved >= set(before.owned_by(f"node-{count - 1}"))
    assert len(moved) < 2 * 1024 / count


def test_a_heavier_node_owns_more():
    ring = Ring([Member("light", 1), Member("heavy", 3)], 1024)
    shares = ring.shares()

    assert 2.4 < shares["heavy"] / shares["light"] < 3.8


def test_nobody_owns_nothing():
    assert Ring([], 16).owners == ()
    assert Ring([], 16).owned_by("node-0") == []
