"""The server of a node: the one that its settings name, or the embedded one.

What always holds:

1.  An embedded server that a node has joined is left exactly once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from frontier.errors import StoreUnavailable
from frontier.store.client import given
from frontier.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Backing:
    """Joins the embedded store in *directory* where no server is given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._embedded: EmbeddedStore | None = None

    @property
    def embedded(self) -> bool:
        """Whether the server is one that nodes start again."""
        return self._embedded is not None

    async def join(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return *settings* with the URL of the server.

        Raises:
            StoreUnavailable: The embedded server does not start.
        """
        settings = dict(settings)
        if not given(settings):
            self._embedded = await asyncio.to_thread(
                EmbeddedStore.join, self._directory
            )
            settings["REDIS_URL"] = self._embedded.url
        return settings

    async def revive(self) -> None:
        """Start the embedded store again, should its process have died."""
        try:
            fresh = await asyncio.to_thread(EmbeddedStore.join, self._directory)
        except StoreUnavailable:
            return  # the next call that fails asks again
        old, self._embedded = self._embedded, fresh
        if old is not None:
            await asyncio.to_thread(old.leave)

    async def leave(self) -> None:
        """Leave the embedded store, if this is one."""
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.leave)
