"""Figures as pictures, for the documentation: the same bytes for the same figures."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def lines(
    path: Path,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    across: str,
    up: str,
    *,
    logarithmic: bool = False,
) -> None:
    """Write an SVG with *curves*, points by the name of each, to *path*.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    names = {"svg.hashsalt": "frontier", "svg.fonttype": "none"}
    import_module("matplotlib").rcParams.update(names)
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(7.5, 4))
    axes = figure.subplots()
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set(xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
