import json

from frontier.conf import Config
from frontier.runtime.shape import crawl_shape, seen_shape


def test_a_shape_is_the_same_after_it_was_stored():
    shape = crawl_shape(Config())

    assert json.loads(json.dumps(shape)) == shape
    assert all(name.startswith("FRONTIER_") for name in shape)


def test_the_tiers_that_nodes_share_are_those_that_were_asked_for():
    shape = seen_shape(Config(seen_tiers=("recent", "set"), partitions=16))
    assert (shape.has_bloom, shape.has_set) == (False, True)

    shape = seen_shape(Config(seen_tiers=("bloom",), partitions=16))
    assert (shape.has_bloom, shape.has_set) == (True, False)
    assert 1_000_000 / 16 < shape.capacity < 1_000_000 / 16 * 1.1
