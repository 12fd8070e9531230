"""Sitemaps of a crawl: reading what servers sent without making the node wait.

What always holds:

1.  A sitemap of at most `INLINE` bytes that is not packed is read at once; any other
    by a worker process, in linear time and within its limits of time and memory.
2.  What is left out is counted and logged, in one line per sitemap; of a host with more
    than `SAID` faults, the others are only logged for debugging.
3.  Each sitemap is fetched like any page, so an index that names itself is read once.
    Indexes lead to indexes up to `LEVELS` deep.
4.  If pages are visited again (``FRONTIER_RECRAWL``), sitemaps are, too, and a page
    whose date in a sitemap differs from the last visit's is visited at once. What a
    sitemap named is remembered only after everything that it leads to is in the store,
    so that a kill loses no change.
"""

from __future__ import annotations

import asyncio
import logging
import re
from codecs import BOM_UTF8
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.download.robots import first_part
from frontier.errors import ConfigurationError, StoreRefused, WorkerFailed
from frontier.feeds.items import new_items
from frontier.feeds.parse import Item
from frontier.session.session import one_message, session_of
from frontier.store.client import Call
from frontier.store.keys import is_same
from frontier.urls.sitemaps import GZIP, LONGEST_URL, read_sitemap
from frontier.urls.split import split, web_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

INLINE = 131_072
"""The most bytes of a sitemap that is read in the reactor's thread."""
LEVELS = 3
"""Levels of indexes; the protocol has one."""
MOST_IN_ROBOTS = 1_000
"""The most sitemaps that one robots.txt may name."""
SAID = 10
"""Faults in the sitemaps of one host that are warned of one by one."""
_SITEMAP = re.compile(rb"(?i)(?:\A|[\r\n])[ \t]*+site-?map[ \t]*+:([^\r\n#]*+)")
"""A line of robots.txt that names a sitemap, as Google's parser reads it."""


class Found(NamedTuple):
    """An entry of a sitemap."""

    url: str
    changed: str | None
    """When it last changed (ISO 8601 in UTC); ``None`` if the sitemap does not say."""
    is_sitemap: bool
    is_changed: bool = False
    """Whether the sitemap had another date for it when it was last read."""


class _Named(NamedTuple):
    changed: frozenset[str]
    state: bytes


class Sitemaps:
    """Reads sitemaps for a spider; one for each process is enough."""

    def __init__(self, crawler: Crawler) -> None:
        with one_message():  # a spider is made before the add-on looks at settings
            self._session = session_of(crawler)
        self._remembers = self._session.config.recrawl != "off"
        self._said = Counter[str]()
        """The number of faults found in the sitemaps of each host."""

    async def found(
        self, response: Response, hosts: Iterable[str], level: int
    ) -> AsyncIterator[Found]:
        """Yield the entries of the sitemap *response* that are on *hosts* or its own.

        Each has ``url``, ``changed`` (ISO 8601 in UTC, or ``None``), ``is_sitemap``,
        and ``is_changed``: whether the sitemap had another date when last read.
        *level* is 0 for a sitemap that no other one named. Schedule all entries before
        you ask for the end. A malformed sitemap raises no error.
        """
        url, count = response.url, 0
        remembered: list[Found] = []
        async for found in self._read(response, hosts, level):
            count += 1
            if self._remembers and not found.is_sitemap:
                remembered.append(found)
            else:
                yield found
        if remembered:
            named = await self._compared(url, remembered)
            for found in remembered:
                yield found._replace(is_changed=found.url in named.changed)
            await self._remember(url, named.state)
        self._session.count("frontier/sitemaps/read")
        logger.info("the sitemap %s names %s URLs", url, f"{count:,}")

    async def _read(
        self, response: Response, hosts: Iterable[str], level: int
    ) -> AsyncIterator[Found]:
        url, faults = response.url, []
        try:
            speaks_for = sorted({*hosts, split(url).authority})
            async for part in self._parts(response, speaks_for):
                faults = part.get("faults", [])
                is_index = bool(part.get("is_index"))
                if is_index and level >= LEVELS:
                    faults = [f"is an index {level} levels below the first"]
                    break
                for entry, changed in part.get("entries", ()):
                    yield Found(entry, changed, is_index)
                await self._session.let_store()
        except WorkerFailed as failed:
            faults = [failed.reason]
            if response.request is not None:
                reason = f"not all of the sitemap could be read: {failed.reason}"
                self._session.requests.give_up(response.request, reason)
        if faults:
            self._fault(url, "; ".join(faults))

    async def _compared(self, url: str, found: list[Found]) -> _Named:
        """Find which of *found* have other dates than when *url* was last read."""
        node = self._session.node
        try:
            state = await node.answer(Call.command("HGET", node.keys.sitemaps, url))
        except StoreRefused as error:
            self._fault(url, f"what it named before is not known: {error}")
            state = None
        items = [
            Item(
                link=one.url,
                dates=[int(datetime.fromisoformat(one.changed).timestamp())],
            )
            for one in found
            if one.changed is not None
        ]
        told = await asyncio.to_thread(new_items, items, state)
        if told.redated:
            self._fault(
                url,
                f"has another date for all of its {told.redated:,} URLs that it had "
                "before: they do not count as changed",
            )
        return _Named(frozenset(item.link for item in told.updated), told.state)

    async def _remember(self, url: str, state: bytes) -> None:
        node = self._session.node
        await node.outbox.flush()
        note = ("HSET", node.keys.sitemaps, url, state)
        try:
            await node.answer(Call.txn(is_same(node.keys), [note]))
        except StoreRefused as error:
            self._fault(url, f"what it names cannot be remembered: {error}")

    async def _parts(
        self, response: Response, hosts: list[str]
    ) -> AsyncIterator[dict[str, Any]]:
        body = response.body
        given: dict[str, Any] = {"url": response.url, "hosts": hosts}
        if len(body) <= INLINE and not body.startswith(GZIP):
            for part in read_sitemap(body, **given):
                yield part
            return
        async for part in self._session.workers.run("sitemap", body, given):
            yield part

    def of_robots(self, response: Response) -> list[str]:
        """The sitemaps that the robots.txt *response* names."""
        body, _ = first_part(response.body)
        found: dict[str, None] = {}
        for line in _SITEMAP.findall(body.removeprefix(BOM_UTF8)):
            text = line.decode("utf-8", "replace").strip()
            if url := web_url(response.url, text.replace(" ", "%20"), LONGEST_URL):
                found[url] = None
            else:
                self._fault(response.url, f"names {text[:200]!r}, which is no URL")
        if len(found) > MOST_IN_ROBOTS:
            self._fault(response.url, f"names more than {MOST_IN_ROBOTS:,} sitemaps")
        if not found:
            logger.info("%s names no sitemap", response.url)
        return list(found)[:MOST_IN_ROBOTS]

    def failed(self, url: str, reason: str) -> None:
        """Note that the sitemap at *url*, or a robots.txt, could not be fetched."""
        self._session.count("frontier/sitemaps/failed")
        self._say(url, "no sitemap is read from %s: %s", reason)

    def _fault(self, url: str, fault: str) -> None:
        self._session.count("frontier/sitemaps/faults")
        self._say(url, "the sitemap %s: %s", fault)

    def _say(self, url: str, line: str, fault: str) -> None:
        """Warn of *fault* at *url*, if it is one of the first of its host."""
        host = split(url).authority
        self._said[host] += 1
        is_many = self._said[host] > SAID
        logger.log(logging.DEBUG if is_many else logging.WARNING, line, url, fault)


def sitemaps_of(given: str, seeds: Iterable[str]) -> tuple[list[str], list[str]]:
    """The robots.txt URLs and the sitemaps to begin with, by ``-a sitemaps=``.

    *given* is ``1`` for the sitemaps that the robots.txt of the seeds' hosts name, or
    URLs of sitemaps with commas between them; empty or ``0`` for none.

    Raises:
        ConfigurationError: It is none of these.
    """
    if given in ("", "0"):
        return [], []
    if given == "1":
        roots = dict.fromkeys("/".join(seed.split("/", 3)[:3]) for seed in seeds)
        return [f"{root}/robots.txt" for root in roots], []
    urls = given.split(",")
    for url in urls:
        if not split(url).is_web:
            raise ConfigurationError(
                f"sitemaps={given[:200]!r} is neither 1 nor URLs of sitemaps: "
                f"{url[:200]!r} is not a URL of http or https"
            )
    return [], urls
