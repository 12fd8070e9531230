"""The reports of nodes, read and added up."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from frontier.conf import NAME
from frontier.inspection.untrusted import mapping, real, text, whole
from frontier.inspection.views import ArchiveFigures, Figures, SeenFigures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

COUNTS = (
    "pages",
    "requests",
    "bytes",
    "items",
    "errors",
    "forbidden",
    "new",
    "local",
    "dead",
    "reclaimed",
    "partitions",
)

T = TypeVar("T")


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
    return Figures(
        **known,
        opened=real(report.get("opened")),
        seconds=seconds,
        rate=known["pages"] / seconds if seconds else 0.0,
        seen=_read(SeenFigures, report.get("seen")),
        archive=_read(ArchiveFigures, report.get("archive")),
    )


def together(every: Collection[Figures]) -> Figures:
    """What all nodes did, given what *every* one did."""
    if not every:
        return Figures()
    sums = {name: sum(getattr(f, name) for f in every) for name in COUNTS}
    opened = min(figures.opened for figures in every)
    seconds = max(figures.opened + figures.seconds for figures in every) - opened
    return Figures(
        **sums,
        opened=opened,
        seconds=seconds,
        rate=sums["pages"] / seconds if seconds else 0.0,
        seen=sum_of(SeenFigures, [figures.seen for figures in every]),
        archive=sum_of(ArchiveFigures, [figures.archive for figures in every]),
    )


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
