"""``frontier warc``: deduplication of WARC files after the crawl."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from frontier.cli.options import Output
from frontier.cli.output import ExitCode, complain, say
from frontier.cli.warc_files import (
    Files,
    Originals,
    Out,
    Running,
    Trouble,
    files_given,
    hold,
    manifests_of,
    originals_of,
    rewritten,
    statuses_named,
)
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from frontier.dedupe.revisit_policy import Policy
    from frontier.postcrawl.engines import DuckDb, Engine
    from frontier.postcrawl.verify import Verified

STALE = (
    "The CDXJ beside each file is made again. What else has places in the old files is "
    "stale: a WACZ of them, copies that were uploaded, other tools' indexes, these "
    "manifests and their plan."
)
Directory = Annotated[Path, typer.Argument(metavar="MANIFESTS")]


@dataclass(frozen=True, slots=True)
class Planning(Running):
    """How a query over all manifests is run."""

    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Memory for DuckDB; beyond it, DuckDB sorts on disk."
        ),
    ] = "1GB"

    def planned_by(self) -> Callable[[Path], AbstractContextManager[Engine]]:
        """What makes the engine of a plan, given the directory to sort in.

        Raises:
            ConfigurationError: There is no such engine.
        """
        from frontier.postcrawl.engines import spark_engine

        master = self.spark()
        return partial(spark_engine, master) if master else self.duckdb

    def duckdb(self, scratch: Path) -> AbstractContextManager[DuckDb]:
        """DuckDB, which sorts in *scratch*."""
        from frontier.postcrawl.engines import duckdb_engine

        return duckdb_engine(scratch, self.memory, self.processes())


@dataclass(frozen=True, slots=True)
class Which:
    """Which captures may become revisits."""

    status: Annotated[
        str,
        typer.Option(
            metavar="N,...", help="Only responses with these statuses: 404,5xx."
        ),
    ] = "200"
    mime_include: Annotated[
        str, typer.Option(metavar="TYPE,...", help="Only these media types: image/*.")
    ] = ""
    mime_exclude: Annotated[
        str, typer.Option(metavar="TYPE,...", help="Not these media types.")
    ] = ""
    min_text_bytes: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Only text payloads at least this long."),
    ] = 0
    min_binary_bytes: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Only other payloads at least this long."
        ),
    ] = 0

    def policy(self) -> Policy:
        """As a crawl has it.

        Raises:
            ConfigurationError: A value is invalid.
        """
        from frontier.dedupe.revisit_policy import Policy

        wanted = statuses_named(self.status)
        if not wanted:
            raise ConfigurationError("--status names no status")
        return Policy(
            wanted,
            _words(self.mime_include),
            _words(self.mime_exclude),
            self.min_text_bytes,
            self.min_binary_bytes,
        )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


class Form(StrEnum):
    """What manifests are written as."""

    PARQUET = "parquet"
    WARCSUM = "warcsum"


def manifest(
    context: typer.Context,
    given: Files,
    out: Out,
    output: Output,
    running: Planning,
    digest: Annotated[
        str,
        typer.Option(metavar="NAME", help="Of payloads: md5, sha1, sha512, blake3."),
    ] = "sha256",
    form: Annotated[
        Form, typer.Option("--format", help="Also write manifest.warcsum.")
    ] = Form.PARQUET,
) -> None:
    """Note each capture in WARC files, with its payload's digest, as Parquet.

    Run it again to go on after a kill, or with more files: what is noted of a file that
    has not changed is kept.
    """
    trouble = Trouble()
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.payload import require_algorithm

    require_algorithm("--digest", digest)
    paths = files_given(given, trouble)
    hold(context, out)
    facts = manifests_of(paths, out, running, trouble, Options(digest))
    for fault in facts.pop("faults"):
        trouble.file(fault)
    for reason in facts.pop("undated"):
        trouble.record(reason)
    if form is Form.WARCSUM:
        skipped = _write_text(paths, out, running)
        if skipped:
            say(f"{skipped:,} records without a digest are not in manifest.warcsum")
    line = (
        f"{facts['files']:,} files: {facts['records']:,} records with "
        f"{facts['payload_bytes']:,} bytes of payload"
    )
    trouble.end(output, facts, [line])


def plan(
    context: typer.Context,
    directory: Directory,
    output: Output,
    running: Planning,
    which: Which,
    originals: Originals = None,
    form: Annotated[
        Form, typer.Option("--format", help="Also write plan.warcsum.")
    ] = Form.PARQUET,
) -> None:
    """Find the captures that are copies of an earlier one; change nothing."""
    trouble = Trouble()
    from frontier.postcrawl.plan import PLAN, files_of

    hold(context, directory, is_made=True)
    facts = _plan(directory, running, which, trouble, originals)
    if form is Form.WARCSUM:
        _write_text(files_of(directory), directory, running, planned=True)
    lines = [_planned(facts)]
    lines += [
        f"{each['file']}: {each['copies']:,} records of {each['record_bytes']:,} bytes "
        "would be revisits"
        for each in facts["most"]
    ]
    if facts["files_with_copies"] > len(facts["most"]):
        more = facts["files_with_copies"] - len(facts["most"])
        lines.append(f"and {more:,} more files, in {directory / PLAN}")
    trouble.end(output, facts, lines)


def apply(
    context: typer.Context,
    directory: Directory,
    output: Output,
    running: Running,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Directory for the new files."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace each file, once it is whole.")
    ] = False,
) -> None:
    """Write the files of a plan again, with revisit records in place of copies.

    Each copy is compared with its original before it loses its payload.
    """
    if (out is not None) is in_place:
        raise ConfigurationError("give --out DIR or --in-place")
    trouble = Trouble()
    hold(context, directory, is_made=True)
    facts = _apply(directory, out, running, trouble)
    if in_place and facts["replaced"]:
        say(STALE)
    trouble.end(output, facts, [rewritten(facts, "revisits")])


def convert(given: Files, out: Out, output: Output, running: Running) -> None:
    """Write ARC files, and WARC files of other shapes, as WARC with gzip members.

    What is written is read again, and compared with the old file.
    """
    trouble = Trouble()
    from frontier.postcrawl.convert import convert, name_of
    from frontier.postcrawl.files import outs_of

    paths = files_given(given, trouble, without=out)
    places = outs_of(paths, out)
    outs = [made.with_name(name_of(made)) for made in places]
    outs = [  # x.arc beside x.arc.gz: each has its whole name in the new one
        made if outs.count(made) == 1 else place.with_name(f"{place.name}.warc.gz")
        for made, place in zip(outs, places, strict=True)
    ]
    made_at = {made.resolve() for made in outs}
    if len(made_at) < len(outs) or made_at & {path.resolve() for path in paths}:
        raise ConfigurationError(
            "two files would get the same name, or a file would be overwritten: "
            "convert them into different directories"
        )
    facts = running.written(convert, paths, outs, trouble)
    facts["records"] = facts.pop("replaced")
    line = (
        f"{facts['written']:,} files written, with {facts['records']:,} records: "
        f"{facts['bytes_before']:,} bytes before, {facts['bytes_after']:,} after"
    )
    trouble.end(output, facts, [line])


def dedupe(
    context: typer.Context,
    given: Files,
    out: Out,
    output: Output,
    running: Planning,
    which: Which,
    originals: Originals = None,
) -> None:
    """Deduplicate WARC files: manifest, plan and apply, into another directory."""
    trouble, directory = Trouble(), out / "manifests"
    from frontier.postcrawl.files import outs_of

    paths = files_given(given, trouble, without=out)
    trouble.require_closed(output)
    outs_of(paths, out)  # nothing is begun that cannot be done
    hold(context, directory)
    facts = manifests_of(paths, directory, running, trouble)
    facts |= _plan(directory, running, which, trouble, originals)
    facts |= _apply(directory, out, running, trouble)
    trouble.end(output, facts, [_planned(facts), rewritten(facts, "revisits")])


def verify(
    before: Annotated[str, typer.Argument(metavar="BEFORE")],
    after: Annotated[str, typer.Argument(metavar="AFTER")],
    output: Output,
    running: Running,
    originals: Originals = None,
) -> None:
    """Prove that AFTER has every capture of BEFORE, byte for byte.

    Reads all files of both. A record is what it was, or a revisit of the same bytes,
    which AFTER has, or --originals.
    """
    trouble = Trouble()
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.remote_files import path_of
    from frontier.postcrawl.verify import compare

    roots = path_of(before), path_of(after)
    paths = files_given([before], trouble, without=roots[1])
    made = files_given([after], trouble)
    trouble.require_closed(output)
    with TemporaryDirectory(prefix="frontier-verify-") as name:
        scratch, options = Path(name), Options(every=True)
        further = originals_of(originals, scratch, trouble)
        first, second, third = (
            _manifests(some, scratch / side, running, trouble, options)
            for side, some in (("0", paths), ("1", made), ("2", further))
        )
        done = compare(first, second, third, scratch, roots)
    for fault in done.named:
        complain(fault)
    code = ExitCode.FAULTY if done.faults else ExitCode.OK
    trouble.end(output, asdict(done), [_table_of(done)], code)


def _manifests(
    paths: Iterable[Path],
    directory: Path,
    running: Running,
    trouble: Trouble,
    options: Any,
) -> list[Path]:
    """Where the manifests of *paths* in *directory* are, once they are made."""
    from frontier.postcrawl.manifest import place_of

    if not (paths := list(paths)):
        return []
    for fault in manifests_of(paths, directory, running, trouble, options)["faults"]:
        trouble.file(fault)
    places = [place_of(path, directory) for path in paths]
    return [place for place in places if place.exists()]


def _table_of(done: Verified) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_row("records", f"{done.records:,}")
    table.add_row("as before", f"{done.identical:,}")
    if done.anew:
        table.add_row("the same, with other headers", f"{done.anew:,}")
    same = f"of the same {done.payload_bytes:,} bytes"
    table.add_row("now revisits", f"{done.revisits:,}", same)
    table.add_row("faults", f"{done.faults:,}")
    return table


def _plan(
    directory: Path,
    running: Planning,
    which: Which,
    trouble: Trouble,
    originals: list[str] | None,
) -> dict[str, Any]:
    from frontier.postcrawl.manifest import SUFFIX, Options, stored_manifest
    from frontier.postcrawl.plan import Planner
    from frontier.postcrawl.rewriting import ORIGINALS

    policy, where = which.policy(), directory / ORIGINALS
    found = map(stored_manifest, sorted(directory.glob(f"*{SUFFIX}")))
    options = next((Options(each.algorithm) for each in found if each), None)
    further = originals_of(originals, where, trouble)
    only_read = _manifests(further, where, running, trouble, options)
    planner = Planner(directory, running.planned_by())
    made = planner.make(policy, trouble.record, only_read)
    if made.unread:
        trouble.record(f"the payloads of {made.unread:,} records cannot be read")
    if made.wrong:
        say(
            f"{made.wrong:,} records have a payload digest that does not match; they "
            "are left as they are"
        )
    return asdict(made)


def _apply(
    directory: Path, out: Path | None, running: Running, trouble: Trouble
) -> dict[str, Any]:
    from frontier.postcrawl.files import outs_of
    from frontier.postcrawl.plan import applying, files_of
    from frontier.postcrawl.remote_files import path_of

    paths = [path_of(file) for file in files_of(directory)]
    outs = paths if out is None else outs_of(paths, out)
    return running.performed(applying(directory), paths, outs, trouble)


def _planned(facts: dict[str, Any]) -> str:
    return (
        f"{facts['copies']:,} of {facts['records']:,} records are copies, with "
        f"{facts['copied_bytes']:,} of {facts['payload_bytes']:,} bytes of payload"
    )


def _write_text(
    files: Iterable[str | Path],
    directory: Path,
    running: Planning,
    *,
    planned: bool = False,
) -> int:
    """Write what the manifests of *files*, or the plan, say as WARCsum does."""
    from frontier.postcrawl.manifest import place_of
    from frontier.postcrawl.remote_files import path_of
    from frontier.postcrawl.warcsum import write

    places = [place_of(path_of(str(file)), directory) for file in files]
    places = [place for place in places if place.exists()]
    if not places:
        return 0
    with running.duckdb(directory) as engine:
        return write(engine, places, directory, planned=planned)
