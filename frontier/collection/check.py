"""Find what is wrong in a collection's index, and repair what can be.

Other tools write to the index too, and some of them leave it half done when they are
killed. Only faults with one right answer are repaired; looking changes nothing. Memory
does not grow with the index.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from frontier.collection.purge import SHADOWS, lead_on, require_quiet
from frontier.collection.rounds import Hold
from frontier.collection.summary import counted, filename, names, scanned, size
from frontier.collection.written import counts_of
from frontier.dedupe.digest_index import decode
from frontier.status.validate import printable, whole
from frontier.store.client import Call
from frontier.store.keys import round_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

EXAMPLES = 3
"""Of each kind of fault, those that are shown."""


class Fault(StrEnum):
    """What can be wrong, as the command prints it."""

    DANGLING = "digests that lead to a crawl that does not have them"
    MISSING = "digests of committed crawls that no crawl can find"
    UNREADABLE = "entries that are not in the layout"
    PLACE = "entries whose WACZ is not in their crawl's list"
    COUNTS = "counts that are not the sums of their crawls'"
    UNCOUNTED = "crawls with fewer captures by their counts than in their WARC files"
    SIZES = "sizes of crawls that are not the sums of their files'"
    NAMES = "files of committed crawls that an import would take again"
    SHADOWS = "keys that a purge has left"


@dataclass(slots=True)
class Findings:
    """What a check has found."""

    faults: Counter[Fault] = field(default_factory=Counter)
    examples: dict[Fault, list[str]] = field(default_factory=dict)
    repaired: Counter[Fault] = field(default_factory=Counter)
    digests: int = 0
    """That were looked at."""
    unfinished: list[str] = field(default_factory=list)
    """Commits and imports that have begun and not ended."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong, or not any more."""
        return all(self.repaired[f] >= n for f, n in self.faults.items())

    def as_dict(self) -> dict[str, Any]:
        """Everything, with the short names of the faults."""
        return {
            "sound": self.sound,
            "digests": self.digests,
            "faults": {fault.name.lower(): n for fault, n in self.faults.items()},
            "repaired": {fault.name.lower(): n for fault, n in self.repaired.items()},
            "examples": {fault.name.lower(): x for fault, x in self.examples.items()},
            "unfinished": self.unfinished,
        }

    def add(self, fault: Fault, example: str) -> None:
        """Count one *fault*."""
        self.faults[fault] += 1
        shown = self.examples.setdefault(fault, [])
        if len(shown) < EXAMPLES:
            shown.append(printable(example))


class Check:
    """A check of the collection *keys*; with *repair* it is mended on the way."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CollectionKeys,
        *,
        repair: bool = False,
        progress: Callable[[int], None] = lambda _: None,
        warcs: Path | None = None,
    ) -> None:
        """With *warcs* counts are held against the WARC files in that directory."""
        self.found = Findings()
        self._store = store
        self._keys = keys
        self._repair = repair
        self._progress = progress
        self._warcs = warcs
        self._committed: list[str] = []
        self._hold: Hold | None = None

    def run(self) -> Findings:
        """Look at everything.

        Raises:
            CollectionInUse: It is to be repaired, and somebody adds to it.
        """
        if not self._repair:
            return self._look()
        with Hold(self._store, self._keys) as self._hold:
            require_quiet(self._store, self._keys, rounds=False)
            return self._look()

    def _look(self) -> Findings:
        keys = self._keys
        self._committed = self._members(keys.committed())
        self._shadows()
        self._owners()
        for crawl_id in self._committed:
            self._crawl(crawl_id)
        if self._warcs is not None:
            self._uncounted(self._warcs)
        self._sums()
        self._unfinished()
        return self.found

    def _fault(self, fault: Fault, example: str, *repairs: Call) -> None:
        self.found.add(fault, example)
        if self._repair and repairs:
            self._store.run(repairs)
            self.found.repaired[fault] += 1

    def _shadows(self) -> None:
        for name in SHADOWS:
            key = self._keys.shadow(name)
            if self._store.call(Call.command("EXISTS", key)):
                self._fault(Fault.SHADOWS, key, Call.command("UNLINK", key))

    def _owners(self) -> None:
        """Whether the crawls that digests lead to have them."""
        keys = self._keys
        for found in self._scan(keys.alldupes()):
            owned = [
                (digest, owner.decode("utf-8", "replace")) for digest, owner in found
            ]
            there = self._store.run(
                [Call.command("HEXISTS", keys.crawl(c), d) for d, c in owned]
            )
            for (digest, owner), known in zip(owned, there, strict=True):
                if not known:
                    self._dangling(digest, owner)

    def _dangling(self, digest: bytes, owner: str) -> None:
        mend = lead_on(self._store, self._keys, digest, owner, self._committed)
        text = digest.decode("utf-8", "replace")
        self._fault(Fault.DANGLING, f"{text} leads to {owner}", mend)

    def _crawl(self, crawl_id: str) -> None:
        keys = self._keys
        entries, told = self._store.run(
            [
                Call.command("LRANGE", keys.waczs(crawl_id), 0, -1),
                Call.command("HGET", keys.counts(crawl_id), "totalCrawlSize"),
            ]
        )
        for found in self._scan(keys.crawl(crawl_id)):
            self._entries(crawl_id, found, len(entries))
        total = sum(size(entry) for entry in entries)
        if entries and total != whole(told):
            self._fault(
                Fault.SIZES,
                f"{crawl_id}: {whole(told):,}, its files have {total:,}",
                Call.command("HSET", keys.counts(crawl_id), "totalCrawlSize", total),
            )
        for name in filter(None, map(filename, entries)):
            if not self._store.call(Call.command("SISMEMBER", keys.done(), name)):
                add = Call.command("SADD", keys.done(), name)
                self._fault(Fault.NAMES, f"{crawl_id}: {name}", add)

    def _entries(
        self, crawl_id: str, found: list[tuple[bytes, bytes]], files: int
    ) -> None:
        keys = self._keys
        if not found:
            return
        owners = self._store.call(
            Call.command("HMGET", keys.alldupes(), *(digest for digest, _ in found))
        )
        for (digest, value), owner in zip(found, owners, strict=True):
            example = f"{crawl_id}: {digest.decode('utf-8', 'replace')}"
            if owner is None:
                add = Call.command("HSETNX", keys.alldupes(), digest, crawl_id)
                self._fault(Fault.MISSING, example, add)
            entry = decode(value)
            if entry is None:
                self._fault(Fault.UNREADABLE, example)
            elif files and entry.wacz_index >= files:
                self._fault(Fault.PLACE, f"{example}: {entry.wacz_index}")

    def _uncounted(self, directory: Path) -> None:
        """Whether the counts lack what killed nodes have stored.

        More than the files have is no fault: some may be elsewhere.
        """
        keys = self._keys
        running = {round_of(name)[0] for name in self._members(keys.uncommitted())}
        crawls = set(self._committed) - running
        for crawl_id, has in counts_of(directory, crawls, self._store, keys).items():
            told = counted(self._store, keys.counts(crawl_id))
            more = {name: value - told[name] for name, value in has.items()}
            if more["totalUrls"] <= 0 and more["dupeUrls"] <= 0:
                continue
            self._fault(
                Fault.UNCOUNTED,
                f"{crawl_id}: {told['totalUrls']:,} captures, "
                f"its files have {has['totalUrls']:,}",
                *(
                    Call.command("HINCRBY", key, name, missing)
                    for key in (keys.counts(crawl_id), keys.allcounts())
                    for name, missing in more.items()
                    if missing > 0
                ),
            )

    def _sums(self) -> None:
        keys = self._keys
        sums: Counter[str] = Counter()
        for crawl_id in self._committed:
            sums.update(counted(self._store, keys.counts(crawl_id)))
        for name, value in counted(self._store, keys.allcounts()).items():
            if value != sums[name]:
                self._fault(
                    Fault.COUNTS,
                    f"{name} is {value:,}, its crawls have {sums[name]:,}",
                    Call.command("HSET", keys.allcounts(), name, sums[name]),
                )

    def _unfinished(self) -> None:
        keys = self._keys
        importing = names(self._store.call(Call.command("HKEYS", keys.importing())))
        uncommitted = self._members(keys.uncommitted())
        for members, what in ((uncommitted, "not committed"), (importing, "imported")):
            for name in members:
                self.found.unfinished.append(f"{printable(name)} is {what}")

    def _members(self, key: str) -> list[str]:
        return names(self._store.call(Call.command("SMEMBERS", key)))

    def _scan(self, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
        for chunk in scanned(self._store, key):
            if self._hold is not None:
                self._hold.take()
            self.found.digests += len(chunk)
            self._progress(self.found.digests)
            yield chunk
