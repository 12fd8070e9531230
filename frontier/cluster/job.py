"""What a crawl was begun for: a spider, its arguments and its start URLs.

Nodes with the same job share a crawl. Another job gets another crawl, or items would be
labelled with the arguments of whichever node fetches the page.

What always holds:

1.  A job is what was asked for, not what the spider makes of it: an attribute that
    `__init__` sets, such as the time, does not count.
2.  The store has no value that may be a secret, and no long value in full. The ids are
    digests of the full values.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

SHOWN = 80
"""Characters of a value that are shown to others."""
MOST = 50
"""Arguments that are shown to others."""
_SECRET = re.compile(r"pass|pwd|secret|token|key|auth|credential|cookie", re.IGNORECASE)


class Job(NamedTuple):
    """What a node was asked to do; jobs are the same if their ids are."""

    spider: str
    asked: str
    """Digest of the spider and its arguments."""
    id: str
    """Digest of *asked* and the start URLs."""
    arguments: Mapping[str, str]
    """As they are shown to others."""
    start_urls: str
    """As they are shown to others."""

    @classmethod
    def of(
        cls, spider: str, arguments: Mapping[str, Any], start_urls: Iterable[str]
    ) -> Self:
        """The job of *spider* with *arguments* and *start_urls*, in any order."""
        urls = sorted({str(url) for url in start_urls})
        texts = {name: _text(value) for name, value in arguments.items()}
        asked = _digest(spider, texts)
        told = {
            name: "..." if _SECRET.search(name) else repr(text[:SHOWN])
            for name, text in sorted(texts.items())[:MOST]
        }
        return cls(spider, asked, _digest(asked, urls), told, _told(urls))

    @classmethod
    def read(cls, stored: bytes) -> Self:
        """Parse the JSON that `stored` has made.

        Raises:
            ValueError: It is something else.
        """
        try:
            found = cls(*json.loads(stored))
        except (ValueError, TypeError, RecursionError):
            raise ValueError("its job is not the JSON of one") from None
        told = found.arguments
        texts = [found.spider, found.asked, found.id, found.start_urls]
        if not isinstance(told, dict) or not all(
            isinstance(text, str) and text.isprintable()
            for text in (*texts, *told, *told.values())
        ):
            raise ValueError("its job is not the JSON of one")
        return found

    def stored(self) -> str:
        """The job as JSON, for `read`."""
        return json.dumps(self)

    def differs(self, other: Job) -> str:
        """How *other* differs, in one line; empty if they are the same."""
        if self.id == other.id:
            return ""
        if self.spider != other.spider:
            return f"spider {self.spider!r} here, {other.spider!r} there"
        if self.asked == other.asked:
            return f"start URLs: {self.start_urls} here, {other.start_urls} there"
        names = sorted({*self.arguments, *other.arguments})
        pairs = [(n, self.arguments.get(n), other.arguments.get(n)) for n in names]
        found = [
            f"{name} = {here or 'not given'} here, {there or 'not given'} there"
            for name, here, there in pairs
            if here != there
        ]
        return "; ".join(found) or "an argument whose value is not shown"


def _text(value: Any) -> str:
    """*value* as text that is the same in each process that was given it."""
    if isinstance(value, str):
        return value
    if isinstance(value, set | frozenset):
        value = sorted(map(repr, value))
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _told(urls: list[str]) -> str:
    if not urls:
        return "none"
    first = repr(urls[0][:SHOWN])
    return first if len(urls) == 1 else f"{first} and {len(urls) - 1:,} more"


def _digest(*facts: Any) -> str:
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
