"""Commit a crawl's payload digests to its collection, or forget them.

What always holds:

1.  A commit may be cut off anywhere and repeated, by anybody: digests are added
    where there are none, counts are added by the one call that makes the crawl a
    committed one. The end is the same.
2.  A cursor of a commit is used again only on the run of the server that gave it
    out, as another run hashes with another seed, and only if the crawl has as many
    digests as then: a cursor would skip some. On a cluster, where the slot may be
    moved to another server at any time, it is gone through until nothing is added.
3.  A crawl is canceled only while nobody else can have seen its digests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import uuid4

from frontier.errors import CommitBegun, CrawlCanceled, NotUncommitted
from frontier.store.client import Call
from frontier.store.scripts import (
    COLLECTION_CANCEL,
    COLLECTION_COMMIT,
    COLLECTION_SETTLE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

CHUNK = 1_000
"""Digests that one call of the script offers; it takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did."""

    digests: int
    """That this call looked at; all that the crawl has, unless it was resumed."""
    added: int
    """Of those, which no committed crawl had."""
    first: bool
    """Whether it was this call that made the crawl a committed one."""


class Canceled(StrEnum):
    """What became of an uncommitted crawl."""

    FORGOTTEN = "forgotten"
    WHEN_IT_ENDS = "when it ends"


def commit(
    store: BlockingStore,
    keys: CollectionKeys,
    crawl_id: str,
    progress: Callable[[int], None] = lambda _: None,
) -> Committed:
    """Offer the digests of *crawl_id* to all crawls; a repetition goes on.

    *progress* is told how many digests this call has looked at.

    Raises:
        CrawlCanceled: It was canceled.
        StoreUnavailable: Repeat it.
    """
    held = store.call(Call.command("HLEN", keys.crawl(crawl_id)))
    server = f"{_run_of(store) if store.alone else uuid4().hex} {held}"
    state = keys.committing(crawl_id)
    found, run = store.call(Call.command("HMGET", state, "cursor", "server"))
    begun = found is not None and run == server.encode()
    cursor: bytes | None = found if begun else b"0"
    digests = added = before = 0
    while cursor is not None:
        reply = store.call(
            Call.to(
                COLLECTION_COMMIT,
                [keys.alldupes(), keys.crawl(crawl_id), keys.canceled(), state],
                [crawl_id, cursor, CHUNK, server],
            )
        )
        if not reply:
            raise CrawlCanceled(crawl_id)
        cursor, digests, added = reply[0], digests + reply[1], added + reply[2]
        progress(digests)
        if cursor == b"0":
            again = not store.alone and added > before
            cursor, before = cursor if again else None, added
            digests = 0 if again else digests
    settled = store.call(
        Call.to(
            COLLECTION_SETTLE,
            [
                keys.committed(),
                keys.uncommitted(),
                keys.canceled(),
                keys.counts(crawl_id),
                keys.allcounts(),
                keys.waczs(crawl_id),
                keys.done(),
                state,
            ],
            [crawl_id],
        )
    )
    if settled == 0:
        raise CrawlCanceled(crawl_id)
    return Committed(digests, added, settled == 1)


def cancel(
    store: BlockingStore, keys: CollectionKeys, crawl_id: str, *, running: bool
) -> Canceled:
    """Forget what the uncommitted *crawl_id* has put into the index.

    While it is *running* it keeps what it has, for itself; its last node then
    forgets it where it would commit it.

    Raises:
        NotUncommitted: It is committed, or unknown.
        CommitBegun: Others may refer to its payloads already.
    """
    done = store.call(
        Call.to(
            COLLECTION_CANCEL,
            [
                keys.uncommitted(),
                keys.canceled(),
                keys.committing(crawl_id),
                keys.crawl(crawl_id),
                keys.counts(crawl_id),
                keys.waczs(crawl_id),
            ],
            [crawl_id, int(running)],
        )
    )
    if done == 0:
        raise NotUncommitted(crawl_id)
    if done == -1:
        raise CommitBegun(crawl_id)
    return Canceled.FORGOTTEN if done == 1 else Canceled.WHEN_IT_ENDS


def _run_of(store: BlockingStore) -> str:
    """A name for this run of the server; another one is another hash seed."""
    reply = store.call(Call.command("INFO", "server"))
    if isinstance(reply, bytes):
        lines = reply.decode("utf-8", "replace").splitlines()
        reply = dict(line.split(":", 1) for line in lines if ":" in line)
    return str(reply.get("run_id", ""))
