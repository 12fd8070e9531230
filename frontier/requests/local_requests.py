"""Requests that cannot be stored: kept in this process, claimed in the store.

What always holds:

1.  A request that is kept has a claim in the store before what it comes from is
    acked, and its URL is tested and marked with it, in one step.
2.  What it comes from is known: the request whose callback, errback or middleware
    made it; or, where nobody can tell, all that is in progress on this node.
3.  Of each kind of reason the first is told in one line, with its URL, and all are
    counted in another when the node closes.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request

from frontier.errors import NotSerializable
from frontier.queue.item import Lineage, Origin
from frontier.queue.priority import process_of, queue_name
from frontier.queue.push import ARE_SEEN, CLAIM, FORCE, TEST, Push
from frontier.requests.seen_mode import ONCE
from frontier.requests.spider_output import PARENT
from frontier.scrapy_internals import started
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler

    from frontier.queue.reserve import Reservation
    from frontier.requests.seen_mode import SeenModes
    from frontier.session.session import Session
    from frontier.urls.partition import QueueAddresses

logger = logging.getLogger(__name__)

MAX_KINDS = 20
"""Kinds of reasons that are told apart."""
OTHERS = "other reasons"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(slots=True)
class _Kind:
    """Why requests could not be stored, and how many."""

    url: str
    count: int = 0


class LocalRequests:
    """Keeps the requests of one node that cannot be stored."""

    def __init__(
        self, session: Session, modes: SeenModes, queue_addresses: QueueAddresses
    ) -> None:
        self._session = session
        self._node = session.node
        self._modes = modes
        self._queue_addresses = queue_addresses
        self._kinds: dict[str, _Kind] = {}
        self._reasons: dict[int, str] = {}
        self._starting = asyncio.Lock()

    def keep(
        self,
        request: Request,
        fingerprint: bytes,
        mode: str,
        delivered: Mapping[Request, Reservation],
        error: NotSerializable,
    ) -> None:
        """Keep *request*, and have a claim queued for it; never waits.

        *delivered* is what is in progress and came from the store.
        """
        state = self._session.requests.of(request)
        if state.lineage is None:  # it may be tested twice, long after its parent
            state.lineage = self._lineage(request, delivered)
        lineage = state.lineage
        slot = request.meta.get(DOWNLOAD_SLOT)
        address = self._queue_addresses.of(request.url, fingerprint, slot)
        outbox, claims = self._node.outbox, self._node.claims
        if mode == ONCE:
            if self._session.config.seen_start:
                only_mark = Push(TEST, seen_hash(fingerprint), "", 0, b"")
                outbox.put(address.partition, only_mark)
            fingerprint, mode = self._modes.start_fingerprint(fingerprint), TEST
        number, marks = seen_hash(fingerprint), lineage.marks
        if mode != FORCE:
            marks += ((address.partition, number),)
        queue = queue_name(address.queue_key, request.priority, claims.process)
        where = (address.partition, queue)
        again = request.copy().copy
        facts = (request, again, request.url, where)
        claim = claims.make(*facts, lineage.origins, marks, lineage.start_id)
        try:
            item = claim.item()
        except NotSerializable as too_large:
            logger.warning("%s, so a crash loses it", too_large)
            claim = claims.make(*facts, (), marks, "")
            item = claim.item()
        self._reasons[id(request)] = _kind(error)
        if mode == TEST:
            mode = CLAIM
        due = self._session.requests.known(request).due
        push = Push(mode, number, queue, request.priority, item, request, due)
        outbox.put(address.partition, push)

    def _lineage(
        self, request: Request, delivered: Mapping[Request, Reservation]
    ) -> Lineage:
        if self._modes.is_start(request):
            return Lineage((), (), self._session.start_id)
        parent = PARENT.get()
        parents = [parent] if parent in delivered else list(delivered)
        origins: dict[Origin, None] = {}
        marks: dict[tuple[int, int], None] = {}
        start_id = ""
        for one in parents:
            if one is None:
                continue
            claim = self._session.requests.known(one).claim
            if claim is not None:
                origins.update(dict.fromkeys(claim.origins))
                marks.update(dict.fromkeys(claim.marks))
                start_id = start_id or claim.start_id
            else:
                from_ = delivered[one]
                partition = from_.lease.partition
                origins[Origin(partition, from_.queue, from_.item)] = None
        return Lineage(tuple(origins), tuple(marks), start_id)

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Take note of what became of claims."""
        claims = self._node.claims
        for push, verdict in zip(pushes, verdicts, strict=True):
            if not process_of(push.queue):
                continue
            reason = self._reasons.pop(id(push.tag), OTHERS)
            if verdict in ARE_SEEN:
                claims.refused(push.tag)
            else:
                claims.stored(push.tag)
                self._count(reason, push.tag.url)

    def _count(self, reason: str, url: str) -> None:
        self._session.count("frontier/queue/local")
        if reason not in self._kinds and len(self._kinds) >= MAX_KINDS:
            reason = OTHERS
        kind = self._kinds.setdefault(reason, _Kind(url))
        kind.count += 1
        if kind.count == 1:
            logger.warning(
                "requests that cannot be stored are fetched by this process alone: %s; "
                "the first is %s",
                reason,
                url,
            )

    def tell(self) -> None:
        """Log how many were kept, for each kind of reason."""
        for reason, kind in self._kinds.items():
            logger.warning(
                "%d requests could not be stored and were fetched by this process "
                "alone: %s; the first was %s",
                kind.count,
                reason,
                kind.url,
            )

    async def start_again(self, crawler: Crawler) -> None:
        """Schedule what `Spider.start` yields; items it yields were scraped before."""
        session = self._session
        async with self._starting:
            before = session.starting
            session.starting = session.starts_again = True
            try:
                await self._crawl_starts(crawler)
            finally:
                session.starting, session.starts_again = before, False

    async def _crawl_starts(self, crawler: Crawler) -> None:
        engine: Any = crawler.engine
        async for made in await started(crawler):
            if isinstance(made, Request):
                engine.crawl(made)


def _kind(error: NotSerializable) -> str:
    """Why, in words that are the same for all requests of one place in the code."""
    return f"{error.where} {_ADDRESS.sub('', error.reason)}"
