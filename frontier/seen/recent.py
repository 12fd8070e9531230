"""The recent tier of the seen test: what this node has handed to the store lately.

It answers without the store. It says "seen" only for what was put into it, knows
nothing about what other nodes have pushed, and forgets the least recently used half
when it is full. `frontier.scheduler` and `frontier.dupefilter` ask it first.
"""

from __future__ import annotations

from collections.abc import Hashable


class Recent:
    """An approximate LRU of two generations: a look-up is one or two set look-ups."""

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: set[Hashable] = set()
        self._old: set[Hashable] = set()

    def add(self, key: Hashable) -> bool:
        """Note *key*; return whether it was there."""
        if key in self._young:
            return True
        known = key in self._old
        self._young.add(key)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        return known

    def discard(self, key: Hashable) -> None:
        """Forget *key*, if it is there."""
        self._young.discard(key)
        self._old.discard(key)

    def __contains__(self, key: Hashable) -> bool:
        """Whether *key* is there; if so, it counts as used."""
        if key in self._young:
            return True
        if key not in self._old:
            return False
        self.add(key)
        return True

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
