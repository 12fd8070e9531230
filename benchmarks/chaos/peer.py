"""The same kills for scrapy-redis: what the oracle must find there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.chaos.oracle import Facts
from benchmarks.chaos.trial import DELAY, SLACK, Trial
from frontier.testing.oracle import RequestLog

if TYPE_CHECKING:
    from benchmarks.chaos.durable import Lease


class PeerTrial(Trial):
    """A crawl by nodes of scrapy-redis; it has no leases and no archive."""

    _command = ("runspider", "benchmarks/chaos/peer_spider.py")

    def _settings(self, node_id: str) -> dict[str, object]:  # noqa: ARG002
        return {"SCHEDULER_PERSIST": True}

    def _sample(self) -> None:
        pass

    def _held_by(self, node_id: str) -> list[Lease]:  # noqa: ARG002
        return []

    def _excuse(self, node_id: str) -> None:
        pass

    def _facts(self) -> Facts:
        self._end_nodes()
        return Facts(
            expected=self._expected,
            log=RequestLog.read(self._requests),
            in_flight=self._in_flight,
            delay=DELAY,
            slack=SLACK,
            ends=False,
        )
