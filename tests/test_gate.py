"""What waits for a lease is sent politely when the lease comes back."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from frontier.gate import Gate

DELAY = 0.2


class Node:
    """Says whether a request may be sent, and what is reserved."""

    def __init__(self):
        self.has_lease = True
        self.inbox = SimpleNamespace(open={1})

    def may_send(self, _):
        return self.has_lease

    def sent(self, *_):
        """As a node notes it for other nodes."""


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def sent():
    """When requests were sent, by the monotonic clock."""
    return []


@pytest.fixture
def gate(node, sent):
    async def send(request):
        sent.append(time.monotonic())
        return request

    handlers = SimpleNamespace(
        download_request_async=send,
        _get_handler=lambda _: SimpleNamespace(checks_addresses=True),
    )
    slots = {"host": SimpleNamespace(delay=DELAY)}
    downloader = SimpleNamespace(slots=slots, handlers=handlers)
    crawler = SimpleNamespace(
        engine=SimpleNamespace(downloader=downloader),
        stats=SimpleNamespace(inc_value=lambda _: None),
    )
    connection = SimpleNamespace(
        node=node,
        allowance=SimpleNamespace(is_divided=False),
        hops=None,
        reservations={},
        sent={},
        answered={},
        browser=None,
    )
    return Gate(crawler, connection)


@pytest.fixture
def send(gate):
    """Send a request of the slot ``host``, as its slot releases it."""

    def send():
        request = Request("http://host/", meta={"download_slot": "host"})
        gate._connection.reservations[request] = SimpleNamespace(key=1)
        return asyncio.ensure_future(gate.send(request))

    return send


async def test_a_request_with_a_current_lease_does_not_wait(send, sent):
    await asyncio.gather(send(), send())

    assert sent[1] - sent[0] < DELAY / 2


async def test_those_that_waited_for_the_lease_keep_the_delay_between_them(
    node, send, sent
):
    node.has_lease = False
    waiting = [send(), send(), send()]
    await asyncio.sleep(0)
    assert sent == []
    node.has_lease = True
    await waiting[0]
    waiting.append(send())  # which the slot releases a delay after the last before

    await asyncio.gather(*waiting)

    # All together: on a busy machine one may be late, and the next one not.
    assert len(sent) == 4
    assert sent[-1] - sent[0] >= 3 * DELAY - 0.01


async def test_those_whose_lease_is_lost_are_not_sent(node, send, sent):
    node.has_lease = False
    waiting = send()
    await asyncio.sleep(0)
    node.inbox.open.clear()

    with pytest.raises(IgnoreRequest):
        await waiting
    assert sent == []
