"""The features of a node, in their order: the one module that knows them all.

To take a feature out, delete its package and its lines here. The kernel calls hooks in
this order; see `frontier.node.context.Part`. The archive and the journal are imported
only where settings ask for them: they bring a quarter of all modules along.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import ConfigurationError
from frontier.files import mode_of
from frontier.node.context import Features, Part
from frontier.node.crawl_limits import NO_LIMITS, Limits, Portions, Spending
from frontier.node.gone_nodes import GoneNodes
from frontier.node.host_addresses import AddressClasses
from frontier.node.imported import Imported
from frontier.node.memory_limit import SeenMemoryLimit
from frontier.settings.values import SEEDS
from frontier.store.client import BlockingStore

if TYPE_CHECKING:
    from pathlib import Path

    from frontier.node.archiving import Archive
    from frontier.node.journal.writer import Journal
    from frontier.node.node import Node
    from frontier.store.keys import CrawlKeys


class AllFeatures(Features):
    """The features of nodes in a crawl with *limits*."""

    archive: Archive | None = None
    """The archive of the node, if it has one."""

    def __init__(self, limits: Limits = NO_LIMITS) -> None:
        self._limits = limits

    @override
    async def may_begin(self, node: Node, keys: CrawlKeys) -> bool:
        """Whether no other crawl has the name of *keys*, in journals or the index."""
        config = node.config
        if config.journal_dir is not None:
            from frontier.node.journal.writer import refuse_lost

            await refuse_lost(node.store.run, config.journal_dir, keys)
        if not config.warc_enabled:
            return True
        from frontier.node.archiving import claim

        return await claim(config, node.settings, keys)

    @override
    async def open(self, node: Node) -> tuple[Part, ...]:
        """Make the parts.

        Raises:
            ArchiveError: The archive, or the journal, cannot be written.
            ConfigurationError: A part that the settings name cannot be imported.
        """
        config = node.config
        # Those on disk come first: what others note before an ack is then there.
        parts: list[Part] = [await self._archive(node)] if config.warc_enabled else []
        if config.journal_dir is not None:
            parts.append(await self._journal(node, config.journal_dir))
        imported = Imported(node)
        await node.reach(imported.learn)
        allowed = frozenset(config.allow_addresses)
        own = map(_class_at, config.node_parts)
        parts += [
            Portions(node),
            AddressClasses(node, None if SEEDS in allowed else allowed),
            imported,
            SeenMemoryLimit(node),
            GoneNodes(node),
            *(each.from_node(node) for each in own),
        ]
        # It is asked for room last, as it then asks the store for more.
        return (*parts, Spending(node, self._limits))

    async def _archive(self, node: Node) -> Archive:
        from frontier.node.archiving import INDEX_TIMEOUT, Archive

        store = BlockingStore.from_settings(node.settings, INDEX_TIMEOUT)
        named, born = node.keys.crawl_id, node.keys.born
        facts = (node.config, store, named, node.settings, born)
        archive = await asyncio.to_thread(Archive, *facts)
        node.opened.push_async_callback(archive.close)
        archive.on_room = node.owner.on_ready
        await node.reach(archive.enter)
        self.archive = archive
        return archive

    async def _journal(self, node: Node, directory: Path) -> Journal:
        from frontier.node.journal.entries import Header
        from frontier.node.journal.writer import Journal

        keys, config, job = node.keys, node.config, node.launch.job
        names = (keys.namespace, keys.crawl_id, node.spider, config.node_id)
        header = Header(*names, node.shape, keys.born, job.stored() if job else "")
        mode = mode_of(config.file_mode)
        journal = await asyncio.to_thread(Journal, directory, header, mode=mode)
        node.opened.push_async_callback(asyncio.to_thread, journal.close)
        return journal


def _class_at(path: str) -> type[Part]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"FRONTIER_NODE_PARTS: {path}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Part)):
        raise ConfigurationError(
            f"FRONTIER_NODE_PARTS: {path} is not a subclass of frontier.Part"
        )
    return found
