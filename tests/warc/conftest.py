import pytest

from frontier.store.keys import collection_keys
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.warc.samples import NOON, DictIndex


@pytest.fixture
def keys_of(blocking):
    """The keys of a collection, on the server of the test."""
    store = blocking()
    return lambda name: collection_keys(store, name)


@pytest.fixture
def new_writer(tmp_path):
    made = []

    def make(
        directory=tmp_path,
        crawl_id="crawl",
        node_id="node",
        closed=lambda _: None,
        **how,
    ):
        config = WarcConfig(
            directory, crawl_id, node_id, warcinfo={"isPartOf": "collection"}, **how
        )
        writer = WarcWriter(config, lambda: NOON, closed)
        made.append(writer)
        return writer

    yield make
    for writer in made:
        writer.abandon()


@pytest.fixture
def writer(new_writer):
    return new_writer()


@pytest.fixture
def index(tmp_path):
    return DictIndex(tmp_path)
