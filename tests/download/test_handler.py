"""The moment between a connection that is made and a request that is written."""

import asyncio
import resource
import socket
from types import SimpleNamespace

import pytest
from scrapy.exceptions import IgnoreRequest
from twisted.internet import tcp
from twisted.internet.defer import succeed
from twisted.internet.protocol import Protocol
from twisted.web.client import Request, RequestGenerationFailed
from twisted.web.http_headers import Headers

from frontier.download.handler import _Pool, _Tee
from frontier.download.wire import Connections, Wire

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
    wire = Wire()
    tee = _Tee(it.transport, wire, guard=lambda: None)

    tee.writeSequence([b"GET / HTTP/1.1\r\n", b"Host: h\r\n\r\n"])

    assert it.came == wire.request_head == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


async def test_a_request_whose_lease_has_ended_is_not_written(connected):
    one = connected(Connections(print, None).buildProtocol(None))
    one.transport.abortConnection = one.ours.close
    one.transport.getPeer = one.transport.setTcpNoDelay = lambda *_: None
    one.protocol.makeConnection(one.transport)
    real = SimpleNamespace(
        getConnection=lambda *_: succeed(one.protocol), persistent=True
    )
    request = Request(b"GET", b"/", Headers({b"host": [b"h"]}), None)

    def lost():
        raise IgnoreRequest("the lease on its partition is lost")

    made = _Pool(real, lost, Wire()).getConnection("key", "endpoint")
    answer = made.addCallback(lambda it: it.request(request))
    with pytest.raises(RequestGenerationFailed):
        await answer.asFuture(asyncio.get_running_loop())
    assert one.came == b""
    assert one.ours.fileno() == -1


@pytest.mark.parametrize(("more", "times"), [(32, 1), (33, 0)])
def test_idle_connections_end_while_files_are_left_for_names(connected, more, times):
    one, ends = connected(Protocol()), []
    one.protocol.makeConnection(one.transport)
    real = SimpleNamespace(
        getConnection=lambda *_: succeed(one.protocol),
        closeCachedConnections=lambda: ends.append("of idle ones"),
        persistent=True,
    )
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = (one.ours.fileno() + more, limits[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, few)
    try:
        _Pool(real, print, None).getConnection("key", "endpoint")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(ends) == times
