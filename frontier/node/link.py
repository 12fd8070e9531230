"""Links: requests on their way to the outbox, as parts see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frontier.node.delivery import Delivery


@dataclass(slots=True, eq=False)
class Link:
    """A request that is about to be queued."""

    request: Any
    mode: str
    """How it is pushed; see `frontier.queue.push`."""
    fingerprint: bytes
    partition: int
    queue: str
    due: int = 0
    """When it is to be ready, in ms of the server's clock; 0 for at once."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What its item says besides; `Part.start` gets it when the request is taken."""
    replaces: Delivery | None = None
    """The delivery that it takes the place of, in one step with the ack; it is not
    pushed then. Both are in one partition."""
