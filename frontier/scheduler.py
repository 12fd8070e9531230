"""The scheduler: Scrapy's requests in, the cluster's requests out.

What always holds:

1.  No method waits for the store; while too much waits for it, no request is
    started. A request that is enqueued is answered by
    the recent tier at once or goes to the outbox; its verdict comes later.
2.  A request that came from the store is completed, and then acked, once it
    has left the engine's set of requests in progress: after its callbacks and
    item pipelines, whatever became of it.
3.  A request that cannot be stored stays in this process, and what it comes from is
    not acked before it is done with; see `frontier.node.delivery`.
4.  Where the crawl began with what others saw, or links to start URLs are to be
    followed, a start request is queued once whatever was seen: what is tested and
    marked with it, in one step, is a mark that only start requests have.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.defer import deferred_from_coro
from typing_extensions import override

from frontier.download.back_off import TIMES, LeftAlone, probe
from frontier.download.hops import Hops
from frontier.download.outcomes import OUT_OF_SCOPE, LeaseGone
from frontier.download.politeness import CLOSING, LeaseGuard
from frontier.errors import CodecError, FrontierError, NotSerializable
from frontier.feeds.rounds import admitted, rounds_of
from frontier.model import Attempt
from frontier.node.context import Owner, Part, Target
from frontier.node.crawl_limits import Portions
from frontier.queue.due import META as DUE_META
from frontier.queue.due import Again, read_due
from frontier.queue.item import EXEMPT, FORCED, RECRAWL, Codec
from frontier.queue.priority import queue_name
from frontier.queue.push import (
    ARE_SEEN,
    CLAIMED,
    FORCE,
    MARK,
    NEW,
    SEEN_BY_BLOOM,
    TEST,
    Push,
)
from frontier.requests.discovery import found_of, hops_of, noting_of
from frontier.requests.local_requests import LocalRequests
from frontier.requests.recrawls import Recrawls
from frontier.requests.seen_mode import ONCE, SeenModes
from frontier.requests.spider_output import PARENT
from frontier.requests.stored_request import (
    WITH_PROXY,
    Allowed,
    ItemClasses,
    Recorder,
    from_record,
)
from frontier.scrapy_internals import FeedFiles, Slots
from frontier.seeds.redis_feed import feed_of
from frontier.seen.recent import Recent
from frontier.session.launch import spare_imports
from frontier.session.other_schedulers import tell_of_leftovers
from frontier.session.session import one_message, session_of
from frontier.status.reports import counts_in
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT, SPREAD

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Self

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from frontier.feeds.rounds import Rounds
    from frontier.node.delivery import Delivery
    from frontier.node.ends import End
    from frontier.queue.reserve import Reservation
    from frontier.seeds.redis_feed import StartFeed

spare_imports()  # Scrapy imports this last of all that a node needs

logger = logging.getLogger(__name__)

DISK_DELAY = 0.1
"""Seconds after which a full archive is looked at again."""

LONG_DELAY = 10.0
"""Seconds between two requests to a host for which a node that closes does not wait."""
LEAST_WAIT = 0.1
"""Seconds for which a request waits whose host may be asked again by now."""
LOCAL_WAIT = 1.0
"""Seconds, at most, until what cannot be stored is tried again, if its host is left
alone and its queue is not."""
SWEEP = 0.02
"""Seconds between looks at what has left the engine."""
AT_ONCE = 16
"""Requests that the engine is given before others have their turn in the reactor:
each is decoded, and after a burst of responses it asks for as many."""
MAX_PENDING = 10_000
"""URLs that wait for the store above which this node starts nothing new."""


class Scheduler(BaseScheduler, Owner):
    """Replaces Scrapy's scheduler and its duplicate filter."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._config = self._session.config
        self._hops = self._session.component(Hops)
        self._traps = self._session.traps
        with one_message():
            self._recrawls = Recrawls(crawler)
        size = self._config.seen_recent_size
        has_recent = "recent" in self._config.seen_tiers
        self._recent = Recent(size) if has_recent else None
        self._feed_files = FeedFiles(crawler)
        self._delivered: dict[Request, Reservation] = {}
        self._leaving = self._closes = False
        self._looking = False
        self._held_back = False
        self._handed = 0
        self._feed: StartFeed | None = None
        self._rounds: Rounds | None = None
        self._idle_since: float | None = None
        self._asking = self._told_why = False
        self._nothing_left = False
        """Whether nothing of the crawl was left when this node had been idle for long
        enough; it has not started anything since."""
        self._sweeper: asyncio.Task[None] | None = None
        self._aside: set[asyncio.Task[Any]] = set()

    @classmethod
    @override
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the scheduler of *crawler*'s node."""
        return cls(crawler)

    @override
    def open(self, spider: Spider) -> Deferred[None]:
        """Enter the crawl."""
        return deferred_from_coro(self._open(spider))

    async def _open(self, spider: Spider) -> None:
        self._spider = spider
        self._stats = self._crawler.stats
        self._recorder = Recorder(spider, Allowed.of(self._config))
        modules, settings = self._config.item_modules, self._crawler.settings
        self._codec = Codec(ItemClasses.of(modules, settings, spider))
        self._recrawls.start(self._codec)
        self._request_stats = RequestStats(self._crawler)
        self._session.attach(self)
        self._session.fetch_again = self.fetch_again
        # Last, so that a spider's own handlers may add requests first.
        self._crawler.signals.connect(self._on_idle, signal=signals.spider_idle)
        await self._session.open(spider)
        self._node = self._session.node
        if not self._session.opened:
            return
        self._guard()
        self._node.parts[Portions].on_total = self._traps.learn
        self._fingerprints = self._session.fingerprints
        self._by_url = self._fingerprints.by_url
        self._modes = SeenModes(self._session, self._fingerprints)
        self._queue_addresses = self._session.queue_addresses
        shortens = self._by_url and self._recent is not None
        self._session.follow_output(
            self.drop_seen if shortens else None,
            noting_of(self._session),
            self._hops.of_errback,
        )
        self._local_requests = LocalRequests(
            self._session, self._modes, self._queue_addresses
        )
        self._sweeper = asyncio.create_task(self._sweep_on())
        if self._session.took_over:
            await tell_of_leftovers(self._node, self._crawler.settings, spider)
        self._feed = feed_of(self._crawler, self._node, spider)
        self._rounds = rounds_of(self._crawler, self._node, spider)
        if self._rounds is not None:
            self._recrawls.leave_to_rounds()
        self._node.stays_open = self._feed is not None or self._rounds is not None

    def _guard(self) -> None:
        """Stand between Scrapy's downloader slots and its handlers."""
        left_alone = self._session.component(LeftAlone)
        self._session.lease_guard = LeaseGuard(
            self._crawler, self._session, self._hops, left_alone
        )

    @override
    def close(self, reason: str) -> Deferred[None]:
        """Leave the crawl; it goes on without this node, or with it later.

        But if Scrapy has found one of its limits reached, the crawl ends.
        """
        self._session.note_reason(reason)
        self._closes = True
        return deferred_from_coro(self._close())

    async def _close(self) -> None:
        if self._feed is not None:
            await self._feed.close()
        if self._rounds is not None:
            await self._rounds.close()
        self._recrawls.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await self._recrawls.settle(self._delivered)
            self._sweep(set())
            self._local_requests.tell()
            self.publish()
            self._hops.tell()
        await self._session.close()

    @override
    def has_pending_requests(self) -> bool:
        """Whether this node has, or knows of, anything left to start."""
        if not self._session.opened:
            return False
        return bool(len(self._node.inbox) or self._node.outbox.pending)

    @override
    def enqueue_request(self, request: Request) -> bool:
        """Hand *request* to the cluster; ``False`` if it was seen on this node."""
        if self._session.exclusions and self._session.excludes(request.url):
            return False
        if DOWNLOAD_SLOT in request.meta:
            self._leave_slot(request)
        place = None if self._rounds is None else admitted(request)
        mode = MARK if place is not None and place.bypasses else self._modes.of(request)
        mode = self._recrawls.mode(request, mode)
        is_plain = self._by_url and request.method == "GET" and not request.body
        key = None
        is_noted = mode != FORCE and (mode != ONCE or self._config.seen_start)
        if self._recent is not None and is_noted:
            key = request.url if is_plain else self._key(request)
            if self._recent.add(key) and mode == TEST:
                return self._dropped(request)
        if mode == TEST and self._traps.are_set and self._is_trapped(request):
            return False
        fingerprint = self._fingerprints.of(request)
        slot = request.meta.get(DOWNLOAD_SLOT)
        address = self._queue_addresses.of(request.url, fingerprint, slot)
        queue = queue_name(address.queue_key, request.priority)
        due = self._due(request) if DUE_META in request.meta else 0
        forced = 0
        if mode in {FORCE, MARK}:
            forced = self._forced(fingerprint, address.partition)
        try:
            record, item = self._item(request, queue, mode, forced)
        except NotSerializable as error:
            return self._keep_here(request, fingerprint, mode, key, due, error)
        if self._recrawls.take_over(request, mode, record, address.partition, due):
            return True
        where = (address.partition, queue)
        self._push(request, fingerprint, item, mode, where, due, forced)
        return True

    def _forced(self, fingerprint: bytes, partition: int) -> int:
        """The id of a push to *partition* that is not tested, of what led to it.

        0 if nobody knows what that is: it would be queued again.
        """
        parent = PARENT.get()
        reservation = self._delivered.get(parent) if parent is not None else None
        if reservation is None:
            return 0
        number: int = reservation.delivery.next_id(fingerprint)
        reservation.delivery.forced[number] = partition
        return number

    def _leave_slot(self, request: Request) -> None:
        """Have *request* without the slot that Scrapy had given the page it is from.

        A spider that hands on ``response.meta`` names no slot.
        """
        parent = PARENT.get()
        slot = "" if parent is None else self._session.requests.known(parent).slot
        if slot and request.meta[DOWNLOAD_SLOT] == slot:
            del request.meta[DOWNLOAD_SLOT]

    def _dropped(self, request: Request) -> bool:
        """Count *request* as seen before; false, as it is not queued."""
        self._request_stats.counts["frontier/seen/recent"] += 1
        self._request_stats.filtered(request)
        return False

    def _keep_here(
        self,
        request: Request,
        fingerprint: bytes,
        mode: str,
        key: Any,
        due: int,
        error: NotSerializable,
    ) -> bool:
        """Keep *request*, which cannot be stored, here; not if the same is here."""
        if self._recent is not None:  # it is not seen for good
            self._recent.discard(key)
        facts = (request, fingerprint, mode, due)
        if self._local_requests.adopt(*facts, self._delivered, error):
            return True
        self._request_stats.counts["frontier/seen/set"] += 1
        self._request_stats.filtered(request)
        return False

    def _key(self, request: Request) -> Any:
        """What the recent tier knows *request* by."""
        if not self._by_url:
            return self._fingerprints.of(request)
        if request.method == "GET" and not request.body:
            return request.url
        return (request.method, request.url, request.body)

    def drop_seen(self, request: Request) -> bool:
        """Whether the recent tier has *request*, which is then counted as filtered.

        Unlike `enqueue_request` it notes nothing if not.
        """
        if self._recent is None or self._key(request) not in self._recent:
            return False
        self._dropped(request)
        return True

    @override
    def next_request(self) -> Request | None:
        """The next request to start, or ``None`` if there is none right now."""
        if self._archive_is_full() or self._handed == AT_ONCE:
            return None
        if self._node.outbox.pending > MAX_PENDING:
            self._held_back = True
            return None
        while (reservation := self._node.take()) is not None:
            try:
                request = self._request_of(reservation)
            except CodecError as error:
                self._bury(reservation, error)
                continue
            if self._session.exclusions and self._session.excludes(request.url):
                self._skip(request, reservation)
                continue
            self._idle_since, self._nothing_left = None, False
            PARENT.set(request)
            self._delivered[request] = reservation
            self._stats.inc_value("scheduler/dequeued")
            if not self._handed:
                asyncio.get_running_loop().call_soon(self._end_turn)
            self._handed += 1
            return request
        return None

    def _request_of(self, reservation: Reservation) -> Request:
        """What is to be started.

        Raises:
            CodecError: It makes no request.
        """
        if reservation.delivery.is_adopted:
            return self._adopted(reservation.delivery)
        record = self._codec.decode(reservation.item, reservation.queue)
        carried = record.pop(RECRAWL, None)
        is_exempt = bool(record.pop(EXEMPT, False))
        push_id = record.pop(FORCED, 0)
        made = from_record(record, self._spider, self._recorder.allowed)
        if is_exempt:
            self._session.requests.of(made).is_exempt = True
        if type(push_id) is int and push_id:
            reservation.delivery.name = b"%d" % push_id
        self._session.requests.of(made).delivery = reservation.delivery
        self._recrawls.begin(made, carried)
        return made

    def _adopted(self, delivery: Delivery) -> Request:
        """The request of *delivery*, to be started."""
        request: Request = delivery.take()
        if request in self._delivered:  # its spider has made it twice
            request = delivery.take()
        self._session.requests.of(request).delivery = delivery
        self._recrawls.note_local(request)
        return request

    def _skip(self, request: Request, reservation: Reservation) -> None:
        """Have *request* be done, which is excluded, without its being sent."""
        self._node.parts.call(
            Part.note,
            Attempt(
                request.url,
                OUT_OF_SCOPE,
                0.0,
                time.time(),
                found_of(request),
                notes=("excluded",),
            ),
        )
        if self._rounds is not None:
            self._rounds.complete(request, reservation)
        self._node.deliveries.through(reservation)

    def _end_turn(self) -> None:
        """Let the engine ask again, after what else the reactor had to do."""
        was_full, self._handed = self._handed == AT_ONCE, 0
        if was_full:
            self._session.wake_engine()

    def _archive_is_full(self) -> bool:
        """Whether the disk has to catch up; if so, the engine is woken later."""
        archive = self._session.archive
        if archive is None or not archive.full:
            return False
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(DISK_DELAY, self._look_again)
        return True

    def _look_again(self) -> None:
        self._looking = False
        self._session.wake_engine()

    # What the node tells its owner.

    @override
    def on_ready(self) -> None:
        """Wake the engine, which would look only every five seconds."""
        self._session.wake_engine()

    @override
    def on_end(self, end: End) -> None:
        """Have the session close the spider."""
        self._session.on_end(end)

    @override
    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Count what the shared tiers said of requests."""
        if self._held_back and self._node.outbox.pending <= MAX_PENDING:
            self._held_back = False
            self._session.wake_engine()
        if self._session.start_salt:
            pushes, verdicts = _queued(pushes, verdicts)
        if self._local_requests.is_waiting:
            self._local_requests.on_verdicts(pushes, verdicts)
        seen = sum(map(verdicts.count, ARE_SEEN))
        new = len(verdicts) - seen
        self._request_stats.counts["scheduler/enqueued"] += new
        again = sum(push.mode == FORCE and _is_retry(push.tag) for push in pushes)
        if again:
            self._request_stats.counts["frontier/queue/retried"] += again
        if new and self._traps.counts_urls:
            self._count_new(pushes, verdicts)
        if not seen:
            return
        in_bloom = verdicts.count(SEEN_BY_BLOOM)
        self._request_stats.counts["frontier/seen/set"] += seen - in_bloom
        self._request_stats.counts["frontier/seen/bloom"] += in_bloom
        for push, verdict in zip(pushes, verdicts, strict=True):
            if verdict == CLAIMED and self._recent is not None and push.tag is not None:
                # It may be new to who has claimed it, and that may come to be here.
                self._recent.discard(self._key(push.tag))
            if verdict in ARE_SEEN:
                self._request_stats.filtered(push.tag)
                self._crawler.signals.send_catch_log(
                    signals.request_dropped, request=push.tag, spider=self._spider
                )

    @override
    def went_back(self) -> None:
        """Know nothing as seen any more: the store may have forgotten it."""
        if self._recent is not None:
            self._recent = Recent(self._config.seen_recent_size)

    @override
    async def probe(self, target: Target) -> bool:
        """Whether a host answers anything at all."""
        return await probe(self._crawler, target)

    @override
    def busy(self) -> bool:
        """Whether this node has work that the store does not know of."""
        session = self._session
        if session.opened and self._local_requests.is_busy:
            return True
        return bool(session.starting or session.holds_requests())

    # Inside.

    def _item(
        self,
        request: Request,
        queue: str,
        mode: str,
        forced: int,
    ) -> tuple[dict[str, Any], bytes]:
        """The record of *request*, and it as an item of *queue*.

        Raises:
            NotSerializable: It has none.
        """
        record = self._record(request, mode)
        if mode in {FORCE, MARK}:
            record[FORCED] = forced or secrets.randbits(63)
        return record, self._codec.encode(record, queue)

    def _record(self, request: Request, mode: str = TEST) -> dict[str, Any]:
        """The record of *request*, which is to be pushed in *mode*.

        Raises:
            NotSerializable: It has none.
        """
        steering = self._recorder.allowed.steering(request.meta)
        if steering and self._was_set_here(request, steering):
            request = _without(request, steering)
        record = self._recorder.record(request)
        if (state := self._recrawls.state_of(request, mode)) is not None:
            record[RECRAWL] = state
        if mode != TEST and self._node.has_imported:
            record[EXEMPT] = True
        return record

    def _was_set_here(self, request: Request, names: frozenset[str]) -> bool:
        """Whether a middleware has set *names*, after the store gave what it is from.

        What comes from the store has none of them. The next node sets its own.
        """
        urls = {request.url, *request.meta.get("redirect_urls", ())[-1:]}
        origins = [r for r in self._delivered if r.url in urls]
        if (parent := PARENT.get()) is not None:
            origins.append(parent)
        return any(
            origin in self._delivered
            and self._delivered[origin].id > 0
            and all(origin.meta.get(n) == request.meta[n] for n in names)
            for origin in origins
        )

    def _is_trapped(self, request: Request) -> bool:
        if self._modes.is_start(request):
            return False
        trap = self._traps.catches(request.url, hops_of(request))
        if trap is not None:
            self._session.leave_out(trap, request.url)
        return trap is not None

    def _count_new(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Have traps know how many URLs there are of what they limit."""
        for push, verdict in zip(pushes, verdicts, strict=True):
            if verdict == NEW and push.tag is not None:
                for group, count in self._traps.note(push.tag.url):
                    self._node.parts[Portions].add(group, count)

    def _push(
        self,
        request: Request,
        fingerprint: bytes,
        item: bytes,
        mode: str,
        where: tuple[int, str],
        due: int,
        forced: int,
    ) -> None:
        partition, queue = where
        if mode == ONCE:
            if self._config.seen_start:
                only_mark = Push(TEST, seen_hash(fingerprint), "", 0, b"")
                self._node.outbox.put(partition, only_mark)
            mode = TEST
            fingerprint = self._modes.start_fingerprint(fingerprint)
        mark, priority = seen_hash(fingerprint), request.priority
        push = Push(mode, mark, queue, priority, item, request, due, forced)
        self._node.outbox.put(partition, push)

    def _due(self, request: Request) -> int:
        """When *request* is due by the server's clock, in ms; 0 for at once.

        That is taken out of its ``meta``: what is made of it later, by a redirect or a
        spider, does not wait as long again.
        """
        value = request.meta.pop(DUE_META)
        try:
            due = read_due(value, self._node.context.clock())
        except ValueError as error:
            self._request_stats.refuse_due(request, error)
            return 0
        return due

    def fetch_again(
        self, request: Request, when: Any, changed: Request | None = None
    ) -> bool:
        """Have *request*, which is in progress, fetched again, in a step with its ack.

        *when* is what ``meta["frontier_due"]`` may be; *changed*, of the same host, is
        queued in its place if given. The seen test is not asked. Return whether that
        will be: not if it is not from the store, or cannot be put there again.

        Raises:
            ValueError: *when* is no such thing.
        """
        delivery = self._session.requests.delivery(request)
        if delivery is None or delivery.is_adopted or delivery.reservation is None:
            return False
        reservation = delivery.reservation
        due = read_due(when, self._node.context.clock())
        queue, item = reservation.queue, b"0" + reservation.item[1:]
        if changed is not None:
            fingerprint = self._session.fingerprints.of(changed)
            slot = changed.meta.get(DOWNLOAD_SLOT)
            address = self._queue_addresses.of(changed.url, fingerprint, slot)
            if address.partition != reservation.lease.partition:
                return False
            queue = queue_name(address.queue_key, changed.priority)
            try:
                record = self._record(changed)
                if self._node.has_imported:
                    record[EXEMPT] = True
                item = self._codec.encode(record, queue)
            except NotSerializable:
                return False
        delivery.again = Again(queue, item, due)
        return True

    def publish(self) -> None:
        """Add what was counted to Scrapy's stats, which are slow to count in."""
        self._request_stats.publish(self._session.fingerprints.refused)
        if not self._session.opened:
            return
        limit, watchdog = self._node.memory_limit, self._node.watchdog
        tiers = None if limit is None else limit.state
        if tiers is not None:
            self._stats.set_value("frontier/seen/given_up", tiers.given_up)
            self._stats.set_value("frontier/seen/lost_expected", tiers.lost)
        if watchdog is not None and watchdog.slow:
            self._stats.set_value("frontier/busy/callbacks", watchdog.slow)
            self._stats.set_value("frontier/busy/longest", round(watchdog.longest, 1))
        if self._node.due_times.moved:
            self._stats.set_value("frontier/queue/due", self._node.due_times.moved)

    def _bury(self, reservation: Reservation, error: FrontierError) -> None:
        self._stats.inc_value("frontier/queue/dead")
        logger.error("a request goes to the dead letter: %s", error)
        self._do_aside(self._node.acks.bury(reservation, str(error)))

    def _do_aside(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(what)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _sweep_on(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            self._sweep(self._session.in_progress())
            if self._session.closing and self._leaving and self._node.paused:
                self._put_back_waiting()  # it was paused while this node closes
            if self._session.closing and not self._leaving:
                self._leaving = True
                self._put_back_waiting()
                if self._feed is not None:
                    self._feed.stop()
                if self._rounds is not None:
                    self._rounds.stop()
                self._node.leave()

    def _put_back_waiting(self) -> None:
        """Do not wait for hosts that are to be left alone for long, or for a resume.

        What has not been sent to them stays reserved until the node leaves, and then
        goes back to the queue. It is not a delivery. What a page that was fetched
        needs, as its files, is waited for: its item has to have them.
        """
        slots = Slots(self._crawler)
        longest = 0.0 if self._node.paused else LONG_DELAY
        for request, reservation in list(self._delivered.items()):
            if self._session.requests.known(request).sent is not None:
                continue
            if (slots.delay(slots.key(request)) or 0.0) >= longest:
                del self._delivered[request]
                self._recrawls.end(request)
                request.errback = None  # its spider need not know
                reservation.delivery.is_given_back = True
        slots.turn_away(self._is_put_back, lambda: LeaseGone(CLOSING))
        self._session.gives_back = self._node.paused

    def _is_put_back(self, request: Request) -> bool:
        """Whether *request*, or the one that waits for its robots.txt, goes back."""
        delivery = self._session.requests.known(request).delivery
        return delivery is not None and delivery.is_given_back

    def _sweep(self, in_progress: set[Request]) -> None:
        """Complete what has left the engine."""
        self.publish()
        done = [
            request
            for request in self._delivered
            if request not in in_progress and self._recrawls.is_settled(request)
        ]
        if done and not self._feed_files.flush():
            return  # what counts as done is not fetched again for its items
        for request in done:
            reservation = self._delivered.pop(request)
            delivery = reservation.delivery
            is_here = delivery.is_adopted or not self._node.has_lost(reservation)
            if delivery.waits and is_here:
                self._have_wait(request, reservation)
                continue
            if self._rounds is not None and delivery.again is None:
                self._rounds.complete(request, reservation)
            self._recrawls.end(request)
            if not delivery.reason and delivery.again is None:
                now_ms = self._node.context.clock()
                delivery.again = self._recrawls.again(request, reservation, now_ms)
            self._node.deliveries.through(reservation)

    def _have_wait(self, request: Request, reservation: Reservation) -> None:
        """Have *request* wait in the store until its host is asked again.

        In its queue, which is left alone; but where that has the URLs of other hosts,
        until a time.
        """
        self._recrawls.end(request)
        if self._config.queue_key not in SPREAD:
            self._do_aside(self._node.acks.put_back(reservation))
            return
        left = self._session.component(LeftAlone).left(request)
        if not self.fetch_again(request, max(LEAST_WAIT, left)):
            self._do_aside(self._put_back_local(reservation, left))
            return
        self._node.acks.complete(reservation)

    async def _put_back_local(self, reservation: Reservation, left: float) -> None:
        """Have what is adopted wait: its queue, of one URL, is not left alone.

        A node that closes puts back by itself what it still has.
        """
        await asyncio.sleep(min(max(LEAST_WAIT, left), LOCAL_WAIT))
        if not self._session.closing:
            await self._node.acks.put_back(reservation)

    def _on_idle(self) -> None:
        if not self._session.opened or self._node.finished:
            return
        if self._node.paused or self._node.uplink.waits:
            self._idle_since = None
            raise DontCloseSpider
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        if self._nothing_left:
            logger.info("no start URL came for long enough; the crawl stays open")
            return
        feed, idle = self._feed, now - self._idle_since
        if feed is not None and feed.has_waited(idle) and not self._asking:
            self._asking = True
            self._do_aside(self._ask_whether_to_stay(feed))
        raise DontCloseSpider

    async def _ask_whether_to_stay(self, feed: StartFeed) -> None:
        """Close if nothing of the crawl is left anywhere; else be idle from now on."""
        asked_at = self._idle_since
        nothing_left = await feed.nothing_left()
        self._asking = False
        if self._idle_since != asked_at:  # something was started meanwhile
            return
        if nothing_left:
            self._nothing_left = True
            self._session.wake_engine()
        else:
            self._idle_since = time.monotonic()
            if not self._told_why:
                self._told_why = True
                logger.info(
                    "this node has nothing to do, and waits: start URLs are left, or "
                    "pages are queued or under way on other nodes"
                )

    @override
    def report(self) -> dict[str, Any]:
        """What is under way; and when it closes, what Scrapy has counted."""
        self.publish()
        self._session.publish_archive()
        figures: dict[str, Any] = {"in_flight": len(self._delivered)}
        if self._closes:
            figures["stats"] = counts_in(self._stats.get_stats())
        return figures


class RequestStats:
    """Counts for the stats of *crawler*, which are slow to count in."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = crawler.settings
        self._stats = crawler.stats
        self._logs_dropped = logger.isEnabledFor(logging.DEBUG)
        self._told_due = False
        self.counts: Counter[str] = Counter()
        """What was counted since it was last published, by the name of the stat."""

    def filtered(self, request: Request) -> None:
        """Count *request* as one that was seen before."""
        self.counts["dupefilter/filtered"] += 1
        if self._logs_dropped:
            self._log_dropped(request)

    def _log_dropped(self, request: Request) -> None:
        """Log as Scrapy does: the first, or all if ``DUPEFILTER_DEBUG`` is set."""
        more = ""
        if not self._settings.getbool("DUPEFILTER_DEBUG"):
            more = " (no more will be shown; DUPEFILTER_DEBUG shows all)"
            self._logs_dropped = False
        logger.debug("Filtered a request that was seen: %s%s", request, more)

    def refuse_due(self, request: Request, error: ValueError) -> None:
        """Count *request* as one whose due time is none; log the first."""
        self.counts["frontier/queue/due_refused"] += 1
        if not self._told_due:
            self._told_due = True
            logger.error(
                "%s is fetched at once: its meta[%r] %s (shown once; the stat "
                "frontier/queue/due_refused counts them)",
                request.url[:200],
                DUE_META,
                error,
            )

    def publish(self, refused: int) -> None:
        """Add what was counted to the stats; *refused* are the rules' refusals."""
        for name, count in self.counts.items():
            if count:
                self._stats.inc_value(name, count)
        self.counts.clear()
        if refused:
            self._stats.set_value("frontier/canon/refused", refused)


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
