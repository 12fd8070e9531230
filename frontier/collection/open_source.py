"""Open a source: from the disk or the network, checked as far as can be."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from frontier.collection.bounded_reader import BLOCK, Texts, indexes_of
from frontier.collection.fetch import fetched, read_url
from frontier.collection.sources import MAX_MANIFEST, Kind, Source, is_url
from frontier.errors import SourceBroken
from frontier.files import open_input, read_input
from frontier.warc.warc_to_cdx import cdx_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows how far something is, given what it is, its total, and what is done."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A source whose lines can be read."""

    texts: Texts
    size: int
    """In bytes."""
    sha256: str
    """Bare hex; empty if nobody has computed it."""
    file: IO[bytes]
    """All of it; the texts of a WACZ or WARC are copies."""


@contextmanager
def opened(
    source: Source,
    *,
    verify: bool,
    hashed: bool,
    digest: str = "",
    bar: Bar = lambda _, __: nullcontext(lambda _: None),
) -> Iterator[Opened]:
    """The lines of *source*, while this lasts.

    *digest* is the algorithm that those of a WARC file are to be of, if any; see
    `frontier.warc.warc_to_cdx`. To read one takes long: *bar* shows how far it is.

    With *verify* the hash of a local file must be what its manifest says; with
    *hashed* it is computed in any case. One from the network is not read whole,
    so its hash is taken from the manifest.

    Raises:
        SourceBroken: It cannot be read, or is not what its manifest says.
    """
    with _file(source) as (file, size):
        if source.size is not None and source.size != size:
            raise SourceBroken(
                source.url, f"it has {size:,} bytes, its manifest says {source.size:,}"
            )
        sha256 = source.sha256()
        if not is_url(source.url) and (hashed or (verify and sha256)):
            computed = _sha256(file)
            if verify and sha256 and sha256 != computed:
                raise SourceBroken(
                    source.url, f"its SHA-256 is {computed}, its manifest's {sha256}"
                )
            sha256 = computed
        texts = _texts(source, file, size, digest, bar)
        try:
            yield Opened(texts, size, sha256, file)
        finally:
            texts.close()


def read_manifest(url: str) -> bytes:
    """The content of the manifest at *url*, a path or a URL.

    Raises:
        SourceBroken: It cannot be read, or is too large.
    """
    if is_url(url):
        return read_url(url, MAX_MANIFEST)
    try:
        return read_input(Path(url), MAX_MANIFEST)
    except (OSError, ValueError) as error:
        raise SourceBroken(url, _reason(error)) from None


@contextmanager
def _file(source: Source) -> Iterator[tuple[IO[bytes], int]]:
    if is_url(source.url):
        with fetched(source.url) as found:
            yield found
        return
    path = Path(source.url)
    try:
        file = open_input(path)
        size = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        raise SourceBroken(source.url, _reason(error)) from None
    with file:
        yield file, size


def _texts(source: Source, file: IO[bytes], size: int, digest: str, bar: Bar) -> Texts:
    if source.kind is Kind.WACZ:
        return indexes_of(file, source.url)
    if source.kind is Kind.WARC:
        lines = tempfile.TemporaryFile(prefix="frontier-")  # noqa: SIM115
        try:
            with bar(f"{source.name}, its bytes", 2 * size) as progress:
                for line in cdx_lines(file, source.url, digest, progress):
                    lines.write(line)
        except BaseException:
            lines.close()
            raise
        return Texts([(source.url, lines)])
    return Texts([(source.url, file)])


def _sha256(file: IO[bytes]) -> str:
    file.seek(0)
    computed = hashlib.sha256()
    while block := file.read(BLOCK):
        computed.update(block)
    file.seek(0)
    return computed.hexdigest()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
