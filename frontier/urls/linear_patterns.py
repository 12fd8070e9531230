r"""Regular expressions that take time in proportion to the length of a text, always.

Python's own try one way after the other, of which there may be a power of the text's
length, or worse. Here all ways are followed at once: an expression becomes an automaton
(Thompson's), whose sets of states are remembered as they come up.

What always holds:

1.  `Pattern.found` looks at each character once, and for a character it does no more
    than the automaton has states, of which there are at most `MOST_STATES`.
2.  What is remembered is bounded, and begun again when it is too much.
3.  It finds what `re.search` finds in a text without line feeds. What cannot be found
    so, as references to groups, looks ahead and word boundaries, is refused by name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Test = Callable[[str], bool]

MOST_STATES = 2_000
"""Of one expression: about as many as it has characters, repetitions written out."""
MOST_REMEMBERED = 20_000
"""Steps from a set of states to the next that are remembered, of one expression."""
_parser: Any = re._parser  # type: ignore[attr-defined]
_CATEGORIES: dict[str, Test] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}
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
            self._final = self._build(
                parsed, self._state(), bool(parsed.state.flags & re.IGNORECASE)
            )
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

    def _build(self, parsed: Any, at: int, either_case: bool) -> int:
        """Add states for *parsed* behind *at*; return the one behind them."""
        for operation, value in parsed:
            at = self._add(str(operation), value, at, either_case)
        return at

    def _add(self, name: str, value: Any, at: int, either_case: bool) -> int:
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            least, most, body = value
            return self._repeat(body, (least, most), at, either_case)
        if name == "SUBPATTERN":
            _, more, less, body = value
            either_case = (either_case or bool(more & re.IGNORECASE)) and not (
                less & re.IGNORECASE
            )
            return self._build(body, at, either_case)
        after = self._state()
        if name == "BRANCH":
            for branch in value[1]:
                self._free[self._build(branch, at, either_case)].append(after)
        elif name == "AT":
            self._edges_at(str(value))[at].append(after)
        else:
            test = _test_of(name, value, self._text)
            self._moves[at].append((_of_either(test) if either_case else test, after))
        return after

    def _edges_at(self, place: str) -> list[list[int]]:
        if place in {"AT_BEGINNING", "AT_BEGINNING_STRING"}:
            return self._at_begin
        if place in {"AT_END", "AT_END_STRING"}:
            return self._at_end
        raise _refusal(self._text, "a word boundary")

    def _repeat(
        self, body: Any, times: tuple[int, Any], at: int, either_case: bool
    ) -> int:
        least, most = times
        for _ in range(least):
            at = self._build(body, at, either_case)
        if most == _parser.MAXREPEAT:
            begin = self._state()
            self._free[at].append(begin)
            self._free[self._build(body, begin, either_case)].append(begin)
            return begin
        after = self._state()
        for _ in range(most - least):
            self._free[at].append(after)
            at = self._build(body, at, either_case)
        self._free[at].append(after)
        return after


def _test_of(name: str, value: Any, text: str) -> Test:
    """What tells whether a character is one that *value* stands for.

    Raises:
        ConfigurationError: It stands for no character.
    """
    if name in {"LITERAL", "NOT_LITERAL"}:
        wanted = chr(value)
        if name == "LITERAL":
            return lambda c: c == wanted
        return lambda c: c != wanted
    if name == "ANY":
        return lambda _: True
    if name == "IN":
        return _class_of(value, text)
    raise _refusal(text, _REFUSED.get(name, name))


def _class_of(members: Any, text: str) -> Test:
    tests: list[Test] = []
    is_negated = False
    for operation, value in members:
        name = str(operation)
        if name == "NEGATE":
            is_negated = True
        elif name == "RANGE":
            tests.append(lambda c, low=value[0], high=value[1]: low <= ord(c) <= high)  # type: ignore[misc]
        elif name == "CATEGORY":
            tests.append(_category(str(value)))
        else:
            tests.append(_test_of(name, value, text))
    return lambda c: any(test(c) for test in tests) is not is_negated


def _category(name: str) -> Test:
    if name in _CATEGORIES:
        return _CATEGORIES[name]
    positive = _CATEGORIES[name.replace("CATEGORY_NOT_", "CATEGORY_")]
    return lambda c: not positive(c)


def _of_either(test: Test) -> Test:
    return lambda c: test(c) or test(c.lower()) or test(c.upper())


def _refusal(text: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:200]!r} has {what}, which cannot be looked for in linear time"
    )
