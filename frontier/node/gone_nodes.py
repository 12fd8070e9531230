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
"""Reports that one call takes away."""


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
                    await self.fold()
            await asyncio.sleep(EVERY_S)

    async def fold(self) -> int:
        """Sum up what can be summed up; return of how many nodes."""
        run, keys, done = self._node.outage_retry.call, self._node.keys, 0
        reports_key, nodes = keys.reports, keys.nodes
        calls = [Call.command("HKEYS", reports_key), Call.command("HLEN", nodes)]
        told, live = await run(calls)
        if len(told) - live <= KEPT and not any(REPLACED in name for name in told):
            return 0
        reports, members, time = await run(
            [
                Call.command("HGETALL", reports_key),
                Call.command("HKEYS", nodes),
                Call.command("TIME"),
            ]
        )
        names = to_fold(reports, members, float(time[0]))
        before = reports.get(GONE, b"")
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            taken = {name: reports[name] for name in some}
            after = encoded(folded({GONE: before, **taken}))
            when: list[Condition] = [(("HGET", reports_key, GONE), before)]
            when += [(("HGET", reports_key, name), reports[name]) for name in some]
            when += [(("HEXISTS", nodes, name), 0) for name in some]
            removed: Command = ("HDEL", reports_key, *some)
            fold = Call.txn(when, [removed, ("HSET", reports_key, GONE, after)])
            (is_done,) = await run([fold])
            if is_done is None:  # one is back, or another node was quicker
                break
            before, done = after, done + len(some)
        return done
