"""Crawler traps: URLs that a site makes without end.

Some are recognized by their form: too long, too deep, too far from the seed, a path
that repeats itself as relative links on an error page make it. Others by their
number: a page that is there for every value of its parameters, as calendars and
sorted lists are; a directory, or a host, of which more comes all the time.

What always holds:

1.  A URL is caught by the first kind that it exceeds, in the order of `SETTINGS`.
2.  What is counted are URLs that the store has found new, each by the node that
    brought it, so that the sum over all nodes is that of the URLs queued. A node
    tells the store what it counts in portions of a fiftieth of the limit, and learns
    the sum: the limit is exceeded by less than a portion per node, and by what is
    under way.
3.  Of a node's counts, those that were not met since `MAX_GROUPS` others were are
    forgotten; what the store was told stays there.
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
"""A page's, of which `frontier.urls.links` takes no more."""
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
"""What says how much is allowed, by kind of trap."""
STATS = {kind: f"frontier/trap/{kind}" for kind in SETTINGS}
"""What links are counted as that are left out."""
MAX_SEGMENTS = 64
"""Of a path; a longer one is a trap where repetition is looked for, which takes time
that grows with their square."""
MAX_GROUPS = 100_000
"""Groups of URLs that a node counts."""
PORTIONS = 50
"""Into which a limit is divided for the counts that the store is told."""
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
"""The limits of the spider ``site``: Heritrix's where it has one, with the class that
does. Those on numbers are ours: far above what a site has by hand, and at usual
delays more than a host gives in an hour, in half a day, in six days."""


class Group(NamedTuple):
    """URLs that are counted together."""

    kind: str
    host: str
    name: str
    """As the store has it."""


class Traps:
    """Tells traps by their form and by their number, as *config* has the limits."""

    def __init__(self, config: Config) -> None:
        self._counts: dict[str, list[int]] = {}
        self.change(config)

    def change(self, config: Config) -> None:
        """Have the limits of *config* from now on; what was counted stays."""
        self._most = {
            kind: getattr(config, name.removeprefix("FRONTIER_").lower())
            for kind, name in SETTINGS.items()
            if kind != LINKS
        }
        self.counts_urls = any(map(self._most.get, (QUERY, DIRECTORY, HOST)))
        """Whether it counts what is new."""
        self.are_set = any(self._most.values())
        """Whether there is any."""

    def catches(self, url: str, hops: int = 0) -> str | None:
        """Which trap *url*, *hops* from its seed, is in, if any."""
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
        """Count *url*, which is new; yield what the store is to be told."""
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
        """Those of *url* whose number is limited."""
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
        """What all are known to have counted of a group, and what is not told yet."""
        counts = self._counts[name] = self._counts.pop(name, [0, 0])
        if len(self._counts) > MAX_GROUPS:
            del self._counts[next(iter(self._counts))]
        return counts


def repeats(path: str) -> int:
    """How often a sequence of segments of *path* comes in a row, at most."""
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
