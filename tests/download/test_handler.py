"""The moment between a connection that is made and a request that is written."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from scrapy.exceptions import IgnoreRequest
from twisted.internet import tcp
from twisted.internet.defer import succeed
from twisted.internet.protocol import Protocol

from frontier.download.capture import RawExchange
from frontier.download.handler import _Tee, _Wired


class Connection:
    """Takes requests, as Twisted's protocol does."""

    def __init__(self):
        self.requests = []
        self.aborted = False

    def request(self, request):
        self.requests.append(request)
        return succeed("answer")

    def abort(self):
        self.aborted = True


@pytest.fixture
def connection():
    return Connection()


def sent(connection, guard):
    request = SimpleNamespace()
    answer = _Wired(connection, guard, {"wire": RawExchange()}).request(request)
    return request, answer.asFuture(asyncio.get_running_loop())


async def test_a_request_with_a_current_lease_is_written_at_once(connection):
    request, answer = sent(connection, lambda: None)

    assert connection.requests == [request]
    assert await answer == "answer"


async def test_a_request_waits_for_a_lease_that_comes_back(connection):
    back = asyncio.Event()
    request, answer = sent(connection, back.wait)
    await asyncio.sleep(0)
    assert connection.requests == []

    back.set()

    assert await answer == "answer"
    assert connection.requests == [request]


async def test_a_request_whose_lease_is_lost_is_not_written(connection):
    async def lost():
        raise IgnoreRequest("the lease on its partition is lost")

    _, answer = sent(connection, lost)

    with pytest.raises(IgnoreRequest):
        await answer
    assert connection.requests == []
    assert connection.aborted


STANDING = SimpleNamespace(addWriter=print, removeWriter=print, removeReader=print)
"""A reactor that does not turn."""


def test_a_request_leaves_before_a_callback_can_hold_it_back():
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    transport = tcp.Connection(ours, Protocol(), reactor=STANDING)
    transport.connected = 1
    wire = RawExchange()

    _Tee(transport, wire).writeSequence([b"GET / HTTP/1.1\r\n", b"Host: h\r\n\r\n"])

    assert theirs.recv(100) == wire.request_head == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    ours.close()
    theirs.close()
