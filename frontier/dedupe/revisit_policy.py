"""Which responses are compared with those already stored, and under which keys.

======================  =====================================================
match                   a capture is a revisit of
======================  =====================================================
``digest``              any capture of the same payload
``url+digest``          one of the same payload from the same URL
``canonical+digest``    one of the same payload from an equivalent URL
``digest+same-url``     any of the same payload, if possible from the same URL
======================  =====================================================

A key is a payload digest in the index's spelling, or a `url_key`. The first key of an
exchange that leads to an original decides. Each payload is indexed under one digest. It
may be looked up by further digests, because other archives use other algorithms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from frontier.dedupe.cdx_server import Wanted
from frontier.dedupe.digest import ALGORITHM, digest_of
from frontier.errors import InvalidURL
from frontier.model import Exchange, Original, frozen
from frontier.urls.canon.rulesets import named
from frontier.warc.records import target_uri
from frontier.warc.selection import mime_of


@frozen
class Item:
    """An exchange, with the keys that it is looked up by."""

    exchange: Exchange
    digest_hex: str
    eligible: bool
    """Whether the payload is looked up and indexed."""
    keys: tuple[str, ...]
    """The keys for that; the first that is known decides."""
    further: Mapping[str, str]
    """Those `keys` that come from other digests of the payload, with these digests."""

    def found(self, known: Mapping[str, Original]) -> tuple[str, Original | None]:
        """The digest that decides, and the original if the exchange is a revisit."""
        if self.exchange.unmodified is not None:
            return self.digest_hex, self.exchange.unmodified.original
        key = next((key for key in self.keys if key in known), "")
        return self.further.get(key, self.digest_hex), known.get(key)

    def wanted(self) -> Wanted:
        """The payload as CDX servers are asked for it."""
        digests = dict.fromkeys([self.digest_hex, *self.further.values()])
        x = self.exchange
        return Wanted(target_uri(x.url), tuple(digests), x.started)


URL_KEY = "url:"
"""The prefix of keys that are made of a URL and a digest."""


class Match(StrEnum):
    """When a capture is a revisit of another; see the module's docstring."""

    DIGEST = "digest"
    URL = "url+digest"
    CANONICAL = "canonical+digest"
    SAME_URL = "digest+same-url"


def keys_of(
    match: Match, url: str, digest: str, rules: str = "heritrix"
) -> tuple[str, ...]:
    """The keys by which a capture of *url* is looked up, the best first.

    *rules* tell which URLs are equivalent.
    """
    if match is Match.DIGEST:
        return (digest,)
    if match is Match.URL:
        return (url_key(url, digest),)
    if match is Match.CANONICAL:
        return (url_key(canonical(url, rules), digest),)
    return (url_key(url, digest), digest)


def url_key(url: str, digest: str) -> str:
    """The key of captures of *digest* from *url*.

    It has 128 bits: the chance that two of 10^10 captures share one is 1e-19.
    """
    named = f"{digest} {url}".encode("utf-8", "surrogatepass")
    return URL_KEY + hashlib.blake2b(named, digest_size=16).hexdigest()


def canonical(url: str, rules: str = "heritrix") -> str:
    """The canonical form of *url* by *rules*, or *url* if they refuse it."""
    try:
        return named(rules).apply(url)
    except InvalidURL:
        return url


_TEXT = (
    "text/*",
    "application/*xml",
    "application/*json",
    "application/*javascript",
    "application/ecmascript",
    "image/svg+xml",
)
"""Types that count as text for the least size; others are binary, as in warcprox."""


@frozen
class Policy:
    """Whether a payload is looked up, and indexed when it is new.

    Never the empty payload: all empty payloads are the same, and a revisit of one
    cannot be told from a capture. Never a truncated one: its digest is not that of the
    server's payload, and a revisit says ``length`` in WARC-Truncated, where the real
    reason would have to be (WARC 1.1, section 6.7.2). And only responses to GET: a
    revisit names the URL and the date of its original, and replay tools file the
    response to a form under another URL (`frontier.cdx.lines`).
    """

    statuses: frozenset[int] = frozenset({200})
    """Only 200 by default, as with Heritrix and the National Library of Iceland: the
    bodies of errors and redirects are small, and nothing is gained by replaying one
    through another capture."""
    mime_include: tuple[str, ...] = ()
    """Patterns such as ``image/*``; empty for all types."""
    mime_exclude: tuple[str, ...] = ()
    min_text_bytes: int = 0
    min_binary_bytes: int = 0

    def __call__(self, exchange: Exchange) -> bool:
        """Whether the payload of *exchange* may become a revisit."""
        size = len(exchange.response_body)
        if (
            not size
            or exchange.method != "GET"
            or exchange.truncated is not None
            or exchange.framing
            or exchange.status not in self.statuses
        ):
            return False
        if not self.is_by_mime:
            return True
        least = self.least(mime_of(exchange.response_head))
        return least is not None and size >= least

    @property
    def is_by_mime(self) -> bool:
        """Whether the type of a payload matters."""
        return bool(
            self.mime_include
            or self.mime_exclude
            or self.min_text_bytes
            or self.min_binary_bytes
        )

    def least(self, mime: str) -> int | None:
        """The least bytes of a payload of type *mime*; ``None`` if it is excluded."""
        if self.mime_include and not _any(self.mime_include, mime):
            return None
        if _any(self.mime_exclude, mime):
            return None
        return self.min_text_bytes if _any(_TEXT, mime) else self.min_binary_bytes


may_be_revisit = Policy()
"""The default policy."""


def _any(patterns: Iterable[str], mime: str) -> bool:
    return any(fnmatchcase(mime, pattern) for pattern in patterns)


@frozen
class Rules:
    """Which exchanges become revisits, and of what."""

    policy: Callable[[Exchange], bool] = may_be_revisit
    """Which payloads are looked up and indexed; the empty one never is."""
    match: Match = Match.DIGEST
    algorithm: str = ALGORITHM
    """The algorithm of payload digests."""
    further: tuple[str, ...] = ()
    """Algorithms of digests that originals of other archives may have."""
    canon: str = "heritrix"
    """The rules that tell which URLs are equivalent."""

    def weigh(self, exchange: Exchange) -> Item:
        """*exchange* with the keys to look it up by; none if the policy says no."""
        body = exchange.response_body
        if exchange.unmodified is not None:
            return Item(exchange, exchange.unmodified.digest, False, (), {})
        digest = digest_of(body, self.algorithm)
        if exchange.made is not None or not (body and self.policy(exchange)):
            return Item(exchange, digest, False, (), {})
        url = target_uri(exchange.url)
        keys = keys_of(self.match, url, digest, self.canon)
        further = {
            key: other
            for other in (digest_of(body, each) for each in self.further)
            for key in keys_of(self.match, url, other, self.canon)
        }
        return Item(exchange, digest, True, (*keys, *further), further)


def kind_of(exchange: Exchange, original: Original | None) -> str:
    """What *exchange* shares with *original*, in the words of Heritrix's DeDuplicator.

    ``new`` if no original was found.
    """
    if original is None:
        return "new"
    url = target_uri(exchange.url)
    if original.url == url:
        return "exact_url"
    return "canonical_url" if canonical(original.url) == canonical(url) else "digest"
