"""Finds captures that are copies of an earlier one, by a query over all manifests.

What always holds:

1.  A copy has an original that is no copy itself, with the same payload and the same
    stored bytes: its own head with the original's body is the response that it was.
2.  A capture that a revisit already refers to, by URL and second or by record id, stays
    what it is, and so does one in a file that is only read. For a URL whose revisits
    name only a digest and no capture, the first capture of each payload stays.
3.  No original is named by a URL and a second at which another payload was captured,
    too, or by the URL and second of its copy: replay finds originals by these alone.
4.  A capture is neither copy nor original if its payload could not be read, or was cut
    short, or does not have the digest that it claims, or has a claim that cannot be
    checked.
5.  Payloads of one digest are compared byte for byte before one goes, when the plan is
    applied. A copy with another payload than its original stays, and is named.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from frontier.errors import NoManifest, StaleManifest
from frontier.files import mode_of_environment, publish
from frontier.postcrawl.actions import Pass
from frontier.postcrawl.engines import (
    Engine,
    duckdb_engine,
    parts_of,
    query,
    texts,
)
from frontier.postcrawl.manifest import (
    SUFFIX,
    require_current,
    stored_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frontier.dedupe.revisit_policy import Policy

_FIT = """type = 'response' AND method = 'GET' AND fault IS NULL
    AND truncated IS NULL AND captured_us IS NOT NULL AND (agrees IS NULL OR agrees)
    AND manifest.payload_key IS NOT NULL AND payload_length > 0
    AND status IN ({statuses})"""
_ADMITTED = """JOIN admitted ON coalesce(manifest.mime, '') = admitted.mime
    AND payload_length >= admitted.least"""
UNUSABLE = """
SELECT count(fault), count(CASE WHEN NOT agrees THEN 1 END) FROM manifest
"""
"""Counts records that could not be read, and those that do not have the digest that
they claim, or whose claim cannot be checked here."""
COPIES = """
SELECT count(*), CAST(coalesce(sum(payload_length), 0) AS BIGINT) FROM plan
"""
PLAN = "plan.parquet"
TEXT = "plan.warcsum"
"""The plan in the form of WARCsum."""
SUMMARY = "plan.json"


def text_of(policy: Policy) -> str:
    """The query of a plan under *policy*; its table ``admitted`` is from `admitted`."""
    statuses = ", ".join(str(int(status)) for status in sorted(policy.statuses))
    return query("plan").format(
        admitted=_ADMITTED if policy.is_by_mime else "",
        fit=_FIT.format(statuses=statuses),
    )


def admitted(policy: Policy, mimes: Iterable[str]) -> pa.Table:
    """Those of *mimes* whose payloads may become revisits, and from what size on."""
    least = {mime: policy.least(mime) for mime in mimes}
    rows = [{"mime": m, "least": size} for m, size in least.items() if size is not None]
    schema = pa.schema({"mime": "string", "least": "int64"})
    return pa.Table.from_pylist(rows, schema)


@dataclass(slots=True)
class Plan:
    """The summary of a plan."""

    files: int = 0
    records: int = 0
    copies: int = 0
    payload_bytes: int = 0
    copied_bytes: int = 0
    """Bytes of payloads that become revisits."""
    faults: list[str] = field(default_factory=list)
    """Why files cannot be read to their end or rewritten: they are left as they are."""
    unread: int = 0
    """Records whose payload could not be read."""
    undated: int = 0
    """Captures of which no date to the second can be read."""
    wrong: int = 0
    """Records that do not have the payload digest that they claim, or whose claim
    cannot be checked: they stay what they are."""
    algorithms: list[str] = field(default_factory=list)
    """The algorithms of the manifests' payload digests."""


def make_plan(
    directory: Path,
    policy: Policy,
    engine: Callable[[Path], AbstractContextManager[Engine]] = duckdb_engine,
    say: Callable[[str], None] = lambda _: None,
    only_read: Sequence[Path] = (),
) -> Plan:
    """Write the plan of the manifests in *directory*, by *engine*.

    *say* is told what is left out. Captures in the manifests *only_read* can be
    originals, but not copies.

    Raises:
        NoManifest: There are none.
        OSError: It cannot be written.
    """
    plan, places = Plan(), sorted(directory.glob(f"*{SUFFIX}"))
    if not places:
        raise NoManifest(str(directory))
    for name in (SUMMARY, TEXT):  # of another plan
        (directory / name).unlink(missing_ok=True)
    shutil.rmtree(directory / PLAN, ignore_errors=True)
    whole = [place for place in places if _is_whole(place, plan, say)]
    names = {place.name for place in places}
    further = [place for place in only_read if place.name not in names]
    if len(plan.algorithms) > 1:
        names_of = ", ".join(plan.algorithms)
        say(f"there are digests of {names_of}: copies are only found within each")
    if whole:
        with engine(directory) as running:
            _query(running, directory, plan, policy, whole, further)
    summary = json.dumps(asdict(plan), indent=2).encode()
    publish(directory / SUMMARY, summary, mode_of_environment())
    return plan


def _is_whole(place: Path, plan: Plan, say: Callable[[str], None]) -> bool:
    """Count what is in the manifest at *place*; return whether its file can be used."""
    found = stored_manifest(place)
    if found is None:
        raise NoManifest(str(place))
    try:
        require_current(found)
    except (StaleManifest, OSError) as error:
        found.faults.append(str(error))
    for fault in found.left_because:
        plan.faults.append(fault)
        say(f"unchanged: {fault}")
    for each in found.without_date:
        say(f"neither copies nor originals: {each}")
    plan.files += 1
    plan.undated += found.undated
    plan.records += found.records
    plan.payload_bytes += found.payload_bytes
    if found.algorithm not in plan.algorithms:
        plan.algorithms.append(found.algorithm)
    return not found.left_because


def _query(
    engine: Engine,
    directory: Path,
    plan: Plan,
    policy: Policy,
    whole: Sequence[Path],
    further: Sequence[Path],
) -> None:
    engine.view("manifest", whole)
    ((plan.unread, plan.wrong),) = engine.rows(UNUSABLE)
    engine.view("manifest", [*whole, *further])
    files = [m.file for m in map(stored_manifest, further) if m]
    engine.table("only_read", texts(file=files))
    if policy.is_by_mime:
        found = engine.rows("SELECT DISTINCT coalesce(mime, '') FROM manifest")
        engine.table("admitted", admitted(policy, (mime for (mime,) in found)))
    engine.write_by_file(text_of(policy), directory / PLAN)
    engine.view("plan", parts_of(directory / PLAN))
    ((plan.copies, plan.copied_bytes),) = engine.rows(COPIES)


def files_of(directory: Path, say: Callable[[str], None] = lambda _: None) -> list[str]:
    """The files with manifests in *directory*, except those that are left as they are.

    Why one is left is told *say*.

    Raises:
        NoManifest: There are none, or no plan.
        StaleManifest: A manifest is of another version.
    """
    if not (directory / SUMMARY).exists():
        raise NoManifest(str(directory / SUMMARY))
    found = []
    for place in sorted(directory.glob(f"*{SUFFIX}")):
        manifest = stored_manifest(place)
        if manifest is None:
            raise StaleManifest(str(place))
        for fault in manifest.left_because:
            say(fault)
        if not manifest.left_because:
            found.append(manifest.file)
    return found


def applying(directory: Path) -> Pass:
    """The pass that applies the plan in *directory*."""
    return Pass(directory, directory / PLAN)
