"""Which Scrapy project the nodes of ``frontier crawl run`` are started in.

It is our own, which has the spider ``site`` and comes with this package, or the one
that ``scrapy crawl`` would find: by ``scrapy.cfg``, ``SCRAPY_PROJECT`` and
``SCRAPY_SETTINGS_MODULE``.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings

from frontier.errors import ConfigurationError, FrontierError
from frontier.model import frozen
from frontier.status.validate import printable

MARK = "scrapy.cfg"
LINE = 'ADDONS = {"frontier.addon.Addon": 100}'


SHOWN = 200
"""Characters of a setting in a message."""
FEEDS = "FEEDS"
"""Scrapy's setting of the files that items are written to."""


@frozen
class Project:
    """Where nodes are started, and what settings they find there."""

    directory: Path
    """The nodes' working directory, to which paths in their settings are relative."""
    is_ours: bool
    settings: Mapping[str, Any]
    """The user's own project's settings that say where crawls and archives are."""

    @classmethod
    def bundled(cls) -> Project:
        """The project with the spider ``site``, which this package is a part of.

        Raises:
            ConfigurationError: The package was installed without it.
        """
        package = Path(__file__).resolve().parents[1]
        for directory in (package / "project", package.parent):  # a wheel, a checkout
            if (directory / MARK).is_file() and (directory / "spiders").is_dir():
                return cls(directory, is_ours=True, settings={})
        raise ConfigurationError(
            f"the built-in spider is missing: {package / 'project'} has no {MARK}; "
            "install frontier-crawl again"
        )

    @classmethod
    def of(cls, spider: str, given: Mapping[str, str]) -> Project:
        """The project of the current directory, which has *spider*.

        *given* are settings that override the project's and the spider's own.

        Raises:
            ConfigurationError: There is no project, no such spider, the project does
                not use the frontier, or its settings cannot work.
        """
        settings = crawler_of(spider, given).settings
        chosen = {
            name: settings[name]
            for name in settings
            if (name.startswith(("FRONTIER_", "REDIS_")) or name == FEEDS)
            and settings[name] is not None
        }
        return cls(Path.cwd(), is_ours=False, settings=chosen)


def crawler_of(spider: str, given: Mapping[str, str]) -> Crawler:
    """A crawler of *spider*, with the settings of a node, as our add-on makes them.

    Nothing runs in it. *given* are settings that override the project's and the
    spider's own.

    Raises:
        ConfigurationError: As for `Project.of`.
    """
    from scrapy.utils.conf import build_component_list
    from scrapy.utils.project import inside_project

    from frontier.addon import Addon
    from frontier.session.session import one_message

    if not inside_project():
        raise ConfigurationError(
            f"there is no Scrapy project here to look for the spider {spider} in: no "
            f"{MARK} in this directory or above it"
        )
    try:
        crawler = _bare_crawler(spider, given)
        addons = build_component_list(crawler.settings["ADDONS"])
        chosen = [addon for addon in map(load_object, addons) if addon is Addon]
    except FrontierError:
        raise
    except Exception as error:
        # The project's own code may raise anything.
        raise ConfigurationError(
            f"the Scrapy project cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not chosen:
        raise ConfigurationError(
            "the project does not use the frontier: its ADDONS are "
            f"{_addons_of(crawler)}, and it needs {LINE}"
        )
    log = logging.getLogger(one_message.__module__)
    log.disabled = True  # whoever called this says what is wrong
    try:
        Addon.from_crawler(crawler).update_settings(crawler.settings)
    finally:
        log.disabled = False
    return crawler


def _addons_of(crawler: Crawler) -> str:
    """``ADDONS``, and the last line of the project's settings that sets it."""
    settings = crawler.settings
    value = printable(f"{dict(settings['ADDONS'])}")[:SHOWN]
    if settings.getpriority("ADDONS") != SETTINGS_PRIORITIES["project"]:
        return value
    module = sys.modules.get(os.environ.get("SCRAPY_SETTINGS_MODULE", ""))
    path = getattr(module, "__file__", None)
    try:
        lines = Path(path or "").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return value
    found = [n for n, line in enumerate(lines, 1) if re.match(r"ADDONS\b", line)]
    if not found:
        return value
    before = f", which overrides line {found[-2]}" if found[1:] else ""
    return f"{value} (line {found[-1]} of {path}{before})"


def _bare_crawler(spider: str, given: Mapping[str, str]) -> Crawler:
    from scrapy.addons import AddonManager
    from scrapy.spiderloader import get_spider_loader

    settings = get_project_settings()
    settings.setdict(dict(given), priority="cmdline")
    AddonManager.load_pre_crawler_settings(settings)
    loader = get_spider_loader(settings)
    if spider not in loader.list():
        known = ", ".join(sorted(loader.list())) or "none"
        raise ConfigurationError(f"the project has no spider {spider}; it has {known}")
    return Crawler(loader.load(spider), settings)
