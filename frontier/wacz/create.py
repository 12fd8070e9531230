"""Makes a WACZ.

What always holds:

1.  A file is called ``<name>.open`` until its last byte is on disk. A WACZ without
    that suffix is whole.
2.  WARC files are copied as they are, and never changed or deleted.
3.  Memory does not grow with the WARC files, only with the number of payloads to look
    for in other WACZ files.
4.  What a killed run left behind is overwritten by the next.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED

from frontier.errors import BadWacz, BadWarc, FileTaken, NotFound
from frontier.files import (
    FILE_MODE,
    LINK,
    OPEN,
    make_directory,
    open_input,
    published,
)
from frontier.model import frozen
from frontier.wacz import layout
from frontier.wacz.check import check
from frontier.wacz.indexing import Indexing
from frontier.wacz.packing import Pack
from frontier.warc.file_rotation import names_of
from frontier.warc.records import software

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontier.cdx.sorting import Need


@frozen
class Made:
    """A WACZ that was made."""

    path: Path
    captures: int
    pages: int
    requires: list[dict[str, object]]
    """The WACZ files that it needs, as its ``relation.requires`` names them."""
    missing: int
    """Digests of revisits whose original is in none of the given WACZ files."""
    read: int = 0
    """WARC files without an index that fits, which took much longer to read."""


@dataclass(slots=True)
class Options:
    """What goes into a WACZ besides the WARC files, and how it is made."""

    title: str = ""
    seeds: frozenset[str] = frozenset()
    logs: Sequence[Path] = ()
    against: Sequence[Path] = ()
    """WACZ files that may have originals, the preferred first."""
    left_out: Sequence[str] = ()
    """Names of WARC files that should be in it but are not: the WACZ says so."""
    created: float = field(default_factory=time.time)
    replace: bool = False
    """Whether a file of that name may be overwritten."""
    mode: int = FILE_MODE
    """The mode of the file."""
    unlisted: Callable[[BadWarc], object] | None = None
    """Is told of each capture that no index can have; else that is an error."""
    strict: bool = False
    """Whether the result has to pass `check`, which inflates every record."""


def warc_files(
    given: Iterable[Path],
    *,
    crawl_id: str | None = None,
    refused: Callable[[Path, str], object] = lambda *_: None,
) -> list[Path]:
    """Return *given* files, and for a directory the closed WARC files in it.

    With *crawl_id*, return only the files of that crawl, whichever node wrote them. A
    file that is not a regular one, or not closed yet, is left out, as is a link in a
    directory: *refused* is called with it and the reason.

    Raises:
        NotFound: One does not exist.
        BadWacz: Two have the same name.
    """
    found: dict[str, Path] = {}
    for path in given:
        if not path.exists():
            raise NotFound(f"{path}: there is no such file or directory")
        many = [path]
        if path.is_dir():
            many = sorted(
                each
                for each in path.iterdir()
                if each.name.removesuffix(OPEN).endswith(layout.WARCS)
            )
        for each in many:
            if crawl_id is not None and not names_of(crawl_id).fullmatch(each.name):
                continue
            is_link = each is not path and each.is_symlink()
            if why := LINK if is_link else _why_not(each):
                refused(each, why)
                continue
            if found.setdefault(each.name, each).absolute() != each.absolute():
                raise BadWacz(str(each), f"{found[each.name]} has the same name")
    return list(found.values())


def _why_not(path: Path) -> str:
    """Why *path* is left out; empty if it is not."""
    if not path.is_file():
        return "it is not a regular file"
    if path.name.endswith(OPEN):
        return "it is still being written, or to be repaired (frontier warc repair)"
    return ""


def create(
    out: Path,
    warcs: Sequence[Path],
    options: Options | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> Made:
    """Make the WACZ *out* of *warcs*, check it, and only then give it its name.

    *progress* is called with the number of bytes copied from WARC files.

    Raises:
        BadWarc: A WARC file is cut or damaged, or see `Options.unlisted`.
        BadWacz: There are no captures, or the result does not pass `check`.
        FileInUse: Another process is making *out*.
        FileTaken: *out* exists, and is not to be replaced.
        OSError: A file cannot be read or written.
    """
    options = options or Options()
    if out.exists() and not options.replace:
        raise FileTaken(str(out))
    for path in (*warcs, *options.logs):
        if not layout.is_safe(path.name):
            raise BadWacz(str(path), "a WACZ cannot have a file of that name")
    for path in warcs:
        if not path.name.endswith(layout.WARCS):
            raise BadWacz(str(path), f"its name ends in none of {layout.WARCS}")
    make_directory(out.parent, options.mode)
    date = time.gmtime(max(options.created, 315_619_200))[:6]  # zips know none before
    with (
        published(out, options.mode) as file,
        Pack(file, str(out), date) as pack,
        contextlib.ExitStack() as stack,
    ):
        indexing = Indexing(stack, out.parent, options.seeds, options.unlisted)
        for path in warcs:
            with open_input(path) as source:
                indexing.add(path, source)
                pack.copy(layout.ARCHIVE + path.name, source, progress)
        total = pack.add_index(indexing.captures.sorted())
        if not total:
            raise BadWacz(str(out), "there are no WARC files with captures")
        needed, missing = requires(indexing.captures.unresolved(), options.against)
        pack.copy(layout.PAGES, indexing.pages, packing=ZIP_DEFLATED)
        for log in options.logs:
            with open_input(log) as stream:
                pack.copy(layout.LOGS + log.name, stream, packing=ZIP_DEFLATED)
        pack.finish(_package(options, needed))
        if options.strict:
            found = check(Path(f"{out}{OPEN}"), options.against, out.name)
            known = "unresolved", "incomplete"
            for wrong in (c for c in found if not c.startswith(known)):
                raise BadWacz(str(out), f"would be wrong: {wrong}")
    return Made(out, total, indexing.page_count, needed, len(missing), indexing.read)


def _package(
    options: Options, needed: Sequence[dict[str, object]]
) -> dict[str, object]:
    created = datetime.fromtimestamp(int(options.created), UTC)
    package: dict[str, object] = {
        "profile": "data-package",
        "wacz_version": layout.VERSION,
        "created": created.isoformat().replace("+00:00", "Z"),
        "software": software(),
    }
    if options.title:
        package["title"] = options.title
    if options.left_out:
        package[layout.LEFT_OUT] = sorted(set(options.left_out))
    if needed:
        package["relation"] = {"requires": needed}
    return package


def requires(
    needs: Iterable[tuple[str, int, Need]], candidates: Iterable[Path]
) -> tuple[list[dict[str, object]], set[str]]:
    """Return which *candidates* meet *needs*, and the digests that none of them has.

    *needs* have file and offset of their revisits before them.

    A need is met by a file that has the payload under the URL that the revisit refers
    to: that is where a replay tool looks. If several have it, the one that has the
    capture of that time is taken, else the first of them.

    Raises:
        BadWacz: A candidate cannot be read.
    """
    by_digest: dict[str, set[Need]] = {}
    for _, _, need in needs:
        by_digest.setdefault(need.digest, set()).add(need)
    wanted = set().union(*by_digest.values())
    exact: dict[Need, Path] = {}
    near: dict[Need, Path] = {}
    paths = list(candidates)
    for path in paths:
        if len(exact) == len(wanted):
            break
        for found in layout.originals(path):
            for need in by_digest.get(found.digest, ()):
                if need.key == found.key:
                    near.setdefault(need, path)
                    if need.time in {"", found.time}:
                        exact.setdefault(need, path)
    used = set((near | exact).values())
    missing = {need.digest for need in wanted - near.keys()}
    return [_required(path) for path in paths if path in used], missing


def _required(path: Path) -> dict[str, object]:
    with open_input(path) as stream:
        value, size = layout.hash_of(stream)
    value = value.removeprefix("sha256:")
    return {"filename": path.name, "hash": value, "size": size}
