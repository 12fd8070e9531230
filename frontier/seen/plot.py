"""The error of a Bloom tier over the URLs of a crawl, as a picture."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

STYLES = ("-", "--", "-.")


def draw(
    path: Path,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    urls: int,
    rate: float,
) -> None:
    """Write a PNG with *curves*, the planned number of *urls* and the *rate* asked.

    Raises:
        ConfigurationError: matplotlib is not installed, or *path* cannot be written.
    """
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(9, 5.5), dpi=110)
        tick = import_module("matplotlib.ticker").EngFormatter(sep="")
    except ImportError:
        raise ConfigurationError(
            "--plot needs matplotlib; install it with: "
            "pip install 'frontier-crawl[plot]'"
        ) from None
    axes = figure.add_subplot()
    for style, (label, points) in zip(STYLES, curves.items(), strict=False):
        axes.plot(*zip(*points, strict=True), style, label=label, linewidth=1.8)
    axes.axhline(rate, color="0.4", lw=0.8)
    axes.text(0.01, rate, "asked", transform=axes.get_yaxis_transform(), va="bottom")
    axes.axvline(urls, color="0.4", lw=0.8)
    axes.text(urls, rate * 25, " planned", va="top")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="URLs in the crawl, alike in all partitions",
        ylabel="share of new URLs that the Bloom tier calls seen",
    )
    # Below a thousandth of what was asked nobody minds.
    axes.set_ylim(rate / 1000, rate * 30)
    axes.xaxis.set_major_formatter(tick)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", title="FRONTIER_BLOOM_...")
    figure.tight_layout()
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None
