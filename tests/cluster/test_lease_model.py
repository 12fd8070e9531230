import pytest

from tests.cluster.lease_model import Rules, explore


@pytest.mark.parametrize("calls", [1, pytest.param(2, marks=pytest.mark.long)])
def test_no_two_nodes_ever_cover_a_partition(calls):
    """`python -m tests.cluster.lease_model` explores three, and without each rule."""
    count, way = explore(Rules(calls=calls))

    assert way == []
    assert count > (100_000 if calls > 1 else 10_000)
