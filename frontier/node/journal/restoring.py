"""What the store has forgotten of a node that is dead, from the journal it left.

A node that lives finds out by itself what a failover has made the store forget (see
`frontier.node.failover`). One that died in the same moment does not, but its
journal has each push with its number, on disk before the page that led to it was
acked. Whoever can read that journal compares: a number that is greater than the last
that the partition has of that process was forgotten.

What always holds:

1.  Only what the store lacks is pushed, by the same script as ever: what somebody
    else has pushed since is seen. Of a request that is queued whatever was seen it
    must be known that it is lacking.
2.  A journal that its node left open is closed only after what was lacking is in the
    store, and in the journal of the one who looked.
3.  A journal of a process that lives is left to it.
4.  What a journal says is not trusted: what could not be queued is named and left.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frontier.errors import CodecError, ConfigurationError
from frontier.node.journal.entries import (
    OPEN,
    SUFFIX,
    Acked,
    Bad,
    Pushed,
    PutAgain,
    digest_of,
    is_torn,
    read,
    read_header,
)
from frontier.node.journal.writer import Left, left_open
from frontier.queue.item import decode
from frontier.queue.priority import split_name
from frontier.queue.push import CONFIRMED_FOR, TEST, Push, last_push, number_of
from frontier.seeds.load_once import Seeder, SeedLock
from frontier.seen.config import seen_config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frontier.node.journal.entries import Header
    from frontier.node.outbox import Outbox
    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore, Call
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Pushes that are made before more of a journal is read."""
BATCH = 256
"""Partitions per round trip."""
_SERIAL = re.compile(r"-[0-9]{17}-([0-9]{5})-(.*)" + re.escape(SUFFIX + OPEN))
SURE = 1800.0
"""Seconds: a process that wrote since then is not forgotten for its silence, as the
store keeps the numbers of silent ones for an hour."""


@dataclass(slots=True)
class Lacking:
    """One journal, and what the store lacks of the pushes in it."""

    path: Path
    header: Header
    partitions: int
    """How many the crawl has."""
    killed: bool
    """Whether its process did not end by itself, and wrote until lately."""
    last: dict[int, int] = field(default_factory=dict)
    """The number of its last push to each partition."""
    lacks: dict[int, int | None] = field(default_factory=dict)
    """The partitions that lack some, and the last number that each has; `None` where
    it knows nothing of the process."""
    pushed: int = 0
    """What was to be pushed again."""
    unsure: int = 0
    """Requests of which it cannot be known whether they were queued."""
    bad: list[Bad] = field(default_factory=list)
    """What was skipped."""

    def survey(self) -> None:
        """Learn what there is, by partition.

        Raises:
            OSError: It cannot be read.
        """
        for entry in read(self.path):
            if isinstance(entry, Bad):
                if not is_torn(entry):
                    self.bad.append(entry)
            elif isinstance(entry, Pushed) and entry.partition < self.partitions:
                known = self.last.get(entry.partition, 0)
                self.last[entry.partition] = max(known, entry.number)

    def questions(self, keys: CrawlKeys) -> dict[int, Call]:
        """What the partitions are to be asked."""
        process = self.header.process
        return {number: last_push(keys, number, process) for number in self.last}

    def know(self, replies: Mapping[int, bytes | None]) -> None:
        """Learn from the *replies* to `questions` what is lacking."""
        for partition, reply in replies.items():
            if reply is None or number_of(reply) < self.last[partition]:
                known = number_of(reply) if reply is not None else None
                self.lacks[partition] = known

    def pushes(self) -> Iterator[tuple[int, Push]]:
        """What is to be pushed, each with its partition.

        Raises:
            OSError: It cannot be read.
        """
        if not self.lacks:
            return
        acked = {
            entry.digest
            for entry in read(self.path)
            if isinstance(entry, Acked | PutAgain) and entry.partition in self.lacks
        }
        for entry in read(self.path):
            if not isinstance(entry, Pushed) or entry.partition not in self.lacks:
                continue
            known = self.lacks[entry.partition]
            if known is not None and 0 < entry.number <= known:
                continue
            if fault := fault_of(entry):
                self.bad.append(Bad(str(self.path), 0, len(entry.item), fault))
                continue
            is_done = digest_of(entry.queue, entry.item) in acked
            push = self._push(entry, is_done=is_done, is_sure=known is not None)
            if push is not None:
                self.pushed += 1
                yield entry.partition, push

    def _push(self, entry: Pushed, *, is_done: bool, is_sure: bool) -> Push | None:
        if entry.mode != TEST and not is_done and not (is_sure or self.killed):
            self.unsure += 1
            return None
        if is_done or not entry.queue:
            return Push(TEST, entry.mark, "", 0, b"")
        priority = split_name(entry.queue)[0]
        item = b"0" + entry.item[1:]
        made = Push(entry.mode, entry.mark, entry.queue, priority, item)
        return made._replace(due=entry.due)

    def told(self) -> list[str]:
        """What came of it, line by line; nothing if nothing was lacking."""
        lines = []
        if self.pushed:
            lines.append(
                f"the store lacks pushes of node {self.header.node_id}, which is gone: "
                f"{self.pushed:,} URLs of its journal {self.path} are pushed again; "
                "those that are seen are not queued twice"
            )
        if self.unsure:
            lines.append(
                f"{self.path}: of {self.unsure:,} requests with dont_filter the store "
                "does not know whether they were queued; they are left out"
            )
        if self.bad:
            lines.append(
                f"{self.path}: skipped {len(self.bad):,} entries, the first at byte "
                f"{self.bad[0].offset:,}: {self.bad[0].reason}"
            )
        return lines


def fault_of(entry: Pushed | PutAgain) -> str:
    """Why *entry* cannot be restored; empty if it can."""
    if not entry.queue:
        return ""
    try:
        split_name(entry.queue)
        decode(entry.item, entry.queue)
    except CodecError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def journals_left(
    directories: Sequence[Path],
    crawl: tuple[str, str],
    partitions: int,
    *,
    since: float | None,
) -> Iterator[tuple[list[Lacking], list[Left]]]:
    """The journals of *crawl* whose processes are gone, and those that are open.

    These are locked until the end. Closed ones are looked at if they were written
    after *since*, in seconds since the Unix epoch; if that is `None`, only the one
    that the process of an open one has filled before.

    Raises:
        OSError: A directory, or a file in it, cannot be read.
    """
    with contextlib.ExitStack() as stack:
        found: list[Lacking] = []
        every: list[Left] = []
        for directory in directories:
            for left in left_open(directory):
                header = read_header(left.path)
                if header is None or header.crawl != crawl:
                    left.release()
                    continue
                every.append(left)
                stack.callback(left.release)
                written = left.path.stat().st_mtime
                killed = time.time() - written < SURE
                found += [
                    Lacking(path, header, partitions, killed)
                    for path in (*_before(left.path, header), left.path)
                ]
        if since is not None:
            found += _closed(directories, crawl, partitions, since, found)
        yield found, every


def _before(path: Path, header: Header) -> list[Path]:
    """The journal that its process has filled before *path*, if there is one."""
    found = _SERIAL.search(path.name)
    if found is None or int(found[1]) < 2:
        return []
    name = f"*-{int(found[1]) - 1:05}-{found[2]}{SUFFIX}"
    every = [other for other in path.parent.glob(name) if other.is_file()]
    return [other for other in every if read_header(other) == header]


def _closed(
    directories: Sequence[Path],
    crawl: tuple[str, str],
    partitions: int,
    since: float,
    left: list[Lacking],
) -> list[Lacking]:
    headers: dict[Path, Header] = {}
    for directory in directories:
        for path in sorted(directory.iterdir()):
            if path.name.endswith((SUFFIX, SUFFIX + OPEN)):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    header = read_header(path)
                    # Of compacted ones the store has had everything for a long time.
                    if header and header.crawl == crawl and not header.compacted:
                        headers[path] = header
    known = {one.path for one in left}
    alive = {
        header.process
        for path, header in headers.items()
        if path.name.endswith(OPEN) and path not in known
    }
    found = []
    for path, header in headers.items():
        if path in known or path.name.endswith(OPEN) or header.process in alive:
            continue
        if path.stat().st_mtime >= since:
            found.append(Lacking(path, header, partitions, killed=False))
    return found


class Restoring:
    """Looks at the journals that dead nodes left in this node's directory.

    At the start, when another node has died, after the store was compared (then also
    at those that were closed lately), and before the crawl is ended.
    """

    def __init__(
        self,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        outbox: Outbox,
        *,
        directory: Path | None,
        partitions: int,
        journaled: Callable[[], Awaitable[None]],
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._outbox = outbox
        self._directory = directory
        self._partitions = partitions
        self._journaled = journaled
        self._wanted = asyncio.Event()
        self._closed_too = False
        self._one_at_a_time = asyncio.Lock()
        self.pushed = 0
        """What was pushed again."""
        self.look()

    @property
    def busy(self) -> bool:
        """Whether there is something to be looked at: the crawl must not end."""
        return self._wanted.is_set() or self._one_at_a_time.locked()

    def look(self, *, closed: bool = False) -> None:
        """Look soon; also at journals that were *closed* lately."""
        if self._directory is not None:
            self._closed_too = self._closed_too or closed
            self._wanted.set()

    async def run(self) -> None:
        """Look whenever there is a reason, until cancelled."""
        while True:
            await self._wanted.wait()
            await self.look_now()

    async def look_now(self) -> bool:
        """Look; return whether something was lacking."""
        if self._directory is None:
            return False
        before = self.pushed
        async with self._one_at_a_time:
            closed, self._closed_too = self._closed_too, False
            self._wanted.clear()
            since = time.time() - CONFIRMED_FOR if closed else None
            try:
                await self._look(self._directory, since)
            except OSError as error:
                logger.error(  # noqa: TRY400 (told by its reason alone)
                    "the journals of nodes that are gone cannot be read: %s; what the "
                    "store may have forgotten of these is not pushed again",
                    error,
                )
        return self.pushed != before

    async def _look(self, directory: Path, since: float | None) -> None:
        crawl = (self._keys.namespace, self._keys.crawl_id)
        with contextlib.ExitStack() as stack:
            found, left = await asyncio.to_thread(
                stack.enter_context,
                journals_left([directory], crawl, self._partitions, since=since),
            )
            for journal in found:
                await self._restore(journal)
            await self._journaled()
            for one in left:
                await asyncio.to_thread(one.close)

    async def _restore(self, journal: Lacking) -> None:
        await asyncio.to_thread(journal.survey)
        questions = journal.questions(self._keys)
        numbers = list(questions)
        for first in range(0, len(numbers), BATCH):
            some = numbers[first : first + BATCH]
            replies = await self._outage_retry.retry([questions[n] for n in some])
            journal.know(dict(zip(some, replies, strict=True)))
        pushes = journal.pushes()
        while some_pushes := await asyncio.to_thread(_taken, pushes):
            for partition, push in some_pushes:
                self._outbox.put_again(partition, push)
            await self._outbox.flush()
        self.pushed += journal.pushed
        for line in journal.told():
            logger.warning("%s", line)


def _taken(pushes: Iterator[tuple[int, Push]]) -> list[tuple[int, Push]]:
    return list(itertools.islice(pushes, AT_ONCE))


def restore(
    store: BlockingStore,
    crawl: StoredCrawl,
    directories: Sequence[Path],
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[Lacking], list[str]]:
    """Push what the store lacks of the journals in *directories*, those closed too.

    The crawl is kept open meanwhile. *progress* is told how many were looked at.
    Returns the journals, and a line about each partition that is set aside: what is
    pushed to it is held there.

    Raises:
        ConfigurationError: There are none of this crawl, or they cannot be read.
        CrawlClosed: It has ended.
        CrawlLost: The store has lost a part of it: it is to be rebuilt.
        PushForgotten: The store has gone back meanwhile.
    """
    keys = crawl.keys
    names = (keys.namespace, keys.crawl_id)
    seeder = Seeder(store, keys, seen_config(crawl.config))
    lock = SeedLock(store, keys, "journals", f"journals-{secrets.token_hex(8)}")
    lock.hold(0)
    try:
        count = crawl.config.partitions
        with journals_left(directories, names, count, since=0.0) as (found, left):
            if not found:
                raise _none_left(keys, directories)
            for looked_at, journal in enumerate(found, 1):
                _push_lacking(store, keys, journal, seeder, lock)
                progress(looked_at)
            seeder.leave()
            for one in left:
                one.close()
    except OSError as error:
        raise ConfigurationError(str(error)) from None
    finally:
        lock.done()
    return found, seeder.holding.told()


def _none_left(keys: CrawlKeys, directories: Sequence[Path]) -> ConfigurationError:
    where = ", ".join(map(str, directories))
    return ConfigurationError(
        f"there is no journal of the crawl {keys.crawl_id} in {where} whose node is "
        "gone"
    )


def _push_lacking(
    store: BlockingStore,
    keys: CrawlKeys,
    journal: Lacking,
    seeder: Seeder,
    lock: SeedLock,
) -> None:
    """Have *seeder* push what the store lacks of *journal*, holding *lock*."""
    journal.survey()
    questions = journal.questions(keys)
    replies = store.run(list(questions.values()))
    journal.know(dict(zip(questions, replies, strict=True)))
    pushes = journal.pushes()
    while some := _taken(pushes):
        seeder.push(some)
        lock.hold(0)
