from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier.seen.intset import FILL, LEVELS, Space, space
from frontier.urls.fingerprint import seen_hash

WHOLE, SHORT = Space(), Space(30, 6)
SPACES = st.sampled_from([WHOLE, SHORT, Space(30, 1), Space(30, 1_000)])
MARKS = st.integers(2**62, 2**63 - 1)
COUNTS = st.integers(1_000, 6_000)
INTSET = 512
"""The server's default set-max-intset-entries."""


def split(table, step):
    """Move what *step* moves, comparing texts as the script does."""
    threshold = str(step.threshold)
    moved = {member for member in table[step.source] if str(member) >= threshold}
    table[step.source] -= moved
    table[step.target] |= moved


@pytest.mark.parametrize(
    ("kept", "urls"), [(WHOLE, 300_000), (space(32, 1_100), 60_000)]
)
def test_a_set_grows_url_by_url_and_no_bucket_outgrows_an_intset(kept, urls):
    table, buckets, widest = defaultdict(set), kept.groups, 0
    entries = [kept.entry(seen_hash(b"%d" % n)) for n in range(urls)]
    for count, entry in enumerate(entries, 1):
        for step in kept.splits(buckets, kept.wanted(count)):
            split(table, step)
        buckets = kept.wanted(count)
        bucket = table[kept.bucket_of(entry, buckets)]
        bucket.add(kept.member(entry))
        widest = max(widest, len(bucket))

    assert widest <= INTSET
    assert buckets == urls // FILL
    assert sum(map(len, table.values())) == len(set(entries))
    assert all(kept.member(e) in table[kept.bucket_of(e, buckets)] for e in entries)


@given(SPACES, st.sets(MARKS, max_size=200), COUNTS, COUNTS)
def test_splits_bring_every_member_to_where_it_is_looked_for(
    kept, marks, first, second
):
    buckets, target = sorted((first, second))
    table = defaultdict(set)
    entries = [kept.entry(mark) for mark in marks]
    for entry in entries:
        table[kept.bucket_of(entry, buckets)].add(kept.member(entry))

    for step in kept.splits(buckets, target):
        split(table, step)

    assert all(kept.member(e) in table[kept.bucket_of(e, target)] for e in entries)


@given(SPACES, MARKS, COUNTS)
def test_a_range_is_what_one_bucket_has(kept, mark, buckets):
    entry = kept.entry(mark)
    number, found = kept.bucket_of(entry, buckets), kept.range_of(entry, buckets)

    assert 0 <= number < buckets
    assert entry in found
    assert kept.bucket_of(found[0], buckets) == kept.bucket_of(found[-1], buckets)
    assert found[0] == 0 or kept.bucket_of(found[0] - 1, buckets) != number
    assert found.stop == kept.end or kept.bucket_of(found.stop, buckets) != number


@given(SPACES, MARKS, COUNTS)
def test_an_entry_comes_back_from_its_bucket_and_its_member(kept, mark, buckets):
    entry = kept.entry(mark)

    assert kept.entry_of(kept.member(entry), kept.bucket_of(entry, buckets)) == entry
    assert kept.entry(kept.mark(entry)) == entry


@given(MARKS)
def test_nothing_of_a_mark_is_lost_in_the_whole_space(mark):
    assert WHOLE.mark(WHOLE.entry(mark)) == mark


@given(SPACES, MARKS)
def test_a_member_has_the_same_number_of_digits_whatever_it_is(kept, mark):
    digits = 19 if kept == WHOLE else 10

    assert len(str(kept.member(kept.entry(mark)))) == digits
    assert kept.member(kept.entry(mark)) < 1 << (8 * kept.member_bytes - 1)


@given(SPACES, COUNTS, COUNTS)
def test_each_split_makes_the_next_bucket_of_one_that_exists(kept, first, second):
    steps = kept.splits(*sorted((first, second)))

    for step in steps:
        assert step.source < step.target
    assert all(after.target == before.target + 1 for before, after in pairwise(steps))


@given(SPACES)
def test_splitting_in_two_steps_is_splitting_in_one(kept):
    assert kept.splits(1_003, 1_700) == [
        *kept.splits(1_003, 1_040),
        *kept.splits(1_040, 1_700),
    ]


@given(SPACES, st.integers(0, 10**10))
def test_wanted_buckets_are_enough_and_there_is_a_last_one(kept, urls):
    assert kept.groups <= kept.wanted(urls) <= kept.groups << LEVELS
    assert kept.room(kept.wanted(urls)) >= urls


@given(st.integers(1, (1 << LEVELS) - 1))
def test_one_url_more_than_there_is_room_for_wants_another_bucket(buckets):
    assert WHOLE.wanted(WHOLE.room(buckets)) == buckets
    assert WHOLE.wanted(WHOLE.room(buckets) + 1) == buckets + 1


def test_a_short_set_has_a_group_for_each_bucket_that_it_is_made_for():
    assert space(64, 10**6) == WHOLE
    assert space(32, 1_101) == SHORT
    assert space(32, 1) == Space(30, 1)
    assert space(32, 10**12) == Space(30, 1 << LEVELS)
