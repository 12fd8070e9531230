"""Takes crawls out of a collection, and single captures that are to leave WARC files.

What always holds:

1.  Nothing is changed while a crawl runs or a source is imported: a revisit of a
    capture to be removed may be under way. If a crawl begins meanwhile, the purge stops
    and says so; the crawl cannot commit before that. A crawl that commits in rounds may
    run while crawls are taken out: it stays, and digests that it has not committed are
    not touched.
2.  The index can be read at every moment: what leads to an entry is removed before the
    entry, or in one step with it. A purge that was killed can be run again, with the
    same result.
3.  A purge that would keep no crawl is refused unless it is forced.
4.  A key of a crawl that stays is never deleted, whatever the ids of those removed.
5.  An original stays with its crawl if that stays; otherwise it goes to the first of
    the remaining crawls, by name, that has the digest.

Captures are found by the contents of entries, so all entries are looked at. The counts
of their crawl stay: they say what it has fetched.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from frontier.collection.rounds import Hold
from frontier.collection.summary import (
    counted,
    filename,
    members,
    names,
    note_change,
    scanned,
)
from frontier.dedupe.digest_index import decode
from frontier.errors import CollectionInUse, ConfigurationError
from frontier.model import frozen
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CollectionKeys, round_of


@frozen
class Plan:
    """What a purge would do."""

    kept: tuple[str, ...]
    removed: tuple[str, ...]
    unknown: tuple[str, ...]
    """Crawls that are to be kept but are not there."""
    digests: int
    """Digests in the index now."""


def plan(store: BlockingStore, keys: CollectionKeys, keep: Collection[str]) -> Plan:
    """Plan a purge that keeps the committed crawls in *keep*, and those that run."""
    there = set(members(store, keys.committed))
    rounds = map(round_of, members(store, keys.uncommitted))
    stay = {crawl_id for crawl_id, number in rounds if number is not None} | set(keep)
    return Plan(
        tuple(sorted(there & stay)),
        tuple(sorted(there - stay)),
        tuple(sorted(set(keep) - there)),
        store.command("HLEN", keys.alldupes),
    )


def purge(
    store: BlockingStore,
    keys: CollectionKeys,
    planned: Plan,
    *,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Do what is *planned*; return how many digests are left.

    *progress* is called with the number of digests looked at.

    Raises:
        ConfigurationError: Nothing would be left, and *force* is not given.
        CollectionInUse: A crawl runs or begins, or a source is imported.
    """
    if not planned.kept and not force:
        raise ConfigurationError(
            "the collection has none of the crawls to keep, so nothing would be "
            "left; add --force if you mean it"
        )
    looked = 0

    def step(found: list[tuple[bytes, bytes]], *calls: Call) -> None:
        nonlocal looked
        looked += len(found)
        hold.take()  # without it, another process could commit after a while
        require_quiet(store, keys)
        store.run(calls)
        progress(looked)

    index = keys.alldupes
    sums: Counter[str] = Counter()
    with Hold(store, keys) as hold:
        # What was committed since the plan was made stays, too.
        stay = set(members(store, keys.committed)).difference(planned.removed)
        planned = replace(planned, kept=tuple(sorted(stay)))
        kept = {crawl_id.encode("utf-8", "replace") for crawl_id in planned.kept}
        for found in scanned(store, index):
            gone = [digest for digest, owner in found if owner not in kept]
            step(found, *([Call.command("HDEL", index, *gone)] if gone else []))
        for crawl_id in planned.kept:
            for found in scanned(store, keys.crawl(crawl_id)):
                heirs = (Call.command("HSETNX", index, d, crawl_id) for d, _ in found)
                step(found, *heirs)
            sums.update(counted(store, keys.counts(crawl_id)))
        facts = [each for pair in sums.items() if pair[1] for each in pair]
        facts += ["updateProgress", 1]  # nothing on removed crawls, like Browsertrix
        sums_of = keys.allcounts
        step([], Call.command("DEL", sums_of), Call.command("HSET", sums_of, *facts))
        # Last: without these names a second run would find nothing to do.
        _forget(store, keys, planned)
        note_change(store, keys)
    return int(store.command("HLEN", index))


def _forget(store: BlockingStore, keys: CollectionKeys, planned: Plan) -> None:
    """Delete what only the removed crawls have, and last of all their names."""
    kept = {key for crawl_id in planned.kept for key in _keys_of(keys, crawl_id)}
    stay = {name for crawl_id in planned.kept for name in _files(store, keys, crawl_id)}
    for crawl_id in planned.removed:
        files = set(_files(store, keys, crawl_id)) - stay
        # Not keys that an invalid id has in common with a crawl that stays.
        own = [key for key in _keys_of(keys, crawl_id) if key not in kept]
        calls = [Call.command("SREM", keys.done, name) for name in files]
        calls += [Call.command("UNLINK", key) for key in own]
        store.run([*calls, Call.command("SREM", keys.committed, crawl_id)])


def _files(store: BlockingStore, keys: CollectionKeys, crawl_id: str) -> list[str]:
    """The names of the files of a crawl."""
    entries = store.command("LRANGE", keys.waczs(crawl_id), 0, -1)
    return list(filter(None, map(filename, entries)))


def _keys_of(keys: CollectionKeys, crawl_id: str) -> tuple[str, ...]:
    names = (keys.crawl(crawl_id), keys.counts(crawl_id), keys.waczs(crawl_id))
    return *names, keys.commit_rounds(crawl_id)


def require_quiet(
    store: BlockingStore, keys: CollectionKeys, *, rounds: bool = True
) -> None:
    """Check that nothing is imported and no crawl runs.

    With *rounds*, crawls that commit in rounds may run.

    Raises:
        CollectionInUse: A crawl runs, or a source is imported.
    """
    running = map(round_of, members(store, keys.uncommitted))
    others = [crawl for crawl, number in running if number is None or not rounds]
    if others:
        raise CollectionInUse(
            f"{min(others)} is not committed; let it end, or cancel it"
        )
    if importing := names(store.command("HKEYS", keys.importing)):
        raise CollectionInUse(
            f"{importing[0]} is being imported; let it end, or import it again"
        )


@frozen
class Captures:
    """A selection of captures: all of some URLs, and single ones."""

    urls: frozenset[str]
    single: frozenset[tuple[str, str]]
    """URL, and date to the second, as ``2026-01-02T03:04:05Z``."""

    def has(self, url: str, date: str) -> bool:
        """Whether the capture of *url* with the WARC-Date *date* is selected."""
        return url in self.urls or (url, f"{date[:19]}Z") in self.single


def remove_captures(
    store: BlockingStore,
    keys: CollectionKeys,
    captures: Captures,
    *,
    dry: bool = False,
) -> int:
    """Take *captures* out of the index; return how many entries were removed.

    With *dry* they are only counted.

    Raises:
        CollectionInUse: A crawl runs or has begun meanwhile, or a source is imported.
        StoreUnavailable: Its effect is not known; repeat it.
    """
    if dry:
        return _remove(store, keys, captures, None)
    with Hold(store, keys) as hold:
        require_quiet(store, keys, rounds=False)
        count = _remove(store, keys, captures, hold)
        # A crawl that began meanwhile may have looked up what is removed now; a later
        # one cannot.
        require_quiet(store, keys, rounds=False)
    return count


def _remove(
    store: BlockingStore, keys: CollectionKeys, captures: Captures, hold: Hold | None
) -> int:
    """Count the entries of *captures*; with a *hold*, take them out."""

    def selected(
        key: str, is_one: Callable[[bytes, Captures], bool]
    ) -> Iterator[list[bytes]]:
        for found in scanned(store, key):
            if hold is not None:
                hold.take()
            yield [field for field, value in found if is_one(value, captures)]

    crawls = members(store, keys.committed)
    count = 0
    for crawl_id in crawls:
        for gone in selected(keys.crawl(crawl_id), _by_digest):
            count += len(gone)
            for digest in gone if hold is not None else ():
                store.call(lead_on(store, keys, digest, crawl_id, crawls, 1))
    for key, is_one in ((keys.urls, _by_url), (keys.history, _last)):
        for gone in selected(key, is_one):
            count += len(gone)
            if gone and hold is not None:
                store.command("HDEL", key, *gone)
    if count and hold is not None:
        note_change(store, keys)
    return count


def lead_on(
    store: BlockingStore,
    keys: CollectionKeys,
    digest: bytes,
    owner: str,
    crawls: Sequence[str],
    is_removed: int = 0,
) -> Call:
    """The call that has *digest* lead from *owner* to the first of *crawls* with it.

    If *is_removed*, the entry of *owner* is removed in the same step; else it stays.
    """
    others = [each for each in crawls if each != owner]
    there = store.run([Call.command("HEXISTS", keys.crawl(c), digest) for c in others])
    heir = next((c for c, known in zip(others, there, strict=True) if known), owner)
    hashes = [keys.alldupes, keys.crawl(owner), keys.crawl(heir)]
    return Call.to("collection_mend", hashes, [digest, owner, heir, is_removed])


def _by_digest(value: bytes | str, captures: Captures) -> bool:
    """Whether *value*, from the index by digest, is one of *captures*."""
    known = decode(value)
    return known is not None and captures.has(known.url, known.date)


def _by_url(value: bytes, captures: Captures) -> bool:
    """Whether *value*, from the index by URL, is one of *captures*."""
    rest = value.decode("utf-8", "replace").partition(" ")[2]
    return _by_digest(f"0 {rest}", captures)


def _last(value: bytes, captures: Captures) -> bool:
    """Whether *value*, the last capture of a URL, refers to one of *captures*."""
    try:
        facts = json.loads(value)
        url, original = str(facts["url"]), str(facts["original"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return url in captures.urls or _by_digest(original, captures)
