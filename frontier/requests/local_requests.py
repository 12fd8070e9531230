"""Requests that cannot be stored: adopted by the delivery of what they come from.

What always holds:

1.  A request that is adopted counts as left with what it comes from before that can
    be acked, and its URL is tested, and claimed, before it is sent.
2.  What it comes from is known: the request whose callback, errback or middleware
    made it; or, where nobody can tell, all that is in progress on this node. Start
    requests stand on one that the lock on the seeds waits for.
3.  Of each kind of reason the first is told in one line, with its URL, and all are
    counted in another when the node closes.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.node.delivery import Delivery
from frontier.queue.priority import queue_name
from frontier.queue.push import ARE_SEEN, CLAIM, FORCE, MARK, TEST, Push
from frontier.requests.seen_mode import ONCE
from frontier.requests.spider_output import PARENT
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy import Request

    from frontier.errors import NotSerializable
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


@dataclass(slots=True)
class _Asked:
    """A request of which it is not known whether it is new."""

    delivery: Delivery
    reason: str
    due: int


class LocalRequests:
    """Has the requests of one node that cannot be stored adopted."""

    def __init__(
        self, session: Session, modes: SeenModes, queue_addresses: QueueAddresses
    ) -> None:
        self._session = session
        self._node = session.node
        self._modes = modes
        self._queue_addresses = queue_addresses
        self._kinds: dict[str, _Kind] = {}
        self._asked: dict[int, list[_Asked]] = {}
        """By the ids of requests, which are kept as well, in the order of pushes."""
        self._loose = Delivery(name=b"loose")

    def adopt(
        self,
        request: Request,
        fingerprint: bytes,
        mode: str,
        due: int,
        delivered: Mapping[Request, Reservation],
        error: NotSerializable,
    ) -> bool:
        """Have *request* adopted; never waits. Not if the same is here, and not over.

        It waits until it is *due*. *delivered* is what is in progress and came from the
        store.
        """
        slot = request.meta.get(DOWNLOAD_SLOT)
        address = self._queue_addresses.of(request.url, fingerprint, slot)
        outbox = self._node.outbox
        if mode == ONCE:
            if self._session.config.seen_start:
                only_mark = Push(TEST, seen_hash(fingerprint), "", 0, b"")
                outbox.put(address.partition, only_mark)
            fingerprint, mode = self._modes.start_fingerprint(fingerprint), TEST
        number = seen_hash(fingerprint)
        parents = self._parents(request, delivered)
        made = Delivery(
            name=b"%d" % parents[0].next_id(fingerprint),
            parents=parents,
            request=request,
            partition=address.partition,
            queue=queue_name(address.queue_key, request.priority),
            mark=number if mode == TEST else 0,
        )
        if not self._node.deliveries.adopts(made):
            return False
        owner = 0
        if mode == TEST:
            mode, owner = CLAIM, made.owner
        asked = _Asked(made, _kind(error), due)
        self._asked.setdefault(id(request), []).append(asked)
        push = Push(mode, number, "", request.priority, b"", request, 0, owner)
        outbox.put(address.partition, push)
        return True

    def _parents(
        self, request: Request, delivered: Mapping[Request, Reservation]
    ) -> tuple[Delivery, ...]:
        """What *request* comes from."""
        if self._modes.is_start(request):
            if self._session.start_delivery is None:
                start = Delivery(name=b"start " + self._session.start_id.encode())
                start.over = asyncio.Event()
                self._session.start_delivery = start
            return (self._session.start_delivery,)
        parent = PARENT.get()
        if parent is not None:
            known = self._session.requests.delivery(parent)
            if known is not None and known.left:
                return (known,)
        every = (reservation.delivery for reservation in delivered.values())
        return tuple(every) or (self._loose,)

    @property
    def is_waiting(self) -> bool:
        """Whether there are requests of which it is not known whether they are new."""
        return bool(self._asked)

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Take note of what became of requests that are adopted."""
        for push, verdict in zip(pushes, verdicts, strict=True):
            if push.queue or push.tag is None:
                continue
            every = self._asked.get(id(push.tag))
            if every is None:
                continue
            asked = every.pop(0)
            if not every:
                del self._asked[id(push.tag)]
            if verdict in ARE_SEEN and push.mode not in {FORCE, MARK}:
                self._node.deliveries.end(asked.delivery)
                continue
            self._count(asked.reason, push.tag.url)
            wait = 0.0
            if asked.due:
                wait = (asked.due - self._node.context.clock()) / 1000
            self._node.deliveries.accept(asked.delivery, wait)

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

    @property
    def is_busy(self) -> bool:
        """Whether anything is left that no reservation in the store stands for."""
        return self._loose.left > 1

    def tell(self) -> None:
        """Log how many were adopted, for each kind of reason."""
        for reason, kind in self._kinds.items():
            logger.warning(
                "%d requests could not be stored and were fetched by this process "
                "alone: %s; the first was %s",
                kind.count,
                reason,
                kind.url,
            )


def _kind(error: NotSerializable) -> str:
    """Why, in words that are the same for all requests of one place in the code."""
    return f"{error.where} {_ADDRESS.sub('', error.reason)}"
