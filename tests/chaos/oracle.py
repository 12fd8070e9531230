"""The judge of a trial: what must not be, found in what was recorded.

It knows nothing of how the crawl works. Everything is in `Facts`: the graph of
the site, the site's own log, what the store had reserved at each injected fault, the
archive, and what the store says of the end.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.records import Original


class Wrong(StrEnum):
    """What may be wrong with a trial."""

    LOST = "lost"
    """A page of the site was never fetched."""
    STRANGE = "strange"
    """Something was fetched that a crawl of the site does not meet."""
    EXTRA = "extra"
    """A page was fetched again, and was not in flight at an injected fault."""
    OVERLAP = "overlap"
    """Two nodes had requests to one host at the same time."""
    HASTE = "haste"
    """Two nodes sent to one host within its delay."""
    BROKEN = "broken"
    """A WARC is not whole, or was left open."""
    DANGLING = "dangling"
    """A revisit refers to a response that is not there."""
    INDEXED = "indexed"
    """The index leads others to a response that is not there."""
    UNARCHIVED = "unarchived"
    """A page was fetched, but no record has it."""
    EARLY = "early"
    """The crawl was said to be finished while there was something to fetch."""
    ENDLESS = "endless"
    """The crawl did not end by itself."""
    DEAD = "dead"
    """A page was given up."""
    CRASHED = "crashed"
    """A node that nobody touched ended with an error."""
    ERROR = "error"
    """A node has logged an error that nobody foresaw."""


class Fault(NamedTuple):
    """One thing that is wrong."""

    wrong: Wrong
    what: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What was recorded of one trial."""

    expected: object
    """The URLs that a crawl of the site must fetch, each once."""
    log: object
    in_flight: object
    """How many more fetches of a URL the injected faults excuse."""
    records: object = None
    """What the archive has; ``None`` if there is none."""
    indexed: object = ()
    """What the index leads other crawls to."""
    finished: object = None
    """When the store says that the crawl ended, in seconds of the epoch."""
    delay: float = 0.0
    """Seconds that must be between two requests to a host."""
    slack: float = 0.0
    """By how much the server may see them closer together than they were sent."""
    dead: object = ()
    crashed: object = field(default=())
    """Nodes that ended with an error and without an injected fault."""
    errors: object = ()
    """Nodes that logged a traceback."""


def judge(facts):
    """All that is wrong with *facts*."""
    return [Fault(wrong, what) for wrong, what in _faults(facts)]


def extra_fetches(facts):
    """How often each URL was fetched beyond once and what the faults excuse."""
    return Counter(
        {
            url: extra
            for url, count in facts.log.fetched().items()
            if (extra := count - 1 - facts.in_flight.get(url, 0)) > 0
        }
    )


def overlaps(log):
    """The pairs of requests to one host, by two nodes, at the same time.

    All requests count: those for robots.txt, those that were aborted, and those without
    a node, which are taken as one more node's. Intervals that merely touch do not
    overlap. The earlier one of a pair is first.
    """
    found, running = [], defaultdict(list)
    for entry in sorted(log.entries, key=lambda entry: entry.start):
        still = [e for e in running[entry.host] if e.end > entry.start]
        found += [(e, entry) for e in still if e.node != entry.node]
        running[entry.host] = [*still, entry]
    return found


def hasty(log, delay):
    """Successive requests to one host by two nodes, less than *delay* apart.

    Those that overlap are not among them.
    """
    found = []
    by_host = defaultdict(list)
    for entry in sorted(log.entries, key=lambda entry: entry.start):
        by_host[entry.host].append(entry)
    for entries in by_host.values():
        for before, after in pairwise(entries):
            near = after.start - before.start < delay
            if near and before.node != after.node and before.end <= after.start:
                found.append((before, after))
    return found


def _faults(facts):
    yield from _fetched(facts)
    yield from _polite(facts)
    if facts.records is not None:
        yield from _archived(facts, facts.records)
    yield from _ended(facts)
    for url in facts.dead:
        yield Wrong.DEAD, url
    for node in facts.crashed:
        yield Wrong.CRASHED, node
    for node in facts.errors:
        yield Wrong.ERROR, f"{node} has logged a traceback"


def _fetched(facts):
    expected = set(facts.expected)
    for url in sorted(facts.log.missing(expected)):
        yield Wrong.LOST, url
    asked = facts.log.fetched() + facts.log.aborted()
    for url in sorted(asked.keys() - expected):
        yield Wrong.STRANGE, url
    for url, count in sorted(extra_fetches(facts).items()):
        fetches = [
            f"{entry.node} at {entry.start:.3f}"
            for entry in facts.log.entries
            if entry.url == url and not entry.aborted
        ]
        for _ in range(count):
            yield Wrong.EXTRA, f"{url}: {', '.join(fetches)}"


def _polite(facts):
    for before, after in overlaps(facts.log):
        yield Wrong.OVERLAP, f"{_span(before)} and {_span(after)}"
    for before, after in hasty(facts.log, facts.delay - facts.slack):
        yield Wrong.HASTE, f"{_span(before)} and {_span(after)}"


def _span(entry):
    return f"{entry.node} {entry.url} {entry.start:.3f} to {entry.end:.3f}"


def _archived(facts, records):
    for reason in records.broken:
        yield Wrong.BROKEN, reason
    for revisit in records.revisits:
        digest = records.responses.get(revisit.original)
        if digest is None:
            yield Wrong.DANGLING, f"{revisit.url} refers to {revisit.original}"
        elif digest != revisit.digest:
            yield Wrong.DANGLING, f"{revisit.url} has another digest than its original"
    for entry in facts.indexed:
        stored = records.responses.get(Original(entry.url, entry.date), "")
        if stored.rpartition(":")[2] != entry.digest:
            yield Wrong.INDEXED, f"{entry.digest} is not stored as {entry.url}"
    fetched = facts.log.fetched().keys() & facts.expected
    for url in sorted(fetched - records.urls):
        yield Wrong.UNARCHIVED, url


def _ended(facts):
    if facts.finished is None:
        yield Wrong.ENDLESS, "the crawl is still open"
        return
    missing = facts.log.missing(set(facts.expected))
    if missing:
        yield Wrong.EARLY, f"{len(missing)} pages were not fetched"
        return
    late = [entry for entry in facts.log.entries if entry.start > facts.finished]
    for entry in late:
        yield Wrong.EARLY, f"{_span(entry)} is after {facts.finished:.3f}"
