"""What makes two captures the same: the keys under which one is looked up.

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
from enum import StrEnum

from frontier.errors import InvalidURL
from frontier.urls.canon.rulesets import named

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
