import contextlib
import shutil
import socket
import tempfile
import time
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.chaos.durable import DurableStore


def _named(name):
    """The command that gives *name* to a connection."""
    words = (b"CLIENT", b"SETNAME", name.encode())
    return b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


@pytest.fixture
def store():
    directory = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
    store = DurableStore(directory)
    store.start()
    yield store
    store.close()
    shutil.rmtree(directory)


@pytest.fixture
def wire(store):
    return store.wires[0]


@pytest.fixture
def client(wire):
    url = wire.url
    with contextlib.closing(
        redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), client_name="me")
    ) as c:
        yield c


def test_cut_and_delay_of_one_client_leave_servers_alone(wire):
    """What names itself as Sentinel does, or not at all, is another server.

    On bare sockets: redis-py quietly replaces a connection that it finds cut.
    """
    with contextlib.ExitStack() as stack:

        def connected(name=""):
            address = ("127.0.0.1", wire.port)
            one = stack.enter_context(socket.create_connection(address))
            if name:
                one.sendall(_named(name))
                assert one.recv(100) == b"+OK\r\n"
            assert ping(one) == b"+PONG\r\n"
            return one

        def ping(one):
            one.sendall(b"PING\r\n")
            return one.recv(100)

        servers = [connected("sentinel-1-cmd"), connected()]
        node = connected("me")
        wire.delay, wire.delays = 30.0, {"me": 0.05}
        wire.cut()

        assert node.recv(100) == b""
        assert [ping(one) for one in servers] == [b"+PONG\r\n"] * 2
        wire.delay = 0.0
        node = connected("me")
        start = time.perf_counter()
        assert ping(node) == b"+PONG\r\n"
        assert time.perf_counter() - start >= 0.1
        wire.cut("it")
        assert ping(node) == b"+PONG\r\n"
        wire.cut("me")
        assert node.recv(100) == b""


def test_a_killed_store_has_what_it_confirmed(store, client):
    client.set("key", "value")
    store.kill()
    with pytest.raises(redis.ConnectionError):
        client.ping()

    store.revive()

    assert client.get("key") == b"value"
