"""The digest index of a collection, and the end of a crawl in it: commit or cancel.

The index is laid out as Browsertrix does. What always holds:

1.  A crawl sees its own digests and those of committed crawls, no others.
2.  The first capture of a digest stays its original: entries are never
    replaced.
3.  A commit may be interrupted anywhere and repeated, by any process: it is made of
    rounds (`frontier.collection.rounds`), and a whole crawl is its first one.
4.  A cancel forgets what no round has committed, and nothing else.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING

from frontier.collection.rounds import Committed, Committer, OpenRound, Round
from frontier.dedupe.digest_index import Entry, decode
from frontier.errors import CrawlCanceled, NotUncommitted
from frontier.store.client import Call
from frontier.store.keys import collection_keys, round_id, round_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.model import Original
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys


class Collection:
    """The index as one crawl sees it; see `frontier.dedupe.digest_index.Index`."""

    def __init__(
        self,
        store: BlockingStore,
        name: str,
        crawl_id: str,
        *,
        revisits: bool,
        every_s: float = 0,
    ) -> None:
        self._store = store
        self._keys = collection_keys(store, name)
        self._crawl_id = crawl_id
        self._revisits = revisits
        self._every_s = every_s
        self._open = OpenRound(store, self._keys, crawl_id)
        # Counts are added in another thread: each knows of rounds by itself.
        self._counted = OpenRound(store, self._keys, crawl_id)
        self._committer = Committer(store, self._keys, crawl_id)

    def begin(self) -> None:
        """Register the crawl as uncommitted, or the round that it adds to."""
        self._open.enter(rounds=self._every_s > 0)

    def uncommitted(self) -> list[str]:
        """The ids of the other crawls that are not committed."""
        ids = self._store.call(Call.command("SMEMBERS", self._keys.uncommitted()))
        found = {round_of(one.decode("utf-8", "replace"))[0] for one in ids}
        return sorted(found - {self._crawl_id})

    @property
    def round_id(self) -> str:
        """What this crawl's captures are said to be of, until they are committed."""
        number = self._open.number
        return self._crawl_id if number is None else round_id(self._crawl_id, number)

    def lookup(self, digests: Sequence[str]) -> dict[str, Original]:
        """Return the originals of those of *digests* that are known.

        A committed crawl's capture is preferred; an entry of ``alldupes`` that
        leads nowhere falls back to the crawl's own.
        """
        if not digests or not self._revisits:
            return {}
        owners, own = self._owners(digests)
        found: dict[str, Original] = {}
        for digest, value in zip(digests, own, strict=True):
            self._note(found, digest, value, self._crawl_id)
        others = [
            (digest, owner.decode("utf-8", "replace"))
            for digest, owner in zip(digests, owners, strict=True)
            if owner is not None
        ]
        values = self._store.run(
            [Call.command("HGET", self._keys.crawl(c), d) for d, c in others]
        )
        for (digest, crawl_id), value in zip(others, values, strict=True):
            self._note(found, digest, value, crawl_id)
        return found

    def _owners(
        self, digests: Sequence[str]
    ) -> tuple[list[bytes | None], list[bytes | None]]:
        """The committed crawls that have *digests*, and this crawl's own values."""
        hmget = Call.command("HMGET", self._keys.alldupes(), *digests)
        while True:
            owners, *replies = self._store.run([hmget, *self._open.calls(digests)])
            own = self._open.values(replies)
            if own is not None:  # else a round was opened meanwhile
                return owners, own

    def add(self, entries: Sequence[Entry]) -> None:
        """Add *entries*, whose records are on disk, as the crawl's own."""
        self._open.add(entries)

    def count(self, captures: int, revisits: int, conserved_bytes: int) -> None:
        """Add to the crawl's counts. To repeat it would count twice."""
        self._counted.add(
            captures=captures, revisits=revisits, conserved_bytes=conserved_bytes
        )

    def commit_round(self) -> Round | str:
        """Commit what the crawl has so far, if it is time to; see `Committer.commit`.

        Raises:
            StoreUnavailable: Repeat it.
        """
        return self._committer.commit(self._every_s)

    def commit(self) -> Committed | None:
        """Offer the crawl's digests to all crawls; return what that did.

        ``None`` if it was canceled: nothing is left of it in the index then.
        """
        try:
            return commit(self._store, self._keys, self._crawl_id)
        except CrawlCanceled:
            self.cancel()
            return None

    def cancel(self) -> None:
        """Forget the crawl's digests, unless others may refer to them already."""
        with contextlib.suppress(NotUncommitted):
            cancel(self._store, self._keys, self._crawl_id, running=False)

    def _note(
        self, found: dict[str, Original], digest: str, value: bytes | None, crawl: str
    ) -> None:
        if value is None:
            return
        decoded = decode(value.decode("utf-8", "replace"))
        if decoded is not None:
            found[digest] = decoded.original(crawl)


class Canceled(StrEnum):
    """What became of an uncommitted crawl."""

    FORGOTTEN = "forgotten"
    WHEN_IT_ENDS = "when it ends"


def commit(
    store: BlockingStore,
    keys: CollectionKeys,
    crawl_id: str,
    progress: Callable[[int], None] = lambda _: None,
    *,
    goes_on: bool = False,
) -> Committed:
    """Offer the digests of *crawl_id* to all crawls; a repetition goes on.

    If the crawl *goes_on*, those that it has now. *progress* is called with how many
    digests this call has looked at.

    Raises:
        CollectionInUse: Another one commits, or purges.
        CrawlCanceled: It was canceled.
        StoreUnavailable: Repeat it.
    """
    return Committer(store, keys, crawl_id, progress).finish(goes_on=goes_on)


def has_rounds(store: BlockingStore, keys: CollectionKeys, crawl_id: str) -> bool:
    """Whether *crawl_id* has a round that is not committed."""
    rounds = Call.command("HEXISTS", keys.commit_rounds(crawl_id), "open")
    return bool(store.call(rounds))


def cancel(
    store: BlockingStore, keys: CollectionKeys, crawl_id: str, *, running: bool
) -> Canceled:
    """Forget what *crawl_id* has put into the index and no round has committed.

    While it is *running* it keeps what it has, for itself; its last node then
    forgets it where it would commit it.

    Raises:
        NotUncommitted: It is committed, or unknown.
    """
    done = Committer(store, keys, crawl_id).cancel(running=running)
    if not done:
        raise NotUncommitted(crawl_id)
    return Canceled.FORGOTTEN if done == 1 else Canceled.WHEN_IT_ENDS
