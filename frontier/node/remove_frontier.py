"""Removing the frontier of a crawl that has ended: its queues and what it has seen.

What always holds:

1.  Only of a crawl that has ended; that it is being removed is written down
    before anything is.
2.  What was cut off can be repeated: what names the other keys of a partition
    goes last.
3.  What tells about the crawl stays: its state and settings, the reports of its
    nodes, the counts of its partitions, its dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier.errors import CrawlOpen
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


async def remove_frontier(
    run: Run,
    keys: CrawlKeys,
    config: Config,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Remove the queues and the seen-set of a crawl that has ended.

    *config* is what the crawl was created with. *progress* is told how many
    partitions are done.

    Raises:
        CrawlOpen: It has not ended.
        StoreError: The store did not answer; to repeat it goes on.
    """
    if (await run([Call.to(CRAWL_REMOVE, [keys.meta()])])) == [0]:
        raise CrawlOpen(keys.crawl_id)
    tiers = seen_config(config)
    for first in range(0, config.partitions, BATCH):
        numbers = range(first, min(first + BATCH, config.partitions))
        batch = [keys.partition(number) for number in numbers]
        replies = await run([state_call(each) for each in batch])
        for each, reply in zip(batch, replies, strict=True):
            await _empty(run, each)
            state = partition_state(tiers, reply)
            if state is not None:
                for names in _chunks(_seen_names(each, tiers, state)):
                    await run([Call.command("UNLINK", *names)])
        await run([Call.command("UNLINK", *_rest(each)) for each in batch])
        progress(first + len(batch))
    await _remove_cookies(run, keys)
    await run([Call.command("UNLINK", keys.addresses(), keys.allowances())])


async def _remove_cookies(run: Run, keys: CrawlKeys) -> None:
    while True:
        read = Call.command("ZRANGE", keys.cookies(), 0, MAX_KEYS - 1)
        (jars,) = await run([read])
        if not jars:
            return
        names = [keys.jar(jar.decode("utf-8", "surrogateescape")) for jar in jars]
        await run([Call.command("UNLINK", *names)])
        await run([Call.command("ZREM", keys.cookies(), *jars)])


async def _empty(run: Run, keys: PartitionKeys) -> None:
    """Remove the queues of a partition."""
    while True:
        read = Call.command("ZRANGE", keys.queues, 0, MAX_QUEUES - 1)
        (queues,) = await run([read])
        if not queues:
            return
        for name_of in (keys.ready, keys.spilled):
            for names in _chunks(name_of(queue.decode()) for queue in queues):
                await run([Call.command("UNLINK", *names)])
        await run([Call.command("ZREM", keys.queues, *queues)])


def _seen_names(
    keys: PartitionKeys, tiers: SeenConfig, state: PartitionState
) -> Iterator[str]:
    """The filters and the sets of a partition; not the key that counts them."""
    layout, least = state.layout, tiers.space.groups
    for number in range(layout.blooms):
        yield keys.bloom(number)
    sets = [(layout.era, layout.buckets or least)]
    if state.old is not None:
        sets.append(state.old)
    if tiers.has_set:
        for era, buckets in sets:
            for number in range(buckets):
                yield keys.bucket(era, number)


def _rest(keys: PartitionKeys) -> list[str]:
    names = [keys.reserved, keys.started, keys.next_allowed, keys.pushers]
    return [*names, keys.groups, keys.spent, keys.claimed, keys.seen]


def _chunks(names: Any) -> Iterator[list[str]]:
    chunk: list[str] = []
    for name in names:
        chunk.append(name)
        if len(chunk) >= MAX_KEYS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
