"""Removing the frontier of a crawl that has ended: its queues and what it has seen.

`Deletion` in `frontier.node.delete_crawl` removes the rest as well.

What always holds:

1.  Only of a crawl that has ended; that it is being removed is written down
    before anything is.
2.  What was cut off can be repeated: what names the other keys of a partition
    goes last.
3.  What tells about the crawl stays: its state and settings, the reports of its
    nodes, the counts of its partitions, its dead letters.
4.  What names other keys is not trusted: of a seen-set whose numbers cannot be right
    the sets and filters stay, and its key is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier.errors import CrawlInUse
from frontier.seen.config import seen_config
from frontier.seen.seen_set import partition_state, state_call
from frontier.store.client import Call
from frontier.store.scripts import CRAWL_REMOVE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from frontier.seen.config import SeenConfig
    from frontier.seen.seen_set import PartitionState
    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys, PartitionKeys

    Run = Callable[[Sequence[Call]], Awaitable[list[Any]]]

BATCH = 64
"""Partitions per round trip."""
MAX_KEYS = 200
"""Keys per call: to unlink more would keep the server for too long."""
MAX_QUEUES = 1_000
"""Names of queues that are read at once."""
MOST_SETS = 1 << 24
"""Buckets, or filters, of the seen-set of a partition: those of three billion URLs."""


async def remove_frontier(
    run: Run,
    keys: CrawlKeys,
    config: Config,
    progress: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Remove the queues and the seen-set of a crawl that has ended.

    *config* is what the crawl was created with. *progress* is told how many
    partitions are done. Returns keys that should have named others and could not be
    read: what they named may still be there.

    Raises:
        CrawlInUse: It has not ended.
        StoreError: The store did not answer; to repeat it goes on.
    """
    if (await run([Call.to(CRAWL_REMOVE, [keys.meta()])])) == [0]:
        raise CrawlInUse(keys.crawl_id)
    unreadable = await _remove_partitions(run, keys, config, progress)
    await _remove_named(run, keys.cookies(), lambda jar: [keys.jar(jar)])
    await _remove_named(run, keys.sites(), lambda site: _of_site(keys, site))
    rest = [keys.addresses(), keys.allowances(), keys.back_off(), keys.sitemaps()]
    rest += [keys.imported(), keys.former(), keys.ended()]
    await run([Call.command("UNLINK", *rest)])
    return unreadable


async def _remove_partitions(
    run: Run, keys: CrawlKeys, config: Config, progress: Callable[[int], None]
) -> list[str]:
    """Remove what partitions have; return the seen-sets that could not be read."""
    tiers, unreadable = seen_config(config), list[str]()
    for first in range(0, config.partitions, BATCH):
        numbers = range(first, min(first + BATCH, config.partitions))
        batch = [keys.partition(number) for number in numbers]
        replies = await run([state_call(each) for each in batch])
        for each, reply in zip(batch, replies, strict=True):
            await _empty(run, each)
            try:
                state = _state(tiers, reply)
            except ValueError:
                unreadable.append(each.seen)
                continue
            if state is not None:
                for names in _chunks(_seen_names(each, tiers, state)):
                    await run([Call.command("UNLINK", *names)])
        await run([Call.command("UNLINK", *_rest(each)) for each in batch])
        progress(first + len(batch))
    return unreadable


def _state(tiers: SeenConfig, reply: Sequence[bytes | None]) -> PartitionState | None:
    """What `partition_state` says, if it can be.

    Raises:
        ValueError: It cannot.
    """
    state = partition_state(tiers, reply)
    if state is not None:
        old = state.old or (0, 0)
        if max(state.layout.buckets, state.layout.blooms, old[1]) > MOST_SETS:
            raise ValueError("too many buckets or filters")
    return state


async def _remove_named(
    run: Run, index: str, keys_of: Callable[[str], list[str]]
) -> None:
    """Remove the keys of each member of the sorted set *index*, and then that."""
    while True:
        (members,) = await run([Call.command("ZRANGE", index, 0, MAX_KEYS - 1)])
        if not members:
            return
        texts = (member.decode("utf-8", "replace") for member in members)
        for names in _chunks(name for text in texts for name in keys_of(text)):
            await run([Call.command("UNLINK", *names)])
        await run([Call.command("ZREM", index, *members)])


def _of_site(keys: CrawlKeys, site: str) -> list[str]:
    parts = (keys.site, keys.claimed, keys.failed, keys.rounds)
    return [part(site) for part in parts]


async def _empty(run: Run, keys: PartitionKeys) -> None:
    """Remove the queues of a partition, and what waits in it."""
    while True:
        read = Call.command("ZRANGE", keys.due, 0, MAX_QUEUES - 1)
        (buckets,) = await run([read])
        if not buckets:
            break
        waiting = (keys.waiting(b.decode("utf-8", "replace")) for b in buckets)
        for names in _chunks(waiting):
            await run([Call.command("UNLINK", *names)])
        await run([Call.command("ZREM", keys.due, *buckets)])
    while True:
        read = Call.command("ZRANGE", keys.queues, 0, MAX_QUEUES - 1)
        (queues,) = await run([read])
        if not queues:
            return
        for names in _chunks(keys.ready(q.decode("utf-8", "replace")) for q in queues):
            await run([Call.command("UNLINK", *names)])
        await run([Call.command("ZREM", keys.queues, *queues)])


def _seen_names(
    keys: PartitionKeys, tiers: SeenConfig, state: PartitionState
) -> Iterator[str]:
    """The filters and the sets of a partition; not the key that counts them."""
    layout = state.layout
    for number in range(layout.blooms):
        yield keys.bloom(number)
    sets = [(layout.era, layout.buckets)]
    if state.old is not None:
        sets.append(state.old)
    if tiers.has_set:
        for era, buckets in sets:
            for number in range(buckets):
                yield keys.bucket(era, number)


def _rest(keys: PartitionKeys) -> list[str]:
    names = [keys.lease, keys.reserved, keys.started, keys.next_allowed]
    names += [
        keys.pushers,
        keys.forced,
        keys.back_off,
        keys.groups,
        keys.spent,
        keys.claimed,
    ]
    return [*names, keys.items, keys.seen]


def _chunks(names: Any) -> Iterator[list[str]]:
    chunk: list[str] = []
    for name in names:
        chunk.append(name)
        if len(chunk) >= MAX_KEYS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
