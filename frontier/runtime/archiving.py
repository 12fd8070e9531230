"""The archive of one node: its writer thread, its index, its commit."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from frontier.archive.collection import Collection
from frontier.archive.policy import may_be_revisit
from frontier.archive.repair import repair
from frontier.archive.thread import ArchiveThread
from frontier.archive.writer import WarcWriter, safe_name
from frontier.errors import ArchiveError
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.wacz.create import Options, create, warc_files

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from frontier.archive.batch import Counters
    from frontier.conf import Config
    from frontier.model import Exchange, Stored
    from frontier.store.client import BlockingStore
    from frontier.wacz.create import Made

logger = logging.getLogger(__name__)


def _never(exchange: Exchange) -> bool:  # noqa: ARG001 (a policy is given one)
    return False


class Archive:
    """Takes exchanges from the event loop and tells when they are on disk."""

    def __init__(self, config: Config, store: BlockingStore, crawl_id: str) -> None:
        self._store = store
        self._crawl_id = crawl_id
        self._warc_dir = config.warc_dir
        self._wacz_dir = config.wacz_dir
        self._collection = Collection(
            store, config.collection, crawl_id, revisits=config.revisit_enabled
        )
        directory = config.warc_dir
        try:
            directory.mkdir(parents=True, exist_ok=True)
            repaired = repair(directory, None)
        except OSError as error:
            raise ArchiveError(
                f"FRONTIER_WARC_DIR = {str(directory)!r}: {error.strerror}"
            ) from error
        for mended in repaired:
            logger.info("%s", mended)
        writer = WarcWriter(
            directory,
            crawl_id,
            config.node_id,
            max_bytes=config.warc_max_bytes,
            warcinfo_fields=config.as_settings(),
            clock=time.time,
        )
        self._collection.begin()
        self._commit_finished(config)
        self._thread = ArchiveThread(
            writer,
            self._collection,
            crawl_id,
            fsync=config.warc_fsync,
            policy=may_be_revisit if config.revisit_enabled else _never,
        )
        self._sequence = -1

    def _commit_finished(self, config: Config) -> None:
        """Commit crawls that ended, but whose last node died before it could."""
        for crawl_id in self._collection.uncommitted():
            meta = CrawlKeys(config.namespace, crawl_id).meta()
            if self._store.call(Call.command("HGET", meta, "state")) == b"finished":
                Collection(
                    self._store, config.collection, crawl_id, revisits=True
                ).commit()

    @property
    def counters(self) -> Counters:
        """What was written so far."""
        return self._thread.counters

    def submit(self, exchange: Exchange) -> Future[Stored]:
        """Have *exchange* written; the future ends in the writer thread."""
        self._sequence, future = self._thread.submit(exchange)
        return future

    async def durable(self) -> None:
        """Return when everything submitted so far is on disk and indexed."""
        if self._sequence >= 0:
            await asyncio.wrap_future(self._thread.durable(self._sequence))

    async def finish(self) -> None:
        """Write what is left and close the file."""
        await asyncio.to_thread(self._thread.close)

    async def commit(self) -> None:
        """Offer the crawl's payloads to later ones."""
        count = await asyncio.to_thread(self._collection.commit)
        logger.info("committed %d payload digests to the collection", count)

    async def package(self) -> None:
        """Make a WACZ of the crawl's closed files, where the settings want one.

        The WARC files stay. What goes wrong is logged: the crawl is whole, and
        ``frontier wacz create`` makes the file later.
        """
        if self._wacz_dir is None:
            return
        try:
            made = await asyncio.to_thread(self._make_wacz, self._wacz_dir)
        except (ArchiveError, OSError) as error:
            logger.error("no WACZ was made: %s", error)  # noqa: TRY400 - all is said
            return
        logger.info("made %s: %d captures", made.path, made.captures)
        if made.missing:
            logger.warning(
                "%s: originals of %d payloads are in no WACZ beside it",
                made.path,
                made.missing,
            )

    def _make_wacz(self, directory: Path) -> Made:
        out = directory / f"{safe_name(self._crawl_id)}.wacz"
        beside = tuple(p for p in sorted(directory.glob("*.wacz")) if p != out)
        warcs = warc_files([self._warc_dir], crawl_id=self._crawl_id)
        return create(out, warcs, Options(title=self._crawl_id, against=beside))

    async def close(self) -> None:
        """Finish, if that was not done, and disconnect."""
        await self.finish()
        self._store.close()
