"""Politeness between nodes: what each may have of a host at once.

Within a node Scrapy's own slots keep the delay of a host, see
`frontier.download.politeness`. `HostConcurrency` says how many requests a node may have
at once, in all and to one host. A host that is divided into shards has several nodes.
Each has a share of what the host may have, equal to its share of the partitions. The
shares of all nodes add up to one, so together they have no more than one node would.
When a host may be asked next is in `frontier.node.hosts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.model import frozen
from frontier.urls.partition import SPREAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.settings.config import Config


LONG = 1.0
"""Seconds between two requests to a host from which on its URLs wait for their turn in
the store, and not in the downloader, where they would take room from others."""
SLACK = 0.1
"""By how much a share may fall short of a whole number of requests: the ring is
balanced to a twentieth, and of four nodes that share eight none should lose one."""


@frozen
class Concurrency:
    """What the settings of one Scrapy process allow it."""

    requests: int = 16
    """``CONCURRENT_REQUESTS``."""
    per_host: int = 8
    """``CONCURRENT_REQUESTS_PER_DOMAIN``."""
    delay: float = 0.0
    """``DOWNLOAD_DELAY``, in seconds."""


class HostConcurrency:
    """The limits of one node, whose share of the partitions is *share* at present."""

    def __init__(
        self, config: Config, whole: Concurrency, share: Callable[[], float]
    ) -> None:
        self.whole = whole
        """What the process may have; replaced when an operator changes it."""
        self._share = share
        self._is_spread = config.queue_key in SPREAD
        self.is_divided = config.host_shards > 1 and not self._is_spread
        """Whether hosts have shards."""

    def sent(self) -> int:
        """How many requests to one host may be on the way."""
        if not self.is_divided:
            return self.whole.per_host
        return max(1, int(self.whole.per_host * self._share() + SLACK))

    def reserved(self) -> int:
        """How many URLs of one host may be reserved, those on the way included."""
        if self._is_spread:  # one queue per partition: there is no host to spare
            return 2 * self.whole.requests
        return 2 if self.whole.delay > 0 else 2 * self.sent()

    @property
    def is_slow(self) -> bool:
        """Whether all hosts have a long delay."""
        return self.whole.delay >= LONG and not self._is_spread

    @property
    def waiting(self) -> int:
        """How many URLs may be reserved in all."""
        return 2 * self.whole.requests
