"""``frontier wacz``: WARC files into one WACZ, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frontier.cli.command import (
    Commands,
    Output,
    Overwriting,
    argument,
    flag,
    option,
    options,
)
from frontier.cli.output import ExitCode, Shown, bar, complain, end_with
from frontier.errors import BadWarc, ConfigurationError, NotFound
from frontier.files import mode_of_environment
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.wacz.create import Made, Options


UNRESOLVED = "unresolved revisit"
"""How complaints about revisits without an original begin."""
ELSEWHERE = (
    "{} of {} faults are revisits whose originals are not in it, nor in a WACZ that it "
    "requires; make it again, with --against for those of the earlier crawls"
)


@options
class WaczOptions(Output):
    """Where originals of revisits may be."""

    against: list[Path] = option(
        (), "WACZ", "A WACZ that may hold originals of revisits; may be repeated."
    )


@options
class CreateOptions(Overwriting, WaczOptions):
    """What goes into a WACZ, and how it is made."""

    out: Path = argument("OUT.wacz")
    given: list[Path] = argument("WARC|DIRECTORY")
    seed: list[str] = option((), "URL", "Mark this page as a seed; may be repeated.")
    log: list[Path] = option((), "FILE", "Put this log file into it; may be repeated.")
    title: str = option("", "TEXT", "Title of the collection, for readers.")
    crawl: str = option("", "ID", "Only this crawl's WARC files.")
    strict: bool = flag("Decompress and check every record, too.")


def create(how: CreateOptions) -> Shown:
    """Make a WACZ from WARC files."""
    from frontier.wacz.create import create as make, warc_files
    from frontier.wacz.layout import SUFFIX

    out, given = how.out, how.given
    if out.suffix != SUFFIX:
        raise ConfigurationError(f"{out}: its name has to end in {SUFFIX}")
    if out.exists() and not how.force:
        raise ConfigurationError(f"{out} exists; add --force to overwrite it")
    left_out: list[str] = []
    is_whole = True

    def refused(path: Path, why: str) -> None:
        complain(f"{path} is skipped: {why}")
        left_out.append(path.name)

    def unlisted(error: BadWarc) -> None:
        nonlocal is_whole
        complain(f"not in the index: {error}")
        is_whole = False

    warcs = warc_files(given, crawl_id=how.crawl or None, refused=refused)
    if left_out and not warcs:
        end_with(["no WARC file is left"])
    total, done = sum(path.stat().st_size for path in warcs), 0
    with bar("WARC files", total, bytes_=True) as progress:

        def copied(size: int) -> None:
            nonlocal done
            done += size
            progress(done)

        made = make(out, warcs, _options(how, left_out, unlisted), copied)
    said = {
        "file": str(out),
        "captures": made.captures,
        "pages": made.pages,
        "requires": made.requires,
        "missing": made.missing,
    }
    is_whole = is_whole and not (made.missing or left_out)
    code = ExitCode.OK if is_whole else ExitCode.INCOMPLETE
    return Shown(said, _told(out, made), code=code)


def _options(
    how: CreateOptions, left_out: list[str], unlisted: Callable[[BadWarc], None]
) -> Options:
    from frontier.wacz.create import Options
    from frontier.warc.crawl_log import logs_of

    beside = [
        log for path in how.given if path.is_dir() for log in logs_of(path, how.crawl)
    ]
    return Options(
        how.title,
        frozenset(how.seed),
        (*how.log, *beside),
        tuple(how.against),
        left_out,
        replace=how.force,
        unlisted=unlisted,
        strict=how.strict,
        mode=mode_of_environment(),
    )


def _told(out: Path, made: Made) -> Iterator[str]:
    yield f"{out}: {made.captures:,} captures, {made.pages:,} pages"
    for each in made.requires:
        yield f"needs {each['filename']}"
    if made.read:
        yield f"{made.read:,} files had no index that fits, and were read"
    if made.missing:
        yield (
            f"{made.missing:,} payloads of revisits are in no WACZ given; "
            "name those of the earlier crawls with --against"
        )


@options
class CheckOptions(WaczOptions):
    """What is checked."""

    files: list[Path] = argument("FILE")


def check(given: CheckOptions) -> Shown:
    """Show what is wrong with WACZ files. Reads required ones that lie beside them."""
    from frontier.wacz.check import check as judge

    found, notes = {}, dict[str, list[str]]()
    for path in given.files:
        if not (path.exists() or path.is_symlink()):
            raise NotFound(f"{path}: there is no such file")
        beside = sorted(p for p in path.parent.glob("*.wacz") if p != path)
        told = notes[str(path)] = []
        others = [*given.against, *beside]
        found[str(path)] = judge(path, others, note=told.append)
    code = ExitCode.FAULTY if any(found.values()) else ExitCode.OK
    return Shown(found, _judged(found, notes), code=code)


def _judged(found: dict[str, list[str]], notes: dict[str, list[str]]) -> Iterator[str]:
    """A line for each complaint about a file, or that it is sound, and each note."""
    for name, complaints in found.items():
        for text in (*(complaints or ["sound"]), *notes[name]):
            yield f"{name}: {printable(text)}"
        unresolved = sum(text.startswith(UNRESOLVED) for text in complaints)
        if unresolved:
            yield f"{name}: {ELSEWHERE.format(unresolved, len(complaints))}"


app = Commands(
    "Create and check WACZ files.",
    {
        "create": create,
        "check": check,
    },
)
