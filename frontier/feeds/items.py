"""Which items of a feed are new: what is remembered of it from round to round.

What always holds:

1.  An item is known by its guid and its link together (without either: by what it
    embeds, or else its title), and not by its place or its date. So one that is dated
    in the future holds up nothing, one without a date is found, and so are a late one
    with an old date and the second of two in one second. Links are compared as the
    caller compares URLs.
2.  Where not one item is known so, and at least `ALL` have the title and either the
    guid or the link of one that was in the feed before, the server makes the other
    anew at each request: these items are known.
3.  An item that is known and has other dates than before is new again: it was updated.
    Where all items that are known have other dates, the dates are those of the feed's
    clock, and say nothing.
4.  In the first round, or if the memory is damaged, all items are new. What is lost of
    a memory costs fetches and never an item.
5.  The memory is bytes, at most `MOST` items of `SIZE` bytes (or as many as asked), and
    at most twice as many as the feed lately had (but `LEAST`). What is in the feed
    stays in it; what has left it longest ago goes first. Two more entries are of each
    item that the feed had last, and has a guid and a link.

Two items of a feed have the same 64 bits with a chance below 10^-11, and only then is
one of them lost.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from frontier.feeds.parse import Item

logger = logging.getLogger(__name__)

MOST = 10_000
"""Items that are remembered of one feed."""
LEAST = 100
"""Those of a small feed: some servers show now this part of their items, now that."""
FORGETTING = 8
"""One of so many is forgotten in a round at most, and none by an empty feed: a server
that shows less for once does not have a small feed."""
ALL = 3
"""Known items, at least, that all have other dates if a clock has made them, or all
other guids or links if each request has."""
FORMAT = b"\x02"
"""First byte of a memory."""
_IDENTITY, _VERSION = 8, 4
_HALF = 0x80
"""In the first byte of an entry that is of an item's guid, or of its link, alone."""
SIZE = _IDENTITY + _VERSION


@dataclass(frozen=True, slots=True)
class NewItems:
    """What a round has found in a feed."""

    new: tuple[Item, ...]
    """In the feed's order, each once; its dates and embeds are those of all that the
    feed has of it."""
    state: bytes
    """For the next round."""
    updated: tuple[Item, ...] = ()
    """Those of the new ones that were known, and have other dates than before."""
    newest: datetime | None = None
    """The latest date that is not in the future; for people, nothing depends on it."""
    redated: int = 0
    """Known items with other dates that do not count: the feed's clock made them."""
    renamed: str = ""
    """What of the items each request makes anew: ``guids``, ``links`` or nothing."""


def new_items(
    items: Iterable[Item],
    state: object,
    now: datetime,
    most: int = MOST,
    link_of: Callable[[str], str | bytes] = str,
) -> NewItems:
    """What of *items* is new, given the *state* of the round before.

    So many as *most* are remembered. Two links are one if *link_of* says the same.

    *state* is ``None`` in the first round, and else what `NewItems.state` was; it is
    read as something that anybody may have written. *now* is aware.
    """
    known, halves = _read(state, most)
    present = _told_apart(items, link_of)
    versions = {identity: _version(item) for identity, item in present.items()}
    names = _halves(present, link_of)
    before, renamed = {one: known[one] for one in present if one in known}, ""
    if not before:
        before, renamed = _renamed(names, halves)
    unknown = [identity for identity in present if identity not in before]
    changed = [one for one, version in before.items() if versions[one] != version]
    is_clock = len(changed) >= ALL and len(changed) + len(unknown) == len(present)
    fresh = {*unknown, *(() if is_clock else changed)}
    past = [date for item in present.values() for date in item.dates if date <= now]
    lasting = halves
    if present:
        lasting = {
            half: versions[identity]
            for named in names.values()
            for half, identity in named.items()
        }
    return NewItems(
        new=tuple(item for identity, item in present.items() if identity in fresh),
        state=_written(versions, known, most, lasting),
        updated=() if is_clock else tuple(present[one] for one in changed),
        newest=max(past, default=None),
        redated=len(changed) if is_clock else 0,
        renamed=renamed,
    )


def _halves(
    present: Mapping[bytes, Item], link_of: Callable[[str], str | bytes]
) -> dict[str, dict[bytes, bytes]]:
    """The items by their links alone, and by their guids; those that have both.

    What two items share names neither.
    """
    found: dict[str, dict[bytes, bytes]] = {"guids": {}, "links": {}}
    for made_anew, named in found.items():
        shared = set()
        for identity, item in present.items():
            if not item.guid or not item.link:
                continue
            kept = item.guid if made_anew == "links" else link_of(item.link)
            half = _digest([made_anew, kept, item.title], _IDENTITY)
            half = bytes((half[0] | _HALF,)) + half[1:]
            if named.setdefault(half, identity) != identity:
                shared.add(half)
        for half in shared:
            del named[half]
    return found


def _renamed(
    names: Mapping[str, Mapping[bytes, bytes]], halves: Mapping[bytes, bytes]
) -> tuple[dict[bytes, bytes], str]:
    """The items that were known by another guid or link, with the versions they had.

    And which of the two it is; none if they are too few.
    """
    for made_anew, named in names.items():
        before = {named[half]: halves[half] for half in named if half in halves}
        if len(before) >= ALL:
            return before, made_anew
    return {}, ""


def _told_apart(
    items: Iterable[Item], link_of: Callable[[str], str | bytes]
) -> dict[bytes, Item]:
    """Each item once, by its identity, in order."""
    found: dict[bytes, Item] = {}
    for item in items:
        identity = _identity(item, link_of)
        first = found.setdefault(identity, item)
        if first is not item:
            found[identity] = replace(
                first,
                dates=tuple(sorted({*first.dates, *item.dates})),
                embeds=tuple(dict.fromkeys((*first.embeds, *item.embeds))),
            )
    return found


def _identity(item: Item, link_of: Callable[[str], str | bytes]) -> bytes:
    names: list[str | bytes]
    if item.guid or item.link:
        names = ["named", item.guid or "", link_of(item.link) if item.link else ""]
    elif item.embeds:
        names = ["embeds", *item.embeds]
    else:
        names = ["title", item.title]
    made = _digest(names, _IDENTITY)
    return bytes((made[0] & ~_HALF,)) + made[1:]


def _version(item: Item) -> bytes:
    return _digest([date.isoformat() for date in item.dates], _VERSION)


def _digest(names: Sequence[str | bytes], size: int) -> bytes:
    """Of *names*, so that no two lists are written alike."""
    written = [
        name if isinstance(name, bytes) else name.encode("utf-8", "surrogatepass")
        for name in names
    ]
    head = ",".join(str(len(name)) for name in written)
    return blake2b(b"".join([head.encode(), b":", *written]), digest_size=size).digest()


def _read(state: object, most: int) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Identity to version, those that were in the feed last first; and the halves."""
    if state is None:
        return {}, {}
    known: dict[bytes, bytes] = {}
    halves: dict[bytes, bytes] = {}
    is_whole = (
        isinstance(state, bytes)
        and state[:1] == FORMAT
        and len(state) % SIZE == 1
        and len(state) <= 1 + 3 * most * SIZE
    )
    if is_whole and isinstance(state, bytes):
        for at in range(1, len(state), SIZE):
            entries = halves if state[at] & _HALF else known
            entries[state[at : at + _IDENTITY]] = state[at + _IDENTITY : at + SIZE]
        is_whole = len(known) + len(halves) == len(state) // SIZE
    if not is_whole or len(known) > most:
        logger.warning(
            "what is remembered of a feed's items is damaged; all of them are new"
        )
        return {}, {}
    return known, halves


def _written(
    present: Mapping[bytes, bytes],
    known: Mapping[bytes, bytes],
    most: int,
    halves: Mapping[bytes, bytes],
) -> bytes:
    slowly = len(known) - (len(known) // FORGETTING if present else 0)
    room = min(most, max(LEAST, 2 * len(present), slowly))
    both = {**present, **{one: known[one] for one in known if one not in present}}
    kept = [*list(both.items())[:room], *list(halves.items())[: 2 * most]]
    return FORMAT + b"".join(identity + version for identity, version in kept)
