"""Which responses are compared with those already stored.

What makes two captures the same: the keys under which one is looked up.

======================  =====================================================
match                   a capture is a revisit of
======================  =====================================================
``digest``              any capture of the same payload
``url+digest``          one of the same payload from the same URL
``canonical+digest``    one of the same payload from an equivalent URL
``digest+same-url``     any of the same payload, from the same URL if there is
======================  =====================================================

A key is a payload digest as the index spells it, or `url_key`. The first key of
an exchange that leads to an original decides.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from frontier.errors import InvalidURL
from frontier.urls.canon.rulesets import named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.model import Exchange


URL_KEY = "url:"
"""What the keys begin with that are made of a URL and a digest."""


class Match(StrEnum):
    """When a capture is a revisit of another; see the module."""

    DIGEST = "digest"
    URL = "url+digest"
    CANONICAL = "canonical+digest"
    SAME_URL = "digest+same-url"


def keys_of(
    match: Match, url: str, digest: str, rules: str = "heritrix"
) -> tuple[str, ...]:
    """The keys under which a capture of *url* is looked up, the best first.

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
    """The key of the captures of *digest* from *url*.

    128 bits: that two of 10^10 captures share one has a chance of 1e-19.
    """
    named = f"{digest} {url}".encode("utf-8", "surrogatepass")
    return URL_KEY + hashlib.blake2b(named, digest_size=16).hexdigest()


def canonical(url: str, rules: str = "heritrix") -> str:
    """*url* under *rules*, or as it is if these refuse it."""
    try:
        return named(rules).apply(url)
    except InvalidURL:
        return url


_CONTENT_TYPE = re.compile(
    rb"^content-type[ \t]*:[ \t]*([^;\s]*)", re.IGNORECASE | re.MULTILINE
)
_TEXT = (
    "text/*",
    "application/*xml",
    "application/*json",
    "application/*javascript",
    "application/ecmascript",
    "image/svg+xml",
)
"""What counts as text for the least size; all else is binary, as in warcprox."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Whether a payload is looked up, and indexed when it is new.

    Never the empty payload: all empty payloads are the same, and a revisit of one
    cannot be told from a capture. Never a truncated one: its digest is not that
    of what the server has, and a revisit says ``length`` in WARC-Truncated, where
    the real reason would have to stand (WARC 1.1, section 6.7.2). And only answers
    to GET: a revisit names the URL and the date of its original, and replay tools
    file what a form was answered under another URL (`frontier.cdx.methods`).
    """

    statuses: frozenset[int] = frozenset({200})
    """Only 200 by default, as Heritrix and the National Library of Iceland have
    it: the bodies of errors and redirects are small, and to replay one through
    another capture gains nothing."""
    mime_include: tuple[str, ...] = ()
    """Patterns, as ``image/*``; empty for all types."""
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
        if not (
            self.mime_include
            or self.mime_exclude
            or self.min_text_bytes
            or self.min_binary_bytes
        ):
            return True
        mime = mime_of(exchange)
        if self.mime_include and not _any(self.mime_include, mime):
            return False
        if _any(self.mime_exclude, mime):
            return False
        least = self.min_text_bytes if _any(_TEXT, mime) else self.min_binary_bytes
        return size >= least


may_be_revisit = Policy()
"""The default policy."""


def mime_of(exchange: Exchange) -> str:
    """The media type that the server declared, in lower case; empty if none."""
    found = _CONTENT_TYPE.search(exchange.response_head)
    return found[1].decode("latin-1").lower() if found else ""


def _any(patterns: Iterable[str], mime: str) -> bool:
    return any(fnmatchcase(mime, pattern) for pattern in patterns)
