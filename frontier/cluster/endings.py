"""How a crawl ends, and how one that has ended is opened again.

Each changes the field ``state`` of `meta`, of which heartbeats tell the nodes. What
always holds:

1.  A crawl ends once: only an open one can end.
2.  A node ends a crawl in which nothing is left only if no other node is busy. Any
    heartbeat may change who is busy, so checking and ending are one script.
3.  A command checks who is alive, and then writes if the state is still the same: a
    node that joins in between learns from its first heartbeat that the crawl has ended.
4.  Nobody joins a crawl that has ended, so nodes on its map can only leave.
"""

from __future__ import annotations

from frontier.cluster.crawls import CANCELED, ENDED, FINISHED, LIMIT, OPEN, job_in
from frontier.cluster.membership import live_in
from frontier.errors import CrawlClosed, CrawlInUse, CrawlLost, InUse, KeyDamaged
from frontier.store.calls import NOW, Command, Condition, Run, milliseconds
from frontier.store.client import Argument, BlockingStore, Call
from frontier.store.keys import CrawlKeys, RegistryKeys, is_same


async def finish(run: Run, keys: CrawlKeys, *, ttl: float) -> bool | None:
    """End the crawl, in which nothing is left to do.

    Returns whether this call ended it; ``None`` if a live node is busy, or if it has
    ended in another way, of which the heartbeat tells.

    Raises:
        CrawlLost: The crawl is not in the store any more.
    """
    names = [keys.meta, keys.nodes, keys.seeding]
    args: list[Argument] = [int(ttl * 1000), keys.born]
    (reply,) = await run([Call.to("crawl_finish", names, args)])
    if reply < 0:
        raise CrawlLost(keys.crawl_id)
    return None if reply in {0, 3} else reply == 1


async def end(run: Run, keys: CrawlKeys, limit: str) -> bool:
    """End the crawl at *limit*, whatever is queued; may be done twice.

    Returns whether it has ended at a limit, which may be another.
    """
    told = Call.command("HMGET", keys.meta, "state", "born")
    ended = _end_call(keys, LIMIT, *is_same(keys), told=("limit", limit))
    _, (state, born) = await run([ended, told])
    is_at_limit: bool = state == LIMIT.encode()
    return is_at_limit and (born or b"") == keys.born.encode()


def close(store: BlockingStore, keys: CrawlKeys) -> bool:
    """End the crawl, whatever is left in it; return whether it was open.

    Raises:
        InUse: Nodes of it are alive, or seeds are being loaded.
    """
    state, live = _look(store, keys)
    if state != OPEN:
        return False
    is_idle = (("ZCOUNT", keys.seeding, NOW, "+inf"), 0)
    if live or store.call(_end_call(keys, FINISHED, is_idle)) is None:
        raise InUse(
            f"the crawl {keys.crawl_id} is in use; stop its nodes first, or add "
            "--discard to end it while they run"
        )
    return True


def cancel(store: BlockingStore, keys: CrawlKeys) -> tuple[bool, int]:
    """End the crawl, whatever is left in it.

    Its nodes finish what they have in flight, and leave. Returns whether it was open
    (else it was canceled before), and how many nodes have to leave.

    Raises:
        CrawlClosed: It has ended in another way.
    """
    done = store.call(_end_call(keys, CANCELED))
    state, live = _look(store, keys)  # nobody joins any more
    if state != CANCELED:
        raise CrawlClosed(keys.crawl_id)
    return done is not None, len(live)


def reopen(store: BlockingStore, keys: CrawlKeys, spider: str) -> str | None:
    """Let a finished crawl be resumed: the next node of its job opens it again.

    Returns the crawl that the job's nodes will join, which is another one if that is
    open; ``None`` if this one is not finished, or is being removed.

    Raises:
        CrawlInUse: Nodes of it are still leaving.
    """
    state, live = _look(store, keys)
    if state == FINISHED and live:
        raise CrawlInUse(keys.crawl_id, ["the last of them is leaving"])
    meta = keys.meta
    is_whole = [_is(keys, "removed_ms", ""), _is(keys, "deleting_ms", "")]
    opened = [("HSET", meta, "state", OPEN), ("HDEL", meta, "finished_ms")]
    call = Call.txn([_is(keys, "state", FINISHED), *is_whole], opened)
    if store.call(call) is None:
        return None
    registry = RegistryKeys(keys.namespace).spider(spider)
    job = job_in(keys, store.command("HGET", keys.meta, "job"))
    field = "free" if job is None else f"crawl:{job.id}"
    newest_id = store.command("HGET", registry, field) or b""
    newest = CrawlKeys(keys.namespace, newest_id.decode("utf-8", "replace"))
    if newest_id and store.command("HGET", newest.meta, "state") == OPEN.encode():
        return newest.crawl_id
    store.command("HSET", registry, field, keys.crawl_id)
    return keys.crawl_id


def begin_removal(store: BlockingStore, keys: CrawlKeys, field: str) -> None:
    """Note in *field* when the removal of the crawl began; if it is empty, only check.

    Raises:
        CrawlInUse: It has not ended, or nodes of it are alive.
    """
    state, live = _look(store, keys)
    if not state:
        return
    if state not in ENDED:
        raise CrawlInUse(keys.crawl_id)
    if live:
        raise CrawlInUse(keys.crawl_id, live)
    note = [("HSETNX", keys.meta, field, NOW)]
    if field and not store.call(Call.txn([_is(keys, "state", state)], note)):
        raise CrawlInUse(keys.crawl_id)  # it was opened again


def _look(store: BlockingStore, keys: CrawlKeys) -> tuple[str, list[str]]:
    """The state of the crawl, empty if there is none, and the ids of its live nodes."""
    asked = (("HGET", keys.meta, "state"), ("HGETALL", keys.nodes), ("TIME",))
    calls = [Call.command(*parts) for parts in asked]
    state, members, time = store.run(calls, tolerant=True)
    if isinstance(state, KeyDamaged):
        raise state
    is_damaged = isinstance(members, KeyDamaged)  # then no heartbeat gets through
    live = [] if is_damaged else live_in(members, milliseconds(time))
    return (state or b"").decode("utf-8", "replace"), live


def _is(keys: CrawlKeys, field: str, value: Argument) -> Condition:
    """The condition of a `Call.txn` that *field* of `meta` is *value*."""
    return ("HGET", keys.meta, field), value


def _end_call(
    keys: CrawlKeys, state: str, *when: Condition, told: Command = ()
) -> Call:
    """The call that ends the crawl, if it is open and all of *when* holds."""
    ended = ("HSET", keys.meta, "state", state, "finished_ms", NOW, *told)
    return Call.txn([_is(keys, "state", OPEN), *when], [ended])
