"""What somebody meets who has nothing but what is in DIRECTORY.

    python .ci/first_run.py DIRECTORY

The wheel is installed into a venv of its own, in an empty directory, with its
dependencies in the versions of ``.ci/locks/dev.txt``; then ``frontier demo`` is run
there. Of the sdist, all tests are collected: those that there are, not what they say.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / ".ci" / "locks" / "dev.txt"
WALL = 300.0
"""Seconds for one command."""
OURS = ("FRONTIER_", "PYTHON", "REDIS_", "SCRAPY_", "PIP_CONSTRAINT")


def run(*words: str | Path, where: Path) -> str:
    """What *words* print in *where*, with an environment that says nothing of us.

    Raises:
        SystemExit: They failed.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    done = subprocess.run(
        words,
        cwd=where,
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=WALL,
    )
    if done.returncode:
        line = " ".join(map(str, words))
        sys.exit(f"{done.stdout}\n{line}: exit code {done.returncode}")
    return done.stdout


def expect(pattern: str, text: str) -> str:
    """The line of *text* that has *pattern*.

    Raises:
        SystemExit: None has.
    """
    found = re.search(rf"^.*{pattern}.*$", text, re.MULTILINE)
    if not found:
        sys.exit(f"{text}\nno line of this has {pattern!r}")
    return found[0]


def demo(wheel: Path, home: Path) -> None:
    """``pip install WHEEL && frontier demo``, in an empty directory."""
    venv.create(home / "venv", with_pip=True)
    python = home / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    run(*pip, "--constraint", LOCK, wheel, where=home)
    place = home / "empty"
    place.mkdir()
    version = "import frontier; print(frontier.__version__, frontier.__file__)"
    said, file = run(python, "-c", version, where=place).split()
    if said not in wheel.name or not Path(file).is_relative_to(home):
        sys.exit(f"{wheel.name} is installed, but {file} is imported, {said}")
    printed = run(home / "venv" / "bin" / "frontier", "demo", where=place)
    whole = r"(\d+) expected, \1 fetched, 0 fetched twice, 0 missing"
    print(f"frontier {said}: {expect(whole, printed)}")
    if not list(place.glob("warcs/*.warc.gz")):
        sys.exit(f"the demo wrote no WARC file, only {sorted(place.iterdir())}")


def tests(sdist: Path, home: Path) -> None:
    """Collect the tests that *sdist* brings, as they stand there."""
    with tarfile.open(sdist) as archive:
        archive.extractall(home, filter="data")
    (place,) = home.glob("frontier_crawl-*")
    collect = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    printed = run(sys.executable, *collect, where=place)
    print(f"{sdist.name}: {expect('tests collected', printed)}")


def main() -> None:
    """Try both."""
    directory = Path(sys.argv[1]).resolve()
    (wheel,) = directory.glob("*.whl")
    (sdist,) = directory.glob("*.tar.gz")
    for attempt, file in ((demo, wheel), (tests, sdist)):
        with tempfile.TemporaryDirectory(prefix="first-run-") as home:
            attempt(file, Path(home))


if __name__ == "__main__":
    main()
