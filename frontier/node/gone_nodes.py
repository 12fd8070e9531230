"""The reports of nodes that are gone, in one sum: a crawl may have had thousands.

A node's report stays in the store when the node is gone, so that the crawl's report
has all that was done. What always holds:

1.  A report that is summed up is removed in the same step, and only if it is still what
    was read: nothing is lost, and nothing counts twice.
2.  A node that may come back with the same report is not summed up: only one that has
    left, or that was off the map for `LOST_S`.
3.  The reports of the last `KEPT` gone nodes stay as they are, for people.
4.  The sum has a bounded size.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.settings.values import NAME
from frontier.status.reports import GONE, REPLACED, encoded, folded
from frontier.status.validate import mapping, real, text
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frontier.node.node import Node
    from frontier.store.calls import Command, Condition

KEPT = 32
"""Reports of gone nodes that stay as they are."""
LOST_S = 86_400.0
"""Seconds after its last report when a node that did not leave counts as gone for good.
One that was frozen for longer and goes on is counted twice in the totals."""
EVERY_S = 30.0
"""Seconds between two looks of the first node by name."""
AT_ONCE = 64
"""Reports that are summed up at a time, so that few can change meanwhile."""


def to_fold(
    reports: Mapping[bytes, bytes], members: Iterable[bytes], now_s: float
) -> list[bytes]:
    """The fields of *reports* that are to be summed up, the longest gone first.

    None is of *members*; *now_s* is in seconds since the Unix epoch.
    """
    there, gone = set(members), []
    replaced = [name for name in reports if REPLACED in name]
    for name, value in reports.items():
        if name in there or not NAME.fullmatch(text(name)):
            continue
        report = mapping(value)
        end = real(report.get("opened")) + real(report.get("seconds"))
        if report.get("left") is True or end < now_s - LOST_S:
            gone.append((end, name))
    return [*replaced, *(name for _, name in sorted(gone)[: max(0, len(gone) - KEPT)])]


class GoneNodes(Part):
    """Sums up the reports of gone nodes, while its node is the first by name."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @override
    async def run(self) -> None:
        """Look at once, for short-lived nodes, then every so often, until cancelled."""
        while True:
            if self._node.membership.rank == 0:
                with contextlib.suppress(StoreUnavailable):
                    while await self.fold():
                        pass
            await asyncio.sleep(EVERY_S)

    async def fold(self) -> int:
        """Sum up some of what can be summed up; return of how many nodes."""
        run, keys = self._node.outage_retry.call, self._node.keys
        reports, members, time = await run(
            [
                Call.command("HGETALL", keys.reports),
                Call.command("HKEYS", keys.nodes),
                Call.command("TIME"),
            ]
        )
        names = to_fold(reports, members, float(time[0]))[:AT_ONCE]
        if not names:
            return 0
        before = reports.get(GONE, b"")
        some = {name: reports[name] for name in names}
        after = encoded(folded({GONE: before, **some}))
        when: list[Condition] = [(("HGET", keys.reports, GONE), before)]
        when += [(("HGET", keys.reports, name), some[name]) for name in names]
        when += [(("HEXISTS", keys.nodes, name), 0) for name in names]
        removed: Command = ("HDEL", keys.reports, *names)
        fold = Call.txn(when, [removed, ("HSET", keys.reports, GONE, after)])
        (is_done,) = await run([fold])
        # else one is back, or another node was quicker
        return 0 if is_done is None else len(names)
