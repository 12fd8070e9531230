"""What another scheduler had seen before its crawl was taken over.

A URL that is new to its partition is queued as any other, and the set of the imported
filter (`frontier.seen.imported_filter`) is asked before it is sent. A request that
skips the seen test is *exempt*, and its item says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.node.context import Part
from frontier.queue.item import EXEMPT
from frontier.queue.push import TEST
from frontier.seen.imported_filter import (
    about_call,
    has_any,
    marks_of,
    others_fingerprints,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.node.delivery import Delivery, Link
    from frontier.node.node import Node


class Imported(Part):
    """Asks the filter that a crawl has, if it has one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_there = False

    @override
    async def learn(self) -> None:
        """Learn whether there is a filter; an import has each node learn it."""
        found = await self._node.answer(about_call(self._node.keys))
        self._is_there = found is not None

    @override
    def link(self, link: Link) -> bool:
        """Exempt *link* if it skips the seen test."""
        if link.mode != TEST and self._is_there:
            link.extra[EXEMPT] = True
        return True

    @override
    def start(self, request: Any, delivery: Delivery, extra: Mapping[str, Any]) -> bool:
        """Note whether *request* is exempt."""
        if extra.get(EXEMPT) or request.dont_filter:
            delivery.notes[Imported] = EXEMPT
        return True

    async def has_seen(self, request: Any, delivery: Delivery) -> bool:
        """Whether *request*, which was taken, was seen before the crawl's import.

        Raises:
            FrontierError: The store has lost the set, or refuses.
        """
        if not self._is_there or Imported in delivery.notes:
            return False
        made = others_fingerprints(request.url, request.method, request.body)
        return await has_any(self._node.run, self._node.keys, marks_of(made))
