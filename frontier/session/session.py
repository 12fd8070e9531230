"""What the components of one Scrapy process share: its node and its state.

Scrapy builds the scheduler, the middlewares and the extension separately; they meet
here, in the one `Session` of their crawler. What is known of each request is in one
weak map (`RequestStates`). What always holds of that:

1.  The state of a request goes when the request does. So nothing in a `RequestState`
    may hold its request for good: a response, which comes to name its request, is
    taken out once it is used.
2.  Asking about a request of which nothing is known changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
from collections import Counter
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

import scrapy
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider
from typing_extensions import override

from frontier import json_log
from frontier.cluster.crawls import Launch
from frontier.errors import FrontierError, KeyDamaged, NodeStopped, RunOver
from frontier.metrics.exposition import require_library
from frontier.node.context import Owner, Part, before
from frontier.node.crawl_limits import Spending
from frontier.node.ends import (
    FEEDS_CUT,
    NOT_EXPORTED,
    REFUSED,
    RUN_OVER,
    STOPPED,
    End,
    limit_of_spider,
)
from frontier.node.file_limit import raise_file_limit
from frontier.node.hosts import Concurrency
from frontier.node.memory_limit import SeenMemoryLimit
from frontier.node.node import Node
from frontier.node.parts import AllFeatures
from frontier.queue.reserve import Ran, Reservation
from frontier.scrapy_internals import (
    NOT_EXPORTED as ITEMS_NOT_EXPORTED,
    FeedFiles,
    close_once_open,
    close_spider,
    end_with_error,
    forget_timeout,
    in_progress,
    is_closing,
    let_twisted_log,
    stop_when_open,
    wake_engine,
)
from frontier.session.launch import (
    FAILED,
    FAULTY,
    arguments_of,
    fail_program,
    job_of,
    joins_only,
    launched,
    run_of,
)
from frontier.session.request_stats import Counts, Outcomes, limits_of
from frontier.settings.config import Config
from frontier.urls.fingerprint import Fingerprints
from frontier.urls.partition import DOWNLOAD_SLOT, QueueAddresses, queue_key
from frontier.workers.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from frontier.dedupe.url_history import LastCapture
    from frontier.download.wire import Wire
    from frontier.metrics.exporter import Exporter
    from frontier.metrics.node import Reading
    from frontier.model import Stored
    from frontier.node.archiving import Archive
    from frontier.node.delivery import Delivery
    from frontier.requests.spider_output import SpiderOutput

logger = logging.getLogger(__name__)

WORKERS = 2
"""Worker processes of a node: one that reads a hostile page leaves the other free, and
each may have `FRONTIER_WORKER_MAX_BYTES` of the machine's memory."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""Statuses with which a server names another URL for what was asked."""
URL_SHOWN = 200
"""Most characters of a URL in a line about it."""

FEED_FAILED = "feedexport/failed_count/"
"""How Scrapy's stats begin that count feeds which could not be stored."""

_Component = TypeVar("_Component")
_sessions: WeakKeyDictionary[Crawler, Session] = WeakKeyDictionary()


@dataclass(slots=True)
class RequestState:
    """What the components of one process know of one request."""

    is_start: bool = False
    """Whether `Spider.start` made it."""
    repeat: int = 0
    """How many of `Spider.start`'s before it differ in their callback or data alone."""
    delivery: Delivery | None = None
    """What it stands on: as the request that was taken, or that for its robots.txt."""
    is_ahead: bool = False
    """Whether it is for that robots.txt, which is asked for first."""
    probes: bool = False
    """Whether it asks whether a host answers at all (`frontier.node.uplink`)."""
    names_slot: bool = False
    """Whether its ``meta`` named a download slot before Scrapy did."""
    slot: str = ""
    """The download slot that Scrapy put into its ``meta``, once it was fetched."""
    found: Any = None
    """What its ``meta`` said about how it was found, before its callback was called."""
    sent: float | None = None
    """When it was sent, in seconds since the Unix epoch."""
    asked_with: LastCapture | None = None
    """The capture that it was made conditional on: has the page changed since?"""
    wire: Wire | None = None
    """What crosses the wire for it."""
    heard: bool = False
    """Whether its server has sent something that did not become a response."""
    answer: Response | None = None
    """What the download handler gave for it, until the archive has taken that."""
    stored: Future[Stored] | None = None
    """Where its exchange is being written."""


_NOTHING = RequestState()


class RequestStates:
    """The states of the requests of one process."""

    def __init__(self) -> None:
        self._states: WeakKeyDictionary[Request, RequestState] = WeakKeyDictionary()

    def of(self, request: Request) -> RequestState:
        """The state of *request*, to be changed."""
        state = self._states.get(request)
        if state is None:
            state = self._states[request] = RequestState()
        return state

    def known(self, request: Request) -> RequestState:
        """What is known of *request*, only to be read."""
        return self._states.get(request, _NOTHING)

    def show_slot(self, request: Request) -> None:
        """Have callbacks find in *request*'s ``meta`` the slot that Scrapy gave it."""
        if slot := self.known(request).slot:
            request.meta[DOWNLOAD_SLOT] = slot

    def delivery(self, request: Request) -> Delivery | None:
        """The delivery of *request*, if it came from the store, or is adopted."""
        state = self._states.get(request, _NOTHING)
        return None if state.is_ahead else state.delivery

    def reservation(self, request: Request) -> Reservation | None:
        """What *request* was taken as, if it came from the store, or is adopted."""
        delivery = self.delivery(request)
        return None if delivery is None else delivery.reservation

    def stands_on(self, request: Request) -> Reservation | None:
        """What *request*, or the one whose robots.txt it asks for, was taken as."""
        delivery = self._states.get(request, _NOTHING).delivery
        return None if delivery is None else delivery.reservation

    def ran(self, request: Request) -> Ran | None:
        """What is to blame if a callback of *request* ends this process.

        If it is adopted, that is the page that has led to it; or itself, if there is no
        page because ``start`` made it.
        """
        delivery = self.delivery(request)
        if delivery is None:
            return None
        root = delivery.roots[0].reservation
        if root is not None:
            return Ran(*root.key)
        return Ran(delivery.partition, 0, int(delivery.name))

    def go_ahead(self, asks: Request, request: Request) -> None:
        """Note that *asks* is for *request*'s robots.txt, and stands on the same."""
        state = self.of(asks)
        state.delivery, state.is_ahead = self.delivery(request), True

    def put_off(self, request: Request) -> None:
        """Have *request*, which is not sent, wait where it came from, if it can.

        Its spider need not know.
        """
        if (delivery := self.delivery(request)) is not None:
            delivery.waits, delivery.reason = True, ""
        request.errback = None

    def give_up(self, request: Request, reason: str) -> None:
        """Make *request* a dead letter once it is done with, if it has a delivery.

        Its record and its links are kept.
        """
        if (delivery := self.delivery(request)) is not None:
            delivery.reason = reason


def session_of(crawler: Crawler) -> Session:
    """The session of *crawler*, made when it is first asked for.

    Raises:
        ConfigurationError: A ``FRONTIER_*`` setting is unknown or wrong.
    """
    if crawler not in _sessions:
        _sessions[crawler] = Session(crawler)
    return _sessions[crawler]


def say(crawler: Crawler, end: End) -> None:
    """Log *end*, and have the process exit with its code.

    ``scrapy crawl`` exits with 1 if the crawler has no spider at the end.
    """
    if end.message:
        logger.log(end.level, "%s", end.message)
    if end.code:
        fail_program(end.code)
        end_with_error(crawler)


def refuse(crawler: Crawler, end: End) -> None:
    """Log *end*, and have the spider closed as soon as everything has been opened."""
    say(crawler, end)
    close_once_open(crawler, end.reason)


class OfCrawler:
    """A component that Scrapy builds from its crawler alone."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the component of *crawler*'s node."""
        return cls(crawler)  # type: ignore[call-arg]


class Session(Part):
    """The node of one crawler, and what its components tell each other."""

    node: Node
    fetch_again: Callable[..., bool]
    """Has a request in progress fetched again; see `Scheduler.fetch_again`."""
    start_salt = b""
    """Not empty if the crawl began with what others had seen; see `carry_call`."""
    output: SpiderOutput | None = None
    """What takes the spider's output, once the crawl is open."""
    starting = False
    """Whether `Spider.start` may still make requests on this node."""
    start_id = ""
    """The id of this node's start requests: all nodes with its job make the same."""
    start_delivery: Delivery | None = None
    """What start requests that cannot be stored stand on, if there are any."""
    deadly: frozenset[int] = frozenset()
    """The ids of such requests that are given up, as their callbacks ended nodes."""
    gives_back = False
    """Whether this node closes while the crawl is paused, and gives back what it has
    not sent."""
    took_over = False
    """Whether the project was scrapy-redis's; see `other_schedulers`."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stopping = stop_when_open(crawler)
        self.config = Config.from_settings(crawler.settings)
        crawler.signals.connect(self._look_at_feeds, signals.feed_exporter_closed)
        if self.config.metrics_port:
            require_library("FRONTIER_METRICS_PORT")
        self._exporter: Exporter | None = None
        self._features = AllFeatures(limits_of(crawler.settings, self.config))
        self._counts: Counts | None = None
        self._run_id = self.config.run_id or launched(os.environ)
        self._join_only = self.config.join_only or joins_only(os.environ)
        self._arguments = arguments_of(crawler)
        self.opened = False
        """Whether the node takes part in a crawl."""
        self.has_begun = False
        """Whether its spider is open."""
        self._components: dict[Any, Any] = {}
        self.requests = RequestStates()
        """What is known of each request."""
        self._warned: set[str] = set()
        self.knows_start = asyncio.Event()
        self.refused: Counter[str] = Counter()
        """Requests that were not sent, by reason (`frontier.download.hops`)."""
        self.outcomes = Outcomes()
        """What became of requests, by kind of error and by host."""

    def component(self, make: Callable[[Crawler], _Component]) -> _Component:
        """What *make* builds for this process, built when it is first asked for.

        So its users find the same one, and the session need not know it.
        """
        if make not in self._components:
            self._components[make] = make(self._crawler)
        made: _Component = self._components[make]
        return made

    async def open(self, spider: Spider, owner: Owner) -> None:
        """Open the node of *owner*; if it cannot take part, close the spider at once.

        The engine cannot be stopped from here without a traceback per
        component, so the spider is closed when everything has been opened.
        """
        settings = self._crawler.settings
        self.starting = True
        job = job_of(spider, self._arguments)
        self.start_id = job.id
        node = Node(
            self.config,
            dict(settings),
            owner,
            spider=spider.name,
            concurrency=concurrency_of(settings),
            launch=Launch(run_of(spider, self._run_id), job, self._join_only),
            features=self._features,
        )
        node.stopping = self._stopping
        self.node = node
        node.parts.add(self)
        json_log.name(spider, self.config.node_id)
        try:
            self.queue_addresses = QueueAddresses(self.config)
            _ = self.fingerprints  # made, or refused, before the crawl is entered
            raise_file_limit(settings.getint("CONCURRENT_REQUESTS"))
            self.component(FeedFiles).require(spider)
            await self._bind_exporter(spider)
            await node.open()
        except RunOver as over:
            refuse(self._crawler, RUN_OVER.of(over))
            return
        except NodeStopped as stopped:
            refuse(self._crawler, STOPPED.of(stopped))
            return
        except FrontierError as error:
            code = FAULTY if isinstance(error, KeyDamaged) else FAILED
            refuse(self._crawler, replace(REFUSED.of(error), code=code))
            return
        self.opened = True
        json_log.name(spider, self.config.node_id, node.keys.crawl_id)
        self._crawler.signals.connect(self._begin, signals.spider_opened)
        self._count_answers()

    async def _bind_exporter(self, spider: Spider) -> None:
        """Bind a port for metrics, if they are wanted.

        Raises:
            ConfigurationError: No port is free.
        """
        if self.config.metrics_port:
            from frontier.metrics.exporter import Exporter

            made = self._exporter = await asyncio.to_thread(Exporter, self.config)
            where = {"metrics_port": made.port, "metrics_host": made.host}
            self.node.process_stats.metrics = where
            self._about = {
                "node": self.config.node_id,
                "spider": spider.name,
                "machine": socket.gethostname(),
                "version": await asyncio.to_thread(metadata.version, "frontier-crawl"),
                "scrapy_version": scrapy.__version__,
            }

    def _reading(self) -> Reading:
        """What the node knows of itself, for its metrics."""
        from frontier.metrics.node import Reading
        from frontier.status.figures import figures_of

        return Reading(
            about={**self._about, "crawl": self.node.keys.crawl_id},
            figures=figures_of(self.node.report()),
            stats=dict(self._crawler.stats.get_stats()),
            moment={
                **self.node.moment(),
                "archive_full": float(self.archive is not None and self.archive.full),
            },
        )

    def _count_answers(self) -> None:
        """Tell the node, and the limits that it keeps to, what comes in from now on."""
        connect = self._crawler.signals.connect
        connect(self._note_answer, signals.response_downloaded)
        connect(self._note_page, signals.response_received)
        connect(self._note_fault, signals.spider_error)
        connect(self._note_fault, signals.item_error)
        self.count_for_limits()

    def end_by_spider(self, error: BaseException) -> None:
        """End the crawl if *error*, which the spider has raised, says that it is done.

        That is what `CloseSpider` does to a job of plain Scrapy. Scrapy itself closes
        this node.
        """
        ends = self.opened and self.config.close_spider == "crawl"
        if ends and isinstance(error, CloseSpider):
            self.node.end_crawl(limit_of_spider(error.reason or "cancelled"))

    def on_end(self, end: End) -> None:
        """Log *end*, and close the spider if it has a reason for that."""
        say(self._crawler, end)
        if not end.reason:
            wake_engine(self._crawler)
        elif not self.closing:
            close_spider(self._crawler, end.reason)

    def _look_at_feeds(self) -> None:
        """Say that feeds are not whole: Scrapy only logs it, and counts them."""
        counts = self._crawler.stats.get_stats().items()
        failed = [n for name, n in counts if name.startswith(FEED_FAILED)]
        if failed:
            say(self._crawler, FEEDS_CUT.of(count=sum(failed)))
        if lost := self._crawler.stats.get_value(ITEMS_NOT_EXPORTED, 0):
            say(self._crawler, NOT_EXPORTED.of(count=lost))

    async def close(self) -> None:
        """Close the node, if it was opened."""
        if self.opened:
            self.publish()
            self.opened = False
            await self.node.close()
            for name, count in self.node.stats_of_all.items():
                self._crawler.stats.set_value(f"frontier/job/{name}", count)
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.close)
            self._exporter = None

    @property
    def archive(self) -> Archive | None:
        """The archive of this node, if it has one."""
        return self._features.archive

    @functools.cached_property
    def fingerprints(self) -> Fingerprints:
        """What says which requests are the same to this crawl.

        Raises:
            ConfigurationError: The rules do not exist, or do not fit the project.
        """
        return Fingerprints(
            self._crawler.request_fingerprinter, self.config.canon_rules
        )

    @functools.cached_property
    def workers(self) -> WorkerPool:
        """Processes for what may take long; none is started before there is a job."""
        config = self.config
        pool = WorkerPool(WORKERS, config.worker_seconds, config.worker_max_bytes)
        self._crawler.signals.connect(pool.close, signal=signals.engine_stopped)
        return pool

    async def let_store(self) -> None:
        """Wait while too many requests wait for the store."""
        if self.opened and self.node.outbox.is_full:
            await before(self.node.leaving.given_up, self.node.outbox.flush())

    def in_progress(self) -> set[Request]:
        """The requests that the engine is not done with."""
        return in_progress(self._crawler)

    @property
    def closing(self) -> bool:
        """Whether the engine waits for what is in progress, and then closes."""
        return is_closing(self._crawler)

    def holds_requests(self) -> bool:
        """Whether a request is under way that did not come from the store."""
        requests = self.requests
        return any(
            requests.delivery(r) is None and not requests.known(r).probes
            for r in self.in_progress()
        )

    @override
    def steered(self) -> None:
        """Send what may be sent.

        While it is paused, or no host answers, time does not count towards a limit.
        """
        waits = self.node.controls.paused or self.node.uplink.since is not None
        if self.has_begun and waits:
            forget_timeout(self._crawler)
        wake_engine(self._crawler)

    def _begin(self) -> None:
        """Do what an operator wanted of the crawl before this node came."""
        self.has_begun = True
        self.node.parts.call(Part.steered)
        if self._exporter is not None:
            self._exporter.serve(self._reading, asyncio.get_running_loop())

    def count_for_limits(self) -> None:
        """Begin to count for the crawl's limits and the hosts' quotas, if any; once."""
        hosts, spending = self.node.hosts, self.node.parts[Spending]
        if self._counts is None and (spending.is_counting or hosts.has_quotas):
            of = self.requests.reservation
            self._counts = Counts(self._crawler, spending, hosts, of)

    def _note_answer(self, request: Request, response: Response) -> None:
        """Count a page even if a middleware then gives it another request."""
        if response.status not in REDIRECTS:
            self._note_page(request)

    def _note_page(self, request: Request) -> None:
        """Count a response that is no redirect, unless it is for a robots.txt."""
        if self.requests.reservation(request) is not None:
            self.node.fetched.page(request.url)

    def _note_fault(self, response: Any) -> None:
        """Count an exception of a callback or an item pipeline that got *response*.

        An errback got a failure, and what an item of `start` passes through nothing.
        """
        request = getattr(response, "request", None)
        host = queue_key(getattr(request, "url", ""), "host")
        self.outcomes.failed("code", host)

    def note_reason(self, reason: str) -> None:
        """Note why the spider closes."""
        if self._counts is not None:
            self._counts.closing(reason)

    def count(self, stat: str, count: int = 1) -> None:
        """Add *count* to *stat* of Scrapy's."""
        self._crawler.stats.inc_value(stat, count)

    @override
    def report(self) -> dict[str, Any]:
        """What Scrapy and its components have counted, for the crawl's report."""
        stats = self._crawler.stats
        forbidden = stats.get_value("robotstxt/forbidden", 0)  # Scrapy's exceptions
        return {
            "pages": stats.get_value("response_received_count", 0),
            "requests": stats.get_value("downloader/request_count", 0),
            "bytes": stats.get_value("downloader/response_bytes", 0),
            "items": stats.get_value("item_scraped_count", 0),
            "errors": self.outcomes.errors,
            **self.outcomes.report(),
            "statuses": _statuses(stats.get_stats()),
            "forbidden": forbidden,
            "refused": self.refused.total(),
            "seen": {
                tier: stats.get_value(f"frontier/seen/{tier}", 0)
                for tier in ("recent", "bloom", "set", "imported")
            },
            "queued": (queued := stats.get_value("scheduler/enqueued", 0)),
            "new": queued - stats.get_value("frontier/queue/retried", 0),
            "local": stats.get_value("frontier/queue/local", 0),
            "dead": stats.get_value("frontier/queue/dead", 0),
        }

    def warn_once(self, line: str, *arguments: object) -> None:
        """Warn with *line*, of which only the first is of interest."""
        if line not in self._warned:
            self._warned.add(line)
            logger.warning(line, *arguments)

    def publish(self) -> None:
        """Have Scrapy's stats say what the node and its archive have counted."""
        if self.opened:
            self._publish_node()
        if (archive := self.archive) is not None:  # also while the node is closed
            for name, figure in archive.counters.report().items():
                self._crawler.stats.set_value(f"frontier/archive/{name}", figure)

    def _publish_node(self) -> None:
        seen, watchdog = self.node.parts[SeenMemoryLimit].state, self.node.watchdog
        stats = self._crawler.stats
        if seen is not None:
            stats.set_value("frontier/seen/given_up", seen.given_up)
            stats.set_value("frontier/seen/lost_expected", seen.lost)
        if watchdog is not None and watchdog.slow:
            stats.set_value("frontier/busy/callbacks", watchdog.slow)
            stats.set_value("frontier/busy/longest", round(watchdog.longest, 1))
        if self.node.due_times.moved:
            stats.set_value("frontier/queue/due", self.node.due_times.moved)


def concurrency_of(settings: BaseSettings) -> Concurrency:
    """What Scrapy's settings say about requests at a time."""
    return Concurrency(
        requests=settings.getint("CONCURRENT_REQUESTS"),
        per_host=settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
        delay=settings.getfloat("DOWNLOAD_DELAY"),
    )


def _statuses(stats: Mapping[str, Any]) -> dict[str, int]:
    """How many responses there were of each status, redirects and retries included."""
    start = "downloader/response_status_count/"
    return {
        name.removeprefix(start): count
        for name, count in stats.items()
        if name.startswith(start)
    }


@contextlib.contextmanager
def one_message() -> Iterator[None]:
    """Log an error of ours as one line, and keep its traceback out of the log.

    For what runs before the engine does, where raising is the way to stop.
    """
    try:
        yield
    except FrontierError as error:
        logger.critical("%s", error)
        fail_program()
        for name in ("twisted", "asyncio"):
            logging.getLogger(name).addFilter(_is_not_ours)
        let_twisted_log()
        raise


def _is_not_ours(record: logging.LogRecord) -> bool:
    if record.exc_info and isinstance(record.exc_info[1], FrontierError):
        return False
    text = record.getMessage()
    return not ("Unhandled error in Deferred" in text or "frontier.errors." in text)
