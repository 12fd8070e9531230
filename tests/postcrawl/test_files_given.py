"""Which of the files that are given a command reads, and what it says of the others."""

import os
import shutil

import pytest

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.test_dedupe import revisits, run, state


def told(*words, code=ExitCode.OK):
    """What the command said on stderr, a line each."""
    done = commands.run("warc", *words)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stderr.splitlines()


@pytest.mark.parametrize("command", ["dedupe", "restore", "convert"])
def test_output_below_the_input_is_not_read_by_the_next_run(before, command):
    out = before / "deep" / "out"
    run(command, before, "-o", out)
    was = state(out)

    lines = told(command, before, "-o", out, "--workers=1")

    assert not lines
    assert state(out) == was
    assert not list(out.rglob("out"))


def test_input_below_the_output_directory_is_read(before):
    """Files of a directory above which they are written: nothing is left out."""
    inner = before / "inner"
    inner.mkdir()
    for name in ("one", "two"):
        (before / f"{name}.warc.gz").rename(inner / f"{name}.warc.gz")

    assert run("dedupe", inner, "-o", before)["files"] == 2


def test_file_name_that_is_not_utf_8_is_reported_and_the_rest_is_read(before, tmp_path):
    bad = os.fsencode(before) + b"/caf\xe9.warc.gz"
    shutil.copy(os.fsencode(before / "two.warc.gz"), bad)
    shutil.copy(bad, os.fsencode(before) + b"/caf\xe9.txt")
    out = tmp_path / "after"

    done = run("dedupe", before, "-o", out, code=ExitCode.INCOMPLETE)

    assert done["files_left"] == [f"{before}/caf\\xe9.warc.gz: its name is not UTF-8"]
    assert (done["replaced"], len(revisits(out))) == (3, 3)
    assert run("verify", before, out, code=ExitCode.INCOMPLETE)["faults"] == 0
    given = os.fsdecode(bad)
    lines = told("manifest", given, "-o", tmp_path / "m", code=ExitCode.INCOMPLETE)
    assert lines[0].endswith("caf\\xe9.warc.gz: its name is not UTF-8")


def test_names_in_capitals_are_read(before, tmp_path):
    (before / "one.warc.gz").rename(before / "ONE.WARC.GZ")
    out, made = tmp_path / "after", tmp_path / "made"

    done = run("dedupe", before, "-o", out)

    assert (done["files"], done["replaced"]) == (2, 3)
    assert run("verify", before, out)["faults"] == 0
    run("convert", before, "-o", made)
    assert {path.name for path in made.glob("*.gz")} == {"ONE.warc.gz", "two.warc.gz"}
