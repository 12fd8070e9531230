"""robots.txt as text: how much of it is read, and whether that can be read in time.

What always holds:

1.  At most `LIMIT` bytes are read, up to the end of a line: half a rule is a different
    rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from protego import Protego

LIMIT = 512_000
"""Bytes that are read: the least that RFC 9309 (2.5) requires a crawler to read."""
LONG_URL = "https://example.org/" + "a" * 2_000


def first_part(body: bytes, *, is_whole: bool = True) -> tuple[bytes, bool]:
    r"""The part of *body* that is read, and whether that is all of it.

    *is_whole* says whether the server sent no more than *body*.

    >>> first_part(b"Disallow: /a\nDisallow: /pri", is_whole=False)
    (b'Disallow: /a\n', False)
    """
    if is_whole and len(body) <= LIMIT:
        return body, True
    part = body[:LIMIT]
    end = max(part.rfind(b"\n"), part.rfind(b"\r"))
    return part[: end + 1], False


def robots_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Try the rules in a worker as the node will, for *agent*: a worker has limits.

    The node parses them again: rules are used too often to ask another process.
    """
    yield allowed(content, LONG_URL, arguments["agent"])


def allowed(content: bytes, url: str, agent: str) -> bool:
    """Whether the rules *content* allow *url* to *agent*."""
    rules = Protego.parse(content.decode("utf-8-sig", "ignore"))
    return bool(rules.can_fetch(url, agent))
