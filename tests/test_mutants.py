import ast
import textwrap

import pytest

from tests.mutants.__main__ import (
    Covered,
    chosen_for,
    drawn,
    excuses,
    stale,
    unindented,
)
from tests.mutants.mutations import mutants_of

SOURCE = textwrap.dedent(
    '''\
    """What it does."""
    from typing import TYPE_CHECKING
    if TYPE_CHECKING:
        LATER = 1 < 2
    LIMIT = 10

    def f(x: int = 3) -> int:
        """A page of 7."""
        logger.info("%d", x + 1)
        if x < LIMIT and ready(x):
            start(x)
            return x + 1
        raise ValueError(x - 1)
    '''
)


def changes():
    return [(mutant.was, mutant.becomes) for mutant in mutants_of("m.py", SOURCE)]


def test_only_executed_code_is_mutated():
    assert sorted(changes()) == sorted(
        [
            ("3", "(4)"),
            ("x < LIMIT and ready(x)", "(not (x < LIMIT and ready(x)))"),
            ("x < LIMIT and ready(x)", "(x < LIMIT or ready(x))"),
            ("x < LIMIT", "(x <= LIMIT)"),
            ("start(x)", "pass"),
            ("return x + 1", "return None"),
            ("x + 1", "(x - 1)"),
            ("1", "(2)"),
            ("raise ValueError(x - 1)", "pass"),
        ]
    )


@pytest.mark.long
def test_every_mutant_of_the_sample_is_python_and_differs():
    for mutant in drawn(50, seed=1):
        ast.parse(mutant.source)
        assert mutant.was != mutant.becomes


def test_a_sample_is_drawn_by_its_seed():
    part = ["frontier/queue/"]
    sample = drawn(20, 1, part)

    assert sample == drawn(20, 1, part) != drawn(20, 2, part)


def test_an_excuse_stays_with_a_line_that_is_moved():
    inner = SOURCE.replace(
        "            start(x)", "            if y:\n                start(x)"
    )
    excused = {
        unindented(mutant.in_context)
        for source in (SOURCE, inner)
        for mutant in mutants_of("m.py", source)
        if mutant.was == "start(x)"
    }

    assert excused == {" if x < LIMIT and ready(x):\n-start(x)\n+pass"}


def test_fastest_covering_tests_are_chosen():
    mutant = next(m for m in mutants_of("m.py", SOURCE) if m.was == "start(x)")
    tests = [
        Covered(name, seconds, {"m.py": lines})
        for name, seconds, lines in (
            ("slow", 5.0, [11]),
            ("quick[a]", 1.0, [11]),
            ("quick[b]", 1.1, [11]),
            ("elsewhere", 0.1, [12]),
            ("endless", 50.0, [11]),
        )
    ]

    chosen = [test.name for test in chosen_for(mutant, tests)]
    assert chosen == ["quick[a]", "slow", "quick[b]"]


def test_mutant_difference_is_a_diff():
    mutant = next(m for m in mutants_of("m.py", SOURCE) if m.was == "start(x)")

    assert mutant.difference == "-        start(x)\n+        pass"


def test_every_excuse_has_a_reason_and_fits_a_mutant():
    known = excuses()

    assert stale(known) == []
    assert all(len(reason) > 10 for reason in known.values())
