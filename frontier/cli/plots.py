"""Pictures that ``--plot`` writes, with matplotlib, where it is installed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from frontier.feeds.round_state import PastRound

BARS = 12
MOST_SITES = 40
"""Sites of which a picture of rounds shows any."""
LAST_S = 4e9
"""A time that a picture can still show, in seconds since the Unix epoch."""
STYLES = ("-", "--", "-.")


def draw_saved_bytes(
    path: Path,
    panels: Mapping[str, Mapping[str, tuple[int, int]]],
    label: str = "saved by revisits",
) -> None:
    """Write a PNG with a panel for each of *panels*: name to (saved, all) bytes.

    *label* says what the former are.

    Raises:
        ConfigurationError: matplotlib is not installed, or *path* cannot be written.
    """
    rows = -(-len(panels) // 2)
    figure, tick = _figure((11, 5 * rows), unit="B")
    for place, (title, shares) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, min(len(panels), 2), place)
        most = sorted(shares.items(), key=lambda each: each[1], reverse=True)[:BARS]
        names = [name if len(name) <= 32 else f"{name[:31]}..." for name, _ in most]
        places = list(range(len(most)))
        axes.barh(places, [all_ for _, (_, all_) in most], color="0.85", label="all")
        axes.barh(places, [saved for _, (saved, _) in most], label=label)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_title(title, loc="left")
        axes.set_xlabel("payload bytes")
        axes.xaxis.set_major_formatter(tick)
        axes.locator_params(axis="x", nbins=6)  # more do not fit beside each other
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    _save(figure, path)


def draw_recrawls(
    path: Path, curves: Mapping[str, Sequence[tuple[float, float, float]]]
) -> None:
    """Write a PNG of schedules: of each, days, pages a day, and the share fresh then.

    Raises:
        ConfigurationError: matplotlib is not installed, or *path* cannot be written.
    """
    figure, tick = _figure((9, 7), sep="")
    panels = (figure.add_subplot(2, 1, 1), figure.add_subplot(2, 1, 2))
    for style, (label, points) in zip(STYLES, curves.items(), strict=False):
        days, pages, fresh = zip(*points, strict=True)
        panels[0].plot(days, pages, style, label=label, linewidth=1.8)
        panels[1].plot(days, fresh, style, label=label, linewidth=1.8)
    panels[0].set_ylabel("pages a day")
    panels[0].set_ylim(bottom=0)
    panels[0].yaxis.set_major_formatter(tick)
    panels[1].set(xlabel="days", ylabel="share of pages that are fresh", ylim=(0, 1))
    for axes in panels:
        axes.grid(alpha=0.3)
    panels[0].legend(loc="upper right", frameon=False)
    _save(figure, path)


def draw_rounds(path: Path, sites: Mapping[str, Sequence[PastRound]]) -> None:
    """Write a PNG with the rounds of each of *sites*: when, how long, and what new.

    Raises:
        ConfigurationError: matplotlib is not installed, or *path* cannot be written.
    """
    shown = [name for name, past in sites.items() if past][:MOST_SITES]
    figure, _ = _figure((11, 1.8 + 0.6 * max(len(shown), 1)))
    axes = figure.add_subplot()
    for place, name in enumerate(shown):
        past = sites[name]
        starts = [_date(one.emitted_ms) for one in past]
        took = [timedelta(milliseconds=one.took_ms) for one in past]
        colors = ["tab:red" if one.lost else "0.75" for one in past]
        axes.barh([place] * len(past), took, left=starts, height=0.6, color=colors)
        sizes = [min(10.0 + 6 * one.items, 400.0) if one.items else 0.0 for one in past]
        axes.scatter(starts, [place] * len(past), s=sizes, color="tab:blue", zorder=3)
    axes.set_yticks(range(len(shown)), [name[:40] for name in shown])
    axes.invert_yaxis()
    axes.margins(x=0.03)
    axes.set_title(
        "rounds: grey, red if URLs were lost; blue by the number of new items",
        loc="left",
    )
    left_out = len(sites) - len(shown)
    axes.set_xlabel(f"UTC; {left_out} more sites" if left_out else "UTC")
    figure.autofmt_xdate()
    _save(figure, path)


def _date(at_ms: int) -> datetime:
    return datetime.fromtimestamp(min(at_ms / 1000, LAST_S), UTC)


def _figure(size: tuple[float, float], **units: str) -> tuple[Any, Any]:
    """An empty figure of *size* inches, and a format of numbers in *units*."""
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=size, dpi=110)
        tick = import_module("matplotlib.ticker").EngFormatter(**units)
    except ImportError:
        raise ConfigurationError(
            "--plot needs matplotlib; install it with: "
            "pip install 'frontier-crawl[plot]'"
        ) from None
    return figure, tick


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None
