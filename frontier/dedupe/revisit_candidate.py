"""What an exchange is looked up by, before it is written.

Each payload has one digest under which its own capture is indexed. It may be looked
up by further ones: a digest is an algorithm and bytes, and others use others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.dedupe.cdx_server import Wanted
from frontier.dedupe.digest import ALGORITHM, digest_of
from frontier.dedupe.revisit_policy import Match, keys_of, may_be_revisit
from frontier.warc.records import target_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from frontier.model import Exchange, Original


@dataclass(frozen=True, slots=True)
class Item:
    """An exchange, weighed."""

    exchange: Exchange
    digest_hex: str
    eligible: bool
    """Whether the payload is looked up and indexed."""
    keys: tuple[str, ...]
    """Under which it is; the first that is known decides."""
    further: Mapping[str, str]
    """Those of the keys that are made of another digest of the payload, and that."""

    def found(self, known: Mapping[str, Original]) -> tuple[str, Original | None]:
        """What the exchange is a revisit of, if it is one, and by which digest."""
        if self.exchange.unmodified is not None:
            return self.digest_hex, self.exchange.unmodified.original
        key = next((key for key in self.keys if key in known), "")
        return self.further.get(key, self.digest_hex), known.get(key)

    def wanted(self) -> Wanted:
        """What CDX servers are asked for."""
        digests = dict.fromkeys([self.digest_hex, *self.further.values()])
        x = self.exchange
        return Wanted(target_uri(x.url), tuple(digests), x.started)


@dataclass(frozen=True, slots=True)
class Rules:
    """What becomes a revisit, and of what."""

    policy: Callable[[Exchange], bool] = may_be_revisit
    """Which payloads are looked up and indexed; the empty one never is."""
    match: Match = Match.DIGEST
    algorithm: str = ALGORITHM
    """Of the payload digests."""
    further: tuple[str, ...] = ()
    """Algorithms of digests that others' originals may have."""
    blackout: float = 0.0
    """Seconds after an original in which nothing is written of a revisit of it
    from the same URL."""
    canon: str = "heritrix"
    """The rules that tell which URLs are equivalent."""

    def weigh(self, exchange: Exchange, policy: Callable[[Exchange], bool]) -> Item:
        """What *exchange* is looked up by; nothing if *policy* says no."""
        body = exchange.response_body
        if exchange.unmodified is not None:
            return Item(exchange, exchange.unmodified.digest, False, (), {})
        digest = digest_of(body, self.algorithm)
        if exchange.made is not None or not (body and policy(exchange)):
            return Item(exchange, digest, False, (), {})
        url = target_uri(exchange.url)
        keys = keys_of(self.match, url, digest, self.canon)
        further = {
            key: other
            for other in (digest_of(body, each) for each in self.further)
            for key in keys_of(self.match, url, other, self.canon)
        }
        return Item(exchange, digest, True, (*keys, *further), further)
