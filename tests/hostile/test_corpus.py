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
    came = runner.run(*KINDS[kind])
    assert came["verdict"] == "ok", f"{came['name']}: {came['told']}"
