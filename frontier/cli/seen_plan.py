"""``frontier seen plan``: what a seen test will take and lose, and how to set it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from frontier.cli.options import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.seen.capacity_plan import Forecast
    from frontier.settings.config import Config

CHOICES: tuple[tuple[str, int], ...] = (
    ("recent,bloom,set", 64),
    ("recent,set", 64),
    ("recent,set", 32),
    ("recent,bloom", 64),
)
"""Tiers and bits of the set that a plan compares when none are named."""


Tiers = Annotated[
    str,
    typer.Option(
        metavar="TIERS", help="As FRONTIER_SEEN_TIERS (default: compare some)."
    ),
]
Partitions = Annotated[
    int, typer.Option(min=1, max=16384, metavar="N", help="As FRONTIER_PARTITIONS.")
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE.png", help="Draw how the error grows with the URLs."),
]


def plan(
    output: Output,
    urls: Annotated[
        str, typer.Option(metavar="N", help="URLs of the crawl: 2000, 50M, 1.5G.")
    ],
    error: Annotated[
        str, typer.Option(metavar="RATE", help="Share of new URLs that may be lost.")
    ] = "0.001",
    tiers: Tiers = "",
    set_bits: Annotated[
        int | None,
        typer.Option(metavar="BITS", help="64 or 32, as FRONTIER_SEEN_SET_BITS."),
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Nodes of the crawl.")
    ] = 1,
    partitions: Partitions = 1024,
    plot: Plot = None,
) -> None:
    """Show how much memory a seen test takes, what it loses, and its settings."""
    from frontier.seen.capacity_plan import count_of, rate_of

    count, rate = count_of(urls), rate_of(error)
    configs = [
        _config(count, rate, choice, bits, partitions)
        for choice, bits in _choices(tiers, set_bits)
    ]
    rows = [row for config in configs for row in _forecasts(config, count)]
    if plot is not None:
        _draw(plot, configs[0], count)
    output.result(
        _plan_json(configs[0], rows, count, nodes),
        _plan_text(configs[0], rows, count, nodes),
    )


def _choices(tiers: str, set_bits: int | None) -> tuple[tuple[str, int], ...]:
    """What is compared, if these are asked for."""
    choices = ((tiers, 64),) if tiers else CHOICES
    if set_bits is None:
        return choices
    sets = [choice for choice, _ in choices if tiers or "set" in choice.split(",")]
    return tuple((choice, set_bits) for choice in dict.fromkeys(sets))


def _config(
    capacity: int, rate: float, tiers: str, set_bits: int, partitions: int
) -> Config:
    from frontier.settings.config import Config

    return Config.from_settings(
        {
            "FRONTIER_BLOOM_CAPACITY": capacity,
            "FRONTIER_BLOOM_ERROR_RATE": rate,
            "FRONTIER_SEEN_TIERS": tiers,
            "FRONTIER_SEEN_SET_BITS": set_bits,
            "FRONTIER_PARTITIONS": partitions,
        }
    )


def _forecasts(config: Config, count: int) -> Iterator[Forecast]:
    """All partitions alike, then all URLs in one."""
    from frontier.seen.capacity_plan import forecast
    from frontier.seen.config import seen_config

    shape, size = seen_config(config), config.seen_recent_size
    for partitions in dict.fromkeys((config.partitions, 1)):
        yield forecast(
            config.seen_tiers, shape.generation, shape.space, count, partitions, size
        )


def _draw(path: Path, config: Config, count: int) -> None:
    from frontier.cli.plots import draw_bloom_errors
    from frontier.seen.capacity_plan import curve
    from frontier.seen.config import seen_config

    rate, most = config.bloom_error_rate, count * 10
    curves = {}
    for capacity, asked in (
        (count, rate),
        (max(1, count // 10), rate),
        (count, min(rate * 10, 0.5)),
    ):
        other = _config(capacity, asked, "bloom", 64, config.partitions)
        points = curve(seen_config(other).generation, config.partitions, most)
        curves[f"CAPACITY {capacity:,}\nERROR_RATE {asked:g}"] = points
    draw_bloom_errors(path, curves, count, rate)


def _settings(config: Config) -> dict[str, Any]:
    return {
        "FRONTIER_SEEN_TIERS": ",".join(config.seen_tiers),
        "FRONTIER_SEEN_SET_BITS": config.seen_set_bits,
        "FRONTIER_BLOOM_CAPACITY": config.bloom_capacity,
        "FRONTIER_BLOOM_ERROR_RATE": config.bloom_error_rate,
        "FRONTIER_PARTITIONS": config.partitions,
    }


def _plan_json(
    config: Config, rows: list[Forecast], count: int, nodes: int
) -> dict[str, Any]:
    return {
        "urls": count,
        "error_rate": config.bloom_error_rate,
        "nodes": nodes,
        "plans": [
            {
                **asdict(row),
                "store_bytes": row.store_bytes,
                "recent_bytes_of_all_nodes": row.recent_bytes * nodes,
            }
            for row in rows
        ],
        "settings": _settings(config),
    }


def _plan_text(
    config: Config, rows: list[Forecast], count: int, nodes: int
) -> Iterator[RenderableType]:
    from frontier.seen.capacity_plan import BUCKET_BYTES, RECENT_BYTES

    rate = config.bloom_error_rate
    yield Text(f"{count:,} URLs, a Bloom error below {rate:g}")
    yield Text()
    yield _plan_table(rows)
    yield Text()
    spread = f"alike in all {config.partitions} partitions"
    yield Text(f"URLs:   {spread}, or in one, as a single site's are")
    yield Text("Bloom:  the bits of all filters of the partitions; beside a set of 64")
    yield Text("        bits they are made when it is given up, and store is without")
    yield Text(f"set:    8 bytes a URL, /32: 4; {BUCKET_BYTES} a bucket")
    if recent := max(row.recent_bytes for row in rows):
        each = f"{decimal(recent)} on each node, {decimal(recent * nodes)} on {nodes}"
        yield Text(f"recent: {RECENT_BYTES} bytes an entry, about: {each}")
    yield Text("lost:   new URLs called seen; where there is a set, it alone decides")
    yield Text()
    yield Text("# settings.py")
    for name, value in _settings(config).items():
        yield Text(f"{name} = {value!r}")


def _plan_table(rows: list[Forecast]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tiers", no_wrap=True)
    table.add_column("URLs", no_wrap=True)
    for name in ("Bloom", "set", "store", "filters", "hashes", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        used = sorted({each.hashes for each in row.generations})
        hashes = f"{used[0]}-{used[-1]}" if len(used) > 1 else "".join(map(str, used))
        table.add_row(
            ",".join(row.tiers) + ("/32" if row.set_bits == 32 else ""),
            "in one" if row.one_partition else "alike",
            decimal(row.bloom_bytes) if used else "-",
            decimal(row.set_bytes) if row.set_bytes else "-",
            decimal(row.store_bytes),
            str(len(row.generations)) if used else "-",
            hashes or "-",
            f"{row.lost:.2g}",
        )
    return table
