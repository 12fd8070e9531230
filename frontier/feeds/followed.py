"""What a crawl of feeds has done and will do, as ``frontier feeds`` shows it.

Reading it changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from frontier.cluster.controls import calls, read as read_controls
from frontier.feeds.round_state import (
    FailedPage,
    FeedRecord,
    feed_field,
    read_config,
    read_feed,
    read_pages,
)
from frontier.queue.due import with_scores
from frontier.status.schedules import SiteView, site_views
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from frontier.seen.seen_set import StoredCrawl


class FollowedFeed(NamedTuple):
    """A feed, as the crawl knows it."""

    record: FeedRecord
    implied: list[str]
    excluded: str
    """The operator's rule that excludes it; empty if none does."""


class FollowedSite(NamedTuple):
    """A site, as the crawl knows it."""

    name: str
    view: SiteView
    feeds: list[FollowedFeed]
    failed: dict[bytes, FailedPage]
    """Pages of items that could not be fetched, and are asked for again."""


def followed(
    store: BlockingStore, crawl: StoredCrawl, names: Collection[str]
) -> Iterator[FollowedSite]:
    """The sites that *crawl* follows; only those of *names*, if any.

    Raises:
        StoreError: The store does not answer, or a key is damaged.
    """
    keys = crawl.keys
    due = Call.command("ZRANGE", keys.sites, 0, -1, "WITHSCORES")
    members, *wanted = store.run([due, *calls(keys)])
    exclusions = read_controls(keys, wanted).exclusions
    scores = sorted(with_scores(members))
    chosen = [one for one in scores if not names or one[0] in names]
    views = site_views(store, keys, crawl.config.partitions, chosen)
    for view, (name, _) in zip(views, chosen, strict=True):
        said = store.command("HGETALL", keys.site(name))
        feeds = [
            FollowedFeed(
                read_feed(url, said.get(f"feed:{feed_field(url)}".encode())),
                implied,
                str(exclusions.why(url) or ""),
            )
            for url, implied in read_config(said.get(b"config")).items()
        ]
        pages = read_pages(store.command("HGETALL", keys.failed(name)))
        yield FollowedSite(name, view, feeds, pages)
