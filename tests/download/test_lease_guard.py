"""What waits for a lease is sent politely when the lease comes back."""

import asyncio
import itertools
import time
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from frontier.download.back_off import LeftAlone
from frontier.download.browser import BrowserTraffic
from frontier.download.hops import Hops
from frontier.download.politeness import LeaseGuard
from frontier.node.delivery import Delivery
from frontier.session.session import RequestStates

DELAY = 0.2


class Idle(asyncio.SelectorEventLoop):
    """Its time passes only while nobody has anything to do.

    So what is sent is sent at the moment that was planned, on the busiest machine.
    """

    def __init__(self):
        self.passed = 0.0
        super().__init__()
        select = self._selector.select

        def pass_on(timeout=None):
            ready = select(0 if timeout is not None else None)
            self.passed += 0 if ready else timeout
            return ready

        self._selector.select = pass_on

    def time(self):
        return self.passed


@pytest.fixture(autouse=True)
def loop(monkeypatch):
    made = Idle()
    clock = SimpleNamespace(time=time.time, monotonic=made.time)
    monkeypatch.setattr("frontier.download.politeness.time", clock)
    yield made
    made.close()


@pytest.fixture
def run(loop):
    return loop.run_until_complete


class Node:
    """Says whether a request may be sent, and what is reserved."""

    def __init__(self):
        self.has_lease = True
        self.controls = SimpleNamespace(paused=False)
        self.inbox = SimpleNamespace(open={1}, sent=lambda *_: None)
        self.host_concurrency = SimpleNamespace(is_divided=False)

    def covers(self, _):
        return self.has_lease

    def has_lost(self, reservation):
        return reservation.key not in self.inbox.open


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def sent():
    """When requests were sent, by the loop's time."""
    return []


@pytest.fixture
def counted():
    """The stats that are counted, each as often as it is."""
    return []


@pytest.fixture
def gate(node, sent, counted, monkeypatch):
    async def send(request):
        sent.append(asyncio.get_running_loop().time())
        return request

    async def let_pass(_):
        pass

    handlers = SimpleNamespace(
        download_request_async=send,
        _get_handler=lambda _: SimpleNamespace(checks_addresses=True),
    )
    slots = {"host": SimpleNamespace(delay=DELAY)}
    downloader = SimpleNamespace(slots=slots, handlers=handlers)
    crawler = SimpleNamespace(
        engine=SimpleNamespace(downloader=downloader),
        stats=SimpleNamespace(inc_value=counted.append),
    )
    hops = SimpleNamespace(require_included=lambda _: None)
    left_alone = SimpleNamespace(require=let_pass, hear=lambda *_: None)
    connection = SimpleNamespace(
        config=SimpleNamespace(queue_key="host"),
        node=node,
        requests=RequestStates(),
        component={Hops: hops, LeftAlone: left_alone, BrowserTraffic: None}.get,
        count=counted.append,
    )
    monkeypatch.setattr("frontier.download.politeness.session_of", lambda _: connection)
    guard = LeaseGuard(crawler)
    guard.open()
    return guard


def take(gate, request):
    """Have *request* be from the store."""
    reservation = SimpleNamespace(key=1, lease=0)
    reservation.delivery = Delivery(reservation)
    gate._session.requests.of(request).delivery = reservation.delivery


@pytest.fixture
def send(gate):
    """Send a request of the slot ``host``, as its slot releases it."""

    def send():
        request = Request("http://host/", meta={"download_slot": "host"})
        take(gate, request)
        return asyncio.ensure_future(gate.send(request))

    return send


def test_a_request_with_a_current_lease_does_not_wait(run, send, sent):
    async def two():
        await asyncio.gather(send(), send())

    run(two())

    assert sent == [0.0, 0.0]


def test_those_that_waited_for_the_lease_keep_the_delay_between_them(
    run, node, send, sent
):
    async def four():
        node.has_lease = False
        waiting = [send(), send(), send()]
        await asyncio.sleep(1.0)
        assert sent == []
        node.has_lease = True
        await waiting[0]
        waiting.append(send())  # which the slot releases a delay after the last before
        await asyncio.gather(*waiting)

    run(four())

    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert gaps == pytest.approx([DELAY] * 3)


def test_those_whose_lease_is_lost_are_not_sent(run, node, send, sent, counted):
    async def one():
        node.has_lease = False
        waiting = send()
        await asyncio.sleep(1.0)
        node.inbox.open.clear()
        with pytest.raises(IgnoreRequest):
            await waiting

    run(one())

    assert sent == []
    assert counted == ["frontier/queue/lost"]


@pytest.fixture
def ask(gate):
    """Ask for the robots.txt that a request waits for; return that request, too."""

    def ask():
        request, asks = Request("http://host/"), Request("http://host/robots.txt")
        take(gate, request)
        gate._session.requests.go_ahead(asks, request)
        return request, asyncio.ensure_future(gate.send(asks))

    return ask


def test_a_robots_txt_waits_for_the_lease_of_who_waits_for_it(run, node, ask, sent):
    async def one():
        node.has_lease = False
        _, asking = ask()
        await asyncio.sleep(1.0)
        assert sent == []
        node.has_lease = True
        await asking

    run(one())

    assert len(sent) == 1


def test_no_robots_txt_is_asked_for_where_another_node_asks(
    run, node, ask, sent, counted
):
    async def one():
        node.has_lease = False
        _, asking = ask()
        await asyncio.sleep(1.0)
        node.inbox.open.clear()
        with pytest.raises(IgnoreRequest):
            await asking

    run(one())

    assert sent == []
    assert counted == []  # it is in no queue


def test_a_node_that_closes_waits_for_no_robots_txt(run, node, gate, ask, sent):
    async def one():
        node.has_lease = False
        request, asking = ask()
        await asyncio.sleep(1.0)
        gate._session.requests.delivery(request).is_given_back = True
        with pytest.raises(IgnoreRequest):
            await asking

    run(one())

    assert sent == []
