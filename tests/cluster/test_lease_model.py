import pytest

from tests.cluster.lease_model import LEFT_OUT, Rules, explore


@pytest.mark.parametrize(
    "rules",
    [
        Rules(calls=1),
        pytest.param(Rules(calls=2), marks=pytest.mark.long),
        pytest.param(Rules(calls=2, replaced="lease"), marks=pytest.mark.long),
        pytest.param(Rules(calls=2, replaced="map"), marks=pytest.mark.long),
    ],
)
def test_no_two_nodes_ever_cover_a_partition(rules):
    count, way = explore(rules)

    assert way == []
    assert count > (100_000 if rules.calls > 1 else 10_000)


@pytest.mark.long
@pytest.mark.parametrize("rules", LEFT_OUT)
def test_without_one_of_the_rules_they_do(rules):
    assert explore(rules)[1]
