"""Restoring the frontier of a crawl whose store was lost, from nodes' journals.

What always holds:

1.  What any node pushed and none acked becomes ready; everything that was pushed
    becomes seen.
2.  No node can enter the crawl before it is whole. A rebuild that broke off can be
    repeated. Only requests that skip the seen test, those with `dont_filter`, may then
    be in the queue twice.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from typing_extensions import override

from frontier.cluster.crawls import lost_partitions, mark_now, open_call
from frontier.cluster.job import Job
from frontier.errors import CodecError, ConfigurationError
from frontier.files import OPEN
from frontier.node.host_addresses import TYPED
from frontier.node.journal.entries import (
    Acked,
    Bad,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    is_torn,
    journals_in,
    read,
    whole_bytes,
)
from frontier.queue.item import decode
from frontier.queue.priority import split_name
from frontier.queue.push import FORCE, FORCED, NEW, TEST, Push
from frontier.seeds.seeder import Seeder
from frontier.seen.config import SeenConfig, seen_config
from frontier.seen.seen_set import checked_shape
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, RegistryKeys, check_schema
from frontier.urls.addresses import SAID, class_of_host
from frontier.urls.fingerprint import LEAST_MARK
from frontier.urls.split import split

START = b"is_start_request"
"""In the item of a seed: a key of its ``meta``, which Scrapy sets."""
REBUILDING = "rebuilding"
"""State of a crawl that no node can enter yet."""
MAX_WAITING = 20_000
"""URLs that are collected before they are sent, partition by partition."""


ANEW = (
    "pages, bytes, statuses and errors of the report, and of each node, start at 0",
    "limits of the crawl, and quotas of its hosts, start at 0",
)
"""What a rebuilt crawl has lost in any case, as no journal has it."""


@dataclass(slots=True)
class Outcome:
    """What a rebuild found and restored."""

    crawl_id: str
    born: str
    """The mark that distinguishes it from other crawls of its name."""
    journals: int = 0
    """Files of the crawl."""
    nodes: int = 0
    """Nodes that wrote them."""
    pushed: int = 0
    """Entries about pushes; a URL may have several."""
    acked: int = 0
    """Entries about requests that are done."""
    done: int = 0
    """Requests that are restored as done."""
    ready: int = 0
    """Requests that are to be fetched."""
    waiting: int = 0
    """Requests that are to be fetched when they are due."""
    seen: int = 0
    """URLs that count as seen now."""
    bad: list[Bad] = field(default_factory=list)
    """What was skipped."""
    anew: list[str] = field(default_factory=lambda: list(ANEW))
    """What starts at 0, a line each: no journal has it."""
    torn: list[Bad] = field(default_factory=list)
    """Ends of journals whose nodes were killed as they wrote; no page is lost."""


def of_one_birth(
    found: Sequence[tuple[Path, Header]], born: str
) -> list[tuple[Path, Header]]:
    """Those of *found* that are of the crawl with the mark *born*, if that is given.

    Raises:
        ConfigurationError: They are of several crawls of one name, or none of that one.
    """
    births: dict[str, list[Path]] = {}
    for path, header in found:
        births.setdefault(header.born, []).append(path)
    if len(births) == 1 and not born:
        born = next(iter(births))
    if born not in births:
        each = "; ".join(
            f"{one}: {len(paths):,} journals, the last {max(p.name for p in paths)}"
            for one, paths in births.items()
        )
        name = found[0][1].crawl_id
        raise ConfigurationError(
            f"there are journals of {len(births)} crawls that were called {name}; say "
            f"with --born which of them is to be restored, of {each}"
            if not born
            else f"there is no journal of a crawl {name} with --born {born}, but {each}"
        )
    return [(path, header) for path, header in found if header.born == born]


class _Restorer(Seeder):
    """Pushes what journals have, and counts all that was not seen before."""

    marked = 0

    @override
    def _count(self, pushes: Sequence[Push], verdicts: str) -> None:
        for push, verdict in zip(pushes, verdicts, strict=True):
            self.marked += push.tag is not None and verdict in (NEW, FORCED)


class Rebuild:
    """Restores one crawl; if there were several of its name, the one with mark *born*.

    None of its nodes may run.

    Raises:
        ConfigurationError: There are no journals of it, or they are of several crawls.
    """

    def __init__(
        self,
        store: BlockingStore,
        namespace: str,
        crawl_id: str,
        directories: Sequence[Path],
        born: str = "",
    ) -> None:
        self._store = store
        self._keys = CrawlKeys(namespace, crawl_id)
        nameless: list[Bad] = []
        found = of_one_birth(self._journals(directories, nameless), born)
        self._paths = [path for path, _ in found]
        self._header = found[0][1]
        jobs = [Job.read(h.job.encode()) for _, h in found if h.job]
        self._job = jobs[0] if jobs else None
        config = checked_shape(dict(self._header.shape))
        self._partitions = config.partitions
        self._tiers: SeenConfig = seen_config(config)
        self._waiting: list[tuple[int, Push]] = []
        self._acked: Counter[bytes] = Counter()
        self._again_due: dict[bytes, int] = {}
        """When each request that was put back is due, by digest: the latest time."""
        self._done: set[int] = set()
        self._forced: set[int] = set()
        self._done_in: Counter[int] = Counter()
        self._spelled: set[str] = set()
        nodes = {header.node_id for _, header in found}
        facts = (self._header.born, len(found), len(nodes))
        self.outcome = Outcome(crawl_id, *facts, bad=nameless)

    def _journals(
        self, directories: Sequence[Path], nameless: list[Bad]
    ) -> list[tuple[Path, Header]]:
        """The crawl's journals; *nameless* gets those that do not say whose they are.

        A journal whose node was killed before it had written a whole entry is skipped.
        """
        found, name = [], (self._keys.namespace, self._keys.crawl_id)
        try:
            for path, header in journals_in(directories):
                if header is not None and header.name == name:
                    found.append((path, header))
                elif header is None and (
                    not path.name.endswith(OPEN) or whole_bytes(path)
                ):
                    why = "has no header of this version; nothing of it is read"
                    nameless.append(Bad(str(path), 0, path.stat().st_size, why))
        except OSError as error:
            raise ConfigurationError(f"{error.filename}: {error.strerror}") from None
        if not found:
            where = ", ".join(map(str, directories))
            raise ConfigurationError(
                f"there is no journal of the crawl {name[1]} in {where}"
            )
        return found

    def run(self, progress: Callable[[int], None] = lambda _: None) -> Outcome:
        """Restore it; *progress* is told how many journals were read, each three times.

        Raises:
            ConfigurationError: The crawl is in the store.
        """
        self._begin()
        read_files = 0
        for one_pass in (self._count, self._find_done, self._restore):
            for path in self._paths:
                one_pass(path)
                read_files += 1
                progress(read_files)
            self._flush()  # a pass relies on what the one before has marked
        self.outcome.seen = self._seeder.marked
        self.outcome.ready = self._counted("ready")
        self.outcome.waiting = self._counted("waiting")
        self._seeder.leave()
        self._end()
        return self.outcome

    def _begin(self) -> None:
        meta = self._keys.meta
        state, born, schema = self._store.command(
            "HMGET", meta, "state", "born", "schema"
        )
        if state is not None:
            check_schema(self._keys.crawl_id, schema)
        # "rebuilt": its name in the collection belongs to the store that was lost.
        facts = ("state", REBUILDING, "rebuilt", 1)
        if state is None:
            shape = json.dumps(dict(self._header.shape))
            # One by one: a script that the server has yet to load runs late.
            born = self._header.born.encode()  # its journals stay its own
            self._mark(born)
            spider = self._header.spider
            self._store.call(open_call(self._keys, shape, spider, self._job))
            self._store.command("HSET", meta, *facts)
            registry = RegistryKeys(self._keys.namespace).crawls
            self._store.command("SADD", registry, self._keys.crawl_id)
        elif state != REBUILDING.encode():
            if not lost_partitions(self._store, self._keys, self._partitions):
                raise ConfigurationError(
                    f"the crawl {self._keys.crawl_id} is in the store already; "
                    "a crawl is rebuilt only where it was lost"
                )
            self._store.command("HSET", meta, *facts)
        if born:
            self._mark(born)
            mark_now(self._store, self._keys, self._partitions)
        self._seeder = _Restorer(self._store, self._keys, self._tiers)

    def _mark(self, born: bytes) -> None:
        """Use the keys of the crawl with the mark *born*."""
        self._keys = replace(self._keys, born=born.decode("utf-8", "replace"))

    def _end(self) -> None:
        calls = []
        for partition, count in self._done_in.items():
            counts = self._keys.partition(partition).counts
            # Set, not added to, so that the rebuild can be repeated.
            calls.append(Call.command("HSET", counts, "acked", count))
            calls.append(Call.command("HINCRBY", counts, "pushed", count))
        name, spider = self._keys.crawl_id, self._header.spider
        numbered = re.fullmatch(re.escape(spider) + r"-([0-9]{1,15})", name)
        if numbered:
            registry = RegistryKeys(self._keys.namespace).spider(spider)
            serial = self._store.command("HGET", registry, "serial")
            last = max(int(serial or 0), int(numbered[1]))
            calls.append(Call.command("HSET", registry, "serial", last))
            calls.append(Call.command("HSETNX", registry, "open", name))
            own = "free" if self._job is None else f"crawl:{self._job.id}"
            calls.append(Call.command("HSETNX", registry, own, name))
        meta = self._keys.meta
        if self._done_in:  # journals do not say what became of a request
            calls.append(Call.command("HSET", meta, "fetched", 1))
        calls += [
            Call.command("HSET", meta, f"address:{kind}", TYPED)
            for kind in sorted(self._spelled)
        ]
        self._store.run(calls)
        # Last, and on its own: on a cluster the calls of one run have no order.
        self._store.command("HSET", self._keys.meta, "state", "open")

    def _counted(self, what: str) -> int:
        calls = [
            Call.command("HGET", self._keys.partition(number).counts, what)
            for number in range(self._partitions)
        ]
        return sum(int(count or 0) for count in self._store.run(calls))

    def _entries(self, path: Path) -> Iterator[Pushed | Acked | PutAgain | Bad]:
        for entry in read(path):
            if isinstance(entry, Pushed | Acked | PutAgain):
                if entry.partition >= self._partitions:
                    yield Bad(str(path), 0, 0, f"has a partition {entry.partition}")
                    continue
                yield entry
            elif isinstance(entry, Bad):
                yield entry

    def _count(self, path: Path) -> None:
        for entry in self._entries(path):
            if isinstance(entry, Bad):
                torn = is_torn(entry)
                (self.outcome.torn if torn else self.outcome.bad).append(entry)
            elif isinstance(entry, Acked):
                self._acked[entry.digest] += 1
                self.outcome.acked += 1
            else:
                self.outcome.pushed += 1
                if isinstance(entry, PutAgain):
                    self._acked[entry.digest] += 1
                    self.outcome.acked += 1
                if fault := fault_of(entry):
                    self.outcome.bad.append(Bad(str(path), 0, len(entry.item), fault))
                elif isinstance(entry, PutAgain):
                    again = digest_of(entry.queue, entry.item)
                    known = self._again_due.get(again, 0)
                    self._again_due[again] = max(known, entry.due)
                elif START in entry.item:
                    self._note_seed(entry)

    def _note_seed(self, entry: Pushed) -> None:
        """Keep the class of address that a seed spells: done seeds say it no more."""
        with contextlib.suppress(CodecError):
            host = split(decode(entry.item, entry.queue)["url"]).host
            kind = class_of_host(host)
            if kind in SAID:
                self._spelled.add(kind)

    def _find_done(self, path: Path) -> None:
        """Learn which marks are done; queue requests that skip the seen test."""
        for entry in self._pushes(path):
            if entry.forced in self._forced:
                continue  # its parent was delivered again
            if entry.forced:
                self._forced.add(entry.forced)
            digest = digest_of(entry.queue, entry.item)
            is_done = self._acked[digest] > 0
            if entry.mode == TEST:
                if is_done and entry.mark not in self._done:
                    self._done.add(entry.mark)
                    self._acked[digest] -= 1  # the other acks are of those put back
                    self._note_done(entry)
                continue
            if not is_done:
                self._push(entry, queued=True)
                continue
            self._acked[digest] -= 1
            self._note_done(entry)
            if entry.mode != FORCE:
                self._done.add(entry.mark)
                self._push(entry, queued=False)

    def _restore(self, path: Path) -> None:
        for entry in self._pushes(path, unqueued=True):
            if entry.mode == TEST:
                queued = bool(entry.queue) and entry.mark not in self._done
                self._push(entry, queued=queued)
        for again in self._put_again(path):
            digest = digest_of(again.queue, again.item)
            what = (again.partition, FORCE, LEAST_MARK, again.queue, again.item)
            entry = Pushed(*what, due=self._again_due[digest])
            if self._acked[digest] > 0:
                self._acked[digest] -= 1
                self._note_done(entry)
            else:
                self._push(entry, queued=True)

    def _put_again(self, path: Path) -> Iterator[PutAgain]:
        for entry in self._entries(path):
            if isinstance(entry, PutAgain) and not fault_of(entry):
                yield entry

    def _pushes(self, path: Path, *, unqueued: bool = False) -> Iterator[Pushed]:
        for entry in self._entries(path):
            if not isinstance(entry, Pushed) or fault_of(entry):
                continue
            if entry.queue or unqueued:
                yield entry

    def _push(self, entry: Pushed, *, queued: bool) -> None:
        """Push *entry*, or only mark it as seen."""
        push = Push(TEST, entry.mark, "", 0, b"", entry)
        if queued:
            item = b"0" + entry.item[1:]
            priority = split_name(entry.queue)[0]
            tag = None if entry.mode == FORCE else entry
            what = (entry.mark, entry.queue, priority, item, tag)
            push = Push(entry.mode, *what, entry.due, entry.forced)
        self._waiting.append((entry.partition, push))
        if len(self._waiting) >= MAX_WAITING:
            self._flush()

    def _flush(self) -> None:
        """Send what was collected."""
        self._seeder.push(self._waiting)
        self._waiting.clear()

    def _note_done(self, entry: Pushed) -> None:
        self.outcome.done += 1
        self._done_in[entry.partition] += 1


def fault_of(entry: Pushed | PutAgain) -> str:
    """Why *entry* cannot be restored; empty if it can."""
    if isinstance(entry, Pushed) and not entry.queue:
        return ""
    try:
        split_name(entry.queue)
        decode(entry.item, entry.queue)
    except CodecError as error:
        return str(error)
    return ""
