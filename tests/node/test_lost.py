"""A store that lost the crawl, in whole or in part: no node takes it for the end."""

import asyncio

import pytest
from owner import push

from frontier.errors import CrawlLost
from frontier.store.client import Call

LOSE = """
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  local kept = false
  for i = 2, #ARGV do kept = kept or name:find(ARGV[i], 1, true) end
  if not kept then redis.call('UNLINK', name) end
end
"""


@pytest.fixture
def lose(server):
    """Delete the keys of a crawl, but those of which one of *kept* is a part.

    A server does it at once: what a node does meanwhile comes before it, or after.
    """

    async def lose(keys, *kept):
        pattern = f"{{{keys.namespace}:{keys.crawl_id}*"
        for one in server.holders:
            one.ask("EVAL", LOSE, 0, pattern, *kept)
        return pattern

    return lose


@pytest.fixture
def open_node(new_node, server, stack):
    async def open_node(name="a", **settings):
        node = new_node(server, name, **{"lease_ttl": 4.0, **settings})
        node.owner.is_busy = True  # it loads seeds
        await node.open()
        stack.push_async_callback(node.close)
        return node

    return open_node


def failed(node):
    return lambda: node.owner.failures


async def fill(node):
    for number in range(40):
        push(node, b"%d" % number, f"h{number}.example")
    await node.outbox.flush()


async def test_an_emptied_part_of_a_store_is_found_by_who_pushes(
    open_node, lose, names_like, until
):
    a = await open_node()
    await fill(a)
    pattern = await lose(a.keys, f"{a.keys.crawl_id}}}", ":3}")
    push(a, b"another", "h99.example")

    await until(failed(a), "a failure")
    assert isinstance(a.owner.failures[0], CrawlLost)
    await a.close()
    left = names_like(pattern)
    crawl = f"{{{a.keys.namespace}:{a.keys.crawl_id}"
    kept = (f"{crawl}}}:".encode(), f"{crawl}:3}}:".encode())
    assert left
    assert all(name.startswith(kept) for name in left), "nothing is in what was emptied"


async def test_an_emptied_part_is_found_by_who_holds_it(open_node, lose, until):
    a = await open_node(lease_ttl=1.0)
    await lose(a.keys, f"{a.keys.crawl_id}}}")

    await until(failed(a), "a failure")
    assert isinstance(a.owner.failures[0], CrawlLost)


async def test_an_emptied_part_is_found_by_who_looks_for_the_end(
    open_node, lose, store, until
):
    a = await open_node(lease_ttl=60.0)
    keys = a.keys.partition(5)
    await store.call(Call.command("UNLINK", keys.counts))
    a.owner.is_busy = False

    await until(failed(a), "a failure")
    assert not a.ended


async def joins_in_vain(node, crawl_id):
    """Open *node*; on a cluster it may be open before it has taken anything."""
    with pytest.raises(CrawlLost, match=crawl_id):  # noqa: PT012
        await node.open()
        while not node.owner.failures:
            await asyncio.sleep(0.01)
        await node.close()
        raise node.owner.failures[0]


async def test_the_parts_of_an_earlier_crawl_of_the_name_are_not_taken_over(
    open_node, new_node, server, lose
):
    a = await open_node()
    await fill(a)
    await lose(a.keys, ":counts")  # the spider's next crawl gets another name

    again = new_node(server, "b", crawl_id=a.keys.crawl_id)
    await joins_in_vain(again, a.keys.crawl_id)


async def test_a_node_that_leaves_a_store_that_was_emptied_says_so(
    open_node, lose, names_like
):
    a = await open_node(lease_ttl=600.0)
    await fill(a)
    a.leave = None
    pattern = await lose(a.keys)
    await a.close()

    assert isinstance(a.owner.failures[0], CrawlLost)
    assert names_like(pattern) == []
