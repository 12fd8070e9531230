"""The settings that all nodes of a crawl must share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier import bloom
from frontier.queues.push import SeenShape

if TYPE_CHECKING:
    from frontier.conf import Config


def crawl_shape(config: Config) -> dict[str, Any]:
    """Setting name to value, as stored with the crawl."""
    return {
        "FRONTIER_PARTITIONS": config.partitions,
        "FRONTIER_QUEUE_KEY": config.queue_key,
        "FRONTIER_SEEN_TIERS": list(config.seen_tiers),
        "FRONTIER_BLOOM_CAPACITY": config.bloom_capacity,
        "FRONTIER_BLOOM_ERROR_RATE": config.bloom_error_rate,
    }


def seen_shape(config: Config) -> SeenShape:
    """The shared tiers of the seen test."""
    return SeenShape(
        has_bloom="bloom" in config.seen_tiers,
        has_set="set" in config.seen_tiers,
        capacity=bloom.share(config.bloom_capacity, config.partitions),
        error_rate=config.bloom_error_rate,
    )
