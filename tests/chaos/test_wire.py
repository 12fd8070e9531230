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

from benchmarks.chaos.durable import DurableStore

SETNAME = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\nit\r\n"


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


def test_what_is_sent_arrives_and_comes_back(client):
    value = b"x" * 300_000

    client.set("key", value)

    assert client.get("key") == value


def test_a_slow_wire_delays_both_directions(wire, client):
    client.ping()
    wire.delay = 0.05
    start = time.perf_counter()
    client.ping()

    assert 0.1 <= time.perf_counter() - start < 1


def test_a_cut_ends_the_connection_and_the_next_one_works(wire, client):
    with socket.create_connection(("127.0.0.1", wire.port)) as connection:
        connection.sendall(SETNAME + b"PING\r\n")
        assert connection.recv(100) == b"+OK\r\n+PONG\r\n"
        wire.cut()

        assert connection.recv(100) == b""

    assert client.ping()


def test_one_client_is_cut_and_slow_and_servers_are_left_alone(wire, client):
    """What names itself as Sentinel does, or not at all, is another server."""
    client.ping()
    with contextlib.ExitStack() as stack:
        address = ("127.0.0.1", wire.port)
        others = [stack.enter_context(socket.create_connection(address)) for _ in "ab"]
        others[0].sendall(SETNAME.replace(b"2\r\nit", b"14\r\nsentinel-1-cmd"))
        others[1].sendall(b"PING\r\n")
        assert [one.recv(100) for one in others] == [b"+OK\r\n", b"+PONG\r\n"]
        wire.delay, wire.delays = 30.0, {"me": 0.05}
        wire.cut()
        for one in others:
            one.sendall(b"PING\r\n")
            assert one.recv(100) == b"+PONG\r\n"
        wire.delay = 0.0
        start = time.perf_counter()
        client.ping()
        assert time.perf_counter() - start >= 0.1
        wire.cut("it")
        client.ping()
        wire.cut("me")
        with pytest.raises(redis.ConnectionError):
            client.ping()


def test_a_killed_store_has_what_it_confirmed(store, client):
    client.set("key", "value")
    store.kill()
    with pytest.raises(redis.ConnectionError):
        client.ping()

    store.revive()

    assert client.get("key") == b"value"
