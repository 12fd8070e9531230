"""What is in a collection, seen from outside. Looking changes nothing."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from frontier.errors import KeyDamaged
from frontier.model import frozen
from frontier.status.validate import printable, text, whole
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import (
    CollectionKeys,
    CrawlKeys,
    RegistryKeys,
    collection_keys,
    round_id,
    round_of,
)

COUNTS = ("totalUrls", "dupeUrls", "conservedSize", "totalCrawlSize")
"""What is counted for each crawl, and summed up over the committed ones."""
CHUNK = 1_000
"""Fields of a hash that are read per round trip."""
_TAGGED = re.compile(r"\{collection:(.*)\}:")


@frozen
class CrawlView:
    """One crawl of a collection."""

    crawl_id: str
    state: str
    """``committed``, ``uncommitted``, ``canceled``, or ``rounds`` if it commits in
    rounds, or its commit was interrupted."""
    digests: int
    """Its digests in the index, including those that no round has committed."""
    uncommitted: int
    """Those of its digests that only its own nodes see."""
    rounds: int
    """The number of rounds that were committed."""
    files: int
    """Its WACZ files, or other sources; 0 for a crawl of nodes."""
    urls: int
    """Its captures; a node that was killed has not added its last ones."""
    revisits: int
    conserved_bytes: int
    """Bytes by which its revisits are smaller than their originals, compressed."""
    bytes: int
    """The size of these files."""


@frozen
class CollectionView:
    """A whole collection."""

    name: str
    digests: int
    """Digests that all crawls see."""
    sources: int
    """Sources whose captures are in the index."""
    counts: dict[str, int]
    """The sums of the committed crawls' counts, and the counts that imports add."""
    updated: str
    crawls: tuple[CrawlView, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it, as in a collection that does not exist."""
        return not (self.digests or self.sources or self.crawls)


def collections(store: BlockingStore) -> list[str]:
    """The names of the collections in the store; the default one's is empty."""
    found: set[str] = set()
    for what in ("allcrawls", "uncommittedcrawls"):
        for key in store.scan(f"*{what}"):
            name = key.decode("utf-8", "replace").removesuffix(what)
            if tagged := _TAGGED.fullmatch(name):
                found.add(tagged[1])
            elif not name or name.endswith(":"):
                found.add(name.removesuffix(":"))
    return sorted(found)


def look(store: BlockingStore, keys: CollectionKeys) -> CollectionView:
    """What is in the collection *keys* now."""
    committed, uncommitted, canceled, digests, sources, counts, updated = store.run(
        [
            Call.command("SMEMBERS", keys.committed),
            Call.command("SMEMBERS", keys.uncommitted),
            Call.command("SMEMBERS", keys.canceled),
            Call.command("HLEN", keys.alldupes),
            Call.command("SCARD", keys.done),
            Call.command("HGETALL", keys.allcounts),
            Call.command("GET", keys.updated),
        ]
    )
    states = dict.fromkeys(names(committed), "committed")
    for name in names(uncommitted):
        crawl_id, number = round_of(name)
        states[crawl_id] = "uncommitted" if number is None else "rounds"
    states |= dict.fromkeys(states.keys() & names(canceled), "canceled")
    return CollectionView(
        keys.collection,
        digests,
        sources,
        {text(k): whole(v) for k, v in pairs(counts) if k != b"updateProgress"},
        text(updated),
        tuple(_crawl(store, keys, i, states[i]) for i in sorted(states)),
    )


def runs(store: BlockingStore, namespace: str, crawl_id: str) -> bool:
    """Whether the crawl is open, so that its nodes may still add to the index."""
    meta = CrawlKeys(namespace, crawl_id).meta
    return bool(store.command("HGET", meta, "state") == b"open")


def uncommitted_in(store: BlockingStore, crawl: CrawlKeys) -> list[str]:
    """The collections in this store that have uncommitted payloads of *crawl*.

    Only collections that crawls of its namespace have joined are searched. A damaged
    one is left out.
    """
    crawl_id, registry = crawl.crawl_id, RegistryKeys(crawl.namespace)
    calls = [
        Call.command("SMEMBERS", registry.collections),
        Call.command("GET", registry.store),
    ]
    members, mine = store.run(calls, tolerant=True)
    found = []
    for name in [] if isinstance(members, KeyDamaged) else names(members):
        keys = collection_keys(store, name)
        waits, rounds, owner = store.run(
            [
                Call.command("SISMEMBER", keys.uncommitted, crawl_id),
                Call.command("HEXISTS", keys.commit_rounds(crawl_id), "open"),
                Call.command("HGET", keys.owners, crawl_id),
            ],
            tolerant=True,
        )
        is_ours = owner is None or owner == mine
        if is_ours and (waits == 1 or rounds == 1):
            found.append(name)
    return found


def undone(crawl_id: str, waiting: Iterable[str], *, canceled: bool) -> list[str]:
    """That payloads of a crawl are uncommitted: a line for each collection *waiting*.

    With *canceled*, that they are not forgotten.
    """
    verb, what = ("cancel", "forgotten") if canceled else ("commit", "committed")
    lines = []
    for name in waiting:
        command = ["frontier", "collection", verb, "--crawl", crawl_id]
        command += ["--collection", name] if name else []
        lines.append(
            f"the payloads of {crawl_id} are not {what} yet: if its last node is "
            "gone, the next crawl of the collection does that, or "
            f"{shlex.join(command)}"
        )
    return lines


def pairs(reply: object) -> list[tuple[bytes, bytes]]:
    """The fields and values of a hash, from either form of a client's reply."""
    if isinstance(reply, dict):
        return list(reply.items())
    flat = list(reply) if isinstance(reply, list | tuple) else []
    return list(zip(flat[::2], flat[1::2], strict=True))


def scanned(store: BlockingStore, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
    """The fields and values of the hash *key*, some at a time; some may come twice."""
    cursor = b"0"
    while True:
        cursor, found = store.command("HSCAN", key, cursor, "COUNT", CHUNK)
        yield pairs(found)
        if int(cursor) == 0:
            return


def counted(store: BlockingStore, key: str) -> dict[str, int]:
    """The `COUNTS` in the hash *key*."""
    values = store.command("HMGET", key, *COUNTS)
    return dict(zip(COUNTS, map(whole, values), strict=True))


def names(members: Iterable[bytes]) -> list[str]:
    """The members of a set as text, sorted."""
    return sorted(member.decode("utf-8", "replace") for member in members)


def members(store: BlockingStore, key: str) -> list[str]:
    """The members of the set *key* as text, sorted."""
    return names(store.command("SMEMBERS", key))


def note_change(store: BlockingStore, keys: CollectionKeys) -> None:
    """Note that the collection *keys* was changed just now."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    stamp = now.replace("+00:00", "Z")
    store.command("SET", keys.updated, stamp)


def _crawl(
    store: BlockingStore, keys: CollectionKeys, crawl_id: str, state: str
) -> CrawlView:
    files, rounds = store.run(
        [
            Call.command("LLEN", keys.waczs(crawl_id)),
            Call.command("HMGET", keys.commit_rounds(crawl_id), "open", "committed"),
        ]
    )
    number, last = whole(rounds[0]), whole(rounds[1])
    parts = [round_id(crawl_id, n) for n in (number - 1, number) if n > 0]
    held, figures = [], Counter[str]()
    for each in (crawl_id, *parts):
        held.append(store.command("HLEN", keys.crawl(each)))
        figures.update(counted(store, keys.counts(each)))
    digests = sum(held)
    is_committed = bool(parts) or state == "committed"
    uncommitted = digests - (held[0] if is_committed else 0)
    return CrawlView(
        printable(crawl_id),
        state,
        digests,
        uncommitted,
        last,
        files,
        *(figures[name] for name in COUNTS),
    )


def filename(entry: bytes) -> str | None:
    """The file name in *entry* of the list of a crawl's files; ``None`` if none."""
    try:
        value = json.loads(entry)["filename"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None
