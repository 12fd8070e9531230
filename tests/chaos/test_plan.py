import pytest

from benchmarks.chaos.plan import KINDS, Kind, draw
from benchmarks.chaos.trial import Trial

SEEDS = range(1, 201)


def test_a_seed_draws_the_same_plan_on_every_machine():
    assert draw(4).lines() == [
        "seed 4: 2 nodes",
        "  5% freeze 2.25 leases node 10",
        "  8% kill node 8, on a slow wire, successor with its id",
        "  8% kill node 6, successor with its id",
        " 12% leave node 3",
    ]


def test_every_plan_kills():
    for seed in SEEDS:
        assert any(event.kind == Kind.KILL for event in draw(seed).events)


def test_events_are_in_order():
    for seed in SEEDS:
        moments = [event.at for event in draw(seed).events]
        assert moments == sorted(moments)


def test_every_kind_is_drawn():
    drawn = {event.kind for seed in SEEDS for event in draw(seed).events}

    assert drawn == set(KINDS)


def test_a_plan_can_be_kept_to_its_kills():
    plan = draw(4).only(Kind.KILL)

    assert {event.kind for event in plan.events} == {Kind.KILL}
    assert (plan.seed, plan.nodes) == (4, 2)


@pytest.mark.parametrize("kind", Kind)
def test_a_trial_can_do_whatever_is_drawn(kind):
    assert callable(getattr(Trial, f"_{kind}"))
