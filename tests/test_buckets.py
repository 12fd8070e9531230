from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from frontier.buckets import FILL, LEVELS, bucket_of, room, splits, wanted
from frontier.hashing import mark

MEMBERS = st.integers(2**62, 2**63 - 1)
COUNTS = st.integers(1, 5_000)
INTSET = 512
"""The server's default set-max-intset-entries."""


def split(table, step):
    """Move what *step* moves."""
    moved = {member for member in table[step.source] if member >= step.threshold}
    table[step.source] -= moved
    table[step.target] |= moved


def test_a_set_grows_url_by_url_and_no_bucket_outgrows_an_intset():
    table, buckets, widest = defaultdict(set), 1, 0
    members = [mark(b"%d" % n).member for n in range(300_000)]
    for count, member in enumerate(members, 1):
        for step in splits(buckets, wanted(count)):
            split(table, step)
        buckets = wanted(count)
        bucket = table[bucket_of(member, buckets)]
        bucket.add(member)
        widest = max(widest, len(bucket))

    assert widest <= INTSET
    assert buckets == 300_000 // FILL
    assert sum(map(len, table.values())) == len(members)
    assert all(m in table[bucket_of(m, buckets)] for m in members)


@given(st.sets(MEMBERS, max_size=200), COUNTS, COUNTS)
def test_splits_bring_every_member_to_where_it_is_looked_for(members, first, second):
    buckets, target = sorted((first, second))
    table = defaultdict(set)
    for member in members:
        table[bucket_of(member, buckets)].add(member)

    for step in splits(buckets, target):
        split(table, step)

    assert all(member in table[bucket_of(member, target)] for member in members)


@given(MEMBERS, MEMBERS, COUNTS)
def test_a_bucket_is_a_range_so_the_upper_half_of_a_sorted_set_moves(a, b, buckets):
    low, high = sorted((a, b))
    table = sorted({low, high, (low + high) // 2})
    found = [bucket_of(member, buckets) for member in table]

    if found[0] == found[-1]:
        assert len(set(found)) == 1


@given(MEMBERS, COUNTS)
def test_a_members_bucket_exists(member, buckets):
    assert 0 <= bucket_of(member, buckets) < buckets


@given(COUNTS, COUNTS)
def test_each_split_makes_the_next_bucket_of_one_that_exists(first, second):
    steps = splits(*sorted((first, second)))

    for step in steps:
        assert step.source < step.target
        assert len(str(step.threshold)) == 19
    assert all(after.target == before.target + 1 for before, after in pairwise(steps))


def test_splitting_in_two_steps_is_splitting_in_one():
    assert splits(3, 700) == splits(3, 40) + splits(40, 700)


@given(st.integers(0, 10**10))
def test_wanted_buckets_are_enough_and_there_is_a_last_one(urls):
    assert 1 <= wanted(urls) <= 1 << LEVELS
    assert room(wanted(urls)) >= urls


@given(st.integers(1, (1 << LEVELS) - 1))
def test_one_url_more_than_there_is_room_for_wants_another_bucket(buckets):
    assert wanted(room(buckets)) == buckets
    assert wanted(room(buckets) + 1) == buckets + 1
