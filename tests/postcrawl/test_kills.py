"""Each step, really killed at random moments and run again: it ends the same.

A moment is an event that Python's audit hooks see, of all that a run without a kill
has: files opened and renamed, calls of libraries, imports. How fast the machine is does
not matter.
"""

import random
import shutil
import subprocess
import sys

import pytest

from tests.postcrawl.test_dedupe import run, state

PROGRAM = """
import os, signal, sys
import duckdb, pyarrow.parquet
import frontier.postcrawl.many_files, frontier.postcrawl.plan
from frontier.cli import main
end, told = int(sys.argv[1]), sys.argv[2]
sys.argv[1:] = sys.argv[3:]
seen = 0
def count(event, args):
    global seen
    seen += 1
    if seen == end:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
try:
    main()
finally:
    with open(told, "w") as file:
        file.write(str(seen))
"""
STEPS = ("manifest", "plan", "apply", "restore")


class Collection:
    """One that a step is run on, in a directory of its own."""

    def __init__(self, place, before, step):
        self.files, self.manifests = place / "files", place / "manifests"
        self.again = place / "again"
        self._told = place / "events"
        shutil.copytree(before, self.files)
        self.words = {
            "manifest": ["manifest", self.files, "-o", self.manifests],
            "plan": ["plan", self.manifests, "--compare", "always"],
            "apply": ["apply", self.manifests, "--in-place"],
            "restore": ["restore", self.files, "-o", self.again],
        }
        for each in {"manifest": (), "plan": STEPS[:1]}.get(step, STEPS[:2]):
            run(*self.words[each])
        if step == "restore":
            run("apply", self.manifests, "--in-place")
        self._words = ["warc", *map(str, self.words[step])]
        if step != "plan":
            self._words.append("--workers=1")

    def run(self, end=0):
        """Run the step, killed at its event *end*; return its exit code."""
        words = [sys.executable, "-c", PROGRAM, str(end), self._told, *self._words]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode in {0, -9}, done.stderr
        return done.returncode

    def events(self):
        return int(self._told.read_text())

    def end(self):
        """What is there: files, indexes, and what manifests and plan say."""
        import pyarrow.parquet as pq

        found = state(self.files) | {
            f"again/{name}": data
            for name, data in (state(self.again) if self.again.is_dir() else {}).items()
        }
        for place in sorted(self.manifests.glob("*.parquet")):
            rows = pq.read_table(place).to_pylist()
            name = place.name.split(".gz.")[0]  # behind it is where the file is
            found[name] = str(rows).replace(str(self.files), "")
        left = [*self.files.glob("*.open"), *self.manifests.glob("*.open")]
        return found | {"left": left}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.chaos)])
def test_killed_at_random_moments_it_ends_the_same(before, tmp_path, step, kills):
    undisturbed = Collection(tmp_path / "undisturbed", before, step)
    assert undisturbed.run() == 0
    events, wanted = undisturbed.events(), undisturbed.end()
    for number, end in enumerate(random.sample(range(1, events), kills)):
        killed = Collection(tmp_path / str(number), before, step)

        killed.run(end)  # it may have fewer events this time, and end before that one
        assert killed.run() == 0
        assert killed.end() == wanted, f"killed at event {end} of {events}"
