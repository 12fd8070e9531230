"""The ring as a picture: a cell for each partition, in its holder's colour.

What always holds:

1.  Colour is not the only sign: cells of nodes that do not answer are pale with an
    edge, cells that nobody holds are empty, a node that is chosen is shown alone, and a
    table says the same.
2.  There are at most `MOST_CELLS` cells. If there are more partitions, each cell stands
    for several, and has the colour of the node that holds most of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from frontier.model import frozen
from frontier.status.text import first_of, ranges_of

COLOURS = 24
"""Colours of the style sheet; if there are more nodes, they share them."""
MOST_CELLS = 2048
MOST_RANGES = 40
OUTER, INNER = 198.0, 104.0
"""Radii in a picture that is 400 wide."""
NOBODY = -1
"""Stands for the node of a cell that nobody holds."""


@frozen
class Cell:
    """The place of some partitions in the picture."""

    first: int
    last: int
    path: str
    """As the ``d`` of an SVG path."""


@lru_cache(maxsize=8)
def cells(partitions: int) -> tuple[Cell, ...]:
    """The cells of a ring of *partitions*, clockwise from the top, from the outside."""
    each = math.ceil(partitions / MOST_CELLS)
    count = math.ceil(partitions / each)
    tracks = _tracks(count)
    spokes = math.ceil(count / tracks)
    made = []
    for number in range(count):
        spoke, track = divmod(number, tracks)
        high = OUTER - (OUTER - INNER) * track / tracks
        low = OUTER - (OUTER - INNER) * (track + 1) / tracks
        path = _sector(low, high, spoke / spokes, (spoke + 1) / spokes)
        first = number * each
        made.append(Cell(first, min(first + each, partitions) - 1, path))
    return tuple(made)


def _tracks(count: int) -> int:
    """How many rings of cells there are, so that a cell is about as wide as high."""
    ideal = math.sqrt(count * (OUTER - INNER) / (math.pi * (OUTER + INNER)))
    whole = [n for n in range(1, math.isqrt(count) + 1) if count % n == 0]
    near = min(whole, key=lambda n: abs(math.log(n / ideal)))
    return near if 0.6 < near / ideal < 1.7 else max(1, round(ideal))


def _sector(low: float, high: float, begin: float, end: float) -> str:
    """A piece of a ring between two radii and two parts of a turn."""
    if end - begin >= 1:  # an arc that ends where it begins is not drawn
        end = begin + 0.9999
    (x1, y1), (x2, y2) = _at(high, begin), _at(high, end)
    (x3, y3), (x4, y4) = _at(low, end), _at(low, begin)
    large = int(end - begin > 0.5)
    return (
        f"M{x1:.1f} {y1:.1f}A{high:.1f} {high:.1f} 0 {large} 1 {x2:.1f} {y2:.1f}"
        f"L{x3:.1f} {y3:.1f}A{low:.1f} {low:.1f} 0 {large} 0 {x4:.1f} {y4:.1f}Z"
    )


def _at(radius: float, turn: float) -> tuple[float, float]:
    angle = 2 * math.pi * turn
    return 200 + radius * math.sin(angle), 200 - radius * math.cos(angle)


def held_by(
    holders: Sequence[str], numbers: Mapping[str, int], partitions: int
) -> list[int]:
    """The number of the node of each cell, or `NOBODY`."""
    known = [numbers.get(holder, NOBODY) for holder in holders]
    found = []
    for cell in cells(partitions):
        some = known[cell.first : cell.last + 1]
        found.append(Counter(some).most_common(1)[0][0] if some else NOBODY)
    return found


def ranges(numbers: Iterable[int]) -> str:
    """*numbers*, which are in order, as ``0-41, 77``; the first `MOST_RANGES`."""
    return first_of(ranges_of(numbers), MOST_RANGES)
