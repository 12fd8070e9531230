"""``frontier warc``: deduplication of WARC files after the crawl."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from frontier.cli.options import Output, StoreOptions
from frontier.cli.output import ExitCode, complain, messages, say
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from frontier.dedupe.revisit_policy import Policy
    from frontier.postcrawl.engines import Engine
    from frontier.postcrawl.indexed_originals import Known
    from frontier.postcrawl.many_files import Work
    from frontier.postcrawl.plan import Choice
    from frontier.postcrawl.remote_originals import Servers
    from frontier.postcrawl.wacz_files import Unpacked

E = TypeVar("E", bound=StrEnum)

STALE = (
    "The CDXJ beside each file is made again. What else has places in the old files is "
    "stale: a WACZ of them, copies that were uploaded, other tools' indexes, these "
    "manifests and their plan."
)
Files = Annotated[list[str], typer.Argument(metavar="FILE|DIRECTORY|URL")]
Directory = Annotated[Path, typer.Argument(metavar="MANIFESTS")]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.")
]


Originals = Annotated[
    list[str] | None,
    typer.Option(
        "--originals",
        metavar="FILE|DIRECTORY",
        help="Where originals are, beside the files.",
    ),
]


@dataclass(frozen=True, slots=True)
class Running:
    """How many files at a time."""

    workers: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Processes (default: one for each core)."
        ),
    ] = 0

    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="'duckdb' on this machine, or 'spark' at --master."
        ),
    ] = "duckdb"
    master: Annotated[
        str,
        typer.Option(metavar="URL", help="Spark's: spark://HOST:PORT, yarn, local[2]."),
    ] = ""

    def work(self, directory: Path, progress: Callable[[int], None]) -> Work:
        """The work in *directory*.

        Raises:
            ConfigurationError: There is no such engine.
        """
        from frontier.files import mode_of_environment
        from frontier.postcrawl.many_files import Work

        mode = mode_of_environment()
        return Work(directory, self._processes(), mode, self._master(), progress)

    def _processes(self) -> int:
        return self.workers or len(os.sched_getaffinity(0))

    def _master(self) -> str:
        if self.engine not in {"duckdb", "spark"}:
            raise ConfigurationError(f"--engine {self.engine!r}: 'duckdb' or 'spark'")
        if (self.engine == "spark") is not bool(self.master):
            raise ConfigurationError("--engine spark and --master URL go together")
        return self.master


@dataclass(frozen=True, slots=True)
class Planning(Running):
    """How a query over all manifests is run."""

    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Of DuckDB; it sorts on disk above that."),
    ] = "1GB"

    def planned_by(self) -> Callable[[Path], AbstractContextManager[Engine]]:
        """What makes the engine of a plan, given the directory to sort in.

        Raises:
            ConfigurationError: There is no such engine.
        """
        from functools import partial

        from frontier.postcrawl.engines import duckdb_engine, spark_engine

        if master := self._master():
            return partial(spark_engine, master)
        return partial(duckdb_engine, memory=self.memory, threads=self._processes())


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
        int, typer.Option(metavar="N", min=0, help="Only of text so long.")
    ] = 0
    min_binary_bytes: Annotated[
        int, typer.Option(metavar="N", min=0, help="Only of what is no text, so long.")
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
    compare: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Compare payloads byte for byte if their digest is 'weak' (md5, "
            "sha1), or 'always'.",
        ),
    ] = "weak"

    def policy(self) -> Policy:
        """As a crawl has it.

        Raises:
            ConfigurationError: A value is invalid.
        """
        from frontier.dedupe.revisit_policy import Policy
        from frontier.node.archiving import statuses_of
        from frontier.settings.values import listed, statuses

        try:
            wanted = statuses_of(listed(statuses)(self.status))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"--status {self.status!r}: {error}") from None
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
        from frontier.postcrawl.plan import Choice, Compare, Order, Prefer

        return Choice(
            _one_of(Order, "--order", self.order),
            _one_of(Prefer, "--prefer", self.prefer),
            _one_of(Compare, "--compare", self.compare),
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
        from frontier.postcrawl.indexed_originals import Known
        from frontier.postcrawl.manifest import place_of
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


def collection_named(text: str) -> str:
    """The name that ``--collection`` says.

    Raises:
        ConfigurationError: It is invalid.
    """
    from frontier.settings.values import collection

    try:
        return str(collection(text))
    except ValueError as error:
        raise ConfigurationError(f"--collection {text!r}: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


def _one_of(kind: type[E], option: str, name: str) -> E:
    try:
        return kind(name)
    except ValueError:
        names = ", ".join(repr(each.value) for each in kind)
        raise ConfigurationError(f"{option} {name!r}: one of {names}") from None


def hold(context: typer.Context, directory: Path, *, is_made: bool = False) -> None:
    """Have no other command work on the manifests in *directory* until this one ends.

    Raises:
        DirectoryInUse: One does.
        NoManifest: There are to be some, and there are none.
    """
    from frontier.errors import NoManifest
    from frontier.files import mode_of_environment
    from frontier.postcrawl.manifest import SUFFIX
    from frontier.postcrawl.working_directory import held

    if is_made and not any(directory.glob(f"*{SUFFIX}")):
        raise NoManifest(str(directory))
    command = f"frontier warc {context.info_name}"
    context.with_resource(held(directory, command, mode_of_environment()))


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


def require_extra() -> None:
    """Say which packages are missing.

    Raises:
        ConfigurationError: One is.
    """
    if not (find_spec("duckdb") and find_spec("pyarrow")):
        raise ConfigurationError(
            "this needs duckdb and pyarrow; install them with: "
            "pip install 'frontier-crawl[postcrawl]'"
        )


class Trouble:
    """What could not be used, told at once; at the end it is the exit code."""

    def __init__(self) -> None:
        require_extra()
        self.files: list[str] = []
        self.records: list[str] = []

    def file(self, reason: str) -> None:
        """Note that a file is left, and why."""
        self.files.append(reason)
        complain(f"left as it is: {reason}")

    def record(self, reason: str) -> None:
        """Note that a record is left, and why."""
        self.records.append(reason)
        complain(reason)

    def exit(self) -> None:
        """End the command with another exit code, if there was any.

        Raises:
            Exit: There was.
        """
        if self.files or self.records:
            raise typer.Exit(ExitCode.INCOMPLETE)


def manifest(
    context: typer.Context,
    given: Files,
    out: Out,
    output: Output,
    running: Planning,
    reading: Reading,
    sample: Annotated[
        str, typer.Option(metavar="N%", help="Only of so many of the files.")
    ] = "100%",
    form: Annotated[
        Form, typer.Option("--format", help="Write manifest.warcsum, too.")
    ] = Form.PARQUET,
    parts: Annotated[
        int,
        typer.Option(
            "--split",
            metavar="N",
            min=0,
            help="And N parts of it, by digests: manifest.warcsum.1 and so on.",
        ),
    ] = 0,
) -> None:
    """Note each record of WARC files, with its payload's digest, as Parquet.

    Run it again to go on after a kill, or with more files: what is noted of a file that
    has not changed is kept.
    """
    if parts and form is not Form.WARCSUM:
        raise ConfigurationError("--split is of --format warcsum")
    trouble = Trouble()
    options, found = reading.options(), files_given(given)
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
        _write_warcsum(paths, out, running, parts)
    output.result(facts | troubles(trouble), [Text(_noted(facts))])
    trouble.exit()


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
    from frontier.postcrawl.plan import PLAN_FILES

    hold(context, directory, is_made=True)
    facts = _plan(directory, running, which, trouble, indexed)
    if form is Form.WARCSUM:
        _write_planned(directory, running)
    lines = _planned(facts)
    lines += [
        f"{each['file']}: {each['copies']:,} records of {each['record_bytes']:,} bytes "
        "would be revisits"
        for each in facts["most"]
    ]
    if facts["files_with_copies"] > len(facts["most"]):
        more = facts["files_with_copies"] - len(facts["most"])
        lines.append(f"and {more:,} more files, in {directory / PLAN_FILES}")
    output.result(facts | troubles(trouble), map(Text, lines))
    trouble.exit()


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
    line = _rewritten(facts, "revisits")
    if dry_run:
        line = f"nothing is written; it would be: {line}"
    output.result(facts | troubles(trouble), [Text(line)])
    if in_place and facts["replaced"]:
        say(STALE)
    trouble.exit()


def convert(given: Files, out: Out, output: Output, running: Running) -> None:
    """Make WARC 1.1 of ARC files, and a gzip member of each record.

    What is written is read again, and compared with the old file.
    """
    from frontier.postcrawl.convert import name_of
    from frontier.postcrawl.many_files import converted, outs_of

    trouble, paths = Trouble(), files_given(given)
    outs = [made.with_name(name_of(made)) for made in outs_of(paths, out)]
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
    output.result(facts | troubles(trouble), [Text(line)])
    trouble.exit()


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
    from frontier.postcrawl.many_files import outs_of

    trouble, directory, paths = Trouble(), out / "manifests", files_given(given)
    outs_of(paths, out)  # nothing is begun that cannot be done
    hold(context, directory)
    bar = Bar("deduplicating", paths, parts=2)  # each file is read, and written
    facts = manifests_of(paths, directory, running, None, trouble, bar)
    facts |= _plan(directory, running, which, trouble, indexed)
    facts |= _apply(directory, out, running, trouble, bar=bar)
    lines = [*_planned(facts), _rewritten(facts, "revisits")]
    output.result(facts | troubles(trouble), map(Text, lines))
    trouble.exit()


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
    from frontier.postcrawl.many_files import verified
    from frontier.postcrawl.working_directory import temporary

    trouble = Trouble()
    paths, made = files_given([before]), files_given([after])
    if Path(before).resolve() in Path(after).resolve().parents:
        below = {path.resolve() for path in made}
        paths = [path for path in paths if path.resolve() not in below]
        require_files(paths)
    with (
        temporary("verify") as scratch,
        Bar("comparing", [*paths, *made]) as progress,
    ):
        further = originals_of(originals, scratch, trouble)
        work = running.work(scratch, progress)
        done = verified(paths, made, work, trouble.file, further)
    line = (
        f"{done.records:,} records: {done.identical + done.anew:,} as before, "
        f"{done.revisits:,} now revisits of the same {done.payload_bytes:,} bytes, "
        f"{done.faults:,} faults"
    )
    for fault in done.named:
        complain(fault)
    output.result(done.facts() | troubles(trouble), [Text(line)])
    if done.faults:
        raise typer.Exit(ExitCode.FAULTY)
    trouble.exit()


def restore(
    context: typer.Context,
    given: Files,
    out: Out,
    output: Output,
    running: Running,
    url_prefix: Annotated[
        str, typer.Option("--url-prefix", metavar="URL", help="Only of these URLs.")
    ] = "",
    cdx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only what this CDXJ file lists."),
    ] = None,
    originals: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|DIRECTORY|URL",
            help="Where originals are, beside the files: WARC or WACZ files, or a CDX "
            "server's address.",
        ),
    ] = None,
    replay: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The replay of the CDX server (default: its address without its last "
            "part, as pywb has it).",
        ),
    ] = "",
    with_originals: Annotated[
        bool,
        typer.Option(
            "--with-originals",
            help="Change nothing: write only what is selected, and its originals.",
        ),
    ] = False,
) -> None:
    """Make responses of revisits again, with the payloads of their originals.

    Originals are looked for in the files that are given, and in --originals.
    """
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.many_files import extracted, outs_of, restored
    from frontier.postcrawl.selection import Selection, listed, needed
    from frontier.warc.records import escaped

    trouble, paths, directory = Trouble(), files_given(given), out / "manifests"
    selection = Selection(escaped(url_prefix), listed(cdx) if cdx else None)
    servers = _servers(originals, replay)
    outs_of(paths, out)  # nothing is begun that cannot be done
    hold(context, directory)
    beside = [each for each in originals or () if each not in servers.addresses]
    further = originals_of(beside, directory, trouble)
    if with_originals and servers.addresses:
        raise ConfigurationError("--with-originals takes originals from files alone")
    read = list(dict.fromkeys([*paths, *further]))
    if with_originals:
        outs = outs_of(read, out)
        manifests_of(read, directory, running, Options(every=True), trouble)
        wanted = needed(directory, selection)
        for reason in wanted.missing:
            trouble.record(reason)
        with Bar("writing", read) as progress:
            work = running.work(directory, progress)
            found = extracted(read, outs, work, selection, wanted.originals)
            facts = collected(found, trouble)
        facts["left_out"] = facts.pop("replaced")
        lines = [
            f"{facts['written']:,} files written, without {facts['left_out']:,} records"
        ]
    else:
        outs = outs_of(paths, out)
        for reason in manifests_of(read, directory, running, None, trouble)["undated"]:
            trouble.record(reason)
        with Bar("restoring", paths) as progress:
            work = running.work(directory, progress)
            facts = collected(restored(paths, outs, work, selection, servers), trouble)
        lines = [_rewritten(facts, "responses")]
    output.result(facts | troubles(trouble), map(Text, lines))
    trouble.exit()


def manifests_of(
    paths: Sequence[Path],
    out: Path,
    running: Running,
    options: Any,
    trouble: Trouble,
    bar: Bar | None = None,
) -> dict[str, Any]:
    """Make the manifests of *paths* in *out*; what they come to."""
    from frontier.postcrawl.manifest import Manifest, Options
    from frontier.postcrawl.many_files import Failure, manifests

    files = records = size = 0
    faults: list[str] = []
    undated: list[str] = []
    with bar or Bar("reading", paths) as progress:
        work = running.work(out, progress)
        for _, outcome in manifests(paths, work, options or Options()):
            if isinstance(outcome, Failure):
                trouble.file(outcome.reason)
            elif isinstance(outcome, Manifest):
                faults += outcome.faults
                undated += outcome.undated_named
                if (more := outcome.undated - len(outcome.undated_named)) > 0:
                    undated.append(f"{outcome.file}: {more:,} more without such a date")
                files, records = files + 1, records + outcome.records
                size += outcome.payload_bytes
    facts = {"files": files, "records": records, "payload_bytes": size}
    return facts | {"faults": faults, "undated": undated}


def _plan(
    directory: Path,
    running: Planning,
    which: Which,
    trouble: Trouble,
    indexed: Indexed,
) -> dict[str, Any]:
    from frontier.files import mode_of_environment
    from frontier.postcrawl.indexed_originals import NAMED
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
    from frontier.postcrawl.many_files import applied, outs_of
    from frontier.postcrawl.plan import files_of
    from frontier.postcrawl.remote_files import path_of

    paths = [path_of(file) for file in files_of(directory)]
    outs = paths if out is None else outs_of(paths, out)
    with bar or Bar("comparing" if dry else "writing", paths) as progress:
        work = running.work(directory, progress)
        return collected(applied(paths, outs, work, dry=dry), trouble)


def collected(
    outcomes: Iterator[tuple[Path, object]], trouble: Trouble, counted: str = "replaced"
) -> dict[str, Any]:
    """What *outcomes*, of files that were written, come to, with their *counted*."""
    from frontier.postcrawl.convert import Converted
    from frontier.postcrawl.many_files import Failure
    from frontier.postcrawl.rewriting import Rewritten

    facts = {"written": 0, counted: 0, "bytes_before": 0, "bytes_after": 0}
    for _, outcome in outcomes:
        if isinstance(outcome, Failure):
            trouble.file(outcome.reason)
        elif isinstance(outcome, Rewritten | Converted):
            facts["written"] += 1
            for name in (counted, "bytes_before", "bytes_after"):
                facts[name] += getattr(outcome, name)
            for reason in (*getattr(outcome, "kept", ()), *outcome.unlisted):
                trouble.record(reason)
    return facts


def troubles(trouble: Trouble) -> dict[str, Any]:
    """What was left, for the result of a command."""
    return {"files_left": trouble.files, "records_left": trouble.records}


def _noted(facts: dict[str, Any]) -> str:
    return (
        f"{facts['files']:,} files: {facts['records']:,} records with "
        f"{facts['payload_bytes']:,} bytes of payload"
    )


def _planned(facts: dict[str, Any]) -> list[str]:
    line = (
        f"{facts['copies']:,} of {facts['records']:,} records are copies, with "
        f"{facts['copied_bytes']:,} of {facts['payload_bytes']:,} bytes of payload"
    )
    lines = [line]
    if facts["indexed"] is not None:
        lines.append(f"the collection's index has {facts['indexed']:,} of the payloads")
    return lines


def _rewritten(facts: dict[str, Any], what: str) -> str:
    return (
        f"{facts['written']:,} files written, with {facts['replaced']:,} new {what}: "
        f"{facts['bytes_before']:,} bytes before, {facts['bytes_after']:,} after"
    )


def files_given(given: Iterable[str], *, waczs: bool = False) -> list[Path]:
    """The WARC files that *given* stands for, and with *waczs* the WACZ files.

    Raises:
        Exit: One is not there, or there are none.
    """
    from frontier.postcrawl.files import ENDINGS, WACZ, files_in
    from frontier.postcrawl.remote_files import path_of

    named = [path_of(each) for each in given]
    for path in named:
        if not path.exists():
            complain(f"{path}: there is no such file or directory")
            raise typer.Exit(ExitCode.NOT_FOUND)
    paths = files_in(named, say, (*ENDINGS, WACZ) if waczs else ENDINGS)
    require_files(paths)
    return paths


def require_files(paths: Sequence[Path]) -> None:
    """End the command if *paths* are none.

    Raises:
        Exit: They are.
    """
    if not paths:
        complain("there are no WARC files in what was given")
        raise typer.Exit(ExitCode.NOT_FOUND)


def unpacked_of(
    paths: Sequence[Path], directory: Path, trouble: Trouble, suffix: str = ""
) -> tuple[list[Unpacked], list[Path]]:
    """The WACZ files of *paths*, and the WARC files: those in a WACZ in *directory*."""
    from frontier.errors import FrontierError
    from frontier.files import mode_of_environment
    from frontier.postcrawl.files import WACZ
    from frontier.postcrawl.wacz_files import unpack

    waczs, warcs = [], []
    for path in paths:
        if not path.name.endswith(WACZ):
            warcs.append(path)
            continue
        try:
            waczs.append(unpack(path, directory, mode_of_environment(), suffix))
            warcs += waczs[-1].warcs.values()
        except FrontierError as error:
            trouble.file(str(error))
        except OSError as error:
            trouble.file(f"{error.filename or path}: {error.strerror or error}")
    return waczs, warcs


def _servers(originals: list[str] | None, replay: str) -> Servers:
    """The CDX servers among *originals*: what is on the web and is no file's name.

    Raises:
        ConfigurationError: An address is invalid, or *replay* is of none.
    """
    from frontier.postcrawl.files import ENDINGS, WACZ
    from frontier.postcrawl.remote_files import path_of
    from frontier.postcrawl.remote_originals import Servers
    from frontier.settings.values import addresses as parsed

    found = [
        each
        for each in originals or ()
        if each.startswith(("http://", "https://"))
        and not path_of(each).name.endswith((*ENDINGS, WACZ))
    ]
    try:
        addresses = parsed(" ".join(found))
    except ValueError as error:
        raise ConfigurationError(f"--originals: {error}") from None
    if replay and not (addresses and replay.startswith(("http://", "https://"))):
        raise ConfigurationError("--replay is the http(s) address of a CDX server's")
    return Servers(addresses, replay)


def originals_of(
    given: list[str] | None, directory: Path, trouble: Trouble
) -> list[Path]:
    """The WARC files of ``--originals``; those in a WACZ are taken out first."""
    if not given:
        return []
    from frontier.postcrawl.files import FROM_WACZ

    paths = files_given(given, waczs=True)
    return unpacked_of(paths, directory / "waczs", trouble, FROM_WACZ)[1]


def _sampled(paths: list[Path], share: str) -> list[Path]:
    from frontier.postcrawl.files import sampled

    number = share.removesuffix("%")
    percent = float(number) if re.fullmatch(r"\d{1,3}(\.\d{1,6})?", number) else 0
    if not 0 < percent <= 100:
        raise ConfigurationError(f"--sample {share!r}: not from 0% to 100%")
    return sampled(paths, percent / 100)


def _write_warcsum(
    paths: Sequence[Path], out: Path, running: Planning, parts: int
) -> None:
    from frontier.files import mode_of_environment
    from frontier.postcrawl.manifest import place_of
    from frontier.postcrawl.warcsum import MANIFEST, split, write_manifest

    places = [place for path in paths if (place := place_of(path, out)).exists()]
    mode = mode_of_environment()
    skipped = write_manifest(places, out / MANIFEST, mode)
    if parts:
        with running.planned_by()(out) as engine:
            made = split(engine, places, out / MANIFEST, parts, mode)
        say(f"{made:,} parts: no digest is in two of them")
    if skipped:
        say(f"{skipped:,} records without a digest are not in manifest.warcsum")


def _write_planned(directory: Path, running: Planning) -> None:
    from frontier.files import mode_of_environment
    from frontier.postcrawl.manifest import place_of
    from frontier.postcrawl.plan import files_of
    from frontier.postcrawl.remote_files import path_of
    from frontier.postcrawl.warcsum import write_plan

    places = [place_of(path_of(file), directory) for file in files_of(directory)]
    if not places:
        return
    with running.planned_by()(directory) as engine:
        left = write_plan(engine, places, directory, mode_of_environment())
    if left:
        say(f"{left:,} unresolved records are not in plan.warcsum")


class Bar:
    """A bar of the bytes of *paths*, on a terminal; of all, if it has several *parts*.

    Each part is what the bar is entered for, one after the other.
    """

    def __init__(self, what: str, paths: Sequence[Path], parts: int = 1) -> None:
        console = messages()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._size = sum(path.stat().st_size for path in paths if path.exists())
        self._task = self._bar.add_task(what, total=self._size * parts)
        self._before = -self._size

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        self._before += self._size
        before = self._before
        return lambda done: self._bar.update(self._task, completed=before + done)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
