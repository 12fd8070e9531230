"""What is known of each request of one process, in one weak map.

What always holds:

1.  The state of a request goes when the request does. So nothing in a `RequestState`
    may hold its request for good: a response, which comes to name its request, is
    taken out once it is used.
2.  To ask of a request of which nothing is known changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from concurrent.futures import Future

    from scrapy import Request
    from scrapy.http import Response

    from frontier.dedupe.url_history import LastCapture
    from frontier.download.capture import RawExchange
    from frontier.model import Stored
    from frontier.queue.claims import Claim, Lineage
    from frontier.queue.reserve import Reservation


@dataclass(slots=True)
class RequestState:
    """What the components of one process know of one request."""

    is_start: bool = False
    """Whether `Spider.start` made it."""
    is_retested: bool = False
    """Whether it is tested once more, for another process had claimed it."""
    reservation: Reservation | None = None
    """What it stands on, if it came from the store."""
    claim: Claim | None = None
    """What was queued for it, if it cannot be stored and was started."""
    lineage: Lineage | None = None
    """What leads to it, if it cannot be stored."""
    put_back: bool = False
    """Whether this node, as it closes, does not send it any more."""
    names_slot: bool = False
    """Whether its ``meta`` named a download slot before Scrapy did."""
    sent: float | None = None
    """When it was sent, in seconds since the Unix epoch."""
    asked_with: LastCapture | None = None
    """The capture on whose change it was made conditional."""
    wire: RawExchange | None = None
    """What crosses the wire for it; see `frontier.download.handler`."""
    answer: Response | None = None
    """What the download handler gave for it, until the archive has taken that."""
    stored: Future[Stored] | None = None
    """Where its exchange is being written."""
    unread: str | None = None
    """Why its page is not read to the end (`frontier.download.pages`)."""


_NOTHING = RequestState()


class RequestStates:
    """The states of the requests of one process."""

    def __init__(self) -> None:
        self._states: WeakKeyDictionary[Request, RequestState] = WeakKeyDictionary()

    def of(self, request: Request) -> RequestState:
        """The state of *request*, to be changed."""
        state = self._states.get(request)
        if state is None:
            state = self._states[request] = RequestState()
        return state

    def known(self, request: Request) -> RequestState:
        """What is known of *request*, only to be read."""
        return self._states.get(request, _NOTHING)

    def reservation(self, request: Request) -> Reservation | None:
        """What *request* stands on, if it came from the store."""
        return self._states.get(request, _NOTHING).reservation
