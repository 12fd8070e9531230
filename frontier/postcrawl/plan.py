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
5.  Payloads of one digest are compared byte for byte before one goes: by whom applies
    the plan. A copy that has another payload than its original stays, and is named.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frontier.errors import NoManifest, StaleManifest
from frontier.files import FILE_MODE, publish
from frontier.postcrawl.actions import Pass
from frontier.postcrawl.engines import (
    creating_parts,
    creating_whole,
    duckdb_engine,
    parts_of,
    query,
)
from frontier.postcrawl.manifest import (
    SUFFIX,
    require_current,
    stored_manifest,
)
from frontier.postcrawl.originals import (
    CAPTURES,
    INDEXED,
    SCHEMA,
)
from frontier.postcrawl.payload import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frontier.dedupe.revisit_policy import Policy
    from frontier.postcrawl.engines import Engine
    from frontier.postcrawl.manifest import Manifest
    from frontier.postcrawl.originals import Known

_FIT = """type = 'response' AND method = 'GET' AND fault IS NULL
    AND truncated IS NULL AND captured_us IS NOT NULL AND (agrees IS NULL OR agrees)
    AND manifest.payload_key IS NOT NULL AND payload_length >= {least}
    AND status IN ({statuses})"""
_ADMITTED = """JOIN admitted ON coalesce(manifest.mime, '') = admitted.mime
    AND payload_length >= admitted.least"""
_LANE = """CASE
      WHEN max(CASE WHEN is_referred AND NOT is_ambiguous THEN 1 ELSE 0 END) OVER (
        PARTITION BY payload_digest, payload_length, body_digest, url) = 1
      THEN url
      ELSE first_value(url) OVER (
        PARTITION BY payload_digest, payload_length, body_digest
        ORDER BY {order})
    END"""
"""The URL of the capture that stays, of those from the same URL, if there is one; that
of the first capture otherwise, which is one that stays if any does."""
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
TEXT = "plan.warcsum"
"""The plan in the form of WARCsum."""
SUMMARY = "plan.json"
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


@dataclass(frozen=True, slots=True)
class Choice:
    """How originals are chosen."""

    order: Order = Order.EARLIEST
    prefer: Prefer = Prefer.FIRST


def text_of(policy: Policy, choice: Choice) -> str:
    """The query of a plan under *policy*, which asks ``admitted`` with `admitted`."""
    by_time = "" if choice.order is Order.INPUT else "captured_us, "
    order = f"is_ambiguous, is_referred DESC, {by_time}file, record_offset"
    statuses = ", ".join(str(int(status)) for status in sorted(policy.statuses))
    return query("plan").format(
        admitted=_ADMITTED if policy.is_by_mime else "",
        fit=_FIT.format(least=1, statuses=statuses),  # never the empty payload
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
        for name in (SUMMARY, PLAN_FILES, INDEXED, CAPTURES, TEXT):  # of another
            (self._directory / name).unlink(missing_ok=True)
        shutil.rmtree(self._directory / PLAN, ignore_errors=True)
        whole = [place for place in places if self._is_whole(place, plan, say)]
        facts: list[Any] = [
            asdict(policy) | {"statuses": sorted(policy.statuses)},
            asdict(choice),
        ]
        facts += [asdict(found) for found in map(stored_manifest, whole) if found]
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
            with creating_parts(self._directory / PLAN, self._mode) as parts:
                engine.write_by_file(text_of(policy, choice), parts)
            engine.view("plan", parts_of(self._directory / PLAN))
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


def applying(directory: Path, *, dry: bool = False) -> Pass:
    """The pass that applies the plan in *directory*; with *dry* nothing is written."""
    plan = summary_of(directory)["id"]
    return Pass(directory, directory / PLAN, plan, pairs=True, dry=dry)


def summary_of(directory: Path) -> dict[str, Any]:
    """What the plan in *directory* comes to."""
    facts: dict[str, Any] = json.loads((directory / SUMMARY).read_bytes())
    return facts
