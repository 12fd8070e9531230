"""Removes captures from WARC files, as in a takedown.

What always holds:

1.  Before a capture leaves, the revisits that refer to it become responses: those that
    name its URL and second or its record id, and, of those that name no capture in
    these files, those that have its digest. If one cannot, what it refers to stays, and
    what that refers to in turn, up to the payload; all of these are named.
2.  A request and other records leave with the capture whose URL and date they have.
3.  Each record leaves a tombstone in its place, which has its id, its type, its date
    and the reason that was given, but nothing of its URL, its headers or its payload.
4.  A file is old or new, and so is its index. After a kill, run the command again: what
    has left is no longer found, and the files end up with the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa

from frontier.dedupe.digest import PayloadDigest, hashing, in_hex
from frontier.errors import BadWarc, ConfigurationError, InvalidURL
from frontier.files import open_input
from frontier.model import frozen
from frontier.postcrawl.actions import PLACE, Action, Pass
from frontier.postcrawl.apply import made_of
from frontier.postcrawl.engines import duckdb_of_manifests, query, texts
from frontier.postcrawl.manifest import to_second
from frontier.postcrawl.originals import record_at
from frontier.postcrawl.payload import ALGORITHMS, payload_in, require_algorithm
from frontier.urls.canon.surt import key_of
from frontier.urls.split import split
from frontier.warc.records import Record, dated, escaped, identify, target_uri

LEAVING = """
SELECT file, record_offset, record_length, record_id, type, url, date FROM leaving
ORDER BY file, record_offset
"""
UNKNOWN = """
SELECT file, record_offset, record_id, algorithm FROM leaving
  CROSS JOIN (SELECT DISTINCT split_part(claim, ':', 1) AS algorithm FROM unnamed) of
WHERE type IN ('response', 'resource')
  AND NOT starts_with(coalesce(claim, ''), algorithm || ':')
  AND NOT starts_with(coalesce(payload_digest, ''), algorithm || ':')
  AND NOT starts_with(coalesce(body_digest, ''), algorithm || ':')
ORDER BY ALL
"""
"""What leaves and has no digest of an algorithm that an unnamed revisit uses."""
TOMBSTONES = """
SELECT *, 'tombstone' AS do, '' AS payload_digest, '' AS original_file,
  0 AS original_offset, '' AS original_id, '' AS original_url, '' AS original_date,
  1 AS nth
FROM leaving
"""
_PLACES = pa.schema(
    {
        "file": "string",
        "record_offset": "int64",
        "record_length": "int64",
        "record_id": "string",
    }
)
_COMPUTED = pa.schema({"file": "string", "record_offset": "int64", "digest": "string"})
_LINE = 1 << 16
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]+/.*")


@frozen
class Wanted:
    """What is to leave."""

    urls: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    """Record ids, as ``<urn:uuid:...>``."""
    reason: str = ""
    """One line, for the tombstones."""
    payloads: frozenset[str] = frozenset()
    """Digests of one algorithm, as manifests spell them."""
    prefixes: tuple[str, ...] = ()
    """What URLs begin with."""
    hosts: frozenset[str] = frozenset()
    """Hosts without port; their subdomains are other hosts."""
    keys: frozenset[str] = frozenset()
    """The keys by which replay tools find captures."""

    @property
    def algorithm(self) -> str:
        """The algorithm of digests that manifests need, for `payloads` to be found."""
        return next(map(_algorithm, self.payloads), ALGORITHMS[0])

    def has(self, url: str) -> bool:
        """Whether *url* is meant by a prefix, a host or a key."""
        return (
            url.startswith(self.prefixes)
            or (bool(self.keys) and _key(url) in self.keys)
            or (bool(self.hosts) and split(url).host in self.hosts)
        )


class Leaving(NamedTuple):
    """A record that is to leave."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    kind: str
    url: str
    date: str

    @property
    def at(self) -> tuple[str, str]:
        """How revisits name it: by its URL, and its date to the second."""
        return self.url, to_second(self.date)


@dataclass(slots=True)
class Found:
    """What is to leave, and what depends on it."""

    urls: set[str]
    """All URLs that leave."""
    near: list[str]
    """URLs that stay, though replay tools take them for one that leaves: they differ
    from it in their fragment, scheme, ``www.`` or capitals, say."""
    leaving: list[Leaving] = field(default_factory=list)
    dependent: dict[str, list[str]] = field(default_factory=dict)
    """The ids of revisits that refer to one of these and stay, by their file."""
    needed: dict[tuple[str, str], str] = field(default_factory=dict)
    """Where such a revisit is, by URL and second of a capture that it refers to,
    directly or through other revisits that leave."""
    same: dict[str, int] = field(default_factory=dict)
    """How many captures that stay have the payload of one that leaves, by its digest;
    empty payloads are not counted."""


def wanted_of(
    urls: Iterable[str],
    ids: Iterable[str],
    lists: Iterable[Path],
    reason: str,
    payloads: Iterable[str],
    prefixes: Iterable[str],
    hosts: Iterable[str],
    replay: Iterable[str],
) -> Wanted:
    """*urls*, record *ids*, and those in the files *lists*, one on each line.

    Further, what has one of the digests *payloads*, and the URLs that begin with one of
    *prefixes*, that are of *hosts*, or are replayed as one of *replay*.

    Raises:
        ConfigurationError: Nothing is named, *reason* has several lines, a prefix has
            no host and path, a host is invalid, or one of *payloads* is not usable.
        OSError: A file cannot be read.
    """
    words = [*urls, *map(_id, ids)]
    for path in lists:
        with open_input(path) as file:
            for raw in iter(lambda: file.readline(_LINE), b""):
                word = raw.decode("utf-8", "replace").strip()
                if word and not word.startswith("#"):
                    words.append(word)
    named = {_id(w) if w.startswith(("<urn:", "urn:uuid:")) else w for w in words}
    found = frozenset(word for word in named if word.startswith("<urn:"))
    wanted = Wanted(
        frozenset(map(target_uri, named - found)),
        found,
        reason,
        frozenset(map(_payload, payloads)),
        tuple(map(escaped, prefixes)),
        frozenset(host.lower() for host in hosts),
        frozenset(map(_replayed, replay)),
    )
    if wanted == Wanted(reason=reason):
        raise ConfigurationError(
            "name what to remove: --url, --url-prefix, --host, --replay, --record, "
            "--payload or --list"
        )
    for prefix in wanted.prefixes:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"--url-prefix {prefix!r}: it begins with a scheme, a host and a slash"
            )
    for host in wanted.hosts:
        if not host or split(f"http://{host}/").host != host:
            raise ConfigurationError(f"--host {host!r} is not a host without a port")
    if len(set(map(_algorithm, wanted.payloads))) > 1:
        raise ConfigurationError("--payload: digests of one algorithm at a time")
    if len(reason.splitlines()) > 1:
        raise ConfigurationError("--reason has more than one line")
    return wanted


def _replayed(url: str) -> str:
    """The key under which replay tools find *url*.

    Raises:
        ConfigurationError: It is no URL.
    """
    if not _PREFIX.fullmatch(target_uri(url)):
        raise ConfigurationError(f"--replay {url!r} is not a URL")
    return key_of(url)


def _payload(text: str) -> str:
    """The digest that *text* spells.

    Raises:
        ConfigurationError: It is no digest, or that of no bytes, or cannot be computed
            here.
    """
    digest = in_hex(text)
    if _algorithm(digest) not in ALGORITHMS:
        raise ConfigurationError(f"--payload {text!r} is not a digest")
    require_algorithm("--payload", _algorithm(digest))
    if digest in _of_nothing():
        raise ConfigurationError(f"--payload {text!r} is the digest of no bytes")
    return digest


def _algorithm(digest: str) -> str:
    return digest.partition(":")[0]


def _of_nothing() -> set[str]:
    """The digests of no bytes, by all algorithms that are installed."""
    found = set()
    for name in ALGORITHMS:
        with suppress(ImportError):
            found.add(PayloadDigest(name, hashing(name).digest()).in_hex())
    return found


def _id(text: str) -> str:
    return f"<{text.strip('<>')}>"


def _key(url: str) -> str:
    """The key of *url*; empty for what is none, as the name of a crawl's own record."""
    try:
        return key_of(url)
    except InvalidURL:
        return ""


def find(directory: Path, wanted: Wanted) -> Found:
    """What is to leave the files that have manifests in *directory*.

    The manifests have rows for all records. The result is held in memory.

    Raises:
        ConfigurationError: A digest of a revisit cannot be computed here.
    """
    with duckdb_of_manifests(directory) as engine:
        rows = engine.rows("SELECT DISTINCT url FROM manifest WHERE type <> 'warcinfo'")
        there = {url for (url,) in rows if url}
        urls = wanted.urls | {url for url in there if wanted.has(url)}
        keys = {_key(url) for url in urls} - {""}
        near = sorted(url for url in there - urls if _key(url) in keys)
        found = Found(set(urls), near)
        engine.table("urls", texts(url=urls))
        engine.table("ids", texts(record_id=wanted.ids))
        engine.table("payloads", texts(digest=wanted.payloads))
        engine.table("empty", texts(digest=_of_nothing()))
        for name in ("refers", "unnamed", "leaving"):
            engine.keep(name, query(name))
        found.leaving = [Leaving(*row) for row in engine.rows(LEAVING)]
        engine.table("computed", _computed(engine.rows(UNKNOWN)))
        for file, offset, record_id, *at in engine.rows(query("needs")):
            ids = found.dependent.setdefault(file, [])
            if record_id not in ids[-1:]:
                ids.append(record_id)
            found.needed.setdefault((at[0], at[1]), f"{file} at byte {offset:,}")
        found.same = dict(engine.rows(query("same")))
    return found


def _computed(captures: Iterable[tuple[str, int, str, str]]) -> pa.Table:
    """The digest of each of *captures*, by the algorithm that is given with it.

    Raises:
        ConfigurationError: It cannot be computed here.
    """
    rows = []
    for file, offset, record_id, algorithm in captures:
        try:
            with open_input(file) as stream:
                found = record_at(stream, file, offset, record_id)
                digest = payload_in(found, algorithm).digest
                found.require_whole()
        except (BadWarc, OSError):
            continue  # what cannot be read gives no revisit a payload either
        except ImportError as error:
            raise ConfigurationError(f"a revisit has a digest: {error}") from None
        if digest is not None:
            rows.append({"file": file, "record_offset": offset, "digest": digest})
    return pa.Table.from_pylist(rows, _COMPUTED)


def removing(directory: Path, leaving: Sequence[Leaving], reason: str) -> Pass:
    """The pass that puts tombstones in place of *leaving*."""
    place, rows = directory / PLACE, [one._asdict() for one in leaving]
    with duckdb_of_manifests(directory) as engine:
        engine.table("leaving", pa.Table.from_pylist(rows, _PLACES))
        engine.write_by_file(TOMBSTONES, place)
    return Pass(directory, place, reason)


def tombstone(source: IO[bytes], one: Action, reason: str) -> Record:
    """What stands in the place of *one*: a metadata record (WARC 1.1, section 6.4).

    Raises:
        BadWarc: There is no such record, or it is damaged.
        ValueError: The record's id or date has a line break.
    """
    found = record_at(source, one.file, one.record_offset, one.record_id)
    found.require_whole()
    identifier = identify("removed", one.record_id)
    block = f"removed: {found.kind}\r\n"
    if reason:
        block += f"reason: {reason}\r\n"
    lines = [
        ("WARC-Type", "metadata"),
        ("WARC-Record-ID", identifier),
        ("WARC-Date", dated(found.headers.get("warc-date"))),
        ("WARC-Refers-To", one.record_id),
        ("Content-Type", "application/warc-fields"),
    ]
    return made_of(identifier, lines, block.encode())
