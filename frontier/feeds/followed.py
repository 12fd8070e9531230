"""What a crawl of feeds has done and will do: read for ``frontier feeds``.

Reading changes nothing. What the store says is data of unknown origin: of a key that is
damaged nothing is known, and `Followed.damaged` names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frontier.cluster.controls import calls
from frontier.cluster.controls import read as read_controls
from frontier.errors import FrontierError
from frontier.feeds.failed_pages import FailedPage, read_pages
from frontier.feeds.round_state import (
    FeedRecord,
    PastRound,
    feed_field,
    read_config,
    read_feed,
    read_rounds,
)
from frontier.status.validate import printable, whole
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from frontier.cluster.controls import Controls
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys

BATCH = 200
"""Sites per round trip."""
SHOWN = 20
"""Pages that failed that are named."""
STATES = ("waiting", "crawling", "paused", "ended")
NONE: tuple[bytes, dict[bytes, bytes]] = (b"0", {})
"""A part of a hash that cannot be read."""
LIVE_MS = 60_000
"""A node whose last heartbeat is older is taken for gone."""
FOR_EVER = 10**15
"""Milliseconds after which nothing is due: a score of ``+inf``, too."""


@dataclass(frozen=True, slots=True)
class FollowedFeed:
    """A feed, as the crawl knows it."""

    record: FeedRecord
    implied: list[str]
    excluded: str
    """By what an operator excluded it; empty if it is not."""


@dataclass(frozen=True, slots=True)
class FollowedSite:
    """A site, as the crawl knows it."""

    name: str
    state: str
    """As in docs/feeds.md; ``unknown`` if the store does not say."""
    items: int
    """New ones that were found so far."""
    round: int
    wait_s: int
    """From the beginning of one round to that of the next, now."""
    wait_min_s: int
    wait_max_s: int
    emitted_ms: int
    """When its last round began; 0 if it had none."""
    next_ms: int
    """When its next one will; 0 if none will, or it is not known yet."""
    urls: int
    """Queued, or under way: counted, so kills and purges leave it wrong by a few."""
    feeds: list[FollowedFeed]
    failed: int = 0
    """Pages of items that could not be had, and are asked for again."""
    some_failed: list[FailedPage] = field(default_factory=list)
    """Some of them."""


@dataclass(slots=True)
class Followed:
    """What a crawl follows."""

    crawl_id: str
    state: str
    """``running``, ``paused``, ``stopped`` as no node is live, or as it has ended."""
    now_ms: int
    nodes: int
    """Those that are live."""
    sites: list[FollowedSite] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """A line for each key that cannot be read."""


def followed(
    store: BlockingStore, keys: CrawlKeys, names: Collection[str] = ()
) -> Followed:
    """What the crawl of *keys* follows; only the sites of *names*, if any are given.

    Raises:
        StoreError: The store does not answer.
    """
    time, state, beats, due, *wanted = store.run(
        [
            Call.command("TIME"),
            Call.command("HGET", keys.meta(), "state"),
            Call.command("HGETALL", keys.nodes()),
            Call.command("ZRANGE", keys.sites(), 0, -1, "WITHSCORES"),
            *calls(keys),
        ],
        tolerant=True,
    )
    controls = read_controls(keys, wanted)
    now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
    found = Followed(keys.crawl_id, "stopped", now_ms, 0)
    found.damaged += controls.strange
    found.nodes = _live(_known(found, beats, {}), now_ms)
    found.state = _state(_known(found, state, None), controls, found)
    scores = _scores(_known(found, due, []))
    chosen = [name for name in scores if not names or name in names]
    for at in range(0, len(chosen), BATCH):
        some = chosen[at : at + BATCH]
        replies = store.run(_site_calls(keys, some), tolerant=True)
        for at_site, name in enumerate(some):
            reply, count, some_of = replies[3 * at_site : 3 * at_site + 3]
            values, failed = _known(found, reply, {}), _known(found, count, 0)
            site = _site(name, scores[name], values, controls)
            _, pages = _known(found, some_of, NONE)
            some_failed = list(read_pages(_pairs(pages)).values())[:SHOWN]
            found.sites.append(replace(site, failed=failed, some_failed=some_failed))
    return found


def _site_calls(keys: CrawlKeys, names: Sequence[str]) -> list[Call]:
    calls = []
    for name in names:
        calls.append(Call.command("HGETALL", keys.site(name)))
        calls.append(Call.command("HLEN", keys.failed(name)))
        calls.append(Call.command("HSCAN", keys.failed(name), 0, "COUNT", SHOWN))
    return calls


def _pairs(reply: Any) -> dict[bytes, bytes]:
    """The fields of a part of a hash, which are pairs or not by the protocol."""
    if isinstance(reply, dict):
        return reply
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _known(found: Followed, reply: Any, other: Any) -> Any:
    """*reply*, or *other* if it is the error of a damaged key."""
    if isinstance(reply, FrontierError):
        found.damaged.append(str(reply))
        return other
    return reply


def _live(beats: Mapping[bytes, bytes], now_ms: int) -> int:
    times = (whole(value.split(b" ")[0]) for value in beats.values())
    return sum(abs(now_ms - at) < LIVE_MS for at in times)


def _state(state: bytes | None, controls: Controls, found: Followed) -> str:
    if state != b"open":
        return printable((state or b"unknown").decode("utf-8", "replace"))[:40]
    if controls.paused is not None:
        return "paused"
    return "running" if found.nodes else "stopped"


def _scores(replies: Sequence[Any]) -> dict[str, float]:
    """When each site is to be looked at, in ms; sorted by the names."""
    pairs = replies
    if replies and not isinstance(replies[0], list | tuple):
        pairs = list(zip(replies[::2], replies[1::2], strict=True))
    scores = {name.decode("utf-8", "surrogateescape"): float(at) for name, at in pairs}
    return dict(sorted(scores.items()))


def _site(
    name: str,
    score: float,
    values: Mapping[bytes, bytes],
    controls: Controls,
) -> FollowedSite:
    state = (values.get(b"state") or b"").decode("latin-1")
    if state not in STATES:
        state = "unknown"
    wait, emitted = whole(values.get(b"wait")), whole(values.get(b"emitted"))
    next_ms = int(score) if state == "waiting" and score < FOR_EVER else 0
    if state == "crawling":
        next_ms = emitted + wait * 1000
    feeds = [
        FollowedFeed(
            read_feed(url, values.get(f"feed:{feed_field(url)}".encode())),
            implied,
            str(controls.exclusions.why(url) or ""),
        )
        for url, implied in read_config(values.get(b"config"))
    ]
    if state == "waiting" and all(feed.excluded for feed in feeds):
        next_ms = 0
    return FollowedSite(
        name=name,
        state=state,
        items=whole(values.get(b"items")),
        round=whole(values.get(b"round")),
        wait_s=wait,
        wait_min_s=whole(values.get(b"wait_min")),
        wait_max_s=whole(values.get(b"wait_max")),
        emitted_ms=emitted,
        next_ms=next_ms,
        urls=whole(values.get(b"urls")),
        feeds=feeds,
    )


def past_rounds(
    store: BlockingStore, keys: CrawlKeys, names: Sequence[str], last: int
) -> dict[str, list[PastRound]]:
    """The *last* rounds of each site of *names*, the oldest first.

    Of a site whose key is damaged, none.

    Raises:
        StoreError: The store does not answer.
    """
    calls = [Call.command("LRANGE", keys.rounds(name), 0, last - 1) for name in names]
    found: dict[str, list[PastRound]] = {}
    for at in range(0, len(calls), BATCH):
        replies = store.run(calls[at : at + BATCH], tolerant=True)
        for name, reply in zip(names[at : at + BATCH], replies, strict=True):
            lines = [] if isinstance(reply, FrontierError) else reply
            found[name] = read_rounds(lines)[::-1]
    return found
