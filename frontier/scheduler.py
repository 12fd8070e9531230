"""The scheduler: Scrapy's requests in, the cluster's requests out.

What always holds:

1.  No method waits for the store; while too much waits for it, no request is
    started. A request that is enqueued is answered by the recent tier at once, or goes
    to the outbox and gets its verdict later.
2.  A request that came from the store is completed, and then acked, once it
    has left the engine's set of requests in progress: after its callbacks and
    item pipelines, whatever became of it.
3.  A request that cannot be stored stays in this process, and what it comes from is
    not acked before it is done; see `frontier.node.delivery`.
4.  If the crawl began with what others saw, or if links to start URLs are to be
    followed, a start request is queued once, whatever was seen: it is tested and
    marked, in one step, by a mark that only start requests have.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.defer import deferred_from_coro
from typing_extensions import override

from frontier.download.back_off import TIMES, probe
from frontier.download.outcomes import LeaseGone
from frontier.download.politeness import CLOSING
from frontier.errors import CodecError, FrontierError, NotSerializable
from frontier.node.context import Owner, Part, Target
from frontier.node.delivery import Link
from frontier.queue.due import META as DUE_META, Again, read_due
from frontier.queue.item import EXEMPT, EXTRAS, FORCED, Codec
from frontier.queue.priority import queue_name
from frontier.queue.push import (
    ARE_SEEN,
    CLAIMED,
    FORCE,
    SEEN_BY_BLOOM,
    TEST,
    UNTESTED,
    Push,
)
from frontier.requests.local_requests import LocalRequests
from frontier.requests.seen_mode import ONCE, SeenModes
from frontier.requests.spider_output import PARENT
from frontier.requests.stored_request import (
    WITH_PROXY,
    Allowed,
    ItemClasses,
    Recorder,
    from_record,
)
from frontier.scrapy_internals import FeedFiles, Slots, wake_engine
from frontier.seen.recent import Recent
from frontier.session.features import SpiderFeatures
from frontier.session.launch import spare_imports
from frontier.session.request_stats import RequestStats
from frontier.session.session import OfCrawler, session_of
from frontier.status.reports import counts_in
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from frontier.node.delivery import Delivery
    from frontier.node.ends import End
    from frontier.queue.reserve import Reservation

spare_imports()  # Scrapy imports this last of all that a node needs

logger = logging.getLogger(__name__)

LONG_DELAY = 10.0
"""Delay between requests to a host, in seconds, too long for a closing node to wait."""
SWEEP = 0.02
"""Seconds between looks at what has left the engine."""
AT_ONCE = 16
"""Requests that the engine is given before other work has its turn in the reactor:
each is decoded, and after a burst of responses the engine asks for as many."""


class Scheduler(OfCrawler, BaseScheduler, Owner):
    """Replaces Scrapy's scheduler and its duplicate filter."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._config = self._session.config
        self._features = SpiderFeatures(crawler)
        size = self._config.seen_recent_size
        has_recent = "recent" in self._config.seen_tiers
        self._recent = Recent(size) if has_recent else None
        self._feed_files = self._session.component(FeedFiles)
        self._delivered: dict[Request, Reservation] = {}
        """Requests that the engine has, and the reservation of each."""
        self._leaving = self._closes = False
        self._held_back = False
        self._handed = 0
        self._idle_since: float | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @override
    def open(self, spider: Spider) -> Deferred[None]:
        """Enter the crawl."""
        return deferred_from_coro(self._open(spider))

    async def _open(self, spider: Spider) -> None:
        session = self._session
        self._spider = spider
        self._stats = self._crawler.stats
        for stat in ("scheduler/enqueued", "scheduler/dequeued"):
            self._stats.inc_value(stat, 0)  # spiders read them, on any node
        self._recorder = Recorder(spider, Allowed.of(self._config))
        modules, settings = self._config.item_modules, self._crawler.settings
        self._codec = Codec(ItemClasses.of(modules, settings, spider))
        self._request_stats = RequestStats(self._crawler)
        session.fetch_again = self.fetch_again
        # Last, so that a spider's own handlers may add requests first.
        self._crawler.signals.connect(self._on_idle, signal=signals.spider_idle)
        await session.open(spider, self)
        self._node = session.node
        if not session.opened:
            return
        self._fingerprints = session.fingerprints
        self._modes = SeenModes(session, self._fingerprints)
        self._queue_addresses = session.queue_addresses
        self._local_requests = LocalRequests(session, self._delivered)
        self._node.parts.add(self._local_requests)
        self._sweeper = asyncio.create_task(self._sweep_on())
        shortens = self._fingerprints.by_url and self._recent is not None
        drop = self.drop_seen if shortens else None
        self._features.open(spider, self._codec, drop)

    @override
    def close(self, reason: str) -> Deferred[None]:
        """Leave the crawl; it goes on without this node, or with it later.

        But if one of Scrapy's own limits is reached, the crawl ends.
        """
        self._session.note_reason(reason)
        self._closes = True
        return deferred_from_coro(self._close())

    async def _close(self) -> None:
        if self._sweeper is not None:
            await self._node.parts.wait(Part.quit)
            self._sweeper.cancel()
            leaving = self._node.leaving
            leaving.watch()
            while not self._feed_files.flush():
                if leaving.given_up.is_set():
                    break
                await asyncio.sleep(SWEEP)
            self._sweep(set())
        await self._session.close()

    @override
    def has_pending_requests(self) -> bool:
        """Whether this node has, or knows of, anything left to start."""
        return len(self) > 0

    def __len__(self) -> int:
        """What this node has for its engine, and for the store; not the whole queue.

        Scrapy's scheduler has a length, and spiders ask for it.
        """
        if not self._session.opened:
            return 0
        return len(self._node.inbox) + self._node.outbox.pending

    # Enqueue: what a spider, a middleware or a part has made.

    @override
    def enqueue_request(self, request: Request) -> bool:
        """Hand *request* to the cluster; ``False`` if it was seen on this node."""
        mode, key = self._modes.of(request), None
        is_noted = mode != FORCE and (mode != ONCE or self._config.seen_start)
        if self._recent is not None and is_noted:
            key = self._fingerprints.key(request)
            if self._recent.add(key) and mode == TEST:
                return self._dropped(request)
        link = self._link(request, mode)
        for is_wanted in self._node.parts.each(Part.link):
            if not is_wanted(link):
                self._forget(key)
                return False
        if mode == ONCE:
            self._test_apart(link)
        try:
            self._store(link)
        except NotSerializable as error:
            self._forget(key)
            if not self._local_requests.adopt(link, error):  # the same is here
                self._request_stats.counts["frontier/seen/set"] += 1
                self._request_stats.filtered(request)
                return False
        return True

    def _forget(self, key: Any) -> None:
        """Count the request of *key*, if any, as not seen here."""
        if self._recent is not None:
            self._recent.discard(key)

    def drop_seen(self, request: Request) -> bool:
        """Whether the recent tier has *request*, which is then counted as filtered.

        Unlike `enqueue_request`, it notes nothing if the tier does not have it.
        """
        if self._recent is None or self._fingerprints.key(request) not in self._recent:
            return False
        self._dropped(request)
        return True

    def _dropped(self, request: Request) -> bool:
        """Count *request* as seen before; return false, as it is not queued."""
        self._request_stats.counts["frontier/seen/recent"] += 1
        self._request_stats.filtered(request)
        return False

    def _link(self, request: Request, mode: str) -> Link:
        """*request*, which is to be pushed in *mode*, with its place in the queue."""
        meta, fingerprint = request.meta, self._fingerprints.of(request)
        slot = meta.get(DOWNLOAD_SLOT)
        if slot is not None and slot == self._slot_of_parent():
            # A spider that passes on ``response.meta`` names no slot.
            del meta[DOWNLOAD_SLOT]
            slot = None
        address = self._queue_addresses.of(request.url, fingerprint, slot)
        queue = queue_name(address.queue_key, request.priority)
        due = self._due(request) if DUE_META in meta else 0
        return Link(request, mode, fingerprint, address.partition, queue, due)

    def _slot_of_parent(self) -> str | None:
        """The slot that Scrapy gave the page whose callback runs, if it gave one."""
        parent = PARENT.get()
        return self._session.requests.known(parent).slot or None if parent else None

    def _due(self, request: Request) -> int:
        """When *request* is due by the server's clock, in ms; 0 for at once.

        The key is taken out of its ``meta``, so that what a redirect or a spider makes
        of it later does not wait as long again.
        """
        try:
            return read_due(request.meta.pop(DUE_META), self._node.clock())
        except ValueError as error:
            self._request_stats.refuse_due(request, error)
            return 0

    def _test_apart(self, link: Link) -> None:
        """Have *link*, a start request, tested by a mark that only those have."""
        repeat = self._session.requests.known(link.request).repeat
        if self._config.seen_start and not repeat:  # else the first has marked it
            only_mark = Push(TEST, seen_hash(link.fingerprint), "", 0, b"")
            self._node.outbox.put(link.partition, only_mark)
        link.mode = TEST
        link.fingerprint = self._modes.start.fingerprint(link.fingerprint, repeat)

    def _store(self, link: Link) -> None:
        """Have *link* queued in the store; raises as `_item` does."""
        forced = self._forced_id(link) if link.mode in UNTESTED else 0
        item = self._item(link, forced)
        if link.replaces is not None:
            link.replaces.again = Again(link.queue, item, link.due)
            return
        request, mark = link.request, seen_hash(link.fingerprint)
        priority = request.priority
        push = Push(
            link.mode, mark, link.queue, priority, item, request, link.due, forced
        )
        self._node.outbox.put(link.partition, push)

    def _item(self, link: Link, forced: int) -> bytes:
        """*link* as an item of its queue.

        Raises:
            NotSerializable: It has none.
        """
        record = self._record(link.request)
        if link.extra:
            record.update(link.extra)
        if link.mode in UNTESTED:
            record[FORCED] = forced or secrets.randbits(63)
        return self._codec.encode(record, link.queue)

    def _forced_id(self, link: Link) -> int:
        """The id of a push that is not tested; it follows from what led to the push.

        0 if that is not known: if it is made again, it is queued again.
        """
        parent = PARENT.get()
        reservation = self._delivered.get(parent) if parent is not None else None
        if reservation is None:
            return 0
        number: int = reservation.delivery.next_id(link.fingerprint)
        reservation.delivery.forced[number] = link.partition
        return number

    def _record(self, request: Request) -> dict[str, Any]:
        """The record of *request*.

        Raises:
            NotSerializable: It has none.
        """
        try:
            return self._recorder.record(request)
        except NotSerializable:
            steering = self._recorder.allowed.steering(request.meta)
            if not (steering and self._was_set_here(request, steering)):
                raise
            return self._recorder.record(_without(request, steering))

    def _was_set_here(self, request: Request, names: frozenset[str]) -> bool:
        """Whether a middleware set *names* on the request that led to *request*.

        Requests come from the store without them. The next node sets its own.
        """
        parent = PARENT.get()
        reservation = self._delivered.get(parent) if parent is not None else None
        if parent is None or reservation is None or reservation.delivery.is_adopted:
            return False
        return all(parent.meta.get(name) == request.meta[name] for name in names)

    # Take: what the engine starts.

    @override
    def next_request(self) -> Request | None:
        """The next request to start, or ``None`` if there is none right now."""
        if self._handed == AT_ONCE:
            return None
        if self._node.outbox.is_full:
            self._held_back = True
            return None
        while (reservation := self._node.take()) is not None:
            try:
                request = self._request_of(reservation)
            except CodecError as error:
                self._bury(reservation, error)
                continue
            if request is None:
                reservation.delivery.is_last = True
                self._node.deliveries.through(reservation)
                continue
            self._idle_since = None
            PARENT.set(request)
            self._delivered[request] = reservation
            self._stats.inc_value("scheduler/dequeued")
            if not self._handed:
                asyncio.get_running_loop().call_soon(self._end_turn)
            self._handed += 1
            return request
        return None

    def _request_of(self, reservation: Reservation) -> Request | None:
        """What is to be started; ``None`` if a part does not want it.

        Raises:
            CodecError: Its item makes no request.
        """
        delivery: Delivery = reservation.delivery
        extra: dict[str, Any] = {}
        if delivery.is_adopted:
            request: Request = delivery.take()
            if request in self._delivered:  # its spider has made it twice
                request = delivery.take()
        else:
            record = self._codec.decode(reservation.item, reservation.queue)
            extra = {name: record.pop(name) for name in EXTRAS if name in record}
            push_id = extra.get(FORCED)
            if type(push_id) is int and push_id:
                delivery.name = b"%d" % push_id
            request = from_record(record, self._spider, self._recorder.allowed)
        self._session.requests.of(request).delivery = delivery
        starts = self._node.parts.each(Part.start)
        # each of them, as a request that one does not want is over for the others, too
        wanted = [start(request, delivery, extra) for start in starts]
        return request if all(wanted) else None

    def _end_turn(self) -> None:
        """Let the engine ask again, after the other work that the reactor had."""
        was_full, self._handed = self._handed == AT_ONCE, 0
        if was_full:
            wake_engine(self._crawler)

    def _bury(self, reservation: Reservation, error: FrontierError) -> None:
        self._session.count("frontier/queue/dead")
        logger.error("a request goes to the dead letter: %s", error)
        self._node.tasks.begin(self._node.acks.bury(reservation, str(error)))

    def fetch_again(
        self, request: Request, when: Any, changed: Request | None = None
    ) -> bool:
        """Have *request*, which is in progress, queued again in one step with its ack.

        *when* is what ``meta["frontier_due"]`` may be; *changed*, of the same host, is
        queued in its place if given. There is no seen test. Return whether it will be
        queued: not if it is not from the store, or cannot be put there again.

        Raises:
            ValueError: *when* is invalid.
        """
        delivery = self._session.requests.delivery(request)
        if delivery is None or delivery.is_adopted or delivery.reservation is None:
            return False
        reservation = delivery.reservation
        due = read_due(when, self._node.clock())
        queue, item = reservation.queue, b"0" + reservation.item[1:]
        if changed is not None:
            link = self._link(changed, TEST)
            if link.partition != reservation.lease.partition:
                return False
            try:
                record = self._record(changed) | {EXEMPT: True}
                queue, item = link.queue, self._codec.encode(record, link.queue)
            except NotSerializable:
                return False
        delivery.again = Again(queue, item, due)
        return True

    # Sweep: what has left the engine.

    async def _sweep_on(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            self._sweep(self._session.in_progress())
            if self._session.closing and self._leaving and self._sends_nothing:
                self._put_back_waiting()  # that has begun while this node closes
            if self._session.closing and not self._leaving:
                self._leaving = True
                self._put_back_waiting()
                self._node.tasks.begin(self._node.parts.wait(Part.quit))
                self._node.leave()

    @property
    def _sends_nothing(self) -> bool:
        """Whether the crawl is paused, or this node has given up what is in flight."""
        return self._node.controls.paused or self._node.leaving.given_up.is_set()

    def _put_back_waiting(self) -> None:
        """Do not wait for hosts that are to be left alone for long, or for a resume.

        Requests not yet sent to them stay reserved until the node leaves, and then go
        back to the queue; that is not counted as a delivery. What a fetched page needs,
        such as its files, is waited for: its item has to have them.
        """
        slots = Slots(self._crawler)
        longest = 0.0 if self._sends_nothing else LONG_DELAY
        for request, reservation in list(self._delivered.items()):
            if self._session.requests.known(request).sent is not None:
                continue
            if (slots.delay(slots.key(request)) or 0.0) >= longest:
                del self._delivered[request]
                request.errback = None  # its spider need not know
                reservation.delivery.is_given_back = True
        slots.turn_away(self._is_given_back, lambda: LeaseGone(CLOSING))
        self._session.gives_back = self._sends_nothing

    def _is_given_back(self, request: Request) -> bool:
        """Whether *request*, or the one that waits for its robots.txt, goes back."""
        delivery = self._session.requests.known(request).delivery
        return delivery is not None and delivery.is_given_back

    def _sweep(self, in_progress: set[Request]) -> None:
        """Complete what has left the engine."""
        self._request_stats.publish(self._fingerprints.refused)
        done = [request for request in self._delivered if request not in in_progress]
        if done and not self._feed_files.flush():
            return  # once done, it would not be fetched again for its items
        for request in done:
            reservation = self._delivered.pop(request)
            delivery: Delivery = reservation.delivery
            is_here = delivery.is_adopted or not self._node.has_lost(reservation)
            if delivery.waits and is_here and delivery.again is None:
                # In its queue, which is left alone.
                self._node.tasks.begin(self._node.acks.put_back(reservation))
            else:
                self._node.deliveries.through(reservation)

    def _on_idle(self) -> None:
        if not self._session.opened or self._node.ended:
            return
        now = time.monotonic()
        if self._node.controls.paused or self._node.uplink.waits:
            self._idle_since = None
            raise DontCloseSpider
        if self._idle_since is None:
            self._idle_since = now
        may_close = self._node.parts.each(Part.may_close)
        if not any(may(self._idle_since) for may in may_close):
            raise DontCloseSpider

    # What the node tells its owner.

    @override
    def on_ready(self) -> None:
        """Wake the engine, which would look only every five seconds."""
        wake_engine(self._crawler)

    @override
    def on_end(self, end: End) -> None:
        """Have the session close the spider."""
        self._session.on_end(end)

    @override
    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Count what the shared tiers said of requests."""
        if self._held_back and not self._node.outbox.is_full:
            self._held_back = False
            wake_engine(self._crawler)
        if self._session.start_salt:
            pushes, verdicts = _queued(pushes, verdicts)
        seen = sum(map(verdicts.count, ARE_SEEN))
        counts = self._request_stats.counts
        counts["scheduler/enqueued"] += len(verdicts) - seen
        again = sum(push.mode == FORCE and _is_retry(push.tag) for push in pushes)
        if again:
            counts["frontier/queue/retried"] += again
        if not seen:
            return
        in_bloom = verdicts.count(SEEN_BY_BLOOM)
        counts["frontier/seen/set"] += seen - in_bloom
        counts["frontier/seen/bloom"] += in_bloom
        for push, verdict in zip(pushes, verdicts, strict=True):
            if verdict == CLAIMED and push.tag is not None:
                # It may be new to whoever claimed it, and that may yet come here.
                self._forget(self._fingerprints.key(push.tag))
            if verdict in ARE_SEEN:
                self._request_stats.filtered(push.tag)
                self._crawler.signals.send_catch_log(
                    signals.request_dropped, request=push.tag, spider=self._spider
                )

    @override
    def went_back(self) -> None:
        """Forget all that counts as seen: the store may have forgotten it."""
        if self._recent is not None:
            self._recent = Recent(self._config.seen_recent_size)

    @override
    async def probe(self, target: Target) -> bool:
        """Whether a host answers anything at all."""
        return await probe(self._crawler, target)

    @override
    def room(self) -> bool:
        """Whether the disk of the feeds takes what a page gives."""
        return not self._feed_files.is_held_up

    @override
    def waits_for(self) -> str:
        """The feeds that the disk does not take."""
        held_up = self._feed_files.is_held_up
        return "the items of a feed cannot be written" if held_up else ""

    @override
    def busy(self) -> bool:
        """Whether this node has work that the store does not know of."""
        return bool(self._session.starting or self._session.holds_requests())

    @override
    def report(self) -> dict[str, Any]:
        """What is under way; when it closes, also what Scrapy has counted."""
        if self._sweeper is not None:  # a leaving node stores more after sweeps
            self._request_stats.publish(self._fingerprints.refused)
        self._session.publish()
        figures: dict[str, Any] = {"in_flight": len(self._delivered)}
        if self._feed_files.is_held_up:
            figures["disk_full"] = True
        if self._closes:
            figures["stats"] = counts_in(self._stats.get_stats())
        return figures


def _is_retry(request: Request | None) -> bool:
    """Whether *request* is another try of one that was queued before."""
    return request is not None and bool(
        request.meta.get("retry_times") or request.meta.get(TIMES)
    )


def _without(request: Request, names: frozenset[str]) -> Request:
    """A copy of *request* without *names* in its ``meta``."""
    bare = request.copy()
    gone = names | WITH_PROXY if "proxy" in names else names
    for name in gone:
        bare.meta.pop(name, None)
    if "proxy" in names:
        bare.headers.pop(b"Proxy-Authorization", None)
    return bare


def _queued(pushes: Sequence[Push], verdicts: str) -> tuple[list[Push], str]:
    """*pushes* and their *verdicts*, without those that only marked something."""
    queued = [n for n, push in enumerate(pushes) if push.queue or push.tag is not None]
    return [pushes[i] for i in queued], "".join(verdicts[i] for i in queued)
