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
from benchmarks.chaos.wire import Wire


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
    wire = Wire(store.socket)
    wire.start()
    yield wire
    wire.stop()


@pytest.fixture
def client(wire):
    url = wire.url
    with contextlib.closing(
        redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
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
        connection.sendall(b"PING\r\n")
        assert connection.recv(100) == b"+PONG\r\n"
        wire.cut()

        assert connection.recv(100) == b""

    assert client.ping()


def test_a_killed_store_has_what_it_confirmed(store, client):
    client.set("key", "value")
    store.kill()
    with pytest.raises(redis.ConnectionError):
        client.ping()

    store.start()

    assert client.get("key") == b"value"
