"""The same kills for scrapy-redis: what the oracle must find there."""

from frontier.testing.oracle import RequestLog
from tests.chaos.oracle import Facts
from tests.chaos.trial import DELAY, SLACK, Trial


class PeerTrial(Trial):
    """A crawl by nodes of scrapy-redis; it has no leases and no archive."""

    _command = ("runspider", "tests/chaos/peer_spider.py")

    def _settings(self, node_id):
        return {"SCHEDULER_PERSIST": True}

    def _sample(self):
        pass

    def _held_by(self, node_id):
        return []

    def _excuse(self, node_id):
        pass

    def _facts(self):
        self._end_nodes()
        return Facts(
            expected=self._expected,
            log=RequestLog.read(self._requests),
            in_flight=self._in_flight,
            delay=DELAY,
            slack=SLACK,
            ends=False,
        )
