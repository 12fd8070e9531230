"""Finds what is wrong in a collection's index, and repairs what can be repaired.

Other tools write to the index too, and some leave it half done when they are killed.
Only faults with one right answer are repaired; looking changes nothing. Memory does not
grow with the index.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from frontier.collection.purge import lead_on, require_quiet
from frontier.collection.rounds import Hold
from frontier.collection.summary import COUNTS, counted, members, names, scanned
from frontier.dedupe.digest_index import decode
from frontier.status.validate import printable
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.store.keys import CollectionKeys

EXAMPLES = 3
"""Examples that are shown of each kind of fault."""


class Fault(StrEnum):
    """What can be wrong, in the words that the command prints."""

    DANGLING = "digests that lead to a crawl that does not have them"
    MISSING = "digests of committed crawls that no crawl can find"
    UNREADABLE = "entries that are not in the layout"
    COUNTS = "counts that are not the sums of their crawls'"


@dataclass
class Check:
    """A check of the collection *keys*; with *repair* it repairs on the way."""

    store: BlockingStore
    keys: CollectionKeys
    repair: bool = False
    progress: Callable[[int], None] = lambda _: None
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

    def run(self) -> Self:
        """Look at everything.

        Raises:
            CollectionInUse: It is to be repaired, and a crawl or import adds to it.
        """
        with Hold(self.store, self.keys) if self.repair else nullcontext() as hold:
            if self.repair:
                require_quiet(self.store, self.keys, rounds=False)
            self._look(hold)
        return self

    def _look(self, hold: Hold | None) -> None:
        store, keys = self.store, self.keys
        committed = members(store, keys.committed)
        for found in self._scan(hold, keys.alldupes):
            self._owners(found, committed)
        sums: Counter[str] = Counter()
        for crawl_id in committed:
            for found in self._scan(hold, keys.crawl(crawl_id)):
                self._entries(crawl_id, found)
            sums.update(counted(store, keys.counts(crawl_id)))
        told = counted(store, keys.allcounts)
        for name in COUNTS:
            if told[name] != sums[name]:
                text = f"{name} is {told[name]:,}, its crawls have {sums[name]:,}"
                mend = Call.command("HSET", keys.allcounts, name, sums[name])
                self._fault(Fault.COUNTS, text, mend)
        for name in members(store, keys.uncommitted):
            self.unfinished.append(f"{printable(name)} is not committed")
        for name in names(store.command("HKEYS", keys.importing)):
            self.unfinished.append(f"{printable(name)} is imported")

    def _scan(self, hold: Hold | None, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
        for chunk in scanned(self.store, key):
            if hold is not None:
                hold.take()
            self.digests += len(chunk)
            self.progress(self.digests)
            yield chunk

    def _fault(self, fault: Fault, example: str, *repairs: Call) -> None:
        self.faults[fault] += 1
        shown = self.examples.setdefault(fault, [])
        if len(shown) < EXAMPLES:
            shown.append(printable(example))
        if self.repair and repairs:
            self.store.run(repairs)
            self.repaired[fault] += 1

    def _owners(
        self, found: list[tuple[bytes, bytes]], committed: Sequence[str]
    ) -> None:
        """Check that the crawls that digests lead to have them."""
        store, keys = self.store, self.keys
        owned = [(each, owner.decode("utf-8", "replace")) for each, owner in found]
        there = store.run([Call.command("HEXISTS", keys.crawl(c), d) for d, c in owned])
        for (digest, owner), known in zip(owned, there, strict=True):
            if not known:
                mend = lead_on(store, keys, digest, owner, committed)
                text = digest.decode("utf-8", "replace")
                self._fault(Fault.DANGLING, f"{text} leads to {owner}", mend)

    def _entries(self, crawl_id: str, found: list[tuple[bytes, bytes]]) -> None:
        """Check that the digests of a crawl are found, and can be read."""
        if not found:
            return
        name = self.keys.alldupes
        owners = self.store.command("HMGET", name, *(d for d, _ in found))
        for (digest, value), owner in zip(found, owners, strict=True):
            example = f"{crawl_id}: {digest.decode('utf-8', 'replace')}"
            if owner is None:
                add = Call.command("HSETNX", name, digest, crawl_id)
                self._fault(Fault.MISSING, example, add)
            if decode(value) is None:
                self._fault(Fault.UNREADABLE, example)
