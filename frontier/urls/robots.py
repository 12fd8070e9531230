"""robots.txt as text: how much of it is read, and whether that can be read in time.

What always holds:

1.  No more than `LIMIT` bytes are read, to the end of a line: half of a rule is
    another rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protego import Protego

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIMIT = 512_000
"""Bytes that are read: the least that RFC 9309 (2.5) lets a crawler read."""
LONG_URL = "https://example.org/" + "a" * 2_000


def first_part(body: bytes, *, is_whole: bool = True) -> tuple[bytes, bool]:
    r"""What is read of *body*, and whether that is all of it.

    *is_whole* is whether the server had sent no more.

    >>> first_part(b"Disallow: /a\nDisallow: /pri", is_whole=False)
    (b'Disallow: /a\n', False)
    """
    if is_whole and len(body) <= LIMIT:
        return body, True
    part = body[:LIMIT]
    end = max(part.rfind(b"\n"), part.rfind(b"\r"))
    return part[: end + 1], False


def robots_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Read rules in a worker, for *agent*, as the node will: here there are limits.

    What comes of it stays here: rules are asked too often to ask another process.
    """
    yield allowed(content, LONG_URL, arguments["agent"])


def allowed(content: bytes, url: str, agent: str) -> bool:
    """Whether the rules *content* allow *url* to *agent*."""
    rules = Protego.parse(content.decode("utf-8-sig", "ignore"))
    return bool(rules.can_fetch(url, agent))
