"""All sources that are asked of one URL: the store, and the files of the crawl.

A directory is looked through to its bottom; so is the storage that a node's files are
uploaded to, by its URL. Files of another crawl, by their name or by the mark with which
it was born, are left out and counted: what it did is no answer about this one.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.explain.evidence import Gap, Known
from frontier.explain.in_archive import Archive
from frontier.explain.in_logs import read_logs
from frontier.explain.rules import address_of, robots_of, scope_of, trap_of
from frontier.explain.verdict import Explanation, explain
from frontier.files import OPEN
from frontier.postcrawl.remote_files import RemotePath, open_file, path_of
from frontier.settings.config import Config
from frontier.status.validate import printable
from frontier.urls.canon.rulesets import SUFFIX as RULE_FILE
from frontier.warc.births import birth_of
from frontier.warc.cdxj_sidecar import SUFFIX as INDEX
from frontier.warc.crawl_log import SUFFIX as LOG
from frontier.warc.file_rotation import safe_name
from frontier.workers.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from frontier.explain.in_logs import LogFacts
    from frontier.explain.in_store import StoreFacts, Subject
    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.keys import CrawlKeys

    Bar = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]

WARCS = (".warc.gz", ".warc", ".warc.zst")
OTHERS = {
    ".wacz": "unpack its WARC files and indexes (unzip), and name their directory",
    ".arc": "frontier warc convert makes WARC of it",
    ".arc.gz": "frontier warc convert makes WARC of it",
    ".cdx": "name the WARC files that it is of, or their CDXJ",
    ".cdx.gz": "name the WARC files that it is of, or their CDXJ",
    ".cdxj.gz": "gunzip it",
}
"""Endings of files that may have something of the URL and are not looked at, and what
to do about each."""
NAMED = 3
_OURS = re.compile(
    r"(.+)-[0-9]{17}-[0-9]{5,}-.+\.(?:crawl\.log|cdxj|warc)(?:\.gz)?(?:\.open)?"
)


@dataclass(slots=True)
class CrawlFiles:
    """What there is to look at."""

    logs: list[Path] = field(default_factory=list)
    warcs: list[Path] = field(default_factory=list)
    indexes: dict[Path, Path | None] = field(default_factory=dict)
    """Each, and the WARC file that it is of, if that is there."""
    of_others: Counter[str] = field(default_factory=Counter)
    """Files that were left out, by the crawl that they are named after."""
    of_namesakes: list[Path] = field(default_factory=list)
    """Those of other crawls that had the same name, which were left out, too."""
    gaps: list[Gap] = field(default_factory=list)


def find(logs: Sequence[str], warcs: Sequence[str], keys: CrawlKeys) -> CrawlFiles:
    """What is at the places *logs*, of crawl logs alone, and *warcs*, of all kinds.

    Of the crawl of *keys*, or of one that they do not name.

    Raises:
        ConfigurationError: A URL is none of files, or its package is not installed.
    """
    found = _FileSearch(keys)
    for place in warcs:
        found.look(place, logs_only=False)
    for place in logs:
        found.look(place, logs_only=True)
    return found.done(logs, warcs)


class _FileSearch:
    def __init__(self, keys: CrawlKeys) -> None:
        self.files = CrawlFiles()
        self._keys = keys
        self._crawl = safe_name(keys.crawl_id)
        self._others: dict[str, list[str]] = {}
        self._indexes: list[Path] = []

    def look(self, place: str, *, logs_only: bool) -> None:
        is_here = place.lower().startswith("file://")
        path = Path(urlsplit(place).path) if is_here else path_of(place)
        try:
            if not path.exists():
                self._gap(f"{place}: there is no such directory or file")
                return
            for each in self._below(path) if path.is_dir() else [path]:
                self._take(each, logs_only=logs_only)
        except OSError as error:
            self._gap(f"{place}: {error.strerror or error}")

    def _below(self, path: Path) -> Iterator[Path]:
        if isinstance(path, RemotePath):
            yield from path.below()
            return

        def unreadable(error: OSError) -> None:
            self._gap(f"{error.filename}: {error.strerror}")

        for top, names, files in os.walk(path, onerror=unreadable):
            names.sort()
            yield from (path / os.path.relpath(top, path) / n for n in sorted(files))

    def _take(self, path: Path, *, logs_only: bool) -> None:
        name = path.name.removesuffix(OPEN)
        ours = _OURS.fullmatch(path.name)
        if ours is not None and ours[1] != self._crawl:
            self.files.of_others[ours[1]] += 1
        elif name.removesuffix(".gz").endswith(LOG):
            self.files.logs.append(path)
        elif logs_only:
            return
        elif name.endswith(WARCS):
            self.files.warcs.append(path)
        elif name.endswith(INDEX):
            self._indexes.append(path)
        else:
            kind = next((end for end in OTHERS if name.lower().endswith(end)), None)
            if kind is not None:
                self._others.setdefault(kind, []).append(str(path))

    def done(self, logs: Sequence[str], warcs: Sequence[str]) -> CrawlFiles:
        found = self.files
        of_index = {name: path for path in found.warcs for name in _indexes_of(path)}
        found.indexes = {path: of_index.get(str(path)) for path in self._indexes}
        found.logs = self._own(dict.fromkeys(found.logs))
        found.warcs = self._own(found.warcs)
        others: set[Path | None] = {*found.of_namesakes}
        for index in [each for each, warc in found.indexes.items() if warc in others]:
            found.of_namesakes.append(index)
            del found.indexes[index]
        for kind, names in self._others.items():
            what = ", ".join(names[:NAMED])
            if (more := len(names) - NAMED) > 0:
                what += f" and {more:,} more"
            found.gaps.append(Gap(printable(what), OTHERS[kind], decides=True))
        if not found.logs:
            self._none("crawl logs", "--logs DIR", [*logs, *warcs])
        if not (found.warcs or found.indexes):
            self._none("WARC files", "--warcs DIR|URL", warcs)
        self._tell_others(found)
        return found

    def _own(self, paths: Iterable[Path]) -> list[Path]:
        """Those of *paths* that no other crawl of the same name has written."""
        own: list[Path] = []
        for path in paths:
            try:
                with open_file(path) as file:
                    born = birth_of(file, path.name.removesuffix(OPEN))
            except OSError:  # who reads it says so
                born = ""
            is_own = not self._keys.born or born in {"", self._keys.born}
            (own if is_own else self.files.of_namesakes).append(path)
        return own

    def _tell_others(self, found: CrawlFiles) -> None:
        crawl = printable(self._keys.crawl_id)
        if found.of_namesakes:
            first = printable(str(min(found.of_namesakes, key=str)))
            what = f"{len(found.of_namesakes):,} files of another crawl that was called"
            how = "frontier warc list, and grep, show what they have"
            found.gaps.append(Gap(f"{what} {crawl}, as {first}", how))
        others = found.of_others.most_common()
        for name, count in others[:NAMED]:
            what = f"{count:,} files of the crawl {printable(name)}"
            found.gaps.append(Gap(what, f"--crawl {printable(name)} asks about it"))
        if more := others[NAMED:]:
            count = sum(count for _, count in more)
            what = f"{count:,} files of {len(more):,} more crawls"
            found.gaps.append(Gap(what, "--crawl ID asks about one of them"))

    def _none(self, what: str, option: str, places: Sequence[str]) -> None:
        where = printable(", ".join(dict.fromkeys(places))) or "no directory was named"
        text = f"no {what} of the crawl were found ({where})"
        how = f"{option} says where they are, also on the machines of other nodes"
        self.files.gaps.append(Gap(text, how, decides=True))

    def _gap(self, what: str) -> None:
        how = "make it readable, and ask again"
        self.files.gaps.append(Gap(printable(what), how, decides=True))


def _indexes_of(path: Path) -> tuple[str, str]:
    """How the index of the WARC file *path* may be called; see `cdxj_sidecar`."""
    name = str(path)
    bare = name.removesuffix(".gz").removesuffix(".zst").removesuffix(".warc")
    return bare + INDEX, name + INDEX


def ask(
    crawl: StoredCrawl,
    subject: Subject,
    facts: StoreFacts,
    files: CrawlFiles,
    seeds: Sequence[str],
    bar: Bar,
) -> Explanation:
    """Why *subject* was or was not crawled, by *facts* of the store and by *files*.

    *seeds* are those of the crawl, if they were given. *bar* shows progress.
    """
    config, url = crawl.config, subject.url
    by_host = not config.canon_rules.endswith(RULE_FILE)
    with bar("crawl logs, bytes", _size(files.logs)) as progress:
        logs = read_logs(files.logs, subject, progress, by_host=by_host)
    with bar("indexes and records", None) as progress:
        robots = _robots_url(url)
        archive = Archive(subject, robots, config.canon_rules, progress)
        records = archive.look(files.warcs, files.indexes)
    known = Known(
        subject,
        facts,
        logs,
        records,
        scope=scope_of(facts, logs, seeds, url),
        trap=trap_of(facts, url, _hops(facts, logs)),
        address=address_of(config, facts.said, url),
        robots=robots_of(
            records.robots, url, lambda rules, agent: _allowed(rules, url, agent)
        ),
        gaps=tuple(files.gaps),
    )
    return explain(known)


def _allowed(rules: bytes, url: str, agent: str) -> bool:
    """Whether the long *rules* of a robots.txt allow *url*, as a worker says.

    Raises:
        WorkerFailed: It reached a limit: rules may be made to take for ever.
    """

    async def asked() -> bool:
        config = Config()
        pool = WorkerPool(1, config.worker_seconds, config.worker_max_bytes)
        try:
            given = {"agent": agent, "asked": url, "url": _robots_url(url)}
            return all([allows async for allows in pool.run("robots", rules, given)])
        finally:
            await pool.close()

    return asyncio.run(asked())


def _robots_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/robots.txt"


def _hops(facts: StoreFacts, logs: LogFacts) -> int | None:
    """How far from a seed the URL is, if it was ever found."""
    found = [entry.hops for entry in logs.entries if entry.hops or not entry.via]
    found += [place.origin.hops for place in facts.places if place.origin.via]
    return min(map(_length, found), default=None)


def _length(hops: str) -> int:
    before, plus, letters = hops.rpartition("+")
    return len(letters) + (int(before) if plus and before.isdecimal() else 0)


def _size(paths: Sequence[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):
            total += path.stat().st_size
    return total
