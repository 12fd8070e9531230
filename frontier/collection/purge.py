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
    to go may be under way.
7.  Other crawls' captures of the same payloads stay, and are found: a digest leads to
    the first of them by name, or to none.
8.  A run that was killed is run again, and ends the same: an entry goes last, after
    what leads to it.

Captures are found by what the entries say, so that all are looked at. The counts of a
crawl stay: they say what it has fetched.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frontier.collection.rounds import Hold
from frontier.collection.summary import COUNTS, filename, pairs
from frontier.dedupe.digest_index import decode
from frontier.errors import CollectionInUse, ConfigurationError
from frontier.status.validate import whole
from frontier.store.client import Call
from frontier.store.keys import round_of
from frontier.store.scripts import COLLECTION_SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from frontier.store.client import Argument, BlockingStore
    from frontier.store.keys import CollectionKeys

CHUNK = 1_000
"""Digests, or other entries, per round trip."""
UNCOMMITTED = "is not committed; let it end, or cancel it"
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
    there = {member.decode("utf-8", "replace") for member in members}
    named = (round_of(one.decode("utf-8", "replace")) for one in uncommitted)
    running = {crawl_id for crawl_id, number in named if number is not None}
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
    hold = Hold(store, keys)
    hold.wait()
    try:
        return _purge(store, keys, planned, hold, progress)
    finally:
        hold.leave()


def _purge(
    store: BlockingStore,
    keys: CollectionKeys,
    planned: Plan,
    hold: Hold,
    progress: Callable[[int], None],
) -> int:
    def step(looked: int) -> None:
        hold.take()  # else another one would commit after a while
        progress(looked)

    running = require_quiet(store, keys)
    alldupes, allcounts, allcrawls, done = (keys.shadow(name) for name in SHADOWS)
    store.call(Call.command("UNLINK", alldupes, allcounts, allcrawls, done))
    looked = _keep_owners(store, keys, planned, alldupes, step)
    sums: Counter[str] = Counter()
    for crawl_id in planned.kept:
        looked = _add(store, keys, crawl_id, alldupes, step, looked)
        values = store.call(Call.command("HMGET", keys.counts(crawl_id), *COUNTS))
        sums.update(dict(zip(COUNTS, map(whole, values), strict=True)))
        _copy_names(store, keys, crawl_id, done)
    calls = [Call.command("SADD", allcrawls, c) for c in planned.kept]
    facts = [(k, v) for k, v in sums.items() if v] if planned.kept else []
    facts += [("updateProgress", 1)]  # of removed crawls nothing, as Browsertrix
    calls += [Call.command("HSET", allcounts, name, value) for name, value in facts]
    store.run(calls)
    left = int(store.call(Call.command("HLEN", alldupes)))
    _switch(store, keys, planned, [hold.token, running])
    return left


def require_quiet(store: BlockingStore, keys: CollectionKeys) -> int:
    """Raise unless what runs commits in rounds, and nothing is imported.

    Returns how many rounds are not committed.

    Raises:
        CollectionInUse: Another crawl runs, or a source is imported.
    """
    members = store.call(Call.command("SMEMBERS", keys.uncommitted()))
    names = [member.decode("utf-8", "replace") for member in members]
    others = [name for name in names if round_of(name)[1] is None]
    if others:
        raise CollectionInUse(f"{min(others)} {UNCOMMITTED}")
    _require_no_import(store, keys)
    return len(names)


def _require_no_import(store: BlockingStore, keys: CollectionKeys) -> None:
    importing = store.call(Call.command("HKEYS", keys.importing()))
    if importing:
        first = min(name.decode("utf-8", "replace") for name in importing)
        raise CollectionInUse(
            f"{first} is being imported; let it end, or import it again"
        )


def require_idle(store: BlockingStore, keys: CollectionKeys) -> None:
    """Raise unless no crawl runs and no source is being imported.

    Raises:
        CollectionInUse: One does, or is.
    """
    members = store.call(Call.command("SMEMBERS", keys.uncommitted()))
    if members:
        names = (member.decode("utf-8", "replace") for member in members)
        first = min(round_of(name)[0] for name in names)
        raise CollectionInUse(f"{first} {UNCOMMITTED}")
    _require_no_import(store, keys)


def _keep_owners(
    store: BlockingStore,
    keys: CollectionKeys,
    planned: Plan,
    shadow: str,
    progress: Callable[[int], None],
) -> int:
    """Copy what is owned by crawls that stay."""
    kept = {crawl_id.encode("utf-8", "replace") for crawl_id in planned.kept}
    cursor, looked = b"0", 0
    while True:
        cursor, found = store.call(
            Call.command("HSCAN", keys.alldupes(), cursor, "COUNT", CHUNK)
        )
        owned = pairs(found)
        flat = [
            part for digest, crawl in owned if crawl in kept for part in (digest, crawl)
        ]
        if flat:
            store.call(Call.command("HSET", shadow, *flat))
        looked += len(owned)
        progress(looked)
        if int(cursor) == 0:
            return looked


def _add(
    store: BlockingStore,
    keys: CollectionKeys,
    crawl_id: str,
    shadow: str,
    progress: Callable[[int], None],
    looked: int,
) -> int:
    """Give the crawl what nobody has who stays."""
    cursor = b"0"
    while True:
        cursor, found = store.call(
            Call.command("HSCAN", keys.crawl(crawl_id), cursor, "COUNT", CHUNK)
        )
        digests = [digest for digest, _ in pairs(found)]
        store.run([Call.command("HSETNX", shadow, d, crawl_id) for d in digests])
        looked += len(digests)
        progress(looked)
        if int(cursor) == 0:
            return looked


def _copy_names(
    store: BlockingStore, keys: CollectionKeys, crawl_id: str, shadow: str
) -> None:
    """Keep the names of the crawl's files among those that are in the index."""
    entries = store.call(Call.command("LRANGE", keys.waczs(crawl_id), 0, -1))
    names = [name for entry in entries if (name := filename(entry)) is not None]
    there = store.run([Call.command("SISMEMBER", keys.done(), name) for name in names])
    store.run(
        [
            Call.command("SADD", shadow, name)
            for name, known in zip(names, there, strict=True)
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
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    store.call(Call.command("SET", keys.updated(), now.replace("+00:00", "Z")))


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
        CollectionInUse: A crawl runs, or a source is imported.
        StoreUnavailable: Nothing is known about the effect; repeat it.
    """
    if not dry:
        require_idle(store, keys)
    members = store.call(Call.command("SMEMBERS", keys.committed()))
    crawls = sorted(member.decode("utf-8", "replace") for member in members)
    count = 0
    for crawl_id in crawls:
        for digest in _digests(store, keys.crawl(crawl_id), captures):
            count += 1
            if not dry:
                _lead_elsewhere(store, keys, crawl_id, digest, crawls)
                store.call(Call.command("HDEL", keys.crawl(crawl_id), digest))
    for key, is_one in ((keys.urls(), _by_url), (keys.history(), _last)):
        for found in _scan(store, key):
            gone = [field for field, value in found if is_one(value, captures)]
            count += len(gone)
            if gone and not dry:
                store.call(Call.command("HDEL", key, *gone))
    if count and not dry:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        store.call(Call.command("SET", keys.updated(), now.replace("+00:00", "Z")))
    return count


def _digests(store: BlockingStore, key: str, captures: Captures) -> Iterator[bytes]:
    for found in _scan(store, key):
        for digest, raw in found:
            value = decode(raw)
            if value is not None and captures.has(value.url, value.date):
                yield digest


def _lead_elsewhere(
    store: BlockingStore,
    keys: CollectionKeys,
    crawl_id: str,
    digest: bytes,
    crawls: list[str],
) -> None:
    """Have *digest* lead to another crawl that has it, if it leads to *crawl_id*."""
    owner = store.call(Call.command("HGET", keys.alldupes(), digest))
    if owner is None or owner.decode("utf-8", "replace") != crawl_id:
        return
    others = [each for each in crawls if each != crawl_id]
    there = store.run([Call.command("HEXISTS", keys.crawl(c), digest) for c in others])
    heir = next((c for c, known in zip(others, there, strict=True) if known), None)
    if heir is None:
        store.call(Call.command("HDEL", keys.alldupes(), digest))
    else:
        store.call(Call.command("HSET", keys.alldupes(), digest, heir))


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


def _scan(store: BlockingStore, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
    cursor = b"0"
    while True:
        cursor, found = store.call(Call.command("HSCAN", key, cursor, "COUNT", CHUNK))
        yield pairs(found)
        if int(cursor) == 0:
            return
