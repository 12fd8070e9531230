import asyncio

import pytest

from frontier.errors import CrawlLost, StoreRefused
from frontier.node import host_addresses as addresses
from frontier.node.host_addresses import Addresses, BlockingAddresses, least
from frontier.queue.push import TEST, Push
from frontier.store.client import Call
from frontier.store.outage_retry import OutageRetry


@pytest.fixture
def looked_up(monkeypatch):
    """Names that were looked up, in a network that gives each other answers."""
    names = []

    def look_up(host):
        names.append(host)
        return f"192.0.2.{len(names)}"

    monkeypatch.setattr(addresses, "look_up", look_up)
    return names


async def test_of_a_crawl_that_is_not_there_nothing_is_noted(
    store, crawl, blocking, looked_up
):
    await store.call(Call.command("DEL", crawl.meta()))
    command = BlockingAddresses(blocking(), crawl)
    with pytest.raises(CrawlLost):
        await Addresses(OutageRetry(store), crawl).find("a.example")
    with pytest.raises(CrawlLost):
        await asyncio.to_thread(command.find, "a.example")

    assert not await store.call(Call.command("EXISTS", crawl.addresses()))


async def test_all_nodes_keep_the_first_address_that_one_has_noted(
    store, crawl, looked_up
):
    a, b = (Addresses(OutageRetry(store), crawl) for _ in "ab")
    assert a.known("a.example") is None
    await asyncio.gather(*(a.find("a.example") for _ in range(5)))
    await b.find("a.example")

    assert a.known("a.example") == b.known("a.example") == "192.0.2.1"
    assert looked_up == ["a.example"]


async def test_a_node_keeps_no_more_addresses_than_it_may(
    store, crawl, looked_up, monkeypatch
):
    monkeypatch.setattr(addresses, "MAX_KNOWN", 3)
    node = Addresses(OutageRetry(store), crawl)
    for n in range(4):
        await node.find(f"{n}.example")
    assert node.known("0.example") is None
    await node.find("0.example")

    assert node.known("0.example") == "192.0.2.1"
    assert node.known("3.example") == "192.0.2.4"
    assert len(looked_up) == 4, "what was noted is read again"


async def test_a_command_notes_and_reads_the_same(store, crawl, blocking, looked_up):
    command = BlockingAddresses(blocking(), crawl)
    assert await asyncio.to_thread(command.noted, "a.example") is None
    assert await asyncio.to_thread(command.find, "a.example") == "192.0.2.1"

    node = Addresses(OutageRetry(store), crawl)
    await node.find("a.example")
    assert node.known("a.example") == "192.0.2.1"
    assert looked_up == ["a.example"]


@pytest.mark.parametrize(
    ("host", "known"),
    [("192.0.2.7", "192.0.2.7"), ("::1", "::1"), ("2001:DB8::0:1", "2001:db8::1")],
)
async def test_an_address_is_its_own(store, crawl, host, known):
    assert Addresses(OutageRetry(store), crawl).known(host) == known


def test_a_command_takes_an_address_for_its_own(blocking, crawl, db, looked_up):
    assert BlockingAddresses(blocking(), crawl).find("192.0.2.7") == "192.0.2.7"
    assert not looked_up
    assert not db("EXISTS", crawl.addresses())


@pytest.mark.parametrize("value", [b"", b"x\ny", b"x" * 300])
async def test_an_address_in_the_store_that_is_none_is_not_used(store, crawl, value):
    await store.run([Call.command("HSET", crawl.addresses(), "a.example", value)])
    node = Addresses(OutageRetry(store), crawl)
    await node.find("a.example")

    assert node.known("a.example") == "a.example"


def test_a_host_without_an_address_is_noted_by_its_name():
    assert addresses.look_up("no-such-host.invalid") == "no-such-host.invalid"


def test_of_several_addresses_the_choice_does_not_depend_on_their_order():
    found = ["2001:db8::1", "192.0.2.9", "192.0.2.10", "fe80::1%eth0"]

    assert least(found) == least(reversed(found)) == "192.0.2.9"


async def test_a_flush_waits_for_a_push_that_waits_for_an_address(parts, start):
    node = parts()
    start(node.outbox.run())
    known = asyncio.Event()

    async def put():
        await known.wait()
        node.outbox.put(0, Push(TEST, 1 << 62, "0:a.example", 0, b"0x"))

    node.outbox.expect(put())
    assert node.outbox.pending == 1
    flush = asyncio.create_task(node.outbox.flush())
    await asyncio.sleep(0)
    assert not flush.done()

    known.set()
    await flush
    assert node.outbox.pending == 0
    assert (await node.scan(0)).ready == 1


async def test_a_push_that_cannot_be_placed_fails_the_node_and_every_flush(
    parts, start
):
    node = parts()
    running = asyncio.create_task(node.outbox.run())

    async def put():
        raise StoreRefused("there", "no")

    node.outbox.expect(put())
    with pytest.raises(StoreRefused):
        await node.outbox.flush()
    with pytest.raises(StoreRefused):
        await running
    with pytest.raises(StoreRefused):  # nothing is acked after it either
        await node.outbox.flush()
