"""The index, the pages and the needs of a set of WARC files.

What always holds:

1.  Each capture has one line: from the index beside its file or, if that is missing
    or does not fit, from the file itself.
2.  Data that grows with the files is in files next to the output, not in memory. An
    index beside a file is used only up to `LISTING_LIMIT` bytes.
3.  An index is used only if it is sorted, names its file, and the file has no capture
    after the last one listed: an index that is older than its file, or longer, is not
    used.
4.  If an index is used, none of the records that it lists is read. So an index without
    the notes for the list of pages and for revisits (`frontier.cdx.lines`) is not used.

If an index is used, three faults are not found here: a damaged body, a line that does
not agree with its record, and a line that was removed from the index.
`frontier.wacz.check` finds them.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from frontier.cdx.lines import HTML, INDEXED, LINE_LIMIT, Capture, captures_in, parse
from frontier.cdx.sorting import Need, captures_at
from frontier.errors import BadWarc, FrontierError
from frontier.files import FILE_MODE, creating, open_input
from frontier.wacz import layout
from frontier.wacz.layout import page_of
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.reader import blocks_of, records_in, records_of

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator


logger = logging.getLogger(__name__)

LISTING_LIMIT = 96 << 20
"""The largest index that is used, in bytes: some 200,000 captures. The lines of its
pages are in memory until all of it is read."""


class Unusable(FrontierError):
    """An index cannot be used for its file: the file has to be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


class Indexing:
    """Takes in WARC files one after another; belongs to one thread."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        scratch: str,
        seeds: frozenset[str],
        mode: int = FILE_MODE,
        unlisted: Callable[[BadWarc], object] | None = None,
    ) -> None:
        """Begin with no files; the paths of scratch files begin with *scratch*.

        *stack* closes and deletes them. For *unlisted* see
        `frontier.cdx.lines.captures_in`.
        """
        self._opener = creating(mode)
        self.pages = 0
        """The number of pages."""
        self.read = 0
        """The number of files that were read because no index could be used."""
        self._seeds = seeds
        self._unlisted = unlisted
        self._scratch = scratch
        self._stack = stack
        self._captures = stack.enter_context(captures_at(Path(f"{scratch}db"), mode))
        self._pages = self.temporary("pages")
        self._pages.write(json.dumps(layout.PAGES_HEADER).encode() + b"\n")

    def temporary(self, name: str) -> BinaryIO:
        """An empty file, which is closed and deleted at the end."""
        path = Path(f"{self._scratch}{name}")
        self._stack.callback(path.unlink, missing_ok=True)
        return self._stack.enter_context(open(path, "wb+", opener=self._opener))

    def add(self, path: Path, file: BinaryIO) -> None:
        """Take in the captures of the WARC file *path*, open as *file*.

        Raises:
            BadWarc: It has no index that fits, and is cut or damaged.
            OSError: Something cannot be read or written.
        """
        before = self._captures.mark()
        try:
            pages = self._listed(path, file)
        except Unusable as error:
            logger.info("%s is read: %s", path.name, error)
            self._captures.back_to(before)
            self._read(path, file)
        else:
            for _, page in sorted(pages):
                self._put(page)

    def lines(self) -> Iterator[bytes]:
        """The lines of all captures, in order."""
        return self._captures.sorted()

    def needs(self) -> Iterator[Need]:
        """What revisits refer to but none of the files has."""
        return (need for _, _, need in self._captures.unresolved())

    def page_lines(self) -> BinaryIO:
        """The list of pages, from its start."""
        self._pages.seek(0)
        return self._pages

    def _listed(self, path: Path, file: BinaryIO) -> list[tuple[int, bytes]]:
        """Take in what the index beside *path* says; return its pages by offset.

        Raises:
            Unusable: There is none, or it does not fit this file.
        """
        beside = beside_of(path)
        pages: list[tuple[int, bytes]] = []
        places: dict[int, int] = {}
        last = b""
        with _opened(beside) as index:
            while raw := index.readline(LINE_LIMIT):
                if raw < last:
                    raise Unusable(beside, f"is not sorted at {raw[:200]!r}")
                last = raw
                try:
                    line = parse(raw)
                except ValueError as error:
                    raise Unusable(beside, f"{error}: {raw[:200]!r}") from None
                if line.filename != path.name:
                    raise Unusable(beside, f"is of {line.filename[:200]!r}")
                if line.offset in places:
                    raise Unusable(beside, f"two captures share byte {line.offset}")
                places[line.offset] = line.length
                page = self._take(beside, line)
                if page is not None:
                    pages.append((line.offset, page))
        end = max((offset + length for offset, length in places.items()), default=0)
        _require_no_capture_behind(beside, end, file)
        return pages

    def _take(self, beside: Path, line: Capture) -> bytes | None:
        """Take in a line of an index; return its line in the list of pages, if any."""
        self._captures.add(line)
        if line.kind == "revisit" and not line.refers_to:
            raise Unusable(beside, f"lacks an original of {line.url[:200]}")
        is_page = (
            line.kind != "revisit"
            and line.status in {"200", ""}  # a resource record has none
            and line.mime.lower() in HTML
            and not line.asked.method
        )
        if is_page and line.title is None:
            raise Unusable(beside, f"lacks the title of a page: {line.url[:200]}")
        return page_of(line, self._seeds)

    def _read(self, path: Path, file: BinaryIO) -> None:
        self.read += 1
        found = records_of(str(path), blocks_of(file))
        for capture in captures_in(found, path.name, self._unlisted):
            self._captures.add(capture)
            self._put(page_of(capture, self._seeds))

    def _put(self, page: bytes | None) -> None:
        if page is not None:
            self._pages.write(page)
            self.pages += 1


def _opened(beside: Path) -> BinaryIO:
    try:
        file = open_input(beside)
    except FileNotFoundError:
        raise Unusable(beside, "is not there") from None
    if os.fstat(file.fileno()).st_size > LISTING_LIMIT:
        file.close()
        raise Unusable(beside, "is too large")
    return file


def _require_no_capture_behind(beside: Path, end: int, file: BinaryIO) -> None:
    """Check that *file* has only whole records from *end* on, none of them a capture.

    Raises:
        Unusable: It has a capture there, is shorter, or is cut off.
    """
    if end > file.seek(0, os.SEEK_END):
        raise Unusable(beside, "the file is shorter than its index says")
    try:
        for found in records_in(file, str(beside), end):
            if found.kind in INDEXED:
                raise Unusable(beside, f"leaves out the record at byte {found.offset}")
    except BadWarc as error:
        raise Unusable(beside, f"{error.reason} at byte {error.offset}") from None
