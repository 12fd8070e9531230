"""``frontier warc repair``, on files of a writer that really was killed."""

import os
import sys
from pathlib import Path

import warm

from frontier.cli.output import ExitCode

ROOT = Path(__file__).parents[2]
WRITER = """
import os, pathlib, signal, sys
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.warc.samples import NOON, an_exchange
writer = WarcWriter(WarcConfig(pathlib.Path(sys.argv[1]), "c", "n"), lambda: NOON)
for number in range(3):
    writer.append(an_exchange(number), "0" * 64)
writer.sync()
(path,) = pathlib.Path(sys.argv[1]).iterdir()
path.open("ab").write(b"\\x1f\\x8bhalf a record")
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(*command):
    return warm.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def repair(directory):
    return run("-m", "frontier", "warc", "repair", directory)


def test_a_killed_writers_file_is_closed_at_its_last_whole_record(tmp_path):
    assert run("-c", WRITER, tmp_path).returncode == -9
    first, second = repair(tmp_path), repair(tmp_path)

    index, path = sorted(tmp_path.iterdir())
    assert (first.returncode, second.returncode) == (ExitCode.OK, ExitCode.OK)
    assert f"{path.name}: 7 records, 15 bytes cut off" in first.stdout
    assert second.stdout.startswith("nothing to repair")
    assert path.suffix == ".gz"
    assert len(index.read_text().splitlines()) == 3


def test_a_killed_writers_log_is_closed_at_its_last_whole_line(tmp_path):
    log = tmp_path / "c-20260101000000000-00000-n.crawl.log.open"
    log.write_text("a line\nhalf a li")
    taken = tmp_path / "c-20260101000000000-00001-n.crawl.log.open"
    for path in (taken, taken.with_suffix("")):
        path.write_text("a line\n")
    done = repair(tmp_path)

    assert log.with_suffix("").read_text() == "a line\n"
    assert f"{log.stem}: closed after its last whole line" in done.stdout
    assert f"{taken} was not repaired: {taken.stem} exists" in done.stderr
    assert done.returncode == ExitCode.INCOMPLETE


def test_repair_of_missing_directory_is_not_found(tmp_path):
    done = repair(tmp_path / "none")

    assert done.returncode == ExitCode.NOT_FOUND
    assert str(tmp_path / "none") in done.stderr
