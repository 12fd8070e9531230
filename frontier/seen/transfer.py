"""Carrying over what a crawl has seen: from its set to a file, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frontier.conf import NAME
from frontier.errors import (
    CannotCarry,
    ConfigurationError,
    SeenFileBroken,
    SeenFileMismatch,
)
from frontier.seen import carry
from frontier.seen.file import HASH, RULES, Header, SeenFile, SeenFileWriter
from frontier.seen.stored import MAX_MEMBERS, checked_shape
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, RegistryKeys
from frontier.store.scripts import CRAWL_OPEN

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from frontier.conf import Config
    from frontier.seen.stored import StoredCrawl
    from frontier.store.client import BlockingStore


def export(
    store: BlockingStore, crawl: StoredCrawl, path: Path, fingerprinter: str
) -> int:
    """Write the set of *crawl* to *path*; return how many URLs it has.

    Raises:
        CannotCarry: The crawl has no set.
        ConfigurationError: *path* cannot be written.
    """
    _require_set(crawl.keys.crawl_id, crawl.config)
    header = Header(fingerprinter, crawl.keys.crawl_id, crawl.spider, crawl.shape)
    with SeenFileWriter(path, header) as file:
        for partition in range(crawl.config.partitions):
            for members in carry.members(store, crawl.keys.partition(partition)):
                file.add(partition, members)
    return file.urls


class Import:
    """A file to be imported. It has been read to its end when this exists.

    Raises:
        SeenFileBroken: It is not whole.
        SeenFileMismatch: It was made by other rules, or of other fingerprints.
    """

    def __init__(self, path: Path, fingerprinter: str) -> None:
        self._path = str(path)
        self._file = SeenFile(path)
        self.read = 0
        """Members that are in the store now."""
        self.added = 0
        """Those of them that were not there before."""
        try:
            header = self._file.header
            self._same("fingerprinter", header.fingerprinter, fingerprinter)
            self._same("canonicalization", header.rules, RULES)
            self._same("hash", header.hash, HASH)
            self._config = self._shape()
            self._counts = self._file.verified()
        except BaseException:
            self._file.close()
            raise

    @property
    def urls(self) -> int:
        """How many the file has."""
        return self._file.header.urls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def create(self, store: BlockingStore, namespace: str, crawl_id: str) -> None:
        """Create a crawl with the settings of the one that was exported.

        Raises:
            ConfigurationError: There is one of that name, or it is no name.
        """
        if not NAME.fullmatch(crawl_id):
            raise ConfigurationError(f"{crawl_id[:200]!r} cannot be the id of a crawl")
        keys = CrawlKeys(namespace, crawl_id)
        if store.call(Call.command("EXISTS", keys.meta())):
            raise ConfigurationError(
                f"there is a crawl {crawl_id} already; import with --crawl {crawl_id}"
            )
        header = self._file.header
        shape = json.dumps(header.shape)
        store.run(
            [
                Call.to(CRAWL_OPEN, [keys.meta()], [shape, header.spider]),
                Call.command("SADD", RegistryKeys(namespace).crawls(), crawl_id),
            ]
        )

    def run(self, store: BlockingStore, crawl: StoredCrawl) -> None:
        """Add all members to the set of *crawl*.

        Raises:
            CannotCarry: The crawl has no set.
            ConfigurationError: The crawl has ended.
            SeenFileMismatch: Its URLs are in other partitions.
        """
        _require_set(crawl.keys.crawl_id, crawl.config)
        if crawl.state != "open":
            raise ConfigurationError(
                f"the crawl {crawl.keys.crawl_id} is {crawl.state}; "
                "nothing was imported"
            )
        here, there = crawl.config, self._config
        self._same("FRONTIER_PARTITIONS", there.partitions, here.partitions)
        self._same("FRONTIER_QUEUE_KEY", there.queue_key, here.queue_key)
        if any(partition >= here.partitions for partition in self._counts):
            raise ConfigurationError(f"{self._path} has more partitions than it says")
        self._add(store, crawl.keys)

    def _shape(self) -> Config:
        try:
            return checked_shape(self._file.header.shape)
        except ConfigurationError as error:
            reason = f"its crawl's settings are not this version's ({error})"
            raise SeenFileBroken(self._path, 0, reason) from None

    def _add(self, store: BlockingStore, crawl: CrawlKeys) -> None:
        current = -1
        for partition, members in self._file.blocks():
            keys = crawl.partition(partition)
            if partition != current:
                current = partition
                layout = carry.reserve(store, keys, self._counts[partition])
            for i in range(0, len(members), MAX_MEMBERS):
                batch = members[i : i + MAX_MEMBERS]
                layout, new = carry.add(store, keys, layout, batch)
                self.read += len(batch)
                self.added += new

    def _same(self, what: str, has: object, wanted: object) -> None:
        if has != wanted:
            raise SeenFileMismatch(self._path, what, has, wanted)


def _require_set(crawl_id: str, config: Config) -> None:
    if "set" not in config.seen_tiers:
        raise CannotCarry(crawl_id)
