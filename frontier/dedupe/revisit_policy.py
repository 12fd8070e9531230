"""Which responses are compared with those already stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.model import Exchange

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
