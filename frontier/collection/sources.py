"""What to import: WACZ files, lists of them, WARC files, indexes, logs.

What always holds:

1.  A manifest cannot choose freely which files of this machine are read: paths in a
    local one lead to files below one directory, those in one from the network to none.
2.  An entry that is wrong is named, and the others are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from frontier.errors import ConfigurationError, SourceBroken
from frontier.files import read_input
from frontier.model import frozen
from frontier.postcrawl.files import files_in
from frontier.store.keys import names_a_crawl
from frontier.warc.remote_files import is_url, read_remote

MAX_MANIFEST = 64 << 20
"""The most bytes of a manifest, enough for some 200,000 WACZ files."""
MAX_NAME = 2_000
"""The most characters of the name of a source, or of the id of a crawl."""
_HASH = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_FETCHED = re.compile(r"(?:https?|s3)://(?!.*::)", re.IGNORECASE)
"""URLs that a manifest may name: never files here, not even by chaining in fsspec."""


class Kind(StrEnum):
    """The kinds of sources, told by the end of the name."""

    WACZ = "wacz"
    MANIFEST = "json"
    WARC = "warc"
    CDX = "cdx"
    CRAWL_LOG = "log"


_KIND = re.compile(
    r"\.(?:(wacz|json)|(warc)\.zst|(?:(warc)|(cdx)j?|(log))(?:\.gz)?)$", re.IGNORECASE
)
_ARC = re.compile(r"\.arc(\.gz)?$", re.IGNORECASE)


@frozen
class Source:
    """One file to import."""

    name: str
    """Its identity in the collection: a name is imported only once."""
    url: str
    """A path, or a URL."""
    crawl_id: str
    size: int | None = None
    """In bytes, by a manifest."""
    hash: str = ""
    """SHA-256, as written in a manifest."""
    listed: bool = False
    """Whether its crawl was named, and not derived from its path."""

    def __post_init__(self) -> None:
        """Refuse a source that cannot be in the store.

        Raises:
            SourceBroken: No crawl can have that id, or the name or hash is invalid.
        """
        try:
            f"{self.name}{self.url}{self.crawl_id}".encode()
        except UnicodeEncodeError:
            raise SourceBroken(self.url, "its name is not UTF-8") from None
        if not names_a_crawl(self.crawl_id):
            raise SourceBroken(self.url, f"no crawl has the id {self.crawl_id[:80]!r}")
        if self.hash and not _HASH.fullmatch(self.hash):
            reason = f"its hash {self.hash[:80]!r} is not a SHA-256"
            raise SourceBroken(self.url, reason)

    @property
    def kind(self) -> Kind:
        """What kind of file it is."""
        return kind_of(self.url)

    def entry(self, size: int | None = None, digest: str = "") -> str:
        """Its entry in the list of its crawl's files."""
        facts = {"size": self.size or size, "hash": self.hash or digest}
        entry = {name: value for name, value in facts.items() if value}
        return json.dumps({"filename": self.name, **entry}, separators=(",", ":"))

    def sha256(self) -> str:
        """Its hash in bare hex; empty if there is none."""
        return self.hash[-64:].lower()


def kind_of(url: str) -> Kind:
    """What kind of file is at *url*.

    Raises:
        SourceBroken: Its name does not tell, or its kind is not read.
    """
    name = _basename(url)
    if found := _KIND.search(name):
        return Kind(next(filter(None, found.groups())).lower())
    if _ARC.search(name):
        raise SourceBroken(url, "an ARC file (frontier warc convert makes it WARC)")
    ends = ".wacz .json .warc .warc.gz .warc.zst .cdx .cdx.gz .cdxj .cdxj.gz .log"
    raise SourceBroken(url, f"its name ends in none of {ends} .log.gz")


def sources(
    target: str,
    *,
    crawl_id: str = "",
    root: Path | None = None,
    broken: Callable[[SourceBroken], None],
) -> Iterator[Source]:
    """The sources that *target*, a path or URL, names, in order.

    Paths in a local manifest are relative to its directory, and may not lead out of
    *root*, by default that directory. A source without a crawl of its own belongs to
    *crawl_id*, else to a crawl named like its path. For a directory, the sources are
    the WARC and WACZ files in and below it, sorted by path. *broken* is called for
    sources that cannot be used.

    Raises:
        SourceBroken: *target* itself cannot be used.
    """
    crawl, is_listed = crawl_id or target, bool(crawl_id)
    here = None if is_url(target) else Path(target)
    if here is not None and not here.exists():
        raise SourceBroken(target, "there is no such file or directory")
    if here is not None and here.is_dir():
        paths = files_in(
            [here],
            lambda text: broken(SourceBroken(target, text)),
            lambda _: None,
            (".warc", ".warc.gz", ".warc.zst", ".wacz"),
        )
        if not paths:
            raise SourceBroken(
                target, "no .warc, .warc.gz, .warc.zst or .wacz is below it"
            )
        urls = [str(path.absolute()) for path in paths]
    elif kind_of(target) is not Kind.MANIFEST:
        urls = [target if here is None else str(here.absolute())]
    else:
        urls = []
        for number, resource in enumerate(_resources(target)):
            where = f"{target}: resources[{number}]"
            try:
                yield _entry(where, resource, crawl_id, target, root)
            except SourceBroken as error:
                broken(error)
    for url in urls:
        try:
            yield Source(_basename(url), url, crawl, listed=is_listed)
        except SourceBroken as error:
            broken(error)


def crawls_in(manifest: str, root: Path | None, *, force: bool) -> set[str]:
    """The crawls that *manifest* lists; with *force*, those that can be read.

    Raises:
        ConfigurationError: It is not a manifest, or part of it cannot be read.
    """
    faults = list[SourceBroken]()
    found: set[str] = set()
    try:
        if kind_of(manifest) is not Kind.MANIFEST:
            faults.append(SourceBroken(manifest, "it is not a manifest"))
        else:
            listed = sources(manifest, root=root, broken=faults.append)
            found = {source.crawl_id for source in listed}
    except SourceBroken as error:
        faults.append(error)
    if faults and not force:
        raise ConfigurationError(
            f"{faults[0]}; nothing was done, as payloads that only this part of the "
            "manifest lists would be removed"
        )
    return found


def _resources(manifest: str) -> list[Any]:
    """The entries that the manifest lists.

    Raises:
        SourceBroken: It cannot be read, is too large, or has no list.
    """
    try:
        if is_url(manifest):
            data = read_remote(manifest, MAX_MANIFEST)
        else:
            data = read_input(manifest, MAX_MANIFEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceBroken(manifest, reason) from None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SourceBroken(manifest, f"not JSON: {error}") from None
    resources = found.get("resources") if isinstance(found, dict) else None
    if not isinstance(resources, list):
        raise SourceBroken(manifest, "it has no list of resources")
    return resources


def _entry(
    where: str, resource: Any, crawl_id: str, manifest: str, root: Path | None
) -> Source:
    if not isinstance(resource, dict):
        raise SourceBroken(where, "it is not an object")
    path = resource.get("path") or resource.get("url")
    if not isinstance(path, str) or not path:
        raise SourceBroken(where, "it has no path")
    name = resource.get("name") or _basename(path)
    crawl = resource.get("crawlId") or ""
    size, digest = resource.get("size"), resource.get("hash") or ""
    for what, text in (("name", name), ("crawlId", crawl), ("hash", digest)):
        if not isinstance(text, str) or len(text) > MAX_NAME or not text.isprintable():
            raise SourceBroken(where, f"its {what} is not printable text, or too long")
    if size is not None and (type(size) is not int or not 0 <= size < 2**50):
        raise SourceBroken(where, f"its size {str(size)[:40]!r} is invalid")
    crawl = crawl or crawl_id
    url = _resolved(path, manifest, root)
    if kind_of(url) is Kind.MANIFEST:
        raise SourceBroken(url, "a manifest in a manifest; import it separately")
    return Source(name, url, crawl or path, size, digest, bool(crawl))


def _resolved(path: str, manifest: str, root: Path | None) -> str:
    """Where *path* in *manifest* leads.

    Raises:
        SourceBroken: It may not lead there, or is not a path.
    """
    try:
        if is_url(path) or is_url(manifest):
            url = urljoin(manifest if is_url(manifest) else "", path)
            if not _FETCHED.match(url):
                raise SourceBroken(path, "only http, https and s3 URLs are fetched")
            return url
        here = Path(manifest).resolve().parent
        top, found = (root or here).resolve(), (here / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceBroken(path, f"no path: {error}") from None
    if not found.is_relative_to(top):
        raise SourceBroken(
            path, f"{manifest} names a file outside {top}; allow it with --root"
        )
    return str(found)


def _basename(path: str) -> str:
    """The last part of *path*, a path or a URL.

    Raises:
        SourceBroken: It is not a URL.
    """
    if is_url(path):
        try:
            path = unquote(urlsplit(path).path)
        except ValueError as error:
            raise SourceBroken(path, f"no URL: {error}") from None
    return re.split(r"[/\\]", path.rstrip("/"))[-1] or path
