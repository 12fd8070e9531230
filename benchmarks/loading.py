"""One crawl of the benchmark `loads`, in a process of its own.

``python -m benchmarks.loading COMPETITOR LOAD PORT PAGES [REDIS]`` fetches that many
pages and prints a line of JSON: the CPU time of the process per page between the 64th
and the last, and that of the store. Starting and ending are not counted.

``python -m benchmarks.loading site`` serves the pages of all loads on a port that it
prints, until its standard input ends. The names of pages are as long at the end as at
the beginning, so that the order in which they are fetched makes no difference.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import redis
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import succeed
from typing_extensions import override

from benchmarks.crawling import HREF, WARM, Watch, filling_of, page, serve, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response, TextResponse
    from twisted.internet.defer import Deferred

MENU, SITES = 40, 20_000
ITEMS = 50


@dataclass(frozen=True, slots=True)
class Load:
    """What pages are like, and what is made of them."""

    size: int
    """Bytes of a page."""
    new: int
    """Links that no other page has."""
    menu: int = 0
    """Links that all pages have."""
    items: int = 0
    post: bool = False
    extractor: bool = False
    """Whether links are found by a `LinkExtractor` instead of a regular expression."""
    broad: bool = False
    """Whether links lead to `SITES` hosts."""


LOADS = {
    "items": Load(10_000, 2, items=ITEMS),
    "all_new": Load(20_000, 50),
    "post": Load(20_000, 10, MENU, post=True),
    "heavy": Load(200_000, 10, MENU, extractor=True),
    "broad": Load(20_000, 10, MENU, broad=True),
    "tiny": Load(300, 2),
}
ITEM = "<p>item {number}-{n}: a thing with a name and a price of {n}.99</p>\n"
MASK = (1 << 64) - 1
SITE = "http://site-{number}.example:{port}"


class LoadSpider(Spider):
    """Makes of a page what its load asks for; the same for every competitor."""

    name = "load"
    watch: Any = None

    def __init__(self, load: str = "", port: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.load = LOADS[load]
        self.port = port
        self.site = SITE.format(number=0, port=port)
        self.first = f"{self.site}/{load}/{0:016x}.html"
        self.extractor = LinkExtractor()

    @override
    async def start(self) -> AsyncIterator[Any]:
        """Begin with the first page."""
        yield Request(self.first)

    @override
    def parse(self, response: Response) -> Iterator[Any]:
        """Make items and requests."""
        if self.load.items:
            for line in response.body.split(b"<p>item ")[1:]:
                number, _, text = line.partition(b": ")
                text = text.partition(b"</p>")[0]
                yield {"number": number.decode(), "text": text.decode()}
        for url in self._links(cast("TextResponse", response)):
            if self.load.post:
                path = self.first.rpartition("/")[0]
                body = url.rpartition("/")[2]
                yield Request(f"{path}/search", self.parse, "POST", body=body)
            else:
                yield Request(url, self.parse)
        self.watch.done()

    def _links(self, response: TextResponse) -> Iterator[str]:
        if self.load.extractor:
            yield from (link.url for link in self.extractor.extract_links(response))
            return
        for link in HREF.findall(response.body):
            path = link.decode()
            if self.load.broad:
                number = int(path[-21:-5], 16) % SITES
                yield SITE.format(number=number, port=self.port) + path
            else:
                yield self.site + path


class Resolver(CachingThreadedResolver):
    """Resolves every name to this machine."""

    @override
    def getHostByName(
        self,
        name: str,
        timeout: Any = (),
    ) -> Deferred[str]:
        """The address of any *name*."""
        return succeed("127.0.0.1")


class StoreWatch(Watch):
    """Notes the CPU time of the store as well."""

    def __init__(self, crawler: Any, pages: int, url: str) -> None:
        self._store: Any = redis.Redis.from_url(url) if url else None
        self._used = 0.0
        super().__init__(crawler, pages)

    @override
    def done(self) -> None:
        """Count a page, whose output has been handed on."""
        if self._store is not None and self.count == WARM - 1:
            self._used = -self._seconds()
        super().done()
        if self._store is not None and self.count == self._pages and self._used < 0:
            self._used += self._seconds()

    def _seconds(self) -> float:
        cpu = self._store.info("cpu")
        return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])

    @override
    def figures(self) -> dict[str, float]:
        """What was measured."""
        measured = self.count - WARM
        found = super().figures()
        return {
            "pages": found["pages"],
            "node_ms_per_page": found["node_ms_per_page"],
            "store_ms_per_page": self._used / measured * 1000,
        }


def crawl(name: str, load: str, port: int, pages: int, url: str) -> dict[str, float]:
    """Crawl *load* as the competitor *name*."""
    settings = settings_of(name, url) | {
        "DNS_RESOLVER": "benchmarks.loading.Resolver",
        "CONCURRENT_ITEMS": 100,
    }
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(LoadSpider)
    LoadSpider.watch = watch = StoreWatch(crawler, pages, url)
    process.crawl(crawler, load=load, port=port)
    process.start()
    return watch.figures()


class Site:
    """The pages of all loads."""

    def __init__(self) -> None:
        self._filling = {name: filling_of(load.size) for name, load in LOADS.items()}

    def answer(self, path: bytes, body: bytes) -> bytes:
        """The page at *path*, or that which *body* asks for."""
        _, name, asked = path.decode().split("/")
        load = LOADS[name]
        asked = body.decode() if body else asked
        number = int(asked.partition(".")[0], 16)
        links = [_number(number, n) for n in range(load.new)]
        urls = [f"/{name}/{one:016x}.html" for one in [*links, *range(load.menu)]]
        made = "".join(f'<li><a href="{url}">page</a></li>\n' for url in urls)
        made += "".join(ITEM.format(number=number, n=n) for n in range(load.items))
        return page(asked, made, self._filling[name])


def _number(parent: int, place: int) -> int:
    """The number of a new page: in practice no other page has it."""
    mixed = ((parent + 1) * 0x9E3779B97F4A7C15 + place * 0xD1B54A32D192ED03) & MASK
    mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) & MASK
    return mixed ^ (mixed >> 29)


def main(words: list[str]) -> None:
    """Do what *words* say."""
    name, *rest = words
    if name == "site":
        serve(Site().answer)
        return
    load, port, pages, url = (*rest, "")[:4]
    figures = crawl(name, load, int(port), int(pages), url)
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
