"""What a metric is, and how a list of them becomes what Prometheus reads.

Names, units and types follow Prometheus' conventions: base units (seconds, bytes), a
counter ends in ``_total``, a metric that only has labels in ``_info``.

What always holds:

1.  A metric without a value has no sample, except counters: they begin with 0, so that
    ``rate()`` sees the first one.
2.  No label has a URL, and each has a bounded number of values. Values that come from
    the web are cut (`MAX_LABEL`), and escaped by prometheus_client.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, TypeVar

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric as Family

T = TypeVar("T")
Samples = dict[tuple[str, ...], float]
"""Values by label values, which are in the order of the metric's labels."""

MAX_LABEL = 255
"""Characters of a label's value; names of hosts have no more."""
TOTAL, INFO = "_total", "_info"
UNITS = ("seconds", "bytes")


@dataclass(frozen=True)
class Metric(Generic[T]):
    """One metric, and where its values are in a reading *T*."""

    name: str
    about: str
    """One line for people: the HELP of the text format, and docs/figures.md."""
    read: str | Callable[[T], float | Samples | None]
    """Returns its value, or its values by label values; `None` if there is none. Or the
    dotted path of an attribute of the reading."""
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``counter``, ``info`` or ``gauge``."""
        if self.name.endswith(TOTAL):
            return "counter"
        return "info" if self.name.endswith(INFO) else "gauge"

    @property
    def unit(self) -> str:
        """``seconds``, ``bytes``, or nothing."""
        last = self.name.removesuffix(TOTAL).rpartition("_")[2]
        return last if last in UNITS else ""

    def samples(self, reading: T) -> Samples:
        """Its values in *reading*, by label values."""
        read = attrgetter(self.read) if isinstance(self.read, str) else self.read
        found = read(reading)
        if found is None:
            return {}
        return found if isinstance(found, dict) else {(): found}


class Families:
    """A collector for prometheus_client: *collect* returns the current families."""

    def __init__(self, collect: Callable[[], Iterable[Family]]) -> None:
        self.collect = collect

    def describe(self) -> Iterable[Family]:
        """Nothing: the families are known only when they are collected."""
        return ()


def families(metrics: Iterable[Metric[T]], reading: T) -> Iterator[Family]:
    """The *metrics* of *reading* as prometheus_client takes them."""
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        InfoMetricFamily,
    )

    for metric in metrics:
        samples = metric.samples(reading)
        name, about, labels = metric.name, metric.about, metric.labels
        if metric.kind == "info":
            told = InfoMetricFamily(name.removesuffix(INFO), about)
            for values in samples:
                text = map(label, values)
                told.add_metric([], dict(zip(labels, text, strict=True)))
            yield told
            continue
        made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = made(name.removesuffix(TOTAL), about, labels=labels, unit=metric.unit)
        for values, value in samples.items():
            family.add_metric([label(one) for one in values], value)
        yield family


def label(value: str) -> str:
    """*value* as a label's value: cut, and without lone surrogates."""
    return value[:MAX_LABEL].encode("utf-8", "replace").decode()


def most(values: Mapping[str, float], count: int) -> list[str]:
    """The names of the *count* greatest of *values*; equal ones are ordered by name."""
    return sorted(values, key=lambda name: (-values[name], name))[:count]


def require_library(setting: str) -> None:
    """Raise if prometheus_client, which *setting* needs, is not installed.

    Raises:
        ConfigurationError: It is not.
    """
    if find_spec("prometheus_client") is None:
        raise ConfigurationError(
            f"{setting} needs prometheus_client: pip install 'frontier-crawl[metrics]'"
        )
