"""``months``: a crawl of the same pages, round after round, by nodes that come and go.

Each round is a node of its own, in a process of its own, with a name that no other
has. It enters the crawl, fetches as many pages as there are, has each fetched again
(`Scheduler.fetch_again`) and leaves; one in `KILLS` is killed in the middle. Some pages
change with each round. The crawl is archived, commits in rounds, and has journals.
Scrapy's engine and the network are left out, as in ``endurance``; all else is real.

What is looked at is whether the store and the disk grow with rounds and nodes: what is
in the store beside the digests of new payloads, and the journals. WARC files and crawl
logs are archive material and grow by a record for each visit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.enduring import (
    ASYNCIO,
    ChainsSpider,
    EnduringScheduler,
    NodeSession,
)
from benchmarks.harness import Report, environment, rounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Options
    from benchmarks.server import Server

CRAWL = "months"
HOSTS = 10
CHANGES = 50
"""One page in so many changes with each round."""
KILLS = 25
"""One round in so many ends with the death of its node."""
DUE_S = 0.1
"""Seconds after which a page is to be fetched again."""
TTL = 1.0
"""Seconds of a lease, after which a killed node's pages are free."""
CONCURRENT = 32
PAUSE = 0.02
TEXT = b"<p>Words of a page that is fetched again and again.</p>\n" * 10


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is done."""

    rounds: int
    pages: int
    steps: int
    """How often it is looked at."""


FULL, QUICK = Sizes(500, 100, 20), Sizes(20, 30, 5)


@dataclass(slots=True)
class Look:
    """What there is after some rounds."""

    rounds: int
    payloads: int
    store_bytes: int
    """Beside what the payload digests take."""
    keys: int
    reports: int
    journal_bytes: int
    journals: int
    warc_bytes: int


def run(server: Server, options: Options) -> Report:
    """Do the rounds."""
    sizes = QUICK if options.quick else FULL
    server.empty()
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        begun = time.perf_counter()
        done = rounds(server, Path(home), sizes, lambda look: _show(look, options))
        seconds = time.perf_counter() - begun
        faults = index_faults(server.url)
    looks, visits = done.looks, done.by_page
    results = {
        f"{look.rounds} rounds": {
            name: float(getattr(look, name))
            for name in Look.__slots__
            if name != "rounds"
        }
        for look in looks
    }
    first, last = looks[len(looks) // 5], looks[-1]
    between = last.rounds - first.rounds
    grown = last.store_bytes - first.store_bytes
    ratios = {
        "rounds": float(last.rounds),
        "nodes_killed": float(len(done.killed)),
        "rounds_per_s": rounded(sizes.rounds / seconds),
        "pages_lost": float(sizes.pages - len(visits)),
        "twice_in_a_round": float(len(done.early)),
        "visits_apart_max": float(max(visits.values()) - min(visits.values())),
        "collection_faults": float(faults),
        "store_bytes_per_round": rounded(grown / between),
        "store_grown_percent": _grown(first.store_bytes, last.store_bytes),
        "keys_grown": float(last.keys - first.keys),
        "journals_grown_percent": _grown(first.journal_bytes, last.journal_bytes),
        "journal_bytes_per_page": rounded(last.journal_bytes / sizes.pages),
    }
    about = environment(server.info()) | {"pages": sizes.pages}
    return Report("months", about, results, ratios)


def _grown(before: int, after: int) -> float:
    return rounded(100 * (after / max(1, before) - 1))


def _show(look: Look, options: Options) -> None:
    if not options.quick:
        sys.stderr.write(f"{look}\n")


@dataclass(slots=True)
class Visit:
    """A page that was fetched."""

    page: int
    at: float
    """Seconds since the Unix epoch."""
    round: int


@dataclass(slots=True)
class Outcome:
    """What some rounds did."""

    looks: list[Look]
    visits: list[Visit]
    killed: list[int]
    """The rounds whose nodes were killed."""

    @property
    def by_page(self) -> Counter[int]:
        """How often each page was fetched."""
        return Counter(visit.page for visit in self.visits)

    @property
    def early(self) -> list[Visit]:
        """Visits of pages before they were due, so twice in one round."""
        last: dict[int, float] = {}
        found = []
        for visit in self.visits:
            if visit.at < last.get(visit.page, 0.0) + DUE_S:
                found.append(visit)
            last[visit.page] = visit.at
        return found


def rounds(
    server: Server, home: Path, sizes: Sizes, tell: Callable[[Look], None]
) -> Outcome:
    """Do as many as *sizes* say; *tell* is called after some of them."""
    done = Outcome([], [], [])
    every = sizes.rounds // sizes.steps
    for number in range(1, sizes.rounds + 1):
        kill = number % KILLS == KILLS // 2
        if kill:
            done.killed.append(number)
        log = home / "fetched"
        work = partial(_round, server.url, home, number, sizes.pages, kill, log)
        _in_a_process(work)
        for line in log.read_text("ascii").splitlines():
            page, at = line.split()
            done.visits.append(Visit(int(page), float(at), number))
        log.unlink()
        if number % every == 0:
            done.looks.append(look(server, home, number))
            tell(done.looks[-1])
    return done


def _in_a_process(work: Callable[[], None]) -> None:
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.waitstatus_to_exitcode(status) not in (0, 9):
        raise AssertionError("a round failed")


def look(server: Server, home: Path, number: int) -> Look:
    """What there is now."""
    client = server.client
    digests = [b"alldupes", *(key for key in client.scan_iter("h:*", count=1000))]
    index = sum(client.memory_usage(key, samples=0) or 0 for key in digests)
    journals = list((home / "journals").glob("*.journal*"))
    payloads = sum(client.hlen(key) for key in digests[1:] if not _is_counts(key))
    return Look(
        number,
        payloads,
        server.used_memory() - index,
        client.dbsize(),
        client.hlen(f"{{frontier:{CRAWL}}}:reports"),
        sum(path.stat().st_size for path in journals),
        len(journals),
        sum(path.stat().st_size for path in (home / "warcs").iterdir()),
    )


def _is_counts(key: bytes) -> bool:
    return key.endswith(b":counts")


def index_faults(url: str) -> int:
    """What is wrong with the index of digests."""
    from frontier.collection.check import Check
    from frontier.store.client import BlockingStore
    from frontier.store.keys import collection_keys

    store = BlockingStore.from_settings({"REDIS_URL": url})
    with contextlib.closing(store):
        found = Check(store, collection_keys(store, "")).run()
    return sum(found.faults.values())


def _round(
    url: str, home: Path, number: int, pages: int, kill: bool, log: Path
) -> None:
    """Be the node of round *number*."""
    settings = {
        "LOG_LEVEL": "ERROR",
        "CONCURRENT_REQUESTS": CONCURRENT,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENT,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "TWISTED_REACTOR": ASYNCIO,
        "TWISTED_REACTOR_ENABLED": False,
        "REDIS_URL": url,
        "FRONTIER_CRAWL_ID": CRAWL,
        "FRONTIER_NODE_ID": f"node-{number}",
        "FRONTIER_PARTITIONS": 16,
        "FRONTIER_LEASE_TTL": TTL,
        "FRONTIER_BUSY_MAX": 0,
        "FRONTIER_KEEP_ALIVE": True,
        "FRONTIER_WARC_DIR": str(home / "warcs"),
        "FRONTIER_JOURNAL_DIR": str(home / "journals"),
        "FRONTIER_COMMIT_EVERY": 1,
    }
    asyncio.run(_drive(settings, number, pages, kill, log))


async def _drive(
    settings: dict[str, Any], number: int, pages: int, kill: bool, log: Path
) -> None:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import HtmlResponse

    from frontier.download.capture import exchange_of
    from frontier.session import session

    crawler = Crawler(ChainsSpider, settings)
    crawler._apply_settings()
    crawler.spider = spider = ChainsSpider()
    linked = NodeSession(crawler)
    session._sessions[crawler] = linked
    scheduler = EnduringScheduler.from_crawler(crawler)
    await scheduler._open(spider)
    if number == 1:
        for page in range(pages):
            scheduler.enqueue_request(Request(address(page)))
    linked.starting = False
    count = 0
    with log.open("a", buffering=1) as fetched:
        while count < pages:
            if kill and count > pages // 2:
                os._exit(9)
            request = await linked.taken(scheduler, PAUSE)
            if request is None:
                continue
            page = int(request.url.rpartition("/")[2])
            fetched.write(f"{page} {time.time()}\n")
            body = f"<html><p>{version_of(page, number)}</p>".encode() + TEXT
            headers = {"Content-Type": "text/html", "Content-Length": str(len(body))}
            response = HtmlResponse(request.url, 200, headers, body, request=request)
            exchange = exchange_of(request, response, time.time())
            if linked.node.archive is not None:
                stored = linked.node.archive.submit(exchange)
                linked.requests.of(request).stored = stored
            scheduler.fetch_again(request, DUE_S)
            linked.progress.discard(request)
            count += 1
            await asyncio.sleep(0)
    await scheduler._close()


def address(page: int) -> str:
    """The URL of *page*."""
    return f"http://host-{page % HOSTS}.example/{page}"


def version_of(page: int, number: int) -> str:
    """What tells the content of *page* in round *number* from that of others."""
    return f"{page} {(page + number) // CHANGES}"
