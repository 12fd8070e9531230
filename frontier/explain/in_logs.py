"""What crawl logs say of one URL: each attempt, and from which page it was found.

A crawl log has a line for every attempt, answered or not, in the twelve columns of
Heritrix (`frontier.warc.crawl_log`). A URL that was looked for may be spelled in other
ways there, so lines of its host are compared as the crawl compares URLs.

What always holds:

1.  A file is read once, from begin to end, a line at a time; a line of more than
    `LONGEST` bytes is none. So are columns that are not there.
2.  Of the attempts the first and the last `KEPT` are kept, all are counted.
3.  A log that a node still writes is read up to its last whole line, and one that is
    compressed up to where it is cut or damaged; that is said.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frontier.files import require_ratio
from frontier.postcrawl.remote_files import open_file
from frontier.status.validate import printable
from frontier.warc.records import target_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from frontier.explain.in_store import Subject

LONGEST = 1 << 16
"""Bytes of a line."""
COLUMNS = 12
KEPT = 20
MOST_SEEDS = 100_000
"""Different seeds that are kept; beyond, the scope is not computed."""
LONGEST_SEED = 4_000
"""Characters of a seed that is kept."""
EVERY = 1 << 20
"""Bytes after which progress is told."""
_WWW = re.compile(r"^www[0-9]*\.")
_STATUS = re.compile(rb"-?[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt."""

    ended: str
    """When it was over, UTC, as the log has it."""
    status: int
    """Of HTTP, or below 0; see `frontier.download.origin`."""
    size: str
    url: str
    hops: str
    via: str
    seed: str
    digest: str
    notes: tuple[str, ...]
    source: str
    """File and line."""


@dataclass(slots=True)
class LogFacts:
    """What the logs say."""

    entries: list[Entry] = field(default_factory=list)
    """Of the URL, in the order of time: the first, and the last `KEPT`."""
    count: int = 0
    """All attempts of the URL."""
    followed: list[Entry] = field(default_factory=list)
    """Attempts of what the URL redirects to, the last `KEPT`."""
    seeds: set[str] = field(default_factory=set)
    """Seeds that the lines name; `complete` says whether these are all."""
    complete: bool = True
    lines: int = 0
    wrong: int = 0
    """Lines that are none of a crawl log."""
    unread: list[str] = field(default_factory=list)
    """Files that could not be read, or not to their end, and why."""


def read_logs(
    paths: Iterable[Path],
    subject: Subject,
    progress: Callable[[int], None] = lambda _: None,
    *,
    by_host: bool = True,
) -> LogFacts:
    """What the logs at *paths* say of *subject*.

    *progress* is told how many bytes were read. Unless *by_host*, the crawl's rules may
    merge URLs of different hosts, and each line is compared.
    """
    reader = _Reader(subject, progress, by_host=by_host)
    for path in paths:
        try:
            reader.read(path)
        except (EOFError, OSError, ValueError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            reader.facts.unread.append(f"{printable(str(path))}: {reason}")
    return reader.done()


class _Reader:
    def __init__(
        self, subject: Subject, progress: Callable[[int], None], *, by_host: bool
    ) -> None:
        self.facts = LogFacts()
        self._subject = subject
        self._progress = progress
        self._spelled = target_uri(subject.url).encode("ascii", "replace")
        self._needle = _needle(subject.url) if by_host else b""
        self._first: Entry | None = None
        self._last: deque[Entry] = deque(maxlen=KEPT)
        self._followed: deque[Entry] = deque(maxlen=KEPT)
        self._seeds: set[bytes] = set()
        self._bytes = self._told = 0

    def read(self, path: Path) -> None:
        """Take in the log at *path*.

        Raises:
            OSError: It cannot be read.
            EOFError: It is compressed, and cut.
            ValueError: It is compressed to very little of its size.
        """
        with open_file(path, ahead=True) as file:
            number, ahead = 0, b""
            text = gzip.GzipFile(fileobj=file) if path.name.endswith(".gz") else file
            size = 0
            while block := text.read(EVERY):
                size += len(block)
                if text is not file:
                    require_ratio(size, file.tell())
                self._bytes += len(block)
                self._progress(self._bytes)
                lines = (ahead + block).split(b"\n")
                ahead = lines.pop()
                for line in lines:
                    number += 1
                    self._line(line, path, number)
                if len(ahead) > LONGEST:
                    self.facts.wrong += 1
                    ahead = b"\0"  # the rest of it is none either

    def _line(self, line: bytes, path: Path, number: int) -> None:
        self.facts.lines += 1
        words = line.split(None, COLUMNS) if len(line) <= LONGEST else []
        if len(words) < COLUMNS or not _STATUS.fullmatch(words[1]):
            self.facts.wrong += 1
            return
        url, hops, via, seed = words[3], words[4], words[5], words[10]
        if seed not in self._seeds and not hops.endswith(b"P"):
            self._note_seed(seed)
        if via == self._spelled and hops.endswith(b"R"):
            self._followed.append(_entry(words, path, number))
        if self._needle not in line.lower() or not self._is_it(url):
            return
        self.facts.count += 1
        entry = _entry(words, path, number)
        if self._first is None or entry.ended < self._first.ended:
            self._first = entry
        self._last.append(entry)

    def _is_it(self, url: bytes) -> bool:
        if url == self._spelled:
            return True
        if b"://" not in url:  # what operators did, as frontier:paused
            return False
        return self._subject.same(url.decode("ascii", "replace"))

    def _note_seed(self, seed: bytes) -> None:
        if len(self._seeds) >= MOST_SEEDS:
            self.facts.complete = False
        elif b"://" in seed and len(seed) <= LONGEST_SEED:
            self._seeds.add(seed)

    def done(self) -> LogFacts:
        """What was found; files of several nodes are brought into the order of time."""
        entries = {entry.source: entry for entry in self._last}
        if self._first is not None:
            entries[self._first.source] = self._first
        self.facts.entries = sorted(entries.values(), key=lambda one: one.ended)
        self.facts.followed = sorted(self._followed, key=lambda one: one.ended)
        self.facts.seeds = {seed.decode("ascii", "replace") for seed in self._seeds}
        return self.facts


def _entry(words: list[bytes], path: Path, number: int) -> Entry:
    text = [word.decode("ascii", "replace") for word in words]
    known = ["" if word == "-" else word for word in text]
    notes = tuple(known[11].split(",")[:20]) if known[11] else ()
    return Entry(
        ended=known[0][:30],
        status=int(words[1]),
        size=known[2][:20],
        url=known[3],
        hops=known[4][:60],
        via=known[5],
        seed=known[10],
        digest=known[9][:100],
        notes=notes,
        source=f"{path}:{number}",
    )


def _needle(url: str) -> bytes:
    """What each spelling of *url* has in it, in lower case."""
    rest = target_uri(url).partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].lower()
    host = re.sub(r":[0-9]*$", "", authority)
    return _WWW.sub("", host).encode("ascii", "replace")
