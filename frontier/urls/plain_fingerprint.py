"""Scrapy's request fingerprint, without w3lib where the URL needs none.

A fingerprint is SHA-1 over a JSON object with method, canonical URL, body and
headers (`scrapy.utils.request.fingerprint`). Making the URL canonical takes
most of its time. A URL that `_PLAIN` matches is canonical already but for the
order of its parameters and its fragment; for the rest Scrapy is asked. A
property test compares both on URLs of either kind.
"""

from __future__ import annotations

import hashlib
import re

_HOST = r"[a-z0-9]++(?:[.-][a-z0-9]++)*+"
_PATH = r"(?:/(?!\.)[A-Za-z0-9\-._~!$&'()*+,=:@]*+)++"
_PAIR = r"[A-Za-z0-9\-._~+]++=[A-Za-z0-9\-._~+]*+"
_PLAIN = re.compile(
    rf"(https?://{_HOST}(?::[1-9][0-9]{{0,3}}+)?+{_PATH})"
    rf"(?:\?({_PAIR}(?:&{_PAIR})*+))?+(?:#[!-~]*+)?+"
)


def canonical(url: str) -> str | None:
    """What w3lib makes of *url*, or ``None`` if only w3lib can tell."""
    match = _PLAIN.fullmatch(url)
    if match is None:
        return None
    base, query = match.groups()
    if query is None:
        return str(base)
    if "&" in query:
        query = "&".join(sorted(query.split("&"), key=lambda pair: pair.split("=")))
    return f"{base}?{query}"


def of_plain_get(url: str) -> bytes | None:
    """Scrapy's fingerprint of a GET of *url* without a body, if it is quick to tell."""
    plain = canonical(url)
    if plain is None:
        return None
    text = f'{{"body": "", "headers": {{}}, "method": "GET", "url": "{plain}"}}'
    return hashlib.sha1(text.encode("ascii"), usedforsecurity=False).digest()
