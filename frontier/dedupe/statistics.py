"""What deduplication did, as Heritrix's DeDuplicator reports it.

What always holds:

1.  Each payload that was looked up is counted once: new, or as a hit by its exact
    URL, by an equivalent one, or by its digest alone.
2.  Hosts and media types are bounded in number: what comes after the first
    `MOST` is counted under `OTHERS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.dedupe.revisit_policy import canonical
from frontier.warc.records import target_uri
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from frontier.model import Exchange, Original

MOST = 1_000
"""Hosts, and media types, that have a count of their own."""
OTHERS = "(others)"
SHOWN = 20


@dataclass(slots=True)
class Count:
    """Payloads of one kind, and their bytes before compression."""

    payloads: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count a payload of *size* bytes."""
        self.payloads += 1
        self.bytes += size


@dataclass(slots=True)
class Share:
    """What was looked up of one host or media type, and found."""

    handled: Count = field(default_factory=Count)
    hits: Count = field(default_factory=Count)


@dataclass(slots=True)
class Statistics:
    """Of one node. Only the writer thread changes them; anyone may read."""

    handled: Count = field(default_factory=Count)
    new: Count = field(default_factory=Count)
    exact_url: Count = field(default_factory=Count)
    canonical_url: Count = field(default_factory=Count)
    digest: Count = field(default_factory=Count)
    """Hits of an original from a URL that is not even equivalent."""
    hosts: dict[str, Share] = field(default_factory=dict)
    mimes: dict[str, Share] = field(default_factory=dict)

    def note(self, exchange: Exchange, original: Original | None) -> None:
        """Count *exchange*, which was looked up, and what was found."""
        size = len(exchange.response_body)
        self.handled.add(size)
        self._kind(exchange, original).add(size)
        host = urlsplit(target_uri(exchange.url)).netloc.rpartition("@")[2].lower()
        for shares, name in (
            (self.hosts, host[:255]),
            (self.mimes, mime_of(exchange.response_head)[:100] or "(none)"),
        ):
            share = shares.get(name)
            if share is None:
                known = name if len(shares) < MOST else OTHERS
                share = shares.setdefault(known, Share())
            share.handled.add(size)
            if original is not None:
                share.hits.add(size)

    def report(self) -> dict[str, dict[str, list[int]]]:
        """The `SHOWN` hosts and media types with most bytes, for the crawl's report.

        Name to payloads and bytes handled, then payloads and bytes of the hits.
        """
        return {"hosts": _largest(self.hosts), "mimes": _largest(self.mimes)}

    def _kind(self, exchange: Exchange, original: Original | None) -> Count:
        if original is None:
            return self.new
        url = target_uri(exchange.url)
        if original.url == url:
            return self.exact_url
        if canonical(original.url) == canonical(url):
            return self.canonical_url
        return self.digest


def _largest(shares: dict[str, Share]) -> dict[str, list[int]]:
    def weight(item: tuple[str, Share]) -> tuple[int, int]:
        return item[1].hits.bytes, item[1].handled.bytes

    items = list(shares.items())  # at once: the writer thread may add to it
    most = sorted(items, key=weight, reverse=True)[:SHOWN]
    return {
        name: [s.handled.payloads, s.handled.bytes, s.hits.payloads, s.hits.bytes]
        for name, s in most
    }
