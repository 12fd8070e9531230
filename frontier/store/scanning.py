"""All keys of a pattern, on whatever the store is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.store.calls import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.store.client import BlockingStore

PAGE = 5_000
"""Keys that one call of SCAN looks at."""


def scan(store: BlockingStore, pattern: str) -> Iterator[bytes]:
    """The keys that *pattern* matches, some perhaps twice.

    On a cluster with one ``KEYS`` per primary, which keeps each busy for about a
    second per two million keys: the cursors of ``SCAN`` are one server's own.
    """
    if not store.alone:
        yield from store.call(Call.command("KEYS", pattern))
        return
    cursor = b"0"
    while True:
        cursor, found = store.call(
            Call.command("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
        )
        yield from found
        if int(cursor) == 0:
            return
