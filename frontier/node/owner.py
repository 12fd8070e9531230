"""The one that runs a node: what it is told, and what it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.queue.push import Push


class Owner(Protocol):
    """What a node tells the one that runs it."""

    def on_ready(self) -> None:
        """Something can be taken."""

    def on_verdicts(self, pushes: Sequence[Push], verdicts: str) -> None:
        """The store has decided about *pushes*: a letter for each."""

    def on_finished(self) -> None:
        """The crawl is over on every node."""

    def on_aside(self) -> None:
        """A partition is set aside: the crawl is not going to be whole."""

    def on_incomplete(self, harmed: str) -> None:
        """The crawl is over, on every node, but for what is *harmed*."""

    def on_forgotten(self) -> None:
        """The store has gone back: what was seen here may not be seen there."""

    def on_failure(self, error: BaseException) -> None:
        """The node cannot go on."""

    def on_order(self, order: str) -> None:
        """An operator wants it to ``drain``, or says ``remove``, or ``cancel`` to all.

        Told again with each heartbeat.
        """

    async def start_again(self, start_ids: set[str]) -> set[str]:
        """Push the start requests of *start_ids* again; return those that were."""

    def on_limit(self, limit: str) -> None:
        """The crawl has ended at *limit*, a name and its value; empty: at another's."""

    def is_busy(self) -> bool:
        """Whether there is work that is not in the store."""

    def report(self) -> Mapping[str, Any]:
        """Figures of this node, for the crawl's report."""
