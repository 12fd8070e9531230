import pytest

from frontier.seen.config import MAX_BLOOMS, SeenConfig, SeenLayout

BOTH = SeenConfig(has_bloom=True, has_set=True, capacity=1_000, error_rate=0.01)


@pytest.mark.parametrize(
    ("layout", "allowed"),
    [
        (SeenLayout(), True),
        (SeenLayout(blooms=MAX_BLOOMS), True),
        (SeenLayout(blooms=MAX_BLOOMS + 1), False),
        (SeenLayout(buckets=5, count=1_000), True),
        (SeenLayout(buckets=4, count=1_000), False),
        (SeenLayout(buckets=1 << 24), True),
        (SeenLayout(buckets=(1 << 24) + 1), False),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_no_layout(layout, allowed):
    assert BOTH.allows(layout) is allowed
