"""The features of a node, in their order: the one module that knows them all.

Who takes a feature out takes its package and its line here out. The order is that in
which the kernel calls their hooks; see `frontier.node.context.Part`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.node.cookies import Cookies
from frontier.node.crawl_limits import NO_LIMITS, Portions, Spending
from frontier.node.host_addresses import AddressClasses, Addresses
from frontier.node.host_politeness import SingleHostWarning
from frontier.settings.values import SEEDS
from frontier.status.reports import GoneNodes

if TYPE_CHECKING:
    from frontier.node.context import Part
    from frontier.node.crawl_limits import Limits
    from frontier.node.kernel import Kernel


def parts_of(node: Kernel, limits: Limits = NO_LIMITS) -> tuple[Part, ...]:
    """The features of *node*, which is built, in a crawl that has *limits*."""
    config, outage_retry, keys = node.config, node.outage_retry, node.keys
    allowed = frozenset(config.allow_addresses)
    return (
        Portions(outage_retry, keys, partitions=config.partitions),
        Addresses(outage_retry, keys),
        AddressClasses(outage_retry, keys, None if SEEDS in allowed else allowed),
        Cookies(outage_retry, keys),
        *(
            [SingleHostWarning(lambda: node.membership.nodes, node.inbox.ready_by_key)]
            if config.queue_key != "url" and config.host_shards == 1
            else []
        ),
        GoneNodes(outage_retry.call, keys, lambda: node.membership.rank),
        # The last that is asked for room, as it asks the store for more then; and the
        # last before an ack, as it says of what is on disk that it was fetched.
        Spending(
            node.context,
            limits,
            waiting=lambda: 0 if node.inbox.stopped else len(node.inbox),
            on_allowed=node.owner.on_ready,
            on_limit=node.on_limit,
            stands_still=lambda: node.uplink.since is not None,
        ),
    )
