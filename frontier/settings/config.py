"""Settings: their names, their defaults, and one frozen ``Config``.

What always holds:

1.  Every setting of this package is ``FRONTIER_`` and the upper-case name of a
    field of `Config`; the field's default is the setting's default.
2.  A ``Config`` exists only if every value in it can work: a wrong value, or a
    ``FRONTIER_*`` name that is not a setting, raises `ConfigurationError` with
    the setting's name in the message.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.model import Order
from frontier.settings import values as parsers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field

PREFIX = "FRONTIER_"
LEAST_SECONDS = 0.001
"""Of a setting that is a time, and not 0."""
MOST_SECONDS = 2 * 366 * 86_400.0
"""Of what waits until it is due."""
_HERITRIX = {
    "digest": "sha1",
    "revisit_match": "digest",
    "revisit_mime_include": "*/*",  # without a Content-Type nothing is looked up
    "revisit_statuses": "200",
}
REVISIT_PRESETS: dict[str, dict[str, Any]] = {
    "browsertrix": {
        "digest": "sha256",
        "revisit_match": "digest",
        "revisit_statuses": "*",
        "warc_payload": "decoded",
    },
    "deduplicator": {**_HERITRIX, "revisit_mime_exclude": "text/*"},
    "deduplicator-3.0": {
        **_HERITRIX,
        "revisit_match": "url+digest",
        "revisit_mime_exclude": "text/*",
    },
    "iceland": {
        **_HERITRIX,
        "revisit_match": "digest+same-url",
        "revisit_mime_exclude": "text/html",
    },
    "iceland-weekly": {**_HERITRIX, "revisit_match": "digest+same-url"},
}
"""What a preset sets, where the setting itself is not given; see docs/revisits.md."""


def _setting(default: Any, parser: parsers.Parser) -> Any:
    return field(default=default, metadata={"parser": parser})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one node, parsed and checked once."""

    allow_addresses: tuple[str, ...] = _setting(
        (parsers.SEEDS,), parsers.address_classes
    )
    """Classes of addresses that are connected to; ``seeds``: as the seeds' are."""
    backoff_growth: float = _setting(2.0, parsers.real(1.0 - 1e-9, 1000.0))
    """By how much each back-off of a host is longer than the one before."""
    backoff_max: float = _setting(3600.0, parsers.duration(LEAST_SECONDS, 691_200.0))
    """Seconds of the longest back-off of a host that does not say itself how long."""
    backoff_min: float = _setting(1.0, parsers.duration(LEAST_SECONDS, 86400.0))
    """Seconds for which a host is left alone that says 429 or 503, the first time."""
    backoff_retry_after_max: float = _setting(
        21600.0, parsers.duration(LEAST_SECONDS, 604_800.0)
    )
    """Most seconds of a Retry-After that are kept."""
    backoff_times: int = _setting(12, parsers.whole(0, 100_000))
    """Back-offs of a host in a row after which its URLs are given up; 0: none."""
    backoff_unreachable_after: int = _setting(10, parsers.whole(0, 10**6))
    """Requests in a row that do not reach a host before it is left alone; 0: never."""
    backoff_unreachable_max: float = _setting(
        21600.0, parsers.duration(LEAST_SECONDS, 604_800.0)
    )
    """Seconds of the longest time for which it is."""
    backoff_unreachable_min: float = _setting(
        300.0, parsers.duration(LEAST_SECONDS, 86400.0)
    )
    """Seconds for which it is left alone, the first time."""
    backoff_unreachable_times: int = _setting(3, parsers.whole(0, 100_000))
    """How often in a row it is, before its URLs are given up."""
    crawl_delay_max: float = _setting(300.0, parsers.duration(0.0, 86400.0))
    """Most seconds of a robots.txt's Crawl-delay that are kept; 0 for none."""
    enabled: bool = _setting(True, parsers.boolean)
    """Whether the add-on does anything."""
    bloom_capacity: int = _setting(1_000_000, parsers.whole(1, 10**12))
    """URLs of the crawl for which the first Bloom generation is sized."""
    bloom_error_rate: float = _setting(0.001, parsers.real(0.0, 1.0))
    """Bound on the share of new URLs that the Bloom tier calls seen."""
    busy_max: float = _setting(120.0, parsers.duration(0.0, 1e6))
    """Seconds that a callback may keep a node busy before its page is given up; 0 for
    no watchdog: a lease."""
    canon_rules: str = _setting("scrapy", parsers.canon_rules)
    """What makes two URLs one: in the seen test, the queues and the index."""
    close_spider: str = _setting("crawl", parsers.choice("crawl", "node"))
    """What ends where the spider raises `CloseSpider`: the crawl, or this node."""
    collection: str = _setting("", parsers.collection)
    """The crawls that are deduplicated together; empty for the default one."""
    collection_redis_url: str = _setting("", parsers.redis_url)
    """The server of the collections, where it is not that of the crawls."""
    commit_every: float = _setting(
        0.0, parsers.duration(1.0, 366 * 86_400.0, or_zero=True)
    )
    """Seconds after which an open crawl is committed so far; 0 for at its end."""
    cookies_shared: bool = _setting(True, parsers.boolean)
    """Whether all nodes have the cookies that one was given."""
    crawl_id: str = _setting("", parsers.optional_name)
    """The crawl to open or join; empty for ``<spider>-<n>``."""
    crawl_max_bytes: int = _setting(0, parsers.whole(0, 10**18))
    """Of responses of the whole crawl, at which it ends; 0 for no limit."""
    digest: str = _setting("sha256", parsers.choice("sha256", "sha1", "blake3"))
    """Algorithm of the payload digests."""
    feeds: str = _setting("", parsers.sites)
    """The sites that are followed: a file as feeds.toml, or the URL of a database."""
    feeds_max_bytes: int = _setting(10 << 20, parsers.whole(1_000, 10**9))
    """A larger feed is not read."""
    feeds_refresh: float = _setting(10.0, parsers.duration(LEAST_SECONDS, 86400.0))
    """Seconds between two looks at them."""
    feeds_round_max: float = _setting(3600.0, parsers.duration(1.0, 31_536_000.0))
    """Seconds after which a feed that has not answered is asked again."""
    file_mode: str = _setting("0640", parsers.file_mode)
    """Of files that are made, in octal; what the umask takes away is not in it."""
    host_max_bytes: int = _setting(0, parsers.whole(0, 10**18))
    """Of the responses of one host, at which its other URLs are skipped; 0: none."""
    host_max_pages: int = _setting(0, parsers.whole(0, 10**9))
    """Of one host, at which its other URLs are skipped; 0 for no limit."""
    host_shards: int = _setting(1, parsers.whole(1, 1024))
    """Queues into which each queue key is divided, so that nodes can share it."""
    item_id_field: str = _setting("id", parsers.field)
    """Field by which `UniqueItemsPipeline` knows items."""
    item_origin_field: str = _setting("", parsers.optional_field)
    """Field of items that says which page they are of; empty for none."""
    item_modules: tuple[str, ...] = _setting((), parsers.modules)
    """Modules whose classes requests may carry; empty for the project's packages."""
    journal_dir: Path | None = _setting(None, parsers.optional_directory)
    """Where the node's journal is written; empty for none."""
    join_only: bool = _setting(False, parsers.boolean)
    """Whether a node opens no crawl, and waits for one to take part in."""
    keep_alive: bool = _setting(False, parsers.boolean)
    """Whether the crawl waits for new seeds when nothing is queued."""
    keep_frontier: bool = _setting(True, parsers.boolean)
    """Whether the queues and the seen-set stay when the crawl has ended."""
    lease_ttl: float = _setting(15.0, parsers.duration(0.5, 3600.0))
    """Seconds after which a silent node loses its partitions."""
    log_format: str = _setting("text", parsers.choice("text", "json"))
    """Whether a line of the log is text, as Scrapy's settings say, or a JSON object."""
    metrics_host: str = _setting("127.0.0.1", parsers.host)
    """The address at which a node serves its metrics."""
    metrics_port: str = _setting("", parsers.ports)
    """The port there, ``0`` for any, or a range of ports; empty for no metrics."""
    namespace: str = _setting("frontier", parsers.name)
    """Prefix of every key in Redis, except those of the digest index."""
    node_id: str = _setting("", parsers.optional_name)
    """Name of this node in the cluster; empty for ``<host>-<pid>-<random>``."""
    node_weight: int = _setting(1, parsers.whole(1, 1000))
    """Share of the partitions that this node takes, relative to others."""
    order: Order = _setting(Order.BFS, parsers.order)
    """Which of two URLs of one host and priority is fetched first."""
    partitions: int = _setting(1024, parsers.whole(1, 16384))
    """Units of ownership; fixed when the crawl is created."""
    queue_key: str = _setting("host", parsers.queue_key)
    """What is owned by one node at a time and takes turns."""
    recrawl: str = _setting("off", parsers.choice("off", "fixed", "adaptive"))
    """How the time is set after which a page is fetched again."""
    recrawl_decay: float = _setting(1.5, parsers.real(1 - 1e-9, 100.0))
    """By which an interval is divided where a page has changed."""
    recrawl_growth: float = _setting(1.5, parsers.real(1 - 1e-9, 100.0))
    """By which it is multiplied where it has not."""
    recrawl_interval: float = _setting(86_400.0, parsers.duration(0.1, MOST_SECONDS))
    """Seconds to the first recrawl; if it is fixed, to each."""
    recrawl_max: float = _setting(2_419_200.0, parsers.duration(0.1, MOST_SECONDS))
    """Longest adaptive interval, in seconds."""
    recrawl_min: float = _setting(3_600.0, parsers.duration(0.1, MOST_SECONDS))
    """Shortest adaptive interval, in seconds."""
    recrawl_rules: Path | None = _setting(None, parsers.optional_directory)
    """File of rules by host, path and media type; empty for none."""
    recrawl_text: bool = _setting(False, parsers.boolean)
    """Whether a page of HTML has changed only if its text has."""
    recrawl_until: str = _setting("", parsers.end)
    """When a crawl ends though more is due later; empty for never."""
    revisit_cdx_servers: tuple[str, ...] = _setting((), parsers.addresses)
    """CDX servers that are asked for what the collections do not have."""
    revisit_cdx_timeout: float = _setting(2.0, parsers.duration(LEAST_SECONDS, 300.0))
    """Seconds that one of them may take for an answer."""
    revisit_conditional_get: bool = _setting(False, parsers.boolean)
    """Whether servers are asked if what is stored has changed."""
    revisit_digests: str = _setting(
        "", parsers.listed(parsers.choice("sha256", "sha1", "blake3"))
    )
    """Further algorithms of digests by which originals are looked up."""
    revisit_enabled: bool = _setting(True, parsers.boolean)
    """Whether payloads that are in the index become revisit records."""
    revisit_match: str = _setting(
        "digest",
        parsers.choice("digest", "url+digest", "canonical+digest", "digest+same-url"),
    )
    """What has to be equal in two captures for one to be a revisit."""
    revisit_mime_exclude: str = _setting("", parsers.listed(parsers.media_type))
    """Media types, or patterns of them, that never become revisits."""
    revisit_mime_include: str = _setting("", parsers.listed(parsers.media_type))
    """Media types, or patterns of them, that may; empty for all."""
    revisit_min_binary_bytes: int = _setting(0, parsers.whole(0, 10**15))
    """Least payload of a revisit, for types that are not text."""
    revisit_min_text_bytes: int = _setting(0, parsers.whole(0, 10**15))
    """Least payload of a revisit, for text, JSON, XML and scripts."""
    revisit_preset: str = _setting("", parsers.choice("", *REVISIT_PRESETS))
    """A known policy by its name; settings that are given override it."""
    revisit_read_collections: str = _setting(
        "", parsers.listed(parsers.collection_name)
    )
    """Further collections whose originals are referred to, and only read."""
    revisit_skip_links_depth: int = _setting(-1, parsers.whole(-1, 10**6))
    """Depth below which a duplicate page is not followed; -1 for none."""
    revisit_statuses: str = _setting("200", parsers.listed(parsers.statuses))
    """HTTP statuses whose payloads may become revisits."""
    run_id: str = _setting("", parsers.run_id)
    """What all nodes of one run are given; empty: what their launcher says."""
    schemes: tuple[str, ...] = _setting(("http", "https"), parsers.schemes)
    """Of the URLs of requests that are taken from the store."""
    seen_recent_size: int = _setting(100_000, parsers.whole(1, 10**9))
    """Entries of the node's own LRU of requests."""
    seen_set_max_bytes: int | parsers.Percent = _setting(
        0, parsers.whole_or_percent(0, 10**15)
    )
    """Memory of the set tier above which sets are given up; 0 for no limit. Or its
    share of the ``maxmemory`` of the store."""
    seen_start: bool = _setting(True, parsers.boolean)
    """Whether a link to a start URL leads to what was seen."""
    seen_tiers: tuple[str, ...] = _setting(("recent", "set"), parsers.tiers)
    """Tiers of the seen test, from the node to the exact set."""
    store_dir: Path = _setting(Path(".frontier"), parsers.directory)
    """Home of the embedded store, which runs when no ``REDIS_*`` is set."""
    store_wait: float = _setting(30.0, parsers.duration(0.0, 86400.0))
    """Seconds for which a node that starts waits for a store that does not answer."""
    store_wait_aof: bool = _setting(False, parsers.boolean)
    """Whether acks wait until what they rely on is on the server's disk."""
    store_wait_replicas: int = _setting(0, parsers.whole(0, 16))
    """On how many replicas what acks rely on has to be."""
    stored_meta: tuple[str, ...] = _setting((), parsers.words)
    """Keys of ``meta`` that steer where bytes go, and are taken from the store."""
    warc_block_digest: bool = _setting(True, parsers.boolean)
    """Whether records have a WARC-Block-Digest beside that of the payload."""
    trap_directory_urls: int = _setting(0, parsers.whole(0, 10**9))
    """URLs of one directory that are queued; 0 for no limit."""
    trap_hops: int = _setting(0, parsers.whole(0, 10**6))
    """Links and redirects from a seed to a URL; 0 for no limit."""
    trap_host_urls: int = _setting(0, parsers.whole(0, 10**12))
    """URLs of one host that are queued; 0 for no limit."""
    trap_page_links: int = _setting(0, parsers.whole(0, 10**9))
    """Links of one page that the spider ``site`` follows; 0 for no limit."""
    trap_path_repeats: int = _setting(0, parsers.whole(0, 1_000))
    """How often a part of a path may come in a row; 0 for no limit."""
    trap_path_segments: int = _setting(0, parsers.whole(0, 10**6))
    """Slashes of a path; 0 for no limit."""
    trap_query_urls: int = _setting(0, parsers.whole(0, 10**9))
    """URLs of one page with the same parameters that are queued; 0 for no limit."""
    trap_url_length: int = _setting(0, parsers.whole(0, 10**6))
    """Characters of a URL; 0 for no limit."""
    uplink_probe: float = _setting(30.0, parsers.duration(0.0, 3600.0))
    """Seconds between probes of hosts while none answers; 0: that is not judged."""
    warc_browser: bool = _setting(True, parsers.boolean)
    """Whether what a browser of scrapy-playwright gets for a page is archived, too."""
    warc_cdxj: bool = _setting(True, parsers.boolean)
    """Whether each WARC file gets an index beside it when it is closed."""
    warc_cdxj_keys: str = _setting("pywb", parsers.choice("pywb", "rules"))
    """Whose keys that index has: those pywb looks up, or the crawl's rules'."""
    warc_dir: Path = _setting(Path("warcs"), parsers.directory)
    """Where WARC files are written."""
    warc_enabled: bool = _setting(True, parsers.boolean)
    """Whether exchanges are written to WARC files."""
    warc_exclude: tuple[str, ...] = _setting((), parsers.archive_rules)
    """Exchanges that are not archived, as rules ``mime:``, ``status:``, ``url:``."""
    warc_item_field: str = _setting("warc", parsers.name)
    """Field of an item that `WarcPipeline` fills."""
    warc_fsync: str = _setting("batch", parsers.choice("record", "batch", "close"))
    """When records are forced to disk: each, before acks, or at the file's end."""
    warc_http_handlers: tuple[str, ...] = _setting((), parsers.class_paths)
    """Download handlers of others whose responses servers have sent."""
    warc_include: tuple[str, ...] = _setting((), parsers.archive_rules)
    """Exchanges that are archived; empty for all. Rules as of ``warc_exclude``."""
    warc_info: str = _setting("", parsers.warcinfo)
    """Fields of warcinfo records, as a JSON object, beside those that are known."""
    warc_log: bool = _setting(True, parsers.boolean)
    """Whether a crawl log has every attempt, those without an answer, too."""
    warc_max_bytes: int = _setting(1_000_000_000, parsers.whole(1_000, 10**13))
    """Compressed size after which a new WARC file is begun."""
    warc_max_seconds: float = _setting(0.0, parsers.duration(0.0, 1e8))
    """Age after which a WARC file is closed; 0 for none."""
    warc_max_total_bytes: int = _setting(0, parsers.whole(0, 10**18))
    """Of all files in ``warc_dir``, above which the node waits; 0 for no limit."""
    warc_metadata: bool = _setting(True, parsers.boolean)
    """Whether each exchange gets a record of how its URL was found."""
    warc_min_free_bytes: int = _setting(0, parsers.whole(0, 10**18))
    """Of the disk of ``warc_dir``, below which the node waits; 0 for no limit."""
    warc_outlinks: bool = _setting(False, parsers.boolean)
    """Whether each page gets a record of the links that its callback yields."""
    warc_payload: str = _setting("raw", parsers.choice("raw", "decoded"))
    """Whether bodies keep the content coding in which they were received."""
    warc_spool_bytes: int = _setting(8_000_000, parsers.whole(0, 10**12))
    """Size of a body above which it is kept in a file, and not in memory."""
    warc_upload: str = _setting("", parsers.upload_url)
    """Where each WARC file is copied when it is closed; empty for nowhere."""
    warc_upload_remove: bool = _setting(False, parsers.boolean)
    """Whether a WARC file is removed here once it is there."""
    wacz_dir: Path | None = _setting(None, parsers.optional_directory)
    """Where the last node makes a WACZ of the finished crawl; `None`: nowhere."""
    worker_max_bytes: int = _setting(512_000_000, parsers.whole(10**8, 10**13))
    """Memory of a worker process, in address space."""
    worker_processes: int = _setting(2, parsers.whole(1, 64))
    """Most processes of a node that read what may take long."""
    worker_seconds: float = _setting(10.0, parsers.duration(LEAST_SECONDS, 3600.0))
    """CPU time after which one is killed that reads one document."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Config:
        """Return the configuration in *settings*, a mapping of all settings.

        Raises:
            ConfigurationError: A ``FRONTIER_*`` setting is unknown or wrong.
        """
        values = _parsed(settings, {PREFIX + f.name.upper(): f for f in fields(cls)})
        values = {**REVISIT_PRESETS.get(values.get("revisit_preset", ""), {}), **values}
        if not values.get("node_id"):
            host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "node"
            values["node_id"] = f"{host}-{os.getpid()}-{secrets.token_hex(2)}"
        config = cls(**values)
        if config.seen_set_max_bytes:  # Bloom decides when a set is given up
            tiers = parsers.tiers([*dict.fromkeys((*config.seen_tiers, "bloom"))])
            config = replace(config, seen_tiers=tiers)
        _require_fit(config)
        return config

    def as_settings(self) -> dict[str, str]:
        """Every setting's name and its value in effect, as text."""
        values = {PREFIX + f.name.upper(): getattr(self, f.name) for f in fields(self)}
        return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    """*value* as its parser takes it."""
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if value is None else str(value)


def _parsed(
    settings: Mapping[str, Any], by_name: Mapping[str, Field[Any]]
) -> dict[str, Any]:
    """The values of our settings among *settings*, by field.

    Raises:
        ConfigurationError: One is unknown or wrong.
    """
    values = {}
    for name in settings:
        if not name.startswith(PREFIX):
            continue
        if name not in by_name:
            raise ConfigurationError(_unknown(name, list(by_name)))
        value = settings[name]
        try:
            parsed = by_name[name].metadata["parser"](value)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{name} = {parsers.shown(value)}: {error}"
            ) from None
        values[by_name[name].name] = parsed
    return values


def _require_fit(config: Config) -> None:
    """Raise unless the settings of *config* fit each other.

    Raises:
        ConfigurationError: Two of them do not.
    """
    if config.seen_set_max_bytes and "set" not in config.seen_tiers:
        raise ConfigurationError(
            f"FRONTIER_SEEN_SET_MAX_BYTES = {config.seen_set_max_bytes}: "
            "needs the tier set in FRONTIER_SEEN_TIERS"
        )
    for least, most in (
        ("backoff_min", "backoff_max"),
        ("backoff_unreachable_min", "backoff_unreachable_max"),
        ("recrawl_min", "recrawl_max"),
    ):
        if getattr(config, least) > getattr(config, most):
            raise ConfigurationError(
                f"{PREFIX}{least.upper()} = {getattr(config, least):g}: is more than "
                f"{PREFIX}{most.upper()} = {getattr(config, most):g}"
            )
    if config.recrawl != "off" and not config.seen_start:
        raise ConfigurationError(
            f"FRONTIER_RECRAWL = {config.recrawl!r}: needs FRONTIER_SEEN_START, as a "
            "start URL to which a page links would be in the schedule twice"
        )
    has_quotas = config.host_max_pages or config.host_max_bytes
    if has_quotas and (config.queue_key == "url" or config.host_shards > 1):
        raise ConfigurationError(
            "FRONTIER_HOST_MAX_PAGES and FRONTIER_HOST_MAX_BYTES need all URLs of "
            "a host in one queue: no FRONTIER_HOST_SHARDS, and another "
            "FRONTIER_QUEUE_KEY than 'url'"
        )
    if config.wacz_dir and config.warc_upload and config.warc_upload_remove:
        raise ConfigurationError(
            f"FRONTIER_WACZ_DIR = {str(config.wacz_dir)!r}: a WACZ is made of the "
            "WARC files, which FRONTIER_WARC_UPLOAD_REMOVE takes away"
        )


REMOVED = {
    "FRONTIER_DASHBOARD_PORT": "`frontier dashboard` serves the status page by itself",
}
"""Settings that there are no more, and what to use."""


def _unknown(name: str, known: list[str]) -> str:
    if name in REMOVED:
        return f"{name} is no setting any more: {REMOVED[name]}"
    near = parsers.nearest(name, known)
    hint = f"; did you mean {near}?" if near else ""
    return f"{name[:200]} is not a setting of frontier{hint}"
