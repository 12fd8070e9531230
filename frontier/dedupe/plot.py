"""Bytes that revisits saved, by media type and by host, as a picture."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BARS = 12


def draw(path: Path, panels: Mapping[str, Mapping[str, tuple[int, int]]]) -> None:
    """Write a PNG with a panel for each of *panels*: name to (saved, all) bytes.

    Raises:
        ConfigurationError: matplotlib is not installed, or *path* cannot be written.
    """
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(11, 5), dpi=110)
        tick = import_module("matplotlib.ticker").EngFormatter(unit="B")
    except ImportError:
        raise ConfigurationError(
            "--plot needs matplotlib; install it with: "
            "pip install 'frontier-crawl[plot]'"
        ) from None
    for place, (title, shares) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), place)
        most = sorted(shares.items(), key=lambda each: each[1], reverse=True)[:BARS]
        names = [name if len(name) <= 32 else f"{name[:31]}..." for name, _ in most]
        places = list(range(len(most)))
        axes.barh(places, [all_ for _, (_, all_) in most], color="0.85", label="all")
        axes.barh(places, [saved for _, (saved, _) in most], label="saved by revisits")
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set(title=title, xlabel="payload bytes")
        axes.xaxis.set_major_formatter(tick)
        axes.legend(loc="lower right")
    figure.tight_layout()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None
