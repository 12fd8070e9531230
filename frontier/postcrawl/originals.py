"""Captures that a collection's index has, as originals of copies in other files.

What always holds:

1.  The index says only where to look. A capture is an original if a file that was given
    has it, of the URL, the second and the payload digest; what is in none is told, and
    makes no copy. Before a copy loses its payload both are read, as ever.
2.  What the index has stays what it is: crawls refer to it.
3.  The index is only read, and of it only what committed crawls have.

Originals that are behind a CDX server, for revisits that become responses again.

Of that always holds:

1.  A server only says which capture it may be, and its replay gives the payload; that
    is used if it has the digest that the revisit states, whatever it is called.
2.  No fault of a server is taken for an answer: the revisit stays, and is named with
    the reason. A server that fails again and again is left alone for a while
    (`frontier.dedupe.cdx_server`), and told as such.

A replay gives no chunks. A revisit whose head has ``Transfer-Encoding`` stays: behind
it another body would be what no server sent.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from frontier.cdx.lines import sort_key
from frontier.dedupe.cdx_server import CdxServer, NoAnswer, Wanted
from frontier.dedupe.digest import hashing, parse
from frontier.postcrawl.engines import creating_whole
from frontier.postcrawl.manifest import digits, microseconds, to_second
from frontier.postcrawl.payload import parsed
from frontier.warc.records import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from frontier.cdx.lines import Capture
    from frontier.dedupe.digest_index import Index
    from frontier.postcrawl.engines import Engine
    from frontier.warc.reader import Found


SCHEMA = pa.schema(
    [("payload_digest", pa.string()), ("url", pa.string()), ("second", pa.string())]
)
"""What the index has of the payloads of a plan; *second* is of the original's date."""
INDEXED = "indexed.parquet"
CAPTURES = "indexed-captures.parquet"
DIGESTS = """
SELECT DISTINCT payload_digest, CASE WHEN agrees THEN claimed_digest END AS claimed
FROM manifest
WHERE type = 'response' AND payload_length > 0 AND payload_digest IS NOT NULL
ORDER BY payload_digest, claimed
"""
"""By what a record claims, too, if it is right: the index may be of that algorithm."""
ELSEWHERE = """
SELECT elsewhere.* FROM elsewhere
JOIN (SELECT DISTINCT url, second FROM indexed) named
  ON elsewhere.url = named.url AND left(elsewhere.date, 19) || 'Z' = named.second
LEFT JOIN (SELECT DISTINCT file FROM manifest) given ON elsewhere.file = given.file
WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
  AND given.file IS NULL
ORDER BY elsewhere.file, record_offset
"""
"""All captures of the URL and second of an original: another payload that they have
makes the name one of two, and no copy may refer to it."""
UNREACHABLE = """
SELECT DISTINCT indexed.url, indexed.second FROM indexed LEFT JOIN manifest
  ON manifest.url = indexed.url AND left(manifest.date, 19) || 'Z' = indexed.second
  AND manifest.payload_digest = indexed.payload_digest
  AND type IN ('response', 'resource')
WHERE manifest.url IS NULL ORDER BY 1, 2
"""
NAMED = 20
"""Originals that are named when none of the files has them; all are counted."""
_CHUNK = 1_000
"""Digests per round trip."""


@dataclass(slots=True)
class Known:
    """What *index* has, and where the records may be; `find` fills in the rest."""

    index: Index
    originals: Sequence[Path]
    """Manifests of files that are not to be rewritten."""
    count: int = 0
    """Payloads of the plan that the index has."""
    unreachable: int = 0
    """Originals of theirs that are in no file."""
    fact: str = ""
    """Follows from what the index has."""

    def find(
        self,
        engine: Engine,
        places: Sequence[Path],
        directory: Path,
        mode: int,
        say: Callable[[str], None],
    ) -> None:
        """Ask the index, and have what the files have of it in the view ``manifest``.

        That is of the manifests at *places* now. ``indexed`` is what the index has.
        Both stand in *directory*. *say* is told what is in no file.

        Raises:
            StoreUnavailable: The index does not answer.
            OSError: One cannot be written.
        """
        found = directory / INDEXED
        with creating_whole(found, mode) as scratch:
            self._ask(engine.rows(DIGESTS), scratch)
        engine.view("indexed", [found])
        if self.originals:
            engine.view("elsewhere", self.originals)
            captures = directory / CAPTURES
            with creating_whole(captures, mode) as scratch:
                engine.write(ELSEWHERE, scratch)
            engine.view("manifest", [*places, captures])
        for url, second in engine.rows(UNREACHABLE):
            self.unreachable += 1
            if self.unreachable <= NAMED:
                say(f"the original that the index has is in no file: {url} of {second}")

    def _ask(self, digests: Iterator[tuple[Any, ...]], place: Path) -> None:
        """Write what the index has of *digests*, as `SCHEMA`, to *place*."""
        fact = hashlib.sha256()
        with pq.ParquetWriter(place, SCHEMA) as writer:
            while some := list(islice(digests, _CHUNK)):
                rows = sorted(self._rows(some))
                self.count += len(rows)
                fact.update(repr(rows).encode())
                columns = [list(column) for column in zip(*rows, strict=True)]
                if rows:
                    writer.write_table(pa.table(columns, SCHEMA))
        self.fact = fact.hexdigest()

    def _rows(self, digests: Sequence[tuple[Any, ...]]) -> set[tuple[str, str, str]]:
        keys = [
            (computed, digest.spelled())
            for computed, claimed in digests
            for text in (computed, claimed)
            if (digest := parsed(text or ""))
        ]
        found = self.index.lookup([key for _, key in keys])
        return {
            (computed, escaped(found[key].url), to_second(found[key].date))
            for computed, key in keys
            if key in found
        }


TIMEOUT = 30.0
"""Seconds without any bytes."""
MEANWHILE = "revisits stay what they are"
CANDIDATES = 4
"""Captures whose payload is fetched for one revisit, at most."""
_CODED = re.compile(rb"^transfer-encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_PART = 1 << 18


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they are, as the command was told; a process makes its own connections."""

    addresses: tuple[str, ...] = ()
    """Of CDX servers."""
    replay: str = ""
    """See `frontier.dedupe.cdx_server.CdxServer.replay`."""


NO_SERVERS = Servers()


class RemoteOriginals:
    """What the replay of *servers* gives."""

    def __init__(self, servers: Servers, timeout: float = TIMEOUT) -> None:
        self._servers = [
            CdxServer(each, timeout, MEANWHILE) for each in servers.addresses
        ]
        self._replay = servers.replay

    def write(self, found: Found, why: str, out: IO[bytes]) -> None:
        """Write the payload of the revisit *found* to *out*; *why* no file has it.

        Raises:
            ValueError: No server has it, with the reasons.
        """
        if not self._servers:
            raise ValueError(why)
        if _CODED.search(found.block.partition(b"\r\n\r\n")[0]):
            raise ValueError(f"{why}; a replay has no chunks, as its head says")
        reasons = [why]
        for server in self._servers:
            if server.is_resting():
                reasons.append(f"{server.name} has failed, and is left alone")
                continue
            try:
                if self._written(server, found, out):
                    return
                reasons.append(f"{server.name} has no capture with its payload")
            except NoAnswer as error:
                server.failed(str(error), overloaded=error.overloaded)
                reasons.append(f"{server.name}: {error}")
        raise ValueError("; ".join(reasons))

    def _written(self, server: CdxServer, found: Found, out: IO[bytes]) -> bool:
        """Whether *server* has the payload, which is in *out* then.

        Raises:
            NoAnswer: It does not answer.
            ValueError: The revisit states no digest.
        """
        wanted = parse(found.headers.get("warc-payload-digest"))
        for capture in self._captures(server, found):
            out.seek(0)
            out.truncate()
            server.replay(capture, self._replay, out)
            computed = hashing(wanted.algorithm)
            out.seek(0)
            while part := out.read(_PART):
                computed.update(part)
            if computed.digest() == wanted.value:
                return True
        return False

    def _captures(self, server: CdxServer, found: Found) -> Iterator[Capture]:
        """What *server* has that may be the original, the likeliest first."""
        get = found.headers.get
        named = get("warc-refers-to-target-uri").strip("<>")
        url = named or get("warc-target-uri").strip("<>")
        date = get("warc-refers-to-date") or get("warc-date")
        digest = parsed(get("warc-payload-digest"))
        started = (microseconds(date) or 0) / 1e6
        said = get("warc-payload-digest")
        captures = server.captures(Wanted(url, (said,), started))
        likely: Sequence[tuple[int, Capture]] = [
            (0 if is_named else 1, each)
            for each in captures
            if each.kind != "revisit" and sort_key(each.url) == sort_key(url)
            if (is_named := bool(named) and each.timestamp == digits(date))
            or (parsed(each.digest) == digest)
        ]
        for _, each in sorted(likely, key=lambda pair: pair[0])[:CANDIDATES]:
            yield each
