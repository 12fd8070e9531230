"""Crawls: which one a node takes part in; see `frontier.cluster.endings` for its end.

The first node that finds no open crawl of its job opens ``<spider>-<n+1>``; others
join it. A job is a spider with its arguments and start URLs (`frontier.cluster.job`):
crawls of other jobs are left alone. An interrupted crawl is still open, so starting
again resumes it; a finished one is not, so starting again makes a new one.

A node that belongs to a *run* comes to the crawl that the first node of the run
entered, open or ended. So a node that is started late does not open a new crawl for
what the others have already done.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.cluster.job import Job
from frontier.errors import (
    ConfigurationError,
    CrawlLost,
    KeyDamaged,
    NoCrawlYet,
    RunOver,
)
from frontier.store.calls import Run, batches
from frontier.store.client import Argument, BlockingStore, Call
from frontier.store.keys import (
    SCHEMA,
    CrawlKeys,
    RegistryKeys,
    check_schema,
    is_same,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Claim = Callable[[CrawlKeys], Awaitable[bool]]

logger = logging.getLogger(__name__)

OPEN = "open"
FINISHED = "finished"
CANCELED = "canceled"
"""The state of a crawl that an operator ended."""
LIMIT = "limit"
"""The state of a crawl that ended because a limit of the whole crawl was reached."""
STATES = (b"open", b"finished", b"canceled", b"limit", b"rebuilding")
"""All that ``state`` can be."""
ENDED = (FINISHED, CANCELED, LIMIT)
"""States of a crawl in which no node takes part any more."""
LATE = 600.0
"""Seconds after the end of a crawl for which a new node may be meant for it. Whatever
restarts processes has done so by then."""
BATCH = 256
"""Partitions per round trip."""
BY_FINGERPRINT = "fingerprint"
"""``FRONTIER_QUEUE_KEY`` of a crawl of the duplicate filter alone, which has no
queue: a URL's partition is that of its fingerprint."""


class Launch(NamedTuple):
    """For which run and job a node was started, and whether it may open a crawl."""

    run_id: str = ""
    """The run that it belongs to; empty for none."""
    job: Job | None = None
    """`None` for a command, which takes part in whatever crawl is open."""
    join_only: bool = False
    """Whether it must not open a crawl."""


NOBODY = Launch()


class _Found(NamedTuple):
    """A crawl that was opened or found."""

    keys: CrawlKeys
    state: bytes
    job: Job | None
    ago: float
    """Seconds since it ended."""
    is_new: bool


async def enter(
    run: Run,
    namespace: str,
    spider: str,
    crawl_id: str,
    shape: Mapping[str, Any],
    launch: Launch = NOBODY,
    claim: Claim | None = None,
) -> CrawlKeys:
    """Open a crawl or join the open one; return its keys.

    *crawl_id* names it; empty for ``<spider>-<n>``. *shape* maps the names of the
    settings that all its nodes must share to their values. *claim* tells whether the
    name is also free among the crawls of other stores.

    Raises:
        ConfigurationError: It was created with other settings, or for another job, or
            it is named and has ended, or a crawl of another store has its name.
        KeyDamaged: What it was created with, or its state, cannot be read.
        CrawlLost: The store has lost a part of it, or all but a part.
        NoCrawlYet: There is none, and this node must not open one.
        RunOver: It has ended, and the node came to take part in it.
        OtherSchema: It has not ended, and another version of this package made it.
    """
    registry = RegistryKeys(namespace)
    run_id, job, join_only = launch
    field = f"run:{job.id if job else ''}:{run_id}"
    entered = await _entered(run, registry.spider(spider), field) if run_id else ""
    if crawl_id and crawl_id != entered:
        entered = ""
    ended: _Found | None = None
    passed = before = ""
    while True:
        chosen = crawl_id or entered
        if not chosen:
            name = "" if join_only else spider
            before, chosen = await _allot(run, registry, spider, name, job, passed)
        keys = CrawlKeys(namespace, chosen)
        if join_only and not (
            chosen and (await run([Call.command("EXISTS", keys.meta)]))[0]
        ):
            raise NoCrawlYet(crawl_id, spider)
        if claim is not None and not await claim(keys):
            await _refuse_taken(run, keys, named=bool(crawl_id))
            passed, entered = chosen, ""
            continue
        found = await _open(run, keys, spider, shape, job)
        if crawl_id:
            _require_job(found, job)
        elif job and found.job and found.job.id != job.id:
            passed = chosen  # somebody gave that name to a crawl of another job
            continue
        if found.state == b"open":
            if run_id and not entered:
                note = Call.command("HSET", registry.spider(spider), field, chosen)
                await run([note])
            if found.is_new:
                late_for = None if run_id else ended
                await _tell_of_others(run, found, job, late_for, before)
            return found.keys
        _leave_ended(found, launch, named=bool(crawl_id), entered=bool(entered))
        passed, ended = chosen, found


def _leave_ended(found: _Found, launch: Launch, *, named: bool, entered: bool) -> None:
    """Return if a node that finds this crawl, which has ended, is to open the next.

    Raises:
        ConfigurationError: The crawl is *named*, and its name cannot be used again.
        NoCrawlYet: The node is to join a crawl of its run, which does not exist yet.
        RunOver: It came for this crawl: its run *entered* it, or nothing tells.
    """
    run_id, job, join_only = launch
    crawl_id, state = found.keys.crawl_id, _said(found.state)
    if entered or (named and job and not run_id) or (join_only and not run_id):
        raise RunOver(crawl_id, state, run_id)
    if named:
        raise ConfigurationError(
            f"FRONTIER_CRAWL_ID = {crawl_id!r}: this crawl is {state}; choose another "
            "id, or leave it empty"
        )
    if join_only:
        raise NoCrawlYet("", job.spider if job else "")


def _require_job(found: _Found, job: Job | None) -> None:
    """Check that a node with *job* may take part in a crawl that it names.

    Raises:
        ConfigurationError: The crawl is another job's. If only its start URLs differ,
            an open one may go on: they were edited.
    """
    if job is None or found.job is None or found.job.id == job.id:
        return
    crawl_id, difference = found.keys.crawl_id, job.differs(found.job)
    if found.job.asked != job.asked:
        raise ConfigurationError(
            f"FRONTIER_CRAWL_ID = {crawl_id!r}: the crawl {crawl_id} is another job of "
            f"the spider {found.job.spider!r}: {difference}; choose another id"
        )
    if found.state != b"open":
        raise ConfigurationError(
            f"FRONTIER_CRAWL_ID = {crawl_id!r}: this crawl is {_said(found.state)}, "
            f"and had other {difference}; choose another id"
        )
    logger.warning(
        "the crawl %s was begun with other %s; it goes on, as FRONTIER_CRAWL_ID "
        "names it, and the new ones are queued",
        crawl_id,
        difference,
    )


async def _tell_of_others(
    run: Run, found: _Found, job: Job | None, ended: _Found | None, before: str
) -> None:
    """Warn about crawls that the user may have meant instead of the new one.

    They are the job's last crawl, if it has just *ended*, and the open one *before*.
    """
    crawl_id = found.keys.crawl_id
    if ended is not None and ended.ago < LATE:
        logger.warning(
            "the crawl %s of this job ended %s ago (%s): this node opens %s, and "
            "everything is fetched again. To take part in %s, it came too late: "
            "start nodes that replace others with FRONTIER_JOIN_ONLY, or all nodes "
            "of a job with the same FRONTIER_RUN_ID",
            ended.keys.crawl_id,
            f"{ended.ago:.0f} s" if ended.ago < 120 else f"{ended.ago / 60:.0f} min",
            _said(ended.state),
            crawl_id,
            ended.keys.crawl_id,
        )
    if job is None or before in {"", crawl_id}:
        return
    keys = CrawlKeys(found.keys.namespace, before)
    ask = Call.command("HMGET", keys.meta, "state", "job")
    state, stored = (await run([ask]))[0]
    other = job_in(keys, stored)
    if state == b"open" and other is not None and other.id != job.id:
        logger.warning(
            "the crawl %s is open for another job (%s): this node opens %s. To take "
            "part in %s, start it with the same arguments, or with FRONTIER_CRAWL_ID "
            "if only start URLs differ",
            before,
            job.differs(other),
            crawl_id,
            before,
        )


async def _refuse_taken(run: Run, keys: CrawlKeys, *, named: bool) -> None:
    """Say that the collection has the name of *keys* for a crawl of another store.

    Raises:
        ConfigurationError: The crawl can have no other name: it is *named*, or exists.
    """
    chosen = keys.crawl_id
    if named or (await run([Call.command("EXISTS", keys.meta)]))[0]:
        raise ConfigurationError(
            f"the collection has a crawl {chosen} already, which was imported, was "
            "deleted, or is in another store; set FRONTIER_CRAWL_ID to a name that "
            "it does not have"
        )
    logger.warning(
        "the collection has a crawl %s already, which was imported, was deleted, or "
        "is in another store; this one takes the next number",
        chosen,
    )


async def _open(
    run: Run,
    keys: CrawlKeys,
    spider: str,
    shape: Mapping[str, Any],
    job: Job | None,
) -> _Found:
    """Create the crawl of *keys*, or find it.

    Raises:
        ConfigurationError: It is open, with other shared settings.
        KeyDamaged: What it was created with, or its state, cannot be read.
        OtherSchema: It has not ended, and another version of this package made it.
    """
    known = Call.command("SADD", RegistryKeys(keys.namespace).crawls, keys.crawl_id)
    opened = open_call(keys, json.dumps(shape), spider, job)
    reply = (await run([opened, known]))[0]
    state, stored, born, marked, schema, for_job, finished, now, is_new = reply
    if state.decode("latin-1") not in ENDED:
        check_schema(keys.crawl_id, schema)
    if state not in STATES:
        raise KeyDamaged("", keys.meta, f"its state is {state[:40]!r}")
    if state == b"open":
        _compare(keys.crawl_id, shape, _shape(keys, stored))
        keys = replace(keys, born=(born or b"").decode("utf-8", "replace"))
        if keys.born and not marked:
            await mark_all(run, keys, shape["FRONTIER_PARTITIONS"])
    ago = int(now) - int(finished) if (finished or b"").isdigit() else math.inf
    found_job = job_in(keys, for_job)
    return _Found(keys, state, found_job, ago / 1000, bool(is_new))


def job_in(keys: CrawlKeys, stored: bytes | None) -> Job | None:
    """The job that is *stored* in `meta` of *keys*, if any.

    Raises:
        KeyDamaged: It is not a job.
    """
    if not stored:
        return None
    try:
        return Job.read(stored)
    except ValueError as error:
        raise KeyDamaged("", keys.meta, str(error)) from None


def open_call(keys: CrawlKeys, shape: str, spider: str, job: Job | None = None) -> Call:
    """The call that creates the crawl, or reads what it was created with.

    *shape* is JSON. The crawl gets the mark of *keys*, or a random one.
    """
    born = keys.born or secrets.token_hex(8)
    told = "" if job is None else job.stored()
    return Call.to("crawl_open", [keys.meta], [shape, spider, born, SCHEMA, told])


async def mark_all(run: Run, keys: CrawlKeys, partitions: int) -> None:
    """Give each of the crawl's partitions its mark, and then note that.

    Any number of nodes may do so at once, and repeatedly.

    Raises:
        CrawlLost: One has another crawl's mark: the store has lost the rest of that
            crawl.
    """
    for numbers in batches(range(partitions), BATCH):
        counts = [keys.partition(number).counts for number in numbers]
        calls = [Call.command("HSETNX", key, "born", keys.born) for key in counts]
        new = await run(calls)
        old = [key for key, is_new in zip(counts, new, strict=True) if not is_new]
        marks = await run([Call.command("HGET", key, "born") for key in old])
        if any(mark != keys.born.encode() for mark in marks):
            raise CrawlLost(keys.crawl_id)
    await run([marked_call(keys)])


def mark_now(store: BlockingStore, keys: CrawlKeys, partitions: int) -> None:
    """Give each partition the crawl's mark, whatever mark it has."""
    counts = (keys.partition(number).counts for number in range(partitions))
    store.run([Call.command("HSET", key, "born", keys.born) for key in counts])
    store.call(marked_call(keys))


def marked_call(keys: CrawlKeys) -> Call:
    """The call that notes that all partitions have the crawl's mark."""
    return Call.txn(is_same(keys), [("HSET", keys.meta, "marked", 1)])


def lost_partitions(store: BlockingStore, keys: CrawlKeys, partitions: int) -> int:
    """How many partitions lack the crawl's mark; 0 if it has none.

    A damaged one is not lost.

    Raises:
        StoreError: The store does not answer.
    """
    born, marked = store.command("HMGET", keys.meta, "born", "marked")
    counts = (keys.partition(number).counts for number in range(partitions))
    calls = [Call.command("HGET", key, "born") for key in counts]
    found = store.run(calls if born and marked else [], tolerant=True)
    return sum(one != born and not isinstance(one, KeyDamaged) for one in found)


def carry_call(keys: CrawlKeys) -> Call:
    """The call that notes that the crawl begins with what others have seen.

    Its start requests are then queued whatever the seen test says, but only once:
    the call stores the salt of the marks that ensure this. It is random, so that
    these marks mean nothing to a crawl that they are carried over to.
    """
    return Call.command("HSETNX", keys.meta, "start_salt", secrets.token_hex(8))


def _said(state: bytes) -> str:
    return "at its limit" if state == LIMIT.encode() else state.decode()


async def _entered(run: Run, spider: str, field: str) -> str:
    """The crawl that a node of the run has entered; empty if none has."""
    (reply,) = await run([Call.command("HGET", spider, field)])
    return reply.decode() if reply else ""


async def _allot(
    run: Run,
    registry: RegistryKeys,
    spider: str,
    name: str,
    job: Job | None,
    passed: str,
) -> tuple[str, str]:
    """The spider's newest crawl so far, and the one to enter; empty for none."""
    key = registry.spider(spider)
    args: list[Argument] = [name, "" if job is None else job.id, passed]
    newest = Call.command("HGET", key, "open")
    replies = await run([newest, Call.to("crawl_allot", [key], args)])
    before, chosen = ((r or b"").decode("utf-8", "replace") for r in replies)
    return before, chosen


def _shape(keys: CrawlKeys, stored: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(stored or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise KeyDamaged("", keys.meta, "its shape is not the JSON of settings")
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
