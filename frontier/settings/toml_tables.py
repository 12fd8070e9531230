"""TOML files that people write: tables of one kind, and the line of each fault.

Sites and their feeds, schedules of recrawls and rules of canonicalization are in such
files: ``[[site]]`` or ``[[rule]]``, many times, and perhaps a few keys above.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from frontier.errors import InputBroken
from frontier.files import read_input
from frontier.settings.values import nearest

MAX_LINE = 4_000
"""Characters of a line: reading a key of many parts takes time as their square."""


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of the file *path*, at most *most*.

    Raises:
        InputBroken: It cannot be read, or is longer.
    """
    try:
        return read_input(path, most)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputBroken(str(path), f"cannot be read: {reason}") from None


class TomlTables:
    """The content *data* of the file *where*: tables *name*, and no more than *most*.

    The keys *top* may stand above them. Tables are counted from 0.

    Raises:
        InputBroken: It is not TOML, or has another key, or too many tables.
    """

    def __init__(
        self,
        where: str,
        data: bytes,
        name: str,
        most: int,
        *,
        top: Iterable[str] = (),
        longest_line: int = MAX_LINE,
    ) -> None:
        self._where = where
        self._lines: list[str] = []
        self._begins: list[int] = []
        self.given = self._parsed(data, longest_line)
        """All that the file says."""
        header = re.compile(rf"""\s*\[\[\s*["']?{name}["']?\s*\]\]""")
        self._begins = [at for at, line in enumerate(self._lines) if header.match(line)]
        self.require_known(None, self.given, (*top, name), "a file")
        tables = self.given.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            self.fail(None, name, f"write each {name} as [[{name}]]")
        if len(tables) > most:
            self.fail(None, "", f"has more than {most:,} {name}s")
        self.tables: list[dict[str, Any]] = tables

    def _parsed(self, data: bytes, longest_line: int) -> dict[str, Any]:
        try:
            text = data.decode("utf-8-sig")
            self._lines = text.split("\n")
            for number, line in enumerate(self._lines, 1):
                if len(line) > longest_line:
                    reason = f"has a line of more than {longest_line:,} characters"
                    raise InputBroken(self._where, reason, number)
            return tomllib.loads(text)
        except UnicodeDecodeError as error:
            number = data[: error.start].count(b"\n") + 1
            raise InputBroken(self._where, "is not UTF-8", number) from None
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            number = int(found[1]) if found else data.count(b"\n") + 1
            raise InputBroken(self._where, f"is not TOML: {error}", number) from None
        except (ValueError, RecursionError) as error:  # a huge number, a deep array
            reason = f"is not TOML: {str(error)[:200]}"
            raise InputBroken(self._where, reason) from None

    def require_known(
        self,
        number: int | None,
        given: Mapping[str, Any],
        known: Iterable[str],
        of: str,
    ) -> None:
        """Refuse keys *given* in table *number* that are not *known*; *of* is its kind.

        Raises:
            InputBroken: It has another key.
        """
        names = list(known)
        for key in given:
            if key not in names:
                near = nearest(key, names)
                hint = (
                    f"; did you mean {near!r}?"
                    if near
                    else f": it has {', '.join(names)}"
                )
                self.fail(number, key, f"{of} has no {key[:100]!r}{hint}")

    @contextmanager
    def at(self, number: int | None, key: str, prefix: str = "") -> Iterator[None]:
        """Turn a `ValueError` raised in here into a fault of the line that has *key*.

        Raises:
            InputBroken: A `ValueError` was raised.
        """
        try:
            yield
        except ValueError as error:
            self.fail(number, key, f"{prefix}{error}")

    def fail(self, number: int | None, key: str, reason: str) -> NoReturn:
        """Raise an `InputBroken` of *reason* about *key* in the table *number*."""
        raise InputBroken(self._where, reason, self.line(number, key))

    def line(self, number: int | None, key: str) -> int:
        """Where *key* stands in the table *number*, as a key or as a value.

        Counted from 1. If it is not found, the line of the table; 0 if there is none.
        """
        begin, end = 0, len(self._lines)
        if number is not None:
            if number >= len(self._begins):  # written in another form
                return 0
            begin, end = (*self._begins, end)[number : number + 2]
        as_key = re.compile(rf"""(^|[\s,{{\["'])({re.escape(key)})["']?\s*[\]=.]""")
        for at in range(begin, end) if key else ():
            if as_key.search(self._lines[at].partition("#")[0]):
                return at + 1
        for at in range(begin, end) if len(key) > 5 else ():
            if key in self._lines[at]:
                return at + 1
        return 0 if number is None else begin + 1
