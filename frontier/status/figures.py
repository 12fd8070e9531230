"""What a node, or all nodes together, did: the table of figures.

Each field of `Figures` says what it is; its `Kind` says how it is read from a node's
report, written into one, and added up. What always holds:

1.  Nothing in a report is trusted: a value of a type or size that this version does
    not write becomes 0 or is left out, and names are cut and made printable.
2.  A sum over all nodes counts each of them once, including those that are gone. What
    a node has at the moment is summed up only over nodes on the map.
3.  A report has a bounded size. It names only the hosts and media types that saved
    most, the hosts with most errors, and the slowest hosts.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, field, fields, replace
from enum import Enum
from functools import partial
from typing import Any, TypeVar, cast

from frontier.model import frozen
from frontier.settings.live import LIVE
from frontier.settings.values import HOST
from frontier.status.validate import MAX_TEXT, printable, real, whole
from frontier.urls.traps import SETTINGS

ERROR_KINDS = {
    "dns": "name not known",
    "refused": "connection refused",
    "timeout": "time-out",
    "tls": "TLS",
    "reset": "connection broken",
    "http_429": "answer 429",
    "http_5xx": "answer 5xx",
    "code": "in callbacks and pipelines",
    "other": "other",
}
"""Kinds of errors, and each in words."""
MOST_HOSTS = 200
"""Hosts that a figure names, from one node or from all."""
MOST_COUNTS = 1000
"""Names that are counted."""
MAX_PORT = 65_535
MAX_NAME = 255
"""Characters of a host or a machine."""
MAX_LIMIT = 20
"""Characters of a limit that are shown."""
MAX_HOLDS = 4_000
_HOLDS = re.compile(r"(?:[0-9]{1,5}(?:-[0-9]{1,5})?)(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_STATUS = re.compile(r"[0-9]{1,3}", re.ASCII)

T = TypeVar("T")


@frozen
class SeenFigures:
    """How many URLs each tier called seen."""

    recent: int = 0
    bloom: int = 0
    set: int = 0
    imported: int = 0
    """URLs that were seen before the crawl (`frontier.seen.imported_filter`)."""


@frozen
class ArchiveFigures:
    """What was written to WARC files; see `frontier.warc.batch.Counters`."""

    originals: int = 0
    revisits: int = 0
    original_bytes: int = 0
    revisit_bytes: int = 0
    """Payload bytes that were not stored again."""
    written_bytes: int = 0
    files: int = 0
    """WARC files that were begun."""
    handled: int = 0
    """Payloads that were looked up; new ones and the three kinds of hits together."""
    handled_bytes: int = 0
    new_payloads: int = 0
    new_bytes: int = 0
    exact_url: int = 0
    exact_url_bytes: int = 0
    canonical_url: int = 0
    canonical_url_bytes: int = 0
    digest: int = 0
    """Hits whose original is from a URL that is not even equivalent."""
    digest_bytes: int = 0
    lookup_us: int = 0
    """Microseconds that the writer threads waited for the index."""
    unmodified: int = 0
    cdx_asked: int = 0
    """Payloads that CDX servers were asked for."""
    cdx_found: int = 0
    cdx_failed: int = 0
    cdx_us: int = 0
    """Microseconds that the writer threads waited for CDX servers."""


@frozen
class HostSeconds:
    """How long requests to a host took, answered or not."""

    requests: int = 0
    seconds: float = 0.0
    """The sum over all of them."""

    @property
    def mean(self) -> float:
        """Seconds that one took, on average."""
        return self.seconds / self.requests if self.requests else 0.0


@frozen
class Pace:
    """How much a node does per second, by the names of the counts in `Figures`."""

    pages: float = 0.0
    requests: float = 0.0
    bytes: float = 0.0
    new: float = 0.0
    errors: float = 0.0
    queued: float = 0.0
    done: float = 0.0


PACES = tuple(f.name for f in fields(Pace))


class Fold(Enum):
    """Which nodes' figures make up the figure of all nodes."""

    ALL = 1
    """Those of all nodes that the crawl ever had."""
    NOW = 2
    """Those of nodes that are on the map."""
    NONE = 3
    """None: it is a node's own figure, or is not added up this way."""


@frozen
class Kind:
    """How a figure is read from a report, added up, and written into one."""

    read: Callable[[Any], Any]
    add: Callable[[Sequence[Any]], Any] = sum
    write: Callable[[Any], Any] = lambda value: value


def sum_of(cls: type[T], every: Iterable[T]) -> T:
    """The sums, field by field, of *every* instance of a dataclass of numbers."""
    values = list(every)
    names = [f.name for f in fields(cast("Any", cls))]
    sums = {name: sum(getattr(one, name) for one in values) for name in names}
    return cls(**{name: round(value, 3) for name, value in sums.items()})


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(limit: int = MAX_NAME) -> Kind:
    """Text of no more than *limit* characters."""
    return Kind(lambda value: printable(str(value or "")[:limit]))


def _matched(pattern: re.Pattern[str], limit: int = MAX_NAME) -> Kind:
    """Text that matches *pattern*, apart from ``,...`` at its end; else empty."""

    def read(value: Any) -> str:
        known = value if isinstance(value, str) and len(value) <= limit else ""
        return known if pattern.fullmatch(known.removesuffix(",...")) else ""

    return Kind(read)


def _counts(is_known: Callable[[str], object]) -> Kind:
    """Whole numbers by name, for names that *is_known* accepts."""

    def read(value: Any) -> dict[str, int]:
        some = itertools.islice(_object(value).items(), MOST_COUNTS)
        return {name: whole(count) for name, count in some if is_known(name)}

    def add(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for counts in every:
            sums.update(counts)
        return dict(sorted(sums.items()))

    return Kind(read, add)


def _numbers_of(cls: type[Any], *, is_listed: bool = False) -> Kind:
    """A *cls*, a dataclass of numbers; if it *is_listed*, a report has no names."""
    readers = {f.name: real if f.type == "float" else whole for f in fields(cls)}

    def read(value: Any) -> Any:
        if is_listed:
            is_whole = isinstance(value, list | tuple) and len(value) == len(readers)
            value = dict(zip(readers, value, strict=True)) if is_whole else None
        known = _object(value)
        return cls(
            **{name: number(known.get(name)) for name, number in readers.items()}
        )

    return Kind(
        read, lambda every: sum_of(cls, every), astuple if is_listed else asdict
    )


def _by_name(one: Kind, weight: Callable[[Any], float]) -> Kind:
    """Values by the name of a host: those with the most *weight*."""
    nothing = one.read(None)

    def read(value: Any) -> dict[str, Any]:
        some = itertools.islice(_object(value).items(), MOST_HOSTS)
        found = {printable(name[:MAX_NAME]): one.read(told) for name, told in some}
        return {name: told for name, told in found.items() if told != nothing}

    def add(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        alike: dict[str, list[Any]] = {}
        for named in every:
            for name, told in named.items():
                alike.setdefault(name, []).append(told)
        sums = {n: one.add(some) if some[1:] else some[0] for n, some in alike.items()}
        order = ((-weight(told), name) for name, told in sums.items())
        return {name: sums[name] for _, name in heapq.nsmallest(MOST_HOSTS, order)}

    def write(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one.write(told) for name, told in value.items()}

    return Kind(read, add, write)


def _read_own(value: Any) -> dict[str, str]:
    known = _object(value)
    found = {name: known[name] for name in LIVE if isinstance(known.get(name), str)}
    return {name: printable(text[:MAX_LIMIT]) for name, text in found.items()}


_WHOLE = Kind(whole)
_REAL = Kind(real, lambda every: round(sum(every), 3))
_FLAG = Kind(lambda value: value is True)
_PORT = Kind(lambda value: port if (port := whole(value)) <= MAX_PORT else 0)
_ERRORS = _counts(ERROR_KINDS.__contains__)
_SECONDS = _numbers_of(HostSeconds, is_listed=True)


def _figure(kind: Kind = _WHOLE, fold: Fold = Fold.NONE) -> Any:
    """A field of `Figures`; its default is what *kind* makes of a missing value."""
    meta = {"kind": kind, "fold": fold}
    return field(default_factory=lambda: kind.read(None), metadata=meta)


_sum = partial(_figure, fold=Fold.ALL)
"""A field that is added up over all nodes, those that are gone included."""


@frozen
class Figures:
    """What a node has done since its start, or what all nodes have done."""

    pages: int = _sum()
    """Responses that were not redirects, those for robots.txt included."""
    requests: int = _sum()
    bytes: int = _sum()
    """Bytes of responses, as they came over the network."""
    items: int = _sum()
    errors: int = _sum()
    """Requests that ended without a response though they were allowed, and responses
    of status 429 or 5xx; each try counts."""
    forbidden: int = _sum()
    """Requests that were not sent because robots.txt does not allow them."""
    refused: int = _sum()
    """Requests not sent: out of scope, excluded, or to addresses not allowed."""
    excluded: int = _sum()
    """Links, and queued requests, that were dropped: an operator excluded them."""
    trapped: int = _sum()
    """Links that were not followed because they look like a trap."""
    new: int = _sum()
    """URLs that were new and therefore queued."""
    queued: int = _sum()
    """Requests that were queued: for new URLs, and to try again."""
    done: int = _sum()
    """Requests that have left the queue."""
    given_up: int = _sum()
    """Requests that were not sent because their host was left alone too often."""
    local: int = _sum()
    """Requests that could not be stored, and stayed on their node."""
    dead: int = _sum()
    reclaimed: int = _sum()
    """Reservations that were put back, as no node had them any more."""
    partitions: int = _sum()
    """Leases held at the last heartbeat, also by nodes that have left since."""
    opened: float = _figure(_REAL)
    """When the node started, in seconds since the Unix epoch, on the store's clock; of
    all, the first start."""
    seconds: float = _figure(_REAL)
    """How long the node ran; of all, from the first start to the last report."""
    rate: float = _figure(_REAL)
    """Pages per second, from the first start to the last report."""
    lately: Pace = _figure(_numbers_of(Pace), Fold.NOW)
    """The pace in the last `lately_seconds`; of all, the sum over nodes on the map."""
    lately_seconds: float = _figure(Kind(real, max), Fold.NOW)
    """A minute, or less if the node has not run that long; 0 if not known. Of all, the
    longest."""
    seen: SeenFigures = _sum(_numbers_of(SeenFigures))
    archive: ArchiveFigures = _sum(_numbers_of(ArchiveFigures))
    traps: dict[str, int] = _sum(_counts(SETTINGS.__contains__))
    """Links not followed, by kind of trap, as `frontier.urls.traps` names them."""
    statuses: dict[str, int] = _sum(_counts(_STATUS.fullmatch))
    """Responses by HTTP status; each try counts, redirects too."""
    busy_seconds: float = _figure(_REAL)
    """How long a callback, or something else, has been blocking the node."""
    busy_url: str = _figure(_words(MAX_TEXT))
    """The URL of that callback's page; empty if no callback blocks it."""
    uplink_seconds: float = _figure(_REAL)
    """How long the node has paused because no host answers it; 0 if one does."""
    disk_full: bool = _figure(_FLAG)
    """Whether the node waits for the disk of its WARC files, journal or items."""
    set_limit_bytes: int = _figure()
    """``FRONTIER_SEEN_SET_MAX_BYTES``, as the node has it; 0 if there is none."""
    controls: int = _figure()
    """The version of the operators' controls that the node has in force; 0 for none."""
    own: dict[str, str] = _figure(Kind(_read_own))
    """The values with which it was started of settings that can be changed while it
    runs, except those that are 0."""
    left: bool = _figure(_FLAG)
    """Whether it is the last report of a node that closed by itself."""
    memory_bytes: int = _figure(fold=Fold.NOW)
    """Resident memory of its process; of all, that of nodes on the map. Here and in the
    next four fields, 0 if not known."""
    memory_limit_bytes: int = _figure()
    """What its process may have: the least of ``MEMUSAGE_LIMIT_MB`` and the limits of
    its control groups; 0 if there is none."""
    disk_free_bytes: int = _figure()
    """Free bytes of the disk of ``FRONTIER_WARC_DIR``; 0 without an archive."""
    disk_total_bytes: int = _figure()
    cpu_seconds: float = _sum(_REAL)
    """CPU time since its process was started."""
    in_flight: int = _figure(fold=Fold.NOW)
    """Requests being fetched or parsed; of all, those of nodes on the map."""
    inbox: int = _figure(fold=Fold.NOW)
    """Requests that it has reserved and not started; of all, those of nodes on the
    map."""
    lag_ms: int = _figure()
    """The most milliseconds that its event loop was late in the last five seconds."""
    machine: str = _figure(_words())
    """The name of the machine that it runs on."""
    pid: int = _figure()
    metrics_port: int = _figure(_PORT)
    """The port at which it serves its metrics; 0 if it does not."""
    metrics_host: str = _figure(_matched(HOST))
    """The address of its machine at which it serves its metrics."""
    holds: str = _figure(_matched(_HOLDS, MAX_HOLDS))
    """Partitions that it holds, as ``0-41,77``; with ``...`` at the end if there are
    more."""
    error_kinds: dict[str, int] = _sum(_ERRORS)
    """Errors by kind, as `frontier.session.request_stats` names them."""
    host_errors: dict[str, dict[str, int]] = _sum(
        _by_name(_ERRORS, lambda counts: sum(counts.values()))
    )
    """The errors by kind of each of the hosts with most errors."""
    host_seconds: dict[str, HostSeconds] = _sum(
        _by_name(_SECONDS, lambda one: one.mean)
    )
    """Hosts that took longest for a request on average, the slowest first."""


_TABLE: dict[str, tuple[Kind, Fold]] = {
    f.name: (f.metadata["kind"], f.metadata["fold"]) for f in fields(Figures)
}


def figures_of(report: Mapping[str, Any]) -> Figures:
    """The figures in *report*, which is that of a node or of many that are gone."""
    known = {name: kind.read(report.get(name)) for name, (kind, _) in _TABLE.items()}
    return _with_rate(Figures(**known))


def report_of(figures: Figures) -> dict[str, Any]:
    """A report that has *figures*, those of several nodes together."""
    nothing = Figures()
    return {
        name: kind.write(getattr(figures, name))
        for name, (kind, _) in _TABLE.items()
        if getattr(figures, name) != getattr(nothing, name)
    }


def together(every: Collection[Figures], there: Collection[Figures] = ()) -> Figures:
    """The figures of all nodes, given those of *every* one.

    What nodes have at the moment is summed up over *there*, those on the map.
    """
    if not every:
        return Figures()
    added = {}
    for name, (kind, fold) in _TABLE.items():
        whose = {Fold.ALL: every, Fold.NOW: there, Fold.NONE: ()}[fold]
        if whose:
            added[name] = kind.add([getattr(figures, name) for figures in whose])
    opened = min(figures.opened for figures in every)
    end = max(figures.opened + figures.seconds for figures in every)
    limits = [figures for figures in every if figures.set_limit_bytes]
    limit = max(limits, key=lambda one: one.opened, default=Figures())
    return _with_rate(
        Figures(
            **added,
            opened=opened,
            seconds=end - opened,
            set_limit_bytes=limit.set_limit_bytes,
        )
    )


def _with_rate(figures: Figures) -> Figures:
    rate = figures.pages / figures.seconds if figures.seconds else 0.0
    return replace(figures, rate=rate)
