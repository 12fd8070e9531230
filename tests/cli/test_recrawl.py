import json

import pytest


def test_a_plan_compares_a_schedule_with_a_fixed_one(frontier):
    done = frontier("recrawl", "plan", "--pages", "500", "--days", "30", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    adaptive, fixed = said["outcomes"].values()
    assert adaptive["pages_a_day"] == pytest.approx(fixed["pages_a_day"], rel=0.02)
    assert adaptive["versions_captured"] > fixed["versions_captured"]
    assert 0 < adaptive["revisit_share"] < 1
    assert len(adaptive["by_day"]) == 60
    assert said["schedule"]["maximum"] == 28 * 86_400


def test_a_plan_is_a_table_and_a_chart(frontier):
    done = frontier("recrawl", "plan", "--pages", "200", "--days", "10")

    assert done.returncode == 0, done.stderr
    assert "pages a day" in done.stdout
    assert "fixed, as many visits" in done.stdout
    assert "day 0" in done.stdout
    assert "#" in done.stdout


def test_a_fixed_plan_stands_alone(frontier):
    said = json.loads(
        frontier(
            *("recrawl", "plan", "--pages", "50", "--days", "10", "--json"),
            *("--schedule", "fixed", "--interval", "1d"),
        ).stdout
    )

    assert list(said["outcomes"]) == ["fixed"]
    assert said["outcomes"]["fixed"]["pages_a_day"] == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--schedule", "daily", "adaptive or fixed"),
        ("--minimum", "90d", "--minimum is more than the maximum"),
        ("--interval", "soon", "--interval: must be a time such as"),
        ("--interval", "nan", "--interval: must be a time"),
        ("--growth", "0.5", "--growth must be from 1 to 100"),
        ("--pages", "many", "is not a number of URLs"),
        ("--fastest", "0", "--fastest must be more"),
    ],
)
def test_what_cannot_be_planned_is_said(frontier, option, value, said):
    done = frontier("recrawl", "plan", option, value)

    assert done.returncode == 2
    assert said in done.stderr


def test_a_plan_is_drawn(frontier, tmp_path):
    pytest.importorskip("matplotlib")

    done = frontier("recrawl", "plan", "--pages", "50", "--plot", "plan.png")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
