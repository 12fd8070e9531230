"""The node of the benchmark `endurance`, in a process of its own.

``python -m benchmarks.enduring node|crawl REDIS REQUESTS EVERY WARCS`` works on a
site that has no end, and prints a line of JSON after every so many requests: how
many there were, what memory the process has resident, and seconds.

Each page has a link to a page that is new, on a host that is new after `PER_HOST`
pages, one to the page itself, and one to its host's front page. `CHAINS` such chains
of pages are followed at once, and every page is archived.

With ``crawl`` everything is real but the network: Scrapy crawls, and its download
handler makes the pages up. With ``node`` Scrapy is left out as well: the scheduler,
the node and the archive are driven as Scrapy's engine drives them, which is four
times as fast. That is faster than the disk at times, and then it waits for it as for
a network: up to 256 MiB of a backlog are no leak, but would hide one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import HtmlResponse
from typing_extensions import override

from frontier.download.capture import exchange_of
from frontier.scheduler import Scheduler
from frontier.session import session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Self

    from scrapy.http import Response

CHAINS = 500
PER_HOST = 100
CONCURRENT = 64
PAUSE = 0.05
"""Seconds after which a node without requests is asked again in any case."""
DELAY = 0.001
"""Seconds for which a host is said to be left alone, so that this is noted."""
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
HREF = re.compile(rb'href="([^"]+)"')
NUMBER = re.compile(r"/(\d+)\.html$")
TEXT = b"<p>Words of a page that is there to be archived, and no more.</p>\n"
MAX_BACKLOG = 4_000_000
"""Bytes that wait for the disk above which `node` makes no requests."""


def address(number: int) -> str:
    """The URL of page *number*."""
    return f"http://host-{number // PER_HOST}.example/{number}.html"


class Handler:
    """Makes pages up."""

    lazy = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:  # noqa: ARG003 (Scrapy's call)
        """Build it."""
        return cls()

    async def download_request(self, request: Request) -> Response:
        """The page of *request*, at once."""
        found = NUMBER.search(request.url)
        number = int(found[1]) if found else -1
        links = [address(number + CHAINS), address(number)] if found else []
        if number % PER_HOST == 0:
            links.append(address(number).rpartition("/")[0] + "/")
        items = "".join(f'<a href="{link}">{link}</a>\n' for link in links)
        body = f"<html><head><title>{number}</title></head>\n{items}".encode() + TEXT
        headers = {"Content-Type": "text/html", "Content-Length": str(len(body))}
        return HtmlResponse(request.url, 200, headers, body, request=request)

    async def close(self) -> None:
        """Do nothing."""


class ChainsSpider(Spider):
    """Follows every link, and counts."""

    name = "chains"
    requests = every = 0
    _count = 0
    _begun = 0.0
    _closing: Any = None

    @override
    async def start(self) -> AsyncIterator[Any]:
        """Begin each chain."""
        self._begun = time.perf_counter()
        for number in range(CHAINS):
            yield Request(address(number))

    @override
    def parse(self, response: Response) -> Iterator[Request]:
        """Make a request of each link."""
        for link in HREF.findall(response.body):
            yield Request(link.decode(), callback=self.parse)
        self._count += 1
        if self._count > self.requests:
            return  # what was in flight when it was told to stop
        if self._count % self.every == 0:
            _say(self._count, time.perf_counter() - self._begun)
        if self._count == self.requests:
            close = self.crawler.engine.close_spider_async(reason="enough")
            self._closing = asyncio.ensure_future(close)


class NodeSession(session.Session):
    """The session of a crawler that has a whole node, and no engine."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.progress: set[Request] = set()
        self.woken = asyncio.Event()

    @override
    def in_progress(self) -> set[Request]:
        """The requests that were taken, and are not done."""
        return self.progress

    async def taken(self, scheduler: Scheduler, pause: float) -> Request | None:
        """The next request, in progress from now on; ``None`` after *pause* seconds."""
        request = scheduler.next_request()
        if request is not None:
            self.progress.add(request)
            return request
        self.woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self.woken.wait()
        return None

    @override
    def wake_engine(self) -> None:
        """Have requests be asked for."""
        self.woken.set()

    @property
    @override
    def closing(self) -> bool:
        """Not by itself."""
        return False

    @override
    def fail(self, error: BaseException) -> None:
        """End the process."""
        raise error

    @override
    def follow_output(self, *_: object) -> None:
        """Leave it as it is: there is no spider's output."""


class EnduringScheduler(Scheduler):
    """A scheduler without an engine."""

    @override
    def _guard(self) -> None:
        """There is no downloader."""


async def _drive(settings: dict[str, Any], requests: int, every: int) -> None:
    """Do with a node's requests what Scrapy's engine does with them."""
    crawler = Crawler(ChainsSpider, {**settings, "TWISTED_REACTOR_ENABLED": False})
    crawler._apply_settings()
    crawler.spider = spider = ChainsSpider()
    linked = NodeSession(crawler)
    session._sessions[crawler] = linked
    scheduler = EnduringScheduler.from_crawler(crawler)
    handler, begun, count = Handler(), time.perf_counter(), 0
    await scheduler._open(spider)
    for number in range(CHAINS):
        scheduler.enqueue_request(Request(address(number)))
    linked.starting = False
    while count < requests:
        if len(linked.progress) >= CONCURRENT:
            await asyncio.sleep(0)
        request = await linked.taken(scheduler, PAUSE)
        if request is None:
            continue
        reservation = linked.requests.known(request).reservation
        if reservation is None or not linked.node.may_send(reservation):
            raise RuntimeError("a lease was lost; the machine is too busy")
        linked.node.sent(reservation, DELAY, DELAY)
        response = await handler.download_request(request)
        archive = linked.node.archive
        if archive is not None:
            exchange = exchange_of(request, response, time.time())
            linked.requests.of(request).stored = archive.submit(exchange)
            while archive.pending_bytes > MAX_BACKLOG:  # noqa: ASYNC110 (it has no event)
                await asyncio.sleep(PAUSE)
        for link in HREF.findall(response.body):
            made = Request(link.decode(), callback=spider.parse)
            made.meta["depth"] = 1
            scheduler.enqueue_request(made)
        linked.progress.discard(request)
        count += 1
        if count % 16 == 0:
            await asyncio.sleep(0)
        if count % every == 0:
            _say(count, time.perf_counter() - begun)
    await scheduler._close()


def _say(requests: int, seconds: float) -> None:
    line = {"requests": requests, "rss": resident(), "seconds": round(seconds, 1)}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main(words: list[str]) -> None:
    """Work as *words* say."""
    how, url, requests, every, warcs = words
    settings: dict[str, Any] = {
        "LOG_LEVEL": "WARNING",
        "CONCURRENT_REQUESTS": CONCURRENT,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENT,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_HANDLERS": {"http": Handler, "https": Handler},
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "TWISTED_REACTOR": ASYNCIO,
        "REDIS_URL": url,
        "FRONTIER_WARC_DIR": warcs,
    }
    if how == "node":
        asyncio.run(_drive(settings, int(requests), int(every)))
        return
    settings["ADDONS"] = {"frontier.addon.Addon": 100}
    process = CrawlerProcess(settings)
    process.crawl(ChainsSpider, requests=int(requests), every=int(every))
    process.start()


if __name__ == "__main__":
    main(sys.argv[1:])
