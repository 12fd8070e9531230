import asyncio
import contextlib
import time

import pytest

from frontier.errors import ConfigurationError, StoreRefused, StoreUnavailable
from frontier.store.client import BlockingStore, Call, Store, given


def increment(name):
    return Call.command("INCR", name)


async def patiently(store, call):
    """The reply to *call*, which may be made twice, once the server answers in time."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            return await store.call(call)


async def test_replies_come_in_the_order_of_the_calls_and_are_not_decoded(
    store, unique
):
    calls = [increment(unique) for _ in range(500)]

    assert await store.run(calls) == list(range(1, 501))
    await store.call(Call.command("SET", unique, b"\xff\x00"))
    assert await store.call(Call.command("GET", unique)) == b"\xff\x00"
    assert await store.call(Call.command("GET", unique + "x")) is None


async def test_a_server_that_forgot_the_scripts_gets_them_again(store, unique):
    allot = Call.to("crawl_allot", [unique], ["site"])
    await store.call(allot)  # from now on its server has them, as far as it knows
    await store.call(Call.command("SCRIPT FLUSH"))

    assert await store.run([allot, increment(unique + "n"), allot]) == [
        b"site-1",
        1,
        b"site-1",
    ]
    after = Call.to("crawl_allot", [unique], ["site", "", "site-1"])
    assert await store.call(after) == b"site-2"


def test_a_thread_has_the_same_contract(blocking, unique):
    store, allot = blocking(), Call.to("crawl_allot", [unique + "s"], ["s"])
    store.call(allot)
    store.call(Call.command("SCRIPT FLUSH"))

    assert store.run([increment(unique), allot]) == [1, b"s-1"]
    with pytest.raises(StoreRefused):
        store.call(Call.command("LPUSH", unique, "x"))


async def test_error_in_a_batch_is_raised_after_the_rest_has_run(store, unique):
    calls = [increment(unique), Call.command("LPUSH", unique, 1), increment(unique)]

    with pytest.raises(StoreRefused, match="WRONGTYPE"):
        await store.run(calls)
    assert await store.call(Call.command("GET", unique)) == b"2"


async def test_commands_of_a_transaction_run_if_all_is_there_that_is_expected(
    store, db, unique
):
    flags, log = f"{{{unique}}}:flags", f"{{{unique}}}:log"
    db("HSET", flags, "state", "open", "mark", "")
    is_open, is_unmarked = (("HGET", flags, "state"), "open"), (("EXISTS", log), 0)
    note = [("RPUSH", log, "a", "b"), ("LINDEX", log, 7), ("LLEN", log)]

    assert await store.call(Call.txn([is_open, is_unmarked], note)) == [2, None, 2]
    assert await store.call(Call.txn([is_open, is_unmarked], note)) is None
    absent = (("HGET", flags, "nothing"), "")
    assert await store.call(Call.txn([absent], [("LPOP", log)])) == [b"a"]
    assert db("LRANGE", log, 0, -1) == [b"b"]


async def test_a_server_that_is_silent_is_unavailable_and_comes_back(
    connect, own_server, unique
):
    store = connect(own_server, socket_timeout=0.5)
    await patiently(store, Call.command("SET", unique, 1))
    own_server.pause()

    with pytest.raises(StoreUnavailable):
        await store.call(Call.command("PING"))
    own_server.resume()
    assert await patiently(store, Call.command("GET", unique)) == b"1"


async def test_a_process_that_is_late_blames_itself_and_no_server(store):
    """The answer is there all the time: the loop does not come to read it."""
    await store.call(Call.command("PING"))
    told, turns = [], 0
    pulse = asyncio.create_task(store.pulse(0.5, told.append))
    while turns < 8:
        time.sleep(0.3)  # noqa: ASYNC251 - as a slow callback does
        await asyncio.sleep(0)
        turns += 1
    pulse.cancel()
    assert not told


async def test_silent_server_is_reported_by_the_pulse_each_time(connect, own_server):
    store = connect(own_server)
    await patiently(store, Call.command("PING"))
    told = asyncio.Queue()
    pulse = asyncio.create_task(store.pulse(0.5, told.put_nowait))
    own_server.pause()

    for _ in range(2):
        error = await told.get()
        assert "has said nothing for" in str(error)
        own_server.resume()
        await patiently(store, Call.command("PING"))
        own_server.pause()
    own_server.resume()
    pulse.cancel()


@pytest.mark.one_server("a server that is told by hand to follow another")
async def test_a_primary_that_was_a_replica_for_a_while_is_another(
    connect, own_server, unique
):
    """Its run is the same, and it ends no connection: it only refuses to write."""
    store = connect(own_server)
    assert await store.call(increment(unique)) == 1
    own_server.ask("REPLICAOF", "127.0.0.1", 1)  # where nobody is

    with pytest.raises(StoreUnavailable):
        await store.call(increment(unique))
    own_server.ask("REPLICAOF", "NO", "ONE")
    assert await store.call(increment(unique)) == 2
    assert store.changes == 1


@pytest.mark.parametrize("named_by", ["REDIS_URL", "REDIS_PARAMS"])
async def test_a_call_whose_reply_is_lost_is_sent_once(
    wire, stack, db, unique, named_by
):
    path = wire.url.removeprefix("unix://")
    settings = {"REDIS_URL": wire.url, "REDIS_PARAMS": {"unix_socket_path": path}}
    store = Store.from_settings({named_by: settings[named_by]})
    stack.push_async_callback(store.close)
    assert await store.call(increment(unique)) == 1
    wire.loses = unique.encode()

    with pytest.raises(StoreUnavailable):
        await store.call(increment(unique))

    assert wire.lost == 1
    assert db("GET", unique) == b"2"
    assert await store.call(increment(unique)) == 3


async def test_a_closed_store_makes_no_connection(connect, server):
    store = connect(server)
    await store.call(Call.command("PING"))
    await store.close()

    with pytest.raises(StoreUnavailable, match="closed its connections|No master"):
        await store.call(Call.command("PING"))
    pools = [client.connection_pool for client in store._servers.clients]
    made = [one for pool in pools for one in pool._available_connections]
    assert not any(one.is_connected for one in made), "a sentinel's, too"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"REDIS_URL": None, "REDIS_HOST": ""}, False),
        ({"REDIS_URL": "redis://h"}, True),
        ({"REDIS_HOST": "h"}, True),
        ({"REDIS_PARAMS": {"unix_socket_path": "/s"}}, True),
    ],
)
def test_a_server_is_given_if_any_setting_names_one(settings, expected):
    assert given(settings) is expected


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"REDIS_URL": "redis://h:1234/2"}, "h:1234/2"),
        ({"REDIS_HOST": "h", "REDIS_PORT": 99}, "h:99"),
        ({"REDIS_URL": "unix:///run/s"}, "unix:///run/s"),
        ({"REDIS_PARAMS": '{"host": "h", "port": 5}'}, "h:5"),
        ({"REDIS_URL": "redis://user:secret@h"}, "h:6379"),
    ],
)
def test_scrapy_rediss_settings_say_where_and_no_password_is_shown(settings, where):
    store = BlockingStore.from_settings(settings)

    assert store.where == where
    store.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"REDIS_URL": "http://h"},
        {"REDIS_URL": "redis://h:port"},
        {"REDIS_URL": "h", "REDIS_PARAMS": {"redis_cls": "redis.Redis"}},
        {"REDIS_HOST": "h", "REDIS_PARAMS": {"no_such_parameter": 1}},
        {"REDIS_HOST": "h", "REDIS_PARAMS": "db=1"},
        {"REDIS_HOST": "h", "REDIS_PARAMS": "3"},
    ],
)
@pytest.mark.parametrize("cls", [Store, BlockingStore])
def test_settings_that_make_no_client_are_refused(settings, cls):
    with pytest.raises(ConfigurationError, match="^REDIS_"):
        cls.from_settings(settings)
