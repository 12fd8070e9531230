"""How many requests to one host a node may have at once.

A host that is divided into shards has several nodes. Each has its part of what
the host may have, by its part of the partitions, of which the parts of all
nodes are one: so together they have no more than one node would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.urls.partition import SPREAD, host_of_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from frontier.settings.config import Config

SLACK = 0.1
"""By how much a part may fall short of a whole number: the ring is balanced to a
twentieth, and of eight requests no node of four should lose one for that."""


class Allowance:
    """Reckons for one node, whose part of the partitions is *share* at present."""

    def __init__(
        self, config: Config, settings: BaseSettings, share: Callable[[], float]
    ) -> None:
        self._share = share
        self._is_spread = config.queue_key in SPREAD
        self.is_divided = config.host_shards > 1 and not self._is_spread
        """Whether hosts have shards."""
        self._requests = settings.getint("CONCURRENT_REQUESTS")
        self._per_host = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._is_delayed = settings.getfloat("DOWNLOAD_DELAY") > 0

    def host_of(self, queue_key: str) -> str:
        """Whose allowance the requests of *queue_key* take from."""
        return host_of_shard(queue_key) if self.is_divided else queue_key

    def sent(self) -> int:
        """How many requests to one host may be on the way."""
        if not self.is_divided:
            return self._per_host
        return max(1, int(self._per_host * self._share() + SLACK))

    def reserved(self) -> int:
        """How many URLs of one host may be reserved, those on the way included."""
        if self._is_spread:  # one queue per partition: there is no host to spare
            return 2 * self._requests
        return 2 if self._is_delayed else 2 * self.sent()
