"""``frontier crawl close``, ``cancel`` and ``delete``: how a crawl ends, and what goes.

`close` and `cancel` end a crawl, and delete nothing unless they are told to; `delete`
removes all that the store has of one that has ended.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.options import CrawlId, CrawlsOptions, Output, Yes
from frontier.cli.output import ExitCode, complain, say, show
from frontier.cli.report import facts
from frontier.errors import (
    CollectionInUse,
    ConfigurationError,
    CrawlClosed,
    UnknownCrawl,
)
from frontier.store.keys import CrawlKeys, collection_keys

if TYPE_CHECKING:
    from frontier.node.remove_crawl import Deleted
    from frontier.seen.seen_set import StoredCrawl
    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore

RemoveFrontier = Annotated[
    bool,
    typer.Option(
        "--remove-frontier",
        help="Also delete its queues and what it has seen, even if it had ended.",
    ),
]
CollectionOfCrawl = Annotated[
    str,
    typer.Option(
        "--collection",
        envvar="FRONTIER_COLLECTION",
        metavar="NAME",
        help="The crawl's collection, if no node runs that knows it.",
    ),
]


def close(
    options: CrawlsOptions,
    crawl_id: CrawlId,
    yes: Yes = False,
    remove_frontier: RemoveFrontier = False,
) -> None:
    """End a crawl that no node runs. What is left in its queues is not fetched.

    Deletes nothing without --remove-frontier. The next node of its spider starts a
    new crawl.
    """
    from frontier.cluster.membership import crawl_ttl
    from frontier.node.remove_crawl import remove_frontier as remove
    from frontier.status.snapshot import snapshot
    from frontier.store.client import Call
    from frontier.store.scripts import CRAWL_CLOSE

    with options.connected() as store:
        seen = snapshot(store, options.namespace, crawl_id)
        if not yes:
            _require_consent(seen, remove_frontier=remove_frontier)
        keys = CrawlKeys(options.namespace, crawl_id)
        ttl = crawl_ttl(store, keys)
        names = [keys.meta(), keys.nodes()]
        done = store.call(Call.to(CRAWL_CLOSE, names, [int(ttl * 1000)]))
        if done == 0:
            complain(f"the crawl {crawl_id} is in use; stop its nodes first")
            raise typer.Exit(ExitCode.IN_USE)
        show([Text(f"{crawl_id} is closed" if done == 1 else f"{crawl_id} had ended")])
        for name in _uncommitted_in(store, options.namespace, crawl_id):
            say(
                "its payloads are not committed: the next crawl of the collection does "
                f"that, or {_commit_command(crawl_id, name)}"
            )
        if remove_frontier:
            remove(store, keys, ttl=ttl)
            show([Text("its queues and what it had seen are removed")])


def _uncommitted_in(store: BlockingStore, namespace: str, crawl_id: str) -> list[str]:
    from frontier.collection.summary import uncommitted_in

    return uncommitted_in(store, namespace, crawl_id)


def _commit_command(crawl_id: str, collection: str) -> str:
    from frontier.collection.summary import commit_command

    return commit_command(crawl_id, collection)


def _require_consent(seen: CrawlSnapshot, *, remove_frontier: bool) -> None:
    """Raise where a close would lose something."""
    left = seen.queue.ready + seen.queue.reserved + seen.queue.waiting
    if left and seen.state == "open":
        raise ConfigurationError(
            f"{left:,} requests of {seen.crawl_id} are not done and would not be "
            "fetched; add --yes to close it"
        )
    if remove_frontier:
        raise ConfigurationError(
            f"what {seen.crawl_id} has seen, {seen.queue.seen:,} URLs, would be "
            "forgotten, and its queues; add --yes to do so"
        )


def cancel(
    options: CrawlsOptions,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: CollectionOfCrawl = "",
) -> None:
    """End a crawl on all its nodes, and do not offer its payloads to other crawls.

    Nodes finish what is in flight, and exit with 0. No node can join it again. WARC
    files stay.
    """
    from frontier.cluster.crawls import cancel_call
    from frontier.cluster.membership import crawl_ttl
    from frontier.status.snapshot import snapshot

    with options.connected() as store:
        seen = snapshot(store, options.namespace, crawl_id)
        if seen.state == "open" and not yes:
            left = seen.queue.ready + seen.queue.reserved + seen.queue.waiting
            raise ConfigurationError(
                f"{left:,} requests of {crawl_id} are not done and would not be "
                "fetched, and its payloads would not be offered to other crawls; add "
                "--yes to cancel it"
            )
        keys = CrawlKeys(options.namespace, crawl_id)
        done, live = store.call(cancel_call(keys, ttl=crawl_ttl(store, keys)))
        if not done:
            raise CrawlClosed(crawl_id)
        if not live:
            _forget_payloads(store, collection, crawl_id)
    show([Text(f"{crawl_id} is canceled" if done == 1 else f"{crawl_id} was canceled")])
    if live:
        say(
            f"its {live:,} nodes will stop; frontier node list --watch shows it. If "
            "they were killed, repeat this when they are dead: else its payloads stay "
            "until the next crawl of the collection"
        )


def _forget_payloads(store: BlockingStore, collection: str, crawl_id: str) -> None:
    """What the last node of a canceled crawl does; there is none."""
    from frontier.collection.commit import Collection

    Collection(store, collection, crawl_id, revisits=False).cancel()


def delete(
    options: CrawlsOptions,
    output: Output,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: CollectionOfCrawl = "",
) -> None:
    """Delete all that the store has of a crawl that has ended.

    Its queues, what it has seen, its counts, its report. WARC files stay, and so do its
    payloads in the collection. It says what stays, and how to remove that. One that was
    cut off is gone on with by the same command.
    """
    from frontier.cluster.membership import crawl_ttl
    from frontier.node.remove_crawl import (
        delete_crawl,
        forget_call,
        require_removable,
    )
    from frontier.seen.seen_set import stored_crawl

    with options.connected() as store:
        try:
            crawl = stored_crawl(store, options.namespace, crawl_id)
        except UnknownCrawl:
            if not store.call(forget_call(options.namespace, crawl_id)):
                raise
            show([Text(f"{crawl_id} is deleted; only its name was left")])
            return
        ttl = crawl_ttl(store, crawl.keys)
        require_removable(store, crawl.keys, ttl=ttl)
        _require_committed(store, options.namespace, collection, crawl_id)
        _require_deletion(store, crawl, yes=yes)
        try:
            done = delete_crawl(store, crawl.keys, crawl.spider, ttl=ttl)
        except BaseException:
            say(f"{crawl_id} is deleted in part; run the same command again to go on")
            raise
    output.result({"crawl_id": crawl_id, **asdict(done)}, _said(crawl, done))


def _require_committed(
    store: BlockingStore, namespace: str, collection: str, crawl_id: str
) -> None:
    """Raise where nobody would commit the crawl's payloads any more."""
    from frontier.collection.commit import has_rounds
    from frontier.store.client import Call

    keys = collection_keys(store, collection)
    waits = Call.command("SISMEMBER", keys.uncommitted(), crawl_id)
    others = _uncommitted_in(store, namespace, crawl_id)
    if store.call(waits) or has_rounds(store, keys, crawl_id) or others:
        raise CollectionInUse(
            f"the payloads of {crawl_id} are not committed yet, and nobody would do it "
            "once the crawl is deleted; do frontier collection commit, or cancel, first"
        )


def _require_deletion(store: BlockingStore, crawl: StoredCrawl, *, yes: bool) -> None:
    """Say what would go, and raise unless that is wanted."""
    from frontier.status.snapshot import snapshot

    if yes:
        return
    crawl_id = crawl.keys.crawl_id
    seen = snapshot(store, crawl.keys.namespace, crawl_id)
    left = seen.queue.ready + seen.queue.waiting + seen.queue.reserved
    rows = [
        ("crawl", f"{crawl_id}, {crawl.state}"),
        ("deleted", f"{seen.queue.seen:,} URLs that it has seen, {left:,} queued"),
        (
            "",
            f"the report of {seen.totals.pages:,} pages, {seen.queue.dead:,} given up",
        ),
    ]
    show([facts(rows)])
    question = f"Delete {crawl_id}?"
    if sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm(question, err=True):
        return
    raise ConfigurationError("nothing was deleted; add --yes to delete it")


def _said(crawl: StoredCrawl, done: Deleted) -> list[Any]:
    """What was deleted, and what stays where, and how to remove that."""
    crawl_id = crawl.keys.crawl_id
    rows = [
        ("stays", f"WARC files and crawl logs: rm {crawl_id}-* in FRONTIER_WARC_DIR"),
        ("", "its payloads in the collection, for revisits of later crawls:"),
        ("", "  frontier collection purge, with a manifest that does not list it"),
        ("", f"journals: rm {crawl_id}-*.journal* in FRONTIER_JOURNAL_DIR; until then"),
        ("", "  frontier crawl rebuild could make it again; a new crawl so called"),
        ("", "  leaves them alone"),
    ]
    return [Text(f"{crawl_id} is deleted: {done.keys:,} keys"), facts(rows)]
