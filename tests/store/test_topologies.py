"""Slots that move, servers that die: what a store makes of it."""

import asyncio
import contextlib
import signal

import msgpack
import pytest
from redis.exceptions import ResponseError

from frontier.errors import StoreRefused, StoreUnavailable
from frontier.model import Lease, Order
from frontier.queue.reserve import requeue_calls, reserve_call
from frontier.store.address import address_of, leave_others
from frontier.store.client import (
    CHANGED,
    HERE,
    BlockingStore,
    Call,
    Store,
    check_server,
)
from frontier.store.keys import CollectionKeys, CrawlKeys, round_id
from tests.topologies import (
    DEADLINE,
    SERVICE,
    ClusterServers,
    SentinelServers,
    slot_of,
    until,
)


@pytest.fixture(scope="module")
def primaries():
    """Three primaries whose slots a test may move; it must end what it began."""
    made = ClusterServers()
    made.start()
    yield made
    made.remove()


@pytest.fixture
def cluster(primaries, connect):
    return connect(primaries)


def other(primaries, source):
    return next(one for one in primaries.primaries if one is not source)


def names(count):
    return [f"key-{n}" for n in range(count)]


async def test_replies_come_in_order_from_several_servers(cluster, primaries):
    calls = [Call.command("SET", name, name) for name in names(300)]
    await cluster.run(calls)
    for primary in primaries.primaries:  # connections that have ended are replaced
        primary.ask("CLIENT", "KILL", "TYPE", "normal")
        for _ in range(9):
            await asyncio.sleep(0)

    calls = [Call.command("GET", name) for name in names(300)]
    assert await cluster.run(calls) == [name.encode() for name in names(300)]
    assert not cluster.alone


async def test_a_slot_that_was_moved_is_followed(cluster, primaries, unique):
    await cluster.call(Call.command("INCR", unique))
    cluster.watched = True
    slot = slot_of(unique)
    source = primaries.owner(slot)
    primaries.move(slot, other(primaries, source))

    assert await cluster.call(Call.command("INCR", unique)) == 2
    assert await cluster.run([Call.command("INCR", unique)] * 3) == [3, 4, 5]
    primaries.move(slot, source)
    assert await cluster.call(Call.command("INCR", unique)) == 6
    assert cluster.changes == 0, "the servers are the same"


async def test_a_key_that_is_gone_ahead_is_found(cluster, primaries, unique):
    there, here = f"{{{unique}}}:1", f"{{{unique}}}:2"
    await cluster.call(Call.command("INCR", there))
    slot = slot_of(unique)
    target = other(primaries, primaries.owner(slot))
    source = primaries.begin_move(slot, target)
    primaries.move_keys(slot, source, target)

    calls = [Call.command("INCR", there), Call.to("crawl_allot", [here], ["site"])]
    assert await cluster.run([*calls, calls[0]]) == [2, b"site-1", 3]
    primaries.end_move(slot, target)
    assert await cluster.run([calls[0], calls[1]]) == [4, b"site-1"]


async def test_keys_on_both_sides_are_waited_for(
    cluster, primaries, unique, until, monkeypatch
):
    """Which key moves is named: the slot may have keys of other tests, too."""
    monkeypatch.setattr("frontier.store.cluster_router.PATIENCE", DEADLINE)
    keys = [f"{{{unique}}}:seed_lists", f"{{{unique}}}:lock", f"{{{unique}}}:meta"]
    await cluster.call(Call.command("SET", f"{{{unique}}}", "of another test"))
    await cluster.call(Call.command("HSET", keys[2], "state", "open"))
    note = [("HSET", keys[0], "seeds", "done"), ("SET", keys[1], "me")]
    take = Call.txn([(("HGET", keys[2], "state"), "open")], note)
    assert await cluster.call(take) == [1, b"OK"]
    await cluster.call(Call.command("HSET", keys[0], "others", "done"))
    slot = slot_of(unique)
    target = other(primaries, primaries.owner(slot))
    source = primaries.begin_move(slot, target)
    primaries.move_key(source, target, keys[1])
    before = refused(source)

    waiting = asyncio.create_task(cluster.call(take))
    await until(lambda: refused(source) >= before + 2, "that it is sent away twice")
    plain = Call.command("HGET", keys[0], "others")
    assert await cluster.call(plain) == b"done"
    assert not waiting.done()
    primaries.move_keys(slot, source, target)
    primaries.end_move(slot, target)
    assert await waiting == [0, b"OK"]


def refused(server):
    """How often *server* said that a call has to wait for the end of a move."""
    found = server.ask("INFO", "errorstats").get("errorstat_TRYAGAIN", {"count": 0})
    return found["count"]


LEASE = Lease(3, 5)


async def test_a_script_that_empties_its_keys_is_not_cut_off_half_way(
    cluster, primaries, unique
):
    """Within a script a key that has vanished counts as being at the target."""
    crawl = CrawlKeys("test", unique)
    keys = crawl.partition(3)
    ready = keys.ready("0:h")
    await cluster.run(
        [
            Call.command("HSET", keys.lease, "token", 5, "holder", "me"),
            Call.command("HSET", keys.counts, "ready", 2, "seq", 7),
            Call.command("ZADD", keys.queues, 0, "0:h"),
            Call.command("RPUSH", ready, "0one", "0two"),
            Call.command("HSET", keys.reserved, 7, "4\n0:h\n0old"),
            Call.command("RPUSH", keys.dead, "a letter"),
            Call.command("SADD", keys.started, 8, 9),
        ]
    )
    slot = slot_of(ready)
    target = other(primaries, primaries.owner(slot))
    primaries.begin_move(slot, target)

    taken = await cluster.call(reserve_call(keys, LEASE, Order.BFS, {"0:h": 9}))
    assert taken == [[0, 8, b"0one", b"0two"]]

    primaries.move(slot, target)
    await cluster.run(
        [
            Call.command("RPUSH", ready, "0three"),
            Call.command("ZADD", keys.queues, 0, "0:h"),
            Call.command("HDEL", keys.reserved, 7),
        ]
    )
    target = other(primaries, target)
    primaries.begin_move(slot, target)
    back = requeue_calls(keys, LEASE, Order.BFS, [(8, "0:h"), (9, "0:h")])
    assert await cluster.run(back) == [[2, 0]]
    primaries.move(slot, target)
    assert await cluster.call(Call.command("LRANGE", ready, 0, -1)) == [
        b"0one",
        b"0two",
        b"0three",
    ]


def a_round_is_committed(unique):
    keys = CollectionKeys(unique, tagged=True)
    part = keys.crawl(round_id("crawl-1", 1))
    names = [keys.committer, keys.canceled, keys.committed, keys.alldupes]
    names += [keys.crawl("crawl-1"), part]
    setup = [
        ("SET", keys.committer, "me"),
        ("SADD", keys.canceled, "crawl-0"),
        ("SADD", keys.committed, "crawl-0"),
        ("HSET", keys.alldupes, "sha-256:1", "crawl-0"),
        ("HSET", keys.crawl("crawl-1"), "sha-256:0", "value"),
        ("HSET", part, "sha-256:1", "value", "sha-256:2", "value"),
    ]
    move = Call.to("commit_move", names, ["crawl-1", "me", 60_000, 0, 100])
    return setup, move, [b"0", 2, 1, 0]


def a_round_of_a_site_ends(unique):
    keys = CrawlKeys("test", unique)
    names = [keys.sites, keys.site("s")]
    site = ["state", "crawling", "want", "active", "round", 1, "wait", 60]
    setup = [
        ("ZADD", names[0], 5, "s"),
        ("HSET", names[1], *site, "whole", 1, "feeds", 1),
    ]
    feed = msgpack.packb(["x", 2, "feed:x", "known"])
    return setup, Call.to("round_note", names, ["s", 1, "", feed, 0]), b"noted"


def what_waits_is_hastened(unique):
    names = [f"{{{unique}}}:{name}" for name in ("counts", "due", "9", "1")]
    setup = [
        ("HSET", names[0], "waiting", 2),
        ("ZADD", names[1], 9000, "9000", 1000, "1000"),
        ("RPUSH", names[2], "0:h\none"),
        ("RPUSH", names[3], "0:h\ntwo"),
    ]
    args = ["", "9000", "waiting", 0, 9, "1000", "0:h\none"]
    return setup, Call.to("queue_purge", names, args), [1, 0]


def the_last_node_leaves(unique):
    crawl = CrawlKeys("test", unique)
    names = [crawl.nodes, crawl.epoch, crawl.reports, crawl.meta]
    names += [crawl.order("a"), crawl.membership, crawl.hints("a")]
    setup = [
        ("HSET", names[0], "a", "1 1 0"),
        ("SET", names[1], 1),
        ("HSET", names[2], "a", "{}"),
        ("HSET", names[3], "state", "open"),
        ("SET", names[4], "drain"),
        ("RPUSH", names[5], "1 1 joined 1 a"),
        ("RPUSH", names[6], "x"),
    ]
    leave = Call.to("node_leave", names, ["a", "{}", "", "p", 60_000, 1])
    return setup, leave, [0, b"open"]


CASES = [a_round_is_committed, a_round_of_a_site_ends]
CASES += [what_waits_is_hastened, the_last_node_leaves]


@pytest.mark.parametrize("case", CASES)
async def test_so_is_no_other_that_empties_keys(cluster, primaries, unique, case):
    setup, call, expected = case(unique)
    await cluster.run([Call.command(*words) for words in setup])
    slot = slot_of(setup[0][1])
    target = other(primaries, primaries.owner(slot))
    primaries.begin_move(slot, target)

    assert await cluster.call(call) == expected
    primaries.move(slot, target)


async def test_scripts_are_loaded_before_what_follows_them(primaries, connect, unique):
    for one in primaries.primaries:
        one.ask("SCRIPT", "FLUSH")
    store = connect(primaries)
    calls = [
        Call.to("crawl_allot", [unique], ["site"]),
        Call.command("HGETALL", unique),
    ]

    _, stored = await store.run(calls)
    assert stored[b"open"] == b"site-1"


def test_a_user_with_a_password_is_let_in(primaries, unique):
    for one in primaries.primaries:
        one.ask("ACL", "SETUSER", "crawler", "on", ">s3cret", "~*", "&*", "+@all")
    settings = {"REDIS_URL": primaries.url.replace("//", "//crawler:s3cret@")}
    store = BlockingStore.from_settings(settings)
    with contextlib.closing(store):
        assert store.call(Call.command("INCR", unique)) == 1
    assert "s3cret" not in store.where

    wrong = settings["REDIS_URL"].replace("s3cret", "wrong")
    store = BlockingStore.at(address_of({"REDIS_URL": wrong}), repeats=False)
    with contextlib.closing(store), pytest.raises(StoreUnavailable) as caught:
        store.call(Call.command("INCR", unique))
    assert "wrong" not in str(caught.value)


async def test_a_server_of_a_cluster_is_not_taken_for_a_single_one(
    primaries, stack, unique
):
    strange = next(
        one
        for one in primaries.primaries
        if one is not primaries.owner(slot_of(unique))
    )
    store = Store.from_settings({"REDIS_URL": f"redis://127.0.0.1:{strange.port}"})
    stack.push_async_callback(store.close)

    with pytest.raises(StoreRefused, match=r"redis\+cluster://"):
        await store.call(Call.command("INCR", unique))


async def test_a_server_that_may_forget_is_found_among_many(cluster, primaries):
    info = Call.command("INFO", "memory")
    check_server(await cluster.call(info), "")
    last = primaries.primaries[-1]
    last.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(StoreRefused, match="allkeys-lru"):
            check_server(await cluster.call(info), "")
    finally:
        last.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def patiently(store, call):
    while True:
        try:
            return await store.call(call)
        except StoreUnavailable:
            await asyncio.sleep(0.02)


async def replicated(connect, stack, key):
    """A cluster with replicas, its client, and the primary that has *key*."""
    servers = ClusterServers(3, 1)
    stack.callback(servers.remove)
    await asyncio.to_thread(servers.start)
    store = connect(servers)
    await store.call(Call.command("SET", key, "x"))
    return servers, store, servers.owner(slot_of(key))


async def test_the_replica_of_a_dead_primary_of_a_cluster_is_found(
    connect, stack, unique
):
    servers, store, owner = await replicated(connect, stack, unique)
    owner.copy(unique)
    owner.kill()
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{owner.port}"):
        await store.call(Call.command("GET", unique))
    for one in servers.processes:  # soon they miss it
        if one is not owner:
            one.ask("CONFIG", "SET", "cluster-node-timeout", 1000)
    assert await patiently(store, Call.command("GET", unique)) == b"x"
    assert (
        await patiently(store, Call.to("crawl_allot", [unique + "s"], ["s"])) == b"s-1"
    )


async def test_a_takeover_while_the_old_primary_lives_is_noticed_by_any_call(
    connect, stack, unique
):
    """It ends no connection; what the old one took last may be lost."""
    servers, store, owner = await replicated(connect, stack, unique)
    replica = servers.replicas[servers.primaries.index(owner)]
    await asyncio.to_thread(until, lambda: replica.ask("DBSIZE"), "the copy")
    store.watched = True  # as of a node
    replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    await asyncio.to_thread(
        until, lambda: owner.ask("ROLE")[0] == b"slave", "that it follows"
    )
    assert store.changes == 0

    with pytest.raises(StoreUnavailable, match=CHANGED):
        await store.call(Call.command("GET", unique))
    assert store.changes == 1
    assert store.lost() == {store.server_of(unique)}
    assert await store.call(Call.command("GET", unique)) == b"x"
    assert await store.call(Call.command("INCR", unique + "n")) == 1
    assert store.changes == 1


async def test_slots_may_leave_a_server_that_answers_again(
    cluster, primaries, unique, until
):
    await cluster.call(Call.command("SET", unique, "x"))
    slot = slot_of(unique)
    source = primaries.owner(slot)
    waiting = asyncio.create_task(
        cluster.call(Call.command("BLPOP", f"{{{unique}}}:1", 0))
    )
    await until(lambda: source.ask("INFO", "clients")["blocked_clients"], "the call")
    source.ask("CLIENT", "KILL", "TYPE", "normal")
    with pytest.raises(StoreUnavailable):
        await waiting
    assert await cluster.call(Call.command("GET", unique)) == b"x"

    await asyncio.to_thread(primaries.move, slot, other(primaries, source))
    assert await cluster.call(Call.command("GET", unique)) == b"x"
    assert cluster.changes == 0


async def test_sentinels_new_primary_is_found(connect, stack, unique):
    servers = SentinelServers()
    stack.callback(servers.remove)
    await asyncio.to_thread(servers.start)
    store = connect(servers, socket_timeout=300)
    thread = BlockingStore.from_settings({"REDIS_URL": servers.url})
    stack.callback(thread.close)
    watching = asyncio.create_task(store.watch(0.05, thread.leave))
    stack.callback(watching.cancel)
    await store.call(Call.command("SET", unique, "x"))
    assert store.where.startswith("frontier of 127.0.0.1:")
    servers.primary.ask("CONFIG", "SET", "min-replicas-to-write", 2)
    for call in (Call.command("INCR", "n"), Call.to("crawl_allot", ["m"], ["s"])):
        with pytest.raises(StoreUnavailable, match="NOREPLICAS"):
            await store.call(call)
    servers.primary.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    assert thread.call(Call.command("GET", unique)) == b"x"
    servers.primary.copy(unique)
    servers.primary.signal(signal.SIGSTOP)  # which ends no connection
    waiting = asyncio.create_task(store.call(Call.command("GET", unique)))
    await asyncio.to_thread(servers.promote)

    with pytest.raises(StoreUnavailable):
        await waiting
    assert await patiently(store, Call.command("GET", unique)) == b"x"
    servers.primary.signal(signal.SIGCONT)
    assert thread.call(Call.command("GET", unique)) == b"x"
    assert await store.call(Call.to("crawl_allot", [unique + "s"], ["s"])) == b"s-1"
    await store.call(Call.command("SET", unique, "y"))
    assert thread.call(Call.command("GET", unique)) == b"y"


async def test_stale_connection_is_dropped_after_a_sentinel_failover(connect, stack):
    """The old one takes writes for seconds more, until Sentinel makes it follow."""
    servers = SentinelServers()
    stack.callback(servers.remove)
    await asyncio.to_thread(servers.start)
    store = connect(servers)
    client = store._servers.client(HERE)
    stale = await client.connection_pool.get_connection()
    new = servers.replica.shown

    def begun():  # a Sentinel has to have heard of the replica lately
        with contextlib.suppress(ResponseError):
            return servers.sentinel.ask("SENTINEL", "FAILOVER", SERVICE)

    await asyncio.to_thread(until, begun, "the order")
    await asyncio.to_thread(until, lambda: servers.primary_port() == new, "a failover")

    named = await client.connection_pool.get_master_address()  # as any connection does
    await client.connection_pool.release(stale)
    leave_others(client.connection_pool, named)

    port = Call.command("CONFIG", "GET", "port")
    found = await asyncio.gather(*(store.call(port) for _ in range(4)))
    assert [int(one[b"port"]) for one in found] == [new] * 4
