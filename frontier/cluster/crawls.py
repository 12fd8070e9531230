"""Crawls: which one a node takes part in, and how one ends.

The first node that finds no open crawl of its spider opens ``<spider>-<n+1>``;
others join it. An interrupted crawl is still open, so that starting again
resumes it; a finished one is not, so that starting again makes a new one.

A node that belongs to a *run* comes to the crawl of that run, open or ended: to the
one that the first node of the run has entered. So a node that is started late does
not make a new crawl of what the others have done.
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frontier.cluster.set_aside import INCOMPLETE
from frontier.errors import (
    ConfigurationError,
    CrawlInUse,
    CrawlLost,
    KeyDamaged,
    RunOver,
)
from frontier.store.client import Argument, Call
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys, check_schema
from frontier.store.scripts import (
    CRAWL_ALLOT,
    CRAWL_CANCEL,
    CRAWL_FINISH,
    CRAWL_OPEN,
    CRAWL_REOPEN,
    CRAWL_RETIRE,
    START_ACQUIRE,
    START_DONE,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from frontier.store.client import BlockingStore

    Run = Callable[[Sequence[Call]], Awaitable[list[Any]]]
    Claim = Callable[[CrawlKeys], Awaitable[bool]]

logger = logging.getLogger(__name__)

FINISHED = "finished"
CANCELED = "canceled"
"""The state of a crawl that an operator ended."""
LIMIT = "limit"
"""The state of a crawl that ended because a limit of all of it was reached."""
STATES = (b"open", b"finished", b"canceled", b"limit", b"incomplete", b"rebuilding")
"""All that ``state`` can be."""
ENDED = (b"finished", b"canceled", b"limit")
"""Those in which no node takes part any more."""
BATCH = 256
"""Partitions per round trip."""
BY_FINGERPRINT = "fingerprint"
"""``FRONTIER_QUEUE_KEY`` of a crawl of the duplicate filter alone, which has no
queue: a URL's partition is that of its fingerprint."""


async def enter(
    run: Run,
    namespace: str,
    spider: str,
    crawl_id: str,
    shape: Mapping[str, Any],
    run_of: tuple[str, str] = ("", ""),
    claim: Claim | None = None,
) -> CrawlKeys:
    """Open a crawl or join the open one; return its keys.

    *crawl_id* names it; empty for ``<spider>-<n>``. *shape* maps the names of
    the settings that all its nodes must share to their values. *run_of* is the id
    of the run that the node belongs to, empty for none, and the digest of its seeds.
    *claim* tells whether the name is free where other stores have crawls, too.

    Raises:
        ConfigurationError: It was created with other settings, or it is named
            and has ended, or a crawl of another store has its name.
        KeyDamaged: What it was created with, or its state, cannot be read.
        CrawlLost: The store has lost a part of it, or all but a part.
        RunOver: A node of the run was in it, and it has ended.
        OtherSchema: It has not ended, and another version of this package made it.
    """
    registry = RegistryKeys(namespace)
    run_id, start_id = run_of
    field = f"run:{start_id}:{run_id}"
    entered = await _entered(run, registry.spider(spider), field) if run_id else ""
    if crawl_id and crawl_id != entered:
        entered = ""
    while True:
        chosen = crawl_id or entered or await _allot(run, registry, spider)
        keys = CrawlKeys(namespace, chosen)
        if claim is not None and not await claim(keys):
            await _refuse_taken(run, keys, named=bool(crawl_id))
            await retire(run, namespace, spider, chosen)
            continue
        state, keys = await _open(run, keys, spider, shape)
        if state == b"open":
            if run_id and not entered:
                note = Call.command("HSET", registry.spider(spider), field, chosen)
                await run([note])
            return keys
        if entered:
            raise RunOver(chosen, _said(state), run_id)
        if crawl_id:
            raise ConfigurationError(
                f"FRONTIER_CRAWL_ID = {crawl_id!r}: this crawl is {_said(state)}; "
                "choose another id, or leave it empty"
            )
        await retire(run, namespace, spider, chosen)


async def _refuse_taken(run: Run, keys: CrawlKeys, *, named: bool) -> None:
    """Say that the collection has the name of *keys* for a crawl of another store.

    Raises:
        ConfigurationError: The crawl can have no other: it is *named*, or there.
    """
    chosen = keys.crawl_id
    if named or (await run([Call.command("EXISTS", keys.meta())]))[0]:
        raise ConfigurationError(
            f"the collection has a crawl {chosen} of another store, from an import, "
            "or that was deleted; set FRONTIER_CRAWL_ID to a name that it does not have"
        )
    logger.warning(
        "the collection has a crawl %s of another store, from an import, or that was "
        "deleted; this one takes the next number",
        chosen,
    )


async def _open(
    run: Run, keys: CrawlKeys, spider: str, shape: Mapping[str, Any]
) -> tuple[bytes, CrawlKeys]:
    """Create the crawl of *keys*, or find it; return its state, and its own keys.

    Raises:
        ConfigurationError: It is open, with other shared settings.
        KeyDamaged: What it was created with, or its state, cannot be read.
        OtherSchema: It has not ended, and another version of this package made it.
    """
    known = Call.command("SADD", RegistryKeys(keys.namespace).crawls(), keys.crawl_id)
    opened = open_call(keys, json.dumps(shape), spider)
    state, stored, born, marked, schema = (await run([opened, known]))[0]
    if state not in ENDED:
        check_schema(keys.crawl_id, schema)
    if state not in STATES:
        raise KeyDamaged("", keys.meta(), f"its state is {state[:40]!r}")
    if state == b"open":
        _compare(keys.crawl_id, shape, _shape(keys, stored))
        keys = replace(keys, born=(born or b"").decode("utf-8", "replace"))
        if keys.born and not marked:
            await mark_all(run, keys, shape["FRONTIER_PARTITIONS"])
    return state, keys


def open_call(keys: CrawlKeys, shape: str, spider: str) -> Call:
    """The call that creates the crawl, or learns what it was created with.

    *shape* is JSON. The crawl gets the mark of *keys*, or a random one.
    """
    born = keys.born or secrets.token_hex(8)
    return Call.to(CRAWL_OPEN, [keys.meta()], [shape, spider, born, "", SCHEMA])


async def mark_all(run: Run, keys: CrawlKeys, partitions: int) -> None:
    """Give each of the crawl's partitions its mark, and then say so.

    Any number of nodes may do so at once, again and again.

    Raises:
        CrawlLost: One has another crawl's mark: the store has lost what else
            there was of that one.
    """
    for first in range(0, partitions, BATCH):
        numbers = range(first, min(first + BATCH, partitions))
        counts = [keys.partition(number).counts for number in numbers]
        calls = [Call.command("HSETNX", key, "born", keys.born) for key in counts]
        new = await run(calls)
        old = [key for key, is_new in zip(counts, new, strict=True) if not is_new]
        marks = await run([Call.command("HGET", key, "born") for key in old])
        if any(mark != keys.born.encode() for mark in marks):
            raise CrawlLost(keys.crawl_id)
    await run([Call.to(CRAWL_OPEN, [keys.meta()], ["", "", "", keys.born, SCHEMA])])


def mark_now(
    store: BlockingStore, keys: CrawlKeys, partitions: int
) -> dict[int, KeyDamaged]:
    """Give each partition the crawl's mark, whatever mark it has.

    Returns the partitions that cannot have one, and why.
    """
    damaged: dict[int, KeyDamaged] = {}
    for first in range(0, partitions, BATCH):
        numbers = range(first, min(first + BATCH, partitions))
        counts = [keys.partition(number).counts for number in numbers]
        calls = [Call.command("HSET", key, "born", keys.born) for key in counts]
        replies = zip(numbers, store.run(calls, tolerant=True), strict=True)
        damaged |= {n: one for n, one in replies if isinstance(one, KeyDamaged)}
    store.call(Call.to(CRAWL_OPEN, [keys.meta()], ["", "", "", keys.born, SCHEMA]))
    return damaged


def lost_partitions(store: BlockingStore, keys: CrawlKeys, partitions: int) -> int:
    """How many partitions have not the crawl's mark; 0 if it has none.

    One that is damaged is not lost.

    Raises:
        StoreError: The store does not answer.
    """
    born, marked = store.call(Call.command("HMGET", keys.meta(), "born", "marked"))
    lost = 0
    for first in range(0, partitions if born and marked else 0, BATCH):
        numbers = range(first, min(first + BATCH, partitions))
        counts = [keys.partition(number).counts for number in numbers]
        calls = [Call.command("HGET", key, "born") for key in counts]
        found = store.run(calls, tolerant=True)
        lost += sum(one != born and not isinstance(one, KeyDamaged) for one in found)
    return lost


async def retire(run: Run, namespace: str, spider: str, crawl_id: str) -> None:
    """Make room for the spider's next crawl."""
    key = RegistryKeys(namespace).spider(spider)
    await run([Call.to(CRAWL_RETIRE, [key], [crawl_id])])


async def finish(
    run: Run, keys: CrawlKeys, *, ttl: float, incomplete: bool = False
) -> bool | None:
    """End the crawl, in which nothing is left to do.

    Or nothing but what is in partitions that are set aside, if it is *incomplete*: it
    can be resumed. Returns whether this call ended it; ``None`` if a live node is
    busy, or if it has ended otherwise, which the heartbeat tells.

    Raises:
        CrawlLost: The crawl is not in the store any more.
    """
    args: list[Argument] = [int(ttl * 1000), keys.born]
    args.append(INCOMPLETE if incomplete else FINISHED)
    (reply,) = await run([Call.to(CRAWL_FINISH, [keys.meta(), keys.nodes()], args)])
    if reply < 0:
        raise CrawlLost(keys.crawl_id)
    return None if reply in {0, 3} else reply == 1


def reopen(
    store: BlockingStore, keys: CrawlKeys, spider: str, *, ttl: float
) -> str | None:
    """Let a finished crawl be resumed: the next node of *spider* opens it again.

    Returns the crawl that the spider's nodes join then, which is another if one is
    open; ``None`` if this one is not finished.

    Raises:
        CrawlInUse: Nodes of it are still leaving.
    """
    ask = Call.to(CRAWL_REOPEN, [keys.meta(), keys.nodes()], [int(ttl * 1000)])
    done = store.call(ask)
    if done < 0:
        raise CrawlInUse(keys.crawl_id, ["the last of them is leaving"])
    if not done:
        return None
    registry = RegistryKeys(keys.namespace).spider(spider)
    store.call(Call.command("HSETNX", registry, "open", keys.crawl_id))
    found = store.call(Call.command("HGET", registry, "open"))
    return str(found.decode("utf-8", "replace"))


def cancel_call(keys: CrawlKeys, *, ttl: float) -> Call:
    """The call that ends the crawl, whatever is left in it; see `crawl_cancel.lua`.

    Its nodes finish what they have in flight, and leave.
    """
    return Call.to(CRAWL_CANCEL, [keys.meta(), keys.nodes()], [int(ttl * 1000)])


def carry_call(keys: CrawlKeys) -> Call:
    """The call that says that the crawl begins with what others saw.

    Its start requests are then queued whatever the seen test says, but once:
    what is stored is the salt of the marks that see to that. It is random, so
    that these marks mean nothing to a crawl that they are carried over to.
    """
    return Call.command("HSETNX", keys.meta(), "start_salt", secrets.token_hex(8))


class StartLock:
    """The right to load one seed list, held by one node at a time."""

    def __init__(
        self, run: Run, keys: CrawlKeys, start_id: str, node_id: str, *, ttl: float
    ) -> None:
        self._run = run
        self._names = [keys.seed_lists(), keys.start_lock(start_id), keys.meta()]
        self._crawl_id, self._born = keys.crawl_id, keys.born
        self._start_id = start_id
        self._node_id = node_id
        self._ttl_ms = int(ttl * 1000)
        self.start_salt = b""
        """The salt of `carry_call`, once it was asked; empty for other crawls."""

    async def acquire(self) -> str:
        """Take or renew it; return ``yours``, ``taken`` or ``done``.

        Raises:
            CrawlLost: The crawl is not in the store any more.
        """
        args: list[Argument] = [self._start_id, self._node_id, self._ttl_ms]
        args.append(self._born)
        take = Call.to(START_ACQUIRE, self._names, args)
        salt = Call.command("HGET", self._names[2], "start_salt")
        reply, carried = await self._run([take, salt])
        if reply == b"lost":
            raise CrawlLost(self._crawl_id)
        self.start_salt = carried or b""
        return str(reply.decode())

    async def done(self) -> None:
        """Say that every seed is in the store."""
        await self._run(
            [Call.to(START_DONE, self._names, [self._start_id, self._born])]
        )


def _said(state: bytes) -> str:
    return "at its limit" if state == LIMIT.encode() else state.decode()


async def _entered(run: Run, spider: str, field: str) -> str:
    """The crawl that a node of the run has entered; empty if none has."""
    (reply,) = await run([Call.command("HGET", spider, field)])
    return reply.decode() if reply else ""


async def _allot(run: Run, registry: RegistryKeys, spider: str) -> str:
    (reply,) = await run([Call.to(CRAWL_ALLOT, [registry.spider(spider)], [spider])])
    return str(reply.decode())


def _shape(keys: CrawlKeys, stored: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(stored or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise KeyDamaged("", keys.meta(), "its shape is not the JSON of settings")
    return found


def _compare(
    crawl_id: str, shape: Mapping[str, Any], stored: Mapping[str, Any]
) -> None:
    for name, value in shape.items():
        if stored.get(name) != value:
            raise ConfigurationError(
                f"{name} = {value!r}, but the crawl {crawl_id} was created with "
                f"{stored.get(name)!r}; every node of a crawl must have the same"
            )
