"""Figures as pictures, for the documentation: the same bytes for the same figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the plots that stand side by side."""

    up: str
    """The label of the vertical axis."""
    curves: Mapping[str, Sequence[tuple[float, float]]]
    """Points by name."""
    logarithmic: bool = False
    across_log: bool = False
    """Whether the horizontal axis is logarithmic."""


def lines(path: Path, across: str, *panels: Panel) -> None:
    """Write an SVG with *panels* to *path*; *across* labels their horizontal axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    names = {"svg.hashsalt": "frontier", "svg.fonttype": "none"}
    import_module("matplotlib").rcParams.update(names)
    made = import_module("matplotlib.figure")
    width = 7.5 if len(panels) == 1 else 5 * len(panels)
    figure: Any = made.Figure(figsize=(width, 4), layout="constrained")
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), number)
        for name, points in panel.curves.items():
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
        if panel.logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter("{x:,g}")
        if panel.across_log:
            axes.set_xscale("log")
            tick = import_module("matplotlib.ticker").EngFormatter(sep="")
            axes.xaxis.set_major_formatter(tick)
        axes.set(xlabel=across, ylabel=panel.up)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, format="svg", metadata={"Date": None})
