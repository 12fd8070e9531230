"""Making a WACZ.

What always holds:

1.  A file is called ``<name>.open`` until it was checked and its last byte is
    on disk. A WACZ without that suffix is whole.
2.  WARC files are read once, in order, and copied as they are; nothing is kept
    in memory but a block. They are never changed or deleted.
3.  What a killed run left behind is overwritten by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from frontier.cdx import zipnum
from frontier.cdx.lines import line_of
from frontier.cdx.reader import records
from frontier.cdx.sorting import Captures
from frontier.errors import BadWacz
from frontier.wacz import layout, rules
from frontier.wacz.check import check
from frontier.wacz.pages import page_of
from frontier.wacz.requires import Required, requires

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import BinaryIO

OPEN = ".open"
_UNSAFE = re.compile(r"^[.-]|[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Made:
    """A WACZ that was made."""

    path: Path
    captures: int
    pages: int
    requires: list[Required]
    missing: int
    """Digests of revisits whose original is in none of the given WACZ files."""


@dataclass(slots=True)
class Options:
    """What goes into a WACZ beside the WARC files."""

    title: str = ""
    seeds: frozenset[str] = frozenset()
    logs: Sequence[Path] = ()
    against: Sequence[Path] = ()
    """WACZ files that may hold originals, the preferred first."""
    created: float = field(default_factory=time.time)


def warc_files(given: Iterable[Path], *, crawl_id: str | None = None) -> list[Path]:
    """Return *given* files, and for a directory the closed WARC files in it.

    With *crawl_id* only the files of that crawl, whichever node wrote them.

    Raises:
        BadWacz: One does not exist, or two have the same name.
    """
    found: dict[str, Path] = {}
    for path in given:
        if not path.exists():
            raise BadWacz(str(path), "there is no such file or directory")
        many = sorted(path.glob("*.warc.gz")) if path.is_dir() else [path]
        for each in many:
            if crawl_id is not None and not is_of(each.name, crawl_id):
                continue
            if found.setdefault(each.name, each).absolute() != each.absolute():
                raise BadWacz(str(each), f"{found[each.name]} has the same name")
    return list(found.values())


def create(
    out: Path,
    warcs: Sequence[Path],
    options: Options | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> Made:
    """Make the WACZ *out* of *warcs*, check it, and only then give it its name.

    *progress* is told how many bytes of WARC were read.

    Raises:
        BadWarc: A WARC file is cut or damaged.
        BadWacz: There are no captures, another process makes *out*, or the
            result does not pass `check`.
        OSError: A file cannot be read or written.
    """
    options = options or Options()
    if not warcs:
        raise BadWacz(str(out), "there are no WARC files to put into it")
    for path in (*warcs, *options.logs):
        if not layout.is_safe(path.name):
            raise BadWacz(str(path), "a WACZ cannot have a file of that name")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(out.name + OPEN)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o644), "rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = os.path.samestat(temporary.stat(), os.fstat(file.fileno()))
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if not ours:  # or renamed since it was opened: it is a finished WACZ now
            raise BadWacz(str(out), "another process is making it")
        file.truncate(0)
        file.seek(0)
        try:
            made = _Maker(file, out, options, progress).make(warcs)
            file.flush()
            os.fsync(file.fileno())
            _verify(temporary, out, options)
        except Exception:
            temporary.unlink(missing_ok=True)
            raise
        temporary.replace(out)
    descriptor = os.open(out.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return made


def _verify(temporary: Path, out: Path, options: Options) -> None:
    complaints = check(temporary, against=options.against)
    serious = [c for c in complaints if not c.startswith("unresolved")]
    if serious:
        raise BadWacz(str(out), f"would be wrong: {serious[0]}")


class _Maker:
    def __init__(
        self,
        file: BinaryIO,
        out: Path,
        options: Options,
        progress: Callable[[int], object],
    ) -> None:
        self._out = out
        self._options = options
        self._progress = progress
        self._zip = zipfile.ZipFile(file, "w", allowZip64=True)
        self._date = time.gmtime(max(options.created, 315_619_200))[:6]
        self._resources: list[dict[str, object]] = []
        self._scratch = [
            out.with_name(f"{out.name}{OPEN}.{part}") for part in ("pages", "cdx")
        ]

    def make(self, warcs: Sequence[Path]) -> Made:
        captures = Captures(out_of(self._out, "db"))
        try:
            with self._scratch[0].open("wb+") as pages:
                count = self._archive(warcs, captures, pages)
                total = self._index(captures)
                if not total:
                    raise BadWacz(str(self._out), "the WARC files have no captures")
                pages.seek(0)
                self._add(layout.PAGES, layout.blocks(pages.read), deflate=True)
            for log in self._options.logs:
                with log.open("rb") as stream:
                    name = layout.LOGS + log.name
                    self._add(name, layout.blocks(stream.read), deflate=True)
            for name, data in rules.members(warcs):
                self._add(name, [data], deflate=True)
            wanted = {digest for _, _, digest, _ in captures.unresolved()}
            needed, missing = requires(wanted, self._options.against)
            self._package(needed)
        finally:
            self._zip.close()
            captures.close()
            for path in self._scratch:
                path.unlink(missing_ok=True)
        return Made(self._out, total, count, needed, len(missing))

    def _archive(
        self, warcs: Sequence[Path], captures: Captures, pages: BinaryIO
    ) -> int:
        pages.write(json.dumps(layout.PAGES_HEADER).encode() + b"\n")
        count = 0
        for path in warcs:
            with path.open("rb") as stream:
                name = layout.ARCHIVE + path.name
                copied = self._copy(name, layout.blocks(stream.read), deflate=False)
                # Closed before the zip is, should a record be damaged.
                with contextlib.closing(copied):
                    for found in records(str(path), copied):
                        line = line_of(found, path.name)
                        if line is None:
                            continue
                        captures.add(line, found)
                        page = page_of(found, line, self._options.seeds)
                        if page is not None:
                            pages.write(page)
                            count += 1
        return count

    def _index(self, captures: Captures) -> int:
        with self._scratch[1].open("wb+") as data:
            index = out_of(self._out, "idx")
            self._scratch.append(index)
            with index.open("wb+") as second:
                name = Path(layout.INDEX).name
                total = zipnum.write(captures.sorted(), data, second, name)
                data.seek(0)
                second.seek(0)
                self._add(layout.INDEX, layout.blocks(data.read))
                self._add(layout.INDEX_INDEX, layout.blocks(second.read))
        return total

    def _add(self, name: str, data: Iterable[bytes], *, deflate: bool = False) -> None:
        for _ in self._copy(name, data, deflate=deflate):
            pass

    def _copy(
        self, name: str, data: Iterable[bytes], *, deflate: bool
    ) -> Generator[bytes, None, None]:
        """Put *data* into the file as *name*, and pass it on."""
        digest, size = hashlib.sha256(), 0
        with self._zip.open(self._info(name, deflate), "w", force_zip64=True) as to:
            for block in data:
                to.write(block)
                digest.update(block)
                size += len(block)
                if name.startswith(layout.ARCHIVE):
                    self._progress(len(block))
                yield block
        self._resources.append(
            {
                "name": Path(name).name,
                "path": name,
                "hash": f"sha256:{digest.hexdigest()}",
                "bytes": size,
            }
        )

    def _info(self, name: str, deflate: bool) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, self._date)
        info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        info.external_attr = 0o644 << 16
        return info

    def _package(self, needed: list[Required]) -> None:
        created = datetime.fromtimestamp(int(self._options.created), UTC)
        package: dict[str, object] = {
            "profile": "data-package",
            "wacz_version": layout.VERSION,
            "created": created.isoformat().replace("+00:00", "Z"),
            "software": _software(),
            "resources": self._resources,
        }
        if self._options.title:
            package["title"] = self._options.title
        if needed:
            package["relation"] = {"requires": [each.facts() for each in needed]}
        data = json.dumps(package, indent=2).encode()
        self._zip.writestr(self._info(layout.PACKAGE, deflate=True), data)
        value = f"sha256:{hashlib.sha256(data).hexdigest()}"
        digest = json.dumps({"path": layout.PACKAGE, "hash": value}).encode()
        self._zip.writestr(self._info(layout.DIGEST, deflate=True), digest)


def is_of(name: str, crawl_id: str) -> bool:
    """Whether a node of the crawl gave a WARC file its *name*."""
    begin = re.escape(_UNSAFE.sub("_", crawl_id)[:100])
    return re.fullmatch(rf"{begin}-[0-9]{{17}}-[0-9]{{5,}}-.+", name) is not None


def out_of(out: Path, part: str) -> Path:
    """Return where scratch data of *out* is."""
    return out.with_name(f"{out.name}{OPEN}.{part}")


def _software() -> str:
    try:
        return f"frontier-crawl/{version('frontier-crawl')}"
    except PackageNotFoundError:
        return "frontier-crawl"
