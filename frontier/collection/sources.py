"""What is to be imported: WACZ files, lists of them, WARC files, indexes, logs.

What always holds:

1.  A manifest does not choose which files of this machine are read: the paths in
    it lead to files below one directory, those in one from the network nowhere.
2.  An entry that is wrong is named, and the others are used.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

from frontier.errors import SourceBroken
from frontier.store.keys import names_a_crawl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MAX_MANIFEST = 64 << 20
"""Bytes of a manifest: some 200,000 WACZ files."""
MAX_NAME = 2_000
"""Characters of the name of a source, or of the id of a crawl."""
_HASH = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")


class Kind(StrEnum):
    """What a source is, by the end of its name."""

    WACZ = "wacz"
    MANIFEST = "manifest"
    WARC = "warc"
    CDX = "cdx"
    CRAWL_LOG = "crawl.log"


_KINDS = {
    ".wacz": Kind.WACZ,
    ".json": Kind.MANIFEST,
    ".warc": Kind.WARC,
    ".warc.gz": Kind.WARC,
    ".cdx": Kind.CDX,
    ".cdx.gz": Kind.CDX,
    ".cdxj": Kind.CDX,
    ".cdxj.gz": Kind.CDX,
    ".log": Kind.CRAWL_LOG,
    ".log.gz": Kind.CRAWL_LOG,
}


_ARC = "ARC files have no digests; make a WARC of it: warcio recompress OLD NEW.warc.gz"
_ZSTD = "WARC files in Zstandard are not read; make one of gzip, or import its index"
_REFUSED = {".arc": _ARC, ".arc.gz": _ARC, ".warc.zst": _ZSTD}
"""Archives all the same, and what to do with them."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file."""

    name: str
    """Its identity in the collection: what was imported under it is not again."""
    url: str
    """A path, or a URL."""
    crawl_id: str
    size: int | None = None
    """In bytes, as a manifest has it."""
    hash: str = ""
    """SHA-256 as a manifest has it."""
    listed: bool = False
    """Whether its crawl was named, and not made up from its path."""

    def __post_init__(self) -> None:
        """Refuse an id that leads to keys of another crawl, or a name that is not text.

        Raises:
            SourceBroken: No crawl can have that id, or the store that name.
        """
        for text in (self.name, self.url, self.crawl_id):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise SourceBroken(self.url, "its name is not UTF-8") from None
        if not names_a_crawl(self.crawl_id):
            raise SourceBroken(self.url, f"no crawl has the id {self.crawl_id[:80]!r}")

    @property
    def kind(self) -> Kind:
        """What it is."""
        return kind_of(self.url)

    def entry(self, size: int | None = None, digest: str = "") -> str:
        """What stands for it in the list of its crawl's files."""
        facts = {"size": size, "hash": digest}
        entry = {k: v for k, v in facts.items() if v} | self._facts()
        return json.dumps({"filename": self.name, **entry}, separators=(",", ":"))

    def sha256(self) -> str:
        """Its hash in bare hex; empty if there is none.

        Raises:
            SourceBroken: It is not a SHA-256.
        """
        if not self.hash:
            return ""
        if found := _HASH.fullmatch(self.hash):
            return found[1].lower()
        raise SourceBroken(self.url, f"its hash {self.hash[:80]!r} is not a SHA-256")

    def _facts(self) -> dict[str, Any]:
        facts = {"size": self.size, "hash": self.hash}
        return {name: value for name, value in facts.items() if value}


def is_url(text: str) -> bool:
    """Whether *text* is a URL and no path."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text))


def kind_of(url: str) -> Kind:
    """What the file at *url* is.

    Raises:
        SourceBroken: Its name does not tell.
    """
    path = _path_in(url) if is_url(url) else url
    name = re.split(r"[/\\]", path.lower())[-1]
    for end, kind in _KINDS.items():
        if name.endswith(end):
            return kind
    for end, reason in _REFUSED.items():
        if name.endswith(end):
            raise SourceBroken(url, reason)
    ends = " ".join(_KINDS)
    raise SourceBroken(url, f"its name ends in none of {ends}")


def sources(
    target: str,
    read: Callable[[str], bytes],
    *,
    crawl_id: str = "",
    root: Path | None = None,
    broken: Callable[[SourceBroken], None],
) -> Iterator[Source]:
    """The sources that *target*, a path or URL, names, in their order.

    *read* gives the content of a manifest. Paths in a local one lead from its
    directory, and not out of *root*, by default that directory. What has no crawl
    of its own is of *crawl_id*, else of a crawl that is named like its path. Of a
    directory, these are the WARC and WACZ files in and below it, by their paths.

    Raises:
        SourceBroken: *target* itself cannot be used.
    """
    if not is_url(target) and Path(target).is_dir():
        yield from _below(Path(target), crawl_id or target, bool(crawl_id), broken)
        return
    if kind_of(target) is not Kind.MANIFEST:
        url = target if is_url(target) else str(Path(target).absolute())
        crawl = crawl_id or target
        yield Source(_basename(target), url, crawl, listed=bool(crawl_id))
        return
    for number, resource in enumerate(_resources(target, read(target))):
        try:
            found = _entry(f"{target}: resources[{number}]", resource, crawl_id)
            url = _resolved(found.url, target, root)
            is_nested = kind_of(url) is Kind.MANIFEST
        except SourceBroken as error:
            broken(error)
            continue
        if is_nested:
            broken(SourceBroken(url, "a manifest in a manifest; import it by itself"))
        else:
            yield replace(found, url=url)


def _below(
    directory: Path, crawl_id: str, listed: bool, broken: Callable[[SourceBroken], None]
) -> Iterator[Source]:
    found = False
    for path in sorted(directory.rglob("*")):
        if path.name.lower().endswith((".warc", ".warc.gz", ".wacz")):
            found = True
            try:
                made = Source(path.name, str(path.absolute()), crawl_id, listed=listed)
            except SourceBroken as error:
                broken(error)
                continue
            yield made
    if not found:
        raise SourceBroken(str(directory), "no .warc, .warc.gz or .wacz is below it")


def _resources(manifest: str, data: bytes) -> list[Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SourceBroken(manifest, f"not JSON: {error}") from None
    resources = found.get("resources") if isinstance(found, dict) else None
    if not isinstance(resources, list):
        raise SourceBroken(manifest, "it has no list of resources")
    return resources


def _entry(where: str, resource: Any, crawl_id: str) -> Source:
    if not isinstance(resource, dict):
        raise SourceBroken(where, "it is not an object")
    path = resource.get("path") or resource.get("url")
    if not isinstance(path, str) or not path:
        raise SourceBroken(where, "it has no path")
    name = resource.get("name") or _basename(path)
    crawl = resource.get("crawlId") or ""
    size, digest = resource.get("size"), resource.get("hash") or ""
    for what, text in (("name", name), ("crawlId", crawl), ("path", path)):
        if not isinstance(text, str) or len(text) > MAX_NAME or not text.isprintable():
            raise SourceBroken(where, f"its {what} is not printable text, or too long")
    if size is not None and (
        isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**50
    ):
        raise SourceBroken(where, f"its size {str(size)[:40]!r} cannot be right")
    if not isinstance(digest, str) or len(digest) > 200:
        raise SourceBroken(where, "its hash is not text")
    made = Source(
        name, path, crawl or crawl_id or path, size, digest, bool(crawl or crawl_id)
    )
    made.sha256()
    return made


def _resolved(path: str, manifest: str, root: Path | None) -> str:
    """Where *path* in *manifest* leads.

    Raises:
        SourceBroken: To where it may not.
    """
    if is_url(path):
        return path
    if is_url(manifest):
        if path.startswith("//"):
            raise SourceBroken(path, "neither a URL nor a path")
        try:
            return urljoin(manifest, path)
        except ValueError as error:
            raise SourceBroken(path, f"no URL: {error}") from None
    here = Path(manifest).resolve().parent
    top = (root or here).resolve()
    try:
        found = (here / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceBroken(path, f"no path: {error}") from None
    if not found.is_relative_to(top):
        raise SourceBroken(
            path, f"{manifest} names a file outside {top}; allow it with --root"
        )
    return str(found)


def _path_in(url: str) -> str:
    """The path of *url*, unquoted.

    Raises:
        SourceBroken: It is not a URL.
    """
    try:
        return unquote(urlsplit(url).path)
    except ValueError as error:
        raise SourceBroken(url, f"no URL: {error}") from None


def _basename(path: str) -> str:
    if is_url(path):
        path = _path_in(path)
    return re.split(r"[/\\]", path.rstrip("/"))[-1] or path
