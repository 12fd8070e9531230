"""Finds the files of a crawl to look into.

A directory is searched to its bottom; so is the storage that nodes upload their files
to, by its URL. Files of another crawl, as told by their name or by the mark with which
it was born, are left out and counted: what that crawl did says nothing about this one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from frontier.files import OPEN
from frontier.model import frozen
from frontier.postcrawl.files import below
from frontier.status.validate import printable
from frontier.warc.births import birth_of
from frontier.warc.cdxj_sidecar import SUFFIX as INDEX
from frontier.warc.crawl_log import SUFFIX as LOG
from frontier.warc.file_rotation import safe_name
from frontier.warc.remote_files import open_file, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from frontier.status.snapshot import Nodes
    from frontier.store.keys import CrawlKeys

T = TypeVar("T")
KEPT = 20
"""How many of the last things of one kind are kept, besides the first."""
WARCS = (".warc.gz", ".warc", ".warc.zst")
OTHERS = (".wacz", ".arc", ".arc.gz", ".cdx", ".cdx.gz", ".cdxj.gz")
"""Endings of files that may mention the URL but are not looked at."""
_OURS = re.compile(r"(.+)-[0-9]{17}-[0-9]{5,}-(.+?)\.(?:crawl\.log|cdxj|warc)(?:\..+)?")
GIVE = "give their directories with --warcs, or run it there"
"""What to do about files that are not here."""


@frozen
class Gap:
    """Something that was not looked at, and how to have it looked at."""

    what: str
    how: str
    decides: bool = False
    """Whether it might change the answer."""


@dataclass(slots=True)
class CrawlFiles:
    """The files to look into."""

    logs: list[Path] = field(default_factory=list)
    warcs: list[Path] = field(default_factory=list)
    indexes: dict[Path, Path | None] = field(default_factory=dict)
    """Each index, and the WARC file that it indexes, if that is there."""
    gaps: list[Gap] = field(default_factory=list)


def find(
    logs: Sequence[str], warcs: Sequence[str], keys: CrawlKeys, nodes: Nodes
) -> CrawlFiles:
    """The crawl logs at the places *logs*, and the files of all kinds at *warcs*.

    Only files of the crawl of *keys*, and files that name no crawl. What is missing of
    its *nodes* is a gap.

    Raises:
        ConfigurationError: A URL is not one of files, or its package is not installed.
    """
    found, others, unread = CrawlFiles(), Counter[str](), list[str]()
    listed: dict[Path, None] = {}
    for place, of_all_kinds in [
        *((w, True) for w in warcs),
        *((g, False) for g in logs),
    ]:
        for path in _below(place, found.gaps):
            name, named = path.name.removesuffix(OPEN), _OURS.fullmatch(path.name)
            is_log = name.removesuffix(".gz").endswith(LOG)
            if named is not None and named[1] != safe_name(keys.crawl_id):
                others[f"the crawl {printable(named[1])}"] += 1
            elif is_log or (of_all_kinds and name.endswith((*WARCS, INDEX))):
                listed[path] = None
            elif of_all_kinds and name.lower().endswith(OTHERS):
                unread.append(printable(str(path)))
    indexed: dict[str, Path] = {}
    for path in listed:
        if path.name.endswith(INDEX):
            found.indexes[path] = None
        elif _is_of(path, keys.born):
            is_warc = path.name.removesuffix(OPEN).endswith(WARCS)
            (found.warcs if is_warc else found.logs).append(path)
        else:
            others[f"another crawl with the id {printable(keys.crawl_id)}"] += 1
        bare = str(path).removesuffix(".gz").removesuffix(".zst").removesuffix(".warc")
        indexed |= {bare + INDEX: path, str(path) + INDEX: path}
    for index in list(found.indexes):
        found.indexes[index] = warc = indexed.get(str(index))
        if warc is not None and warc not in found.warcs:  # of a crawl of the same name
            del found.indexes[index]
    for whose, count in others.items():
        how = "--crawl ID asks about another crawl"
        found.gaps.append(Gap(f"{count:,} files of {whose}", how))
    if unread:
        what = f"{len(unread):,} files of kinds that are not read, as {unread[0]}"
        how = "unzip WACZ, frontier warc convert ARC, gunzip CDXJ; a CDX is not needed"
        found.gaps.append(Gap(what, how, decides=True))
    found.gaps += _missing([*found.logs, *found.warcs, *found.indexes], nodes)
    found.gaps += _without(found, [*warcs, *logs])
    return found


def _without(found: CrawlFiles, places: Iterable[str]) -> Iterator[Gap]:
    """The kinds of files of which there is none at all in *places*."""
    where = printable(", ".join(dict.fromkeys(places))) or "no directory"
    for what, some, option in (
        ("crawl logs", found.logs, "--logs DIR"),
        ("WARC files", [*found.warcs, *found.indexes], "--warcs DIR|URL"),
    ):
        if not some:
            text = f"no {what} of the crawl were found ({where})"
            how = f"name them with {option}, those of other nodes' machines too"
            yield Gap(text, how, decides=True)


def _missing(paths: Iterable[Path], nodes: Nodes) -> Iterator[Gap]:
    """The nodes that sent requests, and of which no file is among *paths*."""
    names = (_OURS.fullmatch(path.name) for path in paths)
    there = {name[2] for name in names if name is not None}
    missing: dict[str, list[str]] = {}
    for node, did in sorted(nodes.figures.items()):
        if did.requests and safe_name(node) not in there:
            missing.setdefault(did.machine, []).append(node)
    for machine, some in missing.items():
        where = f" on {machine}" if machine else ""
        what = f"WARC files and crawl logs of {', '.join(some)}{where}"
        yield Gap(printable(what), GIVE, decides=True)


def _below(place: str, gaps: list[Gap]) -> Iterator[Path]:
    """The files at *place* and below it; what cannot be listed is added to *gaps*."""
    is_here = place.lower().startswith("file://")
    path = Path(urlsplit(place).path) if is_here else path_of(place)

    def failed(what: str) -> None:
        how = "make it readable, and ask again"
        gaps.append(Gap(printable(what), how, decides=True))

    try:
        if path.exists():
            yield from below(path, failed)
        else:
            failed(f"{place}: there is no such directory or file")
    except OSError as error:
        failed(f"{error.filename or place}: {error.strerror or error}")


def _is_of(path: Path, born: str) -> bool:
    """Whether the file at *path* is not known to be from a crawl of the same name."""
    try:
        with open_file(path) as file:
            found = birth_of(file, path.name.removesuffix(OPEN))
    except OSError:  # whoever reads it later reports it
        return True
    return not born or found in {"", born}


def fault(path: Path, error: Exception) -> str:
    """A message that *path* cannot be read, and why."""
    return printable(f"{path}: {getattr(error, 'strerror', None) or error}")


def keep(found: list[T], one: T, when: Callable[[T], str]) -> None:
    """Add *one* to *found*, and now and then `trim` that."""
    found.append(one)
    if len(found) > 4 * KEPT:
        trim(found, when)


def trim(found: list[T], when: Callable[[T], str]) -> None:
    """Sort *found* by time; keep the first and the last `KEPT`."""
    found.sort(key=when)
    del found[1:-KEPT]
