"""Take crawls out of a collection, while others can read it; and single captures.

What always holds:

1.  The index is whole at every moment: a new one is built beside it, under other
    names, and replaces it in one step, which also deletes what only the removed crawls
    had. A purge that is killed has changed nothing.
2.  That step is refused while a crawl runs or a source is imported, and if the index
    has changed since the new one was begun. A crawl that commits in rounds may run: it
    stays, no round is committed meanwhile, and what is in none is not touched.
3.  A purge that would keep no crawl is refused unless it is forced.
4.  A key of a crawl that stays is never deleted, whatever the ids of those that go.
5.  An original stays with its crawl, if that one stays; otherwise it goes to the first
    of the remaining crawls, by name, that has the digest.

And of captures, which are to leave WARC files (`remove_captures`):

6.  Nothing is changed while a crawl runs or a source is imported: a revisit of what is
    to go may be under way. If a crawl begins meanwhile it is told, so that its files
    are looked at before the captures leave theirs; none is committed before.
7.  Other crawls' captures of the same payloads stay, and are found: a digest leads to
    the first of them by name, or to none.
8.  A run that was killed is run again, and ends the same: an entry goes in one step
    with what leads to it.

Captures are found by what the entries say, so that all are looked at. The counts of a
crawl stay: they say what it has fetched.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from frontier.collection.rounds import Hold
from frontier.collection.summary import (
    counted,
    filename,
    names,
    note_change,
    scanned,
)
from frontier.dedupe.digest_index import decode
from frontier.errors import CollectionInUse, ConfigurationError
from frontier.store.client import Call
from frontier.store.keys import round_of
from frontier.store.scripts import COLLECTION_MEND, COLLECTION_SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from frontier.store.client import Argument, BlockingStore
    from frontier.store.keys import CollectionKeys

SHADOWS = ("alldupes", "allcounts", "allcrawls", "src:d")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a purge would do."""

    kept: tuple[str, ...]
    removed: tuple[str, ...]
    unknown: tuple[str, ...]
    """That are to be kept and are not there."""
    digests: int
    """In the index now."""
    crawls: int
    sources: int
    urls: bytes
    running: tuple[str, ...] = ()
    """That stay because they run, and commit in rounds."""


def plan(store: BlockingStore, keys: CollectionKeys, keep: Collection[str]) -> Plan:
    """What it would do to keep the committed crawls in *keep*, and those that run."""
    members, digests, crawls, sources, urls, uncommitted = store.run(
        [
            Call.command("SMEMBERS", keys.committed()),
            Call.command("HLEN", keys.alldupes()),
            Call.command("SCARD", keys.committed()),
            Call.command("SCARD", keys.done()),
            Call.command("HGET", keys.allcounts(), "totalUrls"),
            Call.command("SMEMBERS", keys.uncommitted()),
        ]
    )
    there = set(names(members))
    rounds = map(round_of, names(uncommitted))
    running = {crawl_id for crawl_id, number in rounds if number is not None}
    stay = set(keep) | running
    return Plan(
        tuple(sorted(there & stay)),
        tuple(sorted(there - stay)),
        tuple(sorted(set(keep) - there)),
        digests,
        crawls,
        sources,
        urls or b"",
        tuple(sorted(running)),
    )


def purge(
    store: BlockingStore,
    keys: CollectionKeys,
    planned: Plan,
    *,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Do as *planned*; return how many digests are left.

    *progress* is called with how many digests were looked at.

    Raises:
        ConfigurationError: Nothing would be left, and *force* is not given.
        CollectionInUse: A crawl runs, a source is imported, or the index changes.
    """
    if not planned.kept and not force:
        raise ConfigurationError(
            "none of the crawls that are to be kept is in the collection, so that "
            "nothing would be left; add --force if you mean it"
        )
    with Hold(store, keys) as hold:
        return _purge(store, keys, planned, hold, progress)


def _purge(
    store: BlockingStore,
    keys: CollectionKeys,
    planned: Plan,
    hold: Hold,
    progress: Callable[[int], None],
) -> int:
    looked = 0

    def step(found: list[tuple[bytes, bytes]]) -> None:
        nonlocal looked
        looked += len(found)
        hold.take()  # else another one would commit after a while
        progress(looked)

    running = require_quiet(store, keys)
    alldupes, allcounts, allcrawls, done = (keys.shadow(name) for name in SHADOWS)
    store.call(Call.command("UNLINK", alldupes, allcounts, allcrawls, done))
    kept = {crawl_id.encode("utf-8", "replace") for crawl_id in planned.kept}
    for found in scanned(store, keys.alldupes()):  # an original stays with its crawl
        stay = [pair for pair in found if pair[1] in kept]
        if stay:
            store.call(Call.command("HSET", alldupes, *chain.from_iterable(stay)))
        step(found)
    sums: Counter[str] = Counter()
    for crawl_id in planned.kept:
        for found in scanned(store, keys.crawl(crawl_id)):  # and else goes to the first
            calls = [Call.command("HSETNX", alldupes, d, crawl_id) for d, _ in found]
            store.run(calls)
            step(found)
        sums.update(counted(store, keys.counts(crawl_id)))
        _copy_names(store, keys, crawl_id, done)
    calls = [Call.command("SADD", allcrawls, c) for c in planned.kept]
    facts = [(k, v) for k, v in sums.items() if v] if planned.kept else []
    facts += [("updateProgress", 1)]  # of removed crawls nothing, as Browsertrix
    calls += [Call.command("HSET", allcounts, name, value) for name, value in facts]
    store.run(calls)
    left = int(store.call(Call.command("HLEN", alldupes)))
    _switch(store, keys, planned, [hold.token, running])
    return left


def require_quiet(
    store: BlockingStore, keys: CollectionKeys, *, rounds: bool = True
) -> int:
    """Raise unless nothing is imported, and no crawl runs; with *rounds*, but in these.

    Returns how many rounds are not committed.

    Raises:
        CollectionInUse: A crawl runs, or a source is imported.
    """
    uncommitted, importing = store.run(
        [
            Call.command("SMEMBERS", keys.uncommitted()),
            Call.command("HKEYS", keys.importing()),
        ]
    )
    running = [round_of(name) for name in names(uncommitted)]
    others = [crawl for crawl, number in running if number is None or not rounds]
    if others:
        raise CollectionInUse(
            f"{min(others)} is not committed; let it end, or cancel it"
        )
    if importing:
        first = names(importing)[0]
        raise CollectionInUse(
            f"{first} is being imported; let it end, or import it again"
        )
    return len(running)


def _copy_names(
    store: BlockingStore, keys: CollectionKeys, crawl_id: str, shadow: str
) -> None:
    """Keep the names of the crawl's files among those that are in the index."""
    entries = store.call(Call.command("LRANGE", keys.waczs(crawl_id), 0, -1))
    files = [name for entry in entries if (name := filename(entry)) is not None]
    there = store.run([Call.command("SISMEMBER", keys.done(), name) for name in files])
    store.run(
        [
            Call.command("SADD", shadow, name)
            for name, known in zip(files, there, strict=True)
            if known
        ]
    )


def _keys_of(keys: CollectionKeys, crawl_id: str) -> tuple[str, ...]:
    names = (keys.crawl(crawl_id), keys.counts(crawl_id), keys.waczs(crawl_id))
    return *names, keys.commit_rounds(crawl_id)


def _switch(
    store: BlockingStore, keys: CollectionKeys, planned: Plan, held: list[Argument]
) -> None:
    kept = {key for crawl_id in planned.kept for key in _keys_of(keys, crawl_id)}
    removed = [
        key
        for crawl_id in planned.removed
        for key in _keys_of(keys, crawl_id)
        if key not in kept  # of an id that should never have been let in
    ]
    switched = store.call(
        Call.to(
            COLLECTION_SWITCH,
            [
                keys.alldupes(),
                keys.allcounts(),
                keys.committed(),
                keys.done(),
                *(keys.shadow(name) for name in SHADOWS),
                keys.uncommitted(),
                keys.importing(),
                keys.committer(),
                *removed,
            ],
            [planned.digests, planned.crawls, planned.sources, planned.urls, *held],
        )
    )
    if switched != 1:
        store.call(Call.command("UNLINK", *(keys.shadow(name) for name in SHADOWS)))
        require_quiet(store, keys)
        raise CollectionInUse("it was changed while the new index was built; repeat it")
    note_change(store, keys)


@dataclass(frozen=True, slots=True)
class Captures:
    """Which captures: all of some URLs, and single ones."""

    urls: frozenset[str]
    single: frozenset[tuple[str, str]]
    """URL, and date to the second, as ``2026-01-02T03:04:05Z``."""

    def has(self, url: str, date: str) -> bool:
        """Whether the capture of *url* at the WARC-Date *date* is one."""
        return url in self.urls or (url, f"{date[:19]}Z") in self.single


def remove_captures(
    store: BlockingStore,
    keys: CollectionKeys,
    captures: Captures,
    *,
    dry: bool = False,
) -> int:
    """Take *captures* out of the index; return how many entries these were.

    With *dry* they are only counted.

    Raises:
        CollectionInUse: A crawl runs or has begun meanwhile, or a source is imported.
        StoreUnavailable: Nothing is known about the effect; repeat it.
    """
    if dry:
        return _remove(store, keys, captures, None)
    with Hold(store, keys) as hold:
        require_quiet(store, keys, rounds=False)
        count = _remove(store, keys, captures, hold)
        # One that has begun may have looked up what went; a later one cannot.
        require_quiet(store, keys, rounds=False)
    return count


def _remove(
    store: BlockingStore, keys: CollectionKeys, captures: Captures, hold: Hold | None
) -> int:
    """Count *captures*, and take them out if there is a *hold*."""
    crawls = names(store.call(Call.command("SMEMBERS", keys.committed())))
    count = 0
    for crawl_id in crawls:
        for found in scanned(store, keys.crawl(crawl_id)):
            if hold is not None:
                hold.take()
            for digest, raw in found:
                value = decode(raw)
                if value is None or not captures.has(value.url, value.date):
                    continue
                count += 1
                if hold is not None:
                    store.call(lead_on(store, keys, digest, crawl_id, crawls, 1))
    for key, is_one in ((keys.urls(), _by_url), (keys.history(), _last)):
        for found in scanned(store, key):
            if hold is not None:
                hold.take()
            gone = [field for field, value in found if is_one(value, captures)]
            count += len(gone)
            if gone and hold is not None:
                store.call(Call.command("HDEL", key, *gone))
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
    """What has *digest* lead to the first of *crawls* that has it, no more to *owner*.

    If *is_removed*, the entry of *owner* goes first; what it has otherwise stays.
    """
    others = [each for each in crawls if each != owner]
    there = store.run([Call.command("HEXISTS", keys.crawl(c), digest) for c in others])
    heir = next((c for c, known in zip(others, there, strict=True) if known), owner)
    hashes = [keys.alldupes(), keys.crawl(owner), keys.crawl(heir)]
    return Call.to(COLLECTION_MEND, hashes, [digest, owner, heir, is_removed])


def _by_url(value: bytes, captures: Captures) -> bool:
    """Whether *value*, of the index by URL, is one of *captures*."""
    rest = value.decode("utf-8", "replace").partition(" ")[2]
    known = decode(f"0 {rest}")
    return known is not None and captures.has(known.url, known.date)


def _last(value: bytes, captures: Captures) -> bool:
    """Whether *value*, a last capture of a URL, is of one of *captures*."""
    try:
        facts = json.loads(value)
        url, known = str(facts["url"]), decode(str(facts["original"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    is_one = known is not None and captures.has(known.url, known.date)
    return is_one or url in captures.urls
