"""The last moment before a request is sent: guards Scrapy's download handlers.

A request may wait in Scrapy's downloader slot for as long as the delay of its host
says, and the node may be frozen meanwhile. So the lease is checked when the handler is
called, not when the request enters the downloader; and our own handlers check it again
when the connection is made, which may take long.

What always holds:

1.  No request from the store is sent without a current lease on its partition, nor if
    this node, as it closes, has given it back. The same holds for the request for the
    robots.txt that it waits for.
2.  Requests that waited here for a lease are sent one after the other, with the
    delay of their slot between them.
3.  While the crawl is paused nothing is sent, whoever made it. What has been handed to
    its handler by then goes on.
4.  If a host is divided into shards, a node sends no faster than its share of them
    allows: its delay is the host's delay, times the number of shards, divided by the
    shards it holds. It has no more requests to the host on the way than its share of
    the host's limit.
5.  A request that would wait long for the delay of its host goes back to the store, and
    returns when it is its turn (`frontier.node.inbox`): so slow hosts cannot fill a
    node.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from frontier.download.addresses import send_checked
from frontier.download.back_off import LeftAlone
from frontier.download.browser import BrowserTraffic
from frontier.download.hops import Hops
from frontier.download.outcomes import LeaseGone, PartitionLost, TurnIsLater
from frontier.queue.priority import split_name
from frontier.scrapy_internals import Slots, stand_before_handlers
from frontier.session.session import session_of
from frontier.urls.partition import shards_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.node.hosts import HostConcurrency
    from frontier.queue.reserve import Reservation
    from frontier.session.session import Session

MAX_TURNS = 10_000
"""Hosts and slots whose next turn is remembered; above it, past turns are forgotten."""
CLOSING = "this node closes, and another sends it"
MOST_WAIT = 1.0
"""Seconds for which a request from the store may wait in its slot, where it counts
towards ``CONCURRENT_REQUESTS``."""
PATIENCE = 0.05
"""Seconds between checks of a lease that is not current."""
PAUSE_LOOK = 0.5
"""Seconds between checks whether a paused crawl goes on; a pause may take hours."""


class _Busy:
    """The requests to one divided host that are on the way."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = asyncio.Condition()


def lost(session: Session, request: Request) -> PartitionLost:
    """Put *request* off, and count it: another node has its partition.

    A robots.txt is in no queue. The requests that wait for it are counted.
    """
    if session.requests.delivery(request) is not None:
        session.count("frontier/queue/lost")
    session.requests.put_off(request)
    return PartitionLost("the lease on its partition is lost")


class LeaseGuard:
    """Stands before the download handlers of one crawler."""

    _slots: Slots
    _host_concurrency: HostConcurrency
    _send: Callable[[Request], Coroutine[Any, Any, Response]]

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session = session_of(crawler)
        self._left_alone = session.component(LeftAlone)
        self._next: dict[str, float] = {}
        self._hops = session.component(Hops)
        self._browser = session.component(BrowserTraffic)
        self._busy: WeakValueDictionary[str, _Busy] = WeakValueDictionary()

    def open(self) -> None:
        """Stand between Scrapy's downloader slots and its handlers.

        Before that, nothing stands on a reservation.
        """
        self._slots = Slots(self._crawler)
        self._host_concurrency = self._session.node.host_concurrency
        self._send = stand_before_handlers(self._crawler, self.send)

    async def send(self, request: Request) -> Response:
        """Send *request* once the lease that it depends on is current.

        Raises:
            LeaseGone: Another node has its partition now, or this one is closing, or
                the host is left alone.
            Excluded: An operator has excluded it meanwhile.
        """
        delivery = self._session.requests.delivery(request)
        if delivery is not None and delivery.is_given_back:
            raise LeaseGone(CLOSING)
        await self._left_alone.require(request)  # perhaps since it waits in its slot
        reservation = None if delivery is None else delivery.reservation
        if reservation is None:
            await self._covered(request, self._session.requests.stands_on(request))
            return await self._send_now(request)
        if self._host_concurrency.is_divided:
            await self._covered(request, reservation)
            host = self._session.node.hosts.named(split_name(reservation.queue)[1])
            async with self._room(host):
                delay = await self._in_turn(request, reservation, host)
                return await self._send_now(request, delay)
        await self._spaced(request, reservation)
        delay = self._slots.draw_turn(request.meta.get("download_slot"))
        return await self._send_now(request, delay)

    def require_turn(self, request: Request) -> None:
        """Have *request* wait in the store if its slot has no turn for it soon.

        Raises:
            TurnIsLater: It waits in the store.
        """
        reservation = self._session.requests.reservation(request)
        if reservation is None:
            return
        wait = self._slots.wait(self._slots.key(request))
        if wait > MOST_WAIT:
            queue_key = split_name(reservation.queue)[1]
            self._session.node.hosts.wait_for_turn(queue_key, wait)
            self._session.requests.put_off(request)
            raise TurnIsLater(f"the next turn of its host is in {wait:.0f} s")

    def covers(self, request: Request) -> bool:
        """Whether *request* needs no lease, or has a current one."""
        reservation = self._session.requests.stands_on(request)
        return reservation is None or self._session.node.covers(reservation)

    async def _spaced(self, request: Request, reservation: Reservation) -> None:
        """Wait until the lease is current, and the delay of the host has passed.

        Up to here Scrapy's slots keep the delay. But requests that wait here for a
        lease would all be sent at the moment it comes back.
        """
        slot = str(request.meta.get("download_slot"))
        waited = await self._covered(request, reservation)
        while waited or self._next.get(slot, 0.0) > time.monotonic():
            await self._turn(slot, self._delay(request))
            waited = await self._covered(request, reservation)
            if not waited:
                return

    async def _send_now(self, request: Request, delay: float = 0.0) -> Response:
        """Send *request*.

        If it is from the store, its host is then left alone for *delay* seconds.
        """
        self._hops.require_included(request)
        if (taken := self._session.requests.reservation(request)) is not None:
            self._session.node.inbox.sent(taken, delay)
        state = self._session.requests.of(request)
        state.sent = time.time()
        if not request.meta.get("playwright"):
            response = await self._send_checked(request)
        else:
            async with self._browser.recorded(request):
                response = await self._send_checked(request)
        self._left_alone.hear(request, response)  # before its slot sends the next
        state.answer = response
        return response

    async def _send_checked(self, request: Request) -> Response:
        return await send_checked(self._crawler, self._hops, request, self._send)

    async def _in_turn(
        self, request: Request, reservation: Reservation, host: str
    ) -> float:
        """Wait for this node's turn at a divided *host*; return its own delay there."""
        waited, delay = True, 0.0
        while waited:
            delay = self._delay(request)
            if delay:
                delay /= self._share(host)
                await self._turn(host, delay)
            waited = await self._covered(request, reservation)
        return delay

    @asynccontextmanager
    async def _room(self, host: str) -> AsyncIterator[None]:
        """Hold a place among the requests to *host* that may be on the way at once."""
        busy = self._busy.setdefault(host, _Busy())  # kept while anybody is in here
        async with busy.changed:
            await busy.changed.wait_for(
                lambda: busy.count < self._host_concurrency.sent()
            )
            busy.count += 1
        try:
            yield
        finally:
            busy.count -= 1
            async with busy.changed:
                busy.changed.notify_all()

    async def _covered(self, request: Request, stands_on: Reservation | None) -> bool:
        """Wait until *request* has a current lease and the crawl is not paused.

        Return whether it had to wait. *stands_on* is its own reservation, or that of
        the request whose robots.txt it asks for. One that stands on nothing needs no
        lease; when the node closes it does not wait either, so that what a page that
        was fetched still needs is fetched.

        Raises:
            LeaseGone: Another node has its partition now, or this one is closing.
        """
        session, node = self._session, self._session.node
        state, waited = session.requests.known(request), False
        while (node.controls.paused and state.sent is None) or not (
            stands_on is None or node.covers(stands_on)
        ):
            waited = True
            if stands_on is None:
                if session.gives_back:
                    break
            elif stands_on.delivery.is_given_back:
                raise LeaseGone(CLOSING)
            elif node.has_lost(stands_on):
                # Another node has it now. Adopted deliveries wait here until their
                # partition comes back.
                raise lost(session, request)
            await asyncio.sleep(PAUSE_LOOK if node.controls.paused else PATIENCE)
        return waited

    async def _turn(self, name: str, delay: float) -> None:
        """Wait for the next turn of *name*, a host or slot; turns are *delay* apart."""
        now = time.monotonic()
        at = max(now, self._next.get(name, now))
        if len(self._next) >= MAX_TURNS:  # turns in the past mean nothing
            self._next = {h: then for h, then in self._next.items() if then > now}
        self._next[name] = at + delay
        await asyncio.sleep(at - now)

    def _share(self, host: str) -> float:
        """The share of the shards of *host* that this node holds."""
        config, node = self._session.config, self._session.node
        shards = shards_of(host, config.host_shards, config.partitions)
        held = sum(node.leases.current(s.partition) is not None for s in shards)
        return max(held, 1) / config.host_shards

    def _delay(self, request: Request) -> float:
        """The slot's delay at present: AutoThrottle and others change it."""
        return self._slots.delay(request.meta.get("download_slot")) or 0.0
