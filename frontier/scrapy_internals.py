"""What Scrapy has no public name for, and what its versions do in different ways.

The rest of the frontier checks no version, and uses no private name of Scrapy's
(`tests/test_scrapy_internals.py`). Tried on 2.16.0, 2.17.0, 2.18.0 and 2.19.0 (`make
compat`). Since 2.18, `CloseSpider` is heeded when a spider is opened, a header line
without a colon is left out and fails no download, and robots.txt parsers know the
Crawl-delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import hashlib
import io
import logging
import os
import random
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from scrapy import Request, exceptions, signals
from scrapy.core import downloader as scrapys_downloader
from scrapy.core.downloader.handlers import http11
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler, _ScrapyAgent
from scrapy.downloadermiddlewares.cookies import (
    CookiesMiddleware as ScrapysCookiesMiddleware,
)
from scrapy.downloadermiddlewares.redirect import (
    MetaRefreshMiddleware as ScrapysMetaRefreshMiddleware,
)
from scrapy.downloadermiddlewares.robotstxt import (
    RobotsTxtMiddleware as ScrapysRobotsTxtMiddleware,
)
from scrapy.exceptions import ResponseDataLossError
from scrapy.extensions.closespider import CloseSpider as ScrapysCloseSpider
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.extensions.postprocessing import Bz2Plugin, GzipPlugin
from scrapy.pipelines.files import FilesPipeline, FSFilesStore
from scrapy.utils import log as scrapys_log
from scrapy.utils._download_handlers import (
    get_dataloss_msg,
    wrap_twisted_exceptions,
)
from scrapy.utils.defer import deferred_from_coro, ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.python import to_unicode
from scrapy.utils.response import _baseurl_cache
from twisted.logger import globalLogBeginner
from twisted.web._newclient import HTTP11ClientProtocol, HTTPClientParser
from twisted.web.client import _HTTP11ClientFactory
from typing_extensions import override

from frontier import json_log
from frontier.errors import ConfigurationError
from frontier.files import require_at
from frontier.node.hosts import LONG

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Mapping,
        Sequence,
    )
    from http.cookiejar import Cookie

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response, TextResponse
    from scrapy.http.cookies import CookieJar
    from scrapy.robotstxt import RobotParser

    Call = Callable[[Any, Request], Coroutine[Any, Any, Any]]
    Handle = Callable[[Any, Request, Any], Coroutine[Any, Any, None]]

logger = logging.getLogger(__name__)


def let_twisted_log() -> None:
    """Keep Twisted from writing errors to stderr itself, besides logging them.

    It does so until its own logging is begun, which Scrapy does not do.
    """
    if globalLogBeginner._temporaryObserver is not None:
        shows = warnings.showwarning
        globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)
        warnings.showwarning = shows  # it takes over warnings, too


class _FilesStore(FSFilesStore):
    """Scrapy's directory of files and images, for nodes that start at the same time.

    Scrapy looks whether one is there, and then makes it: all nodes but one fail.
    """

    @override
    def _mkdir(self, dirname: Path, domain: Any = None) -> None:
        dirname.mkdir(parents=True, exist_ok=True)


def share_files_stores() -> None:
    """Let the pipelines of several nodes make the same directories of files."""
    for scheme, store in FilesPipeline.STORE_SCHEMES.items():
        if store is FSFilesStore:
            FilesPipeline.STORE_SCHEMES[scheme] = _FilesStore


def heed_log_format() -> None:
    """Have the handler of Scrapy's log write JSON, if settings say so.

    Scrapy makes it before there is an add-on, and again with a spider's settings. There
    is no setting for its formatter.
    """
    make: Any = scrapys_log._get_handler
    if getattr(make, "heeds_log_format", False):
        return

    @functools.wraps(make)
    def make_handler(settings: Mapping[str, Any]) -> logging.Handler:
        handler: logging.Handler = make(settings)
        if json_log.is_chosen(settings):
            handler.setFormatter(json_log.JsonFormatter())
            json_log.log_uncaught()
            let_twisted_log()
        return handler

    made: Any = make_handler
    made.heeds_log_format = True
    scrapys_log._get_handler = made


__all__ = [
    "LenientFactory",
    "LenientParser",
    "LenientProtocol",
    "wrap_twisted_exceptions",
]
"""Names that are imported from here because they are not public in Scrapy."""

_MAXSIZE = "download_maxsize"
C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:  # what the newest version has
    from scrapy.core.downloader.handlers.http11 import (
        _LenientHTTP11ClientFactory as LenientFactory,
        _LenientHTTP11ClientProtocol as LenientProtocol,
        _LenientHTTPClientParser as LenientParser,
    )
else:  # before 2.18, a header line without a colon fails the download
    LenientFactory = getattr(
        http11, "_LenientHTTP11ClientFactory", _HTTP11ClientFactory
    )
    LenientProtocol = getattr(
        http11, "_LenientHTTP11ClientProtocol", HTTP11ClientProtocol
    )
    LenientParser = getattr(http11, "_LenientHTTPClientParser", HTTPClientParser)


class Spiders(NamedTuple):
    """Scrapy's own way to call a spider."""

    call: Call
    on_error: Callable[..., Any]
    """Handles an exception that a spider has raised."""
    process: Callable[..., Awaitable[None]]
    """Sends an item with its ``response`` through the pipelines, and tells what came of
    it."""


_ResponseReader = http11._ResponseReader


class BaseHandler(HTTP11DownloadHandler):
    """Scrapy's handler for http and https, made from a crawler."""

    def connect_by(self, factory: Any) -> None:
        """Have connections made by *factory*, a class like `LenientFactory`."""
        self._pool._factory = factory

    def close_idle(self) -> None:
        """Close connections that are kept for later requests."""
        self._pool.closeCachedConnections()

    def make_agent(self, cls: Any) -> Any:
        """An agent of *cls* for one request, as Scrapy's own handler makes its."""
        spider = self._crawler.spider
        return cls(
            contextFactory=self._contextFactory,
            pool=self._pool,
            bindAddress=self._bind_address,
            tls_verbose_logging=self._tls_verbose_logging,
            maxsize=getattr(spider, "download_maxsize", self._default_maxsize),
            warnsize=getattr(spider, "download_warnsize", self._default_warnsize),
            fail_on_dataloss=self._fail_on_dataloss,
            crawler=self._crawler,
        )

    def warn_of_loss(self, error: BaseException, url: str) -> None:
        """Warn once that a body is not whole, unless Scrapy's reader has done so."""
        if not isinstance(error, ResponseDataLossError):
            return
        if not self._fail_on_dataloss_warned:
            self._fail_on_dataloss_warned = True
            logger.warning(get_dataloss_msg(url))


class BaseAgent(_ScrapyAgent):
    """Scrapy's agent, which sends one request, with hooks for what is done here."""

    spool: Any = None
    """Takes the body, in place of memory (`frontier.download.body_spool`)."""
    is_limited = True
    """Whether Scrapy refuses a body that is too large."""

    def limit_of(self, request: Request) -> int:
        """The largest body that Scrapy is to get for *request*, in bytes; 0: any."""
        return int(request.meta.get(_MAXSIZE, self._maxsize))

    def prepare(self, agent: Any, request: Request) -> None:
        """Change Twisted's *agent*, which is to send *request*."""

    @override
    def _get_agent(self, request: Request, timeout: float) -> Any:
        agent = super()._get_agent(request, timeout)
        self.prepare(agent, request)
        return agent

    @override
    def _cb_bodyready(self, txresponse: Any, request: Request) -> Any:
        def deliver_to(reader: Any) -> None:
            del txresponse.deliverBody  # which refers to it: it would stay in memory
            reader.__class__ = BodyReader  # as Scrapy does with its parser
            reader.spool = reader._bodybuf = self.spool
            txresponse.deliverBody(reader)

        if self.spool is not None:
            txresponse.deliverBody = deliver_to
        if self.is_limited:
            return super()._cb_bodyready(txresponse, request)
        limit = request.meta.get(_MAXSIZE)
        request.meta[_MAXSIZE] = 0  # no limit while Scrapy looks at it
        try:
            return super()._cb_bodyready(txresponse, request)
        finally:
            request.meta[_MAXSIZE] = limit
            if limit is None:
                del request.meta[_MAXSIZE]


class BodyReader(_ResponseReader):
    """Scrapy's reader of a body, which goes to a spool: that may take some time."""

    spool: Any
    _bodybuf: Any
    _ends = False

    @override
    def connectionMade(self) -> None:
        """Let the spool slow the server down."""
        super().connectionMade()
        self.spool.attach(self.transport)

    @override
    def dataReceived(self, data: bytes) -> None:
        """Keep *data*, unless the body has ended."""
        if not self._ends:
            super().dataReceived(data)

    @override
    def connectionLost(self, *args: Any) -> None:
        """End the body, unless it has ended."""
        if not self._ends:
            super().connectionLost(*args)

    @override
    def _finish_response(self, *args: Any, **kwargs: Any) -> None:
        """Finish once the spool has the whole body, which may be now."""
        self._ends = True

        def finish() -> None:
            if not self._finished.called:
                super(BodyReader, self)._finish_response(*args, **kwargs)

        self.spool.whenever_written(finish)


class BaseCookies(ScrapysCookiesMiddleware):
    """Scrapy's middleware for cookies, with a hook to put them elsewhere."""

    def put_into(self, jar: CookieJar, cookies: list[Cookie], request: Request) -> None:
        """Put *cookies*, which came with *request* or its response, into *jar*."""
        for cookie in cookies:
            jar.set_cookie_if_ok(cookie, request)

    @override
    def _process_cookies(
        self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request
    ) -> None:
        self.put_into(jar, list(cookies), request)


def cookies_by_domain(jar: CookieJar) -> Mapping[str, Any]:
    """The cookies of *jar* by domain, path and name."""
    found: Mapping[str, Any] = jar._cookies
    return found


def meta_refresh_of(crawler: Crawler) -> ScrapysMetaRefreshMiddleware | None:
    """Scrapy's middleware for meta refreshes, if *crawler* is to follow them."""
    try:
        return ScrapysMetaRefreshMiddleware.from_crawler(crawler)
    except exceptions.NotConfigured:
        return None


MOST_DECODED = 10_485_760
"""The most bytes of a page by which its encoding is told, unless it declares one."""


def beginning_of(response: TextResponse) -> TextResponse:
    """*response*; or, if it is large, its beginning, by which its encoding is told.

    Scrapy decodes all of a body for that, and keeps the text: a small page that unpacks
    to a gigabyte would take up to five more.
    """
    if len(response.body) <= MOST_DECODED:
        return response
    # Not by `replace`, which would ask for the encoding of the whole.
    start = type(response)(
        response.url,
        headers=response.headers,
        body=response.body[:MOST_DECODED],
        encoding=response._encoding,
    )
    response._cached_benc = start.encoding
    return start


def use_base(response: TextResponse, url: str) -> None:
    """Resolve links of *response* against *url*, whatever it says itself."""
    _baseurl_cache[response] = url


class BaseRobots(ScrapysRobotsTxtMiddleware):
    """Scrapy's middleware for robots.txt, with public names for what it does."""

    def agent_of(self, request: Request) -> str | bytes | None:
        """The name that rules are looked up by."""
        return self._robotstxt_useragent or request.headers.get(
            b"User-Agent", self._default_useragent
        )

    def parse(self, body: bytes) -> RobotParser:
        """The rules in *body*, by the project's parser; may be called in a thread."""
        made: RobotParser = build_from_crawler(self._parserimpl, self.crawler, body)
        return made


def crawl_delay(rules: RobotParser, agent: str | bytes) -> float | None:
    """The Crawl-delay of *rules* for *agent*; before 2.18, from what *rules* wrap."""
    known: Any = rules if hasattr(rules, "crawl_delay") else getattr(rules, "rp", None)
    if not hasattr(known, "crawl_delay"):
        return None
    delay = known.crawl_delay(to_unicode(agent))
    return None if delay is None else float(delay)


RULE_BYTES = 700
"""The most bytes of memory that Protego needs for a rule, besides its text."""


def size_of_rules(rules: RobotParser | None) -> int:
    """About how many bytes of memory *rules* take: each agent has all of its group."""
    protego = getattr(rules, "rp", None)
    by_agent = getattr(protego, "_user_agents", {})
    longest = max(map(len, getattr(protego, "_url_patterns", ())), default=0)
    count = sum(1 + len(each._rules) for each in by_agent.values())
    return count * (RULE_BYTES + longest)


async def tell_robots_parsed(
    crawler: Crawler, rules: RobotParser, request: Request
) -> None:
    """Send Scrapy's signal that *rules* were read for *request*, if it has one."""
    signal = getattr(signals, "robots_parsed", None)
    if signal is not None:
        await crawler.signals.send_catch_log_async(
            signal=signal, robotparser=rules, request=request
        )


def _engine(crawler: Crawler) -> Any:
    return crawler.engine


def _slot_of(crawler: Crawler) -> Any:
    """The engine's slot, if any: what is in progress, and whether it is closing."""
    return _engine(crawler)._slot


def in_progress(crawler: Crawler) -> set[Request]:
    """The requests that the engine is not done with."""
    slot = _slot_of(crawler)
    return slot.inprogress if slot is not None else set()


MOST_WAITING = 1_048_576
"""Bytes that a `FeedFile` keeps until a `flush`, so that a kill cuts few files."""


class FeedFile(io.BufferedIOBase):
    """What is between an exporter and the file that *make* makes for its feed.

    What a full disk does not take, or what comes while the file cannot be made or is
    not in its place, it keeps in memory. Scrapy would lose each item for which there is
    no file, or whose `write` raises an error.
    """

    raw: Any = None
    _takes: Any = None

    def __init__(self, make: Callable[[], Any], path: Path | None) -> None:
        self._make, self._path = make, path
        """Where the items are to be found, if that is a file of this machine."""
        self._waiting = bytearray()
        self._taken = 0
        """Bytes that the disk has taken of what `flush` has not yet written."""
        with contextlib.suppress(OSError):  # the next flush raises it
            self._open()

    def _open(self) -> None:
        if self.raw is None:
            self.raw = self._make()
            below = getattr(self.raw, "raw", None)
            # A buffer would not tell how much of what it was given it has lost.
            self._takes = below if isinstance(below, io.RawIOBase) else self.raw

    @override
    def writable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return self.raw is not None and bool(self.raw.seekable())

    @override
    def seek(self, *where: int) -> int:
        self.flush()
        return int(self.raw.seek(*where))

    @override
    def fileno(self) -> int:
        self.flush()
        return int(self.raw.fileno())

    @override
    def truncate(self, size: int | None = None) -> int:
        self.flush()
        return int(self.raw.truncate(size))

    @property
    def name(self) -> Any:
        """That of *raw*: an exporter may open it once more."""
        return self.raw.name

    @override
    def write(self, data: Any) -> int:
        self._waiting += data
        if len(self._waiting) >= MOST_WAITING:
            with contextlib.suppress(OSError):  # the next flush raises it
                self.flush()
        return len(data)

    @override
    def flush(self) -> None:
        self._open()
        if self._waiting and self._path is not None:
            require_at(self._path, self.raw.fileno())
        while self._waiting:
            if self._takes is self.raw:  # a storage's own, which may keep what it gets
                count = self.raw.write(bytes(self._waiting)) or len(self._waiting)
            else:
                count = self._takes.write(self._waiting)
            if count is None:
                raise BlockingIOError(errno.EAGAIN, "it takes nothing just now")
            del self._waiting[:count]
            self._taken += count
        self._taken = 0
        if not self.raw.closed:
            self.raw.flush()

    def cut(self) -> None:
        """Drop what the disk has not taken, back to the end of a `write`.

        Exporters of JSON lines and CSV write an item at once: none is there by half.
        """
        self._waiting.clear()
        with contextlib.suppress(OSError, AttributeError):
            self._takes.seek(-self._taken, os.SEEK_CUR)
            self._takes.truncate()


def keep_items(storage: Any) -> None:
    """Have the exporter of a feed write through a `FeedFile` to *storage*'s file."""
    before_open, before_store = storage.open, storage.store

    async def store(file: FeedFile) -> None:
        failure = None
        try:
            file.flush()
        except OSError as error:
            failure = error
            file.cut()
        if file.raw is not None:
            await ensure_awaitable(before_store(file.raw))  # as much as there is
        if failure is not None:
            raise failure

    path = None
    if getattr(type(storage), "open", None) is FileFeedStorage.open:
        path = Path(storage.path).absolute()  # a subclass may write to another place
    storage.open = lambda spider: FeedFile(lambda: before_open(spider), path)
    storage.store = lambda file: deferred_from_coro(store(file))


MEMBERS = ([GzipPlugin], [Bz2Plugin])
"""Plug-ins whose output may have several members, one after the other."""


class NextMember:
    """In place of the plug-in of *feed*: it makes that when there is something for it.

    So a file ends with a whole member, and what another node appends can be read.
    """

    def __init__(self, feed: Any) -> None:
        self._feed = feed

    def write(self, data: bytes) -> int:
        """Begin a member with *data*."""
        self._feed.head_plugin = self._feed._get_head_plugin()
        return int(self._feed.write(data))

    def close(self) -> None:
        """Write nothing."""


NOT_EXPORTED = "frontier/items/not_exported"
"""The stat that counts items which a feed's exporter has refused."""


class FeedFiles:
    """The files of ``FEEDS``, which Scrapy writes to through buffers.

    For a feed that is stored elsewhere, it is the file that is sent when the spider
    closes.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.is_held_up = False
        """Whether the last `flush` has failed."""
        self._claims: list[socket.socket] = []
        """Sockets by which other processes see which files this one writes."""
        self._exporter: Any = None
        crawler.signals.connect(self._open, signal=signals.spider_opened)
        crawler.signals.connect(self.release, signal=signals.spider_closed)

    def require(self, spider: Spider) -> None:
        """Raise if a feed cannot be opened; Scrapy would log it and go on without.

        Raises:
            ConfigurationError: One cannot, as its name has an unknown placeholder.
        """
        self._exporter = exporter = self._crawler.get_extension(FeedExporter)
        if exporter is None:
            return
        try:
            exporter.open_spider(spider)  # this opens no file yet
        except Exception as error:
            uri = [*exporter.feeds][len(exporter.slots)]
            raise ConfigurationError(
                f"the feed {uri} cannot be opened: {type(error).__name__}: {error}"
            ) from error
        finally:
            exporter.slots.clear()  # it is opened again with the spider

    def _export(self, item: Any, spider: Spider) -> None:
        """Export *item*; count it if that fails, which Scrapy only logs."""
        try:
            self._exporter.item_scraped(item, spider)
        except Exception:
            self._crawler.stats.inc_value(NOT_EXPORTED)
            raise

    def _open(self) -> None:
        exporter = self._exporter
        if exporter is None:
            return
        connections = self._crawler.signals
        connections.disconnect(exporter.item_scraped, signals.item_scraped)
        connections.connect(self._export, signals.item_scraped)
        before = exporter._get_storage

        def get(*args: Any) -> Any:
            storage = before(*args)
            keep_items(storage)
            return storage

        exporter._get_storage = get  # for later batches
        for slot in exporter.slots:
            keep_items(slot.storage)
            plugins = slot.feed_options.get("postprocessing")
            if plugins and [load_object(each) for each in plugins] not in MEMBERS:
                logger.warning(
                    "the feed %s has plug-ins that hold items back: a kill -9 loses "
                    "these, though their pages count as done; GzipPlugin alone, or "
                    "Bz2Plugin, loses none",
                    slot.uri,
                )
            self._claim(slot)

    def _claim(self, slot: Any) -> None:
        """Warn if the feed of *slot* has items, or another process here writes it, too.

        A claim is an abstract socket of Linux's, whose name ends with its process. A
        lock on the file would not do: a node without items opens its file, and empties
        it, only as the spider closes.
        """
        name = slot.uri.encode()
        if isinstance(slot.storage, FileFeedStorage):
            path = Path(slot.storage.path).resolve()
            name = bytes(path)
            before = path.stat().st_size if path.is_file() else 0
            if before and slot.storage.write_mode == "wb":
                logger.warning(
                    "the feed %s, which has %d bytes, is overwritten: if they are "
                    "items of this crawl, which goes on, they are lost; -o appends to "
                    "it",
                    slot.uri,
                    before,
                )
        elif slot.uri.startswith("stdout:"):
            return
        digest = hashlib.blake2b(name, digest_size=16).hexdigest()
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0frontier-feed-{digest}")
        except OSError as error:
            claim.close()
            if error.errno == errno.EADDRINUSE:
                logger.warning(
                    "another node or job writes the feed %s, too: their lines mix, or "
                    "only one writer's survive; put %%(frontier_node)s into its name",
                    slot.uri,
                )
        else:
            self._claims.append(claim)

    def release(self) -> None:
        """Let others write the files without a warning."""
        for claim in self._claims:
            claim.close()

    def flush(self) -> bool:
        """Hand what was written to the system; false if it fails, as on a full disk."""
        exporter = self._exporter
        try:
            for slot in exporter.slots if exporter is not None else ():
                file = slot.file
                if getattr(file, "plugins", None) in MEMBERS:
                    file.close()  # it holds items back until then
                    file.head_plugin = NextMember(file)
                if file is not None:
                    getattr(file, "file", file).flush()  # below plug-ins
        except OSError as error:
            if not self.is_held_up:
                logger.warning(
                    "the items of a feed cannot be written: %s; nothing more is "
                    "fetched, and no page counts as done, until they can",
                    error,
                )
            self.is_held_up = True
            return False
        if self.is_held_up:
            logger.warning("the items of a feed can be written again")
        self.is_held_up = False
        return True


def is_closing(crawler: Crawler) -> bool:
    """Whether the engine waits for what is in progress, and then closes."""
    slot = _slot_of(crawler)
    return slot is not None and slot.closing is not None


def wake_engine(crawler: Crawler) -> None:
    """Have the engine ask for requests now, if it is fully open."""
    slot, engine = _slot_of(crawler), crawler.engine
    if slot is not None and slot.closing is None and engine and engine.running:
        slot.nextcall.schedule()


def close_spider(crawler: Crawler, reason: str) -> None:
    """Have the engine close its spider, because of *reason*."""
    deferred_from_coro(_engine(crawler).close_spider_async(reason=reason))


def close_once_open(crawler: Crawler, reason: str) -> None:
    """Close the spider as soon as the engine has started.

    Versions before 2.18 do not heed `CloseSpider` when a spider is opened.
    """

    def close() -> None:
        close_spider(crawler, reason)

    crawler.signals.connect(close, signal=signals.engine_started, weak=False)


def forget_timeout(crawler: Crawler) -> None:
    """Stop the clock of Scrapy's ``CLOSESPIDER_TIMEOUT`` on this node.

    It goes on while the crawl is paused. Call this when the spider is opened.
    """
    extension = crawler.get_extension(ScrapysCloseSpider)
    if extension is not None and extension.task is not None:
        extension.task.cancel()
        extension.task = None


def change_limits(crawler: Crawler, pages: int, items: int, errors: int) -> None:
    """Change the counts at which Scrapy's ``CloseSpider`` closes this node; 0: never.

    Its clock is stopped: the time is counted for the whole crawl.
    """
    extension = crawler.get_extension(ScrapysCloseSpider)
    if extension is not None:
        counts = {"pagecount": pages, "itemcount": items, "errorcount": errors}
        extension.close_on.update(counts)
    forget_timeout(crawler)


STOP_LOOK = 0.02
"""Seconds between looks at whether a spider that opens or closes has done so."""


def end_with_error(crawler: Crawler) -> None:
    """Have ``scrapy crawl`` exit with 1 when the spider is closed.

    It does so if the crawler has no spider at the end. A program that runs the crawler
    itself has an exit code of its own, and may look at the spider.
    """
    if "scrapy.cmdline" not in sys.modules:
        return

    async def end() -> None:
        await crawler.stop_async()
        crawler.spider = None

    _engine(crawler)._spider_closed_callback = lambda _: end()


def stop_when_open(crawler: Crawler) -> asyncio.Event:
    """Have a signal that comes while *crawler* opens or closes stop it after that.

    Otherwise such a signal would end the process at once: feeds would lack their end,
    and files and servers would be left behind. Returns an event that is set once a
    signal to stop has come.
    """
    before, has_closed = crawler.stop_async, asyncio.Event()
    stopping = asyncio.Event()

    def opens() -> bool:
        # The property of later versions raises if there is no engine yet.
        engine = vars(crawler).get("_engine", vars(crawler).get("engine"))
        return not (has_closed.is_set() or (engine and engine.running))

    async def stop() -> None:
        stopping.set()
        while crawler.crawling and opens():  # noqa: ASYNC110 (no event of Scrapy's)
            await asyncio.sleep(STOP_LOOK)
        # A spider that closes by itself ends in this function, too.
        while crawler.crawling and is_closing(crawler):  # noqa: ASYNC110 (the same)
            await asyncio.sleep(STOP_LOOK)
        await before()

    crawler.signals.connect(has_closed.set, signal=signals.spider_closed, weak=False)
    crawler.stop_async = stop  # type: ignore[method-assign]
    return stopping


def stand_before_handlers(
    crawler: Crawler, send: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Have *send* called in place of the download handlers, which are returned."""
    handlers = _engine(crawler).downloader.handlers
    before: Callable[[Request], Coroutine[Any, Any, Response]]
    before = handlers.download_request_async
    handlers.download_request_async = send
    return before


def stand_before_outcomes(crawler: Crawler, tell: Callable[[Request], object]) -> None:
    """Have *tell* called with each request that was sent, before its outcome counts.

    The outcome is what downloader middlewares made of it, and may be another request.
    """
    engine: Any = crawler.engine
    before = engine._handle_downloader_output

    def handle(result: Any, request: Request) -> Any:
        tell(request)
        return before(result, request)

    engine._handle_downloader_output = handle


def handler_for(crawler: Crawler, scheme: str) -> Any:
    """The download handler that *crawler* has for *scheme*; ``None`` without one."""
    return _engine(crawler).downloader.handlers._get_handler(scheme)


def stand_before_spider(crawler: Crawler, call: Call, handle: Handle) -> Spiders:
    """Have *call* called to call the spider, and *handle* for what it yields."""
    scraper = _engine(crawler).scraper
    before = Spiders(
        scraper.call_spider_async,
        scraper.handle_spider_error,
        scraper.start_itemproc_async,
    )
    scraper.call_spider_async = call
    scraper.handle_spider_output_async = handle
    return before


def stand_before_spider_errors(
    crawler: Crawler, tell: Callable[[BaseException], object]
) -> None:
    """Have *tell* called with what a callback or an errback of the spider raises."""
    scraper = _engine(crawler).scraper
    before = scraper.handle_spider_error

    def handle(failure: Any, *args: Any, **named: Any) -> Any:
        tell(failure.value)
        return before(failure, *args, **named)

    scraper.handle_spider_error = handle


def tell_of_items_by(crawler: Crawler, signals: Callable[[Any], Any]) -> None:
    """Have what *signals* makes of Scrapy's signals tell what came of an item."""
    scraper = _engine(crawler).scraper
    scraper.signals = signals(scraper.signals)


def spider_middlewares(crawler: Crawler) -> Sequence[Any]:
    """All spider middlewares, Scrapy's own too, in their order."""
    found: Sequence[Any] = _engine(crawler).scraper.spidermw.middlewares
    return found


_slot_clock: Callable[[], float] = getattr(scrapys_downloader, "monotonic", time.time)
"""The clock of a slot's ``lastseen``."""


class Slots:
    """The downloader's slots: what waits for a turn, and how far apart turns are."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._downloader = _engine(crawler).downloader

    def every(self) -> list[str]:
        """The keys of all present slots."""
        return list(self._downloader.slots)

    def given(self, key: str, what: str) -> float | None:
        """The ``delay`` or ``concurrency`` that the settings give to *key* alone."""
        slots = self._crawler.settings.getdict("DOWNLOAD_SLOTS")
        value = slots.get(key, {}).get(what)
        return None if value is None else float(value)

    def usual_delay(self) -> float:
        """The delay that the settings give to all other slots."""
        spider, settings = self._crawler.spider, self._crawler.settings
        own = settings.getfloat("DOWNLOAD_DELAY")
        return float(getattr(spider, "download_delay", own))

    def usual_concurrency(self) -> int:
        """How many requests at a time the settings give to all other slots."""
        downloader = self._downloader
        return int(downloader.ip_concurrency or downloader.domain_concurrency)

    def pace(self, key: str, delay: float, concurrency: int | None = None) -> None:
        """Have *key* keep *delay* from now on, and *concurrency* requests at once."""
        slot = self._downloader.slots.get(key)
        if slot is None:
            return
        is_sooner = delay < slot.delay
        slot.delay = delay
        if concurrency is not None:
            slot.concurrency = concurrency
        if slot.latercall is not None and is_sooner:
            slot.latercall.cancel()
            slot.latercall = None
        self._downloader._process_queue(slot)

    def on_new(self, give: Callable[[str], object]) -> None:
        """Have *give* called with the key of each new slot, before the slot is used."""
        before = self._downloader._get_slot

        def get(*args: Any, **named: Any) -> Any:
            key, slot = before(*args, **named)
            if not slot.lastseen:
                give(key)
            return key, slot

        self._downloader._get_slot = get

    def key(self, request: Request) -> str:
        """The slot of *request*."""
        return str(self._downloader.get_slot_key(request))

    def delay(self, key: str | None) -> float | None:
        """Seconds between the turns of *key* at present; ``None`` if it has none yet.

        AutoThrottle and others change it.
        """
        slot = self._downloader.slots.get(key)
        return None if slot is None else float(slot.delay)

    def wait(self, key: str) -> float:
        """Seconds until a request put into *key* now has its turn, without jitter."""
        slot = self._downloader.slots.get(key)
        if slot is None or not slot.delay:
            return 0.0
        free = slot.lastseen + slot.delay - _slot_clock() if slot.lastseen else 0.0
        return float(max(0.0, free) + len(slot.queue) * slot.delay)

    def draw_turn(self, key: str | None) -> float:
        """Seconds from the turn that *key* has just had to the next one.

        For a slot with a long delay, jitter is drawn here and not by the slot, which
        draws when a request waits in it: what waits elsewhere must know when to come.
        """
        slot = self._downloader.slots.get(key)
        if slot is None:
            return 0.0
        if slot.delay < LONG:
            return float(slot.delay)
        own = self._downloader.per_slot_settings.get(key, {})
        jitter = own.get("jitter", getattr(self._downloader, "_jitter", 0.0))
        slot.jitter = 0.0
        return float(slot.delay * (1 + random.uniform(0.0, float(jitter))))

    def turn_away(
        self, which: Callable[[Request], bool], error: Callable[[], Exception]
    ) -> None:
        """Fail with *error* those of the waiting requests that *which* picks."""
        for slot in self._downloader.slots.values():
            entries = list(slot.queue)
            slot.queue.clear()
            slot.queue.extend(entry for entry in entries if not which(entry[0]))
            for request, waiting in entries:
                if which(request):
                    waiting.errback(error())

    def leave_out_jitter(self, key: str) -> None:
        """Make the delay of the slot *key* exact, whether it exists yet or not."""
        settings = self._downloader.per_slot_settings
        settings[key] = {**settings.get(key, {}), "jitter": 0.0}
        slot = self._downloader.slots.get(key)
        if slot is not None:
            slot.jitter = 0.0


async def started(crawler: Crawler) -> AsyncIterator[Any]:
    """What the spider starts with, after the spider middlewares."""
    found: AsyncIterator[Any] = await _engine(crawler).scraper.spidermw.process_start()
    return found
