import os

import pytest

from tests.collection.samples import Index


@pytest.fixture
def make_index(servers, unique):
    made = []

    def make(name=""):
        server = servers(os.environ.get("TEST_STORE", "valkey-9"))
        index = Index(server.url, f"{unique}{name}")
        made.append(index)
        return index

    yield make
    for index in made:
        index.store.close()


@pytest.fixture
def index(make_index):
    return make_index()
