import pytest

from tests.hostile.runner import Runner


@pytest.fixture(scope="session")
def runner(servers):
    """The process that runs inputs, those of `tests.hostile.doomed`, too."""
    with Runner(servers("any").url, ["tests.hostile.doomed"]) as made:
        yield made
