"""Queues dead letters again, at an operator's command.

A crawl that has ended is opened again for it, and hosts that were left alone are asked
at once: whoever asks for a page wants it now.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.cluster.controls import RETRIED, Change, change, operator
from frontier.cluster.endings import reopen
from frontier.cluster.seed_lock import SeedLock
from frontier.errors import CrawlClosed
from frontier.queue.dead_letters import Letter, counted, letters, revive
from frontier.queue.hosts import forget
from frontier.queue.priority import split_name
from frontier.seeds.seeder import tell_holders
from frontier.seen.seen_set import StoredCrawl, stored_crawl
from frontier.urls.partition import host_of_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore


@dataclass(slots=True)
class Requeued:
    """What became of the dead letters of a crawl."""

    crawl_id: str
    requeued: int = 0
    left: int = 0
    open_crawl: str = ""
    """The crawl that its spider's nodes will join if this one had ended; or empty."""


def requeue(
    store: BlockingStore, namespace: str, crawl_id: str, wanted: set[str] | None
) -> Requeued:
    """Queue again the letters of the URLs *wanted*, or all.

    Those that are found are taken from *wanted*.
    """
    done = Requeued(crawl_id)
    while True:  # at most `MAX_LETTERS` are read at once
        crawl = stored_crawl(store, namespace, crawl_id)
        keys = crawl.keys
        counts = counted(store, keys, crawl.config.partitions)
        chosen = [
            one
            for one in letters(store, keys, counts)
            if one.url and (wanted is None or one.url in wanted)
        ]
        done.left = sum(counts.values()) - len(chosen)
        if wanted is not None:
            wanted -= {one.url for one in chosen}
        if not chosen:
            return done
        # Let it be resumed if it is finished.
        done.open_crawl = reopen(store, keys, crawl.spider) or done.open_crawl
        _have_asked(store, crawl, chosen)
        # As with seeds, the crawl must not end while they are on their way.
        lock = SeedLock(keys, f"requeue-{secrets.token_hex(8)}")
        lock.hold(store)
        count, became_ready = revive(store, keys, chosen)
        tell_holders(store, keys, became_ready)
        store.call(lock.done_call())
        done.requeued += count
        if not count or not done.left:
            return done


def _have_asked(
    store: BlockingStore, crawl: StoredCrawl, chosen: Sequence[Letter]
) -> None:
    """Have hosts of *chosen* that are left alone asked again, as `retry` does."""
    for host in {_host(crawl.config, one) for one in chosen}:
        if forget(store, crawl.keys, crawl.config, [host]):
            with contextlib.suppress(CrawlClosed):  # a node that comes reads it
                change(store, crawl.keys, Change(RETRIED, host), operator())


def _host(config: Config, letter: Letter) -> str:
    """The host by which *letter* would be held back if that is left alone."""
    return host_of_key(split_name(letter.queue)[1], config.host_shards)
