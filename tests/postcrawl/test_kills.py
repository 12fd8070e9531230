"""Each step, killed before any of its calls and run again: it ends the same."""

import gzip
import shutil

import pyarrow.parquet as pq
import pytest

import frontier.cli.warc_dedupe
import frontier.cli.warc_remove
import frontier.postcrawl.many_files
import frontier.postcrawl.rewriting  # noqa: F401 - what is imported is read
from frontier.cli.output import ExitCode
from frontier.postcrawl.working_directory import BESIDE
from frontier.wacz.create import Options, create
from tests.collection.conftest import make_index
from tests.harness import commands
from tests.kill_points import KILLS, check_kills
from tests.postcrawl.test_dedupe import run, state

__all__ = ("make_index",)
STEPS = ("manifest", "plan", "apply", "restore")


class Step:
    """A collection that a step is run on, in a directory of its own."""

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
            run(*words["apply"])
        self.words = words[step]

    def run(self):
        """Do it."""
        run(*self.words)

    def after_kill(self):
        """No file is there in part: each inflates to its end."""
        for path in (*self.files.glob("*.gz"), *self.again.glob("*.gz")):
            gzip.decompress(path.read_bytes())

    def end(self):
        """What is there: files, indexes, and what manifests and plan say."""
        found = state(self.files), state(self.again) if self.again.is_dir() else {}
        said = {}
        for place in sorted(self.manifests.glob("*.parquet")):
            rows = sorted(map(str, pq.read_table(place, partitioning=None).to_pylist()))
            name = place.name.split(".gz.")[0]  # behind it is where the file is
            said[name] = str(rows).replace(str(self.files), "")
        left = [*self.files.glob("*.open"), *self.manifests.glob("*.open")]
        return found, said, left


class Removal:
    """A URL leaves a WACZ and a file, and the index of a collection of two crawls."""

    def __init__(self, place, before, index):
        self.files, self.index = place / "files", index
        shutil.copytree(before, self.files)
        for number, path in enumerate(sorted(self.files.glob("*.warc.gz")), 1):
            index.put(path, crawl_id=f"crawl-{number}")
        first = self.files / "one.warc.gz"
        create(self.files / "one.wacz", [first], Options(created=1_600_000_000))
        first.unlink()

    def run(self):
        """Do it; if a run that was killed has done all, there is nothing to remove."""
        words = ["warc", "remove", self.files, "--url", "http://a.example/"]
        words += ["--collection", self.index.name, "--redis-url", self.index.url]
        done = commands.run(*words, "--yes", "--workers=1")
        assert done.returncode in {ExitCode.OK, ExitCode.NOT_FOUND}, done.stderr

    def after_kill(self):
        """Nobody waits for its lease."""
        self.index("DEL", self.index.keys.committer)

    def end(self):
        """What is there: files, their indexes, and the collection's."""
        assert not (self.files / BESIDE).exists()
        names = sorted(path.name for path in self.files.iterdir())
        wacz = (self.files / "one.wacz").read_bytes()
        return state(self.files), self.index.everything(), names, wacz


@KILLS
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_step_ends_the_same_when_repeated(before, tmp_path, step, kills):
    check_kills(lambda name: Step(tmp_path / name, before, step), kills)


@KILLS
def test_a_killed_removal_ends_the_same_in_files_and_index(
    before, tmp_path, make_index, kills
):
    def made(name):
        return Removal(tmp_path / name, before, make_index(name))

    check_kills(made, kills)
