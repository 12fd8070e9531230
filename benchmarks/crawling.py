"""One crawl of the benchmark `crawl`, in a process of its own.

``python -m benchmarks.crawling COMPETITOR SITE PAGES [REDIS] [WARCS]`` fetches that
many pages and prints a line of JSON: what the time between the 64th page and
the last was spent on. Starting and ending are not counted: scrapy-redis ends by
waiting.

``python -m benchmarks.crawling site BYTES`` serves the site on a port that it prints,
until its standard input ends. Every page has `LINKS` links: a fifth of them to the
next pages of an endless tree, the rest to the first pages, as in menus and footers.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from typing_extensions import override

from benchmarks.holding import Holding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.http import Response

LINKS, CHILDREN = 50, 10
CONCURRENT = 64
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
LENGTH = re.compile(rb"(?im)^content-length: *([0-9]+)")
HREF = re.compile(rb'href="([^"]+)"')
WARM = CONCURRENT
"""Pages before the clock starts: the first ones arrive before any is parsed."""
WATCHED = "frontier_watched"
"""The frontier with a watch on how long it holds the reactor at once."""
LAG = 0.001
"""Seconds between two looks at the clock, by which stalls are measured."""


class LinksSpider(Spider):
    """Follows every link; the same for every competitor."""

    name = "links"
    site = ""
    watch: Any = None

    @override
    async def start(self) -> AsyncIterator[Any]:
        """Begin with the first page."""
        yield Request(f"{self.site}/0.html")

    @override
    def parse(self, response: Response) -> Iterator[Request]:
        """Make a request of each link."""
        for link in HREF.findall(response.body):
            yield Request(self.site + link.decode(), callback=self.parse)
        self.watch.done()


class Watch:
    """Notes when pages are done, and how long the reactor was busy at once."""

    def __init__(self, crawler: Any, pages: int) -> None:
        self._crawler, self._pages = crawler, pages
        self.count = 0
        self.first = self.last = self.cpu_first = self.cpu_last = 0.0
        self.stall = 0.0
        self.holding: Holding | None = None
        crawler.signals.connect(self._opened, signals.spider_opened)

    def _opened(self) -> None:
        self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(LAG)
            if self.count > self._pages / 5:  # once it is warm
                self.stall = max(self.stall, time.perf_counter() - before - LAG)

    def done(self) -> None:
        """Count a page, whose links have been handed on."""
        if self.count == self._pages:
            return  # what was in flight when it was told to stop
        self.count += 1
        self.last, self.cpu_last = time.perf_counter(), time.process_time()
        if self.count == WARM:
            if self.holding is not None:
                self.holding.longest = 0.0
            self.first, self.cpu_first = self.last, self.cpu_last
        if self.count == self._pages:
            self._task.cancel()
            close = self._crawler.engine.close_spider_async(reason="all pages")
            self._closing = asyncio.ensure_future(close)

    def figures(self) -> dict[str, float]:
        """What was measured."""
        seconds, cpu = self.last - self.first, self.cpu_last - self.cpu_first
        pages = self.count - WARM
        figures = {
            "pages": self.count,
            "pages_per_s": pages / seconds,
            "node_ms_per_page": cpu / pages * 1000,
            "stall_ms_max": self.stall * 1000,
        }
        if self.holding is not None:
            figures["frontier_stall_ms_max"] = self.holding.longest * 1000
        return figures


def crawl(name: str, site: str, pages: int, url: str, warcs: str) -> dict[str, float]:
    """Crawl *site* as the competitor *name*."""
    process = CrawlerProcess(settings_of(name, url, warcs))
    crawler = process.create_crawler(LinksSpider)
    LinksSpider.watch = watch = Watch(crawler, pages)
    if name == WATCHED:
        watch.holding = Holding()
    process.crawl(crawler, site=site)
    process.start()
    return watch.figures()


def settings_of(name: str, url: str, warcs: str = "") -> dict[str, Any]:
    """The settings of the competitor *name* with the store at *url*."""
    settings: dict[str, Any] = {
        "LOG_LEVEL": "WARNING",
        "CONCURRENT_REQUESTS": CONCURRENT,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENT,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "TWISTED_REACTOR": ASYNCIO,
    }
    if name == "scrapy_redis":
        settings |= {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "REDIS_URL": url,
        }
    elif name.startswith("frontier"):
        settings |= {
            "ADDONS": {"frontier.addon.Addon": 100},
            "REDIS_URL": url,
            "FRONTIER_WARC_ENABLED": bool(warcs),
            "FRONTIER_WARC_DIR": warcs or "warcs",
            "FRONTIER_REVISIT_ENABLED": False,
        }
    return settings


def serve(answer: Callable[[bytes, bytes], bytes]) -> None:
    """Serve what *answer* makes of path and body, until standard input ends."""

    async def handle(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while line := await reader.readline():
                head = await reader.readuntil(b"\r\n\r\n")
                size = LENGTH.search(head)
                sent = await reader.readexactly(int(size[1])) if size else b""
                writer.write(answer(line.split()[1], sent))
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError):
            pass
        finally:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1_000)
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(main())


def filling_of(size: int) -> str:
    """Text of *size* bytes that compresses like pages do, by four fifths."""
    words = "".join(f"<p>{n * 7919} words of page {n}</p>\n" for n in range(size // 20))
    return words[:size]


def _answer(number: int, filling: str) -> bytes:
    links = [number * CHILDREN + n for n in range(1, CHILDREN + 1)]
    links += range(LINKS - CHILDREN)
    items = "".join(f'<li><a href="/{n}.html">page {n}</a></li>\n' for n in links)
    return page(f"{number}", items, filling)


def page(title: str, content: str, filling: str) -> bytes:
    """An answer as long as *filling*, if *content* is not longer."""
    text = f"<html><head><title>{title}</title></head><body>\n{content}"
    body = (text + filling[len(text) :] + "</body></html>").encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def main(words: list[str]) -> None:
    """Do what *words* say."""
    name, *rest = words
    if name == "site":
        filling = filling_of(int(rest[0]))
        serve(lambda path, _: _answer(int(path[1:-5]), filling))
        return
    site, pages, url, warcs = (*rest, "", "")[:4]
    figures = crawl(name, site, int(pages), url, warcs)
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
