"""What a crawl of the site must fetch, and what the server says it fetched.

The server's log: one JSON object per request, in the order of their ends.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from lxml import etree

from frontier.model import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from frontier.testing.site import Resource, Site


@frozen
class Entry:
    """One request that was served, or that its client gave up."""

    start: float
    """When its head and body had arrived; seconds since the Unix epoch."""
    end: float
    """When the kernel had taken the answer, or the client was seen to be gone."""
    host: str
    """``address:port`` of the socket it arrived at, whatever it calls the host."""
    url: str
    method: str
    status: int
    """Of the answer; if *aborted*, of the one that it would have got."""
    bytes: int
    """Length of the entity body with its content coding; 0 if *aborted*."""
    node: str | None
    """The request's ``X-Frontier-Node``."""
    ua: str | None
    """The request's ``User-Agent``."""
    aborted: bool = False
    """Whether the client left, or the server ended, before the answer was complete."""

    @classmethod
    def from_line(cls, line: str) -> Entry:
        """The entry in *line*."""
        return cls(**json.loads(line))


_LINKS = "//a/@href | //img/@src | //link/@href | //script/@src"
_ROBOTS = "/robots.txt"


def expected_urls(site: Site) -> set[str]:
    """The URLs that a crawl of *site* must fetch, each once.

    The crawl starts from all seeds, obeys robots.txt, and follows links and
    requisites of 200 pages and all redirects. robots.txt itself is not among
    the URLs; sources and targets of redirects are.
    """
    hosts = {urlsplit(base).netloc: number for number, base in enumerate(site.bases)}
    robots = [_robots(site, host) for host in range(site.hosts)]
    expected = set(site.seeds)
    waiting = list(site.seeds)
    while waiting:
        url = waiting.pop()
        parts = urlsplit(url)
        host = hosts[parts.netloc]
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        for link in links(url, site.resource(host, target)):
            other = hosts.get(urlsplit(link).netloc)
            if other is None or link in expected:
                continue
            if robots[other].can_fetch("*", link):
                expected.add(link)
                waiting.append(link)
    return expected


def links(url: str, resource: Resource) -> Iterator[str]:
    """Where *resource* leads to, absolute and without fragments.

    May name a URL several times, and URLs of any scheme.
    """
    location = resource.header(b"Location")
    if location is not None:
        yield urldefrag(urljoin(url, location.decode("ascii"))).url
    elif resource.status == 200 and resource.is_html and resource.body:
        for link in etree.HTML(resource.decoded).xpath(_LINKS):
            yield urldefrag(urljoin(url, link)).url


def _robots(site: Site, host: int) -> RobotFileParser:
    parser = RobotFileParser()
    parser.parse(site.resource(host, _ROBOTS).body.decode().splitlines())
    return parser


class RequestLog:
    """The requests that a server has logged."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)

    @classmethod
    def read(cls, path: Path) -> RequestLog:
        """The log at *path*, up to the last line that is whole.

        A reader may see part of a line that is just being written.
        """
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
        return cls(map(Entry.from_line, whole.splitlines()))

    def fetched(self) -> Counter[str]:
        """How often each URL but robots.txt was fetched: GET, whole answer."""
        return self._count(aborted=False)

    def aborted(self) -> Counter[str]:
        """How often the answer to a GET of each URL but robots.txt was cut off."""
        return self._count(aborted=True)

    def _count(self, *, aborted: bool) -> Counter[str]:
        return Counter(
            entry.url
            for entry in self.entries
            if entry.method == "GET"
            and entry.aborted == aborted
            and urlsplit(entry.url).path != _ROBOTS
        )

    def missing(self, expected: set[str]) -> set[str]:
        """What of *expected* was not fetched."""
        return expected - self.fetched().keys()

    def repeated(self) -> Counter[str]:
        """What was fetched more than once, and how often."""
        return Counter({url: n for url, n in self.fetched().items() if n > 1})
