"""The settings that all nodes of a crawl must share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frontier import bloom
from frontier.errors import ConfigurationError
from frontier.queues.push import SeenShape
from frontier.store.client import Call

if TYPE_CHECKING:
    from frontier.conf import Config


FILTER_PROBE = Call.command("BF.EXISTS", "frontier", "")
"""A call that a server without native filters refuses."""


def settled(config: Config, *, server_has_filters: bool) -> Config:
    """*config* with ``FRONTIER_BLOOM_NATIVE`` decided.

    Raises:
        ConfigurationError: It asks for native filters where there are none.
    """
    if config.bloom_native == "yes" and not server_has_filters:
        raise ConfigurationError(
            "FRONTIER_BLOOM_NATIVE = 'yes': the store has no commands BF.*; "
            "set 'auto' or 'no'"
        )
    if config.bloom_native == "auto":
        choice = "yes" if server_has_filters else "no"
        return replace(config, bloom_native=choice)
    return config


def crawl_shape(config: Config) -> dict[str, Any]:
    """Setting name to value, as stored with the crawl."""
    return {
        "FRONTIER_PARTITIONS": config.partitions,
        "FRONTIER_QUEUE_KEY": config.queue_key,
        "FRONTIER_SEEN_TIERS": list(config.seen_tiers),
        "FRONTIER_SEEN_SET_BITS": config.seen_set_bits,
        "FRONTIER_BLOOM_CAPACITY": config.bloom_capacity,
        "FRONTIER_BLOOM_ERROR_RATE": config.bloom_error_rate,
        "FRONTIER_BLOOM_NATIVE": config.bloom_native,
    }


def seen_shape(config: Config) -> SeenShape:
    """The shared tiers of the seen test."""
    return SeenShape(
        has_bloom="bloom" in config.seen_tiers,
        has_set="set" in config.seen_tiers,
        capacity=bloom.share(config.bloom_capacity, config.partitions),
        error_rate=config.bloom_error_rate,
        set_bits=config.seen_set_bits,
        native=config.bloom_native == "yes" and "bloom" in config.seen_tiers,
    )
