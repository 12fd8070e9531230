"""Crawls in a store, as nodes would make and fill them."""

import json
from types import SimpleNamespace

from frontier.cluster.shared_settings import crawl_settings
from frontier.queue.push import Pusher
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys
from frontier.store.outage_retry import OutageRetry


def make(store, namespace, crawl_id, **settings):
    """Make an open crawl with *settings*; return its keys and its configuration."""
    config = Config.from_settings(settings)
    keys, shape = CrawlKeys(namespace, crawl_id), json.dumps(crawl_settings(config))
    opened = Call.to("crawl_open", [keys.meta], [shape, "site", "", SCHEMA])
    listed = Call.command("SADD", RegistryKeys(namespace).crawls, crawl_id)
    store.run([opened, listed])
    return keys, config


def push(store, keys, shape, pushes):
    """Push pairs of a partition and a push; return verdicts by the pushes' tags."""
    return {
        one.tag: verdict
        for _, some, done in Pusher(keys, shape).push(store, pushes)
        for one, verdict in zip(some, done.verdicts, strict=True)
    }


def node_of(store, keys, **facts):
    """As much of a node in the crawl of *keys* as a part needs."""
    outage_retry = OutageRetry(store)
    calls = {"run": outage_retry.retry, "answer": outage_retry.answer}
    return SimpleNamespace(outage_retry=outage_retry, keys=keys, **calls, **facts)
