"""Import captures of other crawls into a collection's digest index.

What always holds:

1.  An import may be killed anywhere and repeated, also by two processes at once: a
    digest is added where there is none, and a source's counts are added when all of it
    is in the index, by the one step that says so. The result is the same.
2.  A source is read to its end before anything of it is in the index.
3.  The WACZ index of a capture is the place of its file in the crawl's list; it
    is taken when the import of the file begins. (``compat``: it is 0, and the
    file is listed when it is done, as Browsertrix does.)
4.  A source that cannot be used is named and left out; the others are imported.
"""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frontier.collection.commit import has_rounds
from frontier.collection.foreign_indexes import Capture, cdx, conserved, crawl_log
from frontier.collection.open_source import opened
from frontier.collection.sources import Kind
from frontier.collection.summary import counted, filename, names, note_change
from frontier.errors import SourceBroken
from frontier.store.client import Call
from frontier.store.scripts import (
    COLLECTION_IMPORT,
    COLLECTION_IMPORTED,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from frontier.collection.open_source import Bar, Opened
    from frontier.collection.sources import Source
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys


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


@dataclass(slots=True)
class _Counts:
    """What one source has."""

    lines: int = 0
    originals: int = 0
    revisits: int = 0
    conserved: int = 0
    """Bytes that its revisits leave out, where that is known."""
    unknown: int = 0
    """Revisits of which it was not known when they were read."""
    redundant: int = 0
    """Originals whose payload was in the index before."""
    wasted: int = 0
    """The bytes of these."""


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
        self._named: dict[str, frozenset[str | None]] = {}

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
        new = self._new(sources)
        for number, source in enumerate(new):
            self._set_progress(number / len(new))
            try:
                self._import(source)
            except SourceBroken as error:
                self.broken(error)
        if removal or self._config.compat:
            kept = {s.crawl_id for s in sources if s.listed or not self._config.compat}
            self._count_removed(kept)
        self._set_progress(1)
        note_change(self._store, self._keys)
        return self.done

    def _new(self, sources: Sequence[Source]) -> list[Source]:
        """Those of *sources* that are not in the index."""
        done = self._keys.done()
        known = self._store.run(
            [Call.command("SISMEMBER", done, source.name) for source in sources]
        )
        new: dict[str, Source] = {}
        for source, there in zip(sources, known, strict=True):
            if there and source.name in self._names_in(source.crawl_id):
                self.done.known += 1
            elif there:
                reason = f"{source.name!r} is in the index, of another crawl than"
                self.broken(SourceBroken(source.url, f"{reason} {source.crawl_id}"))
            elif source.name in new:
                self.broken(SourceBroken(source.url, f"a second {source.name!r}"))
            else:
                new[source.name] = source
        return list(new.values())

    def _names_in(self, crawl_id: str) -> frozenset[str | None]:
        """The names of the crawl's sources, as they are at the first question."""
        found = self._named.get(crawl_id)
        if found is None:
            entries = Call.command("LRANGE", self._keys.waczs(crawl_id), 0, -1)
            found = frozenset(map(filename, self._store.call(entries)))
            self._named[crawl_id] = found
        return found

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
            counts = _Counts()
            is_new = self._put(source, []) is not None
            if is_new:
                with self._bar(source.name, lines) as progress:
                    self._add(source, found, counts, progress)
            if not is_new or not self._finish(source, found, counts):
                self.done.known += 1
                return
        self.done.sources += 1
        self.done.lines += counts.lines
        self.done.originals += counts.originals
        self.done.revisits += counts.revisits

    def _put(self, source: Source, originals: Sequence[Capture]) -> list[int] | None:
        """Put *originals* into the index; `redundant` and `wasted` of them.

        ``None`` if the source is in the index.
        """
        keys, crawl_id = self._keys, source.crawl_id
        entry = json.dumps({"filename": source.name}, separators=(",", ":"))
        given: list[str | int] = [crawl_id, source.name, entry]
        given += [int(not self._config.compat), FREE]
        for digest, date, url, size, _ in originals:
            given += (digest, f"{date} {url} {size}", size)
        names = [keys.alldupes(), keys.crawl(crawl_id), keys.importing()]
        names += [keys.done(), keys.waczs(crawl_id)]
        reply = self._store.call(Call.to(COLLECTION_IMPORT, names, given))
        return None if reply is None else [int(each) for each in reply]

    def _add(
        self,
        source: Source,
        found: Opened,
        counts: _Counts,
        progress: Callable[[int], None],
    ) -> None:
        """Put what *source* has into the index, and count it."""
        # One chunk is read while the store takes the one before.
        with Behind() as behind:
            for chunk in self._chunks(source, found, counts, self._wrong):
                behind.run(self._apply, source, counts, chunk)
                progress(counts.lines)
        if not counts.unknown:
            return
        # Some revisits come before their original. A repetition, which finds these
        # originals at once, has to count the same: so all are counted anew.
        counts.conserved = 0
        for chunk in self._chunks(source, found, _Counts(), lambda *_: None):
            self._count_revisits(counts, chunk)

    def _chunks(
        self,
        source: Source,
        found: Opened,
        counts: _Counts,
        wrong: Callable[[str, int, bytes | None, Exception], None],
    ) -> Iterator[list[Capture]]:
        """The captures of *source*, some at a time; *counts* has the lines."""
        read = crawl_log if source.kind is Kind.CRAWL_LOG else cdx
        chunk: list[Capture] = []
        for name, lines in found.texts.blocks():
            for line in lines:
                counts.lines += 1
                try:
                    capture = read(line) if line is not None else _too_long()
                except (ValueError, RecursionError) as error:
                    wrong(name, counts.lines, line, error)
                    continue
                if capture is not None:
                    chunk.append(capture)
                if len(chunk) == CHUNK:
                    yield chunk
                    chunk = []
        if chunk:
            yield chunk

    def _wrong(
        self, name: str, number: int, line: bytes | None, error: Exception
    ) -> None:
        self.done.wrong_lines += 1
        told = f"{name}, line {number}: {error}: {(line or b'')[:80]!r}"
        if len(self.done.wrong) < NAMED:
            self.done.wrong.append(told)
            self._say(f"skipped: {told}")

    def _apply(self, source: Source, counts: _Counts, chunk: list[Capture]) -> None:
        """Put the originals of *chunk* into the index, and count all of it."""
        originals = [each for each in chunk if not each.revisit]
        reply = self._put(source, originals)
        if reply:  # else another process has imported it meanwhile
            counts.redundant += reply[0]
            counts.wasted += reply[1]
        counts.originals += len(originals)
        counts.revisits += len(chunk) - len(originals)
        self._count_revisits(counts, chunk)

    def _count_revisits(self, counts: _Counts, chunk: list[Capture]) -> None:
        revisits = [each for each in chunk if each.revisit]
        left_out, unknown = conserved(self._store, self._keys, revisits)
        counts.conserved += left_out
        counts.unknown += unknown

    def _finish(self, source: Source, found: Opened, counts: _Counts) -> bool:
        """Say that *source* is in the index; whether it was not there before."""
        keys, crawl_id = self._keys, source.crawl_id
        if self._config.compat:
            entry, size = source.entry(), source.size or 0
        else:
            entry, size = source.entry(found.size, found.sha256), found.size or 0
        names = [keys.importing(), keys.done(), keys.committed(), keys.waczs(crawl_id)]
        names += [keys.counts(crawl_id), keys.allcounts()]
        given: list[str | int] = [source.name, crawl_id, entry]
        given += [int(not self._config.compat)]
        given += [counts.originals + counts.revisits, counts.revisits]
        given += [counts.conserved, size, counts.redundant, counts.wasted]
        return bool(self._store.call(Call.to(COLLECTION_IMPORTED, names, given)))

    def _set_progress(self, part: float) -> None:
        shown = f"{part:.6g}"
        name = self._keys.allcounts()
        self._store.call(Call.command("HSET", name, "updateProgress", shown))

    def _count_removed(self, kept: set[str]) -> None:
        keys = self._keys
        members = self._store.call(Call.command("SMEMBERS", keys.committed()))
        removed = [crawl_id for crawl_id in names(members) if crawl_id not in kept]
        sizes = [counted(self._store, keys.counts(each)) for each in removed]
        total = sum(each["totalCrawlSize"] for each in sizes)
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
