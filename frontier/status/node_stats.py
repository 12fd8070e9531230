"""The reports of nodes, read and added up."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from frontier.settings.values import NAME
from frontier.status.validate import (
    MAX_TEXT,
    mapping,
    printable,
    real,
    text,
    whole,
)
from frontier.status.views import (
    ArchiveFigures,
    Figures,
    SeenFigures,
    ShareFigures,
)
from frontier.urls.traps import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from frontier.status.views import Shares

COUNTS = (
    "pages",
    "requests",
    "bytes",
    "items",
    "errors",
    "forbidden",
    "refused",
    "trapped",
    "new",
    "local",
    "dead",
    "reclaimed",
    "partitions",
)

SHARES = ("hosts", "mimes")
MOST_SHARES = 50
"""Of each kind, from one node."""
NAME_LIMIT = 255
STATUS = re.compile(r"[0-9]{1,3}", re.ASCII)
MOST_STATUSES = 1000

T = TypeVar("T")


MAX_LIMIT = 20
"""Characters of a limit that are shown."""


def read_reports(reply: Mapping[bytes, bytes]) -> dict[str, Figures]:
    """The reports that can be read."""
    found = {}
    for name, value in reply.items():
        node_id, report = text(name), mapping(value)
        if NAME.fullmatch(node_id) and report:
            found[node_id] = _figures(report)
    return found


def _figures(report: Mapping[str, Any]) -> Figures:
    known = {name: whole(report.get(name)) for name in COUNTS}
    seconds = real(report.get("seconds"))
    busy = report.get("busy")
    blocked = busy if isinstance(busy, dict) else {}
    return Figures(
        **known,
        opened=real(report.get("opened")),
        seconds=seconds,
        rate=known["pages"] / seconds if seconds else 0.0,
        seen=_read(SeenFigures, report.get("seen")),
        archive=_read(ArchiveFigures, report.get("archive")),
        shares=_read_shares(report.get("shares")),
        traps=_read_traps(report.get("traps")),
        statuses=_read_statuses(report.get("statuses")),
        busy_seconds=real(blocked.get("seconds")),
        busy_url=printable(str(blocked.get("url", ""))[:MAX_TEXT]),
        set_limit=printable(str(report.get("set_limit", ""))[:MAX_LIMIT]),
        set_limit_bytes=whole(report.get("set_limit_bytes")),
        left=report.get("left") is True,
    )


def together(every: Collection[Figures]) -> Figures:
    """What all nodes did, given what *every* one did."""
    if not every:
        return Figures()
    sums = {name: sum(getattr(f, name) for f in every) for name in COUNTS}
    statuses: Counter[str] = Counter()
    traps: Counter[str] = Counter()
    for figures in every:
        traps.update(figures.traps)
        statuses.update(figures.statuses)
    opened = min(figures.opened for figures in every)
    seconds = max(figures.opened + figures.seconds for figures in every) - opened
    limits = [figures for figures in every if figures.set_limit_bytes]
    limit = max(limits, key=lambda one: one.opened, default=Figures())
    return Figures(
        **sums,
        opened=opened,
        seconds=seconds,
        rate=sums["pages"] / seconds if seconds else 0.0,
        seen=sum_of(SeenFigures, [figures.seen for figures in every]),
        archive=sum_of(ArchiveFigures, [figures.archive for figures in every]),
        shares=_sum_shares([figures.shares for figures in every]),
        traps=dict(traps.most_common()),
        statuses=dict(sorted(statuses.items())),
        set_limit=limit.set_limit,
        set_limit_bytes=limit.set_limit_bytes,
    )


def _read_statuses(value: Any) -> dict[str, int]:
    known = value if isinstance(value, dict) else {}
    return {
        status: whole(count)
        for status, count in list(known.items())[:MOST_STATUSES]
        if STATUS.fullmatch(str(status))
    }


def _read_traps(value: Any) -> dict[str, int]:
    known = value if isinstance(value, dict) else {}
    return {trap: whole(known[trap]) for trap in SETTINGS if trap in known}


def _read_shares(value: Any) -> Shares:
    """What *value* says of hosts and media types, and no more than `MOST_SHARES`."""
    known = value if isinstance(value, dict) else {}
    found: Shares = {}
    for kind in SHARES:
        shares = known.get(kind)
        found[kind] = {
            str(name)[:NAME_LIMIT]: ShareFigures(*map(whole, numbers))
            for name, numbers in list(
                (shares if isinstance(shares, dict) else {}).items()
            )[:MOST_SHARES]
            if isinstance(numbers, list) and len(numbers) == len(fields(ShareFigures))
        }
    return found


def _sum_shares(every: Iterable[Shares]) -> Shares:
    values = list(every)
    found: Shares = {}
    for kind in SHARES:
        kinds = [value.get(kind, {}) for value in values]
        names = {name for shares in kinds for name in shares}
        summed = {
            name: sum_of(ShareFigures, [s[name] for s in kinds if name in s])
            for name in names
        }
        most = sorted(summed, key=lambda name: (-summed[name].hit_bytes, name))
        found[kind] = {name: summed[name] for name in most}
    return found


def _read(cls: type[T], value: Any) -> T:
    """A *cls*, a dataclass of whole numbers, with what *value* has of them."""
    known = value if isinstance(value, dict) else {}
    names = [f.name for f in fields(cast("Any", cls))]
    return cls(**{name: whole(known.get(name)) for name in names})


def sum_of(cls: type[T], every: Iterable[T]) -> T:
    """The sums, field by field, of *every* one of a dataclass of whole numbers."""
    values = list(every)
    names = [f.name for f in fields(cast("Any", cls))]
    return cls(**{name: sum(getattr(v, name) for v in values) for name in names})
