"""Which items of a feed are new: what is remembered of it from round to round.

What always holds:

1.  An item is known by its guid and its link together (if it has neither: by what it
    embeds, or else its title), and not by its position or its date. So an item dated in
    the future holds up nothing, and an item is found even if it has no date, comes late
    with an old date, or has the same second as another. Links are compared as the
    caller compares URLs.
2.  If not one item is known that way, but at least `ALL` have the title and either the
    guid or the link of an item that was in the feed before, the server makes the other
    of the two anew at each request: these items count as known.
3.  A known item whose dates have changed is new again: it was updated. If the dates of
    all known items have changed, they come from the feed's clock, and say nothing.
4.  In the first round all items are new. Any loss of memory costs fetches, and never an
    item.
5.  The memory is bytes: `SIZE` per item, of at most twice as many items as the feed
    lately had (at least `LEAST`). Items in the feed stay in the memory; those that left
    the feed longest ago go first. There are two more entries for each item that the
    feed had last and that has both a guid and a link.

The chance that two items of a feed have the same 64 bits is below 10^-11, and only then
is one of them lost.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from frontier.feeds.parse import Item

    Memory = Mapping[bytes, bytes]

LEAST = 100
"""Items that are remembered even of a small feed: some servers show different parts of
their items in turn."""
FORGETTING = 8
"""At most one item in this many is forgotten in a round, and none for an empty feed: a
server that once shows fewer items does not have a small feed."""
ALL = 3
"""The least number of known items whose dates, if all have changed, a clock has made;
or whose guids or links, if all have changed, each request makes anew."""
_IDENTITY, _VERSION = 8, 4
_HALF = 0x80
"""Set in the first byte of an entry for an item's guid alone, or its link alone."""
SIZE = _IDENTITY + _VERSION


class NewItems(NamedTuple):
    """What a round has found in a feed."""

    new: Sequence[Item]
    """In the feed's order, each once, with the dates and embeds of all entries that the
    feed has for it."""
    state: bytes
    """For the next round."""
    updated: Sequence[Item]
    """Those of the new items that were known, and whose dates have changed."""
    redated: int
    """How many known items have new dates that only the feed's clock made."""
    renamed: str
    """What each request makes anew: ``guids``, ``links``, or empty for neither."""


def new_items(
    items: Iterable[Item],
    state: bytes | None,
    link_of: Callable[[str], str | bytes] = str,
) -> NewItems:
    """Which *items* are new, given the *state* of the round before; ``None`` at first.

    Two links are the same if *link_of* returns the same for both.
    """
    known, halves = _read(state or b"")
    present = _told_apart(items, link_of)
    versions = {
        one: _digest(_VERSION, *map(str, item.dates)) for one, item in present.items()
    }
    names = _halves(present, link_of)
    before, renamed = {one: known[one] for one in present if one in known}, ""
    for made_anew, named in () if before else names.items():
        found = {named[half]: halves[half] for half in named if half in halves}
        if len(found) >= ALL:
            before, renamed = found, made_anew
            break
    changed = {one: present[one] for one in before if versions[one] != before[one]}
    redated = 0
    if len(changed) >= max(ALL, len(before)):
        changed, redated = {}, len(changed)
    if present:
        halves = {
            half: versions[one]
            for named in names.values()
            for half, one in named.items()
        }
    return NewItems(
        new=[
            item for one, item in present.items() if one not in before or one in changed
        ],
        state=_written(versions, known, halves),
        updated=list(changed.values()),
        redated=redated,
        renamed=renamed,
    )


def _halves(
    present: Mapping[bytes, Item], link_of: Callable[[str], str | bytes]
) -> dict[str, dict[bytes, bytes]]:
    """The items that have both, by link alone and by guid alone.

    They are under what is made anew: ``guids`` has them by link. A link or guid that
    two items share is left out.
    """
    found = {}
    for made_anew in ("guids", "links"):
        named: dict[bytes, list[bytes]] = defaultdict(list)
        for identity, item in present.items():
            if item.guid and item.link:
                kept = item.guid if made_anew == "links" else link_of(item.link)
                half = _digest(_IDENTITY, made_anew, kept, item.title)
                named[bytes((half[0] | _HALF,)) + half[1:]].append(identity)
        found[made_anew] = {h: ones[0] for h, ones in named.items() if len(ones) == 1}
    return found


def _told_apart(
    items: Iterable[Item], link_of: Callable[[str], str | bytes]
) -> dict[bytes, Item]:
    """Each item once, by its identity, in order."""
    found: dict[bytes, Item] = {}
    for item in items:
        if item.guid or item.link:
            link = link_of(item.link) if item.link else ""
            made = _digest(_IDENTITY, "named", item.guid, link)
        else:
            made = _digest(_IDENTITY, "unnamed", *(item.embeds or (item.title,)))
        identity = bytes((made[0] & ~_HALF,)) + made[1:]
        first = found.setdefault(identity, item)
        if first is not item:
            dates = sorted({*first.dates, *item.dates})
            embeds = list(dict.fromkeys((*first.embeds, *item.embeds)))
            found[identity] = first._replace(dates=dates, embeds=embeds)
    return found


def _digest(size: int, *names: str | bytes) -> bytes:
    """Digest *names*, written in a form that no two lists share."""
    made = blake2b(digest_size=size)
    for name in names:
        written = name if isinstance(name, bytes) else name.encode(errors="replace")
        made.update(b"%d:%b" % (len(written), written))
    return made.digest()


def _read(state: bytes) -> tuple[dict[bytes, bytes], Memory]:
    """Versions by identity, with items of the last feed first; and by half."""
    both: tuple[dict[bytes, bytes], dict[bytes, bytes]] = ({}, {})
    for at in range(0, len(state), SIZE):
        entry = state[at : at + SIZE]
        both[entry[0] >= _HALF][entry[:_IDENTITY]] = entry[_IDENTITY:]
    return both


def _written(present: Memory, known: Memory, halves: Memory) -> bytes:
    slowly = len(known) - (len(known) // FORGETTING if present else 0)
    room = max(LEAST, 2 * len(present), slowly)
    gone = {one: known[one] for one in known if one not in present}
    kept = [*{**present, **gone}.items()][:room]
    return b"".join(one + version for one, version in [*kept, *halves.items()])
