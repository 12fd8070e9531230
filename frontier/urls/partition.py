"""Where a request is queued: its queue key, and the partition that owns it.

What always holds:

1.  Requests with the same fingerprint and origin have the same place, on every node
    and in every command, so that the seen test of one partition decides.
2.  A place is a function of the URL and of settings stored with the crawl.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import mmh3

from frontier.errors import ConfigurationError
from frontier.settings.values import QUEUE_KEYS
from frontier.urls.scope import domain_of
from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.settings.config import Config

logger = logging.getLogger(__name__)

DOWNLOAD_SLOT = "download_slot"
"""The key of a request's ``meta`` where Scrapy keeps its downloader slot."""
MAX_HOST = 255
"""Longest host name of DNS, in characters; longer ones are cut."""
MAX_PLACES = 10_000
"""Origins whose places are kept in memory."""


@lru_cache(maxsize=10_000)
def partition_of(queue_key: str, partitions: int) -> int:
    """The partition that owns *queue_key*."""
    return int(mmh3.hash(queue_key, seed=0x5EED, signed=False)) % partitions


class QueueAddress(NamedTuple):
    """Where a request is queued."""

    queue_key: str
    partition: int


class QueueAddresses:
    """Computes queue addresses by the settings of a crawl.

    Raises:
        ConfigurationError: The queue key is a callable that cannot be imported.
    """

    def __init__(self, config: Config) -> None:
        kind, rules = config.queue_key, config.canon_rules
        self._partitions = config.partitions
        self._shards = config.host_shards
        self._deciding: Callable[[str], str] = origin_of
        """The part of a URL that decides on its place."""
        self._key: Callable[[str], str] = partial(queue_key, kind=kind)
        if kind not in QUEUE_KEYS:
            self._key, self._deciding = _key_by(kind), str
        elif rules != "scrapy":
            self._deciding = partial(_canonical_origin, rules=rules)
        self._places = lru_cache(MAX_PLACES)(self._places_of)

    def of(self, url: str, fingerprint: bytes, slot: object = None) -> QueueAddress:
        """The queue address of a request, whose ``meta`` may name a *slot*.

        Each slot of a host has its own delay and waits for no other slot. So each has
        its own queue, in the partition of the host, unless the host is divided into
        shards, or the slot is the host's own or an invalid queue name.
        """
        places = self._places(self._deciding(url))
        if self._shards > 1:
            return places[int.from_bytes(fingerprint[-4:]) % self._shards]
        if slot and _is_name(slot) and slot != host_of(url):
            return places[0]._replace(queue_key=f"{places[0].queue_key}~{slot}")
        return places[0]

    def host(self, url: str) -> str:
        """The host of *url* as back-off counts it; its queues are named after it."""
        return self._key(self._deciding(url))

    def _places_of(self, deciding: str) -> tuple[QueueAddress, ...]:
        key = self._key(deciding)
        if self._shards == 1:
            return (QueueAddress(key, partition_of(key, self._partitions)),)
        return tuple(shards_of(key, self._shards, self._partitions))


def _canonical_origin(url: str, rules: str) -> str:
    """The origin of *url* with the host that *rules* give it."""
    # Imported here: it takes a tenth of a command's start, and few need it.
    from frontier.urls.canon.rulesets import host_of_origin

    origin = origin_of(url)
    host = host_of_origin(origin, rules)
    return origin if host is None else f"{origin.partition('://')[0]}://{host}"


def _key_by(path: str) -> Callable[[str], str]:
    """The queue keys that the user's callable at *path* gives to URLs.

    For an invalid name, or an error, the host is used; the first is logged.

    Raises:
        ConfigurationError: There is no such callable.
    """
    from scrapy.utils.misc import load_object

    try:
        own = load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"FRONTIER_QUEUE_KEY = {path!r}: is neither one of "
            f"{', '.join(QUEUE_KEYS)} nor the path of a callable: {error}"
        ) from None
    if not callable(own):
        raise ConfigurationError(f"FRONTIER_QUEUE_KEY = {path!r}: cannot be called")
    failed: list[str] = []

    def key_of(url: str) -> str:
        reason = "is not text of 1 to 255 printable characters"
        try:
            key = own(url)
            if key and _is_name(key):
                return str(key)
        except Exception as error:  # noqa: BLE001 (the user's code may raise anything)
            reason = f"raised {error!r}"
        if not failed:
            failed.append(url)
            logger.error(
                "FRONTIER_QUEUE_KEY = %s: for %s its result %s; "
                "the host is used, here and wherever that happens again",
                path,
                url[:MAX_HOST],
                reason,
            )
        return queue_key(url, "host")

    return key_of


def _is_name(key: object) -> bool:
    """Whether *key* is a valid queue name."""
    return isinstance(key, str) and len(key) <= MAX_HOST and key.isprintable()


def shards_of(host: str, shards: int, partitions: int) -> Iterator[QueueAddress]:
    """The places of the shards of *host*, as far apart as possible.

    So no partition has two before each has one, and a node's share of the shards is
    its share of the partitions, up to chance.
    """
    first = partition_of(host, partitions)
    for number in range(shards):
        partition = (first + number * partitions // shards) % partitions
        yield QueueAddress(f"{host}#{number}", partition)


def host_of_shard(queue_key: str) -> str:
    """The host that *queue_key* is a shard of."""
    return queue_key.rpartition("#")[0]


def host_of_key(queue_key: str, shards: int) -> str:
    """The host of *queue_key*, without its shard, or the slot that it is for."""
    return host_of_shard(queue_key) if shards > 1 else queue_key.partition("~")[0]


def host_of(url: str) -> str:
    """The host of *url*, without its port; empty if it has none."""
    return split(origin_of(url)).host[:MAX_HOST]


def origin_of(url: str) -> str:
    """The part of *url* before its path: scheme, user, host and port."""
    # Scrapy's URLs have no bare "?" or "#" before the path, but may lack one.
    end = url.find("/", url.find("//") + 2)
    return url if end < 0 else url[:end]


@lru_cache(maxsize=10_000)
def _key_of_origin(origin: str, kind: str) -> str:
    host, port = host_of(origin), split(origin).port
    if kind == "domain":
        return domain_of(host)
    return host if port is None else f"{host}:{port}"


def queue_key(url: str, kind: str) -> str:
    """What *url* is queued under: its ``host`` and port, or ``domain``.

    A default port is left out, so that both spellings share one queue.
    """
    return _key_of_origin(origin_of(url), kind)
