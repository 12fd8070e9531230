"""``frontier warc``: deduplication of WARC files after the crawl."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table

from frontier.cli.collection import collection_named
from frontier.cli.options import Output, StoreOptions
from frontier.cli.output import ExitCode, complain, say
from frontier.cli.warc_files import (
    Bar,
    Files,
    Originals,
    Out,
    Running,
    Trouble,
    collected,
    files_given,
    hold,
    manifests_of,
    originals_of,
    require_closed,
    rewritten,
    statuses_named,
)
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from frontier.dedupe.revisit_policy import Policy
    from frontier.postcrawl.engines import DuckDb, Engine
    from frontier.postcrawl.originals import Known
    from frontier.postcrawl.plan import Choice
    from frontier.postcrawl.verify import Verified

E = TypeVar("E", bound=StrEnum)

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
            metavar="SIZE", help="Memory for DuckDB; above that it sorts on disk."
        ),
    ] = "1GB"

    def planned_by(self) -> Callable[[Path], AbstractContextManager[Engine]]:
        """What makes the engine of a plan, given the directory to sort in.

        Raises:
            ConfigurationError: There is no such engine.
        """
        from functools import partial

        from frontier.postcrawl.engines import spark_engine

        if master := self._master():
            return partial(spark_engine, master)
        return self.duckdb

    def duckdb(self, scratch: Path) -> AbstractContextManager[DuckDb]:
        """DuckDB, which sorts in *scratch*."""
        from frontier.postcrawl.engines import duckdb_engine

        return duckdb_engine(scratch, self.memory, self._processes())


@dataclass(frozen=True, slots=True)
class Which:
    """Which captures may become revisits."""

    status: Annotated[
        str, typer.Option(metavar="N,...", help="Only of these statuses: 404,5xx.")
    ] = "200"
    mime_include: Annotated[
        str, typer.Option(metavar="TYPE,...", help="Only of these types: image/*.")
    ] = ""
    mime_exclude: Annotated[
        str, typer.Option(metavar="TYPE,...", help="Not of these types.")
    ] = ""
    min_text_bytes: Annotated[
        int, typer.Option(metavar="N", min=0, help="Only of text at least this long.")
    ] = 0
    min_binary_bytes: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Only of other payloads at least this long."
        ),
    ] = 0
    order: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The original is the 'earliest' capture, or the first of the 'input', "
            "by its file's path.",
        ),
    ] = "earliest"
    prefer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Refer to the 'first' capture, or to one of the 'same-url' if one "
            "stays.",
        ),
    ] = "first"

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

    def choice(self) -> Choice:
        """How originals are chosen.

        Raises:
            ConfigurationError: There is no such way.
        """
        from frontier.postcrawl.plan import Choice, Order, Prefer

        return Choice(
            _one_of(Order, "--order", self.order),
            _one_of(Prefer, "--prefer", self.prefer),
        )


@dataclass(frozen=True, slots=True)
class Indexed(StoreOptions):
    """A collection whose originals are those of the plan, too."""

    collection: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Copies of what crawls of this collection have stored, too: its index "
            "says what that is, and --originals where.",
        ),
    ] = None
    originals: Originals = None

    @contextmanager
    def known(
        self, directory: Path, running: Running, trouble: Trouble
    ) -> Iterator[Known | None]:
        """What the collection has, for the plan of the manifests in *directory*.

        Raises:
            ConfigurationError: The name is invalid, or there are no files.
            StoreUnavailable: The store does not answer.
        """
        if (self.collection is None) is not (self.originals is None):
            raise ConfigurationError("--collection and --originals go together")
        if self.collection is None:
            yield None
            return
        from frontier.collection.commit import Collection
        from frontier.postcrawl.manifest import place_of
        from frontier.postcrawl.originals import Known
        from frontier.postcrawl.rewriting import ORIGINALS

        name, where = collection_named(self.collection), directory / ORIGINALS
        further = originals_of(self.originals, where, trouble)
        facts = manifests_of(further, where, running, _options_of(directory), trouble)
        for fault in facts["faults"]:
            trouble.file(fault)
        for reason in facts["undated"]:
            trouble.record(reason)
        places = [place_of(path, where) for path in further]
        with self.connected() as store:
            index = Collection(store, name, "", revisits=True)
            yield Known(index, [place for place in places if place.exists()])


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


def _one_of(kind: type[E], option: str, name: str) -> E:
    try:
        return kind(name)
    except ValueError:
        names = ", ".join(repr(each.value) for each in kind)
        raise ConfigurationError(f"{option} {name!r}: one of {names}") from None


class Form(StrEnum):
    """What manifests are written as."""

    PARQUET = "parquet"
    WARCSUM = "warcsum"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is computed of each record."""

    digest: Annotated[
        str,
        typer.Option(metavar="NAME", help="Of payloads: md5, sha1, sha512, blake3."),
    ] = "sha256"
    trust_header: Annotated[
        bool, typer.Option("--trust-header", help="Take digests that records claim.")
    ] = False
    skip_empty: Annotated[
        bool, typer.Option("--skip-empty", help="Leave out empty payloads.")
    ] = False

    def options(self) -> Any:
        """As a manifest takes them.

        Raises:
            ConfigurationError: There is no such digest, or not here.
        """
        from frontier.postcrawl.manifest import Options
        from frontier.postcrawl.payload import ALGORITHMS

        if self.digest not in ALGORITHMS:
            raise ConfigurationError(f"--digest {self.digest!r}: one of {ALGORITHMS}")
        if self.digest == "blake3" and not find_spec("blake3"):
            raise ConfigurationError(
                "--digest blake3 needs: pip install 'frontier-crawl[blake3]'"
            )
        return Options(
            self.digest, trust_header=self.trust_header, skip_empty=self.skip_empty
        )


def manifest(
    context: typer.Context,
    given: Files,
    out: Out,
    output: Output,
    running: Planning,
    reading: Reading,
    sample: Annotated[
        str, typer.Option(metavar="N%", help="Only of this share of the files.")
    ] = "100%",
    form: Annotated[
        Form, typer.Option("--format", help="Write manifest.warcsum, too.")
    ] = Form.PARQUET,
) -> None:
    """Note each capture in WARC files, with its payload's digest, as Parquet.

    Run it again to go on after a kill, or with more files: what is noted of a file that
    has not changed is kept.
    """
    trouble = Trouble()
    options, found = reading.options(), files_given(given, trouble)
    hold(context, out)
    paths = _sampled(found, sample)
    facts = manifests_of(paths, out, running, options, trouble)
    facts["not_sampled"] = len(found) - len(paths)
    if facts["not_sampled"]:
        say(f"{facts['not_sampled']:,} files are not in the sample; not looked at")
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
    indexed: Indexed,
    form: Annotated[
        Form, typer.Option("--format", help="Write plan.warcsum, too.")
    ] = Form.PARQUET,
) -> None:
    """Find the captures that are copies of an earlier one; change nothing."""
    trouble = Trouble()
    from frontier.postcrawl.plan import PLAN_FILES, files_of

    hold(context, directory, is_made=True)
    facts = _plan(directory, running, which, trouble, indexed)
    if form is Form.WARCSUM:
        _write_text(files_of(directory), directory, running, planned=True)
    lines = _planned(facts)
    lines += [
        f"{each['file']}: {each['copies']:,} records of {each['record_bytes']:,} bytes "
        "would be revisits"
        for each in facts["most"]
    ]
    if facts["files_with_copies"] > len(facts["most"]):
        more = facts["files_with_copies"] - len(facts["most"])
        lines.append(f"and {more:,} more files, in {directory / PLAN_FILES}")
    trouble.end(output, facts, lines)


def apply(
    context: typer.Context,
    directory: Directory,
    output: Output,
    running: Running,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write here.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace each file, once it is whole.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; tell what it would save.")
    ] = False,
) -> None:
    """Write the files of a plan again, with revisit records in place of copies.

    Each copy is compared with its original before it loses its payload.
    """
    if [out is not None, in_place, dry_run].count(True) != 1:
        raise ConfigurationError("say --out DIR, --in-place or --dry-run")
    trouble = Trouble()
    hold(context, directory, is_made=True)
    facts = _apply(directory, out, running, trouble, dry=dry_run)
    line = rewritten(facts, "revisits")
    if dry_run:
        line = f"nothing is written; it would be: {line}"
    if in_place and facts["replaced"]:
        say(STALE)
    trouble.end(output, facts, [line])


def convert(given: Files, out: Out, output: Output, running: Running) -> None:
    """Write ARC files, and WARC files of other shapes, as WARC with gzip members.

    What is written is read again, and compared with the old file.
    """
    trouble = Trouble()
    from frontier.postcrawl.convert import name_of
    from frontier.postcrawl.many_files import converted, outs_of

    paths = files_given(given, trouble, without=out)
    places = outs_of(paths, out)
    outs = [made.with_name(name_of(made)) for made in places]
    outs = [  # x.arc beside x.arc.gz: each has its whole name in the new one
        made if outs.count(made) == 1 else place.with_name(f"{place.name}.warc.gz")
        for made, place in zip(outs, places, strict=True)
    ]
    of: dict[Path, Path] = {}
    for made, path in zip(outs, paths, strict=True):
        if of.setdefault(made, path) != path:
            raise ConfigurationError(
                f"{of[made]} and {path} would both become {made.name}; convert them "
                "into two directories"
            )
    if {made.resolve() for made in outs} & {path.resolve() for path in paths}:
        raise ConfigurationError("a file would be written over; name another directory")
    with Bar("converting", paths) as progress:
        work = running.work(out, progress)
        facts = collected(converted(paths, outs, work), trouble, "records")
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
    indexed: Indexed,
) -> None:
    """Deduplicate WARC files: manifest, plan and apply, into another directory."""
    trouble, directory = Trouble(), out / "manifests"
    from frontier.postcrawl.many_files import outs_of

    paths = files_given(given, trouble, without=out)
    require_closed(trouble, output)
    outs_of(paths, out)  # nothing is begun that cannot be done
    hold(context, directory)
    bar = Bar("deduplicating", paths, parts=2)  # each file is read, and written
    facts = manifests_of(paths, directory, running, None, trouble, bar)
    facts |= _plan(directory, running, which, trouble, indexed)
    facts |= _apply(directory, out, running, trouble, bar=bar)
    lines = [*_planned(facts), rewritten(facts, "revisits")]
    trouble.end(output, facts, lines)


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
    from frontier.postcrawl.many_files import verified
    from frontier.postcrawl.remote_files import path_of
    from frontier.postcrawl.working_directory import temporary

    roots = path_of(before), path_of(after)
    paths = files_given([before], trouble, without=roots[1])
    made = files_given([after], trouble)
    require_closed(trouble, output)
    with (
        temporary("verify") as scratch,
        Bar("comparing", [*paths, *made]) as progress,
    ):
        further = originals_of(originals, scratch, trouble)
        work = running.work(scratch, progress)
        done = verified(paths, made, work, trouble.file, further, roots)
    for fault in done.named:
        complain(fault)
    code = ExitCode.FAULTY if done.faults else ExitCode.OK
    trouble.end(output, asdict(done), [_table_of(done)], code)


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
    indexed: Indexed,
) -> dict[str, Any]:
    from frontier.files import mode_of_environment
    from frontier.postcrawl.originals import NAMED
    from frontier.postcrawl.plan import Planner

    policy, choice = which.policy(), which.choice()
    planner = Planner(directory, mode_of_environment(), running.planned_by())
    with indexed.known(directory, running, trouble) as known:
        made = planner.make(policy, choice, trouble.record, known)
    if made.unreachable > NAMED:
        trouble.record(f"{made.unreachable:,} originals of the index are in no file")
    if made.unread:
        trouble.record(f"the payloads of {made.unread:,} records cannot be read")
    if made.wrong:
        say(f"{made.wrong:,} records have another payload digest than they claim")
    if made.unchecked:
        say(
            f"{made.unchecked:,} records claim what is no payload digest of a known "
            "algorithm; it cannot be checked, and they stay what they are"
        )
    return asdict(made)


def _options_of(directory: Path) -> Any:
    """How the manifests in *directory* were made: others are to be like them."""
    from frontier.postcrawl.manifest import SUFFIX, Options, stored_manifest

    found = (stored_manifest(place) for place in sorted(directory.glob(f"*{SUFFIX}")))
    return next((each.options for each in found if each is not None), Options())


def _apply(
    directory: Path,
    out: Path | None,
    running: Running,
    trouble: Trouble,
    *,
    dry: bool = False,
    bar: Bar | None = None,
) -> dict[str, Any]:
    from frontier.postcrawl.many_files import outs_of
    from frontier.postcrawl.plan import applying, files_of
    from frontier.postcrawl.remote_files import path_of

    paths = [path_of(file) for file in files_of(directory)]
    outs = paths if out is None else outs_of(paths, out)
    return running.performed(applying(directory, dry=dry), paths, outs, trouble, bar)


def _planned(facts: dict[str, Any]) -> list[str]:
    line = (
        f"{facts['copies']:,} of {facts['records']:,} records are copies, with "
        f"{facts['copied_bytes']:,} of {facts['payload_bytes']:,} bytes of payload"
    )
    lines = [line]
    if facts["indexed"] is not None:
        lines.append(f"the collection's index has {facts['indexed']:,} of the payloads")
    return lines


def _sampled(paths: list[Path], share: str) -> list[Path]:
    from frontier.postcrawl.files import sampled

    number = share.removesuffix("%")
    percent = float(number) if re.fullmatch(r"\d{1,3}(\.\d{1,6})?", number) else 0
    if not 0 < percent <= 100:
        raise ConfigurationError(f"--sample {share!r}: not from 0% to 100%")
    return sampled(paths, percent / 100)


def _write_text(
    files: Iterable[str | Path],
    directory: Path,
    running: Planning,
    *,
    planned: bool = False,
) -> int:
    """Write what the manifests of *files*, or the plan, say as WARCsum does."""
    from frontier.files import mode_of_environment
    from frontier.postcrawl.manifest import place_of
    from frontier.postcrawl.remote_files import path_of
    from frontier.postcrawl.warcsum import write

    places = [place_of(path_of(str(file)), directory) for file in files]
    places = [place for place in places if place.exists()]
    if not places:
        return 0
    with running.duckdb(directory) as engine:
        mode = mode_of_environment()
        return write(engine, places, directory, mode, planned=planned)
