"""What becomes of a crawl's payloads when it has ended: its last node sees to it.

They are offered to later crawls, or forgotten. What cannot be done is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.cluster import crawls
from frontier.collection.summary import commit_command, uncommitted_in
from frontier.errors import FrontierError, StoreUnavailable
from frontier.node.context import Part
from frontier.store.client import BlockingStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.node.archiving import Archive
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

SILENCE = 30.0
"""Seconds for which the store may be silent meanwhile, however long it all takes."""
PAUSE = 0.5
"""Seconds between its questions."""
INDEX_TIMEOUT = 1.0
"""Seconds in which the digest index has to answer."""


class Settlement(Part):
    """Commits or cancels the payloads of the crawl of *keys*, if there is an archive.

    Without one it says what nodes that had one have left to be done.
    """

    def __init__(
        self, archive: Archive | None, settings: Mapping[str, Any], keys: CrawlKeys
    ) -> None:
        self._archive = archive
        self._settings = settings
        self._keys = keys

    @override
    async def conclude(self, state: str) -> bool:
        """Do it in a crawl that ended as *state*; whether nothing is left undone."""
        archive = self._archive
        if archive is None:
            return await self._is_settled()
        if not await self._settle(archive, state):
            return False
        return state == crawls.CANCELED or await archive.package()

    async def _settle(self, archive: Archive, state: str) -> bool:
        settle = archive.cancel if state == crawls.CANCELED else archive.commit
        limit = time.monotonic() + SILENCE
        while True:
            began = time.monotonic()
            try:
                await settle()
            except StoreUnavailable as error:
                now = time.monotonic()
                if now - began > SILENCE:  # it went on before that
                    limit = now + SILENCE
                if now < limit:
                    await asyncio.sleep(PAUSE)
                    continue
                reason: FrontierError = error
            except FrontierError as error:
                reason = error
            else:
                return True
            logger.error(
                "the payloads of %s are not %s: %s; the next crawl of the collection "
                "does it, or frontier collection %s --crawl %s",
                self._keys.crawl_id,
                "forgotten" if state == crawls.CANCELED else "committed",
                reason,
                "cancel" if state == crawls.CANCELED else "commit",
                self._keys.crawl_id,
            )
            return False

    async def _is_settled(self) -> bool:
        """Whether no node with an archive has left before this one, which has none."""
        crawl_id = self._keys.crawl_id
        try:
            names = await asyncio.to_thread(self._uncommitted)
        except FrontierError as error:
            logger.error(  # noqa: TRY400 (all is said)
                "whether %s is committed is not known: %s; frontier crawl status "
                "tells it",
                crawl_id,
                error,
            )
            return False
        for name in names:
            logger.error(
                "the payloads of %s are not committed, as this node, the last, has no "
                "archive; the next crawl of the collection does it, or %s",
                crawl_id,
                commit_command(crawl_id, name),
            )
        return not names

    def _uncommitted(self) -> list[str]:
        store = BlockingStore.from_settings(self._settings, INDEX_TIMEOUT)
        with contextlib.closing(store):
            return uncommitted_in(store, self._keys.namespace, self._keys.crawl_id)
