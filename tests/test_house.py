import subprocess
import sys

from tests import house

MEASURES = 9


def test_the_table_has_a_figure_for_every_measure():
    words = [sys.executable, "-m", "tests.house"]
    done = subprocess.run(
        words, cwd=house.ROOT, check=True, capture_output=True, text=True
    )

    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["measure", "now", "aim"]
    assert len(rows) == MEASURES
    *measured, mutants = rows  # those are measured by `make mutants`
    assert all(any(mark.isdigit() for mark in row) for row in measured), done.stdout
    assert mutants.startswith("mutants")


def test_a_circle_is_found_and_what_leads_into_it_is_none():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set(), "e": {"e"}}

    assert house.circles(graph) == [{"b", "c"}, {"e"}]
