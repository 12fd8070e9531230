"""``python -m tests.mutants``: changes that no test notices (docs/decisions/tests.md).

Mutants of the packages `MUTATED` are drawn by a seed. Each is written into a copy of
the repository, and the tests that run the changed lines are run there, the quickest
first. A mutant that no test fails for *survives*: it is printed with its place and its
difference, unless `excused.toml` says why no test could notice it.

1.  The work tree is only read. What is tried is what git tracks, as it is
    at the beginning.
2.  A test counts only if it passed in the same copy without a mutant.
3.  A mutant whose tests hang, or whose module cannot be imported, is killed. One that
    is excused is not tried.
4.  With ``--record`` what is found becomes `matrix.jsonl`: of each mutant how many
    tests run what it changes, and the first two of them that fail.
5.  What is found is kept below `KEPT` by what git tracks: a run that was interrupted
    goes on from there.

Exits with 1 if a mutant survives.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.covering import FOLLOWED, WRITTEN
from tests.mutants.mutations import mutants_of
from tests.mutants.warm import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
EXCUSED, MATRIX = HERE / "excused.toml", HERE / "matrix.jsonl"
KEPT = ROOT / "build" / "mutants"
MUTATED = ("seen", "queue", "cluster", "node", "dedupe")
"""Packages of `frontier`."""
TESTS = (
    *(f"tests/{package}" for package in MUTATED),
    "tests/store",
    "tests/warc",
    "tests/session",
    "tests/status",
    "tests/migrate/test_scrapy_redis.py",
    "tests/test_dupefilter.py",
    "tests/test_scheduler.py",
)
"""The tests that may kill: those of whole crawls take too long."""
SCHEDULES = "tests/harness/test_schedules.py::test_a_schedule_holds"
SIMULATED = (
    "tests/harness/test_sim.py"
    "::test_simulated_crawls_with_faults_are_complete_and_repeatable"
)
WHOLE = {
    "frontier/": (SIMULATED, SCHEDULES),
    "frontier/node/controls.py": ("tests/integration/test_control.py",),
    "frontier/node/departure.py": ("tests/integration/test_last_node.py",),
    "frontier/node/journal/": ("tests/integration/test_rebuild.py",),
    "frontier/node/uplink.py": ("tests/integration/test_uplink.py",),
}
"""By the begin of a path tests in other processes, for what survives the others."""
COUNT = 300
SECONDS_PER_MUTANT = 20.0
"""CPU time of tests, while they are traced; the dearer ones are left out."""
HUNG, HUNG_FACTOR = 120.0, 30.0
"""Seconds, and times what its tests took, after which a mutant is taken to hang: a
test that hangs alone has failed by then (`tests.mutants.warm`)."""
_MTIMES = itertools.count(1_000_000_000)
"""One for each file written: bytecode is told apart by size and time."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A test: what it takes, and what it runs."""

    name: str
    seconds: float
    lines: Mapping[str, Sequence[int]]
    """By file, from the root."""


class Copy:
    """A copy of the repository, in which one process of tests runs at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in tracked():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.warm"],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def close(self) -> None:
        """End the process that forks."""
        self._warm.kill()
        self._warm.communicate()

    def write(self, path: str, source: str) -> None:
        """Make *source* what the file *path* has."""
        file = self._directory / path
        file.write_text(source, "utf-8")
        mtime = next(_MTIMES)
        os.utime(file, (mtime, mtime))

    def cover(self, where: str, written: Path) -> None:
        """Have in *written* the tests in *where* that pass, and what they run."""
        followed = ":".join(f"frontier/{package}" for package in MUTATED)
        plugin = ["-p", "no:cacheprovider", "-p", "tests.mutants.covering"]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugin, where],
            cwd=self._directory,
            env={**self._environment, WRITTEN: str(written), FOLLOWED: followed},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if not written.exists():
            raise RuntimeError(f"the tests in {where} could not be run")

    def killers(self) -> tuple[str, ...]:
        """The tests that have failed since this was asked last."""
        failed = self._directory / "failed/v/cache/lastfailed"
        names = json.loads(failed.read_text("utf-8")) if failed.exists() else ()
        failed.unlink(missing_ok=True)
        return tuple(names)

    def test(self, tests: Sequence[Covered]) -> int | None:
        """Run *tests*; the exit code of pytest, or ``None`` if they hang."""
        asked, answers = self._warm.stdin, self._warm.stdout
        assert asked is not None
        assert answers is not None
        seconds = {test.name: test.seconds for test in tests}
        asked.write(json.dumps(seconds).encode() + b"\n")
        process = int(answers.readline())
        limit = HUNG + HUNG_FACTOR * sum(seconds.values())
        in_time, _, _ = select.select([answers], [], [], limit)
        if not in_time:
            os.killpg(process, signal.SIGKILL)
        code = int(answers.readline())
        return code if in_time else None

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._directory)}


def tracked() -> list[str]:
    """The files of the work tree that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = listed.stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def drawn(count: int, seed: int, modules: Sequence[str] = ()) -> list[Mutant]:
    """*count* mutants of *modules*, or of all, in an order that *seed* gives.

    None is excused. Those of lines that have not changed are drawn again when others
    have.
    """
    turns: dict[str, int] = defaultdict(int)

    def rank(mutant: Mutant) -> bytes:
        change = f"{mutant.difference}\0{mutant.was}\0{mutant.becomes}"
        turns[change] += 1
        return hashlib.sha256(f"{seed}\0{turns[change]}\0{change}".encode()).digest()

    known = excuses()
    unexcused = (
        mutant
        for mutant in all_mutants(modules)
        if (mutant.path, unindented(mutant.in_context)) not in known
    )
    return heapq.nsmallest(count, unexcused, key=rank)


def all_mutants(modules: Sequence[str] = ()) -> Iterable[Mutant]:
    """Every mutant of *modules*, or of the packages `MUTATED`."""
    for package in MUTATED:
        for path in sorted((ROOT / "frontier" / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not modules or name.startswith(tuple(modules)):
                yield from mutants_of(name, path.read_text("utf-8"))


def chosen_for(mutant: Mutant, tests: Iterable[Covered]) -> list[Covered]:
    """The *tests* that run what *mutant* changes, the quickest first.

    Of a test with parameters one comes first, and the others after all tests.
    """
    found = []
    for test in tests:
        run = test.lines.get(mutant.path, ())
        if not mutant.lines.isdisjoint(run) or (run and not mutant.lines):
            found.append(test)
    found.sort(key=lambda test: test.seconds)
    turns: dict[str, int] = defaultdict(int)

    def turn(test: Covered) -> int:
        function = test.name.partition("[")[0]
        turns[function] += 1
        return turns[function]

    found.sort(key=turn)
    chosen: list[Covered] = []
    seconds = 0.0
    for test in found:
        if not chosen or seconds + test.seconds <= SECONDS_PER_MUTANT:
            seconds += test.seconds
            chosen.append(test)
    return chosen


def tried(mutant: Mutant, tests: Sequence[Covered], copy: Copy) -> dict[str, Any]:
    """What the matrix says of *mutant*, which *tests* run."""
    whole = [
        Covered(name, UNKNOWN, {})
        for begin, names in WHOLE.items()
        if mutant.path.startswith(begin)
        for name in names
    ]
    killers: tuple[str, ...] = ()
    for some in filter(None, (tests, whole)):
        copy.write(mutant.path, mutant.source)
        try:
            code = copy.test(some)
        finally:
            copy.write(mutant.path, mutant.original)
        killers = copy.killers()
        if code not in {None, 0, 1} and copy.test(some) not in {0, 1}:
            names = " ".join(test.name for test in some)
            raise RuntimeError(f"pytest exits with {code} for {names}")
        if code != 0:
            break
    return {
        "place": f"{mutant.path}:{mutant.line}",
        "was": mutant.was,
        "becomes": mutant.becomes,
        "killed": code != 0,
        "tests": len(tests),
        "killers": killers,
    }


def excuses() -> dict[tuple[str, str], str]:
    """Why a mutant may survive, by its file and its difference in its context."""
    entries = tomllib.loads(EXCUSED.read_text("utf-8"))["excused"]
    return {
        (each["file"], unindented(each["diff"])): each["reason"] for each in entries
    }


def unindented(difference: str) -> str:
    """*difference* without indentation: a line that is moved keeps its excuse."""
    return re.sub(r"(?m)^([ +-])[ ]*", r"\1", difference.strip("\n"))


def stale(known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the excuses *known* that fit no mutant."""
    known = set(known)
    files = sorted({path for path, _ in known})
    there = {(one.path, unindented(one.in_context)) for one in all_mutants(files)}
    return sorted(known - there)


def main() -> int:
    """Try the mutants that are asked for."""
    given = asked_for()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    mutants = drawn(given.count, given.seed, given.modules)
    kept = kept_below()
    own = threading.local()
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as directory,
        ExitStack() as stack,
    ):

        def begin() -> None:
            copy = Copy(Path(directory) / str(threading.get_ident()))
            own.copy = stack.enter_context(closing(copy))

        def cover(where: str) -> list[Covered]:
            written = kept / f"{where.replace('/', '.')}.json"
            if not written.exists():
                own.copy.cover(where, written)
            every = json.loads(written.read_text("utf-8"))
            return [Covered(*each) for each in every]

        def one(mutant: Mutant) -> dict[str, Any]:
            written = kept / hashlib.sha256(mutant.source.encode()).hexdigest()
            if written.exists():
                return dict(json.loads(written.read_text("utf-8")))
            row = tried(mutant, chosen_for(mutant, tests), own.copy)
            written.write_text(json.dumps(row), "utf-8")
            sys.stderr.write("." if row["killed"] else "S")
            sys.stderr.flush()
            return row

        with ThreadPoolExecutor(given.workers, initializer=begin) as pool:
            tests = list(itertools.chain(*pool.map(cover, TESTS)))
            quickest = min(tests, key=lambda test: test.seconds)
            if pool.submit(lambda: own.copy.test([quickest])).result() != 0:
                raise RuntimeError(f"{quickest.name} fails without a mutant")
            sys.stderr.write(f"{len(mutants)} mutants, {len(tests)} tests\n")
            rows = list(pool.map(one, mutants))
    sys.stderr.write("\n")
    report(given, mutants, rows)
    return 0 if all(row["killed"] for row in rows) else 1


def kept_below() -> Path:
    """Where a run of what git tracks now keeps what it finds."""
    digest = hashlib.sha256()
    for name in tracked():
        digest.update(name.encode() + (ROOT / name).read_bytes())
    directory = KEPT / digest.hexdigest()[:16]
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def asked_for() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="write matrix.jsonl")
    parser.add_argument("modules", nargs="*", help="files or folders; default: all")
    return parser.parse_args()


def report(
    given: argparse.Namespace, mutants: list[Mutant], rows: list[dict[str, Any]]
) -> None:
    """Print what survives, and the sums."""
    for mutant, row in zip(mutants, rows, strict=True):
        if not row["killed"]:
            print(f"{row['place']} survives; {row['tests']} tests run it")
            print(mutant.in_context, end="\n\n")
    killed = sum(row["killed"] for row in rows)
    print(json.dumps({"seed": given.seed, "drawn": len(rows), "killed": killed}))
    if given.record:
        lines = sorted(map(json.dumps, rows))
        MATRIX.write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
