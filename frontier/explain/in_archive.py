"""What WARC files and their indexes have of one URL, and the robots.txt of its host.

What always holds:

1.  An index that is sorted is searched, not read; one that is not, or is compressed,
    is read to its end. So is a WARC file without an index beside it.
2.  Records are read only at the places that an index names, with the `metadata` record
    behind each, which has the page that led to it. Of captures the first and the last
    `KEPT` are kept, all are counted.
3.  What is cut or damaged gives what it has up to there, and is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, TYPE_CHECKING

from frontier.cdx.lines import LINE_LIMIT, META, REVISIT, key_under, parse, sort_key
from frontier.errors import BadWarc
from frontier.files import OPEN
from frontier.postcrawl.remote_files import open_file
from frontier.status.validate import printable
from frontier.urls.canon.rulesets import named
from frontier.urls.robots import LIMIT
from frontier.warc.reader import Head, body_of, http_head, pulled_from, records_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frontier.cdx.lines import Line
    from frontier.explain.in_store import Subject
    from frontier.urls.canon.rulesets import RuleSet
    from frontier.warc.reader import Found

KEPT = 20
BLOCK = 1 << 16
"""Bytes of an index within which the search ends, and lines are read."""
NEAR = 6
"""Records behind a capture among which its `metadata` record is looked for."""
CAPTURES = frozenset({"response", "revisit", "resource"})
_DATE = re.compile(r"[0-9]{14}")


@dataclass(frozen=True, slots=True)
class Record:
    """One capture."""

    file: str
    offset: int
    kind: str
    """``response``, ``revisit`` or ``resource``."""
    date: str
    """14 digits, UTC."""
    status: str
    mime: str
    digest: str
    url: str
    record_id: str = ""
    refers_to: str = ""
    """Of a revisit: the URL of the original."""
    refers_date: str = ""
    via: str = ""
    hops: str = ""
    seed: str = ""
    """Empty also of a seed itself; then `is_seed` says so."""
    is_seed: bool = False
    agent: str = ""
    """The User-Agent that its request had."""
    robots: bytes = b""
    """The body of a robots.txt, as it was received, as far as it is read."""
    has_body: bool = False
    """Whether that was read, though it may be empty."""

    @property
    def source(self) -> str:
        """Where it is, as ``frontier warc show`` takes it."""
        return f"{self.file}:{self.offset}"


@dataclass(slots=True)
class ArchiveFacts:
    """What the files have."""

    records: list[Record] = field(default_factory=list)
    """Of the URL, in the order of time: the first and the last `KEPT`."""
    count: int = 0
    robots: Record | None = None
    """The last robots.txt of the host; of a revisit, with the text of its original."""
    indexes: int = 0
    files: int = 0
    """WARC files, by an index or read."""
    unread: list[str] = field(default_factory=list)


class Archive:
    """Looks into files for *subject*, and for the robots.txt at *robots*, a URL.

    *rules* names the crawl's canonicalization rules, by which its indexes are sorted.
    """

    def __init__(
        self,
        subject: Subject,
        robots: str,
        rules: str,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.facts = ArchiveFacts()
        self._subject = subject
        self._robots_url = robots
        self._progress = progress
        self._done = 0
        self._rules = named(rules)
        self._keys = _keys(self._rules, subject.url, subject.canonical)
        self._robots_keys = _keys(self._rules, robots)
        self._indexes: list[Path] = []
        self._found: list[Record] = []
        self._robots: list[Record] = []

    def look(
        self, warcs: Sequence[Path], indexes: Mapping[Path, Path | None]
    ) -> ArchiveFacts:
        """Look into *warcs*, and into *indexes*: each, and the WARC file it is of.

        A file that has an index is read only where that says.
        """
        by_name = {path.name: path for path in warcs}
        self._indexes = list(indexes)
        indexed = set()
        for index, warc in indexes.items():
            try:
                self._index(index, by_name)
            except (OSError, ValueError) as error:
                self._leave_out(index, error)
            else:
                self.facts.indexes += 1
                indexed.add(warc)
        for path in warcs:
            self.facts.files += 1
            if path in indexed:
                continue
            try:
                self._whole(path)
            except BadWarc as error:
                if not path.name.endswith(OPEN):  # else a node is at its last record
                    self.facts.unread.append(printable(str(error)))
            except (OSError, ValueError) as error:
                self._leave_out(path, error)
        return self._facts(by_name)

    def _leave_out(self, path: Path, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        self.facts.unread.append(printable(f"{path}: {reason}"))

    def _index(self, path: Path, by_name: Mapping[str, Path]) -> None:
        """Note what the index at *path* lists.

        Raises:
            OSError: It cannot be read.
        """
        for keys, is_it, found in (
            (self._keys, self._is_it, self._found),
            (self._robots_keys, self._is_robots, self._robots),
        ):
            for line in _lines_of(path, keys):
                if is_it(line.url):
                    self._note(found, _listed(line, path, by_name))
                self._step()

    def _whole(self, path: Path) -> None:
        """Note what the WARC file at *path*, which has no index, holds.

        Raises:
            BadWarc: It is cut or damaged; what is before that was noted.
            OSError: It cannot be read.
        """
        last: Record | None = None
        with open_file(path, ahead=True) as file:
            for found in records_in(file, str(path)):
                self._step()
                if found.kind not in CAPTURES:
                    continue
                url = found.headers.get("warc-target-uri").strip("<>")
                if self._is_it(url):
                    last = _read(path, found)
                    self._note(self._found, last)
                elif self._is_robots(url):
                    self._note(self._robots, _read(path, found))

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done)

    def _is_it(self, url: str) -> bool:
        return url == self._subject.url or self._subject.same(url)

    def _is_robots(self, url: str) -> bool:
        return url == self._robots_url

    def _note(self, found: list[Record], record: Record) -> None:
        if found is self._found:
            self.facts.count += 1
        if not any(one.source == record.source for one in found):
            found.append(record)
        if len(found) > 4 * KEPT:
            found.sort(key=lambda one: one.date)
            del found[1:-KEPT]

    def _facts(self, by_name: Mapping[str, Path]) -> ArchiveFacts:
        found = sorted(self._found, key=lambda one: one.date)
        found = [*found[:1], *found[1:][-KEPT:]]
        paths = {str(path): path for path in by_name.values()}
        self.facts.records = [self._in_full(one, paths) for one in found]
        if self._robots:
            newest = max(self._robots, key=lambda one: one.date)
            full = self._in_full(newest, paths, with_body=True)
            if full.kind == "revisit":
                full = self._with_text(full, by_name, paths)
            self.facts.robots = full
        return self.facts

    def _with_text(
        self, revisit: Record, by_name: Mapping[str, Path], paths: Mapping[str, Path]
    ) -> Record:
        """*revisit* of a robots.txt with the text of its original, if that is there."""
        url = revisit.refers_to or revisit.url
        for index in self._indexes:
            try:
                lines = list(_lines_of(index, _keys(self._rules, url)))
            except (OSError, ValueError) as error:
                self._leave_out(index, error)
                continue
            for line in lines:
                if line.digest != revisit.digest or line.mime == REVISIT:
                    continue
                place = _listed(line, index, by_name)
                found = self._in_full(place, paths, with_body=True)
                if found.has_body:
                    return replace(revisit, robots=found.robots, has_body=True)
        return revisit

    def _in_full(
        self, record: Record, paths: Mapping[str, Path], *, with_body: bool = False
    ) -> Record:
        """*record* with what its file says of it, if that is there and can be read."""
        path = paths.get(record.file)
        if path is None:
            told = f"{printable(record.file)}: the WARC file is not there"
            if told not in self.facts.unread:
                self.facts.unread.append(told)
            return record
        try:
            with open_file(path) as file:
                return _told(file, path, record, with_body=with_body)
        except (BadWarc, OSError, ValueError) as error:
            self._leave_out(path, error)
            return record


def _keys(rules: RuleSet, *urls: str) -> tuple[bytes, ...]:
    """The keys under which indexes may have *urls*: the crawl's rules', and pywb's."""
    found = [sort_key(url) for url in urls]
    found += [key_under(rules, url) for url in urls]
    return tuple(dict.fromkeys(key.encode() for key in found))


def _lines_of(path: Path, keys: Sequence[bytes]) -> Iterator[Line]:
    """The lines of the index at *path* that have one of *keys*."""
    with open_file(path) as file:
        size = file.seek(0, 2)
        for key in keys:
            wanted = key + b" "
            start = _place(file, size, wanted)
            if start is None:  # it is not sorted
                yield from _every(file, keys)
                return
            for line in _from(file, start):
                if line.startswith(wanted):
                    yield from _parsed(line)
                elif line > wanted and not line.startswith(META):
                    break


def _place(file: IO[bytes], size: int, wanted: bytes) -> int | None:
    """Where lines that begin with *wanted* may begin; ``None`` if it is not sorted."""
    low, high = 0, size
    below, above = b"", b"\xff"
    while high - low > BLOCK:
        middle = (low + high) // 2
        line, at = _line_after(file, middle, high)
        if not line:
            high = middle
        elif not below <= line <= above:
            return None
        elif line < wanted:
            low, below = at, line
        else:
            high, above = middle, line
    return low


def _line_after(file: IO[bytes], at: int, end: int) -> tuple[bytes, int]:
    """The first line that begins behind *at* and before *end*, and where; or none."""
    file.seek(at)
    skipped = file.read(min(BLOCK, end - at))
    while b"\n" not in skipped:
        more = file.read(min(BLOCK, max(0, end - at - len(skipped))))
        if not more or len(skipped) > LINE_LIMIT:
            return b"", end
        skipped += more
    start = at + skipped.index(b"\n") + 1
    if start >= end:
        return b"", end
    file.seek(start)
    return file.read(LONG_ENOUGH).partition(b"\n")[0], start


LONG_ENOUGH = 1 << 14
"""Bytes of a line that are compared; keys are shorter."""


def _from(file: IO[bytes], start: int) -> Iterator[bytes]:
    """The lines of *file* from *start*, where one begins."""
    at, ahead = start, b""
    while True:
        file.seek(at)
        block = file.read(BLOCK)
        at += len(block)
        lines = (ahead + block).split(b"\n")
        ahead = lines.pop()
        yield from lines
        if not block:
            if ahead:
                yield ahead
            return
        if len(ahead) > LINE_LIMIT:
            raise ValueError(f"a line of more than {LINE_LIMIT:,} bytes")


def _every(file: IO[bytes], keys: Sequence[bytes]) -> Iterator[Line]:
    wanted = tuple(key + b" " for key in keys)
    for line in _from(file, 0):
        if line.startswith(wanted):
            yield from _parsed(line)


def _parsed(line: bytes) -> Iterator[Line]:
    try:
        yield parse(line)
    except ValueError:
        return


def _listed(line: Line, index: Path, by_name: Mapping[str, Path]) -> Record:
    """What *index* says of a capture, and where its WARC file is, or should be."""
    file = by_name.get(line.filename)
    beside = str(index).removesuffix(index.name) + line.filename
    is_revisit = line.mime == REVISIT
    return Record(
        str(file) if file is not None else beside,
        line.offset,
        "revisit" if is_revisit else "response" if line.status else "resource",
        line.timestamp,
        line.status,
        "" if is_revisit else line.mime,
        line.digest,
        line.url,
        refers_to=line.notes.original,
        refers_date=line.notes.original_date,
    )


def _read(path: Path, found: Found) -> Record:
    """What a record itself says."""
    headers, status, mime = found.headers, "", found.headers.get("content-type")
    if found.is_http:
        status, head, _ = http_head(found.block)
        mime = head.get("content-type")
    date = re.sub(r"[^0-9]", "", headers.get("warc-date"))[:14]
    return Record(
        str(path),
        found.offset,
        found.kind,
        date if _DATE.fullmatch(date) else "",
        status,
        "" if found.kind == "revisit" else mime.partition(";")[0].strip(),
        headers.get("warc-payload-digest"),
        headers.get("warc-target-uri").strip("<>"),
        headers.get("warc-record-id"),
        headers.get("warc-refers-to-target-uri").strip("<>"),
        headers.get("warc-refers-to-date"),
    )


def _told(file: IO[bytes], path: Path, record: Record, *, with_body: bool) -> Record:
    """*record* with what it and the records behind it say of how it came to be."""
    behind = pulled_from(file, str(path), record.offset)
    first = next(behind, None)
    if first is None or first.kind not in CAPTURES:
        raise ValueError(f"there is no capture at byte {record.offset}")
    full = _read(path, first)
    if with_body and first.kind == "response":
        body = b""
        for part in body_of(first):
            body += part
            if len(body) > LIMIT:
                break
        full = replace(full, robots=body[: LIMIT + 1], has_body=True)
    for other in islice(behind, NEAR):
        if other.kind in CAPTURES:
            break
        if other.headers.get("warc-concurrent-to") != full.record_id:
            continue
        if other.kind == "request":
            full = replace(full, agent=_agent(other.block))
        elif other.kind == "metadata":
            full = _with_origin(full, Head(b"\r\n" + other.block))
    return full


def _agent(block: bytes) -> str:
    head = Head(block.partition(b"\r\n\r\n")[0])
    return head.get("user-agent")[:500]


def _with_origin(record: Record, fields: Head) -> Record:
    """*record* with what the *fields* of its metadata record say."""
    names = [name for name, _ in fields.pairs()]
    if "outlink" in names:
        return record
    return replace(
        record,
        via=fields.get("via")[:2_000],
        hops=fields.get("hopsfromseed")[:60],
        seed=fields.get("sourcetag")[:2_000],
        is_seed="seed" in names,
    )
