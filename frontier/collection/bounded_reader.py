"""Lines and records from files that are not trusted, in bounded memory.

What always holds:

1.  Memory does not grow with the file: what is read at once, and the longest
    line that is kept, have a limit.
2.  What is compressed is read no further than `input_files.MAX_RATIO` times its size,
    so that a bomb ends as an error.
3.  A file is first read to its end (`Texts.verify`), which checks its sums, and
    only then for what is in it. A broken one gives nothing.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from isal import igzip, isal_zlib

from frontier.collection.foreign_indexes import MAX_LINE
from frontier.errors import SourceBroken
from frontier.files import require_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 1 << 18
"""Bytes that are read at once."""
GZIP = b"\x1f\x8b"
INDEXES = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
MAX_INDEXES = 1_000
"""Index files of one WACZ; py-wacz and Browsertrix write one or two."""
_BROKEN: tuple[type[Exception], ...] = (
    EOFError,
    OSError,
    RuntimeError,  # zipfile: the file is encrypted
    NotImplementedError,  # zipfile: a method that Python does not have
    UnicodeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    cast("type[Exception]", isal_zlib.error),
)


@dataclass(slots=True)
class Texts:
    """Files of lines, one after the other, each compressed or not."""

    files: list[tuple[str, IO[bytes]]]
    """Names, for messages, and files that can be read again."""

    def verify(self) -> int:
        """Read everything to its end; return about how many lines there are.

        Raises:
            SourceBroken: Something is cut off, damaged, or a bomb.
        """
        count = 0
        for name, file in self.files:
            with _named(name):
                for block in _text(file):
                    count += block.count(b"\n")
        return count

    def blocks(self) -> Iterator[tuple[str, list[bytes | None]]]:
        """The name of a file and some of its lines; ``None`` for one too long.

        Raises:
            SourceBroken: Something is cut off, damaged, or a bomb.
        """
        for name, file in self.files:
            with _named(name):
                for lines in _split(file):
                    yield name, lines

    def close(self) -> None:
        """Close the files."""
        for _, file in self.files:
            file.close()


def indexes_of(wacz: IO[bytes], name: str) -> Texts:
    """The index files of the WACZ file *wacz*, copied out of it.

    Raises:
        SourceBroken: It is not a WACZ file, or has no index.
    """
    found = Texts([])
    try:
        with zipfile.ZipFile(wacz) as archive:
            members = [
                member
                for member in archive.infolist()
                if member.filename.startswith("indexes/")
                and member.filename.endswith(INDEXES)
            ]
            if len(members) > MAX_INDEXES:
                raise SourceBroken(name, f"it has {len(members):,} indexes")
            for member in members:
                require_ratio(member.file_size, member.compress_size)
                copy = tempfile.TemporaryFile(prefix="frontier-")  # noqa: SIM115
                found.files.append((f"{name}: {member.filename!r}", copy))
                with archive.open(member) as entry:
                    shutil.copyfileobj(entry, copy, BLOCK)
    except _BROKEN as error:
        found.close()
        raise SourceBroken(name, f"no readable WACZ: {error}") from error
    if not found.files:
        raise SourceBroken(name, "there is no indexes/*.cdx, .cdxj or .cdx.gz in it")
    return found


def _split(file: IO[bytes]) -> Iterator[list[bytes | None]]:
    """Lines without their ends, some at a time; empty ones are left out."""
    rest, too_long = b"", False
    for block in _text(file):
        lines: list[bytes | None] = [*(rest + block).split(b"\n")]
        last = lines.pop() or b""
        if lines and too_long:
            lines[0], too_long = None, False
        if len(last) > MAX_LINE:
            last, too_long = b"", True
        rest = last
        yield [line.rstrip(b"\r") if line else line for line in lines if line != b""]
    if too_long:
        yield [None]
    elif rest:
        yield [rest.rstrip(b"\r")]


def _text(file: IO[bytes]) -> Iterator[bytes]:
    """What is in *file*, some at a time, inflated if it is compressed."""
    file.seek(0)
    compressed = file.read(2) == GZIP
    file.seek(0)
    text: Any = file
    if compressed:
        text = igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
    total = 0
    while block := text.read(BLOCK):
        total += len(block)
        if compressed:
            require_ratio(total, file.tell())
        yield block


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say of what is broken which file it is."""
    try:
        yield
    except _BROKEN as error:
        raise SourceBroken(name, str(error) or type(error).__name__) from error
