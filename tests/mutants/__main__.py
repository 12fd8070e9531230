"""``python -m tests.mutants``: changes that no test notices (docs/decisions/tests.md).

Mutants of the packages `MUTATED` are drawn by a seed. Each is written into a copy of
the repository, and the tests that run the changed lines are run there, the quickest
first. A mutant that no test fails for *survives*: it is printed with its place and its
difference, unless `excused.toml` says why no test could notice it.

1.  The work tree is only read. What is tried is what git tracks, as it is
    at the beginning.
2.  A test counts only if it passed in the same copy without a mutant.
3.  A mutant whose tests hang, or whose module cannot be imported, is killed.
4.  With ``--record`` what is found becomes `matrix.jsonl`: of each mutant how many
    tests of which file kill it, and the only one, if there is no other.

Exits with 1 if a mutant survives or an excuse fits no mutant, and with 2 if the time
was over before all were tried.
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
import time
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tests.mutants.covering import FOLLOWED, WRITTEN
from tests.mutants.mutations import mutants_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
EXCUSED, MATRIX = HERE / "excused.toml", HERE / "matrix.jsonl"
MUTATED = ("seen", "queue", "cluster", "node", "dedupe")
"""Packages of `frontier`."""
TESTS = (
    *(f"tests/{package}" for package in MUTATED),
    "tests/store",
    "tests/warc",
    "tests/session",
    "tests/status/test_gone_nodes.py",
    "tests/test_dupefilter.py",
    "tests/test_scheduler.py",
)
"""The tests that may kill: those of whole crawls take too long."""
COUNT, MINUTES = 300, 60
SECONDS_PER_MUTANT = 20.0
"""Of tests, as they took without a mutant; the slower ones are left out."""
HUNG, HUNG_FACTOR = 60.0, 10.0
"""Seconds, and times what its tests took, after which a mutant is taken to hang."""
OPTIONS = ("-q", "-o", "cache_dir=failed")
"""Of pytest, for one mutant: it notes there which tests have failed."""
_MTIMES = itertools.count(1_000_000_000)
"""One for each file written: bytecode is told apart by size and time."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A test: what it takes, and what it runs."""

    name: str
    seconds: float
    lines: dict[str, frozenset[int]]
    """By file, from the root."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    killed: bool
    tests: int
    """How many tests run what it changes; none kills then."""
    killers: tuple[str, ...] = ()
    """Those of them that fail; none is known of a mutant that hangs."""

    def row(self) -> dict[str, Any]:
        """What the matrix says of it."""
        mutant = self.mutant
        files = Counter(name.partition("::")[0] for name in self.killers)
        return {
            "place": f"{mutant.path}:{mutant.line}",
            "was": mutant.was,
            "becomes": mutant.becomes,
            "killed": self.killed,
            "tests": self.tests,
            "killers": dict(sorted(files.items())),
            "alone": self.killers[0] if len(self.killers) == 1 else None,
        }


class Copy:
    """A copy of the repository, in which one process of tests runs at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in tracked():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
        self._warm: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the process that forks."""
        if self._warm is not None:
            self._warm.kill()
            self._warm.communicate()
            self._warm = None

    def write(self, path: str, source: str) -> None:
        """Make *source* what the file *path* has."""
        file = self._directory / path
        file.write_text(source, "utf-8")
        mtime = next(_MTIMES)
        os.utime(file, (mtime, mtime))

    def cover(self, where: str) -> list[Covered]:
        """The tests in *where* that pass, and what each of them runs."""
        written = self._directory / "covering.json"
        written.unlink(missing_ok=True)
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
        every = json.loads(written.read_text("utf-8"))
        return [
            Covered(
                name,
                facts["seconds"],
                {path: frozenset(lines) for path, lines in facts["lines"].items()},
            )
            for name, facts in every.items()
        ]

    def killers(self) -> tuple[str, ...]:
        """The tests that have failed since this was asked last."""
        failed = self._directory / "failed/v/cache/lastfailed"
        names = json.loads(failed.read_text("utf-8")) if failed.exists() else ()
        failed.unlink(missing_ok=True)
        return tuple(names)

    def test(self, names: Sequence[str], limit: float) -> int | None:
        """Run the tests *names*.

        Returns the exit code of pytest, or ``None`` after *limit* seconds.
        """
        if self._warm is None:
            self._warm = subprocess.Popen(
                [sys.executable, "-m", "tests.mutants.warm"],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        asked, answers = self._warm.stdin, self._warm.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps([*OPTIONS, *names]).encode() + b"\n")
        process = int(answers.readline())
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

    Those of lines that have not changed are drawn again when others have.
    """
    turns: dict[str, int] = defaultdict(int)

    def rank(mutant: Mutant) -> bytes:
        change = f"{mutant.difference}\0{mutant.was}\0{mutant.becomes}"
        turns[change] += 1
        return hashlib.sha256(f"{seed}\0{turns[change]}\0{change}".encode()).digest()

    return heapq.nsmallest(count, all_mutants(modules), key=rank)


def all_mutants(modules: Sequence[str] = ()) -> Iterable[Mutant]:
    """Every mutant of *modules*, or of the packages `MUTATED`."""
    paths = [
        path
        for package in MUTATED
        for path in sorted((ROOT / "frontier" / package).rglob("*.py"))
    ]
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if not modules or any(name.startswith(each) for each in modules):
            yield from mutants_of(name, path.read_text("utf-8"))


def chosen_for(mutant: Mutant, tests: Iterable[Covered]) -> list[Covered]:
    """The *tests* that run what *mutant* changes, the quickest first.

    Of a test with parameters one comes first, and the others after all tests.
    """
    found = []
    for test in tests:
        run = test.lines.get(mutant.path, frozenset[int]())
        if run & mutant.lines or (run and not mutant.lines):
            found.append(test)
    found.sort(key=lambda test: test.seconds)
    turns: dict[str, int] = defaultdict(int)
    ordered: list[tuple[int, Covered]] = []
    for test in found:
        function = test.name.partition("[")[0]
        ordered.append((turns[function], test))
        turns[function] += 1
    ordered.sort(key=lambda each: each[0])
    chosen: list[Covered] = []
    seconds = 0.0
    for _, test in ordered:
        if not chosen or seconds + test.seconds <= SECONDS_PER_MUTANT:
            seconds += test.seconds
            chosen.append(test)
    return chosen


def tried(mutant: Mutant, tests: Sequence[Covered], copy: Copy) -> Outcome:
    """What *tests* say of *mutant* in *copy*."""
    if not tests:
        return Outcome(mutant, killed=False, tests=0)
    limit = HUNG + HUNG_FACTOR * sum(test.seconds for test in tests)
    names = [test.name for test in tests]
    copy.write(mutant.path, mutant.source)
    try:
        code = copy.test(names, limit)
    finally:
        copy.write(mutant.path, mutant.original)
    if code not in {None, 0, 1} and copy.test(names, limit) not in {0, 1}:
        raise RuntimeError(f"pytest exits with {code} for {' '.join(names)}")
    return Outcome(mutant, code != 0, len(tests), copy.killers())


def excuses() -> dict[tuple[str, str], str]:
    """Why a mutant may survive, by its file and its difference in its context."""
    entries: list[dict[str, Any]] = []
    if EXCUSED.exists():
        entries = tomllib.loads(EXCUSED.read_text("utf-8")).get("excused", [])
    return {
        (each["file"], unindented(each["diff"])): each["reason"] for each in entries
    }


def unindented(difference: str) -> str:
    """*difference* without indentation: a line that is moved keeps its excuse."""
    return re.sub(r"(?m)^([ +-])[ ]*", r"\1", difference.strip("\n"))


def stale(known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the excuses *known* that fit no mutant."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for path, diff in known:
        wanted[path].add(diff)
    left = set(known)
    for path, diffs in wanted.items():
        file = ROOT / path
        text = file.read_text("utf-8") if file.exists() else ""
        there = {unindented(mutant.in_context) for mutant in mutants_of(path, text)}
        left -= {(path, diff) for diff in diffs & there}
    return sorted(left)


def main(words: Sequence[str] | None = None) -> int:
    """Try the mutants that *words* ask for."""
    given = asked_for(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end = time.monotonic() + 60 * given.minutes
    mutants = drawn(given.count, given.seed, given.modules)
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as directory,
        _copies(Path(directory), given.workers) as copies,
    ):

        def cover(where: str) -> list[Covered]:
            with _one_of(copies) as copy:
                return copy.cover(where)

        def one(mutant: Mutant) -> Outcome | None:
            if time.monotonic() > end:  # also for those below: the rest is no sample
                return None
            with _one_of(copies) as copy:
                outcome = tried(mutant, chosen_for(mutant, tests), copy)
            sys.stderr.write("." if outcome.killed else "S")
            sys.stderr.flush()
            return outcome

        with ThreadPoolExecutor(given.workers) as pool:
            tests = list(itertools.chain(*pool.map(cover, given.tests)))
            if not any(test.lines for test in tests):
                raise RuntimeError("no test runs a module that is mutated")
            quickest = min(tests, key=lambda test: test.seconds)
            with _one_of(copies) as copy:
                if copy.test([quickest.name], HUNG) != 0:
                    raise RuntimeError(f"{quickest.name} fails without a mutant")
            sys.stderr.write(f"{len(mutants)} mutants, {len(tests)} tests\n")
            outcomes = [each for each in pool.map(one, mutants) if each is not None]
    sys.stderr.write("\n")
    return report(given, len(mutants), outcomes)


def asked_for(words: Sequence[str] | None) -> argparse.Namespace:
    """What *words* ask for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tests", nargs="+", default=TESTS, help="where to look")
    parser.add_argument("--record", action="store_true", help="write matrix.jsonl")
    parser.add_argument("modules", nargs="*", help="files or folders; default: all")
    return parser.parse_args(words)


@contextmanager
def _copies(directory: Path, count: int) -> Iterator[SimpleQueue[Copy]]:
    every = [Copy(directory / str(number)) for number in range(count)]
    queue: SimpleQueue[Copy] = SimpleQueue()
    for copy in every:
        queue.put(copy)
    try:
        yield queue
    finally:
        for copy in every:
            copy.close()


@contextmanager
def _one_of(copies: SimpleQueue[Copy]) -> Iterator[Copy]:
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


def report(given: argparse.Namespace, count: int, outcomes: list[Outcome]) -> int:
    """Print what survived of *count* mutants, and the sums; the exit code."""
    known = excuses()
    excused = unexcused = 0
    for outcome in sorted(outcomes, key=lambda o: (o.mutant.path, o.mutant.line)):
        if outcome.killed:
            continue
        mutant = outcome.mutant
        if (mutant.path, unindented(mutant.in_context)) in known:
            excused += 1
            continue
        unexcused += 1
        said = f"{outcome.tests} tests run it" if outcome.tests else "no test runs it"
        print(f"{mutant.path}:{mutant.line}: survives; {said}")
        print(mutant.in_context, end="\n\n")
    for path, diff in (old := stale(known)):
        print(f"{path}: an excuse fits no mutant:\n{diff}\n")
    sums = {
        "seed": given.seed,
        "drawn": count,
        "tried": len(outcomes),
        "killed": sum(outcome.killed for outcome in outcomes),
        "excused": excused,
        "survived": unexcused,
    }
    print(json.dumps(sums))
    if given.record:
        lines = sorted(json.dumps(outcome.row()) for outcome in outcomes)
        MATRIX.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    if unexcused or old:
        return 1
    return 2 if len(outcomes) < count else 0


if __name__ == "__main__":
    sys.exit(main())
