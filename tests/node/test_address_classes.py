"""What nodes allow, as the seeds of all of them say."""

import pytest

from frontier.node.host_addresses import AddressClasses
from tests.harness.crawls import node_of


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def nodes(store, crawl):
    """Nodes of one crawl, each with its own knowledge."""

    def node(given=None):
        clock = Clock()
        made = AddressClasses(node_of(store, crawl), given, clock)
        made.clock = clock
        return made

    return node


async def asked(node, kind, *, is_seed=False, spelled=False):
    return await node.permits(kind, is_seed=is_seed, spelled=spelled)


async def test_literal_address_of_a_seed_allows_its_class_on_all_nodes(nodes):
    a, b = nodes(), nodes()

    assert await asked(a, "loopback", is_seed=True, spelled=True)
    assert await asked(b, "loopback", spelled=True)
    assert not await asked(b, "private", spelled=True)
    assert not await asked(b, "public")


async def test_address_class_just_allowed_by_another_node_is_looked_up(nodes):
    a, b = nodes(), nodes()
    assert not await asked(b, "private", spelled=True)  # at the same moment

    await asked(a, "private", is_seed=True, spelled=True)

    assert await asked(b, "private")


async def test_no_page_opens_a_crawl_whose_seeds_have_not_said_anything(nodes):
    node = nodes()

    assert not await asked(node, "loopback", spelled=True)
    assert not await asked(node, "private", spelled=True)
    assert node.allowed == frozenset()


@pytest.mark.parametrize("kind", ["link-local", "metadata", "reserved"])
async def test_reserved_address_classes_need_the_setting_not_a_seed(nodes, kind):
    node = nodes()

    assert not await asked(node, kind, is_seed=True, spelled=True)
    assert not await asked(node, kind, is_seed=True)
    assert await asked(nodes(frozenset({kind})), kind)


async def test_names_that_lead_inside_say_nothing_beside_public_ones(nodes):
    a, b = nodes(), nodes()
    assert await asked(a, "private", is_seed=True)

    assert await asked(b, "public", is_seed=True)
    assert not await asked(b, "private", is_seed=True)
    assert not await asked(b, "private")
    a.clock.now += 2
    assert not a.known("private")
    assert not await asked(a, "private"), "another node's seed was public"
    assert await asked(a, "public")


async def test_literal_private_seed_is_allowed_beside_public_seeds(nodes):
    a, b = nodes(), nodes()
    await asked(a, "private", is_seed=True)
    await asked(b, "public", is_seed=True)

    assert await asked(b, "private", is_seed=True, spelled=True)
    a.clock.now += 2
    assert await asked(a, "private")


async def test_a_setting_asks_nobody(nodes, db, crawl):
    node = nodes(frozenset({"private"}))

    assert await asked(node, "private")
    assert not await asked(node, "loopback", is_seed=True, spelled=True)
    assert not db("HKEYS", crawl.meta) or all(
        not field.startswith(b"address:") for field in db("HKEYS", crawl.meta)
    )


async def test_a_crawl_that_is_lost_is_not_made_again_by_a_seed(nodes, db, crawl):
    db("DEL", crawl.meta)

    assert not await asked(nodes(), "public", is_seed=True)
    assert db("EXISTS", crawl.meta) == 0
