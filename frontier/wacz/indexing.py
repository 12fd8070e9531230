"""The index, the pages and the needs of a set of WARC files.

What always holds:

1.  Each capture has one line: from the index beside its file or, if that is missing
    or does not fit, from the file itself.
2.  Data that grows with the files is in files next to the output, not in memory. An
    index beside a file is used only up to `LISTING_LIMIT` bytes.
3.  An index is used only if it names its file, and the file has no capture after the
    last one listed: an index that is older than its file, or longer, is not used.
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
import tempfile
from typing import TYPE_CHECKING, BinaryIO

from frontier.cdx.lines import HTML, INDEXED, LINE_LIMIT, captures_in, parse
from frontier.cdx.sorting import captures_at
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.wacz import layout
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.reader import blocks_of, records_in, records_of

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable
    from pathlib import Path


logger = logging.getLogger(__name__)

LISTING_LIMIT = 96 << 20
"""The largest index that is used, in bytes: some 200,000 captures. The lines of its
pages are in memory until all of it is read."""


class Indexing:
    """Takes in WARC files one after another; belongs to one thread."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        directory: Path,
        seeds: frozenset[str],
        unlisted: Callable[[BadWarc], object] | None = None,
    ) -> None:
        """Begin with no files; scratch files, without names, are in *directory*.

        *stack* closes them. For *unlisted* see `frontier.cdx.lines.captures_in`.
        """
        self.page_count = 0
        self.read = 0
        """The number of files that were read because no index could be used."""
        self.captures = stack.enter_context(captures_at(directory))
        self._seeds = seeds
        self._unlisted = unlisted
        scratch = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - see *stack*
        self.pages = stack.enter_context(scratch)
        """The list of pages, at its end."""
        self.pages.write(json.dumps(layout.PAGES_HEADER).encode() + b"\n")

    def add(self, path: Path, file: BinaryIO) -> None:
        """Take in the captures of the WARC file *path*, open as *file*.

        Raises:
            BadWarc: It has no index that fits, and is cut or damaged.
            OSError: Something cannot be read or written.
        """
        self.captures.keep()
        beside = beside_of(path)
        try:
            pages = self._listed(beside, path.name, file)
        except (ValueError, BadWarc, FileNotFoundError) as error:
            logger.info("%s is read: %s cannot be used: %s", path.name, beside, error)
            self.captures.undo()
            self.read += 1
            records = records_of(str(path), blocks_of(file))
            for capture in captures_in(records, path.name, self._unlisted):
                self.captures.add(capture)
                self._put(layout.page_of(capture, self._seeds))
        else:
            for _, page in sorted(pages):
                self._put(page)

    def _listed(
        self, beside: Path, name: str, file: BinaryIO
    ) -> list[tuple[int, bytes]]:
        """Take in what the index *beside* says; return its pages by offset.

        Raises:
            ValueError: It does not fit *file*, which is called *name*.
            BadWarc: The file is cut off behind its last capture.
            FileNotFoundError: There is none.
        """
        pages: list[tuple[int, bytes]] = []
        places: set[int] = set()
        end = 0
        with open_input(beside) as index:
            if os.fstat(index.fileno()).st_size > LISTING_LIMIT:
                raise ValueError("it is too large")
            while raw := index.readline(LINE_LIMIT):
                line = parse(raw)
                if line.filename != name:
                    raise ValueError(f"it is of {line.filename[:200]!r}")
                if line.offset in places:
                    raise ValueError(f"two captures share byte {line.offset}")
                places.add(line.offset)
                end = max(end, line.offset + line.length)
                self.captures.add(line)
                if page := layout.page_of(line, self._seeds):
                    pages.append((line.offset, page))
                if line.kind == "revisit":
                    if not line.refers_to:
                        raise ValueError(f"it lacks an original of {line.url[:200]}")
                elif (
                    not page
                    and line.status in {"200", ""}  # a resource record has none
                    and line.mime.lower() in HTML
                    and not line.asked.method
                ):
                    raise ValueError(f"it lacks the title of a page: {line.url[:200]}")
        if end > file.seek(0, os.SEEK_END):
            raise ValueError("the file is shorter than its index says")
        for found in records_in(file, name, end):
            if found.kind in INDEXED:
                raise ValueError(f"it leaves out the record at byte {found.offset}")
        return pages

    def _put(self, page: bytes | None) -> None:
        if page is not None:
            self.pages.write(page)
            self.page_count += 1
