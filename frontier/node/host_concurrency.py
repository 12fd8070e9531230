"""How many requests a node may have at once, in all and to one host.

A host that is divided into shards has several nodes. Each has its part of what
the host may have, by its part of the partitions, of which the parts of all
nodes are one: so together they have no more than one node would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.urls.partition import SPREAD, host_of_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.settings.config import Config

SLACK = 0.1
"""By how much a part may fall short of a whole number: the ring is balanced to a
twentieth, and of eight requests no node of four should lose one for that."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What the settings of one Scrapy process allow it."""

    requests: int = 16
    """``CONCURRENT_REQUESTS``."""
    per_host: int = 8
    """``CONCURRENT_REQUESTS_PER_DOMAIN``."""
    is_delayed: bool = False
    """Whether there is a ``DOWNLOAD_DELAY``."""


class HostConcurrency:
    """Counts for one node, whose part of the partitions is *share* at present."""

    def __init__(
        self, config: Config, whole: Concurrency, share: Callable[[], float]
    ) -> None:
        self._whole = whole
        self._share = share
        self._is_spread = config.queue_key in SPREAD
        self.is_divided = config.host_shards > 1 and not self._is_spread
        """Whether hosts have shards."""

    def host_of(self, queue_key: str) -> str:
        """Whose concurrency the requests of *queue_key* take from."""
        return host_of_shard(queue_key) if self.is_divided else queue_key

    def sent(self) -> int:
        """How many requests to one host may be on the way."""
        if not self.is_divided:
            return self._whole.per_host
        return max(1, int(self._whole.per_host * self._share() + SLACK))

    def reserved(self) -> int:
        """How many URLs of one host may be reserved, those on the way included."""
        if self._is_spread:  # one queue per partition: there is no host to spare
            return 2 * self._whole.requests
        return 2 if self._whole.is_delayed else 2 * self.sent()

    @property
    def waiting(self) -> int:
        """How many URLs may be reserved in all."""
        return 2 * self._whole.requests
