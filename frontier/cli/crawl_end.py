"""``frontier crawl end`` and ``delete``: how a crawl ends, and what is deleted.

`end` deletes nothing unless it is told to; `delete` removes all that the store has of a
crawl that has ended.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from frontier.cli.command import (
    COLLECTION,
    Consent,
    OneCrawl,
    confirm,
    flag,
    option,
    options,
)
from frontier.cli.output import Shown, facts, say
from frontier.errors import (
    CollectionInUse,
    ConfigurationError,
    UnknownCrawl,
)
from frontier.status.text import counted
from frontier.store.keys import CrawlKeys, collection_keys

if TYPE_CHECKING:
    from frontier.node.remove_crawl import Deleted
    from frontier.seen.seen_set import StoredCrawl
    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore


@options
class DeleteOptions(Consent, OneCrawl):
    """Which crawl is deleted, and where its payloads are."""

    collection: str = option(
        "",
        "NAME",
        "The crawl's collection, if none of its nodes is running.",
        envvar="FRONTIER_COLLECTION",
        type=COLLECTION,
    )


@options
class EndOptions(DeleteOptions):
    """Which crawl is ended, and what is deleted with it."""

    discard: bool = flag(
        "End it even while nodes run, and offer none of its payloads to other crawls."
    )
    remove_frontier: bool = flag(
        "Also delete its queues and its seen URLs, even if it has ended already."
    )


def end(given: EndOptions) -> Shown:
    """End a crawl that no node runs. What is left in its queues is not fetched.

    The next node of its spider starts a new crawl. With --discard nodes may run: they
    finish what is in flight, and exit with 0. Deletes nothing without
    --remove-frontier. WARC files stay.

    Examples:
        frontier crawl end --crawl news-7 --yes
        frontier crawl end --crawl news-7 --discard --yes
    """
    from frontier.cluster.endings import cancel, close
    from frontier.collection.rounds import Collection
    from frontier.collection.summary import uncommitted_in
    from frontier.node.remove_crawl import remove_frontier as remove
    from frontier.status.snapshot import snapshot

    if given.discard and given.remove_frontier:
        raise ConfigurationError(
            "with --discard the last node still needs the queues: use "
            "--remove-frontier once the crawl has ended"
        )
    keys, live, waiting = CrawlKeys(given.namespace, given.crawl), 0, list[str]()
    with given.connected() as store:
        _require_wanted(store, given, snapshot(store, given.namespace, given.crawl))
        if given.discard:
            was_open, live = cancel(store, keys)
            state = "discarded" if was_open else "was discarded before"
            if not live:  # nobody else does what the last node would have done
                for name in {given.collection, *uncommitted_in(store, keys)}:
                    Collection(store, name, given.crawl, revisits=False).cancel()
        else:
            state = "ended" if close(store, keys) else "had ended before"
            waiting = uncommitted_in(store, keys)
        if given.remove_frontier:
            remove(store, keys)
    said = {
        "store": store.where,
        "crawl_id": given.crawl,
        "state": state,
        "nodes": live,
        "removed": given.remove_frontier,
        "uncommitted": waiting or None,
    }
    return Shown(said, notes=_left(given.crawl, waiting, live))


def _require_wanted(
    store: BlockingStore, given: EndOptions, seen: CrawlSnapshot
) -> None:
    """Return if nothing would be lost, or if the user wants that."""
    left = seen.queue.ready + seen.queue.reserved + seen.queue.waiting
    is_open = seen.state == "open" and (left > 0 or given.discard)
    if not (is_open or given.remove_frontier):
        return
    plan: dict[str, Any] = {
        "store": store.where,
        "crawl_id": seen.crawl_id,
        "state": seen.state,
        "not_fetched": left if seen.state == "open" else 0,
        "payloads_discarded": given.discard,
        "seen_urls_forgotten": seen.queue.seen if given.remove_frontier else 0,
    }
    refusal = "nothing is done yet; add --yes to end it"
    confirm(given, plan, f"End {seen.crawl_id}?", refusal)


def _left(crawl_id: str, waiting: list[str], live: int) -> list[str]:
    """What is still to happen."""
    from frontier.collection.summary import undone

    notes = undone(crawl_id, waiting, canceled=False)
    if live:
        notes.append(
            f"its {counted(live, 'node')} will stop; frontier crawl status --nodes "
            "shows when. "
            "If they were killed, run this command again once they are lost; "
            "otherwise its payloads stay until the next crawl of the collection"
        )
    return notes


def delete(given: DeleteOptions) -> Shown:
    """Delete all that the store has of a crawl that has ended.

    Its queues, what it has seen, its counts, its report. WARC files stay, and so do its
    payloads in the collection. It says what stays, and how to remove that. If it was
    interrupted, run it again. It also deletes what a store that has lost the crawl's
    `meta` still has of it.

    Examples:
        frontier crawl delete --crawl news-7 --yes
    """
    from frontier.cluster.endings import begin_removal
    from frontier.node.remove_crawl import delete_crawl, delete_rest
    from frontier.seen.seen_set import stored_crawl
    from frontier.store.keys import names_in

    crawl_id = given.crawl
    with given.connected() as store:
        try:
            crawl = stored_crawl(store, given.namespace, crawl_id)
        except UnknownCrawl:
            keys = CrawlKeys(given.namespace, crawl_id)
            count = len({*names_in(store.scan, keys)})
            if count:
                _require_committed(store, keys, given.collection)
                plan = {"store": store.where, "crawl_id": crawl_id, "keys": count}
                refusal = "its meta is gone, the rest is there; add --yes to delete it"
                confirm(given, plan, f"Delete {crawl_id}?", refusal)
            if not delete_rest(store, keys) and not count:
                raise
            gone = f"{crawl_id} is deleted: {count:,} keys, and no meta, were left"
            return Shown({"crawl_id": crawl_id, "keys": count}, [gone])
        begin_removal(store, crawl.keys, "")
        _require_committed(store, crawl.keys, given.collection)
        if not given.yes:
            refusal = "nothing was deleted; add --yes to delete it"
            confirm(given, _plan(store, crawl), f"Delete {crawl_id}?", refusal)
        try:
            done = delete_crawl(store, crawl.keys, crawl.spider)
        except BaseException:
            say(
                f"{crawl_id} is only partly deleted; run the same command again to "
                "finish"
            )
            raise
    said = {"store": store.where, "crawl_id": crawl_id, **asdict(done)}
    return Shown(said, _said(crawl, done))


def _plan(store: BlockingStore, crawl: StoredCrawl) -> dict[str, Any]:
    """What would be deleted."""
    from frontier.status.snapshot import snapshot

    seen = snapshot(store, crawl.keys.namespace, crawl.keys.crawl_id)
    return {
        "store": store.where,
        "crawl_id": crawl.keys.crawl_id,
        "state": crawl.state,
        "seen_urls": seen.queue.seen,
        "queued": seen.queue.ready + seen.queue.waiting + seen.queue.reserved,
        "pages_reported": seen.totals.pages,
        "given_up": seen.queue.dead,
    }


def _require_committed(store: BlockingStore, keys: CrawlKeys, collection: str) -> None:
    """Raise if payloads of the crawl are uncommitted: nobody could commit them then."""
    from frontier.collection.rounds import is_uncommitted
    from frontier.collection.summary import uncommitted_in

    within, crawl_id = collection_keys(store, collection), keys.crawl_id
    if is_uncommitted(store, within, crawl_id) or uncommitted_in(store, keys):
        raise CollectionInUse(
            f"the payloads of {crawl_id} are not committed, and cannot be once the "
            "crawl is deleted; first run frontier collection commit, or cancel"
        )


def _said(crawl: StoredCrawl, done: Deleted) -> list[Any]:
    """What was deleted, what stays where, and how to remove that."""
    crawl_id = crawl.keys.crawl_id
    rows = [
        ("stays", f"WARC files and crawl logs: rm {crawl_id}-* in FRONTIER_WARC_DIR"),
        ("", "its payloads in the collection, for revisits of later crawls:"),
        ("", "  frontier collection purge, with a manifest that does not list it"),
        ("", f"journals: rm {crawl_id}-*.journal* in FRONTIER_JOURNAL_DIR; until then"),
        ("", "  frontier crawl rebuild could make it again; a new crawl so called"),
        ("", "  leaves them alone"),
    ]
    return [f"{crawl_id} is deleted: {done.keys:,} keys", facts(rows)]
