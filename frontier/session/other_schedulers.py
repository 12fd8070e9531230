"""What a project has set for another scheduler, and what that means under ours.

A project that used scrapy-redis adds the add-on, and nothing else. What always holds:

1.  Either `SCHEDULER` is ours when this has run, or `ConfigurationError` is raised
    and no setting was changed: nothing is half installed.
2.  The classes of scrapy-redis, and our own duplicate filter, are replaced wherever
    they were set: in the project, by the spider, on the command line. Anybody else's
    are refused, with the name of the setting that has to go.
3.  Each setting of another scheduler that was set and is ignored is named in a line.
4.  A ``FRONTIER_*`` setting that the project has is never changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.settings import SETTINGS_PRIORITIES, default_settings
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed

from frontier.errors import ConfigurationError
from frontier.store.address import given

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "frontier.scheduler.Scheduler"
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
REDIS_SCHEDULER = "scrapy_redis.scheduler.Scheduler"
REDIS_FILTER = "scrapy_redis.dupefilter.RFPDupeFilter"
OUR_FILTER = "frontier.dupefilter.RedisDupeFilter"
NO_FILTER = "scrapy.dupefilters.BaseDupeFilter"
TAKEN_OVER = {
    "SCHEDULER": {REDIS_SCHEDULER, SCHEDULER},
    "DUPEFILTER_CLASS": {REDIS_FILTER, OUR_FILTER},
}
"""Setting to the classes that a project need not delete from it."""
ORDERS = {
    "PriorityQueue": "",
    "SpiderPriorityQueue": "",
    "FifoQueue": "bfs",
    "SpiderQueue": "bfs",
    "LifoQueue": "dfs",
    "SpiderStack": "dfs",
}
"""scrapy-redis's queue to the ``FRONTIER_ORDER`` that it stands for; empty if none."""
SERVER = "redis://localhost:6379"
"""The server that scrapy-redis uses if the project names none."""
TURNS = "hosts take turns, and FRONTIER_ORDER says which URL of one is first"
IGNORED = {
    "SCHEDULER_FLUSH_ON_START": "a crawl that is open goes on; `frontier crawl end "
    "--discard` ends it, and the next one starts from nothing",
    "SCHEDULER_IDLE_BEFORE_CLOSE": "a node stays until the whole crawl has ended",
    "SCHEDULER_QUEUE_KEY": "the keys of a crawl begin with FRONTIER_NAMESPACE",
    "SCHEDULER_DUPEFILTER_KEY": "the keys of a crawl begin with FRONTIER_NAMESPACE",
    "SCHEDULER_SERIALIZER": "requests are stored as plain data, and nothing is pickled",
    "SCHEDULER_DISK_QUEUE": TURNS,
    "SCHEDULER_MEMORY_QUEUE": TURNS,
    "SCHEDULER_PRIORITY_QUEUE": TURNS,
}
"""Settings of others that nothing here takes the place of, and why."""
PLACES = {
    SETTINGS_PRIORITIES["addon"]: "by another add-on",
    SETTINGS_PRIORITIES["project"]: "in the project's settings",
    SETTINGS_PRIORITIES["spider"]: "by the spider (custom_settings)",
    SETTINGS_PRIORITIES["cmdline"]: "on the command line",
}


def take_over(settings: BaseSettings, spider: type[Spider] | Spider) -> None:
    """Make `SCHEDULER` ours in *settings*, those of a crawl of *spider*.

    Raises:
        ConfigurationError: Something is set that cannot work with the frontier.
    """
    _check_reactor(settings)
    _check_classes(settings)
    order = _order(settings)
    for line in _ignored(settings):
        logger.warning("%s", line)
    is_fed = hasattr(spider, "setup_redis")  # by scrapy-redis, with start URLs
    if is_scrapy_redis(settings) and not given(settings):
        settings.set("REDIS_URL", SERVER, "addon")
        logger.info("the store is %s, as with scrapy-redis", SERVER)
    if is_fed and _is_unset(settings, "FRONTIER_KEEP_ALIVE"):
        settings.set("FRONTIER_KEEP_ALIVE", True, "addon")
        logger.info("the crawl waits for start URLs, as with scrapy-redis")
    if settings.get("JOBDIR"):
        logger.info(
            "JOBDIR keeps the state of this node's spider, and no requests: those are "
            "in the store, where an interrupted crawl goes on without it"
        )
    _replace(settings, "SCHEDULER", SCHEDULER)
    if order and _is_unset(settings, "FRONTIER_ORDER"):
        settings.set("FRONTIER_ORDER", order, "addon")
    if "SCHEDULER_PERSIST" in settings and _is_unset(
        settings, "FRONTIER_KEEP_FRONTIER"
    ):
        keeps = settings.getbool("SCHEDULER_PERSIST")
        settings.set("FRONTIER_KEEP_FRONTIER", keeps, "addon")
    settings.set("TWISTED_REACTOR", ASYNCIO, "addon")


def check_scheduler(settings: BaseSettings) -> None:
    """Look at what other add-ons have made of *settings* since `take_over`.

    Raises:
        ConfigurationError: The scheduler is not ours.
    """
    if path_of(settings["SCHEDULER"]) != SCHEDULER:
        raise _refused(settings, "SCHEDULER", "the frontier has its own")


def stand_back(settings: BaseSettings) -> None:
    """Leave *settings* with Scrapy's scheduler and filter, which need no store."""
    for name, classes in TAKEN_OVER.items():
        if path_of(settings[name]) in classes:
            _replace(settings, name, getattr(default_settings, name))


def is_scrapy_redis(settings: BaseSettings) -> bool:
    """Whether *settings* choose scrapy-redis's scheduler or its filter."""
    chosen = {path_of(settings[name]) for name in TAKEN_OVER}
    return bool(chosen & {REDIS_SCHEDULER, REDIS_FILTER})


def path_of(chosen: Any) -> str:
    """The import path of *chosen*, a class or its path."""
    if isinstance(chosen, type):
        return f"{chosen.__module__}.{chosen.__qualname__}"
    return str(chosen)


def _check_reactor(settings: BaseSettings) -> None:
    wanted = "the frontier runs in asyncio's reactor"
    if not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        raise _refused(settings, "TWISTED_REACTOR_ENABLED", wanted)
    if path_of(settings["TWISTED_REACTOR"]) != ASYNCIO:
        raise _refused(settings, "TWISTED_REACTOR", wanted)
    if is_reactor_installed() and not is_asyncio_reactor_installed():
        from twisted.internet import reactor

        raise ConfigurationError(
            f"the program installed {path_of(type(reactor))}: {wanted}. Have it "
            "import twisted.internet.reactor later, or call "
            f"scrapy.utils.reactor.install_reactor({ASYNCIO!r}) before"
        )


def _check_classes(settings: BaseSettings) -> None:
    for name, classes in TAKEN_OVER.items():
        chosen = path_of(settings[name])
        if chosen in classes or _is_unset(settings, name):
            continue
        if name == "SCHEDULER":
            raise _refused(settings, name, "the frontier has its own")
        if chosen == NO_FILTER:
            hint = "what is to be fetched again has dont_filter=True"
            raise _refused(settings, name, f"the frontier tests by itself; {hint}")
        if chosen != default_settings.DUPEFILTER_CLASS:
            hint = "REQUEST_FINGERPRINTER_CLASS says which requests are the same"
            raise _refused(settings, name, f"the frontier tests by itself; {hint}")


def _refused(settings: BaseSettings, name: str, why: str) -> ConfigurationError:
    place = PLACES.get(settings.getpriority(name) or 0)
    where = f", set {place}" if place else ""
    return ConfigurationError(
        f"{name} = {path_of(settings[name])!r}{where}: {why}. Delete the setting, or "
        "set FRONTIER_ENABLED = False to crawl without the frontier"
    )


def _order(settings: BaseSettings) -> str:
    """The order that ``SCHEDULER_QUEUE_CLASS`` stands for; empty for the usual one."""
    chosen = settings.get("SCHEDULER_QUEUE_CLASS")
    if not chosen:
        return ""
    module, _, name = path_of(chosen).rpartition(".")
    if module != "scrapy_redis.queue" or name not in ORDERS:
        why = "the frontier has its own queues; FRONTIER_ORDER says what is first"
        raise _refused(settings, "SCHEDULER_QUEUE_CLASS", why)
    return ORDERS[name]


def _ignored(settings: BaseSettings) -> list[str]:
    """One line for each setting that was set in vain."""
    lines = [
        f"{name} is ignored: {why}"
        for name, why in IGNORED.items()
        if not _is_unset(settings, name)
        and settings.get(name) not in (None, "", 0, "0", "False")
    ]
    if path_of(settings["STATS_CLASS"]).startswith("scrapy_redis."):
        lines.append(
            "STATS_CLASS is scrapy-redis's: the reactor waits for Redis at each count, "
            "and the report of each node has the figures of all"
        )
    return lines


def _replace(settings: BaseSettings, name: str, value: str) -> None:
    """Set *name*, wherever else it was set."""
    priority = settings.getpriority(name) or 0
    settings.set(name, value, max(priority, SETTINGS_PRIORITIES["addon"]))


def _is_unset(settings: BaseSettings, name: str) -> bool:
    """Whether nobody has set *name*, or only a command of Scrapy's."""
    return (settings.getpriority(name) or 0) <= SETTINGS_PRIORITIES["command"]
