"""Each hostile input of the corpus: what must come of it does, within its limits."""

from collections import defaultdict

import pytest

from tests.hostile.corpus import load

KINDS = defaultdict(list)
for name in load():
    KINDS[name.partition("/")[0]].append(name)


@pytest.mark.store
@pytest.mark.one_server("what is tried is what is read, and not the store")
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_inputs_meet_their_expected_outcome(runner, kind):
    faults = [
        f"{came['name']}: {came['verdict']}\n{came['told']}"
        for came in runner.run_together(KINDS[kind])
        if came["verdict"] != "ok"
    ]
    assert not faults, "\n\n".join(faults)
