"""Finds what is wrong in a collection's index, and repairs what can be repaired.

Other tools write to the index too, and some leave it half done when they are killed.
Only faults with one right answer are repaired; looking changes nothing. Memory does not
grow with the index.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from frontier.collection.purge import lead_on, require_quiet
from frontier.collection.rounds import Hold
from frontier.collection.summary import COUNTS, counted, names, scanned
from frontier.dedupe.digest_index import decode
from frontier.status.validate import printable
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.store.keys import CollectionKeys

EXAMPLES = 3
"""Examples that are shown of each kind of fault."""


class Fault(StrEnum):
    """What can be wrong, in the words that the command prints."""

    DANGLING = "digests that lead to a crawl that does not have them"
    MISSING = "digests of committed crawls that no crawl can find"
    UNREADABLE = "entries that are not in the layout"
    COUNTS = "counts that are not the sums of their crawls'"


@dataclass(slots=True)
class Findings:
    """What a check has found."""

    faults: Counter[Fault] = field(default_factory=Counter)
    examples: dict[Fault, list[str]] = field(default_factory=dict)
    repaired: Counter[Fault] = field(default_factory=Counter)
    digests: int = 0
    """Digests that were looked at."""
    unfinished: list[str] = field(default_factory=list)
    """Commits and imports that have begun but not ended."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong, or everything was repaired."""
        return all(self.repaired[f] >= n for f, n in self.faults.items())

    def as_dict(self) -> dict[str, Any]:
        """All findings, with short names for the faults."""
        said: dict[str, Any] = {"sound": self.sound, "digests": self.digests}
        for name in ("faults", "repaired", "examples"):
            found: dict[Fault, Any] = getattr(self, name)
            said[name] = {fault.name.lower(): value for fault, value in found.items()}
        return {**said, "unfinished": self.unfinished}

    def add(self, fault: Fault, example: str) -> None:
        """Count one *fault*."""
        self.faults[fault] += 1
        shown = self.examples.setdefault(fault, [])
        if len(shown) < EXAMPLES:
            shown.append(printable(example))


class Check:
    """A check of the collection *keys*; with *repair* it repairs on the way."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CollectionKeys,
        *,
        repair: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.found = Findings()
        self._store = store
        self._keys = keys
        self._repair = repair
        self._progress = progress
        self._committed: list[str] = []
        self._hold: Hold | None = None

    def run(self) -> Findings:
        """Look at everything.

        Raises:
            CollectionInUse: It is to be repaired, and a crawl or import adds to it.
        """
        if not self._repair:
            return self._look()
        with Hold(self._store, self._keys) as self._hold:
            require_quiet(self._store, self._keys, rounds=False)
            return self._look()

    def _look(self) -> Findings:
        keys = self._keys
        self._committed = self._members(keys.committed)
        self._owners()
        sums: Counter[str] = Counter()
        for crawl_id in self._committed:
            for found in self._scan(keys.crawl(crawl_id)):
                self._entries(crawl_id, found)
            sums.update(counted(self._store, keys.counts(crawl_id)))
        told = counted(self._store, keys.allcounts)
        for name in COUNTS:
            if told[name] != sums[name]:
                text = f"{name} is {told[name]:,}, its crawls have {sums[name]:,}"
                mend = Call.command("HSET", keys.allcounts, name, sums[name])
                self._fault(Fault.COUNTS, text, mend)
        importing = names(self._store.command("HKEYS", keys.importing))
        uncommitted = self._members(keys.uncommitted)
        for members, what in ((uncommitted, "not committed"), (importing, "imported")):
            for name in members:
                self.found.unfinished.append(f"{printable(name)} is {what}")
        return self.found

    def _fault(self, fault: Fault, example: str, *repairs: Call) -> None:
        self.found.add(fault, example)
        if self._repair and repairs:
            self._store.run(repairs)
            self.found.repaired[fault] += 1

    def _owners(self) -> None:
        """Check that the crawls that digests lead to have them."""
        store, keys = self._store, self._keys
        for found in self._scan(keys.alldupes):
            owned = [(each, owner.decode("utf-8", "replace")) for each, owner in found]
            there = store.run(
                [Call.command("HEXISTS", keys.crawl(c), d) for d, c in owned]
            )
            for (digest, owner), known in zip(owned, there, strict=True):
                if not known:
                    mend = lead_on(store, keys, digest, owner, self._committed)
                    text = digest.decode("utf-8", "replace")
                    self._fault(Fault.DANGLING, f"{text} leads to {owner}", mend)

    def _entries(self, crawl_id: str, found: list[tuple[bytes, bytes]]) -> None:
        if not found:
            return
        name = self._keys.alldupes
        owners = self._store.command("HMGET", name, *(d for d, _ in found))
        for (digest, value), owner in zip(found, owners, strict=True):
            example = f"{crawl_id}: {digest.decode('utf-8', 'replace')}"
            if owner is None:
                add = Call.command("HSETNX", name, digest, crawl_id)
                self._fault(Fault.MISSING, example, add)
            if decode(value) is None:
                self._fault(Fault.UNREADABLE, example)

    def _members(self, key: str) -> list[str]:
        return names(self._store.command("SMEMBERS", key))

    def _scan(self, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
        for chunk in scanned(self._store, key):
            if self._hold is not None:
                self._hold.take()
            self.found.digests += len(chunk)
            self._progress(self.found.digests)
            yield chunk
