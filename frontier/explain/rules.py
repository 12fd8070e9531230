"""What no record tells: whether the crawl's rules would have left a URL out.

A page's links that are out of scope, or in a trap, are dropped where the page is
parsed. That leaves no trace of the URL, only a count. So it is looked at again here,
with the limits and the scope that the crawl's nodes have reported, the seeds that its
crawl logs name, and the robots.txt that is in its archive.

Nothing here does I/O. A `RuleCheck` is computed, and its source says of what.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.errors import ConfigurationError, WorkerFailed
from frontier.settings.live import SCOPE
from frontier.settings.values import SEEDS
from frontier.urls.addresses import SAID, class_of_host
from frontier.urls.robots import LIMIT, allowed, first_part
from frontier.urls.scope import Scope
from frontier.urls.traps import HOPS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from frontier.explain.in_archive import Record
    from frontier.explain.in_logs import LogFacts
    from frontier.explain.in_store import StoreFacts
    from frontier.settings.config import Config

COMPUTED = "computed, not recorded"
MOST_RULES = 16_384
"""Bytes of a robots.txt that are read in this process, as in a node's reactor."""
_GZIP = 47


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """What one rule of the crawl says of the URL."""

    allows: bool | None
    """``None`` if it cannot be told."""
    text: str
    source: str


def scope_of(
    facts: StoreFacts, logs: LogFacts, seeds: Collection[str], url: str
) -> RuleCheck:
    """Whether *url* is in the crawl's scope, of *seeds* that were given, or of logs."""
    kind = facts.settings.get(SCOPE, "")
    if not kind and not facts.own:
        return RuleCheck(None, "no node has told the crawl's scope", "the store")
    if not kind:
        text = "the spider has no scope setting; it follows what its code says"
        return RuleCheck(None, text, "the nodes' reports")
    if kind == "all":
        return RuleCheck(True, "the scope is all", COMPUTED)
    known = seeds or logs.seeds
    if not known or (not seeds and not logs.complete):
        why = "more seeds than are kept" if known else "its seeds are not known"
        return RuleCheck(None, f"the scope is {kind}, and {why}", "the nodes' reports")
    try:
        allows = Scope(kind, known).allows(url)
    except (ConfigurationError, ValueError) as error:
        return RuleCheck(None, f"the scope cannot be computed: {error}", COMPUTED)
    source = "--seeds" if seeds else "crawl logs"
    count = "1 seed" if len(known) == 1 else f"{len(known):,} seeds"
    where = "in scope" if allows else "out of scope"
    text = f"it is {where}: the scope is {kind}, of {count}"
    return RuleCheck(allows, text, f"{COMPUTED}: seeds of {source}")


def trap_of(facts: StoreFacts, url: str, hops: int | None) -> RuleCheck:
    """Whether *url* is left out as a trap; *hops* from its seed, if they are known."""
    if not facts.own and not facts.settings:
        text = "no node has told the crawl's limits on traps"
        return RuleCheck(None, text, "the store")
    kind = facts.traps.catches(url, hops or 0)
    source = f"{COMPUTED}: limits and counts of the store"
    if kind is not None:
        name = SETTINGS[kind]
        limit = facts.settings.get(name, "?")
        return RuleCheck(
            False, f"it is a trap: {_MEANS[kind]} ({name} = {limit})", source
        )
    if not facts.traps.are_set:
        return RuleCheck(True, "no limits on traps are set", "the nodes' reports")
    text = "no trap by its form, nor by what nodes have counted"
    if hops is None and facts.settings.get(SETTINGS[HOPS]):
        text += "; how far from a seed it is, is not known"
    return RuleCheck(True, text, source)


_MEANS = {
    "length": "the URL is too long",
    "hops": "too many links away from a seed",
    "segments": "its path has too many segments",
    "path": "its path repeats itself",
    "query": "too many URLs of this page with these parameters",
    "directory": "too many URLs in its directory",
    "host": "too many URLs of its host",
}


def address_of(config: Config, said: dict[str, str], url: str) -> RuleCheck | None:
    """Whether the address that *url* spells is connected to; ``None`` for a name.

    *said* is what seeds have said, by class: ``typed`` or ``named``.
    """
    try:
        kind = class_of_host(urlsplit(url).hostname or "")
    except ValueError:
        kind = None
    if kind is None:
        return None
    if SEEDS not in config.allow_addresses:
        allowed = frozenset(config.allow_addresses)
        source = f"{COMPUTED}: FRONTIER_ALLOW_ADDRESSES"
    else:
        typed = {one for one in SAID if said.get(one) == "typed"}
        named = {"public"} if "public" in said else {*said}
        allowed = frozenset(typed | named)
        source = f"{COMPUTED}: where seeds have led"
        if not said:
            return RuleCheck(
                None, f"its address is {kind}; no seed was fetched", source
            )
    is_allowed = kind in allowed
    verb = "are" if is_allowed else "are not"
    text = f"its address is {kind}, and such addresses {verb} connected to"
    return RuleCheck(is_allowed, text, source)


def robots_of(
    record: Record | None, url: str, asked: Callable[[bytes, str], bool]
) -> RuleCheck:
    """What the robots.txt of *record* says of *url*.

    *asked* tells whether rules, which are long, allow it to an agent.
    """
    if record is None:
        return RuleCheck(None, "no robots.txt of its host was found", "WARC files")
    source = f"{COMPUTED}: {record.source}"
    if not record.status.startswith("2"):
        text = f"there are no rules: robots.txt was answered with {record.status}"
        return RuleCheck(record.status.startswith(("3", "4")), text, source)
    if not record.has_body:
        text = "its robots.txt was fetched, but its text was not found"
        return RuleCheck(None, text, source)
    body = _plain(record.robots)
    rules, is_whole = first_part(body[:LIMIT], is_whole=len(body) <= LIMIT)
    agent = record.agent or "*"
    try:
        if len(rules) > MOST_RULES:
            allows = asked(rules, agent)
        else:
            allows = allowed(rules, url, agent)
    except WorkerFailed as error:
        return RuleCheck(None, f"its robots.txt cannot be read: {error.reason}", source)
    verb = "allows it" if allows else "forbids it"
    more = "" if is_whole else ", as far as it is read"
    return RuleCheck(allows, f"robots.txt {verb} to {agent[:100]}{more}", source)


def _plain(body: bytes) -> bytes:
    """*body* without gzip, as far as it is read."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(_GZIP).decompress(body, LIMIT + 1)
    except zlib.error:
        return b""
