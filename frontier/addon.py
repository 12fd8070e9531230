"""The add-on: one line in a project's settings makes its spiders distributed.

``ADDONS = {"frontier.addon.Addon": 100}``. It sets components at the priority
"addon", so that the project's own settings win, except those that cannot work with the
frontier (`frontier.session.other_schedulers`). Commands with which a developer looks
at pages run without the frontier.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Self

# First: importing this makes Scrapy look at the source of everything on the stack and
# at every module (`create_deprecated_class`); later on, that would take 0.1 s.
import scrapy.core.downloader.handlers.http11  # noqa: F401
from scrapy.downloadermiddlewares.cookies import (
    CookiesMiddleware as ScrapysCookiesMiddleware,
)
from scrapy.downloadermiddlewares.redirect import (
    MetaRefreshMiddleware as ScrapysMetaRefreshMiddleware,
)
from scrapy.downloadermiddlewares.robotstxt import (
    RobotsTxtMiddleware as ScrapysRobotsTxtMiddleware,
)
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from frontier.session.launch import (
    developing,
    heed_environment,
    spare_imports,
    tell_unread,
)

spare_imports()  # what Python, Scrapy and the project have imported so far

from frontier.download.back_off import BackOffMiddleware
from frontier.download.conditional import ConditionalMiddleware
from frontier.download.cookies import CookiesMiddleware
from frontier.download.robots import RobotsTxtMiddleware
from frontier.downloadermiddlewares import (
    CaptureMiddleware,
    HopMiddleware,
    ImportedFilterMiddleware,
    MetaRefreshMiddleware,
)
from frontier.errors import ConfigurationError
from frontier.pipelines import ItemOriginMiddleware, own_feed
from frontier.requests.discovery import DiscoveryMiddleware
from frontier.scrapy_internals import (
    heed_log_format,
    share_files_stores,
)
from frontier.session.other_schedulers import is_scrapy_redis, stand_back, take_over
from frontier.session.session import one_message, session_of
from frontier.settings.config import Config
from frontier.spidermiddlewares import SkipLinksMiddleware, StartMiddleware

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


MIDDLEWARES = (
    ("SPIDER_MIDDLEWARES", StartMiddleware, 10),
    ("SPIDER_MIDDLEWARES", ItemOriginMiddleware, 20),
    ("SPIDER_MIDDLEWARES", SkipLinksMiddleware, 30),
    ("SPIDER_MIDDLEWARES", DiscoveryMiddleware, 40),
    ("DOWNLOADER_MIDDLEWARES", HopMiddleware, 60),
    ("DOWNLOADER_MIDDLEWARES", ImportedFilterMiddleware, 61),
    ("DOWNLOADER_MIDDLEWARES", BackOffMiddleware, 555),
    ("DOWNLOADER_MIDDLEWARES", ConditionalMiddleware, 949),
    ("DOWNLOADER_MIDDLEWARES", CaptureMiddleware, 950),
)
"""The middlewares that a crawl needs, and their places."""


class Addon:
    """Enables the frontier: put ``"frontier.addon.Addon": 100`` into ``ADDONS``.

    It sets the scheduler, the middlewares and the download handler on this page. A
    wrong setting stops the start with a message of one line.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the add-on of *crawler*."""
        return cls(crawler)

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Log in the format that settings ask for; use the environment's server.

        This comes before there is a spider: scrapy-redis's connect when they are made.
        """
        heed_log_format()
        heed_environment(settings, os.environ)

    def update_settings(self, settings: BaseSettings) -> None:
        """Enable the components.

        Raises:
            ConfigurationError: A ``FRONTIER_*`` setting is unknown or wrong, or one of
                Scrapy's cannot work with the frontier, or names what cannot be loaded.
            NotConfigured: ``FRONTIER_ENABLED`` is false, or no crawl is to begin.
        """
        command = developing()
        if command:
            stand_back(settings)
            self._leave_start_urls()
            logger.info(
                "scrapy %s does not crawl: it runs without the frontier", command
            )
            raise NotConfigured  # with a reason, Scrapy would warn
        with one_message():
            if not Config.from_settings(settings).enabled:
                raise NotConfigured("FRONTIER_ENABLED is False")
            tell_unread(settings, os.environ)
            took_over = is_scrapy_redis(settings)
            take_over(settings, self._crawler.spidercls)
            session = session_of(self._crawler)
            session.took_over = took_over
            for setting, cls, place in MIDDLEWARES:
                _require_loadable(settings, setting)
                settings.setdefault_in_component_priority_dict(setting, cls, place)
                chosen = settings.getdict(setting).items()
                if None in [its for name, its in chosen if load_object(name) is cls]:
                    raise ConfigurationError(
                        f"{setting} turns {cls.__name__} off, and a crawl needs it: "
                        "delete that, or set FRONTIER_ENABLED = False to crawl "
                        "without the frontier"
                    )
        # RemoteControl, on by default, serves a port that executes code.
        settings.set("REMOTE_CONTROL_ENABLED", False, "addon")
        if settings.get("FEED_URI_PARAMS") is None:
            params = "frontier.pipelines.feed_uri_params"
            settings.set("FEED_URI_PARAMS", params, "addon")
        if session.config.own_feeds:
            _name_own_feeds(settings, session.config.node_id)
        share_files_stores()
        _take_downloads(settings, session.config)
        _replace_scrapys(settings, session.config)

    def _leave_start_urls(self) -> None:
        """Keep a spider of scrapy-redis from taking start URLs or waiting for any."""
        if self._crawler.spider is not None:
            from frontier.seeds.redis_feed import release

            release(self._crawler, self._crawler.spider)


def _name_own_feeds(settings: BaseSettings, node_id: str) -> None:
    """Put *node_id* into the names of feeds that other nodes have as well."""
    feeds = {str(uri): options for uri, options in settings.getdict("FEEDS").items()}
    own = {own_feed(uri, node_id): options for uri, options in feeds.items()}
    if shared := feeds.keys() - own.keys():
        logger.warning(
            "the feed %s of this node has its id in its name, as all nodes write one: "
            "name it with %%(frontier_node)s, and frontier crawl items joins them",
            ", ".join(sorted(shared)),
        )
        settings.set("FEEDS", own, settings.getpriority("FEEDS") or "addon")


def _require_loadable(settings: BaseSettings, name: str) -> None:
    """Raise if a class in the setting *name* cannot be imported."""
    for path in settings.getdict(name):
        try:
            load_object(path)
        except Exception as error:  # the project's own code may raise anything
            raise ConfigurationError(
                f"{name}: {path} cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def _take_downloads(settings: BaseSettings, config: Config) -> None:
    """Send what is fetched with HTTP through our handler."""
    handlers = settings["DOWNLOAD_HANDLERS"]
    if isinstance(handlers, BaseSettings):
        handler = "Handler" if config.warc_enabled else "CheckedHandler"
        for scheme in ("http", "https"):
            handlers.set(scheme, f"frontier.download.handler.{handler}", "addon")


def _replace_scrapys(settings: BaseSettings, config: Config) -> None:
    """Put our downloader middlewares in the places of Scrapy's own."""
    replaced: list[tuple[type, type, int]] = [
        (ScrapysRobotsTxtMiddleware, RobotsTxtMiddleware, 100),
        (ScrapysMetaRefreshMiddleware, MetaRefreshMiddleware, 580),
    ]
    if config.cookies_shared:
        replaced.append((ScrapysCookiesMiddleware, CookiesMiddleware, 700))
    chosen = [load_object(cls) for cls in settings["DOWNLOADER_MIDDLEWARES"]]
    for scrapys, ours, place in replaced:
        if scrapys in chosen:  # the project has moved it, or left it out
            continue
        name = "DOWNLOADER_MIDDLEWARES"
        settings.set_in_component_priority_dict(name, scrapys, None)
        settings.setdefault_in_component_priority_dict(name, ours, place)
