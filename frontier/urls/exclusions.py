r"""What an operator excludes from a crawl: hosts, URL prefixes, patterns.

What always holds:

1.  Testing a URL takes time linear in its length, whatever the patterns are: RE2
    follows all alternatives of a pattern at once. Patterns see only the first `LOOKED`
    characters of the URL.
2.  URLs are compared without user, default port and fragment, and with scheme and host
    in lower case; the rest is compared as it is requested.
3.  A pattern that RE2 rejects is an error that names it, even if it was stored before:
    it is never ignored. docs/crawls.md lists where RE2 differs from `re`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from frontier.errors import ConfigurationError
from frontier.model import frozen
from frontier.settings.patterns import LOOKED, compiled
from frontier.urls.split import NO_PORT, split

HOST, PREFIX, PATTERN = "host", "prefix", "pattern"
KINDS = (HOST, PREFIX, PATTERN)
LONGEST = 2_000
"""The most characters of a host, prefix or pattern."""
MOST_PARTS = 20_000
"""The most RE2 instructions of all patterns of a crawl together: about one for each
character, with repetitions written out. RE2's work per character grows with them."""
_LABELS = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")


@frozen
class Rule:
    """One exclusion."""

    kind: str
    value: str

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


def rule_of(kind: str, value: str) -> Rule:
    """The exclusion of *value*, as it is stored.

    Raises:
        ConfigurationError: *value* is not of *kind*, or RE2 rejects the pattern.
    """
    if len(value) > LONGEST or not value.isprintable() or not value:
        raise ConfigurationError(
            f"{value[:100]!r} cannot be excluded: a {kind} has 1 to {LONGEST:,} "
            "printable characters"
        )
    if kind == HOST:
        return Rule(kind, _host(value))
    if kind == PREFIX:
        return Rule(kind, _prefix(value))
    if kind != PATTERN:
        raise ConfigurationError(f"{kind[:40]!r} is not a kind of exclusion")
    try:
        compiled(value)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    return Rule(kind, value)


def _host(value: str) -> str:
    """*value* in the form of `Parts.authority`, with a port only if it has one."""
    parts = split(f"any://{value}")
    name = parts.host
    try:
        if ":" in name:
            name = f"[{ipaddress.IPv6Address(name).compressed}]"
        else:
            name = name.encode("idna").decode("ascii")
    except ValueError:
        name = ""
    is_host = name.startswith("[") or _LABELS.fullmatch(name)
    if not is_host or parts.port == NO_PORT or set(value) & set("/?#@"):
        raise ConfigurationError(
            f"{value[:200]!r} is not a host, such as www.example.org; crawl exclude "
            "takes the beginning of URLs with --prefix"
        )
    return name if parts.port is None else f"{name}:{parts.port}"


def _prefix(value: str) -> str:
    found = plain(value)
    if found is None or not value.lower().startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{value[:200]!r} is not the beginning of an http or https URL with a host"
        )
    return found


def plain(url: str) -> str | None:
    """*url* as it is compared; ``None`` if it has no host or an impossible port."""
    parts = split(url)
    if not parts.host or parts.port == NO_PORT:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.authority}{parts.path or '/'}{query}"


class Exclusions:
    """Tells which URLs *rules* exclude.

    Raises:
        ConfigurationError: Their patterns together are too large.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._hosts: dict[str, Rule] = {}
        self._prefixes: tuple[str, ...] = ()
        self._patterns: list[tuple[Any, Rule]] = []
        self._parts = 0
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        """Add *rule*.

        Raises:
            ConfigurationError: The patterns together would be too large.
        """
        if rule.kind == HOST:
            self._hosts[rule.value] = rule
        elif rule.kind == PREFIX:
            self._prefixes += (rule.value,)
        else:
            pattern = compiled(rule.value)
            self._parts += pattern.programsize
            if self._parts > MOST_PARTS:
                raise ConfigurationError(
                    f"{rule.value[:200]!r} is too large: with repetitions written "
                    "out, all patterns of a crawl together have at most "
                    f"{MOST_PARTS:,} parts"
                )
            self._patterns.append((pattern, rule))

    def __bool__(self) -> bool:
        return bool(self._hosts or self._prefixes or self._patterns)

    def why(self, url: str) -> Rule | None:
        """The rule that excludes *url*, if any; a rule for its host comes first."""
        if self._hosts and (found := self.of_host(url)) is not None:
            return found
        if not (self._prefixes or self._patterns):
            return None
        text = plain(url)
        if text is None:
            return None
        if self._prefixes and text.startswith(self._prefixes):
            return next(
                Rule(PREFIX, one) for one in self._prefixes if text.startswith(one)
            )
        looked = text[:LOOKED].encode("utf-8", "replace")
        return next(
            (r for pattern, r in self._patterns if pattern.search(looked)), None
        )

    def of_host(self, url: str) -> Rule | None:
        """The rule that excludes the host of *url*, on all ports or on its own."""
        parts = split(url)
        found = self._hosts.get(parts.authority)
        if found is None and parts.port:
            found = self._hosts.get(parts.authority.rpartition(":")[0])
        return found
