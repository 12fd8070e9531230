"""What crawl logs say about one URL: each attempt, and the page it was found on.

A crawl log has a line for every attempt, answered or not, in Heritrix's twelve columns
(`frontier.warc.crawl_log`). The URL may be spelled differently there, so lines of its
host are compared as the crawl compares URLs.

What always holds:

1.  A file is read once, from start to end; a line of more than `LONGEST` bytes, or
    with too few columns, is counted as wrong.
2.  The first and the last `KEPT` attempts are kept; all are counted.
3.  A log that a node is still writing is read up to its last whole line, a compressed
    one up to where it is cut or damaged; the latter is reported.
"""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass, field
from operator import attrgetter
from typing import IO, TYPE_CHECKING

from frontier.explain.files import fault, keep, trim
from frontier.model import frozen
from frontier.warc.records import target_uri
from frontier.warc.remote_files import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from frontier.explain.in_store import Subject

LONGEST = 1 << 16
"""The most bytes of a line."""
COLUMNS = 12
MOST_SEEDS = 100_000
"""Different seeds that are kept; with more, the scope is not computed."""
BLOCK = 1 << 20
"""Bytes that are read at a time."""
_STATUS = re.compile(rb"-?[0-9]{1,5}")
_ENDED = attrgetter("ended")


@frozen
class Entry:
    """One attempt."""

    ended: str
    """When it ended, in UTC, as written in the log."""
    status: int
    """HTTP's, or below 0; see `frontier.download.outcomes`."""
    url: str
    hops: str
    via: str
    seed: str
    notes: tuple[str, ...]
    source: str
    """File and line."""


@dataclass(slots=True)
class LogFacts:
    """What the logs say."""

    entries: list[Entry] = field(default_factory=list)
    """Attempts to fetch the URL, in order of time: the first and the last `KEPT`."""
    count: int = 0
    """The number of all attempts to fetch the URL."""
    followed: list[Entry] = field(default_factory=list)
    """Attempts for what the URL redirects to: the first and the last `KEPT`."""
    seeds: set[str] = field(default_factory=set)
    """Seeds that the lines name: all of them, unless there are `MOST_SEEDS`."""
    wrong: int = 0
    """Lines that do not belong in a crawl log."""
    unread: list[str] = field(default_factory=list)
    """Files that could not be read, or not to their end, and why."""


def read_logs(
    paths: Iterable[Path],
    subject: Subject,
    progress: Callable[[], None] = lambda: None,
) -> LogFacts:
    """What the logs at *paths* say about *subject*; call *progress* for each block."""
    facts = LogFacts()
    spelled = target_uri(subject.url).encode("ascii", "replace")
    needle = _needle(subject.url) if subject.by_host else b""
    for path in paths:
        try:
            for source, words, line in _lines(path, facts, progress):
                url, hops, via, seed = words[3], words[4], words[5], words[10]
                if not hops.endswith(b"P") and len(facts.seeds) < MOST_SEEDS:
                    facts.seeds.add(seed.decode("ascii", "replace"))
                if via == spelled and hops.endswith(b"R"):
                    keep(facts.followed, _entry(words, source), _ENDED)
                if needle in line.lower() and (url == spelled or _is(subject, url)):
                    facts.count += 1
                    keep(facts.entries, _entry(words, source), _ENDED)
        except (EOFError, OSError, zlib.error) as error:
            facts.unread.append(fault(path, error))
    facts.seeds = {seed for seed in facts.seeds if "://" in seed}
    for entries in (facts.entries, facts.followed):
        trim(entries, _ENDED)
    return facts


def _lines(
    path: Path, facts: LogFacts, progress: Callable[[], None]
) -> Iterator[tuple[str, list[bytes], bytes]]:
    """For each line of the log at *path*: where it is, its columns, and the line."""
    number, ahead = 0, b""
    with open_file(path, ahead=True) as file:
        text: IO[bytes] = file
        if path.name.endswith(".gz"):
            text = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        while block := text.read(BLOCK):
            progress()
            *lines, ahead = (ahead + block).split(b"\n")
            for line in lines:
                number += 1
                words = line.split(None, COLUMNS) if len(line) <= LONGEST else []
                if len(words) < COLUMNS or not _STATUS.fullmatch(words[1]):
                    facts.wrong += 1
                else:
                    yield f"{path}:{number}", words, line
            ahead = ahead[: LONGEST + 1]  # should a line never end


def _is(subject: Subject, url: bytes) -> bool:
    """Whether *url* is the subject's; entries such as frontier:paused are not URLs."""
    return b"://" in url and subject.same(url.decode("ascii", "replace"))


def _entry(words: list[bytes], source: str) -> Entry:
    text = [word.decode("ascii", "replace") for word in words]
    ended, _, _, url, hops, via, *_, seed, notes = (
        "" if word == "-" else word for word in text
    )
    told = tuple(notes.split(",")[:20]) if notes else ()
    return Entry(ended[:30], int(words[1]), url, hops[:60], via, seed, told, source)


def _needle(url: str) -> bytes:
    """Text, in lower case, that every spelling of *url* contains."""
    rest = target_uri(url).partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].lower()
    host = re.sub(r"^www[0-9]*\.|:[0-9]*$", "", authority)
    return host.encode("ascii", "replace")
