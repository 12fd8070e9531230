"""Crawler traps: URLs that a site makes without end.

Two shapes are recognized. A path that repeats itself, as relative links on an
error page make it (Heritrix's PathologicalPathDecideRule), and a page that is
there for every value of its parameters, as calendars and sorted lists are.
"""

from __future__ import annotations

from urllib.parse import urlsplit

PATH, QUERY = "path", "query"
MAX_SEGMENTS = 200
"""Of a path; a longer one is a trap where repetition is looked for."""
MAX_SHAPES = 100_000
"""Counted at a time; then those that were not met since half of them are left out."""


class Traps:
    """Tells traps by their form, and counts what a node has handed on.

    *repeats* is how often a part of a path may come in a row, *urls* how many
    URLs of one host, path and set of parameter names there may be; 0 is no limit.
    """

    def __init__(self, repeats: int, urls: int) -> None:
        self._repeats = repeats
        self._urls = urls
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._repeats or self._urls)

    def catches(self, url: str) -> str | None:
        """Which trap *url* is in, if any; if none, it is counted."""
        try:
            parts = urlsplit(url)
        except ValueError:  # no URL; whoever fetches it will say so
            return None
        if self._repeats and repeats(parts.path) > self._repeats:
            return PATH
        if self._urls and parts.query:
            names = sorted({p.partition("=")[0] for p in parts.query.split("&")})
            shape = f"{parts.netloc}{parts.path}?{'&'.join(names)}"
            count = self._young.get(shape) or self._old.get(shape, 0)
            if count >= self._urls:
                return QUERY
            self._young[shape] = count + 1
            if len(self._young) >= MAX_SHAPES // 2:
                self._old, self._young = self._young, {}
        return None


def repeats(path: str) -> int:
    """How often a sequence of segments of *path* comes in a row, at most."""
    segments = [one for one in path.split("/") if one]
    count = len(segments)
    if count > MAX_SEGMENTS:
        return count
    most = 1 if count else 0
    for length in range(1, count // 2 + 1):
        run = 0
        for at in range(length, count):
            run = run + 1 if segments[at] == segments[at - length] else 0
            most = max(most, run // length + 1)
    return most
