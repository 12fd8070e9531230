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
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from frontier.errors import KeyDamaged
from frontier.store.calls import Call

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
_TAGGED = re.compile(r"\{([^}]*)\}:([a-z_]+)(?::.*)?", re.DOTALL)

DIGITS = 15
"""The most digits of any number in the store: Lua's are exact up to 2^53."""
HASH, LIST, SET, ZSET, STRING = "hash", "list", "set", "zset", "string"


class Kind(NamedTuple):
    """What a key has to be, and what its loss costs; empty if nothing."""

    type: str
    cost: str = ""


OF_A_PARTITION: Mapping[str, Kind] = {
    "lease": Kind(HASH),
    "counts": Kind(HASH),
    "queues": Kind(ZSET),
    "ready": Kind(LIST, "its URLs are lost"),
    "due": Kind(ZSET),
    "waiting": Kind(LIST, "its URLs are lost"),
    "reserved": Kind(HASH, "what was under way is lost, but for what nodes still had"),
    "started": Kind(SET),
    "hosts": Kind(HASH, "hosts may be asked at once, and their quotas start at 0"),
    "dead": Kind(LIST, "its dead letters are lost"),
    "seen": Kind(HASH),
    "claimed": Kind(HASH, "requests of one process that wait for it may be made twice"),
    "forced": Kind(SET, "pages that are delivered again queue what they force twice"),
    "groups": Kind(HASH, "limits of groups of URLs count from 0"),
    "items": Kind(HASH, "items that were there may be there twice"),
    "bloom": Kind(STRING, "its URLs are new again, and may be fetched twice"),
    "set": Kind(SET, "its URLs are new again, and may be fetched twice"),
}
"""What each key of a partition has to be, by what follows its tag."""
OF_A_CRAWL: Mapping[str, Kind] = {
    "meta": Kind(HASH),
    "nodes": Kind(HASH),
    "epoch": Kind(STRING),
    "membership": Kind(LIST, "who joined, left and died is not known any more"),
    "reports": Kind(HASH, "the counts of its nodes start at 0"),
    "seed_lists": Kind(HASH, "seeds are tested again"),
    "seeding": Kind(ZSET),
    "start": Kind(STRING),
    "hints": Kind(LIST),
    "order": Kind(STRING),
    "spent": Kind(HASH, "limits of the crawl count from 0"),
    "allowances": Kind(HASH),
    "controls": Kind(HASH, "its exclusions and changed settings are lost"),
    "control_log": Kind(LIST, "what operators did to it is not known any more"),
    "cookies": Kind(ZSET, "cookies are lost"),
    "jar": Kind(HASH, "cookies are lost"),
    "sites": Kind(ZSET),
    "site": Kind(HASH, "all items of its feeds are new again"),
    "claimed": Kind(HASH, "pages of several of its feeds may be fetched twice"),
    "failed": Kind(HASH, "pages of its items that failed are not asked for again"),
    "sitemaps": Kind(HASH, "what its sitemaps named is new again"),
    "imported": Kind(SET),
    "former": Kind(HASH),
    "ended": Kind(HASH),
}
"""The same of a crawl."""


OF_A_COLLECTION: Mapping[str, str] = {
    "alldupes": HASH,
    "uncommittedcrawls": SET,
    "allcrawls": SET,
    "canceledcrawls": SET,
    "allcounts": HASH,
    "src:q": LIST,
    "src:qset": SET,
    "src:d": SET,
    "src:at": HASH,
    "last_update_ts": STRING,
    "frontier:minted": SET,
    "frontier:owners": HASH,
    "frontier:urls": HASH,
    "frontier:history": HASH,
    "frontier:committer": STRING,
}
"""The type of each key of a collection, by what follows its name if it has one."""
_NAMED = (
    (re.compile(r"(?:.*:)?c:.*:wacz", re.DOTALL), LIST),
    (re.compile(r"(?:.*:)?(?:h|commit|rounds|rev):.*", re.DOTALL), HASH),
    (re.compile(r".*:spider:.*", re.DOTALL), HASH),
    (re.compile(r"[^:]*:crawls"), SET),
    (re.compile(r"[^:]*:store"), STRING),
)
"""The types of keys with a part of a crawl in their names, and of the namespace's."""


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


def kind_of(name: str) -> Kind:
    """What the key *name* has to be; of no type if that is not known."""
    found = _TAGGED.fullmatch(name)
    if found is None or found[1].startswith("collection:"):
        return Kind(_outliving(name))
    is_partition = found[1].rpartition(":")[2].isdecimal() and found[1].count(":") > 1
    known = OF_A_PARTITION if is_partition else OF_A_CRAWL
    return known.get(found[2], Kind(""))


def _outliving(name: str) -> str:
    """The type of a key that outlives a crawl; empty if it is not known."""
    for known, kind in OF_A_COLLECTION.items():
        if name == known or name.endswith(f":{known}"):
            return kind
    matching = (kind for pattern, kind in _NAMED if pattern.fullmatch(name))
    return next(matching, "")


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def is_number(value: bytes) -> bool:
    """Whether *value* is a number as scripts write them: digits, and not too many."""
    return 0 < len(value) <= DIGITS and value.isdigit()


def number_in(value: bytes) -> int:
    """The number in *value*; 0 if it is not a number."""
    return int(value) if is_number(value) else 0
