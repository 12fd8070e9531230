"""What a node, or all nodes together, did: the table of figures.

Each field of `Figures` says what it is, and by its `Kind` how it is read from a node's
report, written into one, and added up. What always holds:

1.  Nothing that a report says is trusted: what is of another type or size than this
    version writes is 0 or left out, and names are cut and made printable.
2.  What is a sum of all nodes counts each of them once, those included that are gone.
    What a node has now is summed up of those on the map alone.
3.  A report has a bounded size. Of hosts and media types it has those with most hits,
    and hosts with most errors, and the slowest.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from frontier.settings.live import LIVE
from frontier.settings.values import HOST
from frontier.status.validate import MAX_TEXT, printable, real, whole
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

ERROR_KINDS = (
    *("dns", "refused", "timeout", "tls"),
    *("reset", "http_429", "http_5xx", "other"),
)
"""No address; no connection; nothing in time; no TLS; it ended before the answer; too
many requests; an error of the server; anything else."""
MOST_SHARES = 200
"""Hosts or media types of each kind, from one node or from all."""
MOST_STATUSES = 1000
MAX_PORT = 65_535
MAX_NAME = 255
"""Characters of a host, a media type or a machine."""
MAX_LIMIT = 20
"""Characters of a limit that are shown."""
MAX_HOLDS = 4_000
_HOLDS = re.compile(r"(?:[0-9]{1,5}(?:-[0-9]{1,5})?)(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_STATUS = re.compile(r"[0-9]{1,3}", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenFigures:
    """How many URLs each tier called seen."""

    recent: int = 0
    bloom: int = 0
    set: int = 0
    imported: int = 0
    """Those that were seen before the crawl (`frontier.seen.imported_filter`)."""


@dataclass(frozen=True, slots=True)
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
    """Hits of an original from a URL that is not even equivalent."""
    digest_bytes: int = 0
    lookup_us: int = 0
    """Microseconds that the writer threads waited for the index."""
    unmodified: int = 0
    cdx_asked: int = 0
    """Payloads that CDX servers were asked for."""
    cdx_found: int = 0
    cdx_failed: int = 0
    cdx_us: int = 0
    """Microseconds that the writer threads waited for their answers."""


@dataclass(frozen=True, slots=True)
class ShareFigures:
    """What was looked up and found of a host, or of a media type."""

    handled: int = 0
    handled_bytes: int = 0
    hits: int = 0
    hit_bytes: int = 0


SHARES = ("hosts", "mimes")
Shares = dict[str, dict[str, ShareFigures]]
"""Of each of `SHARES`, name to its figures, those with most bytes saved."""


@dataclass(frozen=True, slots=True)
class HostSeconds:
    """How long requests to a host took, answered or not."""

    requests: int = 0
    seconds: float = 0.0
    """Of all of them together."""

    @property
    def mean(self) -> float:
        """Seconds that one took, on average."""
        return self.seconds / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How much a node does in a second, of what has the same name in `Figures`."""

    pages: float = 0.0
    requests: float = 0.0
    bytes: float = 0.0
    new: float = 0.0
    errors: float = 0.0
    queued: float = 0.0
    done: float = 0.0


PACES = tuple(f.name for f in fields(Pace))


class Fold(Enum):
    """Whose figures make up that of all nodes."""

    ALL = 1
    """Those of all nodes that the crawl ever had."""
    NOW = 2
    """Those of nodes that are on the map."""
    NONE = 3
    """Nobody's: it is a node's own."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a figure is read from a report, added up, and written into one."""

    read: Callable[[Any], Any]
    add: Callable[[Sequence[Any]], Any] = sum
    write: Callable[[Any], Any] = lambda value: value


def sum_of(cls: type[T], every: Iterable[T]) -> T:
    """The sums, field by field, of *every* one of a dataclass of numbers."""
    values = list(every)
    names = [f.name for f in fields(cast("Any", cls))]
    return cls(**{name: sum(getattr(v, name) for v in values) for name in names})


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(limit: int = MAX_NAME) -> Kind:
    """Text of no more than *limit* characters."""
    return Kind(lambda value: printable(str(value or "")[:limit]))


def _matched(pattern: re.Pattern[str], limit: int = MAX_NAME) -> Kind:
    """Text that *pattern* describes, but for ``,...`` at its end; else empty."""

    def read(value: Any) -> str:
        known = value if isinstance(value, str) and len(value) <= limit else ""
        return known if pattern.fullmatch(known.removesuffix(",...")) else ""

    return Kind(read)


def _counts(names: Iterable[str]) -> Kind:
    """Whole numbers under some of *names*."""

    def read(value: Any) -> dict[str, int]:
        known = _object(value)
        return {name: whole(known[name]) for name in names if name in known}

    def add(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
        return read(_add_counts(every))

    return Kind(read, add)


def _add_counts(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for counts in every:
        sums.update(counts)
    return dict(sums)


def _read_statuses(value: Any) -> dict[str, int]:
    some = itertools.islice(_object(value).items(), MOST_STATUSES)
    return {code: whole(n) for code, n in some if _STATUS.fullmatch(str(code))}


def _add_statuses(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sorted(_add_counts(every).items()))


def _numbers_of(cls: type[Any], read_one: Callable[[Any], float] = whole) -> Kind:
    """A *cls*, which is a dataclass of numbers, each as *read_one* reads it."""
    names = [f.name for f in fields(cls)]

    def read(value: Any) -> Any:
        known = _object(value)
        return cls(**{name: read_one(known.get(name)) for name in names})

    return Kind(read, lambda every: sum_of(cls, every), asdict)


def _by_name(
    read: Callable[[Any], T | None],
    add: Callable[[list[T]], T],
    weight: Callable[[T], float],
    write: Callable[[T], Any],
) -> Kind:
    """Names of hosts or media types, each with a value: those of most *weight*.

    *read* gives a value, or ``None`` if it is none.
    """

    def read_all(value: Any) -> dict[str, T]:
        some = itertools.islice(_object(value).items(), MOST_SHARES)
        found = {printable(str(name)[:MAX_NAME]): read(told) for name, told in some}
        return {name: told for name, told in found.items() if told is not None}

    def add_all(every: Sequence[Mapping[str, T]]) -> dict[str, T]:
        alike: dict[str, list[T]] = {}
        for named in every:
            for name, told in named.items():
                alike.setdefault(name, []).append(told)
        sums = {name: add(some) for name, some in alike.items()}
        order = ((-weight(told), name) for name, told in sums.items())
        return {name: sums[name] for _, name in heapq.nsmallest(MOST_SHARES, order)}

    def write_all(value: Mapping[str, T]) -> dict[str, Any]:
        return {name: write(told) for name, told in value.items()}

    return Kind(read_all, add_all, write_all)


def _read_share(value: Any) -> ShareFigures | None:
    if isinstance(value, list) and len(value) == len(fields(ShareFigures)):
        return ShareFigures(*map(whole, value))
    return None


def _listed(value: Any) -> list[float]:
    return list(astuple(value))


def _add_shares(every: list[ShareFigures]) -> ShareFigures:
    return every[0] if len(every) == 1 else sum_of(ShareFigures, every)


def _read_seconds(value: Any) -> HostSeconds | None:
    if isinstance(value, list) and len(value) == 2 and whole(value[0]):
        return HostSeconds(whole(value[0]), real(value[1]))
    return None


def _add_seconds(every: list[HostSeconds]) -> HostSeconds:
    seconds = round(sum(one.seconds for one in every), 3)
    return HostSeconds(sum(one.requests for one in every), seconds)


def _shares() -> Kind:
    """`Shares`: for each of the kinds, names and what was found of them."""
    one = _by_name(
        _read_share,
        _add_shares,
        lambda share: share.hit_bytes,
        _listed,
    )
    return Kind(
        lambda value: {kind: one.read(_object(value).get(kind)) for kind in SHARES},
        lambda every: {
            kind: one.add([shares.get(kind, {}) for shares in every]) for kind in SHARES
        },
        lambda value: {kind: one.write(named) for kind, named in value.items()},
    )


def _read_own(value: Any) -> dict[str, str]:
    known = _object(value)
    found = {name: known[name] for name in LIVE if isinstance(known.get(name), str)}
    return {name: printable(text[:MAX_LIMIT]) for name, text in found.items()}


_WHOLE = Kind(whole)
_REAL = Kind(real, lambda every: round(sum(every), 3))
_FLAG = Kind(lambda value: value is True)
_PORT = Kind(lambda value: port if (port := whole(value)) <= MAX_PORT else 0)
_ERRORS = _counts(ERROR_KINDS)


def _figure(kind: Kind, fold: Fold = Fold.NONE) -> Any:
    """A field of `Figures`; where it is not told it is what *kind* makes of nothing."""
    meta = {"kind": kind, "fold": fold}
    return field(default_factory=lambda: kind.read(None), metadata=meta)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a node did since it was started, or what all nodes did."""

    pages: int = _figure(_WHOLE, Fold.ALL)
    """Responses that were not redirects, those for robots.txt included."""
    requests: int = _figure(_WHOLE, Fold.ALL)
    bytes: int = _figure(_WHOLE, Fold.ALL)
    """Of responses, as they came over the network."""
    items: int = _figure(_WHOLE, Fold.ALL)
    errors: int = _figure(_WHOLE, Fold.ALL)
    """Requests that ended without a response though they were allowed, and responses
    of status 429 or 5xx; each try counts."""
    forbidden: int = _figure(_WHOLE, Fold.ALL)
    """Requests that robots.txt does not allow, and that were not sent."""
    refused: int = _figure(_WHOLE, Fold.ALL)
    """Requests that were not sent: out of scope, or to addresses not connected to."""
    excluded: int = _figure(_WHOLE, Fold.ALL)
    """Links, and queued requests, that an operator has excluded: neither is sent."""
    trapped: int = _figure(_WHOLE, Fold.ALL)
    """Links that were not followed because they look like a trap."""
    new: int = _figure(_WHOLE, Fold.ALL)
    """URLs that were new and therefore queued."""
    queued: int = _figure(_WHOLE, Fold.ALL)
    """Requests that were queued: for new URLs, and to try one again."""
    done: int = _figure(_WHOLE, Fold.ALL)
    """Requests that have left the queue."""
    given_up: int = _figure(_WHOLE, Fold.ALL)
    """Requests that were not sent because their host was left alone too often."""
    local: int = _figure(_WHOLE, Fold.ALL)
    """Requests that could not be stored and stayed on their node."""
    dead: int = _figure(_WHOLE, Fold.ALL)
    reclaimed: int = _figure(_WHOLE, Fold.ALL)
    """Requests of dead nodes that were put back."""
    partitions: int = _figure(_WHOLE, Fold.ALL)
    """Leases held at the last heartbeat; of nodes that have left, too."""
    opened: float = _figure(_REAL)
    """Seconds since the Unix epoch, on the node's clock; the first one's."""
    seconds: float = _figure(_REAL)
    """How long the node ran; of all, from the first start to the last report."""
    rate: float = _figure(_REAL)
    """Pages per second, from the first start to the last report."""
    lately: Pace = _figure(_numbers_of(Pace, real), Fold.NOW)
    """In the last `lately_seconds`; of all, that of nodes on the map together."""
    lately_seconds: float = _figure(Kind(real, max), Fold.NOW)
    """A minute, or less of a node that has not run for so long; 0 if not known. Of all,
    the most."""
    seen: SeenFigures = _figure(_numbers_of(SeenFigures), Fold.ALL)
    archive: ArchiveFigures = _figure(_numbers_of(ArchiveFigures), Fold.ALL)
    shares: Shares = _figure(_shares(), Fold.ALL)
    traps: dict[str, int] = _figure(_counts(SETTINGS), Fold.ALL)
    """The same by kind of trap, as `frontier.urls.traps` names them."""
    statuses: dict[str, int] = _figure(Kind(_read_statuses, _add_statuses), Fold.ALL)
    """Responses by HTTP status; each try counts, redirects too."""
    busy_seconds: float = _figure(_REAL)
    """For how long a callback, or something else, has blocked the node by now."""
    busy_url: str = _figure(_words(MAX_TEXT))
    """Of that callback's page; empty if no callback blocks it."""
    uplink_seconds: float = _figure(_REAL)
    """For how long the node has paused, as no host answers it; 0 if one does."""
    disk_full: bool = _figure(_FLAG)
    """Whether the node waits, as the disk of its WARC files takes nothing."""
    set_limit_bytes: int = _figure(_WHOLE)
    """``FRONTIER_SEEN_SET_MAX_BYTES``, as the node has it; 0 if there is none."""
    controls: int = _figure(_WHOLE)
    """The version of what an operator wants that is in force there; 0 for nothing."""
    own: dict[str, str] = _figure(Kind(_read_own))
    """What it was started with, of the settings that can be changed while it runs, but
    for those that are 0."""
    left: bool = _figure(_FLAG)
    """Whether it is the last report of a node that closed by itself."""
    memory_bytes: int = _figure(_WHOLE, Fold.NOW)
    """Resident memory of its process; of all, that of nodes on the map. What is not
    known is 0, here and in the next four."""
    memory_limit_bytes: int = _figure(_WHOLE)
    """What its process may have: the least of ``MEMUSAGE_LIMIT_MB`` and the limits of
    its control groups; 0 if there is none."""
    disk_free_bytes: int = _figure(_WHOLE)
    """Of the disk of ``FRONTIER_WARC_DIR``; 0 without an archive."""
    disk_total_bytes: int = _figure(_WHOLE)
    cpu_seconds: float = _figure(_REAL, Fold.ALL)
    """CPU time, since its process was started."""
    in_flight: int = _figure(_WHOLE, Fold.NOW)
    """Requests being fetched or parsed; of all, those of nodes on the map."""
    inbox: int = _figure(_WHOLE, Fold.NOW)
    """Requests that it has reserved and not started; of all, as before."""
    lag_ms: int = _figure(_WHOLE)
    """The most that its loop was late in the last five seconds, milliseconds."""
    machine: str = _figure(_words())
    """The name of its host."""
    pid: int = _figure(_WHOLE)
    metrics_port: int = _figure(_PORT)
    """Where it serves its metrics; 0 if it does not."""
    metrics_host: str = _figure(_matched(HOST))
    """The address of its machine at which it does."""
    holds: str = _figure(_matched(_HOLDS, MAX_HOLDS))
    """Partitions that it holds, as ``0-41,77``; with ``...`` at the end if there are
    more."""
    error_kinds: dict[str, int] = _figure(_ERRORS, Fold.ALL)
    """Errors by kind, as `frontier.session.request_stats` names them."""
    host_errors: dict[str, dict[str, int]] = _figure(
        _by_name(
            lambda value: _ERRORS.read(value) or None,
            _add_counts,
            lambda counts: sum(counts.values()),
            dict,
        ),
        Fold.ALL,
    )
    """Hosts with most errors, to their errors by kind."""
    host_seconds: dict[str, HostSeconds] = _figure(
        _by_name(_read_seconds, _add_seconds, lambda one: one.mean, _listed),
        Fold.ALL,
    )
    """Hosts that took longest for a request on average, the slowest first."""


_TABLE: dict[str, tuple[Kind, Fold]] = {
    f.name: (f.metadata["kind"], f.metadata["fold"]) for f in fields(Figures)
}


def figures_of(report: Mapping[str, Any]) -> Figures:
    """What *report*, of a node or of many that are gone, says."""
    known = {name: kind.read(report.get(name)) for name, (kind, _) in _TABLE.items()}
    return _with_rate(Figures(**known))


def report_of(figures: Figures) -> dict[str, Any]:
    """A report that says *figures*, of all nodes together."""
    nothing = Figures()
    return {
        name: kind.write(getattr(figures, name))
        for name, (kind, _) in _TABLE.items()
        if getattr(figures, name) != getattr(nothing, name)
    }


def together(every: Collection[Figures], there: Collection[Figures] = ()) -> Figures:
    """What all nodes did, given what *every* one did.

    What they have now is that of those *there*: they are on the map.
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
