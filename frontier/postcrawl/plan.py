"""Which captures are copies of an earlier one: a query over all manifests.

What always holds:

1.  A copy has an original that is no copy itself, of the same payload and of the same
    stored bytes: with the original's body behind its own head it is what it was.
2.  A capture that a revisit refers to already, by URL and second or by its record id,
    stays what it is, and so does one that a collection's index has
    (`frontier.postcrawl.originals`). Of a URL whose revisits name no capture but a
    digest, the first capture of each payload stays.
3.  No original is named by a URL and a second at which another payload was captured,
    too, or by its copy's own: replay finds originals by these alone.
4.  What a manifest could not read, what was cut short, and what does not have the
    payload digest that it claims, or claims what cannot be checked, is neither copy nor
    original.
5.  Payloads of a digest of which others can be made (`WEAK`) are compared byte for byte
    first (`frontier.postcrawl.byte_comparison`). What cannot be read then is
    unresolved: neither copy nor original.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frontier.errors import NoManifest, StaleManifest
from frontier.files import FILE_MODE, publish, published
from frontier.postcrawl import byte_comparison
from frontier.postcrawl.engines import duckdb_engine
from frontier.postcrawl.manifest import (
    SUFFIX,
    require_current,
    stored_manifest,
)
from frontier.postcrawl.originals import (
    CAPTURES,
    INDEXED,
    SCHEMA,
    creating_whole,
)
from frontier.postcrawl.payload import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frontier.dedupe.revisit_policy import Policy
    from frontier.postcrawl.engines import Engine
    from frontier.postcrawl.manifest import Manifest
    from frontier.postcrawl.originals import Known

_ELIGIBLE = """
WITH unnamed AS (
  SELECT DISTINCT coalesce(refers_to_url, url) AS url FROM manifest
  WHERE type = 'revisit' AND refers_to_id IS NULL
    AND (refers_to_url IS NULL OR refers_to_date IS NULL)
), first_of_url AS (
  SELECT o.url, left(o.date, 19) AS second, row_number() OVER (
      PARTITION BY o.url, payload_digest
      ORDER BY captured_us, file, record_offset) AS nth
  FROM manifest o JOIN unnamed ON o.url = unnamed.url
  WHERE type = 'response' AND payload_digest IS NOT NULL AND captured_us IS NOT NULL
), referred AS (
  SELECT refers_to_url, left(refers_to_date, 19) AS refers_to_second FROM manifest
  WHERE type = 'revisit' AND refers_to_url IS NOT NULL
  UNION
  SELECT url, left(second, 19) FROM indexed
  UNION
  SELECT o.url, left(o.date, 19) FROM manifest r JOIN manifest o
    ON r.refers_to_id = o.record_id
  WHERE r.type = 'revisit' AND o.type = 'response'
    AND (r.refers_to_url IS NULL OR r.refers_to_date IS NULL)
  UNION
  SELECT url, second FROM first_of_url WHERE nth = 1
), repeated AS (
  SELECT payload_key FROM manifest {admitted} WHERE {fit}
  GROUP BY payload_key HAVING count(*) > 1
), names AS (
  SELECT name_key FROM manifest
  WHERE type IN ('response', 'resource') AND manifest.payload_key IS NOT NULL
  GROUP BY name_key HAVING count(*) > 1
), ambiguous AS (
  SELECT url, floor(captured_us / 1000000) AS captured_s
  FROM manifest JOIN names ON manifest.name_key = names.name_key
  LEFT JOIN compared ON manifest.file = compared.file
    AND manifest.record_offset = compared.record_offset
  WHERE type IN ('response', 'resource') AND manifest.payload_key IS NOT NULL
  GROUP BY url, floor(captured_us / 1000000)
  HAVING min(payload_digest) <> max(payload_digest)
    OR min(body_digest) <> max(body_digest)
    OR min(coalesce(compared.content, 1)) <> max(coalesce(compared.content, 1))
), fit AS (
  SELECT manifest.file, manifest.record_offset, record_length, record_id, url, date,
    captured_us, floor(captured_us / 1000000) AS captured_s, payload_length,
    manifest.payload_key, payload_digest,
    CASE WHEN body_digest = payload_digest THEN '' ELSE body_digest END AS body_digest,
    coalesce(compared.content, 1) AS content
  FROM manifest JOIN repeated ON manifest.payload_key = repeated.payload_key
  LEFT JOIN compared ON manifest.file = compared.file
    AND manifest.record_offset = compared.record_offset
  {admitted} WHERE {fit}
), eligible AS (
  SELECT fit.*, referred.refers_to_url IS NOT NULL AS is_referred,
    ambiguous.url IS NOT NULL AS is_ambiguous
  FROM fit LEFT JOIN referred
    ON fit.url = referred.refers_to_url AND left(fit.date, 19) = refers_to_second
  LEFT JOIN ambiguous
    ON fit.url = ambiguous.url AND fit.captured_s = ambiguous.captured_s
  WHERE content > 0
)"""
"""The captures that are alike, or at least have one *payload_key*; what is alone by it
is alone. So it is with names, a URL and a second, that two captures have. Each part
reads the manifests again, but only the columns that it needs: to keep the rows for all
of them took longer, and had to be done on disk."""
_FIT = """type = 'response' AND method = 'GET' AND fault IS NULL
    AND truncated IS NULL AND captured_us IS NOT NULL AND (agrees IS NULL OR agrees)
    AND manifest.payload_key IS NOT NULL AND payload_length >= {least}
    AND status IN ({statuses})"""
_ADMITTED = """JOIN admitted ON coalesce(manifest.mime, '') = admitted.mime
    AND payload_length >= admitted.least"""
CANDIDATES = """{eligible}
SELECT file, record_offset, record_id, payload_digest, payload_length, body_digest
FROM (SELECT *, count(*) OVER (
    PARTITION BY payload_digest, payload_length, body_digest) AS captures_of_it
  FROM eligible WHERE {compared})
WHERE captures_of_it > 1
ORDER BY payload_digest, payload_length, body_digest, file, record_offset
"""
"""What is compared byte for byte, the captures of each digest together."""
_LANE = """CASE
      WHEN max(CASE WHEN is_referred AND NOT is_ambiguous THEN 1 ELSE 0 END) OVER (
        PARTITION BY payload_digest, payload_length, body_digest, content, url) = 1
      THEN url
      ELSE first_value(url) OVER (
        PARTITION BY payload_digest, payload_length, body_digest, content
        ORDER BY {order})
    END"""
"""The URL of the capture that stays, of those from the same URL, if there is one; that
of the first capture otherwise, which is one that stays if any does."""
QUERY = """{eligible}, laned AS (
  SELECT *, {lane} AS lane FROM eligible
), ranked AS (
  SELECT *,
    CAST(row_number() OVER same AS BIGINT) AS copy,
    first_value(file) OVER same AS original_file,
    first_value(record_offset) OVER same AS original_offset,
    first_value(record_id) OVER same AS original_id,
    first_value(url) OVER same AS original_url,
    first_value(date) OVER same AS original_date,
    first_value(captured_s) OVER same AS original_s,
    first_value(is_ambiguous) OVER same AS original_is_ambiguous
  FROM laned WINDOW same AS (
    PARTITION BY payload_key, payload_digest, payload_length, body_digest, content,
      lane
    ORDER BY {order}
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT file, record_offset, record_length, record_id, url, date, payload_length,
  payload_digest, copy, original_file, original_offset, original_id, original_url,
  original_date
FROM ranked
WHERE copy > 1 AND NOT is_referred AND NOT original_is_ambiguous
  AND NOT (url = original_url AND captured_s = original_s)
"""
"""Standard SQL, for every engine. Of equal payloads the earliest is the original; of
those to which a revisit refers, one of them."""
CLAIMED = """
SELECT claimed_digest, count(*) FROM manifest WHERE NOT agrees GROUP BY claimed_digest
"""
"""What records claim that do not have it, or of which nobody here can tell."""
FILES = """
SELECT file, count(*) AS copies,
  CAST(sum(payload_length) AS BIGINT) AS payload_bytes,
  CAST(sum(record_length) AS BIGINT) AS record_bytes
FROM plan GROUP BY file ORDER BY record_bytes DESC, file
"""
"""What each file would lose: *record_bytes* are those that its copies take up in it. It
would gain as many revisits; ``apply --dry-run`` makes these, to tell their size."""
PLAN = "plan.parquet"
PLAN_FILES = "plan-files.parquet"
COMPARED = "compared.parquet"
TEXTS = ("compared.warcsum", "plan.warcsum")
"""Stages 2 and 3 of WARCsum (`frontier.postcrawl.warcsum`)."""
SUMMARY = "plan.json"
WEAK = ("md5", "sha1")
"""Algorithms of which different payloads with one digest can be made."""
NAMED = 20
"""Files that are named in what a plan comes to; all are in `PLAN_FILES`."""


class Order(StrEnum):
    """Which of the captures of a payload is the original."""

    EARLIEST = "earliest"
    INPUT = "input"
    """The first by the file's path, and by the place in it."""


class Prefer(StrEnum):
    """Which original a copy refers to, of several that stay."""

    FIRST = "first"
    SAME_URL = "same-url"
    """One from its own URL, if a revisit of the collection refers to it already."""


class Compare(StrEnum):
    """Which payloads are compared byte for byte before the plan is made."""

    WEAK = "weak"
    """Those of a digest of one of the algorithms `WEAK`."""
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Choice:
    """How originals are chosen, and what is compared to find them."""

    order: Order = Order.EARLIEST
    prefer: Prefer = Prefer.FIRST
    compare: Compare = Compare.WEAK


def text_of(query: str, policy: Policy, choice: Choice) -> str:
    """*query*, `CANDIDATES` or `QUERY`, under *policy*.

    It asks the tables ``manifest``, ``compared`` with the columns of
    `frontier.postcrawl.byte_comparison.SCHEMA`, ``indexed`` with those of
    `frontier.postcrawl.originals.SCHEMA`, and ``admitted`` with `admitted`.
    """
    by_time = "" if choice.order is Order.INPUT else "captured_us, "
    order = f"is_ambiguous, is_referred DESC, {by_time}file, record_offset"
    weak = " OR ".join(f"payload_digest LIKE '{name}:%'" for name in WEAK)
    statuses = ", ".join(str(int(status)) for status in sorted(policy.statuses))
    eligible = _ELIGIBLE.format(
        admitted=_ADMITTED if policy.is_by_mime else "",
        fit=_FIT.format(least=1, statuses=statuses),  # never the empty payload
    )
    return query.format(
        eligible=eligible,
        compared="TRUE" if choice.compare is Compare.ALWAYS else f"({weak})",
        order=order,
        lane=_LANE.format(order=order) if choice.prefer is Prefer.SAME_URL else "0",
    )


def admitted(policy: Policy, mimes: Iterable[str]) -> pa.Table:
    """Those of *mimes* whose payloads may become revisits, and their least bytes."""
    least = {mime: policy.least(mime) for mime in mimes}
    rows = [{"mime": m, "least": size} for m, size in least.items() if size is not None]
    return pa.Table.from_pylist(rows, _ADMITTED_SCHEMA)


_ADMITTED_SCHEMA = pa.schema([("mime", pa.string()), ("least", pa.int64())])


@dataclass(frozen=True, slots=True)
class Copy:
    """A capture that is to become a revisit."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    url: str
    date: str
    payload_length: int
    payload_digest: str
    copy: int
    """The place among the captures of the payload; the original has 1."""
    original_file: str
    original_offset: int
    original_id: str
    original_url: str
    original_date: str


@dataclass(frozen=True, slots=True)
class FileCopies:
    """What a file would lose; see `FILES`."""

    file: str
    copies: int
    payload_bytes: int
    record_bytes: int


@dataclass(slots=True)
class Plan:
    """What a plan comes to."""

    id: str = ""
    """Follows from the manifests, the policy and the choice, as the plan does."""
    files: int = 0
    records: int = 0
    copies: int = 0
    payload_bytes: int = 0
    copied_bytes: int = 0
    """Of payloads that become revisits."""
    faults: list[str] = field(default_factory=list)
    """Of files that cannot be read to their end: they are left as they are."""
    unread: int = 0
    """Records whose payload could not be read."""
    undated: int = 0
    """Captures of which no date to the second can be read."""
    wrong: int = 0
    """Records that do not have the payload digest that they claim."""
    unchecked: int = 0
    """Records whose claim is no digest that is known here: they stay what they are."""
    indexed: int | None = None
    """Payloads of which a collection's index has an original, if it was asked."""
    unreachable: int = 0
    """Of those, the ones whose original is in no file that was given."""
    algorithms: list[str] = field(default_factory=list)
    """Of the payload digests of the manifests."""
    compared: byte_comparison.Compared = field(default_factory=byte_comparison.Compared)
    """What was compared byte for byte."""
    files_with_copies: int = 0
    most: list[FileCopies] = field(default_factory=list)
    """The files that would lose most; all are in `PLAN_FILES`."""


class Planner:
    """Makes the plan of the manifests in *directory*, by *engine*."""

    def __init__(
        self,
        directory: Path,
        mode: int = FILE_MODE,
        engine: Callable[[Path], AbstractContextManager[Engine]] = duckdb_engine,
    ) -> None:
        self._directory = directory
        self._mode = mode
        self._engine = engine

    def make(
        self,
        policy: Policy,
        choice: Choice,
        say: Callable[[str], None] = lambda _: None,
        known: Known | None = None,
    ) -> Plan:
        """Write the plan, and what it comes to. *say* is told what is left out.

        Captures that are *known* are originals, too.

        Raises:
            NoManifest: There is none.
            OSError: It cannot be written.
        """
        plan, places = Plan(), sorted(self._directory.glob(f"*{SUFFIX}"))
        if not places:
            raise NoManifest(str(self._directory))
        of_another = (SUMMARY, PLAN, PLAN_FILES, COMPARED, INDEXED, CAPTURES, *TEXTS)
        for name in of_another:
            (self._directory / name).unlink(missing_ok=True)
        whole = [place for place in places if self._is_whole(place, plan, say)]
        facts: list[Any] = [
            asdict(policy) | {"statuses": sorted(policy.statuses)},
            asdict(choice),
        ]
        facts += [asdict(found) for found in map(stored_manifest, whole) if found]
        plan.id = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        if len(plan.algorithms) > 1:
            names = ", ".join(plan.algorithms)
            say(f"there are digests of {names}: copies are only found within each")
        if whole:
            self._query(whole, policy, choice, plan, say, known)
            if known is not None:
                facts += [known.fact, [os.fspath(each) for each in known.originals]]
                plan.id = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        summary = json.dumps(asdict(plan), indent=2).encode()
        publish(self._directory / SUMMARY, summary, self._mode)
        return plan

    def _is_whole(self, place: Path, plan: Plan, say: Callable[[str], None]) -> bool:
        """Count what the manifest at *place* has, if it has all records of its file."""
        found = stored_manifest(place)
        if found is None:
            raise NoManifest(str(place))
        try:
            require_current(found)
        except (StaleManifest, OSError) as error:
            found.faults.append(str(error))
        faults = left_because(found)
        for fault in faults:
            plan.faults.append(fault)
            say(f"left as it is: {fault}")
        for each in found.undated_named:
            say(f"neither copy nor original: {each}")
        if (more := found.undated - len(found.undated_named)) > 0:
            say(f"neither copy nor original: {more:,} more records of {found.file}")
        plan.files += 1
        plan.undated += found.undated
        plan.records += found.records
        plan.payload_bytes += found.payload_bytes
        names = found.algorithms or [found.algorithm]
        plan.algorithms += [name for name in names if name not in plan.algorithms]
        return not faults

    def _query(
        self,
        places: Sequence[Path],
        policy: Policy,
        choice: Choice,
        plan: Plan,
        say: Callable[[str], None],
        known: Known | None,
    ) -> None:
        with self._engine(self._directory) as engine:
            engine.view("manifest", places)
            engine.table("indexed", SCHEMA.empty_table())
            ((plan.unread,),) = engine.rows("SELECT count(fault) FROM manifest")
            for claimed, count in engine.rows(CLAIMED):
                if parsed(claimed) is None:
                    plan.unchecked += count
                else:
                    plan.wrong += count
            if known is not None:
                known.find(engine, places, self._directory, self._mode, say)
                plan.indexed, plan.unreachable = known.count, known.unreachable
            if policy.is_by_mime:
                found = engine.rows("SELECT DISTINCT coalesce(mime, '') FROM manifest")
                engine.table("admitted", admitted(policy, (mime for (mime,) in found)))
            engine.table("compared", byte_comparison.SCHEMA.empty_table())
            if choice.compare is Compare.ALWAYS or set(plan.algorithms) & set(WEAK):
                self._compare(engine, policy, choice, plan, say)
            with creating_whole(self._directory / PLAN, self._mode) as scratch:
                engine.write_by_file(text_of(QUERY, policy, choice), scratch)
            engine.view("plan", [self._directory / PLAN])
            counts = (
                "SELECT count(*), CAST(coalesce(sum(payload_length), 0) AS BIGINT) "
                "FROM plan"
            )
            ((plan.copies, plan.copied_bytes),) = engine.rows(counts)
            with creating_whole(self._directory / PLAN_FILES, self._mode) as scratch:
                engine.write(FILES, scratch)
            engine.view("of_files", [self._directory / PLAN_FILES])
            found = engine.rows("SELECT count(*) FROM of_files")
            ((plan.files_with_copies,),) = found
            first = (
                f"SELECT * FROM of_files ORDER BY record_bytes DESC, file LIMIT {NAMED}"  # noqa: S608 - ours
            )
            plan.most = [FileCopies(*each) for each in engine.rows(first)]

    def _compare(
        self,
        engine: Engine,
        policy: Policy,
        choice: Choice,
        plan: Plan,
        say: Callable[[str], None],
    ) -> None:
        """Compare payloads, and have the result as the table ``compared``."""
        found = engine.rows(text_of(CANDIDATES, policy, choice))
        candidates = (byte_comparison.Candidate(*row) for row in found)
        place = self._directory / COMPARED
        compared = byte_comparison.compare(candidates, plan.compared, say)
        with (
            published(place, self._mode) as file,
            pq.ParquetWriter(file, byte_comparison.SCHEMA) as writer,
        ):
            while some := list(islice(compared, 10_000)):
                columns = [list(column) for column in zip(*some, strict=True)]
                writer.write_table(pa.table(columns, byte_comparison.SCHEMA))
        engine.view("compared", [place])


def left_because(manifest: Manifest) -> list[str]:
    """Why the file of *manifest* is left as it is; nothing if it is not."""
    return manifest.faults + [manifest.unwritable] * bool(manifest.unwritable)


def files_of(directory: Path) -> list[str]:
    """The files of which manifests in *directory* know all records.

    Raises:
        NoManifest: There are none, or no plan.
        StaleManifest: A file has changed since.
    """
    if not (directory / SUMMARY).exists():
        raise NoManifest(str(directory / SUMMARY))
    found = []
    for place in sorted(directory.glob(f"*{SUFFIX}")):
        manifest = stored_manifest(place)
        if manifest is None:
            raise StaleManifest(str(place))
        if not left_because(manifest):
            found.append(manifest.file)
    return found


def copies_of(directory: Path, file: str) -> Iterator[Copy]:
    """What the plan in *directory* makes revisits of in *file*, in its order."""
    if not (directory / PLAN).exists():
        return
    with pq.ParquetFile(directory / PLAN) as plan:  # sorted by file
        for number in range(plan.num_row_groups):
            said = plan.metadata.row_group(number).column(0).statistics
            if said and said.has_min_max and not said.min <= file <= said.max:
                continue
            found = plan.read_row_group(number)
            found = found.filter(pc.equal(found["file"], file))
            for batch in found.to_batches(max_chunksize=10_000):
                for row in zip(*(each.to_pylist() for each in batch), strict=True):
                    yield Copy(*row)


def summary_of(directory: Path) -> dict[str, Any]:
    """What the plan in *directory* comes to."""
    facts: dict[str, Any] = json.loads((directory / SUMMARY).read_bytes())
    return facts
