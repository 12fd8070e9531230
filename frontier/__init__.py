"""A distributed crawl frontier for Scrapy: many nodes, one crawl, one archive.

What a project names in its settings is here: ``ADDONS = {"frontier.Addon": 100}``
and ``"frontier.addon.Addon"`` are the same class. Every other module may change from
version to version. Each name is imported when it is first used, so that the command
line starts without Scrapy. ``docs/architecture.md`` says what each package holds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frontier.addon import Addon
    from frontier.dupefilter import RedisDupeFilter
    from frontier.node.context import Part
    from frontier.pipelines import UniqueItemsPipeline, WarcPipeline

    __version__: str

__all__ = [
    "Addon",
    "Part",
    "RedisDupeFilter",
    "UniqueItemsPipeline",
    "WarcPipeline",
    "__version__",
]

_MODULES = {
    "Addon": "frontier.addon",
    "Part": "frontier.node.context",
    "RedisDupeFilter": "frontier.dupefilter",
    "UniqueItemsPipeline": "frontier.pipelines",
    "WarcPipeline": "frontier.pipelines",
}


def __getattr__(name: str) -> Any:
    """Import the public *name*, or read the version of the distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("frontier-crawl")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
