"""Each step, really killed at random moments and run again: it ends the same.

A moment is a call or a return in the code of `frontier`, of all that a run without a
kill has: before and behind each write, `fsync` and rename. How fast the machine is does
not matter. A run that has ended before its moment is no kill, and not counted as one.
"""

import json
import random
import shutil
import signal
import subprocess
import sys

import pytest

from frontier.cli.output import ExitCode
from tests.collection.conftest import make_index
from tests.postcrawl.test_dedupe import run, state

__all__ = ("make_index",)
RUNNER = """
import json, os, signal, sys
import duckdb, pyarrow.parquet
import frontier.cli.warc_dedupe, frontier.postcrawl.many_files, frontier.postcrawl.plan
import frontier.cli.warc_remove
from frontier.cli import main

OURS = os.path.dirname(frontier.__file__)

def counted(end, told):
    calls = 0
    def count(frame, event, arg):
        nonlocal calls
        if frame.f_code.co_filename.startswith(OURS):
            calls += 1
            if calls == end:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)
    try:
        main()
    finally:
        sys.setprofile(None)
        os.write(told, b"%d" % calls)

for line in sys.stdin:
    asked = json.loads(line)
    ours, its = os.pipe()
    child = os.fork()
    if not child:
        sys.argv[1:] = asked["words"]
        os.dup2(2, 1)
        counted(asked["end"], its)
        raise SystemExit  # a command that returns is not to go on here
    os.close(its)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    calls = os.read(ours, 100)
    os.close(ours)
    print(json.dumps({"code": code, "calls": int(calls or 0)}), flush=True)
"""
"""Forks for each run: what takes longest is to import duckdb and pyarrow."""
STEPS = ("manifest", "plan", "apply", "restore")


@pytest.fixture(scope="module")
def step_run():
    """Runs a command, killed at its call *end*; returns its exit code and calls."""
    words = [sys.executable, "-c", RUNNER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as runner:

        def ask(words, end=0):
            runner.stdin.write(json.dumps({"words": words, "end": end}) + "\n")
            runner.stdin.flush()
            said = json.loads(runner.stdout.readline())
            return said["code"], said["calls"]

        yield ask
        runner.stdin.close()


class Collection:
    """One that a step is run on, in a directory of its own."""

    def __init__(self, place, before, step):
        self.files, self.manifests = place / "files", place / "manifests"
        self.again = place / "again"
        shutil.copytree(before, self.files)
        words = {
            "manifest": ["manifest", self.files, "-o", self.manifests],
            "plan": ["plan", self.manifests],
            "apply": ["apply", self.manifests, "--in-place"],
            "restore": ["restore", self.files, "-o", self.again],
        }
        for each in {"manifest": (), "plan": STEPS[:1]}.get(step, STEPS[:2]):
            run(*words[each])
        if step == "restore":
            run("apply", self.manifests, "--in-place")
        self.words = ["warc", *map(str, words[step]), "--workers=1"]

    def end(self):
        """What is there: files, indexes, and what manifests and plan say."""
        import pyarrow.parquet as pq

        found = state(self.files) | {
            f"again/{name}": data
            for name, data in (state(self.again) if self.again.is_dir() else {}).items()
        }
        for place in sorted(self.manifests.glob("*.parquet")):
            rows = sorted(map(str, pq.read_table(place, partitioning=None).to_pylist()))
            name = place.name.split(".gz.")[0]  # behind it is where the file is
            found[name] = str(rows).replace(str(self.files), "")
        left = [*self.files.glob("*.open"), *self.manifests.glob("*.open")]
        return found | {"left": left}

    def code_of_a_second_run(self, _):
        """Whoever has ended is done again."""
        return ExitCode.OK


class Removal:
    """A URL leaves two files, and the index of a collection of two crawls."""

    def __init__(self, place, before, index):
        self.files, self.index = place / "files", index
        shutil.copytree(before, self.files)
        for number, path in enumerate(sorted(self.files.glob("*.warc.gz")), 1):
            index.put(path, crawl_id=f"crawl-{number}")
        self.words = [
            *("warc", "remove", str(self.files), "--url", "http://a.example/"),
            *("--collection", index.name, "--redis-url", index.url),
            *("--yes", "--workers=1"),
        ]

    def end(self):
        """What is there: files, their indexes, and the collection's."""
        names = sorted(path.name for path in self.files.iterdir())
        return state(self.files), self.index.everything(), names

    def code_of_a_second_run(self, wanted):
        """There is nothing to remove if all has left before the kill."""
        has_left = self.end()[:2] == wanted[:2]
        return ExitCode.NOT_FOUND if has_left else ExitCode.OK


def check(made, kills, step_run):
    """Kill what *made* of a name makes: at the last moment, and at random ones."""
    undisturbed = made("undisturbed")
    code, calls = step_run(undisturbed.words)
    assert code == ExitCode.OK
    wanted, done = undisturbed.end(), 0
    while done < kills:
        moment = random.randrange(1, calls) if done else calls - 1
        killed = made(f"{done}-{moment}")

        code, had = step_run(killed.words, moment)

        if code == ExitCode.OK:  # it has had fewer calls this time: that was no kill
            assert had < moment
            calls = moment
            continue
        assert code == -signal.SIGKILL
        done += 1
        wants = killed.code_of_a_second_run(wanted)
        assert step_run(killed.words)[0] == wants, f"call {moment} of {calls}"
        assert killed.end() == wanted, f"killed at call {moment} of {calls}"


KILLS = pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.chaos)])


@KILLS
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_random_moments_it_ends_the_same(
    before, tmp_path, step, kills, step_run
):
    check(lambda name: Collection(tmp_path / name, before, step), kills, step_run)


@KILLS
def test_a_removal_killed_at_random_moments_ends_the_same_in_files_and_index(
    before, tmp_path, make_index, kills, step_run
):
    def made(name):
        return Removal(tmp_path / name, before, make_index(name))

    check(made, kills, step_run)
