"""One command at a time in a directory, and nothing left of one that was killed."""

import pytest

from frontier.cli.output import ExitCode
from frontier.errors import DirectoryInUse
from frontier.postcrawl.working_directory import BESIDE, beside, held
from tests.harness import commands
from tests.postcrawl.test_dedupe import run, state


@pytest.mark.parametrize("command", ["manifest", "plan", "apply", "dedupe", "restore"])
def test_two_commands_at_once_are_refused(before, planned, tmp_path, command):
    out = tmp_path / "out"
    words, directory = {
        "manifest": ([before, "-o", planned], planned),
        "plan": ([planned], planned),
        "apply": ([planned, "-o", out], planned),
        "dedupe": ([before, "-o", out], out / "manifests"),
        "restore": ([before, "-o", out], out / "manifests"),
    }[command]
    was = {path: path.read_bytes() for path in planned.rglob("*") if path.is_file()}
    with held(directory):
        done = commands.run("warc", command, *words)

    assert done.returncode == DirectoryInUse.code, done.stderr
    assert {path: path.read_bytes() for path in was} == was
    assert not list(out.glob("*.warc.gz"))
    # It has ended: the next one goes on.
    run(command, *words)


def test_plan_without_manifests_leaves_no_lock(before):
    was = set(before.iterdir())
    done = commands.run("warc", "plan", before)

    assert done.returncode == ExitCode.NOT_FOUND
    wrong = commands.run("warc", "plan", before, "--status", "x")
    assert wrong.returncode == ExitCode.USAGE
    assert set(before.iterdir()) == was


def test_directories_of_a_killed_sort_are_removed(planned):
    for name in ("duckdb-parts", "duckdb-abc"):
        (planned / name).mkdir()
        (planned / name / "part").write_bytes(b"rows")

    run("plan", planned)

    assert not list(planned.glob("duckdb*"))


def test_one_command_works_beside_files_and_leaves_nothing(before):
    path = before / "one.warc.gz"
    (before / BESIDE).mkdir()
    (before / BESIDE / "left").touch()  # by one that was killed
    with beside(path) as directory:
        assert directory == before / BESIDE
        assert not list(directory.iterdir())
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "taken").write_text("out")
        with pytest.raises(DirectoryInUse):
            beside(path).__enter__()
        assert (directory / "taken").exists()
    assert not directory.exists()


def test_files_that_a_killed_removal_took_out_are_no_files_of_the_collection(
    before, tmp_path
):
    left = before / BESIDE / "waczs" / "one.wacz.abc" / "archive"
    left.mkdir(parents=True)
    (left / "one.warc.gz").write_bytes((before / "one.warc.gz").read_bytes())
    was = state(before)

    words = ["warc", "manifest", before, "-o", tmp_path / "m", "--workers=1"]
    done = commands.run(*words)

    assert done.stdout.startswith("2 files: 6 records")
    words = ["remove", before, "--url", "http://b.example/new", "--yes"]
    assert len(run(*words)["records"]) == 1
    assert not (before / BESIDE).exists()
    assert state(before).keys() == was.keys() | {"two.cdxj"}
