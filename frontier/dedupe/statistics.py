"""What deduplication did, as Heritrix's DeDuplicator reports it.

What always holds:

1.  Each payload that was looked up is counted once: new, or as a hit by its exact
    URL, by an equivalent one, or by its digest alone.
2.  Hosts and media types are bounded in number: what comes after the first
    `MOST` is counted under `OTHERS`.

Bytes that revisits saved, by media type and by host, as a picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.dedupe.revisit_policy import canonical, mime_of
from frontier.errors import ConfigurationError
from frontier.warc.records import target_uri

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from frontier.model import Exchange, Original


BARS = 12


def draw(path: Path, panels: Mapping[str, Mapping[str, tuple[int, int]]]) -> None:
    """Write a PNG with a panel for each of *panels*: name to (saved, all) bytes.

    Raises:
        ConfigurationError: matplotlib is not installed, or *path* cannot be written.
    """
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(11, 5), dpi=110)
        tick = import_module("matplotlib.ticker").EngFormatter(unit="B")
    except ImportError:
        raise ConfigurationError(
            "--plot needs matplotlib; install it with: "
            "pip install 'frontier-crawl[plot]'"
        ) from None
    for place, (title, shares) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), place)
        most = sorted(shares.items(), key=lambda each: each[1], reverse=True)[:BARS]
        names = [name if len(name) <= 32 else f"{name[:31]}..." for name, _ in most]
        places = list(range(len(most)))
        axes.barh(places, [all_ for _, (_, all_) in most], color="0.85", label="all")
        axes.barh(places, [saved for _, (saved, _) in most], label="saved by revisits")
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set(title=title, xlabel="payload bytes")
        axes.xaxis.set_major_formatter(tick)
        axes.legend(loc="lower right")
    figure.tight_layout()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None


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
            (self.mimes, mime_of(exchange)[:100] or "(none)"),
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
