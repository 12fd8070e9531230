"""Whether what is imported was made under the rules that crawls here have.

Under other rules other URLs are one page, so that what the one crawl calls an
equivalent URL is none to the other. Nothing is left out for it.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import IO, TYPE_CHECKING

from frontier.cdx.declared_rules import declared_in
from frontier.cluster.shared_settings import CANONICALIZATION
from frontier.collection.sources import Kind
from frontier.errors import BadWarc, KeyDamaged
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.urls.canon.rulesets import SCRAPY, label_of
from frontier.wacz.canonicalization import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from frontier.collection.sources import Source
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

MAX_CRAWLS = 10_000
"""Crawls of a collection whose rules are looked up."""
MAX_SHAPE = 64 * 1024
_DIGITS = 16  # as in `label_of`


def of_crawls(
    store: BlockingStore, keys: CollectionKeys, namespace: str
) -> frozenset[str]:
    """The labels of the rules of those crawls of *keys* that ran on this store."""
    committed, uncommitted = store.run(
        [
            Call.command("SMEMBERS", keys.committed()),
            Call.command("SMEMBERS", keys.uncommitted()),
        ]
    )
    ids = [
        crawl_id.decode("utf-8", "replace")
        for crawl_id in sorted({*committed, *uncommitted})[-MAX_CRAWLS:]
    ]
    metas = [CrawlKeys(namespace, crawl_id).meta() for crawl_id in ids]
    calls = [Call.command("HGET", meta, "shape") for meta in metas]
    shapes = store.run(calls, tolerant=True)
    read = [shape for shape in shapes if not isinstance(shape, KeyDamaged)]
    return frozenset(filter(None, map(_label, read)))


class Comparison:
    """Compares what sources say with *labels*, as `label_of` makes them.

    Where there are none nothing is compared. *say* is called for the first source
    under each other set; all are counted.
    """

    def __init__(
        self,
        labels: Collection[str] = (),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.others: dict[str, int] = {}
        """Sources by their rules, where these are none of *labels*."""
        self._labels = frozenset(labels)
        self._say = say

    def look(self, source: Source, file: IO[bytes]) -> None:
        """Compare the rules of *source*, which can be read in *file*."""
        if not self._labels:
            return
        for label in sorted(set(_stated(source, file)) - self._labels):
            if label not in self.others:
                ours = ", ".join(sorted(map(_shown, self._labels)))
                self._say(
                    f"warning: {source.name} was made under the rules {_shown(label)}, "
                    f"crawls of this collection have {ours}: other URLs are one page"
                )
            self.others[label] = self.others.get(label, 0) + 1


def _stated(source: Source, file: IO[bytes]) -> Iterator[str]:
    """The labels of the rules that *source* says it was made under."""
    try:
        if source.kind is Kind.WARC:
            file.seek(0)
            said = declared_in(source.name, file)
            if said.name:
                yield _labelled(said.name, said.digest)
        elif source.kind is Kind.WACZ:
            with zipfile.ZipFile(file) as archive:
                for each in listed(archive):
                    yield _labelled(str(each["name"])[:100], str(each["sha256"]))
    except (BadWarc, OSError, ValueError, RecursionError, RuntimeError):
        return  # what is broken is told where its captures are read
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError):
        return


def _labelled(name: str, digest: str) -> str:
    return label_of(SCRAPY) if name == SCRAPY else f"{name}@{digest[:_DIGITS]}"


def _shown(label: str) -> str:
    return SCRAPY if label == label_of(SCRAPY) else label


def _label(shape: object) -> str:
    if not isinstance(shape, bytes) or len(shape) > MAX_SHAPE:
        return ""
    try:
        found = json.loads(shape)
    except (ValueError, RecursionError):
        return ""
    label = found.get(CANONICALIZATION) if isinstance(found, dict) else None
    return label if isinstance(label, str) else ""
