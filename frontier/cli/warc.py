"""``frontier warc``: what is in WARC files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from frontier.cli.command import (
    Commands,
    Output,
    argument,
    flag,
    option,
    options,
)
from frontier.cli.output import (
    ExitCode,
    Shown,
    begin_object,
    complain,
    end_with,
    say,
)
from frontier.cli.warc_dedupe import (
    apply,
    convert,
    dedupe,
    manifest,
    plan,
    verify,
)
from frontier.cli.warc_files import statuses_named
from frontier.cli.warc_remove import remove, restore
from frontier.errors import BadWarc, ConfigurationError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frontier.warc.captures import Listed

T = TypeVar("T")
ENDINGS = (".warc.gz", ".warc")
"""Endings of names of files that are read when a directory is given."""


@options
class ListOptions(Output):
    """Which captures of which files are listed."""

    given: list[Path] = argument("FILE|DIRECTORY")
    url: str = option("", "URL", "Only this URL; * stands for anything.")
    status: str = option("", "N,...", "Only these statuses: 404,5xx.")
    mime: str = option("", "TYPE", "Only this media type: image/*.")


def list_all(how: ListOptions) -> None:
    """List captures: date, status, type, file and offset, URL.

    Examples:
        frontier warc list warcs --status 4xx,5xx --mime 'text/*'
        frontier warc list warcs --url 'https://example.org/*' --json
    """
    from frontier.warc.captures import Wanted, captures

    wanted = Wanted(how.url, statuses_named(how.status), how.mime.lower())
    wrong: list[Path] = []
    paths = _files_in(how.given, wrong)
    if not (paths or wrong):
        places = ", ".join(map(str, how.given))
        missing = f"no WARC files ({', '.join(ENDINGS)}) in {places}"
        end_with([missing], ExitCode.NOT_FOUND)
    separator = ""
    if how.as_json:
        begin_object()
        sys.stdout.write('{"captures": [')
    for path in paths:
        for capture in _readable(path, captures(path), wrong):
            if not wanted.takes(capture.capture):
                continue
            if how.as_json:
                sys.stdout.write(f"{separator}\n{json.dumps(capture.facts())}")
                separator = ","
            else:
                say_out(capture.line())
    if how.as_json:
        complete = json.dumps(not wrong)
        sys.stdout.write(f'\n], "files": {len(paths)}, "complete": {complete}}}\n')
    if wrong:
        raise click.exceptions.Exit(ExitCode.INCOMPLETE)


@options
class ShowOptions:
    """Which record is shown, and how."""

    where: str = argument("FILE|DIRECTORY|FILE:OFFSET")
    what: str = argument("URL|RECORD-ID", default="")
    raw: bool = flag("Write its bytes unchanged, headers included.")


def show_one(how: ShowOptions) -> None:
    """Print one record: its headers, and its body if that is text.

    Of several captures of a URL it shows the last. An id may be that of any record.
    """
    from frontier.warc.captures import raw as bytes_of, shown

    try:
        capture = _one(how.where, how.what)
    except (BadWarc, OSError) as error:
        end_with([_told(Path(how.where), error)])
    wrong: list[Path] = []
    if how.raw:
        for part in _readable(capture.path, bytes_of(capture), wrong):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    else:
        for line in _readable(capture.path, shown(capture), wrong):
            say_out(line)
    if wrong:
        raise click.exceptions.Exit(ExitCode.INCOMPLETE)


def _readable(path: Path, parts: Iterable[T], wrong: list[Path]) -> Iterator[T]:
    """Yield *parts* of *path* as far as it can be read; add it to *wrong* if it cannot.

    Only errors of reading count: an output that takes no more, as with ``| head``, is
    not the file's fault, and its error is raised in the caller.
    """
    try:
        yield from parts
    except (BadWarc, OSError) as error:
        wrong.append(path)
        complain(_told(path, error))


@options
class RepairOptions:
    """The directory whose files are closed."""

    directory: Path = argument("DIRECTORY")


def repair(how: RepairOptions) -> Shown:
    """Close the WARC files of nodes that died.

    Cuts each back to its last whole record, writes its CDXJ index, and closes crawl
    logs after their last whole line. Leaves the files of live nodes alone: they are
    locked. A node that starts on the directory does the same.
    """
    from frontier.files import mode_of_environment
    from frontier.warc.cdxj_sidecar import Listing
    from frontier.warc.crawl_log import repair_logs
    from frontier.warc.repair import repair as repair_all

    directory = how.directory
    if not directory.is_dir():
        raise NotFound(f"{directory} is not a directory")
    listing = Listing(mode=mode_of_environment())
    left: list[Path] = []

    def refused(path: Path, reason: str) -> None:
        left.append(path)
        complain(f"{path} was not repaired: {reason}")

    try:
        repaired = repair_all(directory, listing.write, refused)
        logs = repair_logs(directory, refused)
    except OSError as error:
        end_with([f"{directory} cannot be repaired: {error}"])
    lines = [
        f"{one.file}: removed, it had no whole record"
        if one.removed
        else f"{one.file}: {one.records} records, {one.cut_bytes} bytes cut off"
        for one in repaired
    ]
    lines += [f"{path.name}: closed after its last whole line" for path in logs]
    if not (lines or left):
        lines = [f"nothing to repair in {directory}"]
    return Shown({}, lines, code=ExitCode.INCOMPLETE if left else ExitCode.OK)


def _one(where: str, what: str) -> Listed:
    """The record that *where* and *what* name."""
    from frontier.cdx.lines import INDEXED
    from frontier.warc.captures import at, captures
    from frontier.warc.records import target_uri

    name, _, offset = where.rpartition(":")
    if not what:
        if not (name and offset.isascii() and offset.isdecimal() and len(offset) < 16):
            raise ConfigurationError("name a URL or a record id, or FILE:OFFSET")
        (path,) = _there([Path(name)])
        return at(path, int(offset))
    by_id = what.startswith(("<urn:", "urn:uuid:"))
    wanted = f"<{what.strip('<>')}>" if by_id else target_uri(what)
    found: list[Listed] = []
    count, wrong = 0, list[Path]()
    for path in _files_in([Path(where)], wrong):
        for one in _readable(path, captures(path, () if by_id else INDEXED), wrong):
            if wanted == (one.capture.record_id if by_id else one.capture.url):
                count += 1
                if not found or one.capture.date >= found[0].capture.date:
                    found = [one]
    if not found:
        code = ExitCode.INCOMPLETE if wrong else ExitCode.NOT_FOUND
        end_with([f"there is no {what[:300]} in {where}"], code)
    if count > 1:
        say(f"the last of {count:,}; `frontier warc list` lists the others")
    return found[0]


def _there(paths: list[Path]) -> list[Path]:
    for path in paths:
        if not path.exists():
            raise NotFound(f"{path}: there is no such file or directory")
    return paths


def _files_in(given: list[Path], wrong: list[Path]) -> list[Path]:
    """*given* files, and those below *given* directories.

    What cannot be read, as a file that is not closed, is added to *wrong*.
    """
    from frontier.postcrawl.files import files_in

    def failed(text: str) -> None:
        complain(text)
        wrong.append(Path())

    return files_in(_there(given), failed, failed, ENDINGS)


def _told(path: Path, error: Exception) -> str:
    if isinstance(error, BadWarc):
        return str(error)
    return f"{path}: {getattr(error, 'strerror', None) or error}"


def say_out(line: str) -> None:
    """Print a line that may have any character, on a terminal that may lack some."""
    coding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(line.encode(coding, "replace").decode(coding) + "\n")


app = Commands(
    "List, show, repair and deduplicate what is in WARC files.",
    {
        "list": list_all,
        "show": show_one,
        "repair": repair,
        "convert": convert,
        "dedupe": dedupe,
        "manifest": manifest,
        "plan": plan,
        "apply": apply,
        "verify": verify,
        "restore": restore,
        "remove": remove,
    },
)
