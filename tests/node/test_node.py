import asyncio
import gc
import logging
import time
from urllib.parse import quote

import pytest
from owner import fetch, push
from secured import SECRET, SecuredServer

from frontier.cluster.crawls import LIMIT
from frontier.errors import (
    KeyDamaged,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from frontier.node import end_of_crawl as ending
from frontier.node.archiving import Archive
from frontier.node.ends import UNDONE
from frontier.store.address import address_of
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import collection_keys
from tests.certificates import certify


def tree(url):
    """Two children of each page, of 200 on eight hosts, and the page itself."""
    number = int(url)
    children = [n for n in (2 * number, 2 * number + 1, number) if n < 200]
    return [(b"%d" % n, f"h{n % 8}.example") for n in children]


async def test_a_node_has_its_watchdog_before_it_reserves_anything(new_node, servers):
    node = new_node(servers("any"), "a")

    await node.open()  # and no loop of it has run yet

    assert node.watchdog._child.returncode is None
    await node.close()


async def test_the_last_node_to_leave_a_crawl_in_which_nothing_is_left_ends_it(
    new_node, server, db, monkeypatch
):
    monkeypatch.setattr(ending, "INTERVAL", 60)
    node = new_node(server, "a")
    await node.open()
    node.has_seeds = True
    assert db("HGET", node.keys.meta, "state") == b"open"
    await node.close()

    assert db("HGET", node.keys.meta, "state") == b"finished"


async def test_a_node_waits_for_a_store_that_is_yet_to_come(
    new_node, own_server, caplog, until
):
    own_server.kill()
    node = new_node(own_server, "a")
    opening = asyncio.create_task(node.open())
    await until(lambda: "FRONTIER_STORE_WAIT" in caplog.text, "a line")
    assert not opening.done()

    await asyncio.to_thread(own_server.start)
    await opening
    await until(lambda: len(node.leases.held) == 16, "its partitions")
    await node.close()


async def test_the_last_node_commits_once_the_store_answers(
    new_node, servers, unique, tmp_path, monkeypatch
):
    where = {"collection": unique, "warc_dir": tmp_path}
    node = new_node(servers("any"), "a", warc_enabled=True, **where)
    await node.open()
    commit, lost = node.parts[Archive].commit, []

    async def late():
        if not lost:
            lost.append("reply")
            raise StoreUnavailable("here", "it is slow")
        await commit()

    monkeypatch.setattr(node.parts[Archive], "commit", late)
    await node.owner.finished.wait()
    await node.close()

    assert lost
    store = BlockingStore.from_settings({"REDIS_URL": servers("any").url})
    names = collection_keys(store, unique)
    asked = [Call.command("SMEMBERS", n) for n in (names.uncommitted, names.committed)]
    assert list(map(len, store.run(asked))) == [0, 1]
    store.close()


async def test_a_commit_that_cannot_be_is_said_and_ends_the_process_badly(
    new_node, servers, db, unique, tmp_path, caplog
):
    where = {"collection": unique, "warc_dir": tmp_path}
    node = new_node(servers("any"), "a", warc_enabled=True, **where)
    await node.open()
    await node.owner.finished.wait()
    store = BlockingStore.from_settings({"REDIS_URL": servers("any").url})
    names = collection_keys(store, unique)
    store.call(Call.command("SET", names.canceled, "garbage"))
    store.close()
    await node.close()

    (said,) = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert "are not committed: " in said
    assert names.canceled in said
    assert f"frontier collection commit --crawl {node.keys.crawl_id}" in said
    assert UNDONE in node.owner.ends


async def test_clocks_and_keys_are_said_once_and_a_closed_node_checks_no_failover(
    new_node, server, monkeypatch, caplog
):
    real, compared = time.time, []
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    node = new_node(server, "a")
    await node.open()
    assert node.report()["opened"] > real() - 1800, "it is the store's clock"
    for key in ("one", "one", "two"):
        node.fail(KeyDamaged("", key, "it is no hash"))
    outage_retry = node.outage_retry
    outage_retry.on_change(lambda _: compared.append(node))
    await node.close()

    assert [error.key for error in node.owner.failures] == ["one", "two"]
    assert "s behind the store's" in caplog.text
    outage_retry.store.doubt()
    with pytest.raises(StoreUnavailable, match="closed its connections|No master"):
        await outage_retry.call([Call.command("PING")])

    assert not compared


@pytest.fixture(scope="module")
def secured(binary):
    server = SecuredServer(binary("redis-7"))
    server.launch()
    server.wait()
    yield server
    server.remove()


async def crawled(node):
    """What *node* fetches of a tree, alone."""
    fetched = []
    node.owner.is_busy = True
    await node.open()
    push(node, b"1", "h1.example")
    await node.outbox.flush()
    node.owner.is_busy = False
    await fetch(node, tree, fetched)
    await node.close()
    return fetched


async def test_seen_set_is_removed_at_the_end_without_keep_frontier(
    new_node, server, db
):
    node = new_node(server, "a", keep_frontier=False)
    assert len(await crawled(node)) == 199

    parts = [node.keys.partition(number) for number in range(16)]
    assert not db("EXISTS", *(part.bucket(0, 0) for part in parts))
    assert db("EXISTS", *(part.counts for part in parts)) == 16


@pytest.mark.parametrize("form", ["url", "params"])
async def test_a_node_crawls_through_tls_as_a_user_and_no_log_has_the_password(
    new_node, secured, caplog, form
):
    caplog.set_level(logging.DEBUG)
    found = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": secured.port}
    redis = {
        "url": {"REDIS_URL": secured.url()},
        "params": {**found, "REDIS_PARAMS": secured.params},
    }[form]
    assert len(await crawled(new_node(None, "a", redis))) == 199

    said = caplog.text
    assert f"on 127.0.0.1:{secured.port}" in said
    assert SECRET not in said
    assert quote(SECRET, safe="") not in said
    store = BlockingStore.from_settings(redis)
    assert store.call(Call.command("ACL", "WHOAMI")) == b"crawler"
    store.close()


@pytest.fixture
def mutual(binary, request):
    """A server that wants a certificate, of whichever TLS or of one."""
    protocol = getattr(request, "param", "")
    options = ["--tls-protocols", protocol] if protocol else []
    server = SecuredServer(binary("redis-7"), *options, mutual=True)
    server.launch()
    server.wait()
    yield server
    server.remove()


async def test_a_node_shows_a_server_that_asks_for_it_its_certificate(new_node, mutual):
    assert len(await crawled(new_node(None, "a", {"REDIS_URL": mutual.url()}))) == 199


@pytest.mark.parametrize("mutual", ["TLSv1.2", "TLSv1.3"], indirect=True)
async def test_missing_client_certificate_error_names_its_settings(new_node, mutual):
    mutual.client = {}
    redis = {"REDIS_URL": mutual.url(), "REDIS_PARAMS": {"socket_timeout": 60.0}}
    node = new_node(None, "a", redis, store_wait=0.0)
    store = BlockingStore.at(address_of(redis, None), repeats=False)

    with pytest.raises(StoreUnavailable, match=" ssl_certfile and ssl_keyfile in "):
        await node.open()
    with pytest.raises(StoreUnavailable, match=" ssl_certfile and ssl_keyfile in "):
        await asyncio.to_thread(store.call, Call.command("PING"))
    store.close()


@pytest.mark.one_server("it makes the user on one server, and not on the others")
@pytest.mark.parametrize(
    ("rights", "said"),
    [
        (["+@all", "-info"], "may not do what a connection begins with: .*info"),
        (["+@all", "-@scripting"], "may not do"),
        (
            ["+@all", "resetkeys", "~other:*"],
            r"may not do HGET \w+:spider:site: ",
        ),
        (["+@all", "-rpush"], r"may not do queue_push on \{"),
        (["+@all", "-script"], "may not do crawl_.*script"),
        (["--rename-command", "RPUSH", ""], r"refuses queue_push on \{"),
    ],
)
async def test_missing_acl_right_is_reported_by_name(
    new_node, own_server, connect, rights, said, servers
):
    if rights[0] == "--rename-command":
        own_server, rights = servers("any", *rights), ["+@all"]
    admin = connect(own_server)
    who = ["ACL", "SETUSER", "limited", "reset", "on", "nopass", "~*", "&*"]
    await admin.call(Call.command(*who, *rights))
    url = own_server.url.replace("unix://", "unix://limited@")
    node = new_node(own_server, "a", {"REDIS_URL": url})

    with pytest.raises(StoreRefused, match=said) as caught:  # noqa: PT012
        await node.open()
        push(node, b"1", "h1.example")
        failed = asyncio.create_task(node.outbox.flush())
        while not node.owner.failures:
            await asyncio.sleep(0.01)
        failed.cancel()
        await node.close()
        raise node.owner.failures[0]
    assert "docs/security.md" in str(caught.value)


@pytest.mark.one_server("it makes the user on one server, and not on the others")
@pytest.mark.parametrize("right", ["-@scripting", "-hlen"])  # its loops need no HLEN
async def test_a_node_that_may_not_leave_closes_its_connections(
    new_node, own_server, connect, until, right, caplog
):
    admin = connect(own_server)
    who = ["ACL", "SETUSER", "limited"]
    await admin.call(Call.command(*who, "reset", "on", "nopass", "~*", "&*", "+@all"))
    url = own_server.url.replace("unix://", "unix://limited@")
    node = new_node(own_server, "a", {"REDIS_URL": url}, lease_ttl=600.0)
    await node.open()
    await until(lambda: len(node.leases.held) == 16, "its partitions")
    await admin.call(Call.command(*who, right))

    await node.close()

    assert {type(error) for error in node.owner.failures} == {StoreRefused}
    assert "committed is not known" not in caplog.text, "the crawl has not ended"
    clients = Call.command("CLIENT", "LIST")
    while "limited" in str(await admin.call(clients)):  # until the server has seen it
        await asyncio.sleep(0.01)


# asyncio leaves the socket of a handshake that failed to the garbage collector.
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("secret", "invalid username-password pair"),
        ("authority", "certificate verify failed"),
    ],
)
async def test_refused_connection_is_reported_without_the_password(
    new_node, secured, tmp_path, wrong, said
):
    given = {"secret": "an0ther", "authority": certify(tmp_path)}[wrong]
    url = {"REDIS_URL": secured.url(**{wrong: given})}
    node = new_node(None, "a", url, store_wait=0.0)

    with pytest.raises(StoreError, match=said) as caught:
        await node.open()

    told = str(caught.value)
    del caught, node
    gc.collect()
    assert "an0ther" not in told
    assert "s3cr" not in told


async def test_a_limit_that_others_have_reached_ends_a_node_without_one(
    new_node, server, until
):
    node = new_node(server, "a")
    await node.open()
    node.tell_end(LIMIT)
    await until(lambda: node.owner.ends)

    assert node.owner.ends[0].reason == "frontier_limit"
    assert node.inbox.stopped
    await node.close()
