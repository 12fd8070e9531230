from collections import defaultdict

import pytest
from hypothesis import given, strategies as st

from frontier.seen import intset
from frontier.seen.intset import FILL, bucket_of, splits, wanted
from frontier.urls.fingerprint import seen_hash

MARKS = st.integers(2**62, 2**63 - 1)
COUNTS = st.integers(1, 6_000)
INTSET = 512
"""The server's default set-max-intset-entries."""


def split(table, step):
    """Move what *step* moves, comparing texts as the script does."""
    source, target, threshold = step
    moved = {member for member in table[source] if str(member) >= str(threshold)}
    table[source] -= moved
    table[target] |= moved


def test_a_set_grows_url_by_url_and_no_bucket_outgrows_an_intset():
    table, buckets, widest, urls = defaultdict(set), 1, 0, 300_000
    marks = [seen_hash(b"%d" % n) for n in range(urls)]
    for count, mark in enumerate(marks, 1):
        for step in splits(buckets, wanted(count)):
            split(table, step)
        buckets = wanted(count)
        bucket = table[bucket_of(mark, buckets)]
        bucket.add(mark)
        widest = max(widest, len(bucket))

    assert widest <= INTSET
    assert buckets == urls // FILL
    assert sum(map(len, table.values())) == urls
    assert all(mark in table[bucket_of(mark, buckets)] for mark in marks)


@given(st.sets(MARKS, max_size=200), COUNTS, COUNTS)
def test_splits_bring_every_mark_to_where_it_is_looked_for(marks, first, second):
    buckets, target = sorted((first, second))
    table = defaultdict(set)
    for mark in marks:
        table[bucket_of(mark, buckets)].add(mark)
    for step in splits(buckets, target):
        assert step[0] < step[1]
        split(table, step)

    assert all(mark in table[bucket_of(mark, target)] for mark in marks)
    assert intset.buckets_of(marks, target) == [bucket_of(m, target) for m in marks]


@pytest.mark.parametrize("urls", [3_000, 100_000])
def test_the_bytes_of_a_set_are_what_a_server_takes(urls, db, keys):
    inside = defaultdict(list)
    for n in range(urls):
        mark = seen_hash(b"%d" % n)
        inside[bucket_of(mark, wanted(urls))].append(mark)
    taken = 0
    for number, marks in inside.items():
        db("SADD", keys.bucket(0, number), *marks)
        taken += db("MEMORY USAGE", keys.bucket(0, number))

    assert taken == pytest.approx(intset.set_bytes(urls, wanted(urls)), rel=0.15)
