"""The same kills for scrapy-redis: what the oracle must find there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.testing.oracle import RequestLog
from tests.chaos.oracle import Facts
from tests.chaos.trial import DELAY, SLACK, Trial

if TYPE_CHECKING:
    from tests.chaos.durable import Lease


class PeerTrial(Trial):
    """A crawl by nodes of scrapy-redis; it has no leases and no archive."""

    _command = ("runspider", "tests/chaos/peer_spider.py")

    @override
    def _settings(self, node_id: str) -> dict[str, object]:
        return {"SCHEDULER_PERSIST": True}

    @override
    def _sample(self) -> None:
        pass

    @override
    def _held_by(self, node_id: str) -> list[Lease]:
        return []

    @override
    def _excuse(self, node_id: str) -> None:
        pass

    @override
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
