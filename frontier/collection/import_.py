"""Imports captures of other crawls into a collection's digest index.

What always holds:

1.  An import may be killed at any point and repeated, even by two processes at once:
    a digest is added only if it is not there, and a source's counts are added when all
    of it is in the index, in the one step that marks it as done. The result is the
    same.
2.  A source is read to its end before any of it is in the index: its captures wait in
    an unnamed file.
3.  The WACZ index of a capture is the place of its file in the crawl's list; the place
    is taken when the import of the file begins. (With ``compat`` it is 0, and the file
    is listed when it is done, as Browsertrix does it.)
4.  A source that cannot be used is named and left out; the others are imported.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, TYPE_CHECKING

from frontier.collection.captures_of import Known, captures_of, opened
from frontier.collection.rounds import is_uncommitted
from frontier.collection.summary import counted, filename, members, note_change
from frontier.dedupe.digest_index import decode
from frontier.errors import SourceBroken
from frontier.model import frozen
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.collection.sources import Source
    from frontier.store.keys import CollectionKeys

    Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
    """Shows progress, by name and total; its context is a function that updates it."""

CHUNK = 1_000
"""Captures that one call of the script takes; it lasts about two milliseconds."""
FREE = 1_000
"""Bytes of a redundant record that do not count as wasted: a revisit has them too."""
NAMED = 5
"""Wrong lines that are named; the others are counted."""


@dataclass(slots=True)
class Imported:
    """What an import did."""

    sources: int = 0
    known: int = 0
    """Sources that were in the index already."""
    broken: list[str] = field(default_factory=list)
    """Sources that were left out, and why."""
    originals: int = 0
    revisits: int = 0
    wrong_lines: int = 0
    """Lines that should be captures but are not."""
    wrong: list[str] = field(default_factory=list)
    """The first few of those lines, and why they are wrong."""

    @property
    def complete(self) -> bool:
        """Whether everything in the given sources is in the index."""
        return not self.broken and not self.wrong_lines


@frozen
class ImportConfig:
    """How sources are read, and in which layout they are stored."""

    compat: bool = False
    """Whether to keep the index as Browsertrix makes it, without our additions."""
    digest: str = ""
    """The algorithm for digests from WARC files, which are computed if need be."""


class Import:
    """An import into the collection *keys*; see the module's docstring."""

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

    def broken(self, error: SourceBroken) -> None:
        """Note that a source is left out."""
        self.done.broken.append(str(error))
        self._say(f"left out: {error}")

    def run(self, sources: Sequence[Source], *, removal: bool = True) -> Imported:
        """Import *sources*; with *removal* they are the whole collection.

        Crawls of the collection that have none of *sources* are then counted as
        removed: `frontier.collection.purge` would take them out.

        Raises:
            StoreUnavailable: Repeat it.
        """
        new = list(self._new(sources))
        for number, source in enumerate(new):
            self._set_progress(number / len(new))
            try:
                self._import(source)
            except SourceBroken as error:
                self.broken(error)
        compat = self._config.compat
        if removal or compat:
            self._count_removed({s.crawl_id for s in sources if s.listed or not compat})
        self._set_progress(1)
        note_change(self._store, self._keys)
        return self.done

    def _new(self, sources: Sequence[Source]) -> Iterator[Source]:
        """The *sources* that are not in the index."""
        keys, seen = self._keys, set[str]()
        asked = [Call.command("SISMEMBER", keys.done, each.name) for each in sources]
        listed = {
            (crawl_id, filename(entry))
            for crawl_id in {source.crawl_id for source in sources}
            for entry in self._store.command("LRANGE", keys.waczs(crawl_id), 0, -1)
        }
        for source, is_done in zip(sources, self._store.run(asked), strict=True):
            name, crawl_id = source.name, source.crawl_id
            if is_done and (crawl_id, name) in listed:
                self.done.known += 1
            elif is_done:
                reason = f"{name!r} is in the index, of another crawl than {crawl_id}"
                self.broken(SourceBroken(source.url, reason))
            elif name in seen:
                self.broken(SourceBroken(source.url, f"a second {name!r}"))
            else:
                seen.add(name)
                yield source

    def _import(self, source: Source) -> None:
        if is_uncommitted(self._store, self._keys, source.crawl_id):
            reason = f"its crawl {source.crawl_id} is not committed yet"
            raise SourceBroken(source.url, reason)
        config = self._config
        with (
            tempfile.TemporaryFile(prefix="frontier-") as spool,
            opened(source, hashed=not config.compat) as found,
        ):
            file, size, sha256 = found
            with self._bar(source.name, size) as progress:
                for each in captures_of(
                    source, file, self._wrong, config.digest, progress
                ):
                    spool.write(" ".join(map(str, each)).encode() + b"\n")
            counts = self._add(source, spool)
            if counts is None or not self._finish(source, size, sha256, counts):
                self.done.known += 1
                return
        self.done.sources += 1
        self.done.revisits += counts["dupeUrls"]
        self.done.originals += counts["totalUrls"] - counts["dupeUrls"]

    def _wrong(self, where: str, text: bytes, error: Exception) -> None:
        self.done.wrong_lines += 1
        told = f"{where}: {error}: {text!r}"
        if len(self.done.wrong) < NAMED:
            self.done.wrong.append(told)
            self._say(f"skipped: {told}")

    def _add(self, source: Source, spool: IO[bytes]) -> Counter[str] | None:
        """Put the captures in *spool* into the index, and count them.

        ``None`` if the source is in the index already, even if another process has just
        imported it. All originals are put first: so a repeated import counts the same,
        wherever the revisits of an original are.
        """
        counts: Counter[str] = Counter()
        if not self._put(source, [], counts):
            return None
        for chunk in _chunks(spool):
            originals = [each for each in chunk if not each.revisit]
            if not self._put(source, originals, counts):
                return None
            counts["totalUrls"] += len(chunk)
            counts["dupeUrls"] += len(chunk) - len(originals)
        for chunk in _chunks(spool):
            revisits = [each for each in chunk if each.revisit]
            counts["conservedSize"] += conserved(self._store, self._keys, revisits)
        return counts

    def _put(
        self, source: Source, originals: Sequence[Known], counts: Counter[str]
    ) -> bool:
        """Put *originals* into the index; false if their source is in it already."""
        keys, crawl_id = self._keys, source.crawl_id
        entry = json.dumps({"filename": source.name}, separators=(",", ":"))
        given: list[str | int] = [crawl_id, source.name, entry]
        given += [int(not self._config.compat), FREE]
        for digest, date, url, size, _ in originals:
            given += (digest, f"{date} {url} {size}", size)
        names = [keys.alldupes, keys.crawl(crawl_id), keys.importing]
        names += [keys.done, keys.waczs(crawl_id)]
        reply = self._store.call(Call.to("collection_import", names, given))
        for name, more in zip(("redundant", "wasted"), reply or (), strict=False):
            counts[name] += int(more)
        return reply is not None

    def _finish(
        self, source: Source, size: int, sha256: str, counts: Counter[str]
    ) -> bool:
        """Mark *source* as in the index; whether it was not marked before."""
        keys, crawl_id = self._keys, source.crawl_id
        if self._config.compat:
            entry, size = source.entry(), source.size or 0
        else:
            entry = source.entry(size, sha256)
        names = [keys.importing, keys.done, keys.committed, keys.waczs(crawl_id)]
        names += [keys.counts(crawl_id), keys.allcounts]
        given: list[str | int] = [source.name, crawl_id, entry]
        given += [int(not self._config.compat)]
        figures = ("totalUrls", "dupeUrls", "conservedSize")
        given += [*(counts[name] for name in figures), size]
        given += [counts["redundant"], counts["wasted"]]
        return bool(self._store.call(Call.to("collection_imported", names, given)))

    def _set_progress(self, part: float) -> None:
        name = self._keys.allcounts
        self._store.command("HSET", name, "updateProgress", f"{part:.6g}")

    def _count_removed(self, kept: set[str]) -> None:
        keys = self._keys
        removed = set(members(self._store, keys.committed)) - kept
        sizes = (counted(self._store, keys.counts(each)) for each in removed)
        total = sum(each["totalCrawlSize"] for each in sizes)
        facts = ("removedCrawls", len(removed), "removedCrawlSize", total)
        self._store.command("HSET", keys.allcounts, *facts)


def _chunks(spool: IO[bytes]) -> Iterator[list[Known]]:
    spool.seek(0)
    while lines := list(islice(spool, CHUNK)):
        fields = (line.decode().split() for line in lines)
        yield [Known(d, t, u, int(n), r == "True") for d, t, u, n, r in fields]


def conserved(
    store: BlockingStore, keys: CollectionKeys, revisits: Sequence[Known]
) -> int:
    """The bytes that *revisits* save, as far as their originals are in the index."""
    if not revisits:
        return 0
    wanted = [each.digest for each in revisits]
    owners = store.command("HMGET", keys.alldupes, *wanted)
    crawls = [(owner or b"").decode("utf-8", "replace") for owner in owners]
    asked = zip(crawls, wanted, strict=True)
    values = store.run([Call.command("HGET", keys.crawl(c), d) for c, d in asked])
    originals = [decode(value or b"") for value in values]
    pairs = zip(originals, revisits, strict=True)
    return sum(max(0, found.length - each.size) for found, each in pairs if found)
