"""Rounds, medians and reports, the same for every benchmark."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

PACKAGES = (
    "frontier-crawl",
    "scrapy",
    "w3lib",
    "redis",
    "hiredis",
    "scrapy-redis",
    "scrapy-redis-bloomfilter",
    "crawlee",
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    quick: bool
    plot: Path | None = None
    """Where to draw the figures, for a benchmark that does."""
    full: bool = False
    """Whether the run is the one that takes an hour, for a benchmark that has one."""


class Pace(NamedTuple):
    """How fast URLs were dealt with."""

    per_second: float
    node_us: float
    """CPU time of this process per URL, in microseconds."""


class Stopwatch:
    """Runs from its creation on."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def pace(self, count: int) -> Pace:
        """The pace at which *count* URLs were dealt with until now."""
        seconds = time.perf_counter() - self._start
        return Pace(count / seconds, (time.process_time() - self._cpu) / count * 1e6)


class Figures:
    """What was measured: a value per competitor, metric and round."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def add(self, competitor: str, metrics: Mapping[str, float]) -> None:
        """Note *metrics* of one round of *competitor*."""
        for name, value in metrics.items():
            self._values[competitor][name].append(value)

    def results(self) -> dict[str, dict[str, float]]:
        """The median of each metric over its rounds."""
        return {
            competitor: {
                name: rounded(statistics.median(values))
                for name, values in metrics.items()
            }
            for competitor, metrics in self._values.items()
        }

    def ratio(self, over: tuple[str, str], under: tuple[str, str]) -> float:
        """The median over the rounds of *over* divided by *under*: competitor, metric.

        Ratios are made within a round, so that what slows the machine down
        for a while touches both sides.
        """
        pairs = zip(self._of(over), self._of(under), strict=True)
        return rounded(statistics.median(a / b for a, b in pairs))

    def value(self, competitor: str, metric: str) -> float:
        """The median of one metric."""
        return rounded(statistics.median(self._of((competitor, metric))))

    def _of(self, name: tuple[str, str]) -> list[float]:
        return self._values[name[0]][name[1]]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one benchmark."""

    benchmark: str
    environment: Mapping[str, Any]
    results: Mapping[str, Mapping[str, float]]
    ratios: Mapping[str, float]
    notes: Sequence[str] = field(default=())
    """What a reader must know, for instance which peer was skipped."""

    def as_json(self) -> str:
        """One line."""
        return json.dumps(
            {
                "benchmark": self.benchmark,
                "environment": {**self.environment, "notes": list(self.notes)},
                "results": self.results,
                "ratios": self.ratios,
            }
        )

    def print_tables(self) -> None:
        """Print it for people."""
        console = Console(width=max(150, Console().width))
        console.print(_results_table(self.benchmark, self.results))
        ratios = Table(title="ratios", title_justify="left")
        ratios.add_column("name")
        ratios.add_column("value", justify="right")
        for name, value in self.ratios.items():
            ratios.add_row(name, _shown(value))
        console.print(ratios)
        for name, value in self.environment.items():
            console.print(f"{name}: {value}", highlight=False)
        for note in self.notes:
            console.print(f"note: {note}", highlight=False)


def alternate(
    rounds: int, competitors: Mapping[str, Callable[[], Mapping[str, float]]]
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Measure *competitors* by turns, every other round in reverse order."""
    names = list(competitors)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            yield name, competitors[name]()


def environment(info: Mapping[str, Any]) -> dict[str, Any]:
    """Where it was measured, given the server's ``INFO``."""
    server = info.get("valkey_version") or info.get("redis_version")
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "server": f"{'valkey' if 'valkey_version' in info else 'redis'} {server}",
        "server_allocator": info.get("mem_allocator"),
        "packages": {name: _version(name) for name in PACKAGES},
    }


@contextmanager
def collected() -> Iterator[None]:
    """Collect garbage first; while this lasts, leave alone what was there before."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def rounded(value: float) -> float:
    """*value* with four significant digits."""
    return float(f"{value:.4g}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _results_table(title: str, results: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("competitor")
    metrics = dict.fromkeys(name for row in results.values() for name in row)
    for metric in metrics:
        table.add_column(metric.replace("_", " "), justify="right")
    for competitor, row in results.items():
        table.add_row(competitor, *(_shown(row.get(metric)) for metric in metrics))
    return table


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
