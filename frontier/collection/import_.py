"""Import captures of other crawls into a collection's digest index.

What always holds:

1.  One step of the store changes lines of a source, their counts, and the progress of
    the import. So an import may be killed anywhere and repeated, also by two processes
    at once: nothing is counted twice, and nothing is left out.
2.  A source is read to its end before anything of it is in the index.
3.  The WACZ index of a capture is the place of its file in the crawl's list; it
    is taken when the import of the file begins. (``compat``: it is 0, and the
    file is listed when it is done, as Browsertrix does.)
4.  A source that cannot be used is named, left out of the index and of the
    queue, and the others are imported.
5.  The queue has an entry for a source from before its import begins until it is
    in the index, or was found to be broken. It only shows people, and the next
    import, what is left.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from frontier.collection.commit import has_rounds
from frontier.collection.foreign_indexes import (
    Capture,
    cdx,
    crawl_log,
    match_all,
    resolve,
    some_wait,
)
from frontier.collection.open_source import opened
from frontier.collection.sources import Kind, from_queue
from frontier.collection.summary import queued_name
from frontier.errors import SourceBroken
from frontier.store.client import Call
from frontier.store.scripts import (
    COLLECTION_BEGIN,
    COLLECTION_IMPORT,
    COLLECTION_IMPORTED,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    from frontier.collection.open_source import Bar, Opened
    from frontier.collection.sources import Source
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys


class Queue:
    """The queue of the collection *keys*."""

    def __init__(self, store: BlockingStore, keys: CollectionKeys) -> None:
        self._store = store
        self._keys = keys

    def sources(
        self, root: Path, broken: Callable[[SourceBroken], None]
    ) -> list[Source]:
        """What is in it, the oldest first; what leads out of *root* is *broken*."""
        found = []
        for text in reversed(self._texts()):
            try:
                found.append(from_queue(text, root))
            except SourceBroken as error:
                broken(error)
        return found

    def known(self, sources: Sequence[Source]) -> list[bool]:
        """Which of *sources* are in the index."""
        return self._in_the_index([source.name for source in sources])

    def add(self, sources: Sequence[Source]) -> None:
        """Queue *sources*, but those that are queued."""
        keys = self._keys
        added = self._store.run(
            [Call.command("SADD", keys.queued(), s.name) for s in sources]
        )
        self._store.run(
            [
                Call.command("LPUSH", keys.queue(), source.queued())
                for source, first in zip(sources, added, strict=True)
                if first
            ]
        )

    def remove(self, text: str | bytes, name: str) -> None:
        """Take the entry *text*, of the source *name*, off the queue."""
        self._store.run(
            [
                Call.command("LREM", self._keys.queue(), 0, text),
                Call.command("SREM", self._keys.queued(), name),
            ]
        )

    def tidy(self) -> None:
        """Take off what is in the index, however it came there."""
        named = [(text, name) for text in self._texts() if (name := queued_name(text))]
        known = self._in_the_index([name for _, name in named])
        for (text, name), there in zip(named, known, strict=True):
            if there:
                self.remove(text, name)

    def _texts(self) -> list[bytes]:
        return list(self._store.call(Call.command("LRANGE", self._keys.queue(), 0, -1)))

    def _in_the_index(self, names: Sequence[str]) -> list[bool]:
        done = self._keys.done()
        replies = self._store.run([Call.command("SISMEMBER", done, n) for n in names])
        return [bool(reply) for reply in replies]


CHUNK = 1_000
"""Lines that one call of the script takes; it lasts about two milliseconds."""
FREE = 1_000
"""Bytes of a redundant record that are not counted: a revisit has them too."""
NAMED = 5
"""Wrong lines that are named, of each source; the others are counted."""


@dataclass(slots=True)
class Imported:
    """What an import did."""

    sources: int = 0
    known: int = 0
    """Sources that were in the index."""
    broken: list[str] = field(default_factory=list)
    """Sources that were left out, and why."""
    lines: int = 0
    originals: int = 0
    revisits: int = 0
    wrong_lines: int = 0
    """Lines that are no captures but should be."""
    wrong: list[str] = field(default_factory=list)
    """The first few of them, and why."""

    @property
    def complete(self) -> bool:
        """Whether everything that was given is in the index."""
        return not self.broken and not self.wrong_lines


@dataclass(frozen=True, slots=True)
class ImportConfig:
    """How sources are read, and in which layout they are stored."""

    compat: bool = False
    """Whether the index stays as Browsertrix makes it, without what it lacks."""
    verify: bool = True
    """Whether the hash of a local file is compared with its manifest's."""
    digest: str = ""
    """The algorithm that digests of WARC files are to be of, computed if need be."""


class Import:
    """An import into the collection *keys*; see the module."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CollectionKeys,
        config: ImportConfig | None = None,
        *,
        say: Callable[[str], None] = lambda _: None,
        bar: Bar = lambda _, __: nullcontext(lambda _: None),
    ) -> None:
        self.done = Imported()
        self._store = store
        self._keys = keys
        self._config = config or ImportConfig()
        self._say = say
        self._bar = bar
        self._queue = Queue(store, keys)
        self._waiting = False
        """Whether there may be revisits that came before their original."""

    def broken(self, error: SourceBroken) -> None:
        """Note that a source is left out."""
        self.done.broken.append(str(error))
        self._say(f"left out: {error}")

    def run(self, sources: Sequence[Source], *, removal: bool = True) -> Imported:
        """Import *sources*; with *removal* they are all that there should be.

        Crawls of the collection that none of them has are then counted as
        removed: `frontier.collection.purge` would take them out.

        Raises:
            StoreUnavailable: Repeat it.
        """
        waiting = self._new(sources)
        self._waiting = some_wait(self._store, self._keys)
        for number, source in enumerate(waiting):
            self._set_progress(number / len(waiting))
            try:
                self._import(source)
            except SourceBroken as error:
                self.broken(error)
                self._queue.remove(source.queued(), source.name)
        self._queue.tidy()
        if removal or self._config.compat:
            kept = {s.crawl_id for s in sources if s.listed or not self._config.compat}
            self._count_removed(kept)
        self._set_progress(1)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        stamp = now.replace("+00:00", "Z")
        self._store.call(Call.command("SET", self._keys.updated(), stamp))
        return self.done

    def queued(self, root: Path) -> list[Source]:
        """The sources that an import has left in the queue, the oldest first.

        Those that lead to no file below *root* are left out, and named.
        """
        return self._queue.sources(root, self.broken)

    def _new(self, sources: Sequence[Source]) -> list[Source]:
        """Queue *sources*; return those that are not in the index."""
        known = self._queue.known(sources)
        named: set[str] = set()
        new = []
        for source, there in zip(sources, known, strict=True):
            if there:
                self.done.known += 1
            elif source.name in named:
                self.broken(SourceBroken(source.url, f"a second {source.name!r}"))
            else:
                named.add(source.name)
                new.append(source)
        self._queue.add(new)
        return new

    def _import(self, source: Source) -> None:
        uncommitted = self._keys.uncommitted()
        is_one = Call.command("SISMEMBER", uncommitted, source.crawl_id)
        if self._store.call(is_one) or has_rounds(
            self._store, self._keys, source.crawl_id
        ):
            reason = f"its crawl {source.crawl_id} is not committed yet"
            raise SourceBroken(source.url, reason)
        with opened(
            source,
            verify=self._config.verify,
            hashed=not self._config.compat,
            digest=self._config.digest,
            bar=self._bar,
        ) as found:
            lines = found.texts.verify()
            position = self._begin(source)
            if position is None:
                self.done.known += 1
                return
            with self._bar(source.name, lines) as progress:
                self._apply_all(source, found, position, progress)
            self._finish(source, found)
        self.done.sources += 1

    def _begin(self, source: Source) -> tuple[int, int] | None:
        """The source's WACZ index, and how many of its lines are done."""
        keys = self._keys
        reply = self._store.call(
            Call.to(
                COLLECTION_BEGIN,
                [keys.importing(), keys.done(), keys.waczs(source.crawl_id)],
                [
                    source.name,
                    json.dumps({"filename": source.name}, separators=(",", ":")),
                    int(not self._config.compat),
                ],
            )
        )
        return None if reply is None else _position(reply)

    def _apply_all(
        self,
        source: Source,
        found: Opened,
        position: tuple[int, int],
        progress: Callable[[int], None],
    ) -> None:
        read = crawl_log if source.kind is Kind.CRAWL_LOG else cdx
        index, begun = position
        at = number = 0
        chunk: list[Capture] = []
        # One chunk is read while the store takes the one before.
        with Behind() as behind:
            for name, lines in found.texts.blocks():
                for line in lines:
                    number += 1
                    if number <= begun:
                        at = number
                        continue
                    try:
                        capture = read(line) if line is not None else _too_long()
                    except (ValueError, RecursionError) as error:
                        self._wrong(name, number, line, error)
                    else:
                        if capture is not None:
                            chunk.append(capture)
                    if number - at == CHUNK:
                        behind.run(self._apply, source, index, at, number, chunk)
                        at, chunk = number, []
                        progress(number)
            if number > at:
                behind.run(self._apply, source, index, at, number, chunk)
        self.done.lines += number

    def _wrong(
        self, name: str, number: int, line: bytes | None, error: Exception
    ) -> None:
        self.done.wrong_lines += 1
        told = f"{name}, line {number}: {error}: {(line or b'')[:80]!r}"
        if len(self.done.wrong) < NAMED:
            self.done.wrong.append(told)
            self._say(f"skipped: {told}")

    def _apply(
        self, source: Source, index: int, before: int, after: int, chunk: list[Capture]
    ) -> None:
        """Put *chunk*, the captures of the lines up to *after*, into the index."""
        keys, crawl_id = self._keys, source.crawl_id
        originals = [c for c in chunk if not c.revisit]
        revisits = [c for c in chunk if c.revisit]
        conserved, waiting = resolve(self._store, keys, chunk, self._rev_name)
        if self._waiting and originals:
            first = {self._rev_name(c): c.size for c in reversed(originals)}
            match_all(self._store, keys, first)
        applied = self._store.call(
            Call.to(
                COLLECTION_IMPORT,
                [
                    keys.alldupes(),
                    keys.crawl(crawl_id),
                    keys.counts(crawl_id),
                    keys.allcounts(),
                    keys.importing(),
                    *self._waiting_keys(waiting),
                ],
                [
                    crawl_id,
                    source.name,
                    f"{index} {before}",
                    f"{index} {after}",
                    len(revisits),
                    conserved,
                    FREE,
                    *(capture.size for capture in waiting),
                    *_entries(index, originals),
                ],
            )
        )
        self._waiting = self._waiting or bool(waiting)
        if applied:
            self.done.originals += len(originals)
            self.done.revisits += len(revisits)

    def _waiting_keys(self, waiting: list[Capture]) -> list[str]:
        """The keys that count the revisits of *waiting* until their original comes."""
        names = map(self._rev_name, waiting)
        made = (
            (self._keys.rev_count(name), self._keys.rev_size(name)) for name in names
        )
        return list(chain.from_iterable(made))

    def _rev_name(self, capture: Capture) -> str:
        return capture.given if self._config.compat else capture.digest

    def _finish(self, source: Source, found: Opened) -> None:
        keys, crawl_id = self._keys, source.crawl_id
        if self._config.compat:
            entry, size = source.entry(), source.size or 0
        else:
            entry, size = source.entry(found.size, found.sha256), found.size or 0
        self._store.call(
            Call.to(
                COLLECTION_IMPORTED,
                [
                    keys.importing(),
                    keys.done(),
                    keys.committed(),
                    keys.waczs(crawl_id),
                    keys.counts(crawl_id),
                    keys.allcounts(),
                    keys.queue(),
                    keys.queued(),
                ],
                [
                    source.name,
                    crawl_id,
                    entry,
                    int(not self._config.compat),
                    size,
                    source.queued(),
                ],
            )
        )

    def _set_progress(self, part: float) -> None:
        shown = f"{part:.6g}"
        name = self._keys.allcounts()
        self._store.call(Call.command("HSET", name, "updateProgress", shown))

    def _count_removed(self, kept: set[str]) -> None:
        keys = self._keys
        members = self._store.call(Call.command("SMEMBERS", keys.committed()))
        ids = Counter(m.decode("utf-8", "replace") for m in members)
        removed = sorted(set(ids) - kept)
        sizes = self._store.run(
            [
                Call.command("HGET", keys.counts(crawl_id), "totalCrawlSize")
                for crawl_id in removed
            ]
        )
        total = sum(int(size) for size in sizes if size and size.isdigit())
        self._store.call(
            Call.command(
                "HSET",
                keys.allcounts(),
                "removedCrawls",
                len(removed),
                "removedCrawlSize",
                total,
            )
        )


class Behind:
    """Runs one call at a time in a thread, and raises what the last one raised."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "frontier-import")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self._wait()
        finally:
            self._thread.shutdown()

    def run(self, call: Callable[..., None], *arguments: object) -> None:
        """Run *call* when the one before has ended; do not wait for it."""
        self._wait()
        self._last = self._thread.submit(call, *arguments)

    def _wait(self) -> None:
        if self._last is not None:
            self._last.result()


def _too_long() -> Capture:
    raise ValueError("it is too long")


def _entries(index: int, originals: list[Capture]) -> list[str | int]:
    """What the script stores of *originals*: digest, value and length of each."""
    flat: list[str | int] = []
    for digest, _, date, url, size, _ in originals:
        flat += (digest, f"{index} {date} {url} {size}", size)
    return flat


def _position(text: bytes) -> tuple[int, int]:
    index, _, lines = text.decode("ascii", "replace").partition(" ")
    return int(index), int(lines)
