"""Settings: their names, their defaults, and one frozen ``Config``.

What always holds:

1.  Every setting of this package is ``FRONTIER_`` and the upper-case name of a
    field of `Config`; the field's default is the setting's default.
2.  A ``Config`` exists only if every value in it can work: a wrong value, or a
    ``FRONTIER_*`` name that is not a setting, raises `ConfigurationError` with
    the setting's name in the message.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.model import Order

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "FRONTIER_"
TIERS = ("recent", "bloom", "set")
QUEUE_KEYS = ("host", "domain", "ip", "url")
RULES = ("mime", "status", "url")
"""Kinds of rules about what is archived."""
MIME = re.compile(r"[A-Za-z0-9*?.+_-]+(?:/[A-Za-z0-9*?.+_-]+)?")
UNNAMED = "-"
"""The default collection, in a list of names."""
REVISIT_PRESETS: dict[str, dict[str, Any]] = {
    "browsertrix": {"digest": "sha256", "revisit_match": "digest"},
    "deduplicator": {
        "digest": "sha1",
        "revisit_match": "url+digest",
        "revisit_mime_exclude": "text/*",
        "revisit_statuses": "200",
    },
    "iceland": {
        "digest": "sha1",
        "revisit_match": "digest+same-url",
        "revisit_mime_exclude": "text/html",
        "revisit_statuses": "200",
    },
    "iceland-weekly": {
        "digest": "sha1",
        "revisit_match": "digest+same-url",
        "revisit_statuses": "200",
    },
}
"""What a preset sets, where the setting itself is not given; see docs/revisits.md."""
CANON_RULES = (
    "scrapy",
    "heritrix",
    "openwayback",
    "openwayback-key",
    "surt",
    "surt-ordinary",
    "whatwg",
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")

Parser = Callable[[Any], Any]


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise ValueError("must be True or False")


def _whole(least: int, most: int) -> Parser:
    def parse(value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("must be a whole number") from None
        if isinstance(value, float) and value != number:
            raise ValueError("must be a whole number")
        if not least <= number <= most:
            raise ValueError(f"must be between {least:,} and {most:,}")
        return number

    return parse


def _real(above: float, below: float) -> Parser:
    def parse(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError("must be a number") from None
        if not (math.isfinite(number) and above < number < below):
            raise ValueError(f"must be greater than {above:g} and less than {below:g}")
        return number

    return parse


def _name(value: Any) -> str:
    text = str(value)
    if not NAME.fullmatch(text):
        raise ValueError(
            "must be 1 to 100 letters, digits, '.', '_' or '-', "
            "and begin with a letter or digit"
        )
    return text


def _optional_name(value: Any) -> str:
    return _name(value) if value else ""


def _path(value: Any) -> Path:
    text = os.fspath(value)
    if not text:
        raise ValueError("must name a directory")
    return Path(text)


def _optional_path(value: Any) -> Path | None:
    return _path(value) if value else None


def _choice(*choices: str) -> Parser:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return parse


def _either(*choices: int) -> Parser:
    def parse(value: Any) -> int:
        number = int(_whole(0, max(choices))(value))
        if number not in choices:
            raise ValueError(f"must be {' or '.join(map(str, choices))}")
        return number

    return parse


def _order(value: Any) -> Order:
    try:
        return Order(str(value).lower())
    except ValueError:
        raise ValueError("must be bfs or dfs") from None


def _tiers(value: Any) -> tuple[str, ...]:
    given = re.split(r"[,\s]+", value) if isinstance(value, str) else list(value)
    names = tuple(str(name).strip() for name in given if str(name).strip())
    for name in names:
        if name not in TIERS:
            raise ValueError(f"has no tier {name!r}; the tiers are {', '.join(TIERS)}")
    if not names or len(set(names)) != len(names):
        raise ValueError("must name each tier at most once, and at least one")
    return tuple(name for name in TIERS if name in names)


def _queue_key(value: Any) -> str:
    if callable(value):
        value = f"{value.__module__}.{value.__qualname__}"
    if value in QUEUE_KEYS or PATH.fullmatch(str(value)):
        return str(value)
    raise ValueError(
        f"must be one of {', '.join(QUEUE_KEYS)}, or a module's callable or its path"
    )


def _rules(value: Any) -> tuple[str, ...]:
    given = value.split() if isinstance(value, str) else list(value)
    for rule in map(str, given):
        kind, _, pattern = rule.partition(":")
        if kind not in RULES or not pattern or re.search(r"\s", pattern):
            raise ValueError(
                f"{rule!r} must be one of {', '.join(RULES)}, a colon and a "
                "pattern without spaces"
            )
        if kind == "status" and not re.fullmatch(r"[1-9](xx|[0-9]{2})", pattern):
            raise ValueError(f"{rule!r} must be like status:404 or status:4xx")
        if kind == "url":
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(
                    f"{rule!r} is no regular expression: {error}"
                ) from None
    return tuple(map(str, given))


def _upload_url(value: Any) -> str:
    text = str(value or "")
    if text and not re.fullmatch(r"[a-z][a-z0-9+]*://\S+", text):
        raise ValueError("must be a URL, such as s3://bucket/path")
    return text.rstrip("/")


def _list(each: Callable[[str], Any]) -> Parser:
    """A parser of names between commas, each of which *each* accepts."""

    def parse(value: Any) -> str:
        given = value if isinstance(value, list | tuple) else str(value).split(",")
        return ",".join(str(each(str(n).strip())) for n in given if str(n).strip())

    return parse


def _mime(text: str) -> str:
    if not MIME.fullmatch(text):
        raise ValueError(f"has {text!r}, which is no media type or pattern of one")
    return text.lower()


def _collection_name(text: str) -> str:
    return text if text == UNNAMED else str(_name(text))


def _canon_rules(value: Any) -> str:
    text = str(os.fspath(value))
    if text not in CANON_RULES and not text.endswith(".toml"):
        known = ", ".join(CANON_RULES)
        raise ValueError(
            f"must be one of {known}, or a file of rules that ends in .toml"
        )
    return text


def _setting(default: Any, parser: Parser) -> Any:
    return field(default=default, metadata={"parser": parser})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one node, parsed and checked once."""

    crawl_delay_max: float = _setting(300.0, _real(-1.0, 86400.0))
    """Most seconds of a robots.txt's Crawl-delay that are kept; 0 for none."""
    enabled: bool = _setting(True, _boolean)
    """Whether the add-on does anything."""
    bloom_capacity: int = _setting(1_000_000, _whole(1, 10**12))
    """URLs of the crawl for which the first Bloom generation is sized."""
    bloom_error_rate: float = _setting(0.001, _real(0.0, 1.0))
    """Bound on the share of new URLs that the Bloom tier calls seen."""
    bloom_native: str = _setting("auto", _choice("auto", "yes", "no"))
    """Whether the Bloom tier is the server's own filter (``BF.*``)."""
    canon_rules: str = _setting("scrapy", _canon_rules)
    """What makes two URLs one: in the seen test, the queues and the index."""
    collection: str = _setting("", _optional_name)
    """The crawls that are deduplicated together; empty for the default one."""
    crawl_id: str = _setting("", _optional_name)
    """The crawl to open or join; empty for ``<spider>-<n>``."""
    digest: str = _setting("sha256", _choice("sha256", "sha1", "blake3"))
    """Algorithm of the payload digests."""
    host_shards: int = _setting(1, _whole(1, 1024))
    """Queues into which each queue key is divided, so that nodes can share it."""
    journal_dir: Path | None = _setting(None, _optional_path)
    """Where the node's journal is written; empty for none."""
    keep_alive: bool = _setting(False, _boolean)
    """Whether the crawl waits for new seeds when nothing is queued."""
    lease_ttl: float = _setting(15.0, _real(0.5, 3600.0))
    """Seconds after which a silent node loses its partitions."""
    namespace: str = _setting("frontier", _name)
    """Prefix of every key in Redis, except those of the digest index."""
    node_id: str = _setting("", _optional_name)
    """Name of this node in the cluster; empty for ``<host>-<pid>-<random>``."""
    node_weight: int = _setting(1, _whole(1, 1000))
    """Share of the partitions that this node takes, relative to others."""
    order: Order = _setting(Order.BFS, _order)
    """Which of two URLs of one host and priority is fetched first."""
    partitions: int = _setting(1024, _whole(1, 16384))
    """Units of ownership; fixed when the crawl is created."""
    queue_key: str = _setting("host", _queue_key)
    """What is owned by one node at a time and takes turns."""
    queue_max_bytes: int = _setting(0, _whole(0, 10**15))
    """Memory of the queues above which long ones are compressed; 0 for no limit."""
    queue_spill_dir: Path | None = _setting(None, _optional_path)
    """Directory that all nodes reach, for what compressing does not save."""
    revisit_blackout: float = _setting(0.0, _real(-1e-9, 1e9))
    """Seconds in which nothing is written of the same payload of the same URL."""
    revisit_conditional_get: bool = _setting(False, _boolean)
    """Whether servers are asked if what is stored has changed."""
    revisit_enabled: bool = _setting(True, _boolean)
    """Whether payloads that are in the index become revisit records."""
    revisit_filter_bytes: int = _setting(0, _whole(0, 2**33))
    """Memory for a filter of what committed crawls have; 0 for none."""
    revisit_match: str = _setting(
        "digest", _choice("digest", "url+digest", "canonical+digest", "digest+same-url")
    )
    """What has to be equal in two captures for one to be a revisit."""
    revisit_mime_exclude: str = _setting("", _list(_mime))
    """Media types, or patterns of them, that never become revisits."""
    revisit_mime_include: str = _setting("", _list(_mime))
    """Media types, or patterns of them, that may; empty for all."""
    revisit_min_binary_bytes: int = _setting(0, _whole(0, 10**15))
    """Least payload of a revisit, for types that are not text."""
    revisit_min_text_bytes: int = _setting(0, _whole(0, 10**15))
    """Least payload of a revisit, for text, JSON, XML and scripts."""
    revisit_preset: str = _setting("", _choice("", *REVISIT_PRESETS))
    """A known policy by its name; settings that are given override it."""
    revisit_read_collections: str = _setting("", _list(_collection_name))
    """Further collections whose originals are referred to, and only read."""
    revisit_skip_links_depth: int = _setting(-1, _whole(-1, 10**6))
    """Depth below which a duplicate page is not followed; -1 for none."""
    revisit_statuses: str = _setting("200", _list(_whole(100, 999)))
    """HTTP statuses whose payloads may become revisits."""
    seen_recent_size: int = _setting(100_000, _whole(1, 10**9))
    """Entries of the node's own LRU of requests."""
    seen_set_bits: int = _setting(64, _either(64, 32))
    """Of each URL in the set tier."""
    seen_set_max_bytes: int = _setting(0, _whole(0, 10**15))
    """Memory of the set tier above which sets are given up; 0 for no limit."""
    seen_tiers: tuple[str, ...] = _setting(TIERS, _tiers)
    """Tiers of the seen test, from the node to the exact set."""
    store_dir: Path = _setting(Path(".frontier"), _path)
    """Home of the embedded store, which runs when no ``REDIS_*`` is set."""
    warc_block_digest: bool = _setting(True, _boolean)
    """Whether records have a WARC-Block-Digest beside that of the payload."""
    trap_path_repeats: int = _setting(0, _whole(0, 1_000))
    """How often a part of a path may come in a row; 0 for no limit."""
    trap_query_urls: int = _setting(0, _whole(0, 10**9))
    """URLs of one page with the same parameters that a node queues; 0 for no limit."""
    warc_cdxj: bool = _setting(True, _boolean)
    """Whether each WARC file gets an index beside it when it is closed."""
    warc_dir: Path = _setting(Path("warcs"), _path)
    """Where WARC files are written."""
    warc_enabled: bool = _setting(True, _boolean)
    """Whether exchanges are written to WARC files."""
    warc_exclude: tuple[str, ...] = _setting((), _rules)
    """Exchanges that are not archived, as rules ``mime:``, ``status:``, ``url:``."""
    warc_field: str = _setting("warc", _name)
    """Field of an item that `WarcPipeline` fills."""
    warc_fsync: str = _setting("batch", _choice("record", "batch", "close"))
    """When records are forced to disk: each, before acks, or at the file's end."""
    warc_include: tuple[str, ...] = _setting((), _rules)
    """Exchanges that are archived; empty for all. Rules as of ``warc_exclude``."""
    warc_max_bytes: int = _setting(1_000_000_000, _whole(1_000, 10**13))
    """Compressed size after which a new WARC file is begun."""
    warc_max_seconds: int = _setting(0, _whole(0, 10**8))
    """Age after which a WARC file is closed; 0 for none."""
    warc_payload: str = _setting("raw", _choice("raw", "decoded"))
    """Whether bodies keep the content coding in which they were received."""
    warc_spool_bytes: int = _setting(8_000_000, _whole(0, 10**12))
    """Size of a body above which it is kept in a file, and not in memory."""
    warc_upload: str = _setting("", _upload_url)
    """Where each WARC file is copied when it is closed; empty for nowhere."""
    warc_upload_remove: bool = _setting(False, _boolean)
    """Whether a WARC file is removed here once it is there."""
    wacz_dir: Path | None = _setting(None, _optional_path)
    """Where the last node makes a WACZ of the finished crawl; `None`: nowhere."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Config:
        """Return the configuration in *settings*, a mapping of all settings.

        Raises:
            ConfigurationError: A ``FRONTIER_*`` setting is unknown or wrong.
        """
        by_name = {PREFIX + f.name.upper(): f for f in fields(cls)}
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
                raise ConfigurationError(f"{name} = {value!r}: {error}") from None
            values[by_name[name].name] = parsed
        values = {**REVISIT_PRESETS.get(values.get("revisit_preset", ""), {}), **values}
        if not values.get("node_id"):
            host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "node"
            values["node_id"] = f"{host}-{os.getpid()}-{secrets.token_hex(2)}"
        config = cls(**values)
        if config.seen_set_max_bytes and not {"bloom", "set"} <= set(config.seen_tiers):
            raise ConfigurationError(
                f"FRONTIER_SEEN_SET_MAX_BYTES = {config.seen_set_max_bytes}: "
                "needs the tiers bloom and set, as one takes over from the other"
            )
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


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{name} is not a setting of frontier{hint}"
