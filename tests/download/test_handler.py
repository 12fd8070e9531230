"""The moment between a connection that is made and a request that is written."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from scrapy.exceptions import IgnoreRequest
from twisted.internet import tcp
from twisted.internet.defer import succeed
from twisted.internet.protocol import Protocol
from twisted.web.client import Request
from twisted.web.http_headers import Headers

from frontier.download.capture import RawExchange
from frontier.download.handler import _Factory, _Pool, _Tee, _Wired


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
    part = {"wire": RawExchange()}
    answer = _Wired(connection, guard, part, again=None).request(request)
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


STANDING = SimpleNamespace(
    addReader=print, addWriter=print, removeWriter=print, removeReader=print
)
"""A reactor that does not turn."""


class Socket:
    """A connection of ours to somebody who is looked at here."""

    def __init__(self, protocol):
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.transport = tcp.Connection(self.ours, protocol, reactor=STANDING)
        self.transport.connected = 1
        self.protocol = protocol

    @property
    def came(self):
        try:
            return self.theirs.recv(100)
        except BlockingIOError:
            return b""

    def close(self):
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def connected():
    made = []

    def one(protocol):
        made.append(Socket(protocol))
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_a_request_leaves_before_a_callback_can_hold_it_back(connected):
    it = connected(Protocol())
    wire = RawExchange()
    tee = _Tee(it.transport, wire, guard=lambda: None)

    tee.writeSequence([b"GET / HTTP/1.1\r\n", b"Host: h\r\n\r\n"])

    assert it.came == wire.request_head == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


async def test_a_request_whose_lease_ends_as_it_is_written_is_sent_later(connected):
    both = [connected(_Factory(print, None).buildProtocol(None)) for _ in range(2)]
    for each in both:
        each.transport.abortConnection = each.ours.close
        each.transport.getPeer = each.transport.setTcpNoDelay = lambda *_: None
        each.protocol.makeConnection(each.transport)
    unused = iter(both)
    real = SimpleNamespace(
        getConnection=lambda *_: succeed(next(unused).protocol), persistent=True
    )
    back = asyncio.Event()
    looks = iter([None, back.wait(), None, None])
    part = {"wire": RawExchange(), "spool": None, "maxsize": 0}
    request = Request(b"GET", b"/", Headers({b"host": [b"h"]}), None)

    pool = _Pool(real, lambda: next(looks), part)
    pool.getConnection("key", "endpoint").addCallback(lambda it: it.request(request))
    first, second = both
    assert first.came == b""
    assert first.ours.fileno() == -1

    back.set()
    while not (came := second.came):
        await asyncio.sleep(0)
    assert came.startswith(b"GET / HTTP/1.1\r\n")
