"""Which canonicalization rules a WARC file names.

Its warcinfo record has their name, version and digest, and the metadata record after
it the rules themselves. Only the records before the first capture are read.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from frontier.errors import BadWarc, RulesBroken
from frontier.urls.canon.rulesets import NAMED, of_json
from frontier.warc.reader import BLOCK, GZIP, Head, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from frontier.urls.canon.rulesets import RuleSet

FIELD = "canonicalization"
"""Of the warcinfo record."""
META = b"!meta 0 "
"""Begins the line in which an index says its rules; it sorts before all others."""
SHOWN = 12
"""Digits of a digest that tell rules apart, for people."""
_VALUE = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]{0,99}); version=([0-9]{1,6}); sha256=([0-9a-f]{64})"
)
_BEFORE = frozenset({"warcinfo", "metadata"})
"""Kinds of record that may come before the first capture."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a file says of the rules it was made under."""

    file: str
    name: str = ""
    """Empty if it says nothing."""
    version: int = 0
    digest: str = ""
    text: str = ""
    """The rules as JSON, if they are there and have that digest."""

    @property
    def label(self) -> str:
        """The rules, for people."""
        return f"{self.name} ({self.digest[:SHOWN]})" if self.name else "no rules"

    def rules(self) -> RuleSet:
        """The rules themselves.

        Raises:
            RulesBroken: They are not in the file, or cannot be.
        """
        if self.text:
            return of_json(self.text, self.file)
        ours = NAMED.get(self.name)
        if ours is not None and ours.digest == self.digest:
            return ours
        raise RulesBroken(self.file, 0, f"names {self.label}, and does not have them")


def stated(name: str, value: object) -> Declared | None:
    """What *value*, a `RuleSet.statement` in the file *name*, says; else ``None``."""
    found = _VALUE.fullmatch(value) if isinstance(value, str) else None
    return found and Declared(name, found[1], int(found[2]), found[3])


def meta_line(rules: RuleSet) -> bytes:
    """The line in which an index says that its keys are by *rules*."""
    return META + json.dumps({FIELD: rules.statement}).encode()


def stated_by(line: bytes) -> Declared | None:
    """The rules that *line*, which begins with `META`, says an index is by."""
    try:
        facts = json.loads(line.removeprefix(META))
    except (ValueError, RecursionError):
        return None
    return stated("the index", facts.get(FIELD)) if isinstance(facts, dict) else None


def declared(name: str, blocks: Iterable[bytes]) -> Declared:
    """What the WARC file *name*, given its bytes in order, says of its rules.

    Raises:
        BadWarc: It is cut off before its first capture, or is none.
    """
    said = Declared(name)
    for kind, block in _head(name, iter(blocks)):
        if kind == "warcinfo":
            value = Head(b"\r\n" + block).get(FIELD)
            said = stated(name, value) or said
        elif kind == "metadata":
            if said.digest and hashlib.sha256(block).hexdigest() == said.digest:
                text = block.decode("utf-8", "replace")
                return Declared(name, said.name, said.version, said.digest, text)
        else:
            break
    return said


def declared_in(name: str, stream: IO[bytes]) -> Declared:
    """`declared` of what *stream* has left.

    Raises:
        BadWarc: It is cut off before its first capture, or is none.
        OSError: It cannot be read.
    """
    return declared(name, iter(lambda: stream.read(BLOCK), b""))


def _head(name: str, blocks: Iterator[bytes]) -> Iterator[tuple[str, bytes]]:
    """Kind and block of the first records."""
    first = next(blocks, b"")
    if first.startswith(GZIP):
        for found in records(name, chain([first], blocks), _BEFORE):
            yield found.kind, found.block
    elif first.startswith(b"WARC/"):
        yield from _plain(first)
    else:
        raise BadWarc(name, 0, "no WARC file")


def _plain(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The same of a file that is not compressed, of its first bytes."""
    while data:
        top, _, data = data.partition(b"\r\n\r\n")
        headers = Head(top)
        said = headers.get("content-length", "")
        if not (said.isascii() and said.isdigit() and len(said) < len(str(BLOCK))):
            return
        yield headers.get("warc-type", ""), data[: int(said)]
        data = data[int(said) :].removeprefix(b"\r\n\r\n")
