"""Which exchanges are archived, by mime type, status and URL.

A rule is ``mime:text/*``, ``status:404``, ``status:5xx`` or ``url:REGEX``, which RE2
searches anywhere in the URL. To be archived, an exchange has to match a rule of each
kind that *include* names, and no rule of *exclude*.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from frontier.settings.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.model import Exchange

    Test = Callable[[Exchange], bool]

_TYPE = re.compile(rb"\ncontent-type[ \t]*:[ \t]*([^\s;,]+)", re.IGNORECASE)


class Selection:
    """Decides which exchanges are archived."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._needed: dict[str, list[Test]] = {}
        for rule in include:
            kind = rule.partition(":")[0]
            self._needed.setdefault(kind, []).append(_test_of(rule))
        self._refused = [_test_of(rule) for rule in exclude]

    def takes(self, exchange: Exchange) -> bool:
        """Whether *exchange* is to be archived."""
        if exchange.unmodified is not None:  # its original was archived before
            return True
        if any(test(exchange) for test in self._refused):
            return False
        return all(
            any(test(exchange) for test in tests) for tests in self._needed.values()
        )


def _test_of(rule: str) -> Test:
    kind, _, pattern = rule.partition(":")
    if kind == "mime":
        wanted = pattern.lower()
        return lambda exchange: fnmatchcase(mime_of(exchange.response_head), wanted)
    if kind == "status":
        digits = pattern.removesuffix("xx")
        return lambda exchange: f"{exchange.status:03}".startswith(digits)
    expression = compiled(pattern)
    return lambda exchange: expression.search(exchange.url) is not None


def mime_of(head: bytes) -> str:
    """The mime type that *head* states, in lower case; empty if it states none."""
    found = _TYPE.search(head)
    return found[1].decode("latin-1").lower() if found else ""
