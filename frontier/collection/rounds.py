"""The digest index as one crawl sees it, and how the crawl is committed: in rounds.

A crawl's nodes add to the *open* round, ``h:<crawl>~<number>``, which is uncommitted
like a crawl of that name. To commit it, the next round is opened, and the digests are
moved into ``h:<crawl>`` and ``alldupes``, some in each call. What always holds:

1.  A crawl sees its own digests and those of committed crawls, no others. The first
    capture of a digest stays its original: entries are never replaced.
2.  A digest is in one of a crawl's rounds or in ``h:<crawl>``; other crawls' nodes
    never see it in both, and it is never in neither: one script moves it, and makes it
    visible to all crawls in the same step.
3.  What is in ``h:<crawl>`` is committed for good. What is in a round is seen only by
    the crawl's own nodes, and a cancel removes only that.
4.  Only one process at a time commits a round, or purges, in a collection: the
    *committer*. Each step checks that it still is. If it dies, the next one goes on
    with the round, and needs to know nothing about it.
5.  The numbers of rounds grow by one. A round is committed in the step in which its
    counts are added, after its last digest was moved; an empty round is not begun.

A crawl adds to ``h:<crawl>`` before its first round, as Browsertrix does; that round
takes over what is there. Committing a whole crawl at its end is a first round, too.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from frontier.dedupe.digest_index import Entry, decode, encode
from frontier.errors import CollectionInUse, CrawlCanceled, KeyDamaged, NotUncommitted
from frontier.store.client import Argument, BlockingStore, Call
from frontier.store.keys import CollectionKeys, collection_keys, round_id, round_of
from frontier.store.lock import hold_calls, is_held, release_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.model import Original

CHUNK = 1_000
"""Digests that one call moves; it takes about two milliseconds."""
HOLD_MS = 5_000
"""How long to wait for a committer that is silent. If it wakes up later, it is refused,
and another one has gone on with its round."""
WAIT_S = 60.0
"""Seconds for which the last commit of a crawl, or a purge, waits for another."""
PAUSE_S = 0.2
"""Seconds between its attempts."""
BUSY = "a round of a crawl is being committed, or a purge is under way; repeat it"
TRIES = 10
"""How often a call is repeated because another process has opened a round."""


class Committed(NamedTuple):
    """What a commit did."""

    digests: int
    """Digests that this call moved; all of them, unless another process had begun."""
    added: int
    """Digests among them that no committed crawl had."""
    number: int
    """The number of the last round that this call has committed; 0 for none."""
    first: bool = True
    """Whether this call made the crawl a committed one."""


class OpenRound:
    """Where one crawl puts its digests: in the open round, or in the crawl itself."""

    def __init__(
        self, store: BlockingStore, keys: CollectionKeys, crawl_id: str
    ) -> None:
        self._store = store
        self._keys = keys
        self._crawl_id = crawl_id
        self.number: int | None = None
        """The open round, when last heard of; ``None`` for the crawl itself."""

    def parts(self) -> list[str]:
        """The ids under which the crawl has uncommitted digests, the open one last.

        If there are two, digests are moved from the first to ``h:<crawl>``.
        """
        if self.number is None:
            return [self._crawl_id]
        numbers = (self.number - 1, self.number)
        return [round_id(self._crawl_id, number) for number in numbers if number]

    def add(
        self,
        entries: Sequence[Entry] = (),
        *,
        captures: int = 0,
        revisits: int = 0,
        conserved_bytes: int = 0,
    ) -> None:
        """Add *entries*, whose records are on disk, and counts.

        Repeating this changes only the counts.
        """
        flat = [
            text
            for entry in entries
            for text in (entry.digest_hex, encode(entry.date, entry.url, entry.length))
        ]
        keys = self._keys
        for _ in range(TRIES):
            known, part = self.number, self.parts()[-1]
            names = [keys.commit_rounds(self._crawl_id), keys.crawl(part)]
            names += [keys.counts(part), keys.committed, keys.allcounts]
            names += [keys.alldupes]
            counts: list[Argument] = [captures, revisits, conserved_bytes]
            call = Call.to("collection_add", names, [part, known or "", *counts, *flat])
            self.note(self._store.call(call))
            if self.number == known:
                return
        raise self._damaged("its open round keeps changing")

    def note(self, reply: object) -> None:
        """Note the number of the open round, by the store's *reply*."""
        if reply in {b"", None}:
            self.number = None
        elif isinstance(reply, bytes) and reply.isdigit() and len(reply) < 16:
            self.number = int(reply)
        else:
            raise self._damaged("its open is not a number")

    def _opened(self) -> Call:
        """The call that asks which round is open."""
        return Call.command("HGET", self._keys.commit_rounds(self._crawl_id), "open")

    def _damaged(self, reason: str) -> KeyDamaged:
        return KeyDamaged("", self._keys.commit_rounds(self._crawl_id), reason)


class Committer(OpenRound):
    """Commits the rounds of one crawl; each node has one, but one at a time works."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CollectionKeys,
        crawl_id: str,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """*progress* is called with the number of digests that a commit has moved."""
        super().__init__(store, keys, crawl_id)
        self._progress = progress
        self._token = secrets.token_hex(8)

    def commit(self, every_s: float = 0, *, is_last: bool = False) -> Committed | str:
        """Commit the open round if the last one was *every_s* ago, or finish that one.

        If nothing was moved, return why: `early`, `nothing`, `held`, `whole` or
        `canceled`, as ``commit_begin.lua`` says; or `ended`, if the crawl adds no more.

        Raises:
            StoreUnavailable: Repeat it.
        """
        begun = self._begin(every_s, is_last=is_last)
        if isinstance(begun, str):
            return begun
        digests, added = 0, 0
        cursor, left = b"0", 1
        keys, crawl_id = self._keys, self._crawl_id
        part = round_id(crawl_id, begun)
        names = [keys.committer, keys.canceled, keys.committed, keys.alldupes]
        names += [keys.crawl(crawl_id), keys.crawl(part)]
        while left:
            args: list[Argument] = [crawl_id, self._token, HOLD_MS, cursor, CHUNK]
            reply = self._store.call(Call.to("commit_move", names, args))
            if len(reply) == 1:
                return str(reply[0].decode())
            cursor, moved, new, left = reply
            digests, added = digests + moved, added + new
            self._progress(digests)
        names = [keys.commit_rounds(crawl_id), keys.committer, keys.uncommitted]
        names += [keys.committed, keys.crawl(part), keys.counts(part)]
        names += [keys.counts(crawl_id), keys.allcounts]
        args = [crawl_id, self._token, begun]
        if not self._store.call(Call.to("commit_settle", names, args)):
            return "held"
        return Committed(digests, added, begun)

    def _begin(self, every_s: float, *, is_last: bool) -> int | str:
        keys, crawl_id = self._keys, self._crawl_id
        for _ in range(TRIES):
            part, first = self.parts()[-1], round_id(crawl_id, 1)
            names = [keys.commit_rounds(crawl_id), keys.committer, keys.uncommitted]
            names += [keys.canceled, keys.crawl(part), keys.counts(part)]
            names += [keys.crawl(first), keys.counts(first), keys.committed]
            names += [keys.waczs(crawl_id), keys.done]
            args: list[Argument] = [crawl_id, self.number or "", self._token]
            args += [HOLD_MS, int(every_s * 1000), int(is_last)]
            why, *rest = self._store.call(Call.to("commit_begin", names, args))
            if why == b"move":
                return int(rest[0])
            if why != b"other":
                return str(why.decode())
            self.note(rest[0])
        return "held"

    def finish(self, *, goes_on: bool = False) -> Committed:
        """Commit everything, as the crawl has ended; only one round if it *goes_on*.

        Raises:
            CrawlCanceled: It was canceled.
            CollectionInUse: Another process has been committing or purging too long.
            StoreUnavailable: Repeat it.
        """
        total = Committed(0, 0, 0)
        limit = time.monotonic() + WAIT_S
        while True:
            done = self.commit(is_last=not goes_on)
            if isinstance(done, Committed):
                digests, added = total.digests + done.digests, total.added + done.added
                total = Committed(digests, added, done.number)
                if goes_on:
                    return total
            elif done == "canceled":
                raise CrawlCanceled(self._crawl_id)
            elif done != "held":
                return total._replace(first=done == "ended")
            elif time.monotonic() > limit:
                raise CollectionInUse(
                    f"{self._crawl_id} is not committed: another round, or a purge, "
                    "is under way; run the command again when that has ended"
                )
            else:
                time.sleep(PAUSE_S)

    def cancel(self, *, running: bool) -> bool:
        """Forget what no round has committed; whether that is done now.

        While the crawl is *running* it keeps its digests, for itself; its last node
        forgets them when it would commit them.

        Raises:
            NotUncommitted: It is committed, or unknown.
        """
        keys, crawl_id = self._keys, self._crawl_id
        for _ in range(TRIES):
            self.note(self._store.call(self._opened()))
            before, part = crawl_id, self.parts()[-1]
            names = [keys.commit_rounds(crawl_id), keys.uncommitted, keys.canceled]
            names += [keys.crawl(part), keys.counts(part)]
            if self.number is None:  # then its files are forgotten, too
                names += [keys.waczs(crawl_id), keys.counts(part)]
            else:
                before = round_id(crawl_id, self.number - 1)
                names += [keys.crawl(before), keys.counts(before)]
            args: list[Argument] = [crawl_id, self.number or "", part, before]
            call = Call.to("commit_cancel", names, [*args, int(running)])
            if done := self._store.call(call):
                return bool(done == 1)
        raise NotUncommitted(crawl_id)


class Collection(OpenRound):
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
        super().__init__(store, collection_keys(store, name), crawl_id)
        self._revisits = revisits
        self._every_s = every_s
        # Other threads count and commit, so each has its own idea of the open round.
        self._counted = OpenRound(store, self._keys, crawl_id)
        self._committer = Committer(store, self._keys, crawl_id)

    def begin(self) -> None:
        """Register the crawl, or the round that it adds to, as uncommitted.

        If it commits in rounds, the time until its first commit starts to run.
        """
        names = [self._keys.commit_rounds(self._crawl_id), self._keys.uncommitted]
        args: list[Argument] = [self._crawl_id, int(self._every_s > 0)]
        self.note(self._store.call(Call.to("collection_enter", names, args)))

    def uncommitted(self) -> list[str]:
        """The ids of the other crawls that are not committed."""
        ids = self._store.command("SMEMBERS", self._keys.uncommitted)
        found = {round_of(one.decode("utf-8", "replace"))[0] for one in ids}
        return sorted(found - {self._crawl_id})

    @property
    def round_id(self) -> str:
        """The id that this crawl's captures belong to until they are committed."""
        return self.parts()[-1]

    def lookup(self, digests: Sequence[str]) -> dict[str, Original]:
        """The originals of those *digests* that are known, by digest.

        A committed crawl's capture is preferred; if an entry of ``alldupes`` leads
        nowhere, this crawl's own is used.
        """
        if not digests or not self._revisits:
            return {}
        keys = self._keys
        owners, own = self._owners(digests)
        asked = [(d, self._crawl_id, v) for d, v in zip(digests, own, strict=True)]
        others = [
            (digest, owner.decode("utf-8", "replace"))
            for digest, owner in zip(digests, owners, strict=True)
            if owner is not None
        ]
        crawls = sorted({crawl_id for _, crawl_id in others} - {self._crawl_id})
        replies = self._store.run(
            [Call.command("HGET", keys.crawl(c), d) for d, c in others]
            + [Call.command("SISMEMBER", keys.minted, c) for c in crawls]
        )
        asked += [(*other, v) for other, v in zip(others, replies, strict=False)]
        is_ours = dict(zip(crawls, replies[len(others) :], strict=True))
        found = {}
        for digest, crawl_id, value in asked:
            minted = bool(is_ours.get(crawl_id))
            known = decode(value or b"", crawl_id, minted=minted)
            if known is not None:
                found[digest] = known
        return found

    def _owners(self, digests: Sequence[str]) -> tuple[list[bytes | None], ...]:
        """The committed crawls that *digests* lead to, and this crawl's own values."""
        hmget = Call.command("HMGET", self._keys.alldupes, *digests)
        while True:
            known = self.number
            # In the order in which digests move. If a round was opened meanwhile, what
            # moved on may have been missed in all of them.
            ids = list(dict.fromkeys([*self.parts(), self._crawl_id]))
            own = [Call.command("HMGET", self._keys.crawl(i), *digests) for i in ids]
            owners, *found, open_ = self._store.run([hmget, *own, self._opened()])
            self.note(open_)
            if self.number == known:
                each = zip(*found, strict=True)
                return owners, [next(filter(None, one), None) for one in each]

    def count(self, captures: int, revisits: int, conserved_bytes: int) -> None:
        """Add to the crawl's counts. Repeating this would count twice."""
        self._counted.add(
            captures=captures, revisits=revisits, conserved_bytes=conserved_bytes
        )

    def commit_round(self) -> Committed | str:
        """Commit what the crawl has so far, if it is time to; see `Committer.commit`.

        Raises:
            StoreUnavailable: Repeat it.
        """
        return self._committer.commit(self._every_s)

    def commit(self) -> Committed | None:
        """Commit the crawl's digests, for all crawls to use; return what that did.

        ``None`` if it was canceled: then nothing of it is left in the index.
        """
        try:
            return self._committer.finish()
        except CrawlCanceled:
            self.cancel()
            return None

    def cancel(self) -> None:
        """Forget the crawl's digests, unless others may refer to them already."""
        with contextlib.suppress(NotUncommitted):
            self._committer.cancel(running=False)


def has_rounds(store: BlockingStore, keys: CollectionKeys, crawl_id: str) -> bool:
    """Whether *crawl_id* has a round that is not committed."""
    return bool(store.command("HEXISTS", keys.commit_rounds(crawl_id), "open"))


def is_uncommitted(store: BlockingStore, keys: CollectionKeys, crawl_id: str) -> bool:
    """Whether *crawl_id*, or a round of it, is not committed."""
    is_one = bool(store.command("SISMEMBER", keys.uncommitted, crawl_id))
    return is_one or has_rounds(store, keys, crawl_id)


class Hold:
    """The right to commit or purge in a collection, held until the context is left."""

    def __init__(self, store: BlockingStore, keys: CollectionKeys) -> None:
        self._store = store
        self._key = keys.committer
        self._token = secrets.token_hex(8)

    def take(self) -> None:
        """Renew it.

        Raises:
            CollectionInUse: Another process may have had it meanwhile.
        """
        holder = self._store.command("GET", self._key)
        if holder != self._token.encode() or not self._is_taken():
            raise CollectionInUse(BUSY)

    def __enter__(self) -> Self:
        """Take it when it is free.

        Raises:
            CollectionInUse: Another process has had it for too long.
        """
        limit = time.monotonic() + WAIT_S
        while not self._is_taken():
            if time.monotonic() > limit:
                raise CollectionInUse(BUSY)
            time.sleep(PAUSE_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Release it, so that others need not wait until it expires."""
        self._store.call(release_call(self._key, self._token))

    def _is_taken(self) -> bool:
        return is_held(self._store.run(hold_calls(self._key, self._token, HOLD_MS)))
