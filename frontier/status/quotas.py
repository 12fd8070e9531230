"""How much of their quotas some hosts, given by name, have had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.queue.hosts import record_of
from frontier.settings.live import QUOTAS
from frontier.status.validate import whole
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.status.views import CrawlSnapshot
    from frontier.status.watch import HostView
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys


@dataclass(frozen=True, slots=True)
class Had:
    """What a host has had, and what it may have; 0 for no quota."""

    host: str
    pages: int
    max_pages: int
    bytes: int
    max_bytes: int

    @property
    def share(self) -> float:
        """The used share of the quota that it is nearer to; more than 1 if exceeded."""
        pages = self.pages / self.max_pages if self.max_pages else 0.0
        return max(pages, self.bytes / self.max_bytes if self.max_bytes else 0.0)


def quotas_of(seen: CrawlSnapshot) -> tuple[int, int]:
    """Pages and bytes that each host may have; 0 for no quota.

    As an operator has set them, or else as the node that came last was started.
    """
    known = [node.figures for node in seen.nodes if node.figures is not None]
    own = max(known, key=lambda one: one.opened).own if known else {}
    changed = {one.name: one.value for one in seen.controls.changed if not one.host}
    pages, size = ({**own, **changed}.get(name, "") for name in QUOTAS)
    return whole(pages), whole(size)


def had(
    store: BlockingStore,
    keys: CrawlKeys,
    seen: CrawlSnapshot,
    hosts: Iterable[HostView],
) -> list[Had]:
    """What *hosts* whose queues are known have had, the nearest to a quota first."""
    max_pages, max_bytes = quotas_of(seen)
    if not (max_pages or max_bytes):
        return []
    named = [(one.host, one.partition) for one in hosts if one.partition is not None]
    calls = [
        Call.command("HGET", keys.partition(number).hosts, host)
        for host, number in named
    ]
    replies = store.run(calls, tolerant=True) if calls else []
    records = map(record_of, replies)
    found = [
        Had(host, one.pages, max_pages, one.size, max_bytes)
        for (host, _), one in zip(named, records, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.share, one.host))
