"""The sources that wait to be imported, in the store.

An entry is there from before its import begins until it is in the index, or was
found to be broken. It only tells people, and the next import, what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.collection.sources import from_queue
from frontier.collection.summary import queued_name
from frontier.errors import SourceBroken
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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
