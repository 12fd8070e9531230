"""Captures leave WARC files, as somebody may demand: a takedown.

What always holds:

1.  Before a capture leaves, the revisits that refer to it become responses: those that
    name its URL and second or its record id, and of those that name no capture of these
    files those that have its digest. If one cannot, what it refers to stays, and what
    that refers to in turn, up to the payload; all are named.
2.  A request and other records leave with the capture whose URL and date they have.
3.  Each record leaves a tombstone in its place, which has its id, its type, its date
    and the reason that was given: nothing of its URL, its headers or its payload.
4.  A file is old or new, and so is its index. A run that was killed is run again: what
    has left is not found any more, and the files end as the same bytes.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from frontier.dedupe.digest import PayloadDigest
from frontier.errors import BadWarc, ConfigurationError
from frontier.files import FILE_MODE, open_input
from frontier.postcrawl.actions import PLACE, Pass
from frontier.postcrawl.apply import made_of
from frontier.postcrawl.engines import creating_parts, duckdb_of_manifests, query
from frontier.postcrawl.index_lines import dated
from frontier.postcrawl.manifest import payload_of, to_second
from frontier.postcrawl.payload import ALGORITHMS, hashing, parsed, spelled
from frontier.postcrawl.rewriting import record_at
from frontier.urls.canon.surt import key_of
from frontier.warc.records import NAMESPACE, escaped, target_uri

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from frontier.postcrawl.actions import Action
    from frontier.postcrawl.engines import Engine
    from frontier.warc.records import Record

WITH_PAYLOAD = """
SELECT file, record_offset, record_id, url, date, claimed_digest, agrees FROM manifest
WHERE type IN ('response', 'resource', 'conversion')
  AND (payload_digest IN (SELECT digest FROM payloads)
    OR body_digest IN (SELECT digest FROM payloads))
"""
WITHOUT_PAYLOAD = """
SELECT file, record_offset, record_id, url, date, claimed_digest, refers_to_id,
  refers_to_url, refers_to_date
FROM manifest
WHERE type IN ('response', 'resource', 'revisit', 'conversion')
  AND payload_digest IS NULL
"""
"""Revisits, and what cannot be read."""
CAPTURES = """
SELECT file, record_offset, payload_digest, claimed_digest, agrees FROM manifest
WHERE type IN ('response', 'resource', 'revisit', 'conversion')
"""
_PAYLOADS = frozenset({"response", "resource"})
_CAPTURES = _PAYLOADS | {"revisit"}
TOMBSTONES = """
SELECT *, 'tombstone' AS do, '' AS original_file, 0 AS original_offset,
  '' AS original_id, '' AS original_url, '' AS original_date
FROM leaving
"""
_LEFT = [
    ("file", pa.string()),
    ("record_offset", pa.int64()),
    ("record_length", pa.int64()),
    ("record_id", pa.string()),
]
_PLACES = pa.schema([("file", pa.string()), ("record_offset", pa.int64())])
_LINE = 1 << 16
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]+/.*")


@dataclass(frozen=True, slots=True)
class Several:
    """URLs that are not named one by one."""

    prefixes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Without port; their subdomains are others."""
    keys: frozenset[str] = frozenset()
    """By which replay tools find captures."""

    def __bool__(self) -> bool:
        return bool(self.prefixes or self.hosts or self.keys)

    def has(self, url: str) -> bool:
        """Whether *url* is one."""
        if self.prefixes and url.startswith(self.prefixes):
            return True
        if self.keys and key_of(url) in self.keys:
            return True
        return bool(self.hosts) and _host(url) in self.hosts


def several(
    prefixes: Iterable[str], hosts: Iterable[str], replay: Iterable[str]
) -> Several:
    """The URLs that begin so, that are of *hosts*, or are replayed as one of *replay*.

    Raises:
        ConfigurationError: A prefix has no host and path, or a host is none.
    """
    hosts = [host.lower() for host in hosts]
    for prefix in (prefixes := [escaped(each) for each in prefixes]):
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"--url-prefix {prefix!r}: it begins with a scheme, a host and a slash"
            )
    for host in hosts:
        if not host or _host(f"http://{host}/") != host:
            raise ConfigurationError(f"--host {host!r} is no host without a port")
    keys = set()
    for url in replay:
        if not _PREFIX.fullmatch(target_uri(url)):
            raise ConfigurationError(f"--replay {url!r} is no URL")
        keys.add(key_of(url))
    return Several(tuple(prefixes), tuple(hosts), frozenset(keys))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to leave."""

    urls: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    """Of records, as ``<urn:uuid:...>``."""
    reason: str = ""
    """One line, for the tombstones."""
    several: Several = Several()
    payloads: frozenset[PayloadDigest] = frozenset()
    """Of one algorithm."""

    @property
    def algorithm(self) -> str:
        """Which digests manifests have to have, for `payloads` to be found."""
        return next((one.algorithm for one in self.payloads), ALGORITHMS[0])


@dataclass(frozen=True, slots=True)
class Leaving:
    """A record that is to leave."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    kind: str
    url: str
    date: str
    claimed_digest: str | None = None
    payload_digest: str | None = None
    body_digest: str | None = None
    agrees: bool | None = None

    @property
    def at(self) -> tuple[str, str]:
        """What revisits name it by: its URL, and its date to the second."""
        return self.url, to_second(self.date)

    @property
    def digests(self) -> set[PayloadDigest]:
        """Those that a manifest has of it."""
        found = (self.claimed_digest, self.payload_digest, self.body_digest)
        return {digest for text in found if (digest := parsed(text or ""))}

    @property
    def sure(self) -> set[PayloadDigest]:
        """Those of its payload: what it claims wrongly is not one."""
        claimed = self.claimed_digest if self.agrees is not False else None
        found = (self.payload_digest, claimed)
        return {digest for text in found if (digest := parsed(text or ""))}

    @property
    def label(self) -> str:
        """One of `sure`, as `--payload` takes it."""
        claimed = self.claimed_digest if self.agrees is not False else None
        return claimed or self.payload_digest or ""


@dataclass(slots=True)
class Found:
    """What is to leave, and what depends on it."""

    leaving: list[Leaving] = field(default_factory=list)
    dependent: dict[str, list[str]] = field(default_factory=dict)
    """By their file, the ids of the revisits that refer to one of these and stay."""
    needed: dict[tuple[str, str], str] = field(default_factory=dict)
    """By URL and second of what it refers to, at once or by way of others that leave:
    where such a revisit is."""
    same: dict[str, int] = field(default_factory=dict)
    """How many captures that stay have the payload of one that leaves, by its digest;
    of no bytes not."""

    def files(self) -> list[str]:
        """Those that have something that leaves."""
        return list(dict.fromkeys(one.file for one in self.leaving))


def wanted_of(
    urls: Iterable[str],
    ids: Iterable[str],
    lists: Iterable[Path],
    reason: str,
    more: Several,
    payloads: Iterable[str] = (),
) -> Wanted:
    """*urls*, record *ids*, those that files have, one on each line, and *more*.

    And what has one of the digests *payloads*.

    Raises:
        ConfigurationError: There is nothing, *reason* has several lines, or one of
            *payloads* is not usable.
        OSError: A file cannot be read.
    """
    words = [*urls, *(_id(text) for text in ids)]
    for path in lists:
        with open_input(path) as file:
            for raw in iter(lambda: file.readline(_LINE), b""):
                word = raw.decode("utf-8", "replace").strip()
                if word and not word.startswith("#"):
                    words.append(word)
    named = {_id(w) if w.startswith(("<urn:", "urn:uuid:")) else w for w in words}
    found = frozenset(word for word in named if word.startswith("<urn:"))
    digests = frozenset(map(_payload, payloads))
    if not (named or more or digests):
        raise ConfigurationError(
            "name what is to leave: --url, --url-prefix, --host, --replay, --record, "
            "--payload or --list"
        )
    if len({digest.algorithm for digest in digests}) > 1:
        raise ConfigurationError("--payload: digests of one algorithm at a time")
    if len(reason.splitlines()) > 1:
        raise ConfigurationError("--reason has more than one line")
    urls = frozenset(map(target_uri, named - found))
    return Wanted(urls, found, reason, more, digests)


def _payload(text: str) -> PayloadDigest:
    """The digest that *text* is.

    Raises:
        ConfigurationError: It is none, of no bytes, or cannot be computed here.
    """
    digest = parsed(text)
    if digest is None or digest.algorithm not in ALGORITHMS:
        raise ConfigurationError(f"--payload {text!r} is no digest")
    if digest.algorithm == "blake3" and not find_spec("blake3"):
        raise ConfigurationError(
            f"--payload {text!r} needs: pip install 'frontier-crawl[blake3]'"
        )
    if _is_empty(digest):
        raise ConfigurationError(f"--payload {text!r} is the digest of no bytes")
    return digest


def _is_empty(digest: PayloadDigest) -> bool:
    """Whether it is known to be that of no bytes."""
    try:
        empty: bytes = hashing(digest.algorithm).digest()
    except ImportError:
        return False
    return digest.value == empty


def _id(text: str) -> str:
    return f"<{text.strip('<>')}>"


def with_urls(directory: Path, wanted: Wanted) -> Wanted:
    """*wanted*, with each of its `several` URLs that the files have named."""
    if not wanted.several:
        return wanted
    with duckdb_of_manifests(directory) as engine:
        rows = engine.rows("SELECT DISTINCT url FROM manifest WHERE type <> 'warcinfo'")
        found = {url for (url,) in rows if url and wanted.several.has(url)}
    return replace(wanted, urls=wanted.urls | found)


def near_misses(directory: Path, wanted: Wanted) -> list[str]:
    """URLs that stay, and that replay tools show as one that leaves.

    They differ from it in their fragment, their scheme, ``www.`` or capitals, say.
    """
    keys = {key_of(url) for url in wanted.urls}
    with duckdb_of_manifests(directory) as engine:
        rows = engine.rows("SELECT DISTINCT url FROM manifest WHERE type <> 'warcinfo'")
        others = (url for (url,) in rows if url and url not in wanted.urls)
        return sorted(url for url in others if key_of(url) in keys)


def find(directory: Path, wanted: Wanted) -> Found:
    """What of the files with manifests in *directory* is to leave.

    The manifests have rows of all records. The result is held in memory.
    """
    found = Found()
    with duckdb_of_manifests(directory) as engine:
        for name, column, values in (
            ("urls", "url", wanted.urls),
            ("ids", "record_id", wanted.ids),
        ):
            schema = pa.schema([(column, pa.string())])
            engine.table(name, pa.table([sorted(values)], schema))
        places = _with_payload(engine, wanted.payloads)
        engine.table("places", pa.Table.from_pylist(places, _PLACES))
        found.leaving = [Leaving(*row) for row in engine.rows(query("leaving"))]
        _note_dependent(found, engine.rows(query("dependent")))
        found.same = _same(found.leaving, engine)
    return found


def _with_payload(
    engine: Engine, payloads: frozenset[PayloadDigest]
) -> list[dict[str, Any]]:
    """Where the captures with *payloads* are.

    They are those whose bytes have the digest, revisits that claim it or another digest
    of these bytes, and revisits that refer to one of these and have no digest that
    could be compared.
    """
    if not payloads:
        return []
    texts = sorted(spelled(*one) for one in payloads)
    engine.table("payloads", pa.table({"digest": texts}))
    places: list[tuple[str, int]] = []
    names: set[str | tuple[str, str]] = set()
    meant: set[PayloadDigest | None] = set(payloads)

    def take(file: str, offset: int, record_id: str, url: str, date: str) -> None:
        places.append((file, offset))
        names.update((record_id or "", (url, to_second(date or ""))))

    for *one, claimed, agrees in engine.rows(WITH_PAYLOAD):
        take(*one)
        if agrees:
            meant.add(parsed(claimed))
    silent, algorithms = [], {digest.algorithm for digest in meant if digest}
    for *one, claimed, of_id, of_url, of_date in engine.rows(WITHOUT_PAYLOAD):
        digest = parsed(claimed or "")
        if digest is None or digest.algorithm not in algorithms:
            silent.append((one, {of_id, (of_url, to_second(of_date or ""))}))
        elif digest in meant:
            take(*one)
    left = len(silent) + 1
    while left > len(silent):  # once more for each link of the longest chain
        left = len(silent)
        for one, of in silent:
            if of & names:
                take(*one)
        silent = [(one, of) for one, of in silent if not of & names]
    return [{"file": file, "record_offset": offset} for file, offset in places]


def _same(leaving: Sequence[Leaving], engine: Engine) -> dict[str, int]:
    """What `Found.same` says of *leaving*."""
    labels: dict[PayloadDigest | None, str] = {}
    places = {(one.file, one.record_offset) for one in leaving}
    for one in leaving:
        if one.kind in _CAPTURES or one.kind == "conversion":
            digests = {digest for digest in one.sure if not _is_empty(digest)}
            known = [labels[digest] for digest in digests if digest in labels]
            for digest in digests:
                labels.setdefault(digest, known[0] if known else one.label)
    if not labels:
        return {}
    same: Counter[str] = Counter()
    for file, offset, payload, claimed, agrees in engine.rows(CAPTURES):
        if (file, offset) in places:
            continue
        said = labels.get(parsed(payload or ""))
        if said is None and agrees is not False:
            said = labels.get(parsed(claimed or ""))
        if said is not None:
            same[said] += 1
    return dict(same.most_common())


def _note_dependent(found: Found, revisits: Iterable[tuple[Any, ...]]) -> None:
    """Note in *found* which of *revisits*, rows of dependent.sql, need what leaves."""
    captures = [one for one in found.leaving if one.kind in _CAPTURES]
    places = {(one.file, one.record_offset) for one in captures}
    names = {one.at for one in captures}
    ids = {one.record_id: one.at for one in captures}
    digests = _Digests([one for one in captures if one.kind in _PAYLOADS])
    further: dict[tuple[str, str], set[tuple[str, str]]] = {}
    """By URL and second of a revisit that leaves: what it refers to itself."""
    for file, offset, record_id, url, date, of_id, *of, claimed, is_named in revisits:
        needs = {ids[of_id]} if of_id in ids else set()
        if all(of):
            needs |= {(of[0], to_second(of[1]))} & names
        if not is_named:
            needs |= digests.captures(parsed(claimed or ""))
        if (file, offset) in places:
            further.setdefault((url, to_second(date)), set()).update(needs)
        elif needs:
            found.dependent.setdefault(file, []).append(record_id)
            for at in needs:
                found.needed.setdefault(at, f"{file} at byte {offset:,}")
    left = list(found.needed)
    while left:
        last = left.pop()
        for at in further.get(last, set()) - found.needed.keys():
            found.needed[at] = found.needed[last]
            left.append(at)


class _Digests:
    """Which of *captures* a revisit means that names a digest and no capture."""

    def __init__(self, captures: Sequence[Leaving]) -> None:
        self._captures = captures
        self._known: dict[PayloadDigest, set[tuple[str, str]]] = {}
        self._algorithms: set[str] = set()
        for one in captures:
            for digest in one.digests:
                self._known.setdefault(digest, set()).add(one.at)

    def captures(self, digest: PayloadDigest | None) -> set[tuple[str, str]]:
        """URL and second of those with *digest*.

        Raises:
            ConfigurationError: It cannot be computed here.
        """
        if digest is None:
            return set()
        if digest.algorithm not in self._algorithms:
            self._algorithms.add(digest.algorithm)
            self._compute(digest.algorithm)
        return self._known.get(digest, set())

    def _compute(self, algorithm: str) -> None:
        """Read the captures of which no digest of *algorithm* is known."""
        for one in self._captures:
            if any(known.algorithm == algorithm for known in one.digests):
                continue
            try:
                digest = PayloadDigest(algorithm, _computed(one, algorithm))
            except (BadWarc, OSError, ValueError):
                continue  # what cannot be read gives no revisit a payload either
            except ImportError as error:
                raise ConfigurationError(f"a revisit has a digest: {error}") from None
            self._known.setdefault(digest, set()).add(one.at)


def _computed(one: Leaving, algorithm: str) -> bytes:
    computed = hashing(algorithm)
    with open_input(one.file) as stream:
        found = record_at(stream, one.file, one.record_offset, one.record_id)
        for part in payload_of(stream, found):
            computed.update(part)
    digest: bytes = computed.digest()
    return digest


def removing(
    directory: Path, leaving: Sequence[Leaving], reason: str, mode: int = FILE_MODE
) -> Pass:
    """The pass that puts tombstones in place of *leaving*."""
    place, schema = directory / PLACE, pa.schema(_LEFT)
    rows = [{name: getattr(one, name) for name in schema.names} for one in leaving]
    with duckdb_of_manifests(directory) as engine, creating_parts(place, mode) as parts:
        engine.table("leaving", pa.Table.from_pylist(rows, schema))
        engine.write_by_file(TOMBSTONES, parts)
    return Pass(directory, place, f"remove {uuid.uuid4()}", reason=reason)


def tombstone(source: IO[bytes], one: Action, reason: str) -> Record:
    """What stands in the place of *one*: a metadata record (WARC 1.1, section 6.4).

    Raises:
        BadWarc: There is no such record.
        ValueError: The record's id or date has a line break.
    """
    found = record_at(source, one.file, one.record_offset, one.record_id)
    identifier = f"<{uuid.uuid5(NAMESPACE, f'removed {one.record_id}').urn}>"
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
