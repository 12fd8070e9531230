"""Crawler traps: URLs that a site generates without end.

Some are recognized by their form: too long, too deep, too far from the seed, or a path
that repeats itself, as relative links on an error page do. Others are recognized
by their number: a page that exists for every value of its parameters, such as a
calendar or a sorted list; a directory or a host that keeps growing.

What always holds:

1.  A URL is caught by the first kind whose limit it exceeds, in the order of
    `SETTINGS`.
2.  Only URLs that the store found new are counted, each by the node that pushed it, so
    that the sum over all nodes is the number of URLs queued. A node reports its counts
    to the store in portions of a fiftieth of the limit, and learns the sum: the limit
    is exceeded by less than a portion per node, plus what is under way.
3.  A node forgets the counts of a group once it has met `MAX_GROUPS` others since; what
    it reported stays in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.settings.config import Config

LENGTH, HOPS, SEGMENTS, PATH = "length", "hops", "segments", "path"
QUERY, DIRECTORY, HOST = "query", "directory", "host"
LINKS = "links"
"""A page has too many links: `frontier.urls.links` leaves out the rest."""
SETTINGS = {
    LENGTH: "FRONTIER_TRAP_URL_LENGTH",
    HOPS: "FRONTIER_TRAP_HOPS",
    SEGMENTS: "FRONTIER_TRAP_PATH_SEGMENTS",
    PATH: "FRONTIER_TRAP_PATH_REPEATS",
    QUERY: "FRONTIER_TRAP_QUERY_URLS",
    DIRECTORY: "FRONTIER_TRAP_DIRECTORY_URLS",
    HOST: "FRONTIER_TRAP_HOST_URLS",
    LINKS: "FRONTIER_TRAP_PAGE_LINKS",
}
"""The setting that has the limit, by kind of trap."""
STATS = {kind: f"frontier/trap/{kind}" for kind in SETTINGS}
"""The stat that counts the links left out, by kind of trap."""
MAX_SEGMENTS = 64
"""The most segments of a path in which repeats are looked for, which takes time that
grows with their square; a longer path then is a trap."""
MAX_GROUPS = 100_000
"""Groups of URLs that a node counts."""
PORTIONS = 50
"""Parts into which a limit is divided; a node reports its counts part by part."""
ON_FOR_SITE = {
    "FRONTIER_TRAP_URL_LENGTH": 2083,  # org.archive.url.UsableURI.MAX_URL_LENGTH
    "FRONTIER_TRAP_HOPS": 20,  # TooManyHopsDecideRule.maxHops
    "FRONTIER_TRAP_PATH_SEGMENTS": 20,  # TooManyPathSegmentsDecideRule.maxPathDepth
    "FRONTIER_TRAP_PATH_REPEATS": 2,  # PathologicalPathDecideRule.maxRepetitions
    "FRONTIER_TRAP_PAGE_LINKS": 6000,  # AbstractFrontier.maxOutlinks
    "FRONTIER_TRAP_QUERY_URLS": 10_000,
    "FRONTIER_TRAP_DIRECTORY_URLS": 100_000,
    "FRONTIER_TRAP_HOST_URLS": 1_000_000,
}
"""The limits of the spider ``site``: Heritrix's where it has one, with its class. The
limits on numbers are ours: far above what people write by hand, and at usual delays
more than a host serves in an hour, in half a day, in six days."""


class Group(NamedTuple):
    """URLs that are counted together."""

    kind: str
    host: str
    name: str
    """Its name in the store."""


class Traps:
    """Recognizes traps by form and by number, with the limits of *config*."""

    def __init__(self, config: Config) -> None:
        self._counts: dict[str, list[int]] = {}
        self.change(config)

    def change(self, config: Config) -> None:
        """Use the limits of *config* from now on, and keep the counts."""
        self._most = {
            kind: getattr(config, name.removeprefix("FRONTIER_").lower())
            for kind, name in SETTINGS.items()
            if kind != LINKS
        }
        self.counts_urls = any(map(self._most.get, (QUERY, DIRECTORY, HOST)))
        """Whether new URLs have to be counted."""
        self.are_set = any(self._most.values())
        """Whether there is any limit."""

    def catches(self, url: str, hops: int = 0) -> str | None:
        """The kind of trap that *url*, *hops* from its seed, is in, if any."""
        most = self._most
        if most[LENGTH] and len(url) > most[LENGTH]:
            return LENGTH
        if most[HOPS] and hops > most[HOPS]:
            return HOPS
        if most[SEGMENTS] or most[PATH]:
            path = split(url).path
            if most[SEGMENTS] and path.count("/") > most[SEGMENTS]:
                return SEGMENTS
            if most[PATH] and repeats(path) > most[PATH]:
                return PATH
        if self.counts_urls:
            for group in self.groups(url):
                if sum(self._counted(group.name)) >= most[group.kind]:
                    return group.kind
        return None

    def note(self, url: str) -> Iterator[tuple[Group, int]]:
        """Count *url*, which is new; yield the counts to report to the store."""
        for group in self.groups(url):
            counts = self._counted(group.name)
            counts[1] += 1
            if counts[1] >= max(1, self._most[group.kind] // PORTIONS):
                yield group, counts[1]
                counts[0], counts[1] = counts[0] + counts[1], 0

    def learn(self, group: Group, total: int) -> None:
        """Note that all nodes have reported *total* URLs of *group*."""
        counts = self._counted(group.name)
        counts[0] = max(counts[0], total)

    def groups(self, url: str) -> Iterator[Group]:
        """The groups of *url* that have a limit."""
        _, _, _, host, path, query = split(url)
        if query and self._most[QUERY]:
            names = sorted({p.partition("=")[0] for p in query.split("&")})
            yield Group(QUERY, host, f"q:{host}{path}?{'&'.join(names)}")
        if self._most[DIRECTORY]:
            directory = path[: path.rfind("/") + 1] or "/"
            yield Group(DIRECTORY, host, f"d:{host}{directory}")
        if self._most[HOST]:
            yield Group(HOST, host, f"h:{host}")

    def _counted(self, name: str) -> list[int]:
        """What nodes are known to have reported of a group, and what ours has not."""
        counts = self._counts[name] = self._counts.pop(name, [0, 0])
        if len(self._counts) > MAX_GROUPS:
            del self._counts[next(iter(self._counts))]
        return counts


def repeats(path: str) -> int:
    """The most times that any sequence of segments of *path* comes in a row."""
    segments = [one for one in path.split("/") if one]
    count = len(segments)
    if count > MAX_SEGMENTS:
        return count
    most = 1 if count else 0
    if len(set(segments)) == count:
        return most
    for length in range(1, count // 2 + 1):
        run = 0
        for at in range(length, count):
            run = run + 1 if segments[at] == segments[at - length] else 0
            most = max(most, run // length + 1)
    return most
