"""Which exchanges are archived, by mime type, status and URL.

A rule is ``mime:text/*``, ``status:404``, ``status:5xx`` or ``url:REGEX``, which
is searched anywhere in the URL. To be archived, an exchange has to match a rule
of each kind that *include* names, and no rule of *exclude*. A URL for which the
regular expressions take too long is not compared with them: it is archived.
"""

from __future__ import annotations

import logging
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError
from frontier.urls.canon.regex_rules import cautious, longest
from frontier.urls.canon.rule_files import LEAST_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontier.model import Exchange

    Test = Callable[[Exchange], bool]

logger = logging.getLogger(__name__)

_TYPE = re.compile(rb"\ncontent-type[ \t]*:[ \t]*([^\s;,]+)", re.IGNORECASE)


class Selection:
    """Says of each exchange whether it is archived.

    Raises:
        ConfigurationError: A regular expression may take too long.
    """

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._longest = _longest_url([*include, *exclude])
        self._told = False
        self._needed: dict[str, list[Test]] = {}
        for rule in include:
            kind = rule.partition(":")[0]
            test = self._test(rule, otherwise=True)
            self._needed.setdefault(kind, []).append(test)
        self._refused = [self._test(rule, otherwise=False) for rule in exclude]

    def takes(self, exchange: Exchange) -> bool:
        """Whether *exchange* is to be archived."""
        if exchange.unmodified is not None:  # of what was archived before
            return True
        if any(test(exchange) for test in self._refused):
            return False
        return all(
            any(test(exchange) for test in tests) for tests in self._needed.values()
        )

    def _test(self, rule: str, *, otherwise: bool) -> Test:
        """What *rule* says; *otherwise* of a URL that is too long for it."""
        kind, _, pattern = rule.partition(":")
        if kind == "mime":
            wanted = pattern.lower()
            return lambda exchange: fnmatchcase(mime_of(exchange.response_head), wanted)
        if kind == "status":
            digits = pattern.removesuffix("xx")
            return lambda exchange: f"{exchange.status:03}".startswith(digits)
        compiled = re.compile(pattern)

        def test(exchange: Exchange) -> bool:
            if len(exchange.url) > self._longest:
                self._tell(exchange.url)
                return otherwise
            return compiled.search(exchange.url) is not None

        return test

    def _tell(self, url: str) -> None:
        if not self._told:
            self._told = True
            logger.warning(
                "%s... is archived, as are others with more than %s characters: "
                "FRONTIER_WARC_INCLUDE and FRONTIER_WARC_EXCLUDE take too long for "
                "them",
                url[:200],
                f"{self._longest:,}",
            )


def mime_of(head: bytes) -> str:
    """The mime type that *head* says, in lower case; empty if it says none."""
    found = _TYPE.search(head)
    return found[1].decode("latin-1").lower() if found else ""


def _longest_url(rules: Iterable[str]) -> int:
    """How many characters a URL may have that is compared with all of *rules*."""
    patterns = [r.partition(":")[2] for r in rules if r.startswith("url:")]
    for pattern in patterns:
        reason = cautious(pattern)
        if reason is not None:
            raise ConfigurationError(
                f"FRONTIER_WARC_INCLUDE, FRONTIER_WARC_EXCLUDE: url:{pattern} may "
                f"never end: {reason}"
            )
    most = longest(*patterns)
    if most < LEAST_URL:
        raise ConfigurationError(
            "FRONTIER_WARC_INCLUDE, FRONTIER_WARC_EXCLUDE: their url: rules take too "
            f"long, all together, for URLs of more than {most} characters"
        )
    return most
