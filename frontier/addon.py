"""The add-on: one line in a project's settings makes its spiders distributed.

``ADDONS = {"frontier.addon.Addon": 100}``. It sets components at the priority
"addon", so that whatever the project sets itself wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from frontier.connection import connection_of, one_message
from frontier.robots import RobotsTxtMiddleware, ScrapysRobotsTxtMiddleware

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


class Addon:
    """Enables the frontier's components."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the add-on of *crawler*."""
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Enable the components.

        Raises:
            ConfigurationError: A ``FRONTIER_*`` setting is unknown or wrong.
            NotConfigured: ``FRONTIER_ENABLED`` is false.
        """
        with one_message():
            connection = connection_of(self._crawler)
        if not connection.config.enabled:
            raise NotConfigured("FRONTIER_ENABLED is False")
        settings.set("SCHEDULER", "frontier.scheduler.Scheduler", "addon")
        settings.set("TWISTED_REACTOR", ASYNCIO, "addon")
        # RemoteControl, on by default, serves a port that executes code.
        settings.set("REMOTE_CONTROL_ENABLED", False, "addon")
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", "frontier.spidermiddlewares.StartMiddleware", 10
        )
        settings.setdefault_in_component_priority_dict(
            "SPIDER_MIDDLEWARES", "frontier.pipelines.ItemOriginMiddleware", 20
        )
        for cls, place in ((ScrapysRobotsTxtMiddleware, None), (RobotsTxtMiddleware, 100)):
            settings.setdefault_in_component_priority_dict(
                "DOWNLOADER_MIDDLEWARES", cls, place
            )
        settings.setdefault_in_component_priority_dict(
            "DOWNLOADER_MIDDLEWARES",
            "frontier.downloadermiddlewares.CaptureMiddleware",
            950,
        )
