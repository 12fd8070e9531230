"""Takes the WARC files out of a WACZ to be read, and puts them back.

What always holds:

1.  A WACZ is old or new: the new one is on disk before it gets the name. Members that
    have nothing to do with the changed records keep their bytes.
2.  A copy that was taken out gets its name when it is whole. If the WACZ has changed
    since, an older copy is in another directory, and never used.
3.  Names of members are not trusted: one that leads elsewhere is refused. Sizes are
    those that the zip's directory states.
"""

from __future__ import annotations

import contextlib
import json
from typing import IO, TYPE_CHECKING

from frontier.errors import BadWacz
from frontier.files import (
    make_directory,
    mode_of_environment,
    open_input,
    published,
)
from frontier.model import frozen
from frontier.postcrawl.manifest import identity, to_second
from frontier.wacz import layout
from frontier.wacz.indexing import Indexing
from frontier.wacz.packing import Pack
from frontier.warc.reader import parts_of
from frontier.warc.remote_files import open_file

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Callable, Iterator
    from pathlib import Path


_PAGES = "pages/"
_LINE = 1 << 24
"""The longest line of a list of pages, which may have a page's text, in bytes."""


@frozen
class Unpacked:
    """The WARC files of a WACZ, taken out."""

    path: Path
    warcs: dict[str, Path]
    """The path of each, by the name of its member."""


def unpack(path: Path, directory: Path, suffix: str = "") -> Unpacked:
    """Copy the WARC files of the WACZ *path* below *directory*, unless they are there.

    Their names get *suffix*.

    Raises:
        BadWacz: It is no WACZ, or a member is damaged or has a name that is not safe.
        OSError: It cannot be read, or a file cannot be written.
    """
    with open_file(path) as file:
        where = directory / f"{path.name}.{identity(file)[1][:12]}"
        file.seek(0)
        with layout.unzipped(file, path) as archive:
            warcs = {
                info.filename: _take(archive, info, where, suffix)
                for info in archive.infolist()
                if _is_warc(info.filename)
            }
    return Unpacked(path, warcs)


def _is_warc(name: str) -> bool:
    return name.startswith(layout.ARCHIVE) and name.endswith(layout.WARCS)


def _take(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    where: Path,
    suffix: str,
) -> Path:
    """Copy the member *info* below *where*.

    Raises:
        ValueError: Its name is not safe, or it is a bomb, for example.
    """
    layout.require_sound(info)
    place = where / (info.filename + suffix)
    if place.exists() and place.stat().st_size == info.file_size:
        return place
    mode = mode_of_environment()
    make_directory(place.parent, mode)
    with archive.open(info) as source, published(place, mode) as target:
        target.writelines(parts_of(source))
    return place


def repack(
    unpacked: Unpacked,
    has_left: Callable[[str, str], bool],
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Put the WARC files, which have changed, back, with an index of their content.

    Pages leave the lists of pages if *has_left*, given URL and second, says so. *say*
    is told of members that may still name them.

    Raises:
        BadWacz: The WACZ is invalid, or would be.
        BadWarc: A WARC file cannot be indexed.
        FileInUse: Another process writes the WACZ.
        OSError: A file cannot be read or written. The WACZ is what it was.
    """
    path, warcs = str(unpacked.path), unpacked.warcs
    with (
        published(unpacked.path, mode_of_environment()) as new,
        open_input(unpacked.path) as old,
        layout.unzipped(old, path) as archive,
        Pack(new, path, min(i.date_time for i in archive.infolist())) as pack,
        contextlib.ExitStack() as stack,
    ):
        for name in warcs:
            if name.count("/") > 1:
                raise BadWacz(path, f"{name} cannot be indexed")
        facts: dict[str, object] = {layout.PACKAGE: {}, layout.DIGEST: {}}
        for info in archive.infolist():
            name = info.filename
            if name in facts:
                facts[name] = layout.read_json(archive, name)
            elif name in warcs:
                with open_input(warcs[name]) as source:
                    pack.copy(name, source)
            elif not (info.is_dir() or name.startswith(layout.INDEXES)):
                is_pages = name.startswith(_PAGES) and name.endswith(".jsonl")
                with archive.open(info) as member:
                    parts = _pages(member, has_left) if is_pages else parts_of(member)
                    pack.add(name, parts, info.file_size)
                if not is_pages:
                    say(f"{path}: {name} is what it was, and may name what has left")
        directory = min(place.parent for place in warcs.values())
        indexing = Indexing(
            stack, directory, frozenset(), unlisted=lambda error: say(str(error))
        )
        for place in warcs.values():
            with open_input(place) as source:
                indexing.add(place, source)
        pack.add_index(indexing.captures.sorted())
        package, said = facts.values()
        if not isinstance(package, dict):
            raise BadWacz(path, f"{layout.PACKAGE} is not a JSON object")
        pack.finish(package)
        if isinstance(said, dict) and "signedData" in said:
            say(f"{path}: its signature was of what it was")


def _pages(source: IO[bytes], has_left: Callable[[str, str], bool]) -> Iterator[bytes]:
    """The lines of a list of pages, without those of which *has_left* says so."""
    while line := source.readline(_LINE):
        try:
            facts = json.loads(line)
            url, date = str(facts["url"]), to_second(str(facts.get("ts", "")))
        except (ValueError, KeyError, TypeError, RecursionError):
            yield line  # the first line, which names the list
            continue
        if not has_left(url, date):
            yield line
