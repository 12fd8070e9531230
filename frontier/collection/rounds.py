"""Rounds: a crawl that runs for months is committed in parts, while it goes on.

Its nodes add to the *open* round, ``h:<crawl>~<number>``, which is uncommitted like a
crawl of that name. To commit it, the next round is opened, and the digests are moved
into ``h:<crawl>`` and ``alldupes``, some in each call. What always holds:

1.  A digest is in one of a crawl's rounds or in ``h:<crawl>``, never in both for other
    nodes than its own, and never in none: one script moves it, and makes it visible to
    all crawls in the same step.
2.  What is in ``h:<crawl>`` is committed for ever. What is in a round is seen by the
    crawl's own nodes only, and a cancel removes that and nothing else.
3.  One process at a time commits a round, or purges, in a collection: the *committer*.
    Each step checks that it still is. If it dies, the next one goes on with the round;
    nothing of it has to be known.
4.  The numbers of rounds grow by one. A round is committed when its last digest is
    moved and its counts are added, in one step; a round of nothing is not begun.

A crawl adds to ``h:<crawl>`` before its first round, as Browsertrix does; that round
takes over what is there. To commit a whole crawl at its end is its first round, too.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.dedupe.digest_index import encode
from frontier.errors import CollectionInUse, CrawlCanceled, KeyDamaged
from frontier.store.client import Call
from frontier.store.keys import round_id
from frontier.store.scripts import (
    COLLECTION_ADD,
    COLLECTION_ENTER,
    COLLECTION_HOLD,
    COMMIT_BEGIN,
    COMMIT_CANCEL,
    COMMIT_MOVE,
    COMMIT_SETTLE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from frontier.dedupe.digest_index import Entry
    from frontier.store.client import Argument, BlockingStore
    from frontier.store.keys import CollectionKeys

CHUNK = 1_000
"""Digests that one call moves; it takes about two milliseconds."""
HOLD_MS = 5_000
"""For how long a committer is waited for of which nothing is heard. One that wakes up
later is refused, and another has gone on with its round."""
WAIT_S = 60.0
"""Seconds for which the last commit of a crawl, or a purge, waits for another."""
PAUSE_S = 0.2
"""Seconds between its questions."""
BUSY = "a round of a crawl is being committed, or a purge is under way; repeat it"
TRIES = 10
"""Rounds that may be opened by others while one call is made."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round that was committed."""

    number: int
    digests: int
    """That this call has moved; all of the round, unless it was resumed."""
    added: int
    """Of those, which no committed crawl had."""


class OpenRound:
    """Where one crawl puts its digests: the round that is open, or the crawl itself."""

    def __init__(
        self, store: BlockingStore, keys: CollectionKeys, crawl_id: str
    ) -> None:
        self._store = store
        self._keys = keys
        self._crawl_id = crawl_id
        self.number: int | None = None
        """Of the round that was open when last heard of; ``None`` for the crawl."""

    def enter(self, *, rounds: bool) -> None:
        """Register the crawl; with *rounds* the time until its first one begins."""
        keys = self._keys
        names = [keys.commit_rounds(self._crawl_id), keys.uncommitted()]
        call = Call.to(COLLECTION_ENTER, names, [self._crawl_id, int(rounds)])
        self.note(self._store.call(call))

    def add(
        self,
        entries: Sequence[Entry] = (),
        *,
        captures: int = 0,
        revisits: int = 0,
        conserved_bytes: int = 0,
    ) -> None:
        """Add *entries*, whose records are on disk, and counts.

        A repetition changes nothing but the counts.
        """
        flat = [
            text
            for entry in entries
            for text in (entry.digest_hex, encode(entry.date, entry.url, entry.length))
        ]
        for _ in range(TRIES):
            known, part = self.number, self.parts()[-1]
            names = [self._keys.commit_rounds(self._crawl_id)]
            names += [self._keys.crawl(part), self._keys.counts(part)]
            names += [self._keys.committed(), self._keys.allcounts()]
            names += [self._keys.alldupes()]
            counts: list[Argument] = [captures, revisits, conserved_bytes]
            call = Call.to(COLLECTION_ADD, names, [part, known or "", *counts, *flat])
            self.note(self._store.call(call))
            if self.number == known:
                return
        raise self._damaged("its open round changes all the time")

    def parts(self) -> list[str]:
        """The ids under which the crawl has digests, the open one last.

        Digests move from the first to `frontier.store.keys.CollectionKeys.crawl`.
        """
        if self.number is None:
            return [self._crawl_id]
        return [
            round_id(self._crawl_id, number)
            for number in (self.number - 1, self.number)
            if number
        ]

    def calls(self, digests: Sequence[str]) -> list[Call]:
        """The calls whose replies `values` takes, in the order in which digests go."""
        ids = list(dict.fromkeys([*self.parts(), self._crawl_id]))
        calls = [Call.command("HMGET", self._keys.crawl(i), *digests) for i in ids]
        # Last: what was moved on meanwhile may have been missed in all of them.
        open_ = Call.command("HGET", self._keys.commit_rounds(self._crawl_id), "open")
        return [*calls, open_]

    def values(self, replies: Sequence[Any]) -> list[bytes | None] | None:
        """What the crawl has of the digests; ``None`` if it has to be asked again."""
        *found, open_ = replies
        known = self.number
        self.note(open_ or b"")
        if known != self.number:
            return None
        return [next(filter(None, each), None) for each in zip(*found, strict=True)]

    def note(self, reply: object) -> None:
        """Know of the open round what the store has said."""
        self.number = self._read(reply)

    def learn(self) -> None:
        """Ask which round is open."""
        key = self._keys.commit_rounds(self._crawl_id)
        self.note(self._store.call(Call.command("HGET", key, "open")) or b"")

    def _read(self, reply: object) -> int | None:
        if reply == b"":
            return None
        if isinstance(reply, bytes) and reply.isdigit() and 0 < len(reply) < 16:
            return int(reply)
        raise self._damaged("its open is not a number")

    def _damaged(self, reason: str) -> KeyDamaged:
        return KeyDamaged("", self._keys.commit_rounds(self._crawl_id), reason)


class Committer:
    """Commits the rounds of one crawl; every node has one, and one at a time works."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CollectionKeys,
        crawl_id: str,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._keys = keys
        self._crawl_id = crawl_id
        self._progress = progress
        self._token = secrets.token_hex(8)
        self._open = OpenRound(store, keys, crawl_id)

    def commit(self, every_s: float = 0, *, is_last: bool = False) -> Round | str:
        """Commit what is there, if the last round was *every_s* ago, or go on with it.

        Returns why nothing was done, otherwise: `early`, `nothing`, `held`, `whole` or
        `canceled`, as ``commit_begin.lua`` says; or `ended`, if the crawl adds no more.

        Raises:
            StoreUnavailable: Repeat it.
        """
        begun = self._begin(every_s, is_last=is_last)
        if isinstance(begun, str):
            return begun
        digests, added = 0, 0
        cursor, left = b"0", 1
        keys, part = self._keys, round_id(self._crawl_id, begun)
        names = [keys.committer(), keys.canceled(), keys.committed(), keys.alldupes()]
        names += [keys.crawl(self._crawl_id), keys.crawl(part)]
        while left:
            args: list[Argument] = [self._crawl_id, self._token, HOLD_MS]
            call = Call.to(COMMIT_MOVE, names, [*args, cursor, CHUNK])
            reply = self._store.call(call)
            if len(reply) == 1:
                return str(reply[0].decode())
            cursor, moved, new, left = reply
            digests, added = digests + moved, added + new
            self._progress(digests)
        names = [
            keys.commit_rounds(self._crawl_id),
            keys.committer(),
            keys.uncommitted(),
        ]
        names += [keys.committed(), keys.crawl(part), keys.counts(part)]
        names += [keys.counts(self._crawl_id), keys.allcounts()]
        args = [self._crawl_id, self._token, begun]
        if not self._store.call(Call.to(COMMIT_SETTLE, names, args)):
            return "held"
        return Round(begun, digests, added)

    def _begin(self, every_s: float, *, is_last: bool) -> int | str:
        keys, crawl_id = self._keys, self._crawl_id
        for _ in range(TRIES):
            part, first = self._open.parts()[-1], round_id(crawl_id, 1)
            names = [keys.commit_rounds(crawl_id), keys.committer(), keys.uncommitted()]
            names += [keys.canceled(), keys.crawl(part), keys.counts(part)]
            names += [keys.crawl(first), keys.counts(first), keys.committed()]
            names += [keys.waczs(crawl_id), keys.done()]
            args: list[Argument] = [crawl_id, self._open.number or "", self._token]
            args += [HOLD_MS, int(every_s * 1000), int(is_last)]
            why, *rest = self._store.call(Call.to(COMMIT_BEGIN, names, args))
            if why == b"move":
                return int(rest[0])
            if why != b"other":
                return str(why.decode())
            self._open.note(rest[0])
        return "held"

    def finish(self, *, goes_on: bool = False) -> Committed:
        """Commit all that is there, as the crawl has ended; a round if it *goes_on*.

        Raises:
            CrawlCanceled: It was canceled.
            CollectionInUse: Another one commits, or purges, for too long.
            StoreUnavailable: Repeat it.
        """
        digests = added = 0
        limit = time.monotonic() + WAIT_S
        while True:
            done = self.commit(is_last=not goes_on)
            if isinstance(done, Round):
                digests, added = digests + done.digests, added + done.added
                if goes_on:
                    return Committed(digests, added, first=True)
            elif done == "canceled":
                raise CrawlCanceled(self._crawl_id)
            elif done != "held":
                return Committed(digests, added, first=done == "ended")
            elif time.monotonic() > limit:
                raise CollectionInUse(
                    f"{self._crawl_id} is not committed: another round, or a purge, "
                    "is under way; commit it when that has ended"
                )
            else:
                time.sleep(PAUSE_S)

    def cancel(self, *, running: bool) -> int:
        """Forget what no round has committed, or have the last node do so.

        Returns 1, or 2 if it is still to be done; 0 if all of it is committed.
        """
        keys, crawl_id = self._keys, self._crawl_id
        for _ in range(TRIES):
            self._open.learn()
            number = self._open.number
            before = part = crawl_id
            if number is not None:
                before, part = (
                    round_id(crawl_id, number - 1),
                    round_id(crawl_id, number),
                )
            names = [keys.commit_rounds(crawl_id), keys.uncommitted(), keys.canceled()]
            names += [keys.crawl(part), keys.counts(part)]
            if number is None:  # its files are forgotten, too
                names += [keys.waczs(crawl_id), keys.counts(part)]
            else:
                names += [keys.crawl(before), keys.counts(before)]
            args: list[Argument] = [crawl_id, number or "", part, before, int(running)]
            if done := self._store.call(Call.to(COMMIT_CANCEL, names, args)):
                return int(done)
        return 0


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did."""

    digests: int
    """That this call looked at; all that the crawl has, unless it was resumed."""
    added: int
    """Of those, which no committed crawl had."""
    first: bool
    """Whether it was this call that made the crawl a committed one."""


class Hold:
    """The place of the one that commits or purges in a collection, until it is left."""

    def __init__(self, store: BlockingStore, keys: CollectionKeys) -> None:
        self._store = store
        self._key = keys.committer()
        self.token = secrets.token_hex(8)

    def take(self) -> None:
        """Take it, or stay there.

        Raises:
            CollectionInUse: Somebody else has it.
        """
        if not self._ask(HOLD_MS):
            raise CollectionInUse(BUSY)

    def __enter__(self) -> Self:
        """Take it when it is free.

        Raises:
            CollectionInUse: Somebody else has it for too long.
        """
        limit = time.monotonic() + WAIT_S
        while not self._ask(HOLD_MS):
            if time.monotonic() > limit:
                raise CollectionInUse(BUSY)
            time.sleep(PAUSE_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it; others need not wait for the time to be over."""
        self._ask(0)

    def _ask(self, ttl_ms: int) -> bool:
        call = Call.to(COLLECTION_HOLD, [self._key], [self.token, ttl_ms])
        return bool(self._store.call(call))
