"""``frontier warc``: deduplication of WARC files after the crawl."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from click import Choice

from frontier.cli.command import argument, flag, option, options
from frontier.cli.output import ExitCode, Shown, complain, say
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
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from frontier.dedupe.revisit_policy import Policy
    from frontier.postcrawl.engines import DuckDb, Engine

STALE = (
    "The CDXJ beside each file is made again. What else has places in the old files is "
    "stale: a WACZ of them, copies that were uploaded, other tools' indexes, these "
    "manifests and their plan."
)


@options
class Manifests:
    """Which manifests are read."""

    directory: Path = argument("MANIFESTS")


@options
class Planning(Running):
    """How a query over all manifests is run."""

    memory: str = option(
        "1GB", "SIZE", "Memory for DuckDB; beyond it, DuckDB sorts on disk."
    )

    def planned_by(self) -> Callable[[Path], AbstractContextManager[Engine]]:
        """The function that makes the engine of a plan, given the directory to sort in.

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


@options
class Which:
    """Which captures may become revisits."""

    status: str = option("200", "N,...", "Only responses with these statuses: 404,5xx.")
    mime_include: str = option("", "TYPE,...", "Only these media types: image/*.")
    mime_exclude: str = option("", "TYPE,...", "Not these media types.")
    min_text_bytes: int = option(
        0, "N", "Only text payloads at least this long.", within=(0, None)
    )
    min_binary_bytes: int = option(
        0, "N", "Only other payloads at least this long.", within=(0, None)
    )

    def policy(self) -> Policy:
        """These options as the policy that a crawl has.

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


FORMS = Choice(["parquet", "warcsum"])
"""The forms in which manifests are written."""


@options
class ManifestOptions(Files, Out, Planning):
    """Which files get manifests, and in what form."""

    digest: str = option("sha256", "NAME", "Of payloads: md5, sha1, sha512, blake3.")
    form: str = option(
        "parquet", None, "Also write manifest.warcsum.", "--format", type=FORMS
    )


def manifest(how: ManifestOptions) -> Shown:
    """List captures and their payload digests in Parquet files.

    Run it again after a kill, or with more files: lists of files that have not changed
    are kept.
    """
    trouble = Trouble()
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.payload import require_algorithm

    require_algorithm("--digest", how.digest)
    paths = files_given(how.given, trouble)
    with hold(how.out):
        said = manifests_of(paths, how.out, how, trouble, Options(how.digest))
        for fault in said.pop("faults"):
            trouble.file(fault)
        for reason in said.pop("undated"):
            trouble.record(reason)
        if how.form == "warcsum" and (n := _write_text(paths, how.out, how)):
            say(f"{n:,} records without a digest are not in manifest.warcsum")
    line = (
        f"{said['files']:,} files: {said['records']:,} records with "
        f"{said['payload_bytes']:,} bytes of payload"
    )
    return trouble.shown(said, [line])


@options
class PlanOptions(Manifests, Planning, Which, Originals):
    """What is planned, and in what form it is written."""

    form: str = option(
        "parquet", None, "Also write plan.warcsum.", "--format", type=FORMS
    )


def plan(how: PlanOptions) -> Shown:
    """Find the captures that copy an earlier one; change nothing."""
    trouble = Trouble()
    from frontier.postcrawl.plan import files_of

    directory, policy = how.directory, how.policy()
    with hold(directory, is_made=True):
        said = _plan(directory, how, policy, trouble, how.originals)
        if how.form == "warcsum":
            _write_text(files_of(directory), directory, how, planned=True)
    return trouble.shown(said, [_planned(said)])


@options
class ApplyOptions(Manifests, Running):
    """What is written where."""

    out: Path | None = option(
        None, "DIR", "Directory for the new files.", "--out", "-o"
    )
    in_place: bool = flag("Replace each file, once it is whole.")


def apply(how: ApplyOptions) -> Shown:
    """Write the files of a plan again, with revisits for copies.

    Each copy is compared with its original before it loses its payload.
    """
    if (how.out is not None) is how.in_place:
        raise ConfigurationError("give --out DIR or --in-place")
    trouble = Trouble()
    from frontier.postcrawl.plan import files_of

    with hold(how.directory, is_made=True):
        files = files_of(how.directory, trouble.file)
        said = _apply(how.directory, files, how.out, how, trouble)
    if how.in_place and said["replaced"]:
        say(STALE)
    return trouble.shown(said, [rewritten(said, "revisits")])


@options
class ConvertOptions(Files, Out, Running):
    """Which files are written again, and where."""


def convert(how: ConvertOptions) -> Shown:
    """Write ARC files, or WARC files of other shapes, as usual WARC.

    That is WARC with a gzip member for each record.
    """
    trouble = Trouble()
    from frontier.postcrawl.convert import convert, name_of
    from frontier.postcrawl.files import outs_of

    paths = files_given(how.given, trouble, without=how.out)
    places = outs_of(paths, how.out)
    outs = [made.with_name(name_of(made)) for made in places]
    outs = [  # x.arc beside x.arc.gz: the new name of each has its whole old name
        made if outs.count(made) == 1 else place.with_name(f"{place.name}.warc.gz")
        for made, place in zip(outs, places, strict=True)
    ]
    made_at = {made.resolve() for made in outs}
    if len(made_at) < len(outs) or made_at & {path.resolve() for path in paths}:
        raise ConfigurationError(
            "two files would get the same name, or a file would be overwritten: "
            "convert them into different directories"
        )
    said = how.written(convert, paths, outs, trouble)
    line = rewritten(said, "records")
    said["records"] = said.pop("replaced")
    return trouble.shown(said, [line])


@options
class DedupeOptions(Files, Out, Planning, Which, Originals):
    """Which files are deduplicated, and how."""


def dedupe(how: DedupeOptions) -> Shown:
    """Manifest, plan and apply: deduplicate into another directory."""
    trouble, out, directory = Trouble(), how.out, how.out / "manifests"
    from frontier.postcrawl.files import outs_of
    from frontier.postcrawl.plan import files_of

    policy = how.policy()
    paths = files_given(how.given, trouble, without=out)
    trouble.require_closed(how)
    outs_of(paths, out)  # raises before anything is begun
    with hold(directory):
        said = manifests_of(paths, directory, how, trouble)
        said |= _plan(directory, how, policy, trouble, how.originals)
        said |= _apply(directory, files_of(directory), out, how, trouble)
    return trouble.shown(said, [_planned(said), rewritten(said, "revisits")])


@options
class VerifyOptions(Running, Originals):
    """What is compared with what."""

    before: str = argument("BEFORE")
    after: str = argument("AFTER")


def verify(how: VerifyOptions) -> Shown:
    """Prove that AFTER has every capture of BEFORE, byte for byte.

    Reads all files of both. A record must be unchanged, or a revisit of the same bytes,
    which must be in AFTER or --originals, or a revisit that has its payload again. In
    which file and directory it is does not matter.
    """
    trouble = Trouble()
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.verify import compare
    from frontier.warc.remote_files import path_of

    paths = files_given([how.before], trouble, without=path_of(how.after))
    made = files_given([how.after], trouble)
    trouble.require_closed(how)
    with TemporaryDirectory(prefix="frontier-verify-") as name:
        scratch, options = Path(name), Options(every=True)
        further = originals_of(how.originals, scratch, trouble)
        first, second, third = (
            _manifests(some, scratch / side, how, trouble, options)
            for side, some in (("0", paths), ("1", made), ("2", further))
        )
        done = compare(first, second, third, scratch)
    for fault in done.named:
        complain(fault)
    if unnamed := done.faults - len(done.named):
        say(f"and {unnamed:,} more")
    rows = {
        "records": done.records,
        "as before": done.identical,
        "the same, with other headers": done.anew or None,
        "now revisits": f"{done.revisits:,} of the same {done.payload_bytes:,} bytes",
        "responses again": done.restored or None,
        "only in AFTER": done.further or None,
        "faults": done.faults,
    }
    code = ExitCode.FAULTY if done.faults else ExitCode.OK
    return trouble.shown(asdict(done), rows, code)


def _manifests(
    paths: Iterable[Path],
    directory: Path,
    running: Running,
    trouble: Trouble,
    options: Any,
) -> list[Path]:
    """Make the manifests of *paths* in *directory*; return where they are."""
    from frontier.postcrawl.manifest import place_of

    if not (paths := list(paths)):
        return []
    for fault in manifests_of(paths, directory, running, trouble, options)["faults"]:
        trouble.file(fault)
    places = [place_of(path, directory) for path in paths]
    return [place for place in places if place.exists()]


def _plan(
    directory: Path,
    running: Planning,
    policy: Policy,
    trouble: Trouble,
    originals: Sequence[str],
) -> dict[str, Any]:
    from frontier.postcrawl.manifest import SUFFIX, Options, stored_manifest
    from frontier.postcrawl.originals import ORIGINALS
    from frontier.postcrawl.plan import make_plan

    where = directory / ORIGINALS
    found = map(stored_manifest, sorted(directory.glob(f"*{SUFFIX}")))
    options = next((Options(each.algorithm) for each in found if each), None)
    further = originals_of(originals, where, trouble)
    only_read = _manifests(further, where, running, trouble, options)
    engine = running.planned_by()
    made = make_plan(directory, policy, engine, trouble.record, only_read)
    if made.unread:
        trouble.record(f"the payloads of {made.unread:,} records cannot be read")
    if made.wrong:
        say(
            f"{made.wrong:,} records have a payload digest that does not match; they "
            "are left as they are"
        )
    return asdict(made)


def _apply(
    directory: Path,
    files: Iterable[str],
    out: Path | None,
    running: Running,
    trouble: Trouble,
) -> dict[str, Any]:
    from frontier.postcrawl.files import outs_of
    from frontier.postcrawl.plan import applying
    from frontier.warc.remote_files import path_of

    paths = [path_of(file) for file in files]
    outs = paths if out is None else outs_of(paths, out)
    return running.performed(applying(directory), paths, outs, trouble)


def _planned(said: dict[str, Any]) -> str:
    return (
        f"{said['copies']:,} of {said['records']:,} records are copies, with "
        f"{said['copied_bytes']:,} of {said['payload_bytes']:,} bytes of payload"
    )


def _write_text(
    files: Iterable[str | Path],
    directory: Path,
    running: Planning,
    *,
    planned: bool = False,
) -> int:
    """Write the manifests of *files*, or the plan, as WARCsum does.

    Return how many records have no digest, and so no line.
    """
    from frontier.postcrawl.manifest import place_of
    from frontier.postcrawl.warcsum import write
    from frontier.warc.remote_files import path_of

    places = [place_of(path_of(str(file)), directory) for file in files]
    places = [place for place in places if place.exists()]
    if not places:
        return 0
    with running.duckdb(directory) as engine:
        return write(engine, places, directory, planned=planned)
