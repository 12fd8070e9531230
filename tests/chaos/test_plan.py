import pytest

from tests.chaos.plan import KINDS, Kind, StoreKind, Way, draw
from tests.chaos.trial import Trial

SEEDS = range(1, 201)


def test_a_seed_draws_the_same_plan_on_every_machine():
    assert draw(4).lines() == [
        "seed 4: 2 nodes, single",
        "  5% freeze 2.25 leases node 10",
        "  8% kill node 8, on a slow wire, successor with its id",
        "  8% kill node 6, successor with its id",
        " 12% leave node 3",
    ]


def test_every_plan_kills_and_its_events_are_in_order():
    for seed in SEEDS:
        events = draw(seed).events
        assert any(event.kind == Kind.KILL for event in events)
        assert sorted(events, key=lambda event: event.at) == list(events)


@pytest.mark.parametrize("store", StoreKind)
def test_every_kind_is_drawn_on_its_store_and_no_other(store):
    plans = [plan for plan in map(draw, SEEDS) if plan.store is store]
    events = [event for plan in plans for event in plan.events]

    assert {event.kind for event in events} == set(KINDS[store])
    if store is StoreKind.SENTINEL:
        failovers = [event for event in events if event.kind == Kind.FAILOVER]
        assert {event.way for event in failovers} == set(Way)
        assert {plan.careful for plan in plans} == {True, False}


def test_twenty_seeds_have_each_store_on_valkey_and_on_redis():
    plans = [draw(seed) for seed in range(1, 21)]

    for store, count in zip(StoreKind, (12, 4, 4), strict=True):
        servers = [plan.redis for plan in plans if plan.store is store]
        assert len(servers) == count
        assert servers.count(True) == (0 if store is StoreKind.SINGLE else 2)
    for plan in plans:
        kinds = {event.kind for event in plan.events}
        assert (Kind.MIGRATE in kinds) == (plan.store is StoreKind.CLUSTER)
        assert (Kind.FAILOVER in kinds) == (plan.store is StoreKind.SENTINEL)


@pytest.mark.parametrize("kind", Kind)
def test_a_trial_can_do_whatever_is_drawn(kind):
    assert callable(getattr(Trial, f"_{kind}"))
