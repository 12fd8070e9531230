"""Makes pages of a crawl due now, by what their URLs begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.errors import ConfigurationError
from frontier.queue.purge import Swept, hasten
from frontier.status.validate import printable
from frontier.urls.partition import QueueAddresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore


def hastened(
    store: BlockingStore,
    crawl: StoredCrawl,
    given: str,
    progress: Callable[[int], None],
) -> tuple[Swept, list[tuple[int, str]]]:
    """Make due the URL *given*, or if there is none, all URLs that begin with it.

    With ``*`` at its end, it always means all URLs that begin with the rest. *progress*
    is told how many partitions are done. Returns what `hasten` does.

    Raises:
        ConfigurationError: It is not the beginning of a URL.
    """
    partitions = _partitions_of(crawl, given)
    prefix = given.removesuffix("*")
    meanings = [lambda url: url.startswith(prefix)]
    if prefix == given:
        meanings.insert(0, lambda url: url == given)
    for is_meant in meanings:
        done, hints = hasten(store, crawl.keys, is_meant, partitions, progress)
        if done.taken:
            break
    return done, hints


def _partitions_of(crawl: StoredCrawl, given: str) -> list[int]:
    """The partitions of URLs that begin with *given*: one if it has a whole host.

    Raises:
        ConfigurationError: It is not the beginning of a URL.
    """
    config = crawl.config
    if not given.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{printable(given[:200])!r} must begin with http:// or https://"
        )
    try:
        is_whole = bool(urlsplit(given).hostname) and given.count("/") > 2
    except ValueError as error:
        raise ConfigurationError(f"{printable(given[:200])!r}: {error}") from None
    is_spread = config.host_shards > 1 or config.queue_key not in {"host", "domain"}
    if not is_whole or is_spread:
        return list(range(config.partitions))
    return [QueueAddresses(config).of(given, bytes(20)).partition]
