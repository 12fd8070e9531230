import pytest

from tests.cluster.lease_model import LEFT_OUT, Rules, explore

STATES = {
    (1, ""): 645,
    (1, "lease"): 2_398,
    (1, "map"): 8_483,
    (2, ""): 4_745,
    (2, "lease"): 27_927,
    (2, "map"): 71_826,
}
"""How many there are, by calls and by whose server is replaced."""


@pytest.mark.parametrize("calls", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("replaced", ["", "lease", "map"])
def test_no_two_nodes_ever_cover_a_partition(calls, replaced):
    """`python -m tests.cluster.lease_model` explores three."""
    found = explore(Rules(calls=calls, replaced=replaced))
    assert found == (STATES[calls, replaced], [])


@pytest.mark.parametrize("rules", LEFT_OUT)
def test_without_one_of_the_rules_two_nodes_do(rules):
    assert explore(rules)[1]
