"""Finds the damaged key: one with a value that nobody here writes.

Redis answers a command on such a value with an error that names neither the key nor
the value. So whoever gets the error asks for the types of the call's keys, and what is
known about each key says which of them is wrong.

What always holds:

1.  Only errors that the value of a key can cause count as damage: those of a server
    that is full, read only or closed to us do not.
2.  Nothing here changes a key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from frontier.errors import KeyDamaged
from frontier.store.calls import Call
from frontier.store.keys import kind_of

_SIGNS = re.compile(
    r"WRONGTYPE|wrong kind of value|not an integer|not a valid float|would overflow"
    r"|BADKEY |attempt to (?:perform|compare|index|concatenate)|too many results"
    r"|[Ii]nvalid argument to|bad argument #|value is out of range"
)
"""What errors say that a damaged value leads to. The third line is Lua's own."""
_TYPE_SIGNS = re.compile(r"WRONGTYPE|wrong kind of value")
_TOLD = re.compile(r"BADKEY (\d+) ([^\r\n]{1,200})")
"""What a script says that has checked a value itself; see `queue_reserve.lua`."""
_CODES = re.compile(r"^(?:ERR )?|(?:,? ?script: .*|,? on @user_script.*)$", re.DOTALL)

DIGITS = 15
"""The most digits of any number in the store: Lua's are exact up to 2^53."""


def is_damage(text: str) -> bool:
    """Whether a server that answers *text* complains about a value."""
    return _SIGNS.search(text) is not None


def keys_of(call: Call) -> list[str]:
    """The keys that *call* names."""
    if call.script is None:
        return [_text(call.key)] if call.key is not None else []
    parts = call.parts
    return [_text(key) for key in parts[3 : 3 + int(parts[2])]]


def type_calls(call: Call) -> list[Call]:
    """The calls whose replies `damaged` takes for *types*."""
    return [Call.command("TYPE", key) for key in keys_of(call)]


def damaged(where: str, call: Call, text: str, types: Sequence[object]) -> KeyDamaged:
    """The error that says which key of *call* is damaged, and how.

    *text* is the server's error, *types* are the keys' types as the server gives them.
    """
    names = keys_of(call)
    told = _TOLD.search(text)
    if told and 0 < int(told[1]) <= len(names):
        return KeyDamaged(where, names[int(told[1]) - 1], told[2])
    if _TYPE_SIGNS.search(text):
        for name, kind in zip(names, types, strict=False):
            if fault := wrong_type(name, kind):
                return KeyDamaged(where, name, fault)
    said = _CODES.sub("", text).strip() or text
    counts = (name for name in names if name.endswith((":counts", ":spent")))
    guilty = next(counts, "") if "hash value" in text else ""  # most HINCRBYs' key
    return KeyDamaged(where, guilty or (names[0] if names else ""), said[:200])


def wrong_type(name: str, kind: object) -> str:
    """What is wrong with the key *name* being a *kind*; empty if nothing is."""
    found, wanted = _text(kind), kind_of(name).type
    if not wanted or found in {wanted, "none"}:
        return ""
    return f"it is a {found}, and has to be a {wanted}"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def is_number(value: bytes) -> bool:
    """Whether *value* is a number as scripts write them: digits, and not too many."""
    return 0 < len(value) <= DIGITS and value.isdigit()


def number_in(value: bytes) -> int:
    """The number in *value*; 0 if it is not a number."""
    return int(value) if is_number(value) else 0
