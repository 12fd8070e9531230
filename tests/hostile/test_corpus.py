"""Each hostile input of the corpus: what must come of it does, within its limits."""

import pytest

from tests.hostile.corpus import load


@pytest.mark.store
@pytest.mark.one_server("what is tried is what is read, and not the store")
@pytest.mark.parametrize("name", load())
def test_what_must_come_of_it_does(runner, name):
    came = runner.run(name)
    assert came["verdict"] == "ok", f"{name}: {came['verdict']}\n{came['told']}"
