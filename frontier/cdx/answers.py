"""What CDX servers answer to a query by URL, in the forms of those in use.

pywb and wabac answer ``output=json`` with a JSON object on each line, the Wayback
Machine, OpenWayback and OutbackCDX with one array of rows below a row of names.
Servers that know no ``output`` answer with lines of CDXJ or CDX. All are read, and
nothing in them is trusted: what is no capture is passed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest")
"""What the first columns of a CDX line are, be there 7, 9 or 11 of them."""
_OF_ELEVEN = 8
"""The column of the length, where there are 11."""


class Answer(NamedTuple):
    """A capture, as a server has it; each part as it is spelled there."""

    url: str
    timestamp: str
    mime: str
    digest: str
    length: str
    """Empty where the server does not tell it."""


def answers(data: bytes) -> Iterator[Answer]:
    """Yield the captures in *data*, the whole body of an answer.

    Raises:
        ValueError: It is in none of the forms.
    """
    text = data.decode("utf-8", "replace").strip()
    if text.startswith("["):
        yield from _rows(_json(text))
        return
    for line in text.splitlines():
        yield from _line(line)


def _line(line: str) -> Iterator[Answer]:
    at = line.find("{")
    if at >= 0 and (at == 0 or line[at - 1] == " "):
        facts = _json(line[at:])
        if not isinstance(facts, dict):
            raise ValueError("a line that is not a JSON object")
        head = line[:at].split()
        yield from _named({"timestamp": head[1], **facts} if len(head) > 1 else facts)
        return
    fields = line.split(" ")
    if len(fields) < len(COLUMNS):
        raise ValueError(f"a line that is neither CDXJ nor CDX: {line[:60]!r}")
    yield from _named(_by_place(fields))


def _by_place(fields: list[Any]) -> dict[str, Any]:
    """The facts of a line or row of 6, 7, 9 or 11 columns, or more."""
    facts = dict(zip(COLUMNS, fields, strict=False))
    if len(fields) >= 11:
        facts["length"] = fields[_OF_ELEVEN]
    elif len(fields) == len(COLUMNS) + 1:
        facts["length"] = fields[-1]
    return facts


def _rows(rows: Any) -> Iterator[Answer]:
    names: tuple[str, ...] = ()  # OutbackCDX gives none
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            yield from _named(row)
        elif isinstance(row, list) and number == 0 and "digest" in row:
            names = tuple(map(str, row))
        elif isinstance(row, list):
            named = dict(zip(names, row, strict=False))
            yield from _named(named if names else _by_place(row))
        else:
            raise ValueError("a row that is neither an array nor an object")


def _named(facts: dict[str, Any]) -> Iterator[Answer]:
    def of(*names: str) -> str:
        found = next((facts[n] for n in names if facts.get(n) is not None), "")
        return str(found)

    answer = Answer(
        of("url", "original"),
        of("timestamp"),
        of("mime", "mimetype"),
        of("digest"),
        of("length"),
    )
    if answer.url and answer.timestamp and answer.digest not in {"", "-"}:
        yield answer


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
