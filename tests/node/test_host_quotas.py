import logging

import pytest

from frontier.errors import ConfigurationError
from frontier.settings.config import Config


@pytest.fixture
def holder(parts, start, new_push):
    """Make a node that holds partition 0, in which *urls* of hosts are ready."""

    async def holder(urls, name="a", cap=100, runs=True, **options):
        node = parts(name, cap=cap, **options)
        start(node.outbox.run())
        await node.push(0, *(new_push(url, host) for url, host in urls))
        await take_over(node)
        if runs:
            start(node.inbox.run())
        return node

    return holder


async def take_over(node):
    for taken in await node.leases.acquire([0]):
        await node.heartbeat._take_over([taken])
    await node.inbox.load_queues([0])


def of(host, count, first=0):
    return [(b"%s-%d" % (host.encode(), n), host) for n in range(first, first + count)]


async def fetch(node, until, *, pages=1, size=100, most=1000):
    """Take and finish what there is, until nothing more comes; return the URLs."""
    taken = []
    while len(taken) < most:
        await until(lambda: len(node.inbox) or not node.inbox.knows(0))
        if not len(node.inbox):
            break
        reservation = node.inbox.take()
        taken.append(reservation.item[1:])
        node.quotas.add(reservation, pages, size)
        node.acks.complete(reservation)
        await node.acks.drain()
    return taken


async def test_a_host_has_its_pages_and_the_others_theirs(holder, until, caplog):
    urls = [*of("a.example", 30), *of("b.example", 5)]
    node = await holder(urls, host_max=(10, 0))
    fetched = await fetch(node, until)

    assert sorted(fetched) == sorted(url for url, _ in urls[:10] + urls[30:])
    scan = await node.scan(0)
    assert (scan.ready, scan.reserved, scan.acked, scan.skipped) == (0, 0, 15, 20)
    with caplog.at_level(logging.WARNING):
        node.quotas.tell()
    assert "20 requests of 1 hosts were not sent" in caplog.text
    assert "(a.example 20)" in caplog.text


async def test_no_more_is_reserved_than_may_be_had(holder, until):
    node = await holder(of("a.example", 30), host_max=(3, 0))
    await until(lambda: len(node.inbox) == 3)
    held = [node.inbox.take() for _ in range(3)]
    await node.inbox.load_queues([0])
    await until(lambda: not node.inbox._wake.is_set())
    assert len(node.inbox) == 0

    for reservation in held:  # none has brought a page: they have failed
        node.acks.complete(reservation)
    await node.acks.drain()
    assert len(await fetch(node, until)) == 3
    assert (await node.scan(0)).skipped == 30 - 6


async def test_bytes_of_a_host_end_it_too(holder, until):
    node = await holder(of("a.example", 30), host_max=(0, 1000), cap=1)
    fetched = await fetch(node, until, size=400)

    assert len(fetched) == 3
    assert (await node.scan(0)).skipped == 27


async def test_priorities_of_a_host_have_one_quota_and_late_urls_are_skipped(
    holder, new_push, until
):
    node = await holder([], host_max=(4, 0))
    first = [new_push(b"%d" % n, "a.example", n % 3) for n in range(9)]
    await node.push(0, *first)
    await node.inbox.load_queues([0])
    assert len(await fetch(node, until)) == 4

    await node.push(0, new_push(b"late", "a.example"))
    await node.inbox.load_queues([0])
    assert await fetch(node, until) == []
    assert (await node.scan(0)).skipped == 6


@pytest.mark.parametrize(
    "other", [{"FRONTIER_HOST_SHARDS": 2}, {"FRONTIER_QUEUE_KEY": "url"}]
)
def test_quotas_are_refused_where_a_host_has_several_queues(other):
    for name in ("FRONTIER_HOST_MAX_PAGES", "FRONTIER_HOST_MAX_BYTES"):
        with pytest.raises(ConfigurationError, match="in one queue"):
            Config.from_settings({name: 5, **other})
