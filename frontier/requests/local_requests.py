"""Requests that cannot be stored are adopted by the delivery that they come from.

What always holds:

1.  An adopted request counts among what its parent still waits for before the parent
    can be acked, and its URL is tested, and claimed, before it is sent.
2.  Its parent is the request whose callback, errback or middleware made it; where that
    cannot be told, all requests in progress on this node are its parents. Start
    requests have a parent of their own, which the lock on the seeds waits for.
3.  A request that ``start`` makes each time, and whose callback ends nodes, is given up
    after as many deliveries as any other (`frontier.queue.reserve.MAX_TRIES`).
4.  For each kind of reason the first request is logged in one line, with its URL; a
    stat counts all.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.node.context import Part
from frontier.node.delivery import Delivery
from frontier.queue.push import ARE_SEEN, CLAIM, TEST, UNTESTED, Push
from frontier.queue.reserve import MAX_TRIES, Reservation
from frontier.requests.spider_output import PARENT
from frontier.urls.fingerprint import seen_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy import Request

    from frontier.errors import NotSerializable
    from frontier.node.delivery import Link
    from frontier.session.session import Session

logger = logging.getLogger(__name__)

MAX_REASONS = 20
"""Reasons of which each is logged once; of the others none is."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class LocalRequests(Part):
    """Adopts the requests of one node that cannot be stored.

    *delivered* has the requests in progress that came from the store, or are adopted.
    """

    def __init__(
        self, session: Session, delivered: Mapping[Request, Reservation]
    ) -> None:
        self._session = session
        self._node = session.node
        self._delivered = delivered
        self._reasons: set[str] = set()
        self._tested = 0
        """Requests of which it is not known yet whether they are new."""
        self._loose = Delivery()

    def adopt(self, link: Link, error: NotSerializable) -> bool:
        """Adopt *link*, which *error* keeps out of the store; never waits.

        Return false if it ends at once, such as when the same is here and not over. It
        waits until it is due.
        """
        request, mode = link.request, link.mode
        parents = self._parents(request)
        mark = seen_hash(link.fingerprint)
        made = Delivery(
            name=b"%d" % parents[0].next_id(link.fingerprint),
            parents=parents,
            request=request,
            partition=link.partition,
            queue=link.queue,
            mark=mark if mode == TEST else 0,
        )
        if int(made.name) in self._session.deadly:
            self._give_up(made)
            return True
        if not self._node.deliveries.may_test(made):
            return False
        owner = 0
        if mode == TEST:
            mode, owner = CLAIM, made.owner
        # In the same words for all requests from one place in the code.
        reason = f"{error.where} {_ADDRESS.sub('', error.reason)}"
        made.notes[LocalRequests] = reason, link.due
        self._tested += 1
        push = Push(mode, mark, "", request.priority, b"", request, 0, owner, made)
        self._node.outbox.put(link.partition, push)
        return True

    def _give_up(self, made: Delivery) -> None:
        """End *made*, which has ended nodes: each start makes it anew."""
        url = made.request.url
        logger.error(
            "%s is given up: %d nodes have ended while its callback ran", url, MAX_TRIES
        )
        made.reason = f"the callback of {url} ends nodes"
        self._node.deliveries.end(made)

    def _parents(self, request: Request) -> tuple[Delivery, ...]:
        """The deliveries that *request* comes from."""
        if self._session.requests.known(request).is_start:
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
        every = (reservation.delivery for reservation in self._delivered.values())
        return tuple(every) or (self._loose,)

    @override
    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Act on the verdicts about requests that are to be adopted."""
        if not self._tested:
            return
        for push, verdict in zip(pushes, verdicts, strict=True):
            made = push.claimer
            if made is None:
                continue
            self._tested -= 1
            if verdict in ARE_SEEN and push.mode not in UNTESTED:
                self._node.deliveries.end(made)
                continue
            reason, due = made.notes.pop(LocalRequests)
            self._count(reason, made.request.url)
            wait = (due - self._node.clock()) / 1000 if due else 0.0
            self._node.deliveries.accept(made, wait)

    def _count(self, reason: str, url: str) -> None:
        self._session.count("frontier/queue/local")
        if reason not in self._reasons and len(self._reasons) < MAX_REASONS:
            self._reasons.add(reason)
            logger.warning(
                "requests that cannot be stored are fetched by this process alone: %s; "
                "the first is %s; the stat frontier/queue/local counts all",
                reason,
                url,
            )

    @override
    def busy(self) -> bool:
        """Whether anything is left that no reservation in the store stands for."""
        return self._loose.left > 1
