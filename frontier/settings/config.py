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
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from frontier.errors import ConfigurationError
from frontier.model import Order
from frontier.settings import values as parsers
from frontier.settings.values import (
    boolean,
    choice,
    duration,
    each,
    optional_directory,
    real,
    whole,
)

PREFIX = parsers.PREFIX
LEAST_SECONDS = 0.001
"""The least seconds of a setting that is a time, and not 0."""
MOST_SECONDS = 2 * 366 * 86_400.0
"""The most seconds for which anything waits until it is due."""
SCRAPYS: dict[str, parsers.Parser] = {
    "CLOSESPIDER_ERRORCOUNT": int,
    "CLOSESPIDER_ITEMCOUNT": int,
    "CLOSESPIDER_PAGECOUNT": int,
    "CLOSESPIDER_TIMEOUT": float,
    "CONCURRENT_ITEMS": int,
    "CONCURRENT_REQUESTS": int,
    "CONCURRENT_REQUESTS_PER_DOMAIN": int,
    "DEPTH_LIMIT": int,
    "DEPTH_STATS_VERBOSE": parsers.scrapys_boolean,
    "DOWNLOAD_DELAY": float,
    "DOWNLOAD_MAXSIZE": int,
    "DUPEFILTER_DEBUG": parsers.scrapys_boolean,
    "REDIS_START_URLS_AS_SET": parsers.scrapys_boolean,
    "REDIS_START_URLS_AS_ZSET": parsers.scrapys_boolean,
    "REDIS_START_URLS_BATCH_SIZE": int,
    "RETRY_ENABLED": parsers.scrapys_boolean,
    "RETRY_PRIORITY_ADJUST": int,
    "RETRY_TIMES": int,
    "SCHEDULER_PERSIST": parsers.scrapys_boolean,
    "TWISTED_REACTOR_ENABLED": parsers.scrapys_boolean,
}
"""Settings of Scrapy and scrapy-redis that a node reads, and which values they take.

A wrong one would end the node later, with an error that does not name it.
"""
_HERITRIX = {
    "digest": "sha1",
    "revisit_match": "digest",
    "revisit_mime_include": ("*/*",),  # without a Content-Type nothing is looked up
    "revisit_statuses": ("200",),
}
REVISIT_PRESETS: dict[str, dict[str, Any]] = {
    "browsertrix": {
        "digest": "sha256",
        "revisit_match": "digest",
        "revisit_statuses": ("*",),
        "warc_payload": "decoded",
    },
    "deduplicator": {**_HERITRIX, "revisit_mime_exclude": ("text/*",)},
    "deduplicator-3.0": {
        **_HERITRIX,
        "revisit_match": "url+digest",
        "revisit_mime_exclude": ("text/*",),
    },
    "iceland": {
        **_HERITRIX,
        "revisit_match": "digest+same-url",
        "revisit_mime_exclude": ("text/html",),
    },
    "iceland-weekly": {**_HERITRIX, "revisit_match": "digest+same-url"},
}
"""What a preset sets if the setting itself is not given; see docs/revisits.md."""


def _setting(
    default: Any, parser: parsers.Parser, *, shared: bool = False, live: str = ""
) -> Any:
    """A setting; *shared* if it is stored with the crawl, and the same on all nodes.

    One that an operator may change while a crawl runs has its unit in *live*.
    """
    meta = {"parser": parser, "shared": shared, "live": live}
    return field(default=default, metadata=meta)


@dataclass(frozen=True, slots=True, repr=False)
class Config:
    """All settings of one node, parsed and checked once."""

    allow_addresses: tuple[str, ...] = _setting(
        (parsers.SEEDS,), parsers.address_classes, shared=True
    )
    """Which classes of network addresses nodes connect to: `seeds` (what the seeds lead
    to), `public`, `private`, `loopback`, `link-local`, `metadata` (cloud services that
    give out credentials), `reserved`, or `all`.

    Each address is checked after its name was resolved and before the node connects,
    whatever a redirect, a link or a DNS server says
    ([more](security.md#where-requests-may-lead)). Where others choose the seeds, set
    `public`. With `seeds`, public seeds allow public addresses, private seeds private
    ones, loopback seeds this machine; never `link-local`, `metadata` or `reserved`. An
    address or `localhost` that a seed spells out is always allowed. A *name* that leads
    inside allows nothing if another seed's name leads to a public address."""
    backoff_growth: float = _setting(2.0, real(1.0 - 1e-9, 1000.0))
    """How many times longer each back-off of a host is than the one before. Up to a
    tenth is added by chance, so that hosts that failed together are not asked together.
    """
    backoff_max: float = _setting(3600.0, duration(LEAST_SECONDS, 691_200.0))
    """How long a back-off lasts at most, for a host that does not say how long."""
    backoff_min: float = _setting(1.0, duration(LEAST_SECONDS, 86400.0))
    """How long a host is [left alone](crawls.md#hosts-that-say-later) after its first
    answer 429 or 503, unless its `Retry-After` asks for more."""
    backoff_retry_after_max: float = _setting(
        21600.0, duration(LEAST_SECONDS, 604_800.0)
    )
    """How long a `Retry-After` is obeyed at most: six hours."""
    backoff_times: int = _setting(12, whole(0, 100_000))
    """How many back-offs in a row a host has before its URLs are [given
    up](crawls.md#hosts-that-say-later): 68 minutes with the defaults. A single URL is
    tried again as often if it is answered with 429 or 503. 0 leaves no host alone; such
    answers are then pages like any other."""
    backoff_unreachable_after: int = _setting(10, whole(0, 10**6))
    """How many requests in a row must fail to reach a host before it is [left
    alone](crawls.md#hosts-that-cannot-be-reached). Scrapy tries a URL three times, so
    one dead link is not enough, and four are. 0: never."""
    backoff_unreachable_max: float = _setting(
        21600.0, duration(LEAST_SECONDS, 604_800.0)
    )
    """How long an unreachable host is left alone, at most."""
    backoff_unreachable_min: float = _setting(300.0, duration(LEAST_SECONDS, 86400.0))
    """How long an unreachable host is left alone the first time. Each time is four
    times as long as the one before: 5, 20 and 80 minutes, then hours."""
    backoff_unreachable_times: int = _setting(3, whole(0, 100_000))
    """How often in a row an unreachable host is left alone before its URLs are given
    up. A crawl with a dead host lasts for 105 minutes by default. 0 gives them up at
    once."""
    crawl_delay_max: float = _setting(300.0, duration(0.0, 86400.0))
    """How long a Crawl-delay of robots.txt is obeyed at most; 0 obeys none. Needs
    `ROBOTSTXT_OBEY`. The delay is the least for the host, without jitter; AutoThrottle
    may raise it. A host that waits takes no room of `CONCURRENT_REQUESTS`."""
    enabled: bool = _setting(True, boolean)
    """Switches the add-on on. With `False` the spider runs under plain Scrapy."""
    bloom_capacity: int = _setting(1_000_000, whole(1, 10**12), shared=True)
    """Sizes the first Bloom filters for this many URLs of the whole crawl. More URLs
    get further filters, each four times as large. Too small a capacity costs memory,
    and server time where Bloom decides alone; too large a one costs 2.4 to 2.6 bytes
    for each URL that never comes."""
    bloom_error_rate: float = _setting(0.001, real(0.0, 1.0), shared=True)
    """Bounds the share of new URLs that the Bloom tier may call seen, and that are then
    not fetched. It matters only where Bloom decides alone. A tenth of the error takes
    about a quarter more memory."""
    busy_max: float = _setting(120.0, duration(0.0, 1e6))
    """How long the callback of a page, or a pipeline, may block a node before its page
    becomes a dead letter and the node loses its partitions. Until then a second
    process, the [watchdog](architecture.md#a-callback-that-blocks), sends its
    heartbeats. 0: no watchdog; a node that is blocked for longer than
    `FRONTIER_LEASE_TTL` loses its partitions."""
    canon_rules: str = _setting("scrapy", parsers.canon_rules, shared=True)
    """Says when two URLs are one: `scrapy`, `heritrix`, `openwayback`,
    `openwayback-key`, `surt`, `surt-ordinary`, `whatwg` ([what they
    do](urls.md)), or a `.toml` [file of your
    own](urls.md#rules-of-your-own). The rules hold for the seen test, the
    host in the queue key, and `canonical+digest`; the URL is fetched as it was found.
    Other rules than `scrapy` need Scrapy's own fingerprinter."""
    close_spider: str = _setting("crawl", choice("crawl", "node"))
    """What a `CloseSpider` of the spider ends: the `crawl` on all nodes, or this `node`
    ([what else closes a spider](crawls.md#what-else-closes-a-spider))."""
    collection: str = _setting("", parsers.collection)
    """Names the [collection](collections.md): the crawls whose payloads are
    deduplicated together. The default one has Browsertrix's bare key names."""
    collection_redis_url: str = _setting("", parsers.redis_url)
    """Names [another server](collections.md#a-server-of-its-own) for the collections:
    Browsertrix's, or one that keeps its data on disk."""
    commit_every: float = _setting(0.0, duration(1.0, 366 * 86_400.0, or_zero=True))
    """How often an open crawl [commits](collections.md#rounds-of-a-crawl-that-runs)
    what it has stored to its collection; 0 commits at its end. Give it to all nodes, so
    that any of them may die."""
    cookies_shared: bool = _setting(True, boolean)
    """Shares cookies among all nodes, where `COOKIES_ENABLED`: a login on one node is a
    login for all. By the time a spider sees a response, all nodes have its cookies.

    **Cookies are secrets**, and the store then has them in plain text until the crawl's
    frontier is removed. A `cookiejar` is shared if it is not set, an `int`, or a `str`
    of at most 200 characters; at most 300 cookies of 5,000 bytes per registered domain,
    and 100,000 domains. The rest stays on its node, with one line in the log. After
    `frontier crawl rebuild` the spider has to log in again."""
    crawl_id: str = _setting("", parsers.optional_name)
    """Names the crawl to open or join. Empty: the open crawl of the
    [job](crawls.md#which-crawl-a-node-joins), or the next, `<spider>-<n>`. A node that
    comes when the crawl has ended exits with 0; one with another spider or other
    arguments is refused."""
    crawl_max_bytes: int = _setting(
        0, whole(0, 10**18), live="bytes of responses; 0: no limit"
    )
    """Ends the whole crawl at this many bytes of responses, heads included
    ([limits](crawls.md#limits-of-a-whole-crawl)); 0 for no limit."""
    digest: str = _setting("sha256", choice("sha256", "sha1", "blake3"))
    """Chooses the algorithm of payload digests: `sha256` as Browsertrix has it, `sha1`
    for collections of Heritrix and most tools, or `blake3` (needs
    `frontier-crawl[blake3]`). See [digests](revisits.md#digests)."""
    feeds: str = _setting("", parsers.sites)
    """Names the sites whose feeds the spider `feeds` follows: a file like `feeds.toml`,
    or a database as SQLAlchemy spells it, `postgresql://user:password@host/name`.
    Empty: the variable of this name in the environment, else `feeds.toml`. Put a URL
    with a password into the environment. See [feeds](feeds.md#which-sites-there-are).
    """
    feeds_refresh: float = _setting(10.0, duration(LEAST_SECONDS, 86400.0))
    """How often nodes look whether `FRONTIER_FEEDS` has changed. If it cannot be read,
    the crawl goes on with what it has read before."""
    file_mode: str = _setting("0640", parsers.file_mode)
    """Sets the mode of new files, in octal: WARC files, indexes, logs, journals, WACZ
    files. The umask applies. Commands read the variable of this name in the
    environment."""
    host_max_bytes: int = _setting(
        0, whole(0, 10**18), live="bytes of each host; 0: no limit"
    )
    """How many bytes of responses the crawl takes of one host; 0 for no limit
    ([quotas](crawls.md#quotas-of-hosts))."""
    host_max_pages: int = _setting(
        0, whole(0, 10**9), live="pages of each host; 0: no limit"
    )
    """How many pages the crawl takes of one host, over all nodes; 0 for no limit
    ([quotas](crawls.md#quotas-of-hosts))."""
    host_shards: int = _setting(1, whole(1, 1024), shared=True)
    """Divides each queue key into this many queues, so that several nodes can crawl one
    big site. Take many, such as 256: with only a few per node, one node may have twice
    as many as another by chance. Delay and concurrency are divided among the nodes, so
    the host gets as many requests as from one node, though not evenly to the
    millisecond."""
    item_id_field: str = _setting("id", parsers.line)
    """The field by which `frontier.pipelines.UniqueItemsPipeline` [finds
    doubles](spiders.md#items-once-over-all-nodes)."""
    item_origin_field: str = _setting("", parsers.optional(parsers.line))
    """The field that says which page an item is of, and which delivery: [`frontier
    crawl items`](spiders.md#one-file-of-all-nodes) needs it. Empty: none."""
    item_modules: tuple[str, ...] = _setting((), parsers.modules)
    """Which modules' dataclasses, attrs classes, items, enumerations and named tuples
    requests may carry ([what travels](spiders.md#what-a-request-may-carry)), with
    spaces between them or as a list; each includes the modules below it. Empty: the
    packages in `SPIDER_MODULES` and that of the spider. A node imports a module when a
    queued request names it."""
    journal_dir: Path | None = _setting(None, optional_directory)
    """Where each node writes a journal of what it pushed and acked; empty for none. If
    the store is lost, [`frontier crawl rebuild`](cli.md#rebuilding-a-crawl) restores
    the crawl from the journals. Set it on all nodes, before the crawl begins. A pushed
    URL takes about 40 bytes more than its queue item, an ack 40. Delete the files when
    the crawl has ended."""
    join_only: bool = _setting(False, boolean)
    """Keeps the node from opening a crawl: it waits until there is one, and takes part.
    Right for nodes that replace or help others. May also be set in the environment."""
    keep_alive: bool = _setting(False, boolean)
    """Keeps the crawl open when nothing is queued, for seeds to come. Set it on all
    nodes: one without it ends the crawl for all."""
    keep_frontier: bool = _setting(True, boolean)
    """Keeps queues and the seen-set in the store when the crawl has ended. With `False`
    the last node to leave removes them; report, counts, dead letters and the
    collection's index stay. Set it on all nodes."""
    lease_ttl: float = _setting(15.0, duration(0.5, 3600.0))
    """How long a node may be silent before the others take its partitions, and so how
    long a killed node's URLs wait. A node sends a heartbeat each second. After four
    fifths of this time without an answer it sends no request."""
    log_format: str = _setting("text", choice("text", "json"))
    """Writes the node's log as `text`, or as `json`: one object a line, with
    `timestamp` (RFC 3339, UTC), `level`, `logger`, `message`, `node`, `crawl`,
    `spider`, `exception` and `stack`. Set it in the project's settings or with `-s`;
    `custom_settings` come too late for the first lines. A program that sets up logging
    itself takes `frontier.json_log.JsonFormatter`."""
    metrics_host: str = _setting("127.0.0.1", parsers.host)
    """The address at which a node serves its [metrics](figures.md#metrics-and-stats).
    They have no password: with `0.0.0.0` or `::` everybody who reaches the machine can
    read them."""
    metrics_port: str = _setting("", parsers.ports)
    """The port at which a node serves its [metrics](figures.md#metrics-and-stats);
    empty for none. Nodes of one machine need a range, such as `9401-9420`, or `0` for
    any free port. Without a free one the node does not start."""
    namespace: str = _setting("frontier", parsers.name)
    """The prefix of every key in Redis, except those of the digest index."""
    node_id: str = _setting("", parsers.optional_name)
    """Names the node in the cluster, in WARC file names and in the report. Empty for
    `<host>-<pid>-<random>`. If a second node takes the name of a live one, the first
    ends with exit code 1."""
    node_parts: tuple[str, ...] = _setting((), parsers.class_paths)
    """Which parts of your own each node has, in the order in which they are called:
    paths of subclasses of `frontier.Part` ([how to write one](api.md#a-part))."""
    node_weight: int = _setting(1, whole(1, 1000))
    """Which share of the partitions the node takes, relative to the weights of others,
    from 1 to 1000."""
    order: Order = _setting(Order.BFS, parsers.order)
    """Which of two URLs of one queue key and priority is fetched first: the older
    (`bfs`) or the newer (`dfs`)."""
    own_feeds: bool = _setting(False, boolean)
    """Puts the node's id into names of `FEEDS` that lack `%(frontier_node)s`: before
    the first dot, as in `items-node-1.json`. `frontier crawl run` sets it if it starts
    several nodes, which would overwrite each other's feed."""
    partitions: int = _setting(1024, whole(1, 16384), shared=True)
    """How many partitions the nodes share out among them, from 1 to 16384; fixed when
    the crawl is created. 1,024 balance about 100 nodes. A small crawl starts and ends
    faster with 64."""
    queue_key: str = _setting("host", parsers.queue_key, shared=True)
    """Groups URLs into queues; one node at a time fetches from a queue: `host` (with a
    port that is not the default), `domain` (registered), or a callable, or its path
    `myproject.queues.key`, that returns text for a URL: the same on all nodes, and for
    all URLs with one fingerprint ([example](api.md#how-to-extend))."""
    recrawl: str = _setting("off", choice("off", "fixed", "adaptive"))
    """Fetches each page again when its interval is over: `fixed` or `adaptive`, longer
    where a page is unchanged and shorter where it has changed ([recrawls](recrawl.md)).
    Such a crawl does not end by itself. Needs `FRONTIER_SEEN_START`."""
    recrawl_decay: float = _setting(1.5, real(1 - 1e-9, 100.0))
    """What an adaptive interval is divided by where the page has changed, from 1 to
    100."""
    recrawl_growth: float = _setting(1.5, real(1 - 1e-9, 100.0))
    """What an adaptive interval is multiplied by where the page has not changed, from 1
    to 100."""
    recrawl_interval: float = _setting(86_400.0, duration(0.1, MOST_SECONDS))
    """How long a page waits for its second visit; with `fixed`, for each. From 0.1 s to
    two years."""
    recrawl_max: float = _setting(2_419_200.0, duration(0.1, MOST_SECONDS))
    """How long an adaptive interval is, at most: four weeks."""
    recrawl_min: float = _setting(3_600.0, duration(0.1, MOST_SECONDS))
    """How long an adaptive interval is, at least."""
    recrawl_rules: Path | None = _setting(None, optional_directory)
    """A file `recrawl.toml` with [schedules of hosts, paths and media
    types](recrawl.md#rules). Nodes read it again within ten seconds of a change; a
    wrong file keeps a node from starting, and while it runs the last good rules stay in
    effect."""
    recrawl_text: bool = _setting(False, boolean)
    """Calls HTML changed only if its [text](recrawl.md#what-counts-as-a-change) has
    changed, and not for a clock, a token or an advertisement."""
    recrawl_until: str = _setting("", parsers.end)
    """When a crawl ends though URLs are [due](spiders.md#when-a-request-is-due) later:
    a date and time in ISO 8601 with a time zone, or a time since the crawl's creation
    such as `90d`. What is due later stays in the store. Give it to all nodes."""
    revisit_cdx_servers: tuple[str, ...] = _setting((), parsers.addresses)
    """Which [CDX servers](revisits.md#cdx-servers) are asked for what the collections
    do not have, with spaces between them or as a list, such as
    `https://web.archive.org/cdx/search/cdx`. They are only read. A password in an
    address appears in no log and no record."""
    revisit_cdx_timeout: float = _setting(2.0, duration(LEAST_SECONDS, 300.0))
    """How long a CDX server may take to answer. Without an answer the payload is stored
    in full."""
    revisit_conditional_get: bool = _setting(False, boolean)
    """Asks servers if a page has changed, with the stored ETag and Last-Modified. Works
    only while the WARC file with the body is in `FRONTIER_WARC_DIR`, since [the spider
    gets the stored response](revisits.md#not-modified). Costs a round trip to the store
    for each request."""
    revisit_digests: tuple[str, ...] = _setting(
        (), each(choice("sha256", "sha1", "blake3"))
    )
    """Further algorithms, between commas, to look originals up by: `sha1` for what
    Heritrix has stored, `sha256`, `blake3`. Each costs one more digest per payload."""
    revisit_enabled: bool = _setting(True, boolean)
    """Makes revisit records of payloads that the collection has. With `False` every
    payload is stored, and none enters the index."""
    revisit_match: str = _setting(
        "digest",
        choice("digest", "url+digest", "canonical+digest", "digest+same-url"),
    )
    """What two captures must have in common for one to be a revisit of the other:
    `digest`, `url+digest`, `canonical+digest` or `digest+same-url` ([which to
    choose](revisits.md#policy)). All but the first cost the store about 150 bytes for
    each original."""
    revisit_mime_exclude: tuple[str, ...] = _setting((), each(parsers.media_type))
    """Media types between commas that never become revisits, nor originals; `*` and `?`
    are wild, as in `text/*`. The Content-Type header counts."""
    revisit_mime_include: tuple[str, ...] = _setting((), each(parsers.media_type))
    """Media types that alone may become revisits, written as in
    `FRONTIER_REVISIT_MIME_EXCLUDE`; empty for all."""
    revisit_min_binary_bytes: int = _setting(0, whole(0, 10**15))
    """How large a payload that is not text must be to become a revisit. A revisit
    record takes a few hundred bytes itself."""
    revisit_min_text_bytes: int = _setting(0, whole(0, 10**15))
    """How large a text payload must be: `text/*`, XML, JSON, SVG and JavaScript."""
    revisit_preset: str = _setting("", choice("", *REVISIT_PRESETS))
    """Sets a known policy: `browsertrix`, `deduplicator`, `deduplicator-3.0`, `iceland`
    or `iceland-weekly` ([what they set](revisits.md#presets)). Settings that are given
    override it."""
    revisit_read_collections: tuple[str, ...] = _setting(
        (), each(parsers.collection_name)
    )
    """Further collections on the server, between commas, whose committed crawls
    revisits may refer to. They are only read. `-` is the default collection."""
    revisit_skip_links_depth: int = _setting(-1, whole(-1, 10**6))
    """Below which depth the links of a page that became a revisit are not followed.
    Seeds have depth 0; `-1` follows all."""
    revisit_statuses: tuple[str, ...] = _setting(("200",), each(parsers.statuses))
    """HTTP statuses, between commas, whose payloads may become revisits: `200`, a class
    as `2xx`, or `*`."""
    run_id: str = _setting("", parsers.run_id)
    """Names this run of the job, in up to 200 characters: give it to all its nodes.
    Empty: the environment variable of that name, or what a known launcher says. A node
    whose run's crawl has ended exits with 0 and fetches nothing ([one job on several
    machines](crawls.md#one-job-on-several-machines))."""
    schemes: tuple[str, ...] = _setting(("http", "https"), parsers.schemes)
    """Which schemes of URLs nodes accept from the store: whoever may write there could
    name `file:///etc/passwd`. A spider's own requests with other schemes run on the
    node that made them."""
    seen_recent_size: int = _setting(100_000, whole(1, 10**9))
    """How many URLs a node remembers itself, about 150 bytes each. When it is full the
    older half is forgotten, and costs a round trip again."""
    seen_set_max_bytes: int = _setting(0, whole(0, 10**15))
    """Gives up the largest sets of the seen test above this memory, in bytes; 0 for no
    limit. Set it when the crawl begins: it adds the Bloom tier, which then decides
    about the URLs of those sets and loses at most `FRONTIER_BLOOM_ERROR_RATE` of new
    ones. Checked every 2 s."""
    seen_start: bool = _setting(True, boolean, shared=True)
    """Counts start URLs as seen, so that a link to one is not followed. With `False` a
    start URL is fetched once as such, and once more if a page links to it, as under
    plain Scrapy."""
    seen_tiers: tuple[str, ...] = _setting(
        ("recent", "set"), parsers.tiers, shared=True
    )
    """Chooses the tiers of the [seen test](urls.md#the-seen-test). `set` is exact, 8.7
    bytes per URL of the server's memory; `bloom` alone takes 2.9 and loses at most
    `FRONTIER_BLOOM_ERROR_RATE`; `recent` saves the round trip. With both, the set
    decides. Without `bloom` and `set` no test is shared."""
    store_dir: Path = _setting(Path(".frontier"), parsers.directory)
    """The directory of the embedded store, and of the logs of nodes that `frontier`
    starts. It must be on a local disk, and belong to one user only."""
    store_wait: float = _setting(30.0, duration(0.0, 86400.0))
    """How long a starting node waits for a store that does not answer. 0: not at all.
    Commands do not wait."""
    store_wait_aof: bool = _setting(False, boolean)
    """Acks a page only when its links are on the disk of the server (`WAITAOF`). Needs
    Redis 7.2 or Valkey 8, with `appendonly yes`."""
    store_wait_replicas: int = _setting(0, whole(0, 16))
    """On how many replicas a page's links must be before it is acked (`WAIT`). Then
    nothing is lost if the primary and a node die in the same moment
    ([more](cluster.md#what-a-failover-may-cost)). While there are fewer replicas
    nothing is acked."""
    stored_meta: tuple[str, ...] = _setting((), parsers.words)
    """Which of these keys of `meta` nodes accept from the store, although they choose
    where bytes go: `proxy`, `bindaddress`, `ftp_local_filename`, and
    scrapy-playwright's `playwright_context_kwargs`, `playwright_page_event_handlers`
    and `playwright_page_init_callback`. A spider's own requests with another one run on
    the node that made them."""
    warc_block_digest: bool = _setting(True, boolean)
    """Writes a WARC-Block-Digest beside WARC-Payload-Digest, so that checkers notice a
    damaged head. It takes as much CPU time as the payload's."""
    trap_directory_urls: int = _setting(
        0, whole(0, 10**9), live="URLs of a directory; 0: no limit"
    )
    """How many URLs of one directory are queued (the spider `site`: 100,000); 0 for no
    limit, as in all settings of [traps](crawls.md#traps-and-floods)."""
    trap_hops: int = _setting(0, whole(0, 10**6), live="hops from a seed; 0: no limit")
    """How many links and redirects may lead from a seed to a URL (`site`: 20, as in
    Heritrix). Scrapy's `DEPTH_LIMIT` counts no redirects, and is silent."""
    trap_host_urls: int = _setting(
        0, whole(0, 10**12), live="URLs of a host; 0: no limit"
    )
    """How many URLs of one host are queued (`site`: 1,000,000).
    `FRONTIER_HOST_MAX_PAGES` limits what is fetched, but not the queue."""
    trap_page_links: int = _setting(
        0, whole(0, 10**9), live="links of a page; 0: no limit"
    )
    """How many links of one page the spider `site` follows, the first ones (`site`:
    6000, as in Heritrix)."""
    trap_path_repeats: int = _setting(
        0, whole(0, 1_000), live="repetitions in a path; 0: no limit"
    )
    """How often a part of a path may repeat in a row (`site`: 2, as in Heritrix); in
    `/a/b/a/b/a/b`, `/a/b` comes three times."""
    trap_path_segments: int = _setting(
        0, whole(0, 10**6), live="slashes of a path; 0: no limit"
    )
    """How many slashes a path may have (`site`: 20, as in Heritrix)."""
    trap_query_urls: int = _setting(
        0, whole(0, 10**9), live="URLs of a page's queries; 0: no limit"
    )
    """How many URLs of one host and path with the same names of parameters are queued
    (`site`: 10,000). A calendar has an endless number of them."""
    trap_url_length: int = _setting(
        0, whole(0, 10**6), live="characters of a URL; 0: no limit"
    )
    """How many characters a URL may have (`site`: 2083, as in Heritrix); a start URL
    may be longer."""
    uplink_probe: float = _setting(30.0, duration(0.0, 3600.0))
    """How often a node probes while [no host answers](crawls.md#when-no-host-answers)
    and it therefore pauses. 0: a node does not judge its uplink."""
    warc_browser: bool = _setting(True, boolean)
    """Archives what a browser of scrapy-playwright gets for a page [beside the
    page](archive.md#a-browsers-own-traffic)."""
    warc_cdxj: bool = _setting(True, boolean)
    """Writes an index `<name>.cdxj` beside each WARC file when it is closed, with the
    lines that pywb and cdxj-indexer write and [fields for a
    WACZ](archive.md#the-index-beside-a-file). It costs 30 us per capture, and 10 to 200
    us more for a page."""
    warc_cdxj_keys: str = _setting("pywb", choice("pywb", "rules"))
    """Which keys the CDXJ index is sorted by: `pywb`, or `rules`, those of the crawl's
    rules ([which to take](urls.md#keys-of-an-index))."""
    warc_dir: Path = _setting(Path("warcs"), parsers.directory)
    """Where WARC files are written. Nodes of one machine may share it."""
    warc_enabled: bool = _setting(True, boolean)
    """Writes exchanges to WARC files. A request with `meta={"archive": False}` is never
    written."""
    warc_exclude: tuple[str, ...] = _setting((), parsers.archive_rules)
    """What is not archived: [rules](archive.md#what-is-left-out) such as `mime:video/*
    status:5xx url:/calendar/`, in a list or with spaces between them."""
    warc_fsync: str = _setting("batch", choice("record", "batch", "close"))
    """When records are forced to disk: each one (`record`), before the URLs of a batch
    of up to 64 are acked (`batch`), or at the end of the file (`close`). `close`
    survives a killed process but not a power cut, after which revisits may refer to
    lost records."""
    warc_http_handlers: tuple[str, ...] = _setting((), parsers.class_paths)
    """Paths of other download handlers whose responses come from servers, such as
    `scrapy_impersonate.ImpersonateDownloadHandler`. What unknown handlers return
    becomes [resource records](archive.md#what-no-server-sent)."""
    warc_include: tuple[str, ...] = _setting((), parsers.archive_rules)
    """What is archived, as rules like those of `FRONTIER_WARC_EXCLUDE`; empty for all.
    """
    warc_info: str = _setting("", parsers.warcinfo)
    """Fields of the warcinfo record, as a dict or a JSON object of texts: `{"operator":
    "A library", "http-header-from": "web@a-library.example"}`. [Which are there
    anyway](archive.md#files)."""
    warc_log: bool = _setting(True, boolean)
    """Writes a [crawl log](archive.md#the-crawl-log) beside the WARC files: a line of
    about 250 bytes for every attempt."""
    warc_max_bytes: int = _setting(1_000_000_000, whole(1_000, 10**13))
    """Begins a new WARC file at this compressed size. The last exchange of a file may
    exceed it."""
    warc_max_seconds: float = _setting(0.0, duration(0.0, 1e8))
    """Closes a WARC file at this age, even if nothing more is written; 0 for none. For
    crawls that are open for days and whose files are sent or indexed meanwhile."""
    warc_max_total_bytes: int = _setting(0, whole(0, 10**18))
    """How large all files in `FRONTIER_WARC_DIR` may be before its nodes
    [wait](archive.md#when-the-disk-is-full); 0 for no limit. Nodes count every 5
    seconds."""
    warc_metadata: bool = _setting(True, boolean)
    """Writes a `metadata` record of [how each URL was
    found](archive.md#how-a-url-was-found), about 400 bytes an exchange."""
    warc_min_free_bytes: int = _setting(0, whole(0, 10**18))
    """How much of the disk of `FRONTIER_WARC_DIR` must stay free; below it nodes wait.
    Set it if the embedded store is on that disk."""
    warc_only_bytes: int = _setting(0, whole(0, 10**15))
    """Above this size a body is [archived only](archive.md#bodies-of-any-size): all of
    it is in the archive, none in memory, and the spider gets a response without a body
    if it has asked for that, and otherwise an error. `DOWNLOAD_MAXSIZE` then ends no
    download: the smaller of the two counts. 0: no body is."""
    warc_outlinks: bool = _setting(False, boolean)
    """Writes a record of [the links that a page's callback
    yields](archive.md#how-a-url-was-found), as Heritrix does with
    `writeMetadataOutlinks`: 350 bytes a page, and 15 for each link."""
    warc_payload: str = _setting("raw", choice("raw", "decoded"))
    """Stores bodies `raw`, in the content coding in which they were received, or
    `decoded`, as Browsertrix does, so that both find each other's payloads. Headers
    that no longer hold get the prefix `X-Archive-Orig-`."""
    warc_spool_bytes: int = _setting(8_000_000, whole(0, 10**12))
    """Keeps a larger body [in a file](archive.md#large-bodies) and not in memory, until
    it is archived. At least 1 MiB."""
    warc_upload: str = _setting("", parsers.upload_url)
    """Where each WARC file is [copied](archive.md#object-storage) when it is closed,
    such as `s3://bucket/crawls`; empty for nowhere. Needs `frontier-crawl[upload]`."""
    warc_upload_remove: bool = _setting(False, boolean)
    """Removes a WARC file and its index from this machine once the storage has the
    whole file. Refused together with `FRONTIER_WACZ_DIR`."""
    wacz_dir: Path | None = _setting(None, optional_directory)
    """Where the last node to leave a finished crawl makes `<crawl>.wacz` of its closed
    files in `FRONTIER_WARC_DIR` ([WACZ](wacz.md)). The WARC files stay."""
    worker_max_bytes: int = _setting(512_000_000, whole(10**8, 10**13))
    """How much memory, as address space, each worker process may have. A page takes 12
    to 50 times its size, so only the first fiftieth of this, 10.24 MB, is read for
    links; the request of a larger page is a dead letter."""
    worker_seconds: float = _setting(10.0, duration(LEAST_SECONDS, 3600.0))
    """How much CPU time a worker process has for one document, after which it is
    killed. The document is archived, and its request becomes a dead letter."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Config:
        """Return the configuration in *settings*, a mapping of all settings.

        Raises:
            ConfigurationError: A ``FRONTIER_*`` setting is unknown or wrong, or one of
                `SCRAPYS` is wrong.
        """
        for name, parser in SCRAPYS.items():
            if (value := settings.get(name)) is not None:
                _parse(parser, name, value)
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
    """*value* as text that its parser takes."""
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
        if name not in by_name:
            first, _, rest = name.partition("_")
            is_near = PREFIX + rest in by_name and parsers.nearest(first, [PREFIX[:-1]])
            if is_near or name.startswith(PREFIX):
                raise ConfigurationError(_unknown(name, list(by_name)))
            continue
        parser = by_name[name].metadata["parser"]
        values[by_name[name].name] = _parse(parser, name, settings[name])
    return values


def _parse(parser: parsers.Parser, name: str, value: Any) -> Any:
    try:
        return parser(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} = {parsers.shown(value)}: {error}") from None


def _require_fit(config: Config) -> None:
    """Raise if settings of *config* do not fit each other.

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
            f"FRONTIER_RECRAWL = {config.recrawl!r}: needs FRONTIER_SEEN_START; "
            "without it a start URL that is also a link would be visited twice"
        )
    has_quotas = config.host_max_pages or config.host_max_bytes
    if has_quotas and config.host_shards > 1:
        raise ConfigurationError(
            "FRONTIER_HOST_MAX_PAGES and FRONTIER_HOST_MAX_BYTES need all URLs of "
            "a host in one queue: no FRONTIER_HOST_SHARDS"
        )
    if config.wacz_dir and config.warc_upload and config.warc_upload_remove:
        raise ConfigurationError(
            f"FRONTIER_WACZ_DIR = {str(config.wacz_dir)!r}: a WACZ is made of the "
            "WARC files, which FRONTIER_WARC_UPLOAD_REMOVE takes away"
        )


REMOVED = {
    "FRONTIER_DASHBOARD_PORT": "`frontier dashboard` serves the status page by itself",
    "FRONTIER_FEEDS_MAX_BYTES": "a feed of more than 10 MiB is not read",
    "FRONTIER_FEEDS_ROUND_MAX": "a feed that does not answer is asked again in an hour",
    "FRONTIER_WARC_ITEM_FIELD": "WarcPipeline fills the field `warc`",
    "FRONTIER_WORKER_PROCESSES": "each node has at most two",
}
"""Settings that no longer exist, and what there is in their place."""


def _unknown(name: str, known: list[str]) -> str:
    if name in REMOVED:
        return f"{name} is no setting any more: {REMOVED[name]}"
    near = parsers.nearest(name, known)
    hint = f"; did you mean {near}?" if near else ""
    return f"{name[:200]} is not a setting of frontier{hint}"
