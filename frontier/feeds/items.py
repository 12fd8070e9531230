"""Which items of a feed are new: what is remembered of it from round to round.

What always holds:

1.  An item is known by its guid and its link together (without either: by what it
    embeds, or else its title), and not by its place or its date. So one that is dated
    in the future holds up nothing, one without a date is found, and so are a late one
    with an old date and the second of two in one second.
2.  An item that is known and has other dates than before is new again: it was updated.
    Where all items that are known have other dates, the dates are those of the feed's
    clock, and say nothing.
3.  In the first round, or if the memory is damaged, all items are new. What is lost of
    a memory costs fetches and never an item.
4.  The memory is bytes, at most `MOST` items of `SIZE` bytes (or as many as asked), and
    at most twice as many as the feed lately had (but `LEAST`). What is in the feed
    stays in it; what has left it longest ago goes first.

Two items of a feed have the same 64 bits with a chance below 10^-11, and only then is
one of them lost.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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
CLOCK = 3
"""Known items, at least, that all have other dates if a clock has made them."""
FORMAT = b"\x01"
"""First byte of a memory."""
_IDENTITY, _VERSION = 8, 4
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


def new_items(
    items: Iterable[Item], state: object, now: datetime, most: int = MOST
) -> NewItems:
    """What of *items* is new, given the *state* of the round before.

    So many as *most* are remembered.

    *state* is ``None`` in the first round, and else what `NewItems.state` was; it is
    read as something that anybody may have written. *now* is aware.
    """
    known = _read(state, most)
    present = _told_apart(items)
    versions = {identity: _version(item) for identity, item in present.items()}
    unknown = [identity for identity in present if identity not in known]
    changed = [
        identity
        for identity, version in versions.items()
        if known.get(identity, version) != version
    ]
    is_clock = len(changed) >= CLOCK and len(changed) + len(unknown) == len(present)
    fresh = {*unknown, *(() if is_clock else changed)}
    past = [date for item in present.values() for date in item.dates if date <= now]
    return NewItems(
        new=tuple(item for identity, item in present.items() if identity in fresh),
        state=_written(versions, known, most),
        updated=() if is_clock else tuple(present[one] for one in changed),
        newest=max(past, default=None),
        redated=len(changed) if is_clock else 0,
    )


def _told_apart(items: Iterable[Item]) -> dict[bytes, Item]:
    """Each item once, by its identity, in order."""
    found: dict[bytes, Item] = {}
    for item in items:
        identity = _identity(item)
        first = found.setdefault(identity, item)
        if first is not item:
            found[identity] = replace(
                first,
                dates=tuple(sorted({*first.dates, *item.dates})),
                embeds=tuple(dict.fromkeys((*first.embeds, *item.embeds))),
            )
    return found


def _identity(item: Item) -> bytes:
    if item.guid or item.link:
        names = ["named", item.guid or "", item.link or ""]
    elif item.embeds:
        names = ["embeds", *item.embeds]
    else:
        names = ["title", item.title]
    return _digest(names, _IDENTITY)


def _version(item: Item) -> bytes:
    return _digest([date.isoformat() for date in item.dates], _VERSION)


def _digest(names: list[str], size: int) -> bytes:
    """Of *names*, so that no two lists are written alike."""
    written = [name.encode("utf-8", "surrogatepass") for name in names]
    head = ",".join(str(len(name)) for name in written)
    return blake2b(b"".join([head.encode(), b":", *written]), digest_size=size).digest()


def _read(state: object, most: int) -> dict[bytes, bytes]:
    """Identity to version, those that were in the feed last first."""
    if state is None:
        return {}
    if (
        not isinstance(state, bytes)
        or state[:1] != FORMAT
        or len(state) % SIZE != 1
        or len(state) > 1 + most * SIZE
    ):
        logger.warning(
            "what is remembered of a feed's items is damaged; all of them are new"
        )
        return {}
    return {
        state[at : at + _IDENTITY]: state[at + _IDENTITY : at + SIZE]
        for at in range(1, len(state), SIZE)
    }


def _written(
    present: Mapping[bytes, bytes], known: Mapping[bytes, bytes], most: int
) -> bytes:
    slowly = len(known) - (len(known) // FORGETTING if present else 0)
    room = min(most, max(LEAST, 2 * len(present), slowly))
    both = {**present, **{one: known[one] for one in known if one not in present}}
    kept = list(both.items())[:room]
    return FORMAT + b"".join(identity + version for identity, version in kept)
