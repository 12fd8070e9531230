import pytest

from tests.chaos.plan import KINDS, Kind, StoreKind, Way, draw

SEEDS = range(1, 201)


def test_a_seed_draws_the_same_plan_on_every_machine():
    assert draw(4).lines() == [
        "seed 4: 2 nodes, single",
        "  5% freeze 2.25 leases node 10",
        "  8% kill node 8, on a slow wire, successor with its id",
        "  8% kill node 6, successor with its id",
        " 12% leave node 3",
    ]


@pytest.mark.parametrize("store", StoreKind)
def test_every_kind_is_drawn_on_its_store_and_no_other(store):
    plans = [plan for plan in map(draw, SEEDS) if plan.store is store]
    events = [event for plan in plans for event in plan.events]

    assert {event.kind for event in events} == set(KINDS[store])
    if store is StoreKind.SENTINEL:
        failovers = [event for event in events if event.kind == Kind.FAILOVER]
        assert {event.way for event in failovers} == set(Way)
        assert {plan.careful for plan in plans} == {True, False}
