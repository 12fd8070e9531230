import asyncio
import logging

import pytest

from frontier.errors import StoreRefused, StoreUnavailable
from frontier.store.client import Call
from frontier.store.outage_retry import OutageRetry

PING = [Call.command("PING")]


async def test_an_outage_is_waited_for_and_said_once(connect, own_server, caplog):
    async def revive():
        own_server.start()
        await asyncio.Event().wait()  # it is not called again meanwhile

    outage_retry = OutageRetry(connect(own_server), revive)
    caplog.set_level(logging.WARNING)
    own_server.kill()
    await asyncio.gather(*(outage_retry.retry(PING) for _ in range(5)))

    assert outage_retry.outages == 1
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "does not answer" in texts[0]
    assert "answers again after" in texts[1]
    if "sentinel" in own_server.url:
        return  # a killed sentinel does not say who the primary is
    outage_retry.on_change(lambda _: None)
    own_server.kill()
    own_server.start()
    for _ in range(9):
        await asyncio.sleep(0)
    await outage_retry.retry(PING)
    assert len(caplog.records) == 2  # who answers at once is not silent


async def test_plain_call_is_not_repeated_in_an_outage(connect, own_server):
    outage_retry = OutageRetry(connect(own_server))
    own_server.kill()

    with pytest.raises(StoreUnavailable):
        await outage_retry.call(PING)
    assert await outage_retry.retry([]) == [], "that needs no store"


@pytest.mark.one_server("of several, CONFIG reaches but one")
@pytest.mark.parametrize(
    ("refuse", "relent", "why"),
    [
        (
            "CONFIG SET min-replicas-to-write 1",
            "CONFIG SET min-replicas-to-write 0",
            "NOREPLICAS",
        ),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "You can't write"),
        ("CLIENT PAUSE 100000 WRITE", "CLIENT UNPAUSE", "Timeout"),
    ],
)
async def test_a_store_that_answers_and_refuses_writes_is_said_once(
    connect, own_server, until, caplog, monkeypatch, refuse, relent, why
):
    caplog.set_level(logging.WARNING)
    store = connect(own_server, socket_timeout=0.2)
    outage_retry = OutageRetry(store)
    outage_retry.on_change(lambda _: None)
    await store.call(Call.command(*refuse.split()))
    write = [Call.txn([], [("SET", "key", "value")])]
    waiting = [asyncio.ensure_future(outage_retry.retry(write)) for _ in range(3)]
    await until(lambda: outage_retry.outages)
    for _ in range(5):
        assert await outage_retry.retry(PING) == [True]  # what reads goes on
        with pytest.raises(StoreUnavailable):
            await outage_retry.call(write)
    texts = [record.getMessage() for record in caplog.records]
    assert outage_retry.outages == len(texts) == 1
    assert why in texts[0]
    assert not outage_retry.available

    monkeypatch.setattr("frontier.store.outage_retry.ROOMY", 0.0)
    await store.call(Call.command(*relent.split()))
    await asyncio.gather(*waiting)
    assert outage_retry.available
    assert "s again after" in caplog.records[-1].getMessage()


async def test_a_full_store_is_waited_for_and_said_once_with_what_to_do(
    connect, own_server, until, caplog, monkeypatch
):
    monkeypatch.setattr("frontier.store.outage_retry.ROOMY", 0.0)
    caplog.set_level(logging.WARNING)
    store = connect(own_server)
    outage_retry = OutageRetry(store)
    await store.call(Call.command("CONFIG", "SET", "maxmemory", 1))
    write = [Call.command("SET", "key", "value")]
    waiting = [asyncio.ensure_future(outage_retry.retry(write)) for _ in range(3)]
    await until(lambda: outage_retry.outages)
    assert await outage_retry.retry(PING) == [True]  # what needs no memory goes on

    await store.call(Call.command("CONFIG", "SET", "maxmemory", 0))
    await asyncio.gather(*waiting)
    assert outage_retry.is_full, "nobody has looked"
    watch = asyncio.ensure_future(outage_retry.watch_memory())
    await until(lambda: outage_retry.available)
    watch.cancel()
    texts = [record.getMessage() for record in caplog.records]
    refusals = [text for text in texts if "has no memory left (maxmemory)" in text]
    assert refusals
    assert all("CONFIG SET maxmemory" in text for text in refusals)
    assert "has memory again" in texts[-1]
    assert not any("does not answer" in text for text in texts)


async def test_a_store_that_begins_to_evict_keys_is_refused(
    connect, own_server, until, monkeypatch
):
    monkeypatch.setattr("frontier.store.outage_retry.LOOK", 0.01)
    store = connect(own_server)
    watch = asyncio.ensure_future(OutageRetry(store).watch_memory())
    await store.call(Call.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"))
    await until(watch.done)

    with pytest.raises(StoreRefused, match="allkeys-lru"):
        watch.result()
