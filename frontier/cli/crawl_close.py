"""``frontier crawl close`` and ``cancel``: end a crawl before it has ended itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.options import CrawlId, Place, Yes, with_namespace
from frontier.cli.output import ExitCode, complain, say, show
from frontier.cli.progress import bar
from frontier.errors import ConfigurationError, CrawlClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore, Call


@with_namespace
def close(
    place: Place,
    crawl_id: CrawlId,
    yes: Yes = False,
    remove_frontier: Annotated[
        bool,
        typer.Option(
            "--remove-frontier",
            help="Also remove its queues and what it has seen; also if it had ended.",
        ),
    ] = False,
) -> None:
    """End a crawl that no node runs; what is left in its queues is not fetched.

    Nothing is deleted without --remove-frontier. The next node of its spider opens
    the next crawl.
    """
    from frontier.settings.config import Config
    from frontier.status.snapshot import snapshot
    from frontier.store.client import Call
    from frontier.store.keys import CrawlKeys
    from frontier.store.scripts import CRAWL_CLOSE

    with place.connected() as store:
        seen = snapshot(store, place.namespace, crawl_id)
        left = seen.queue.ready + seen.queue.reserved
        if left and seen.state == "open" and not yes:
            raise ConfigurationError(
                f"{left:,} requests of {crawl_id} are not done and would not be "
                "fetched; add --yes to close it all the same"
            )
        if remove_frontier and not yes:
            raise ConfigurationError(
                f"what {crawl_id} has seen, {seen.queue.seen:,} URLs, would be "
                "forgotten, and its queues; add --yes to do so"
            )
        keys = CrawlKeys(place.namespace, crawl_id)
        ttl_ms = int(Config().lease_ttl * 1000)
        done = store.call(Call.to(CRAWL_CLOSE, [keys.meta(), keys.nodes()], [ttl_ms]))
        if done == 0:
            complain(f"the crawl {crawl_id} is in use; stop its nodes first")
            raise typer.Exit(ExitCode.IN_USE)
        _retire(store, place.namespace, seen)
        show([Text(f"{crawl_id} is closed" if done == 1 else f"{crawl_id} had ended")])
        if remove_frontier:
            _remove(store, place.namespace, crawl_id)
            show([Text("its queues and what it had seen are removed")])


@with_namespace
def cancel(
    place: Place,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: Annotated[
        str,
        typer.Option(
            envvar="FRONTIER_COLLECTION",
            metavar="NAME",
            help="Of the crawl, where no node runs that knows it.",
        ),
    ] = "",
) -> None:
    """End a crawl on all its nodes, and do not offer its payloads to other crawls.

    Nodes finish what they have in flight, and exit with 0. No node joins it again.
    WARC files stay.
    """
    from frontier.cluster.crawls import cancel_call
    from frontier.settings.config import Config
    from frontier.status.snapshot import snapshot
    from frontier.store.keys import CrawlKeys

    with place.connected() as store:
        seen = snapshot(store, place.namespace, crawl_id)
        if seen.state == "open" and not yes:
            left = seen.queue.ready + seen.queue.reserved
            raise ConfigurationError(
                f"{left:,} requests of {crawl_id} are not done and would not be "
                "fetched, and its payloads would not be offered to other crawls; say "
                "--yes to cancel it all the same"
            )
        keys = CrawlKeys(place.namespace, crawl_id)
        done, live = store.call(cancel_call(keys, ttl=Config().lease_ttl))
        if not done:
            raise CrawlClosed(crawl_id)
        _retire(store, place.namespace, seen)
        if not live:
            _forget_payloads(store, collection, crawl_id)
    show([Text(f"{crawl_id} is canceled" if done == 1 else f"{crawl_id} was canceled")])
    if live:
        say(f"its {live:,} nodes will go; frontier node list --watch shows it")


def _retire(store: BlockingStore, namespace: str, seen: CrawlSnapshot) -> None:
    from frontier.store.client import Call
    from frontier.store.keys import RegistryKeys
    from frontier.store.scripts import CRAWL_RETIRE

    spider = RegistryKeys(namespace).spider(seen.spider)
    store.call(Call.to(CRAWL_RETIRE, [spider], [seen.crawl_id]))


def _forget_payloads(store: BlockingStore, collection: str, crawl_id: str) -> None:
    """What the last node of a canceled crawl does; there is none."""
    from frontier.collection.digest_index import Collection

    Collection(store, collection, crawl_id, revisits=False).cancel()


def _remove(store: BlockingStore, namespace: str, crawl_id: str) -> None:
    from frontier.node.remove_frontier import remove_frontier
    from frontier.seen.seen_set import stored_crawl

    async def run(calls: Sequence[Call]) -> list[Any]:
        return store.run(calls)

    crawl = stored_crawl(store, namespace, crawl_id)
    with bar("partitions", crawl.config.partitions) as progress:
        asyncio.run(remove_frontier(run, crawl.keys, crawl.config, progress))
