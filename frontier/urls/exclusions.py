r"""What an operator excludes from a crawl: hosts, prefixes of URLs, patterns.

What always holds:

1.  To tell whether a URL is excluded takes time in proportion to its length, whatever
    the patterns are (`frontier.urls.exclusions`). No more than `LOOKED` characters
    of it are looked at.
2.  URLs are compared without user, default port and fragment, scheme and host in lower
    case; the rest as it is requested.

Regular expressions that take time in proportion to the length of a text, always.

Python's own try one way after the other, of which there may be a power of the text's
length, or worse. Here all ways are followed at once: an expression becomes an automaton
(Thompson's), whose sets of states are remembered as they come up.

Of that always holds:

1.  `Pattern.found` looks at each character once, and for a character it does no more
    than the automaton has states, of which there are at most `MOST_STATES`.
2.  What is remembered is bounded, and begun again when it is too much.
3.  It finds what `re.search` finds in a text without line feeds. What cannot be found
    so, as references to groups, looks ahead and word boundaries, is refused by name.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from typing_extensions import override

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Test = Callable[[str], object]

HOST, PREFIX, PATTERN = "host", "prefix", "pattern"
KINDS = (HOST, PREFIX, PATTERN)
LOOKED = 10_000
"""Characters of a URL that patterns are looked for in; servers take fewer."""
LONGEST = 2_000
"""Characters of a host, a prefix or a pattern."""
_LABELS = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
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
        ConfigurationError: It is none, or no pattern that is found in linear time.
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
        raise ConfigurationError(f"{kind[:40]!r} is no kind of exclusion")
    Pattern(value)
    return Rule(kind, value)


def _host(value: str) -> str:
    """*value* as `host_and_port` says it, with a port only if it has one."""
    name, colon, port = value.lower().rpartition(":")
    if not colon or value.endswith("]") or not port.isdecimal():
        name, port = value.lower(), ""
    name = name.rstrip(".")
    try:
        name = name.encode("idna").decode("ascii")
        if name.startswith("["):
            name = f"[{ipaddress.IPv6Address(name[1:-1]).compressed}]"
    except ValueError:
        name = ""
    is_address = name.startswith("[")
    if not (is_address or _LABELS.fullmatch(name)) or (port and int(port) > 65535):
        hint = "; to exclude what begins with a URL use --prefix" * ("/" in value)
        raise ConfigurationError(f"{value[:200]!r} is not a host{hint}")
    return f"{name}:{int(port)}" if port else name


def _prefix(value: str) -> str:
    found = plain(value)
    if found is None or not value.lower().startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{value[:200]!r} is not the beginning of an http or https URL with a host"
        )
    return found


def plain(url: str) -> str | None:
    """*url* as it is compared; ``None`` if it has no host."""
    try:
        parts = urlsplit(url)
        authority = host_and_port(url)
    except ValueError:
        return None
    if not authority:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{authority}{parts.path or '/'}{query}"


def host_and_port(url: str) -> str:
    """The host of *url*, and its port, if that is not the default; or nothing.

    Raises:
        ValueError: Its port is not a number that can be.
    """
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port
    if ":" in host:
        host = f"[{host}]"
    has_port = host and port is not None and port != _PORTS.get(parts.scheme)
    return f"{host}:{port}" if has_port else host


class Exclusions:
    """Tells what is excluded by *rules*.

    Raises:
        ConfigurationError: Their patterns are too large, all together.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._hosts: dict[str, Rule] = {}
        self._prefixes: tuple[str, ...] = ()
        self._patterns: list[tuple[Pattern, Rule]] = []
        self._states = 0
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        """Exclude *rule*, too.

        Raises:
            ConfigurationError: All patterns together would be too large.
        """
        if rule.kind == HOST:
            self._hosts[rule.value] = rule
        elif rule.kind == PREFIX:
            self._prefixes += (rule.value,)
        else:
            pattern = Pattern(rule.value)
            if self._states + pattern.states > MOST_STATES:
                raise ConfigurationError(
                    f"{rule.value[:200]!r} is too much: written out, the patterns of a "
                    f"crawl have at most {MOST_STATES:,} parts, all together"
                )
            self._states += pattern.states
            self._patterns.append((pattern, rule))

    def __bool__(self) -> bool:
        return bool(self._hosts or self._prefixes or self._patterns)

    def why(self, url: str) -> Rule | None:
        """The exclusion of *url*, if there is one; that of its host before others."""
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
        text = text[:LOOKED]
        return next((r for pattern, r in self._patterns if pattern.found(text)), None)

    def of_host(self, url: str) -> Rule | None:
        """The exclusion of the whole host of *url*, on all ports or on its own."""
        try:
            authority = host_and_port(url)
        except ValueError:
            return None
        found = self._hosts.get(authority)
        if found is None and self._hosts:
            found = self._hosts.get(re.sub(r":[0-9]+$", "", authority))
        return found


MOST_STATES = 2_000
"""Of one expression: about as many as it has characters, repetitions written out."""
MOST_REMEMBERED = 20_000
"""Steps from a set of states to the next that are remembered, of one expression."""
_parser: Any = re._parser  # type: ignore[attr-defined]
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_ALPHABETS = int(re.ASCII | re.UNICODE)
_OF_CHARACTERS = int(re.IGNORECASE) | _ALPHABETS
"""Flags that say which characters are meant."""
_REFUSED = {
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a reference to a group",
    "GROUPREF_IGNORE": "a reference to a group",
    "ASSERT": "a look ahead or behind",
    "ASSERT_NOT": "a look ahead or behind",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}


class Pattern:
    """A regular expression, looked for in URLs.

    Raises:
        ConfigurationError: *text* is none, or cannot be followed in linear time.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._moves: list[list[tuple[Test, int]]] = []
        self._free: list[list[int]] = []
        """Where to from a state without a character."""
        self._at_begin: list[list[int]] = []
        """The same, where the text begins."""
        self._at_end: list[list[int]] = []
        try:
            re.compile(text)
            parsed = _parser.parse(text)
            self._final = self._build(parsed, self._state(), parsed.state.flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigurationError(
                f"{text[:200]!r} is not a regular expression: {error}"
            ) from None
        self._again = self._closed([0], self._free)
        self._first = self._again | self._closed([0], self._free, self._at_begin)
        self._next: dict[frozenset[int], dict[str, frozenset[int]]] = {}
        self._remembered = 0

    @property
    def states(self) -> int:
        """How many states it has: what a character may take."""
        return len(self._moves)

    def found(self, text: str) -> bool:
        """Whether *text*, which has no line feed, matches anywhere."""
        now = self._first
        for character in text:
            if self._final in now:
                return True
            known = self._next.get(now)
            after = None if known is None else known.get(character)
            now = self._step(now, character) if after is None else after
        ends = self._closed(now, self._free, self._at_end)
        if not text:
            ends |= self._closed(now, self._free, self._at_end, self._at_begin)
        return self._final in ends

    def _step(self, now: frozenset[int], character: str) -> frozenset[int]:
        reached = [
            target
            for state in now
            for test, target in self._moves[state]
            if test(character)
        ]
        after = self._again | self._closed(reached, self._free)
        if self._remembered >= MOST_REMEMBERED:
            self._next, self._remembered = {}, 0
        self._remembered += 1
        self._next.setdefault(now, {})[character] = after
        return after

    def _closed(self, states: Iterable[int], *edges: list[list[int]]) -> frozenset[int]:
        """*states*, and those that are reached from them by *edges*."""
        found, left = set[int](), list(states)
        while left:
            state = left.pop()
            if state not in found:
                found.add(state)
                left += [target for some in edges for target in some[state]]
        return frozenset(found)

    # An expression becomes states.

    def _state(self) -> int:
        if len(self._moves) >= MOST_STATES:
            raise ConfigurationError(
                f"{self._text[:200]!r} is too large: written out it has more than "
                f"{MOST_STATES:,} parts"
            )
        for edges in (self._moves, self._free, self._at_begin, self._at_end):
            edges.append([])
        return len(self._moves) - 1

    def _build(self, parsed: Any, at: int, flags: int) -> int:
        """Add states for *parsed* behind *at*; return the one behind them."""
        for operation, value in parsed:
            at = self._add(str(operation), value, at, flags)
        return at

    def _add(self, name: str, value: Any, at: int, flags: int) -> int:
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            least, most, body = value
            return self._repeat(body, (least, most), at, flags)
        if name == "SUBPATTERN":
            _, more, less, body = value
            if more & _ALPHABETS:
                flags &= ~_ALPHABETS
            return self._build(body, at, (flags | more) & ~less)
        after = self._state()
        if name == "BRANCH":
            for branch in value[1]:
                self._free[self._build(branch, at, flags)].append(after)
        elif name == "AT":
            self._edges_at(str(value))[at].append(after)
        else:
            one = _character(name, value, self._text)
            # Python's own says it of one character, so that it is what `re` means.
            test = re.compile(one, flags & _OF_CHARACTERS).fullmatch
            self._moves[at].append((test, after))
        return after

    def _edges_at(self, place: str) -> list[list[int]]:
        if place in {"AT_BEGINNING", "AT_BEGINNING_STRING"}:
            return self._at_begin
        if place in {"AT_END", "AT_END_STRING"}:
            return self._at_end
        raise _refusal(self._text, "a word boundary")

    def _repeat(self, body: Any, times: tuple[int, Any], at: int, flags: int) -> int:
        least, most = times
        for _ in range(least):
            at = self._build(body, at, flags)
        if most == _parser.MAXREPEAT:
            begin = self._state()
            self._free[at].append(begin)
            self._free[self._build(body, begin, flags)].append(begin)
            return begin
        after = self._state()
        for _ in range(most - least):
            self._free[at].append(after)
            at = self._build(body, at, flags)
        self._free[at].append(after)
        return after


def _character(name: str, value: Any, text: str) -> str:
    """An expression for the one character that *value* stands for.

    Raises:
        ConfigurationError: It stands for no character.
    """
    if name == "ANY":
        return "(?s:.)"
    if name == "LITERAL":
        return re.escape(chr(value))
    if name == "NOT_LITERAL":
        return f"[^{re.escape(chr(value))}]"
    if name != "IN":
        raise _refusal(text, _REFUSED.get(name, name))
    return f"[{''.join(_member(str(kind), what) for kind, what in value)}]"


def _member(kind: str, what: Any) -> str:
    """What stands for *what* in the brackets of a class."""
    if kind == "NEGATE":
        return "^"
    if kind == "RANGE":
        return "-".join(re.escape(chr(end)) for end in what)
    return _CATEGORIES[str(what)] if kind == "CATEGORY" else re.escape(chr(what))


def _refusal(text: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:200]!r} has {what}, which cannot be looked for in linear time"
    )
