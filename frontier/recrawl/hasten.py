"""Makes pages of a crawl due now, by what their URLs begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError
from frontier.queue.purge import Swept, hasten
from frontier.status.validate import printable

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
    if not given.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{printable(given[:200])!r} must begin with http:// or https://"
        )
    prefix = given.removesuffix("*")
    meanings = [lambda url: url.startswith(prefix)]
    if prefix == given:
        meanings.insert(0, lambda url: url == given)
    partitions = range(crawl.config.partitions)
    for is_meant in meanings:
        done, hints = hasten(store, crawl.keys, is_meant, partitions, progress)
        if done.taken:
            break
    return done, hints
